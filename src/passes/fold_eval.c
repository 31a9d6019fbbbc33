/* fold: sources, views, and what moves or counts elements. */
#include "fold_element.h"
#include "fold_eval.h"

#include <string.h>

#define MAX_ELEMENTS 65536 /* of a value */

typedef bool fold_function(struct fold *f, struct node_id n, struct folded *out);

void folded_dense_strides(const struct type *t, int64_t stride[MAX_RANK])
{
	int64_t s = 1;
	for (int d = t->rank - 1; d >= 0; s *= t->dim[d--])
		stride[d] = s;
}

static size_t element_size(const struct folded *x)
{
	return (size_t)dtype_size((enum dtype)x->type->dtype);
}

char *folded_room(struct fold *f, struct folded *out)
{
	int64_t count = type_count(out->type);
	char *room = arena_array(&f->scratch, (size_t)count, element_size(out));
	f->work -= count;
	out->data = room;
	folded_dense_strides(out->type, out->stride);
	return room;
}

/* --- sources --- */

static bool fold_const(struct fold *f, struct node_id n, struct folded *out)
{
	out->data = graph_tensor(f->g, n)->data;
	folded_dense_strides(out->type, out->stride);
	return true;
}

/* One element with strides of 0. */
static bool fold_fill(struct fold *f, struct node_id n, struct folded *out)
{
	double v = graph_float(f->g, n, ATTR_VALUE, 0);
	char *room = arena_alloc(&f->scratch, 8);
	store_double((enum dtype)out->type->dtype, v, room);
	out->data = room;
	return true;
}

static bool fold_iota(struct fold *f, struct node_id n, struct folded *out)
{
	enum dtype t = (enum dtype)out->type->dtype;
	int64_t start = graph_int(f->g, n, ATTR_START, 0), step = graph_int(f->g, n, ATTR_STEP, 1);
	char *to = folded_room(f, out);
	for (int64_t i = 0; i < out->type->dim[0]; i++, to += element_size(out))
		if (dtype_is_float(t))
			store_double(t, (double)start + (double)i * (double)step, to);
		else
			store_integer(t, int_add(start, int_mul(i, step)), to);
	return true;
}

/* --- views --- */

static bool fold_permute(struct fold *f, struct node_id n, struct folded *out)
{
	const struct folded *x = folded_in(f, n, 0);
	const int64_t *dims;
	int rank = graph_ints(f->g, n, ATTR_DIMS, &dims);
	for (int d = 0; d < rank; d++)
		out->stride[d] = x->stride[dims[d]];
	out->data = x->data;
	return true;
}

static bool fold_expand(struct fold *f, struct node_id n, struct folded *out)
{
	const struct folded *x = folded_in(f, n, 0);
	for (int d = 0; d < out->type->rank; d++)
		out->stride[d] = x->type->dim[d] == out->type->dim[d] ? x->stride[d] : 0;
	out->data = x->data;
	return true;
}

static bool fold_slice(struct fold *f, struct node_id n, struct folded *out)
{
	const struct folded *x = folded_in(f, n, 0);
	int64_t dim = graph_int(f->g, n, ATTR_DIM, 0), start = graph_int(f->g, n, ATTR_START, 0);
	memcpy(out->stride, x->stride, sizeof(out->stride));
	out->data = x->data + start * x->stride[dim] * (int64_t)element_size(x);
	out->stride[dim] *= graph_int(f->g, n, ATTR_STEP, 1);
	return true;
}

/* All elements in row-major order. */
static bool fold_copy(struct fold *f, struct node_id n, struct folded *out)
{
	const struct folded *x = folded_in(f, n, 0);
	int64_t at[MAX_RANK] = { 0 };
	char *to = folded_room(f, out);
	do {
		memcpy(to, folded_at(x, at, x->type->rank), element_size(x));
		to += element_size(x);
	} while (folded_next(x->type, at));
	return true;
}

static bool fold_reshape(struct fold *f, struct node_id n, struct folded *out)
{
	const struct folded *x = folded_in(f, n, 0);
	int64_t dense[MAX_RANK];
	folded_dense_strides(x->type, dense);
	for (int d = 0; d < x->type->rank; d++)
		if (x->type->dim[d] > 1 && x->stride[d] != dense[d])
			return fold_copy(f, n, out);
	folded_dense_strides(out->type, out->stride);
	out->data = x->data;
	return true;
}

/* --- parts --- */

static bool fold_cat(struct fold *f, struct node_id n, struct folded *out)
{
	int64_t dim = graph_int(f->g, n, ATTR_DIM, 0), start = 0;
	char *to = folded_room(f, out);
	for (int k = 0; k < graph_node(f->g, n)->count; k++) {
		const struct folded *x = folded_in(f, n, k);
		int64_t at[MAX_RANK] = { 0 };
		if (type_count(x->type) == 0)
			continue;
		do {
			int64_t offset = start * out->stride[dim];
			for (int d = 0; d < out->type->rank; d++)
				offset += at[d] * out->stride[d];
			memcpy(to + offset * (int64_t)element_size(x), folded_at(x, at, x->type->rank), element_size(x));
		} while (folded_next(x->type, at));
		start += x->type->dim[dim];
	}
	return true;
}

static bool fold_triangle(struct fold *f, struct node_id n, struct folded *out)
{
	const struct folded *x = folded_in(f, n, 0);
	int64_t diagonal = graph_int(f->g, n, ATTR_DIAGONAL, 0), at[MAX_RANK] = { 0 };
	bool upper = graph_op(f->g, n) == OP_TRIU;
	int rank = out->type->rank;
	char *to = folded_room(f, out);
	do {
		int64_t over = at[rank - 1] - at[rank - 2];
		if (upper ? over >= diagonal : over <= diagonal)
			memcpy(to, folded_at(x, at, rank), element_size(x));
		to += element_size(x);
	} while (folded_next(out->type, at));
	return true;
}

/* --- indexing; an index that is out of range stays for the run to complain of --- */

/* Where result element `at` comes from; false: nowhere. */
typedef bool pick_function(struct fold *f, struct node_id n, const struct type *t, const int64_t *at, int64_t *from);

static bool fold_picked(struct fold *f, struct node_id n, pick_function *pick, struct folded *out)
{
	const struct folded *x = folded_in(f, n, 0);
	int64_t at[MAX_RANK] = { 0 }, from[MAX_RANK];
	char *to = folded_room(f, out);
	do {
		if (!pick(f, n, out->type, at, from))
			return false;
		memcpy(to, folded_at(x, from, x->type->rank), element_size(x));
		to += element_size(x);
	} while (folded_next(out->type, at));
	return true;
}

static bool pick_gather(struct fold *f, struct node_id n, const struct type *t, const int64_t *at, int64_t *from)
{
	const struct folded *x = folded_in(f, n, 0), *ids = folded_in(f, n, 1);
	int64_t dim = graph_int(f->g, n, ATTR_DIM, 0);
	memcpy(from, at, sizeof(*at) * t->rank);
	from[dim] = load_integer((enum dtype)ids->type->dtype, folded_at(ids, at, t->rank));
	return from[dim] >= 0 && from[dim] < x->type->dim[dim];
}

static bool pick_index(struct fold *f, struct node_id n, const struct type *t, const int64_t *at, int64_t *from)
{
	const struct folded *x = folded_in(f, n, 0);
	const int64_t *dims;
	int count = graph_ints(f->g, n, ATTR_DIMS, &dims), rank = x->type->rank, wide = t->rank - (rank - count);
	int first = dims[count - 1] - dims[0] == count - 1 ? (int)dims[0] : 0, next = 0, k = 0;
	for (int d = 0; d < rank; d++) {
		if (k < count && dims[k] == d) {
			const struct folded *ids = folded_in(f, n, ++k);
			int64_t i = load_integer((enum dtype)ids->type->dtype, folded_at(ids, at + first, wide));
			from[d] = i < 0 ? i + x->type->dim[d] : i;
			if (from[d] < 0 || from[d] >= x->type->dim[d])
				return false;
			continue;
		}
		next += next == first ? wide : 0;
		from[d] = at[next++];
	}
	return true;
}

static bool fold_gather(struct fold *f, struct node_id n, struct folded *out)
{
	return fold_picked(f, n, pick_gather, out);
}

static bool fold_index(struct fold *f, struct node_id n, struct folded *out)
{
	return fold_picked(f, n, pick_index, out);
}

/* --- sums and the like, of integers and bools: exact in any order --- */

static int64_t join(enum op op, int64_t a, int64_t b)
{
	switch (op) {
	case OP_SUM: return int_add(a, b);
	case OP_PROD: return int_mul(a, b);
	case OP_REDUCE_MAX: return a > b ? a : b;
	case OP_REDUCE_MIN: return a < b ? a : b;
	case OP_ANY: return a != 0 || b != 0;
	default: return a != 0 && b != 0; /* all */
	}
}

/* Strides of the result by dims of the operand: 0 along those reduced. Gives the dims (bit mask). */
static uint32_t reduced_strides(const struct fold *f, struct node_id n, const struct folded *out,
				int64_t stride[MAX_RANK])
{
	const int64_t *dims;
	int count = graph_ints(f->g, n, ATTR_DIMS, &dims), to = 0;
	bool keep = graph_int(f->g, n, ATTR_KEEPDIM, 0) == 1;
	uint32_t reduced = 0;
	for (int k = 0; k < count; k++)
		reduced |= (uint32_t)1 << dims[k];
	for (int d = 0; d < folded_in(f, n, 0)->type->rank; d++) {
		stride[d] = reduced >> d & 1 ? 0 : out->stride[to];
		to += keep || !(reduced >> d & 1);
	}
	return reduced;
}

static bool fold_reduce(struct fold *f, struct node_id n, struct folded *out)
{
	const struct folded *x = folded_in(f, n, 0);
	enum dtype in = (enum dtype)x->type->dtype, t = (enum dtype)out->type->dtype;
	enum op op = graph_op(f->g, n);
	int64_t at[MAX_RANK] = { 0 }, stride[MAX_RANK], size = dtype_size(t);
	if (dtype_is_float(in) || type_count(x->type) == 0)
		return false;
	char *room = folded_room(f, out);
	uint32_t reduced = reduced_strides(f, n, out, stride);
	do {
		char *to = room;
		bool first = true;
		for (int d = 0; d < x->type->rank; d++) {
			to += at[d] * stride[d] * size;
			first &= at[d] == 0 || !(reduced >> d & 1);
		}
		int64_t v = load_integer(in, folded_at(x, at, x->type->rank));
		store_integer(t, first ? v : join(op, load_integer(t, to), v), to);
	} while (folded_next(x->type, at));
	f->work -= type_count(x->type);
	return true;
}

static bool fold_cumsum(struct fold *f, struct node_id n, struct folded *out)
{
	const struct folded *x = folded_in(f, n, 0);
	int64_t dim = graph_int(f->g, n, ATTR_DIM, 0), at[MAX_RANK] = { 0 };
	if (dtype_class((enum dtype)x->type->dtype) != DC_INT && x->type->dtype != DT_BOOL)
		return false;
	int64_t *to = (int64_t *)(void *)folded_room(f, out);
	do {
		int64_t v = load_integer((enum dtype)x->type->dtype, folded_at(x, at, x->type->rank));
		*to = at[dim] > 0 ? int_add(v, to[-out->stride[dim]]) : v;
		to++;
	} while (folded_next(out->type, at));
	return true;
}

/* --- the table --- */

static fold_function *const functions[OP_COUNT] = {
	[OP_CONST] = fold_const,	 [OP_FILL] = fold_fill,		[OP_IOTA] = fold_iota,
	[OP_PERMUTE] = fold_permute,	 [OP_EXPAND] = fold_expand,	[OP_SLICE] = fold_slice,
	[OP_RESHAPE] = fold_reshape,	 [OP_COPY] = fold_copy,		[OP_CAT] = fold_cat,
	[OP_TRIU] = fold_triangle,	 [OP_TRIL] = fold_triangle,	[OP_GATHER] = fold_gather,
	[OP_INDEX] = fold_index,	 [OP_SUM] = fold_reduce,	[OP_PROD] = fold_reduce,
	[OP_REDUCE_MAX] = fold_reduce,	 [OP_REDUCE_MIN] = fold_reduce, [OP_ANY] = fold_reduce,
	[OP_ALL] = fold_reduce,		 [OP_CUMSUM] = fold_cumsum,	[OP_CAST] = fold_pointwise,
};

/* A view needs no room but where it is copied, an operand of any size will do for it. */
static bool is_small(const struct fold *f, struct node_id n, const struct type *t)
{
	int64_t count = type_count(t);
	if (dtype_class((enum dtype)t->dtype) == DC_FP8 || count == 0)
		return false;
	for (int k = 0; k < graph_node(f->g, n)->count; k++) {
		const struct folded *x = folded_in(f, n, k);
		if (x == NULL || type_count(x->type) > MAX_ELEMENTS)
			return false;
	}
	return count <= MAX_ELEMENTS && f->work >= count;
}

const struct folded *fold_node(struct fold *f, struct node_id n)
{
	enum op op = graph_op(f->g, n);
	struct folded made = { .type = graph_type(f->g, n) };
	fold_function *apply = op_is_pointwise(op) ? fold_pointwise : functions[op];
	if (apply == NULL || !is_small(f, n, made.type) || !apply(f, n, &made))
		return NULL;
	return arena_copy(&f->scratch, &made, sizeof(made));
}
