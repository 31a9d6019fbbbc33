/* Views: shapes, order of dims, parts. */
#include "torch_impl.h"

#include <string.h>

static struct node_id self(struct call *c)
{
	return arg_tensor(c, arg_has(c, "self") ? "self" : "input");
}

/* --- shapes --- */

/* Fills in the -1 of a shape of `total` elements. */
static void complete(struct call *c, int64_t *shape, int rank, int64_t total)
{
	int64_t known = 1;
	int open = -1;
	for (int i = 0; i < rank; i++) {
		if (shape[i] == -1 && open < 0)
			open = i;
		else if (shape[i] < 0 || !mul_size(known, shape[i], &known))
			call_fail(c, FS_INVALID, "a shape with %lld", (long long)shape[i]);
	}
	if (open >= 0 && known != 0)
		shape[open] = total / known;
	else if (open >= 0)
		call_fail(c, FS_INVALID, "a shape whose -1 could be anything");
}

void aten_view(struct call *c)
{
	int64_t shape[MAX_RANK];
	struct node_id x = self(c);
	int rank = arg_ints(c, arg_has(c, "size") ? "size" : "shape", shape, MAX_RANK);
	if (rank < 0)
		call_fail(c, FS_INVALID, "argument 'size' is missing");
	complete(c, shape, rank, type_count(type_of(c, x)));
	give(c, emit_reshape(c, x, failed(c) ? 0 : rank, shape));
}

void aten_view_as(struct call *c)
{
	struct node_id x = self(c);
	const struct type *t = type_of(c, arg_tensor(c, "other"));
	give(c, emit_reshape(c, x, t->rank, t->dim));
}

void aten_flatten(struct call *c)
{
	int64_t shape[MAX_RANK + 1];
	struct node_id x = self(c);
	int rank = rank_of(c, x), count = 0;
	int first = arg_dim(c, "start_dim", 0, rank), last = arg_dim(c, "end_dim", -1, rank);
	for (int i = 0; i < rank; i++) {
		if (i <= first || i > last)
			shape[count++] = size_of(c, x, i);
		else
			shape[count - 1] *= size_of(c, x, i);
	}
	if (rank == 0)
		shape[count++] = 1;
	give(c, emit_reshape(c, x, count, shape));
}

void aten_unflatten(struct call *c)
{
	int64_t sizes[MAX_RANK], shape[2 * MAX_RANK];
	struct node_id x = self(c);
	int rank = rank_of(c, x), dim = arg_dim(c, "dim", 0, rank), count = arg_ints(c, "sizes", sizes, MAX_RANK), n = 0;
	complete(c, sizes, count, size_of(c, x, dim));
	for (int i = 0; i < rank && !failed(c); i++) {
		if (i != dim)
			shape[n++] = size_of(c, x, i);
		for (int k = 0; i == dim && k < count; k++)
			shape[n++] = sizes[k];
	}
	give(c, emit_reshape(c, x, n, shape));
}

void aten_expand(struct call *c)
{
	int64_t shape[MAX_RANK];
	struct node_id x = self(c);
	int rank = arg_ints(c, "size", shape, MAX_RANK), more = rank - rank_of(c, x);
	for (int i = 0; i < rank; i++)
		if (shape[i] == -1)
			shape[i] = size_of(c, x, i - more);
	give(c, emit_broadcast(c, x, rank, shape));
}

void aten_expand_as(struct call *c)
{
	struct node_id x = self(c);
	const struct type *t = type_of(c, arg_tensor(c, "other"));
	give(c, emit_broadcast(c, x, t->rank, t->dim));
}

/* Every tensor seen in the shape that all of them broadcast to. */
void aten_broadcast_tensors(struct call *c)
{
	struct node_id *in;
	int64_t shape[MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	int count = arg_tensors(c, "tensors", &in), rank = 0;
	for (int i = 0; i < count; i++)
		rank = rank_of(c, in[i]) > rank ? rank_of(c, in[i]) : rank;
	for (int i = 0; i < count; i++)
		for (int k = 0, shift = rank - rank_of(c, in[i]); k < rank_of(c, in[i]); k++)
			shape[shift + k] = shape[shift + k] == 1 ? size_of(c, in[i], k) : shape[shift + k];
	for (int i = 0; i < count; i++)
		give(c, emit_broadcast(c, in[i], rank, shape));
}

/* Tensors of rank 1 along one dim each, repeated along the others. */
void aten_meshgrid(struct call *c)
{
	struct node_id *in;
	int64_t shape[MAX_RANK], one[MAX_RANK];
	int count = arg_tensors(c, "tensors", &in);
	bool xy = strcmp(arg_string(c, "indexing", "ij"), "xy") == 0 && count > 1;
	if (count > MAX_RANK)
		call_lacks(c, "%s of more than %d tensors", c->text, MAX_RANK);
	for (int i = 0; i < count && !failed(c); i++)
		shape[xy && i < 2 ? 1 - i : i] = type_count(type_of(c, in[i]));
	for (int i = 0; i < count && !failed(c); i++) {
		int at = xy && i < 2 ? 1 - i : i;
		for (int k = 0; k < count; k++)
			one[k] = k == at ? shape[k] : 1;
		give(c, emit_broadcast(c, emit_reshape(c, in[i], count, one), count, shape));
	}
}

void aten_unsqueeze(struct call *c)
{
	struct node_id x = self(c);
	give(c, emit_unsqueeze(c, x, arg_dim(c, "dim", 0, rank_of(c, x) + 1)));
}

void aten_squeeze(struct call *c)
{
	int64_t dims[MAX_RANK], shape[MAX_RANK];
	struct node_id x = self(c);
	int rank = rank_of(c, x), count = arg_dims(c, "dim", rank, dims), n = 0;
	for (int i = 0; i < rank; i++) {
		bool asked = count < 0;
		for (int k = 0; k < count; k++)
			asked |= dims[k] == i;
		if (!asked || size_of(c, x, i) != 1)
			shape[n++] = size_of(c, x, i);
	}
	give(c, emit_reshape(c, x, n, shape));
}

/* --- order of dims --- */

void aten_permute(struct call *c)
{
	int64_t dims[MAX_RANK];
	struct node_id x = self(c);
	int rank = rank_of(c, x);
	if (arg_dims(c, "dims", rank, dims) != rank)
		call_fail(c, FS_INVALID, "argument 'dims' does not fit a tensor of rank %d", rank);
	give(c, emit_permute(c, x, dims));
}

void aten_transpose(struct call *c)
{
	struct node_id x = self(c);
	int rank = rank_of(c, x);
	bool axis = arg_has(c, "axis0");
	int a = arg_dim(c, axis ? "axis0" : "dim0", 0, rank), b = arg_dim(c, axis ? "axis1" : "dim1", 0, rank);
	give(c, emit_swap(c, x, a, b));
}

/* The last two dims. */
void aten_t(struct call *c)
{
	struct node_id x = self(c);
	int rank = rank_of(c, x);
	give(c, rank < 2 ? x : emit_swap(c, x, rank - 2, rank - 1));
}

/* All dims in reverse. */
void aten_numpy_t(struct call *c)
{
	int64_t dims[MAX_RANK];
	struct node_id x = self(c);
	for (int i = 0; i < rank_of(c, x); i++)
		dims[i] = rank_of(c, x) - 1 - i;
	give(c, emit_permute(c, x, dims));
}

void aten_movedim(struct call *c)
{
	int64_t from[MAX_RANK], to[MAX_RANK], dims[MAX_RANK];
	bool taken[MAX_RANK] = { false };
	struct node_id x = self(c);
	int rank = rank_of(c, x), count = arg_dims(c, "source", rank, from);
	if (arg_dims(c, "destination", rank, to) != count)
		call_fail(c, FS_INVALID, "'source' and 'destination' differ in length");
	for (int i = 0; i < rank; i++)
		dims[i] = -1;
	for (int i = 0; i < count && !failed(c); i++) {
		dims[to[i]] = from[i];
		taken[from[i]] = true;
	}
	for (int i = 0, next = 0; i < rank; i++) {
		while (next < rank && taken[next])
			next++;
		if (dims[i] < 0)
			dims[i] = next++;
	}
	give(c, emit_permute(c, x, dims));
}

/* --- parts --- */

/* A bound of a slice: negative counts from the end, beyond is the end. */
static int64_t bound(int64_t v, int64_t size)
{
	v = v < 0 ? (v < -size ? 0 : v + size) : v;
	return v > size ? size : v;
}

void aten_slice(struct call *c)
{
	struct node_id x = self(c);
	int dim = arg_dim(c, "dim", 0, rank_of(c, x));
	int64_t size = size_of(c, x, dim), start = bound(arg_int(c, "start", 0), size);
	int64_t end = bound(arg_int(c, "end", INT64_MAX), size), step = arg_int(c, "step", 1);
	if (step < 1 || rank_of(c, x) == 0)
		call_fail(c, FS_INVALID, "a slice with step %lld of rank %d", (long long)step, rank_of(c, x));
	give(c, emit_slice(c, x, dim, start, end < start ? start : end, step));
}

void aten_select(struct call *c)
{
	struct node_id x = self(c);
	int dim = arg_dim(c, "dim", 0, rank_of(c, x));
	int64_t size = size_of(c, x, dim), index = arg_int_required(c, "index");
	if (index < -size || index >= size || rank_of(c, x) == 0)
		call_fail(c, FS_INVALID, "index %lld of a dim of size %lld", (long long)index, (long long)size);
	index = failed(c) ? 0 : index < 0 ? index + size : index;
	give(c, emit_squeeze(c, emit_slice(c, x, dim, index, index + 1, 1), dim));
}

void aten_narrow(struct call *c)
{
	struct node_id x = self(c);
	int dim = arg_dim(c, "dim", 0, rank_of(c, x));
	int64_t start = bound(arg_int(c, "start", 0), size_of(c, x, dim)), length = arg_int_required(c, "length");
	if (length < 0 || length > size_of(c, x, dim) - start)
		call_fail(c, FS_INVALID, "a part of %lld from %lld", (long long)length, (long long)start);
	give(c, emit_slice(c, x, dim, start, failed(c) ? start : start + length, 1));
}

static void give_part(struct call *c, struct node_id x, int dim, int64_t start, int64_t end)
{
	if (start < 0 || start > end || end > size_of(c, x, dim))
		call_fail(c, FS_INVALID, "parts that do not fit a dim of size %lld", (long long)size_of(c, x, dim));
	give(c, emit_slice(c, x, dim, start, end, 1));
}

#define MAX_PARTS MAX_OPERANDS

/* Equal parts, the last may be smaller; torch gives one part of an empty tensor. */
static void give_equal(struct call *c, struct node_id x, int dim, int64_t part)
{
	int64_t size = size_of(c, x, dim), start = 0;
	if (part < 0 || (part == 0 && size > 0) || (part > 0 && size / part > MAX_PARTS))
		call_fail(c, FS_INVALID, "parts of size %lld", (long long)part);
	do {
		int64_t end = size - start > part ? start + part : size;
		give_part(c, x, dim, start, end);
		start = end;
	} while (start < size && !failed(c));
}

static void give_sizes(struct call *c, struct node_id x, int dim, const int64_t *sizes, int count)
{
	int64_t start = 0, end;
	for (int i = 0; i < count && !failed(c); i++, start = end) {
		if (!add_size(start, sizes[i], &end))
			end = -1;
		give_part(c, x, dim, start, end);
	}
}

/* split.Tensor has one size, split.sizes and split_with_sizes a list. */
void aten_split(struct call *c)
{
	int64_t sizes[MAX_PARTS];
	struct node_id x = self(c);
	int dim = arg_dim(c, "dim", 0, rank_of(c, x));
	bool list = arg_has(c, "split_sizes") || strcmp(c->text, "aten.split.sizes") == 0;
	const char *name = arg_has(c, "split_sizes") ? "split_sizes" : "split_size";
	int count = arg_ints(c, name, sizes, MAX_PARTS);
	if (list)
		give_sizes(c, x, dim, sizes, count);
	else
		give_equal(c, x, dim, count == 1 ? sizes[0] : -1);
}

void aten_chunk(struct call *c)
{
	struct node_id x = self(c);
	int dim = arg_dim(c, "dim", 0, rank_of(c, x));
	int64_t chunks = arg_int_required(c, "chunks"), size = size_of(c, x, dim);
	if (chunks < 1 || chunks > MAX_PARTS)
		call_fail(c, FS_INVALID, "%lld chunks", (long long)chunks);
	give_equal(c, x, dim, failed(c) ? 1 : (size + chunks - 1) / chunks);
}

void aten_tensor_split(struct call *c)
{
	int64_t at[MAX_PARTS];
	struct node_id x = self(c);
	int dim = arg_dim(c, "dim", 0, rank_of(c, x)), count = arg_ints(c, "indices", at, MAX_PARTS - 1);
	int64_t size = size_of(c, x, dim), start = 0;
	if (count < 0) {
		int64_t n = arg_int_required(c, "sections");
		if (n < 1 || n >= MAX_PARTS)
			call_fail(c, FS_INVALID, "%lld sections", (long long)n);
		count = failed(c) ? 0 : (int)n - 1;
		for (int i = 0; i < count; i++)
			at[i] = (i + 1) * (size / n) + (i + 1 < size % n ? i + 1 : size % n);
	}
	for (int i = 0; i <= count && !failed(c); i++) {
		int64_t end = i < count ? bound(at[i], size) : size;
		give_part(c, x, dim, start, end < start ? start : end);
		start = end;
	}
}

void aten_unbind(struct call *c)
{
	struct node_id x = self(c);
	int dim = arg_dim(c, "dim", 0, rank_of(c, x));
	if (rank_of(c, x) == 0 || size_of(c, x, dim) > MAX_PARTS)
		call_fail(c, FS_INVALID, "it cannot be taken apart along dim %d", dim);
	for (int64_t i = 0; i < size_of(c, x, dim) && !failed(c); i++)
		give(c, emit_squeeze(c, emit_slice(c, x, dim, i, i + 1, 1), dim));
}

/* --- the same values --- */

void aten_same(struct call *c)
{
	struct node_id x = self(c);
	give(c, x);
}

/* Asserts and the like: all operands may be read, nothing is made. */
void aten_nothing(struct call *c)
{
	for (int i = 0; i < c->args; i++)
		c->arg[i].used = true;
}

void aten_to(struct call *c)
{
	struct node_id x = self(c);
	enum dtype t = arg_dtype(c, "dtype", dtype_of(c, x));
	if (arg_has(c, "other"))
		t = dtype_of(c, arg_tensor(c, "other"));
	give(c, emit_cast(c, x, t));
}

/* to(dtype) in the name: aten.float, aten.bool ... are not in exports; type_as is. */
void aten_type_as(struct call *c)
{
	struct node_id x = self(c);
	give(c, emit_cast(c, x, dtype_of(c, arg_tensor(c, "other"))));
}

void aten_dropout(struct call *c)
{
	struct node_id x = self(c);
	bool train = arg_bool(c, "train", false) || arg_bool(c, "training", false);
	if (train && arg_real(c, "p", 0) != 0)
		call_lacks(c, "%s with train=True", c->text);
	arg_has(c, "p");
	give(c, x);
}
