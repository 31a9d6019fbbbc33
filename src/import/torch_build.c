/* Building IR for a call: emitting with sticky errors, shapes, scalars. */
#include "torch_impl.h"

#include <math.h>
#include <string.h>

const struct type *type_of(const struct call *c, struct node_id n)
{
	static const struct type none = { .dtype = DT_F32 };
	return node_is(n) ? graph_type(c->im->graph, n) : &none;
}

enum dtype dtype_of(const struct call *c, struct node_id n)
{
	return (enum dtype)type_of(c, n)->dtype;
}

int rank_of(const struct call *c, struct node_id n)
{
	return type_of(c, n)->rank;
}

int64_t size_of(const struct call *c, struct node_id n, int dim)
{
	const struct type *t = type_of(c, n);
	return dim >= 0 && dim < t->rank ? t->dim[dim] : 1;
}

void give(struct call *c, struct node_id n)
{
	struct import *im = c->im;
	if (failed(c))
		return;
	struct result *r = vec_push(&im->results);
	r->node = n;
	if (c->target->alias == VIEW && im->steps.count > 0) {
		r->step_count = (int)im->steps.count;
		r->steps = arena_copy(context_arena(im->context), im->steps.items,
				      sizeof(*im->steps.items) * im->steps.count);
	}
	im->steps.count = 0;
}

static void note_step(struct call *c, const struct step *s)
{
	if (c->target->alias == VIEW && !failed(c))
		*vec_push(&c->im->steps) = *s;
}

/* --- emitting --- */

struct node_id emit(struct call *c, enum op op, const struct node_id *in, int count, const struct attrs *a)
{
	struct diag d = { 0 };
	struct node_id made;
	for (int i = 0; i < count; i++)
		if (!node_is(in[i]))
			call_fail(c, FS_INVALID, "an operand is missing");
	if (failed(c))
		return NODE_NONE;
	enum fs_status status = graph_try_emit(c->im->graph, op, in, count, a, c->prov, &made, &d);
	if (status == FS_OK)
		return made;
	call_fail(c, status, "%s", d.text);
	return NODE_NONE;
}

struct node_id emit1(struct call *c, enum op op, struct node_id x)
{
	return emit(c, op, &x, 1, NULL);
}

struct node_id emit2(struct call *c, enum op op, struct node_id x, struct node_id y)
{
	return emit(c, op, (struct node_id[]){ x, y }, 2, NULL);
}

struct node_id emit3(struct call *c, enum op op, struct node_id x, struct node_id y, struct node_id z)
{
	return emit(c, op, (struct node_id[]){ x, y, z }, 3, NULL);
}

struct node_id emit_cast(struct call *c, struct node_id x, enum dtype t)
{
	struct attrs a = { 0 };
	if (t == DT_NONE || dtype_of(c, x) == t)
		return x;
	attrs_int(&a, ATTR_DTYPE, t);
	return emit(c, OP_CAST, &x, 1, &a);
}

struct node_id emit_along(struct call *c, enum op op, struct node_id x, int dim)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DIM, dim);
	return emit(c, op, &x, 1, &a);
}

/* --- views --- */

static bool has_shape(const struct call *c, struct node_id x, int rank, const int64_t *dim)
{
	const struct type *t = type_of(c, x);
	return t->rank == rank && (rank == 0 || memcmp(t->dim, dim, sizeof(*dim) * (size_t)rank) == 0);
}

struct node_id emit_reshape(struct call *c, struct node_id x, int rank, const int64_t *dim)
{
	struct attrs a = { 0 };
	if (has_shape(c, x, rank, dim))
		return x;
	if (rank > MAX_RANK) {
		call_lacks(c, "%s with a shape of more than %d dims", c->text, MAX_RANK);
		return NODE_NONE;
	}
	note_step(c, &(struct step){ .op = OP_RESHAPE, .x = x });
	attrs_ints(&a, ATTR_SHAPE, dim, rank);
	return emit(c, OP_RESHAPE, &x, 1, &a);
}

struct node_id emit_permute(struct call *c, struct node_id x, const int64_t *dims)
{
	struct attrs a = { 0 };
	struct step s = { .op = OP_PERMUTE, .x = x };
	int rank = rank_of(c, x);
	if (rank < 2)
		return x;
	memcpy(s.dims, dims, sizeof(*dims) * (size_t)rank);
	note_step(c, &s);
	attrs_ints(&a, ATTR_DIMS, dims, rank);
	return emit(c, OP_PERMUTE, &x, 1, &a);
}

struct node_id emit_swap(struct call *c, struct node_id x, int a, int b)
{
	int64_t dims[MAX_RANK];
	for (int i = 0; i < MAX_RANK; i++)
		dims[i] = i == a ? b : i == b ? a : i;
	return emit_permute(c, x, dims);
}

struct node_id emit_broadcast(struct call *c, struct node_id x, int rank, const int64_t *dim)
{
	struct attrs a = { 0 };
	int64_t wide[MAX_RANK];
	int more = rank - rank_of(c, x);
	if (more < 0 || rank > MAX_RANK) {
		call_fail(c, FS_INVALID, "rank %d does not broadcast to rank %d", rank_of(c, x), rank);
		return NODE_NONE;
	}
	if (has_shape(c, x, rank, dim))
		return x;
	for (int i = 0; i < rank; i++)
		wide[i] = i < more ? 1 : size_of(c, x, i - more);
	x = emit_reshape(c, x, rank, wide);
	if (has_shape(c, x, rank, dim))
		return x;
	note_step(c, &(struct step){ .op = OP_EXPAND, .x = x });
	attrs_ints(&a, ATTR_SHAPE, dim, rank);
	return emit(c, OP_EXPAND, &x, 1, &a);
}

struct node_id emit_slice(struct call *c, struct node_id x, int dim, int64_t start, int64_t end, int64_t step)
{
	struct attrs a = { 0 };
	if (start == 0 && end == size_of(c, x, dim) && step == 1)
		return x;
	note_step(c, &(struct step){ .op = OP_SLICE, .x = x, .dim = dim, .start = start, .end = end, .stride = step });
	attrs_int(&a, ATTR_DIM, dim);
	attrs_int(&a, ATTR_START, start);
	attrs_int(&a, ATTR_END, end);
	if (step != 1)
		attrs_int(&a, ATTR_STEP, step);
	return emit(c, OP_SLICE, &x, 1, &a);
}

struct node_id emit_cat(struct call *c, const struct node_id *in, int count, int dim)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DIM, dim);
	return emit(c, OP_CAT, in, count, &a);
}

struct node_id emit_unsqueeze(struct call *c, struct node_id x, int dim)
{
	int64_t shape[MAX_RANK + 1];
	int rank = rank_of(c, x);
	for (int i = 0; i <= rank; i++)
		shape[i] = i == dim ? 1 : size_of(c, x, i < dim ? i : i - 1);
	return emit_reshape(c, x, rank + 1, shape);
}

struct node_id emit_squeeze(struct call *c, struct node_id x, int dim)
{
	int64_t shape[MAX_RANK];
	int count = 0;
	for (int i = 0; i < rank_of(c, x); i++)
		if (i != dim)
			shape[count++] = size_of(c, x, i);
	return rank_of(c, x) == 0 ? x : emit_reshape(c, x, count, shape);
}

/* --- constants --- */

/* An integer that a double cannot hold. */
static struct node_id exact_integer(struct call *c, int64_t v)
{
	struct arena *arena = context_arena(c->im->context);
	struct tensor *t = arena_alloc(arena, sizeof(*t));
	*t = (struct tensor){ .dtype = DT_I64, .data = arena_copy(arena, &v, sizeof(v)) };
	struct attrs a = { 0 };
	attrs_tensor(&a, t);
	return emit(c, OP_CONST, NULL, 0, &a);
}

struct node_id emit_fill(struct call *c, struct number v, enum dtype t, int rank, const int64_t *dim)
{
	static const int64_t scalar[1];
	struct attrs a = { 0 };
	double value = number_real(v);
	if (v.kind != VALUE_FLOAT && t == DT_I64 && (v.i >= INT64_C(1) << 53 || v.i <= -(INT64_C(1) << 53)))
		return emit_broadcast(c, exact_integer(c, v.i), rank, dim);
	if (rank > MAX_RANK) {
		call_lacks(c, "%s with a shape of more than %d dims", c->text, MAX_RANK);
		return NODE_NONE;
	}
	if (t == DT_BOOL)
		value = value != 0;
	else if (dtype_class(t) == DC_INT)
		value = trunc(value);
	attrs_float(&a, ATTR_VALUE, value);
	attrs_int(&a, ATTR_DTYPE, t);
	attrs_ints(&a, ATTR_SHAPE, rank == 0 ? scalar : dim, rank);
	return emit(c, OP_FILL, NULL, 0, &a);
}

struct node_id emit_scalar(struct call *c, double v, enum dtype t)
{
	return emit_fill(c, (struct number){ .kind = VALUE_FLOAT, .f = v }, t, 0, NULL);
}

struct node_id emit_iota(struct call *c, int64_t start, int64_t step, int64_t count, enum dtype t)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_START, start);
	attrs_int(&a, ATTR_STEP, step);
	attrs_int(&a, ATTR_DTYPE, t);
	attrs_ints(&a, ATTR_SHAPE, &count, 1);
	return emit(c, OP_IOTA, NULL, 0, &a);
}

/* --- reductions --- */

struct node_id emit_reduce(struct call *c, enum op op, struct node_id x, const int64_t *dims, int count, bool keepdim)
{
	int64_t sorted[MAX_RANK];
	bool in[MAX_RANK] = { false };
	int n = 0;
	struct attrs a = { 0 };
	for (int i = 0; i < count; i++)
		in[dims[i] & (MAX_RANK - 1)] = true;
	for (int i = 0; i < rank_of(c, x); i++)
		if (in[i])
			sorted[n++] = i;
	attrs_ints(&a, ATTR_DIMS, sorted, n);
	if (keepdim)
		attrs_int(&a, ATTR_KEEPDIM, 1);
	return emit(c, op, &x, 1, &a);
}

/* --- pointwise, with numbers --- */

struct node_id emit_with(struct call *c, enum op op, struct node_id x, double v)
{
	enum dtype t = dtype_of(c, x);
	enum dtype of = dtype_class(t) == DC_INT || t == DT_F64 ? t : DT_F32;
	return emit_cast(c, emit2(c, op, x, emit_scalar(c, v, of)), t);
}

struct node_id emit_wide(struct call *c, struct node_id x)
{
	enum dtype t = dtype_of(c, x);
	return t == DT_BF16 || t == DT_F16 ? emit_cast(c, x, DT_F32) : x;
}

/* The type of two, as torch.promote_types. */
static enum dtype wider(enum dtype a, enum dtype b)
{
	if (a == b || b == DT_NONE)
		return a;
	if (a == DT_NONE || dtype_class(a) < dtype_class(b))
		return b;
	if (dtype_class(a) > dtype_class(b))
		return a;
	if (dtype_is_float(a) && dtype_size(a) == dtype_size(b))
		return DT_F32; /* bf16 and f16 */
	if (dtype_size(a) == dtype_size(b))
		return DT_I16; /* i8 and u8 */
	return dtype_size(a) > dtype_size(b) ? a : b;
}

/* A type of higher priority (tensors with dims, tensors of rank 0, numbers) and one of lower. */
static enum dtype combined(enum dtype high, enum dtype low)
{
	if (high == DT_NONE || low == DT_NONE)
		return high == DT_NONE ? low : high;
	return dtype_class(low) > dtype_class(high) ? wider(high, low) : high;
}

static enum dtype number_dtype(struct number n)
{
	return n.kind == VALUE_FLOAT ? DT_F32 : n.kind == VALUE_BOOL ? DT_BOOL : DT_I64;
}

enum dtype promoted(struct call *c, const struct operand *in, int count)
{
	enum dtype of[3] = { DT_NONE, DT_NONE, DT_NONE }; /* with dims, of rank 0, numbers */
	for (int i = 0; i < count; i++) {
		bool tensor = node_is(in[i].node);
		int level = !tensor ? 2 : rank_of(c, in[i].node) == 0;
		of[level] = wider(of[level], tensor ? dtype_of(c, in[i].node) : number_dtype(in[i].number));
	}
	return combined(of[0], combined(of[1], of[2]));
}

/* Choosing or comparing, where no arithmetic is done. */
static bool compares(enum op op)
{
	return op == OP_MAXIMUM || op == OP_MINIMUM || op == OP_EQ || op == OP_NE || op == OP_LT || op == OP_LE || op == OP_GT || op == OP_GE;
}

/* Numbers take part in f32, as in torch's kernels for half precision, but comparing is in the tensor's type. */
static enum dtype scalar_dtype(enum op op, enum dtype common)
{
	return (common == DT_BF16 || common == DT_F16) && !compares(op) ? DT_F32 : common;
}

/* The type that torch gives where IR has only operands of rank 0, or NONE: whatever is inferred. */
static enum dtype result_dtype(enum op op, enum dtype common, enum dtype made)
{
	if (made == DT_BOOL || (op == OP_DIV && !dtype_is_float(common)))
		return made;
	return common;
}

struct node_id emit_pointwise(struct call *c, enum op op, const struct operand *in, int count)
{
	struct node_id node[3] = { NODE_NONE, NODE_NONE, NODE_NONE };
	int first = op == OP_WHERE; /* the condition does not take part */
	enum dtype common = promoted(c, in + first, count - first);
	for (int i = 0; i < count; i++)
		node[i] = node_is(in[i].node) || failed(c) ? in[i].node
			: emit_fill(c, in[i].number, scalar_dtype(op, common), 0, NULL);
	struct node_id made = emit(c, op, node, count, NULL);
	return emit_cast(c, made, failed(c) ? DT_NONE : result_dtype(op, common, dtype_of(c, made)));
}

/* --- matmul --- */

struct node_id emit_matmul(struct call *c, const char *eq, struct node_id a, struct node_id b)
{
	struct equation e;
	struct diag d = { 0 };
	char text[3 * MAX_RANK + 4];
	struct attrs attrs = { 0 };
	enum fs_status status = equation_parse(&e, eq, &d);
	if (status != FS_OK) {
		call_fail(c, status, "%s", d.text);
		return NODE_NONE;
	}
	equation_canonical(&e, text);
	attrs_string(&attrs, ATTR_EQ, text);
	return emit(c, OP_MATMUL, (struct node_id[]){ a, b }, 2, &attrs);
}
