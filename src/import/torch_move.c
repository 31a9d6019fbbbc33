/* Data movement: joining, repeating, padding, gathering, scattering. */
#include "torch_impl.h"

#include <string.h>

/* --- joining --- */

/* torch.cat and stack bring their operands to one type. */
static void promote_all(struct call *c, struct node_id *in, int count)
{
	enum dtype t = DT_NONE;
	for (int i = 0; i < count; i++)
		t = i == 0 ? dtype_of(c, in[0])
			   : promoted(c, (struct operand[]){ as_operand(in[i]), as_operand(emit_scalar(c, 0, t)) }, 2);
	for (int i = 0; i < count; i++)
		in[i] = emit_cast(c, in[i], t);
}

/* Old torch lets cat take empty tensors of rank 1 along. */
static int drop_empty(struct call *c, struct node_id *in, int count)
{
	int kept = 0, rank = 0;
	for (int i = 0; i < count; i++)
		rank = rank_of(c, in[i]) > rank ? rank_of(c, in[i]) : rank;
	for (int i = 0; i < count; i++)
		if (rank_of(c, in[i]) != 1 || rank == 1 || size_of(c, in[i], 0) != 0)
			in[kept++] = in[i];
	return kept;
}

static bool same_types(struct call *c, const struct node_id *in, int count)
{
	for (int i = 1; i < count; i++)
		if (dtype_of(c, in[i]) != dtype_of(c, in[0]))
			return false;
	return true;
}

void aten_cat(struct call *c)
{
	struct node_id *in;
	int count = arg_tensors(c, "tensors", &in);
	count = drop_empty(c, in, count);
	if (count == 0) {
		call_fail(c, FS_INVALID, "nothing to join");
		return;
	}
	if (!same_types(c, in, count))
		promote_all(c, in, count);
	give(c, emit_cat(c, in, count, arg_dim(c, "dim", 0, rank_of(c, in[0]))));
}

void aten_stack(struct call *c)
{
	struct node_id *in;
	int count = arg_tensors(c, "tensors", &in);
	int dim = arg_dim(c, "dim", 0, count > 0 ? rank_of(c, in[0]) + 1 : 1);
	if (count == 0)
		call_fail(c, FS_INVALID, "nothing to join");
	if (!same_types(c, in, count))
		promote_all(c, in, count);
	for (int i = 0; i < count; i++)
		in[i] = emit_unsqueeze(c, in[i], dim);
	give(c, emit_cat(c, in, count, dim));
}

/* --- repeating --- */

/* One dim repeated as a whole: [.., n, ..] to [.., times * n, ..]. */
static struct node_id repeat_dim(struct call *c, struct node_id x, int dim, int64_t times)
{
	int64_t shape[MAX_RANK + 1];
	int rank = rank_of(c, x);
	if (times == 1 || failed(c))
		return x;
	memcpy(shape, type_of(c, x)->dim, sizeof(*shape) * (size_t)rank);
	if (shape[dim] == 1) {
		shape[dim] = times;
		return emit_broadcast(c, x, rank, shape);
	}
	if (!mul_size(shape[dim], times, &shape[dim]))
		call_fail(c, FS_INVALID, "too many repeats");
	int64_t whole = shape[dim];
	x = emit_unsqueeze(c, x, dim);
	if (failed(c))
		return NODE_NONE;
	memcpy(shape, type_of(c, x)->dim, sizeof(*shape) * (size_t)(rank + 1));
	shape[dim] = times;
	x = emit_broadcast(c, x, rank + 1, shape);
	memmove(&shape[dim], &shape[dim + 1], sizeof(*shape) * (size_t)(rank - dim));
	shape[dim] = whole;
	return emit_reshape(c, x, rank, shape);
}

/* repeat; tile lets the list be shorter than the rank. */
void aten_repeat(struct call *c)
{
	int64_t times[MAX_RANK], shape[MAX_RANK];
	struct node_id x = arg_tensor(c, "self");
	int count = arg_ints(c, arg_has(c, "dims") ? "dims" : "repeats", times, MAX_RANK), rank = rank_of(c, x);
	int full = count > rank ? count : rank;
	for (int i = 0; i < full; i++)
		shape[i] = i < full - rank ? 1 : size_of(c, x, i - (full - rank));
	x = emit_reshape(c, x, full, shape);
	for (int i = 0; i < count; i++) {
		if (times[i] < 0)
			call_fail(c, FS_INVALID, "%lld repeats", (long long)times[i]);
		x = repeat_dim(c, x, full - count + i, times[i]);
	}
	give(c, x);
}

/* Each element of a dim repeated: [.., n, ..] to [.., n * times, ..]. */
void aten_repeat_interleave(struct call *c)
{
	int64_t shape[MAX_RANK + 1];
	if (strstr(c->text, "Tensor") != NULL) {
		call_lacks(c, "%s (a count for each element)", c->text);
		return;
	}
	struct node_id x = arg_tensor(c, "self");
	int64_t times = arg_int_required(c, "repeats"), total = type_count(type_of(c, x));
	if (!arg_has(c, "dim"))
		x = emit_reshape(c, x, 1, &total);
	int rank = rank_of(c, x), dim = arg_dim(c, "dim", 0, rank);
	arg_has(c, "output_size");
	if (times < 0 || rank == 0)
		call_fail(c, FS_INVALID, "%lld repeats", (long long)times);
	x = emit_unsqueeze(c, x, dim + 1);
	if (failed(c))
		return;
	memcpy(shape, type_of(c, x)->dim, sizeof(*shape) * (size_t)(rank + 1));
	shape[dim + 1] = times;
	x = emit_broadcast(c, x, rank + 1, shape);
	if (!mul_size(shape[dim], times, &shape[dim + 1]))
		call_fail(c, FS_INVALID, "too many repeats");
	memmove(&shape[dim], &shape[dim + 1], sizeof(*shape) * (size_t)(rank - dim));
	give(c, emit_reshape(c, x, rank, shape));
}

static struct node_id roll_dim(struct call *c, struct node_id x, int dim, int64_t by)
{
	int64_t size = size_of(c, x, dim), at = size == 0 ? 0 : (size - by % size) % size;
	if (at == 0 || failed(c))
		return x;
	struct node_id part[2];
	part[0] = emit_slice(c, x, dim, at, size, 1);
	part[1] = emit_slice(c, x, dim, 0, at, 1);
	return emit_cat(c, part, 2, dim);
}

void aten_roll(struct call *c)
{
	int64_t by[MAX_RANK], dims[MAX_RANK];
	struct node_id x = arg_tensor(c, "self");
	const struct type *t = type_of(c, x);
	int64_t total = type_count(t);
	int count = arg_ints(c, "shifts", by, MAX_RANK), n = arg_dims(c, "dims", t->rank, dims);
	bool flat = n <= 0;
	if (flat ? count != 1 : count != n)
		call_fail(c, FS_INVALID, "'shifts' and 'dims' differ in length");
	dims[0] = flat ? 0 : dims[0];
	x = flat ? emit_reshape(c, x, 1, &total) : x;
	for (int i = 0; i < count && !failed(c); i++)
		x = roll_dim(c, x, (int)dims[i], by[i]);
	give(c, flat ? emit_reshape(c, x, t->rank, t->dim) : x);
}

/* x at positions `index` (rank 1) of a dim. */
static struct node_id take(struct call *c, struct node_id x, int dim, struct node_id index)
{
	struct attrs a = { 0 };
	int64_t at = dim;
	attrs_ints(&a, ATTR_DIMS, &at, 1);
	return emit(c, OP_INDEX, (struct node_id[]){ x, index }, 2, &a);
}

void aten_flip(struct call *c)
{
	int64_t dims[MAX_RANK];
	struct node_id x = arg_tensor(c, "self");
	int count = arg_dims(c, "dims", rank_of(c, x), dims);
	for (int i = 0; i < count; i++) {
		int64_t size = size_of(c, x, (int)dims[i]);
		if (size > 1)
			x = take(c, x, (int)dims[i], emit_iota(c, size - 1, -1, size, DT_I64));
	}
	give(c, x);
}

/* --- padding and writing parts --- */

/* One side of a dim: n > 0 adds n constants, n < 0 takes -n elements away. */
static struct node_id pad_side(struct call *c, struct node_id x, int dim, int64_t n, bool front, struct number v)
{
	struct type t = *type_of(c, x);
	if (n == 0 || failed(c))
		return x;
	if (n < 0 && n >= -t.dim[dim])
		return emit_slice(c, x, dim, front ? -n : 0, front ? t.dim[dim] : t.dim[dim] + n, 1);
	t.dim[dim] = n;
	struct node_id more = emit_fill(c, v, (enum dtype)t.dtype, t.rank, t.dim);
	struct node_id part[2] = { front ? more : x, front ? x : more };
	return emit_cat(c, part, 2, dim);
}

/* pad = (last dim: front, back, the dim before: front, back, ..) */
void aten_pad(struct call *c)
{
	int64_t pad[2 * MAX_RANK];
	struct node_id x = arg_tensor(c, "self");
	int count = arg_ints(c, "pad", pad, 2 * MAX_RANK), rank = rank_of(c, x);
	struct number v = arg_has(c, "value") ? arg_number(c, "value") : (struct number){ .kind = VALUE_INT };
	const char *mode = arg_string(c, "mode", "constant");
	if (strcmp(mode, "constant") != 0)
		call_lacks(c, "%s with mode '%s'", c->text, mode);
	if (count % 2 != 0 || count / 2 > rank)
		call_fail(c, FS_INVALID, "argument 'pad' does not fit a tensor of rank %d", rank);
	for (int i = 0; i < count / 2; i++) {
		x = pad_side(c, x, rank - 1 - i, pad[2 * i], true, v);
		x = pad_side(c, x, rank - 1 - i, pad[2 * i + 1], false, v);
	}
	give(c, x);
}

/* x with [start, end) of a dim replaced. */
static struct node_id splice(struct call *c, struct node_id x, struct node_id src, int dim, int64_t start, int64_t end)
{
	struct node_id part[3];
	int count = 0;
	struct type t = *type_of(c, x);
	t.dim[dim] = end - start;
	src = emit_broadcast(c, emit_cast(c, src, (enum dtype)t.dtype), t.rank, t.dim);
	if (start > 0)
		part[count++] = emit_slice(c, x, dim, 0, start, 1);
	if (end > start)
		part[count++] = src;
	if (end < size_of(c, x, dim))
		part[count++] = emit_slice(c, x, dim, end, size_of(c, x, dim), 1);
	return count == 0 ? x : emit_cat(c, part, count, dim);
}

static int64_t bound(int64_t v, int64_t size)
{
	v = v < 0 ? (v < -size ? 0 : v + size) : v;
	return v > size ? size : v;
}

void aten_slice_scatter(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), src = arg_tensor(c, "src");
	int dim = arg_dim(c, "dim", 0, rank_of(c, x));
	int64_t size = size_of(c, x, dim), start = bound(arg_int(c, "start", 0), size);
	int64_t end = bound(arg_int(c, "end", INT64_MAX), size);
	if (arg_int(c, "step", 1) != 1)
		call_lacks(c, "%s with a step", c->text);
	if (!failed(c))
		give(c, splice(c, x, src, dim, start, end < start ? start : end));
}

void aten_select_scatter(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), src = arg_tensor(c, "src");
	int dim = arg_dim(c, "dim", 0, rank_of(c, x));
	int64_t size = size_of(c, x, dim), index = arg_int_required(c, "index");
	if (index < -size || index >= size)
		call_fail(c, FS_INVALID, "index %lld of a dim of size %lld", (long long)index, (long long)size);
	index = failed(c) ? 0 : index < 0 ? index + size : index;
	if (!failed(c))
		give(c, splice(c, x, emit_unsqueeze(c, src, dim), dim, index, index + 1));
}

/* --- gathering --- */

void aten_embedding(struct call *c)
{
	struct node_id w = arg_tensor(c, "weight"), ids = arg_tensor(c, "indices");
	int64_t padding = arg_int(c, "padding_idx", -1);
	struct attrs a = { 0 };
	if (padding >= 0)
		attrs_int(&a, ATTR_PADDING, padding);
	give(c, emit(c, OP_EMBEDDING, (struct node_id[]){ w, ids }, 2, &a));
}

static struct node_id gather(struct call *c, struct node_id x, int dim, struct node_id index)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DIM, dim);
	return emit(c, OP_GATHER, (struct node_id[]){ x, index }, 2, &a);
}

void aten_gather(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), index = arg_tensor(c, "index");
	give(c, gather(c, x, arg_dim(c, "dim", 0, rank_of(c, x)), index));
}

/* The other dims broadcast. */
void aten_take_along_dim(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), index = arg_tensor(c, "indices");
	int rank = rank_of(c, x), dim = arg_dim(c, "dim", 0, rank);
	struct type wide = *type_of(c, index), t = *type_of(c, x);
	if (!arg_has(c, "dim"))
		call_lacks(c, "%s without 'dim'", c->text);
	for (int i = 0; i < rank && i < wide.rank; i++)
		if (i != dim) {
			wide.dim[i] = wide.dim[i] == 1 ? t.dim[i] : wide.dim[i];
			t.dim[i] = wide.dim[i];
		}
	index = emit_broadcast(c, index, wide.rank, wide.dim);
	give(c, gather(c, emit_broadcast(c, x, t.rank, t.dim), dim, index));
}

void aten_index_select(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), index = arg_tensor(c, "index");
	give(c, take(c, x, arg_dim(c, "dim", 0, rank_of(c, x)), index));
}

/* --- scattering --- */

/* torch reads only as much of src as index has. */
static struct node_id trim(struct call *c, struct node_id src, struct node_id index)
{
	for (int i = 0; i < rank_of(c, src) && rank_of(c, src) == rank_of(c, index); i++)
		if (size_of(c, src, i) > size_of(c, index, i))
			src = emit_slice(c, src, i, 0, size_of(c, index, i), 1);
	return src;
}

static void give_scatter(struct call *c, bool accumulate)
{
	struct attrs a = { 0 };
	struct node_id x = arg_tensor(c, "self"), index = arg_tensor(c, "index");
	struct operand src = arg_operand(c, arg_has(c, "value") ? "value" : "src");
	enum dtype t = dtype_of(c, x);
	struct node_id in[3] = { x, index };
	in[2] = node_is(src.node) ? trim(c, src.node, index) : emit_fill(c, src.number, t, 0, NULL);
	const char *reduce = arg_string(c, "reduce", "");
	if (*reduce != '\0' && strcmp(reduce, "add") != 0)
		call_lacks(c, "%s with reduce='%s'", c->text, reduce);
	attrs_int(&a, ATTR_DIM, arg_dim(c, "dim", 0, rank_of(c, x)));
	if (accumulate || *reduce != '\0')
		attrs_int(&a, ATTR_ACCUMULATE, 1);
	give(c, emit(c, OP_SCATTER, in, 3, &a));
}

void aten_scatter(struct call *c)
{
	give_scatter(c, false);
}

void aten_scatter_add(struct call *c)
{
	give_scatter(c, true);
}

/* --- advanced indexing --- */

/* x (and for index_put the values) with the indices that are not None; dims gets which. */
static int read_indices(struct call *c, struct node_id *in, int64_t *dims)
{
	struct node_id *given;
	int count = arg_tensors(c, "indices", &given), n = 0;
	if (count > MAX_RANK) {
		call_fail(c, FS_INVALID, "%d indices", count);
		return 0;
	}
	for (int i = 0; i < count; i++) {
		if (!node_is(given[i]))
			continue;
		if (dtype_of(c, given[i]) == DT_BOOL || dtype_of(c, given[i]) == DT_U8)
			call_lacks(c, "%s by a mask", c->text);
		in[n] = given[i];
		dims[n++] = i;
	}
	return failed(c) ? 0 : n;
}

void aten_index(struct call *c)
{
	struct attrs a = { 0 };
	int64_t dims[MAX_RANK];
	struct node_id in[MAX_RANK + 1];
	in[0] = arg_tensor(c, "self");
	int n = read_indices(c, in + 1, dims);
	attrs_ints(&a, ATTR_DIMS, dims, n);
	give(c, n == 0 ? in[0] : emit(c, OP_INDEX, in, n + 1, &a));
}

/* index_put by one mask, of one value: where() */
static bool put_by_mask(struct call *c, struct node_id x, struct node_id values)
{
	struct node_id *given;
	int64_t shape[MAX_RANK];
	int count = arg_tensors(c, "indices", &given);
	if (count != 1 || !node_is(given[0]) || dtype_of(c, given[0]) != DT_BOOL ||
	    type_count(type_of(c, values)) != 1 || arg_bool(c, "accumulate", false))
		return false;
	for (int i = 0; i < rank_of(c, x); i++)
		shape[i] = i < rank_of(c, given[0]) ? size_of(c, given[0], i) : 1;
	struct node_id mask = emit_reshape(c, given[0], rank_of(c, x), shape);
	values = emit_cast(c, emit_reshape(c, values, 0, NULL), dtype_of(c, x));
	give(c, emit3(c, OP_WHERE, mask, values, x));
	return true;
}

void aten_index_put(struct call *c)
{
	struct attrs a = { 0 };
	int64_t dims[MAX_RANK];
	struct node_id in[MAX_RANK + 2], values = arg_tensor(c, "values");
	in[0] = arg_tensor(c, "self");
	if (failed(c) || put_by_mask(c, in[0], values))
		return;
	int n = read_indices(c, in + 1, dims);
	in[n + 1] = emit_cast(c, values, dtype_of(c, in[0]));
	attrs_ints(&a, ATTR_DIMS, dims, n);
	if (arg_bool(c, "accumulate", false))
		attrs_int(&a, ATTR_ACCUMULATE, 1);
	give(c, n == 0 ? emit_broadcast(c, in[1], rank_of(c, in[0]), type_of(c, in[0])->dim)
		       : emit(c, OP_INDEX_PUT, in, n + 2, &a));
}

/* x with the slices at `index` of a dim replaced. */
void aten_index_copy(struct call *c)
{
	struct attrs a = { 0 };
	struct node_id x = arg_tensor(c, "self"), index = arg_tensor(c, "index"), src = arg_tensor(c, "source");
	int64_t dim = arg_dim(c, "dim", 0, rank_of(c, x)), count = type_count(type_of(c, index));
	if (rank_of(c, x) == 0 || rank_of(c, src) != rank_of(c, x))
		call_lacks(c, "%s of a tensor without dims", c->text);
	attrs_ints(&a, ATTR_DIMS, &dim, 1);
	index = emit_reshape(c, index, 1, &count);
	give(c, emit(c, OP_INDEX_PUT, (struct node_id[]){ x, index, src }, 3, &a));
}

void aten_index_add(struct call *c)
{
	struct attrs a = { 0 };
	struct node_id x = arg_tensor(c, "self"), index = arg_tensor(c, "index"), src = arg_tensor(c, "source");
	int rank = rank_of(c, x), dim = arg_dim(c, "dim", 0, rank);
	int64_t shape[MAX_RANK];
	if (arg_has(c, "alpha") && number_real(arg_number(c, "alpha")) != 1)
		call_lacks(c, "%s with alpha", c->text);
	for (int i = 0; i < rank; i++)
		shape[i] = i == dim ? size_of(c, index, 0) : 1;
	index = emit_broadcast(c, emit_reshape(c, index, rank, shape), rank, type_of(c, src)->dim);
	attrs_int(&a, ATTR_DIM, dim);
	attrs_int(&a, ATTR_ACCUMULATE, 1);
	give(c, emit(c, OP_SCATTER, (struct node_id[]){ x, index, src }, 3, &a));
}

void aten_one_hot(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	int64_t classes = arg_int(c, "num_classes", -1);
	if (classes < 0)
		call_lacks(c, "%s without num_classes", c->text);
	if (failed(c))
		return;
	struct node_id numbers = emit_iota(c, 0, 1, classes, DT_I64);
	x = emit_unsqueeze(c, x, rank_of(c, x));
	give(c, emit_cast(c, emit2(c, OP_EQ, x, numbers), DT_I64));
}
