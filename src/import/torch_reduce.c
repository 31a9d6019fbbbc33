/* Reductions, and what works along one dim. */
#include "torch_impl.h"

#include <math.h>
#include <string.h>

struct dims { int count; int64_t at[MAX_RANK]; };

static struct dims all_dims(int rank)
{
	struct dims d = { .count = rank };
	for (int i = 0; i < rank; i++)
		d.at[i] = i;
	return d;
}

/* 'dim', a number or a list; none and the empty list: all. */
static struct dims read_dims(struct call *c, struct node_id x)
{
	struct dims d;
	int rank = rank_of(c, x);
	d.count = arg_dims(c, "dim", rank, d.at);
	return d.count <= 0 || rank == 0 ? all_dims(rank) : d;
}

static int64_t count_over(struct call *c, struct node_id x, const struct dims *d)
{
	int64_t n = 1;
	for (int i = 0; i < d->count; i++)
		n *= size_of(c, x, (int)d->at[i]);
	return n;
}

static struct node_id reduce(struct call *c, enum op op, struct node_id x, const struct dims *d, bool keepdim)
{
	return emit_reduce(c, op, x, d->at, d->count, keepdim);
}

void aten_reduce(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	struct dims d = read_dims(c, x);
	bool keepdim = arg_bool(c, "keepdim", false);
	x = emit_cast(c, x, arg_dtype(c, "dtype", dtype_of(c, x)));
	give(c, reduce(c, c->target->op, x, &d, keepdim));
}

void aten_count_nonzero(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	struct dims d = read_dims(c, x);
	give(c, reduce(c, OP_SUM, emit2(c, OP_NE, x, emit_scalar(c, 0, dtype_of(c, x))), &d, false));
}

/* --- largest, smallest --- */

static enum op index_op(enum op op)
{
	return op == OP_REDUCE_MAX || op == OP_ARGMAX ? OP_ARGMAX : OP_ARGMIN;
}

/* max and min: of all, along a dim (with its index), or of two tensors. */
void aten_extreme(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	enum op op = c->target->op;
	if (arg_has(c, "other")) {
		struct operand in[2] = { as_operand(x), arg_operand(c, "other") };
		give(c, emit_pointwise(c, op == OP_REDUCE_MAX ? OP_MAXIMUM : OP_MINIMUM, in, 2));
		return;
	}
	struct dims d = read_dims(c, x);
	bool keepdim = arg_bool(c, "keepdim", false);
	give(c, reduce(c, op, x, &d, keepdim));
	if (arg_has(c, "dim"))
		give(c, rank_of(c, x) > 0 ? reduce(c, index_op(op), x, &d, keepdim) : emit_scalar(c, 0, DT_I64));
}

/* Without 'dim': the place in the tensor laid flat. */
void aten_arg_extreme(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	bool keepdim = arg_bool(c, "keepdim", false);
	int64_t total = type_count(type_of(c, x)), ones[MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	int rank = rank_of(c, x), dim = arg_dim(c, "dim", 0, rank);
	if (arg_has(c, "dim") && rank > 0) {
		give(c, emit_reduce(c, c->target->op, x, (int64_t[]){ dim }, 1, keepdim));
		return;
	}
	struct node_id n = emit_reduce(c, c->target->op, emit_reshape(c, x, 1, &total), (int64_t[]){ 0 }, 1, false);
	give(c, keepdim ? emit_reshape(c, n, rank, ones) : n);
}

void aten_aminmax(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	struct dims d = read_dims(c, x);
	bool keepdim = arg_bool(c, "keepdim", false);
	give(c, reduce(c, OP_REDUCE_MIN, x, &d, keepdim));
	give(c, reduce(c, OP_REDUCE_MAX, x, &d, keepdim));
}

/* Means of equal windows over the last dims, as many as output_size has. */
void aten_adaptive_avg_pool(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	const struct type *t = type_of(c, x);
	int64_t size[MAX_RANK], split[MAX_RANK], within[MAX_RANK];
	int count = arg_ints(c, "output_size", size, MAX_RANK), outer = t->rank - count, rank = outer;
	if (failed(c))
		return;
	if (outer < 0 || outer + 2 * count > MAX_RANK) {
		call_fail(c, FS_UNSUPPORTED, "%d pooled dims of a tensor of rank %d", count, t->rank);
		return;
	}
	memcpy(split, t->dim, sizeof(split[0]) * (size_t)outer);
	for (int i = 0; i < count; i++) {
		int64_t in = t->dim[outer + i];
		if (size[i] < 1 || in % size[i] != 0) {
			call_fail(c, FS_UNSUPPORTED, "%lld elements pooled to %lld: windows of unequal sizes are not supported",
				  (long long)in, (long long)size[i]);
			return;
		}
		split[rank++] = size[i];
		within[i] = rank;
		split[rank++] = in / size[i];
	}
	give(c, emit_reduce(c, OP_MEAN, emit_reshape(c, x, rank, split), within, count, false));
}

/* --- moments --- */

/* Squares of the distance to the mean, summed over count - correction. */
static struct node_id variance(struct call *c, struct node_id x, const struct dims *d, double correction, bool keepdim)
{
	struct node_id away = emit2(c, OP_SUB, x, reduce(c, OP_MEAN, x, d, true));
	double n = (double)count_over(c, x, d) - correction;
	struct node_id sum = reduce(c, OP_SUM, emit2(c, OP_MUL, away, away), d, keepdim);
	return emit_with(c, OP_DIV, sum, n > 0 ? n : 0);
}

static double read_correction(struct call *c)
{
	if (arg_has(c, "unbiased"))
		return arg_bool(c, "unbiased", true);
	return arg_real(c, "correction", 1);
}

/* var, std (op SQRT), var_mean, std_mean. */
static void give_moments(struct call *c, bool with_mean)
{
	struct node_id x = arg_tensor(c, "self"), w = emit_wide(c, x);
	struct dims d = read_dims(c, x);
	bool keepdim = arg_bool(c, "keepdim", false);
	struct node_id v = variance(c, w, &d, read_correction(c), keepdim);
	if (c->target->op == OP_SQRT)
		v = emit1(c, OP_SQRT, v);
	give(c, emit_cast(c, v, dtype_of(c, x)));
	if (with_mean)
		give(c, emit_cast(c, reduce(c, OP_MEAN, w, &d, keepdim), dtype_of(c, x)));
}

void aten_var(struct call *c)
{
	give_moments(c, false);
}

void aten_var_mean(struct call *c)
{
	give_moments(c, true);
}

/* --- norms --- */

static struct node_id norm(struct call *c, struct node_id x, double ord, const struct dims *d, bool keepdim)
{
	int64_t sorted[MAX_RANK];
	struct attrs a = { 0 };
	int n = 0;
	if (isinf(ord))
		return reduce(c, ord > 0 ? OP_REDUCE_MAX : OP_REDUCE_MIN, emit1(c, OP_ABS, x), d, keepdim);
	if (ord == 0) {
		struct node_id some = emit2(c, OP_NE, x, emit_scalar(c, 0, dtype_of(c, x)));
		return reduce(c, OP_SUM, emit_cast(c, some, dtype_of(c, x)), d, keepdim);
	}
	for (int i = 0; i < rank_of(c, x); i++)
		for (int k = 0; k < d->count; k++)
			if (d->at[k] == i)
				sorted[n++] = i;
	attrs_ints(&a, ATTR_DIMS, sorted, n);
	attrs_float(&a, ATTR_ORD, ord);
	if (keepdim)
		attrs_int(&a, ATTR_KEEPDIM, 1);
	return emit(c, OP_NORM, &x, 1, &a);
}

/* norm calls the order p, linalg_vector_norm ord. */
void aten_norm(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	struct dims d = read_dims(c, x);
	double ord = arg_real(c, arg_has(c, "p") ? "p" : "ord", 2);
	bool keepdim = arg_bool(c, "keepdim", false);
	x = emit_cast(c, x, arg_dtype(c, "dtype", dtype_of(c, x)));
	give(c, norm(c, x, ord, &d, keepdim));
}

/* log(sum(exp(x - m))) + m, with m the largest, 0 where that is infinite */
void aten_logsumexp(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), w = emit_wide(c, x);
	struct dims d = read_dims(c, x);
	bool keepdim = arg_bool(c, "keepdim", false);
	struct node_id most = reduce(c, OP_REDUCE_MAX, w, &d, true);
	struct node_id zero = emit_scalar(c, 0, dtype_of(c, w));
	most = emit3(c, OP_WHERE, emit1(c, OP_ISINF, most), zero, most);
	struct node_id sum = reduce(c, OP_SUM, emit1(c, OP_EXP, emit2(c, OP_SUB, w, most)), &d, true);
	struct node_id n = emit2(c, OP_ADD, emit1(c, OP_LOG, sum), most);
	if (!keepdim)
		n = reduce(c, OP_SUM, n, &d, false);
	give(c, emit_cast(c, n, dtype_of(c, x)));
}

/* --- along one dim --- */

/* softmax, log_softmax; _softmax says half_to_float. */
void aten_softmax(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	int dim = arg_dim(c, "dim", -1, rank_of(c, x));
	enum dtype t = arg_dtype(c, "dtype", dtype_of(c, x));
	if (arg_bool(c, "half_to_float", false))
		t = DT_F32;
	give(c, emit_along(c, c->target->op, emit_cast(c, x, t), dim));
}

/* Rows of which all is -inf give 0. */
void aten_safe_softmax(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	int dim = arg_dim(c, "dim", -1, rank_of(c, x));
	x = emit_cast(c, x, arg_dtype(c, "dtype", dtype_of(c, x)));
	struct node_id none = emit2(c, OP_EQ, x, emit_scalar(c, -INFINITY, dtype_of(c, x)));
	none = emit_reduce(c, OP_ALL, none, (int64_t[]){ dim }, 1, true);
	struct node_id zero = emit_scalar(c, 0, dtype_of(c, x)), n = emit_along(c, OP_SOFTMAX, x, dim);
	give(c, emit3(c, OP_WHERE, none, zero, n));
}

void aten_cumsum(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	int dim = arg_dim(c, "dim", 0, rank_of(c, x));
	enum dtype t = arg_dtype(c, "dtype", DT_NONE);
	x = emit_along(c, OP_CUMSUM, t == DT_NONE ? x : emit_cast(c, x, t), dim);
	give(c, t == DT_NONE ? x : emit_cast(c, x, t));
}

static struct node_id second(struct call *c, struct node_id x)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_INDEX, 1);
	return emit(c, OP_PROJ, &x, 1, &a);
}

void aten_topk(struct call *c)
{
	struct attrs a = { 0 };
	struct node_id x = arg_tensor(c, "self");
	attrs_int(&a, ATTR_DIM, arg_dim(c, "dim", -1, rank_of(c, x)));
	attrs_int(&a, ATTR_K, arg_int_required(c, "k"));
	if (!arg_bool(c, "largest", true))
		attrs_int(&a, ATTR_LARGEST, 0);
	struct node_id values = emit(c, OP_TOPK, &x, 1, &a);
	give(c, values);
	give(c, second(c, values));
}

static struct node_id sort(struct call *c)
{
	struct attrs a = { 0 };
	struct node_id x = arg_tensor(c, "self");
	attrs_int(&a, ATTR_DIM, arg_dim(c, "dim", -1, rank_of(c, x)));
	if (arg_bool(c, "descending", false))
		attrs_int(&a, ATTR_LARGEST, 1);
	return emit(c, OP_SORT, &x, 1, &a);
}

void aten_sort(struct call *c)
{
	struct node_id values = sort(c);
	give(c, values);
	give(c, second(c, values));
}

void aten_argsort(struct call *c)
{
	give(c, second(c, sort(c)));
}

/* Neighbours, n times; of bool: whether they differ. */
void aten_diff(struct call *c)
{
	struct node_id part[3];
	struct node_id x = arg_tensor(c, "self");
	int dim = arg_dim(c, "dim", -1, rank_of(c, x)), count = 0;
	if (arg_has(c, "prepend"))
		part[count++] = arg_tensor(c, "prepend");
	part[count++] = x;
	if (arg_has(c, "append"))
		part[count++] = arg_tensor(c, "append");
	x = emit_cat(c, part, count, dim);
	for (int64_t n = arg_int(c, "n", 1); n > 0 && size_of(c, x, dim) > 0 && !failed(c); n--) {
		int64_t size = size_of(c, x, dim);
		struct node_id low = emit_slice(c, x, dim, 0, size - 1, 1), high = emit_slice(c, x, dim, 1, size, 1);
		x = emit2(c, dtype_of(c, x) == DT_BOOL ? OP_LOGICAL_XOR : OP_SUB, high, low);
	}
	give(c, x);
}

void aten_triangle(struct call *c)
{
	struct attrs a = { 0 };
	struct node_id x = arg_tensor(c, "self");
	attrs_int(&a, ATTR_DIAGONAL, arg_int(c, "diagonal", 0));
	give(c, emit(c, c->target->op, &x, 1, &a));
}
