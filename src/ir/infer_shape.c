/* Types of what computes nothing: sources, views, data movement, resharding. */
#include "infer.h"

#include <string.h>

/* --- sources --- */

enum fs_status infer_given(const struct infer *i)
{
	const struct attr *shape = infer_attr(i, ATTR_SHAPE);
	enum dtype dtype = (enum dtype)infer_int(i, ATTR_DTYPE, 0);
	if (i->op == OP_IOTA && shape->count != 1)
		return infer_fail(i, "%d dims; 1 wanted", shape->count);
	if (i->op == OP_IOTA && dtype_class(dtype) != DC_INT && !dtype_is_float(dtype))
		return infer_fail(i, "no sequence of %s", dtype_text(dtype));
	return infer_result(i, dtype, shape->count, shape->u.ints);
}

enum fs_status infer_const(const struct infer *i)
{
	const struct tensor *t = infer_attr(i, ATTR_DATA)->u.tensor;
	return infer_result(i, (enum dtype)t->dtype, t->rank, t->dim);
}

/* Which op has further results the verifier checks: a type does not say it. */
enum fs_status infer_proj(const struct infer *i)
{
	int64_t index = infer_int(i, ATTR_INDEX, 0);
	if (index != 1)
		return infer_fail(i, "no result %lld; only 1", (long long)index);
	return infer_like(i, (enum dtype)infer_int(i, ATTR_DTYPE, DT_I64));
}

/* --- views --- */

static int64_t count_of(int rank, const int64_t *dim)
{
	int64_t count = 1;
	for (int at = 0; at < rank; at++)
		count *= dim[at];
	return count;
}

enum fs_status infer_reshape(const struct infer *i)
{
	const struct type *x = i->in[0];
	const struct attr *shape = infer_attr(i, ATTR_SHAPE);
	int64_t before = count_of(x->rank, x->dim), after = count_of(shape->count, shape->u.ints);
	if (before != after)
		return infer_fail(i, "%lld elements do not become %lld", (long long)before, (long long)after);
	return infer_result(i, (enum dtype)x->dtype, shape->count, shape->u.ints);
}

enum fs_status infer_permute(const struct infer *i)
{
	const struct type *x = i->in[0];
	const struct attr *dims = infer_attr(i, ATTR_DIMS);
	if (dims->count != x->rank)
		return infer_fail(i, "'dims' has %d of %d dims", dims->count, x->rank);
	int64_t dim[MAX_RANK];
	for (int at = 0; at < x->rank; at++)
		dim[at] = x->dim[dims->u.ints[at]];
	return infer_result(i, (enum dtype)x->dtype, x->rank, dim);
}

enum fs_status infer_expand(const struct infer *i)
{
	const struct type *x = i->in[0];
	const struct attr *shape = infer_attr(i, ATTR_SHAPE);
	if (shape->count != x->rank)
		return infer_fail(i, "%d dims do not become %d", x->rank, shape->count);
	for (int at = 0; at < x->rank; at++)
		if (x->dim[at] != 1 && x->dim[at] != shape->u.ints[at])
			return infer_fail(i, "dim %d of size %lld does not expand to %lld", at,
					  (long long)x->dim[at], (long long)shape->u.ints[at]);
	return infer_result(i, (enum dtype)x->dtype, x->rank, shape->u.ints);
}

enum fs_status infer_slice(const struct infer *i)
{
	struct type t = *i->in[0];
	int64_t dim = infer_int(i, ATTR_DIM, 0), step = infer_int(i, ATTR_STEP, 1);
	int64_t start = infer_int(i, ATTR_START, 0), end = infer_int(i, ATTR_END, 0);
	if (start < 0 || end < start || end > t.dim[dim])
		return infer_fail(i, "[%lld, %lld) is no range of dim %lld, which has size %lld", (long long)start,
				  (long long)end, (long long)dim, (long long)t.dim[dim]);
	if (step < 1)
		return infer_fail(i, "step %lld; 1 or more wanted", (long long)step);
	t.dim[dim] = start == end ? 0 : (end - start - 1) / step + 1;
	return infer_result(i, (enum dtype)t.dtype, t.rank, t.dim);
}

/* --- data movement --- */

/* Operand k has the shape of operand 0 but for `dim`. */
static enum fs_status need_equal_but(const struct infer *i, int k, int64_t dim)
{
	const struct type *a = i->in[0], *b = i->in[k];
	if (a->rank != b->rank)
		return infer_fail(i, "operand %d has %d dims, operand 0 has %d", k, b->rank, a->rank);
	for (int at = 0; at < a->rank; at++)
		if (at != dim && a->dim[at] != b->dim[at])
			return infer_fail(i, "dim %d is %lld in operand %d and %lld in operand 0", at,
					  (long long)b->dim[at], k, (long long)a->dim[at]);
	return FS_OK;
}

enum fs_status infer_cat(const struct infer *i)
{
	struct type t = *i->in[0];
	int64_t dim = infer_int(i, ATTR_DIM, 0);
	for (int k = 1; k < i->count; k++) {
		TRY(infer_need_dtype(i, k, (enum dtype)t.dtype));
		TRY(need_equal_but(i, k, dim));
		t.dim[dim] += i->in[k]->dim[dim]; /* at most 2^12 operands of at most 2^48 */
	}
	return infer_result(i, (enum dtype)t.dtype, t.rank, t.dim);
}

enum fs_status infer_same(const struct infer *i)
{
	return infer_like(i, (enum dtype)i->in[0]->dtype);
}

enum fs_status infer_cast(const struct infer *i)
{
	return infer_like(i, (enum dtype)infer_int(i, ATTR_DTYPE, 0));
}

enum fs_status infer_matrix(const struct infer *i)
{
	if (i->in[0]->rank < 2)
		return infer_fail(i, "%d dims; 2 or more wanted", i->in[0]->rank);
	return infer_same(i);
}

/* Joins two lists of dims; more than MAX_RANK of them are refused by infer_result. */
static int append(int64_t out[2 * MAX_RANK], int rank, const int64_t *dim, int count)
{
	memcpy(out + rank, dim, sizeof(*dim) * (size_t)count);
	return rank + count;
}

enum fs_status infer_embedding(const struct infer *i)
{
	const struct type *weight = i->in[0], *ids = i->in[1];
	TRY(infer_need_index(i, 1));
	if (weight->rank < 1)
		return infer_fail(i, "the weight has no dims");
	int64_t dim[2 * MAX_RANK];
	int rank = append(dim, 0, ids->dim, ids->rank);
	rank = append(dim, rank, weight->dim + 1, weight->rank - 1);
	return infer_result(i, (enum dtype)weight->dtype, rank, dim);
}

/* [ids.., rest..] and ids give [V, rest..], the shape in ATTR_SHAPE. */
enum fs_status infer_embedding_grad(const struct infer *i)
{
	const struct type *grad = i->in[0], *ids = i->in[1];
	const struct attr *shape = infer_attr(i, ATTR_SHAPE);
	TRY(infer_need_index(i, 1));
	if (grad->rank < ids->rank || memcmp(grad->dim, ids->dim, sizeof(ids->dim[0]) * ids->rank) != 0)
		return infer_fail(i, "operand 0 does not begin with the dims of operand 1");
	if (shape->count != grad->rank - ids->rank + 1 ||
	    memcmp(shape->u.ints + 1, grad->dim + ids->rank, sizeof(int64_t) * (size_t)(shape->count - 1)) != 0)
		return infer_fail(i, "'shape' is not a number of rows and the other dims of operand 0");
	return infer_result(i, (enum dtype)grad->dtype, shape->count, shape->u.ints);
}

/* Outside of `dim`, operand k is at most as large as `limit`. */
static enum fs_status need_within(const struct infer *i, int k, int limit, int64_t dim)
{
	const struct type *small = i->in[k], *large = i->in[limit];
	if (small->rank != large->rank)
		return infer_fail(i, "operand %d has %d dims, operand %d has %d", k, small->rank, limit, large->rank);
	for (int at = 0; at < small->rank; at++)
		if (at != dim && small->dim[at] > large->dim[at])
			return infer_fail(i, "dim %d is %lld in operand %d and only %lld in operand %d", at,
					  (long long)small->dim[at], k, (long long)large->dim[at], limit);
	return FS_OK;
}

enum fs_status infer_gather(const struct infer *i)
{
	const struct type *x = i->in[0], *index = i->in[1];
	TRY(infer_need_index(i, 1));
	TRY(need_within(i, 1, 0, infer_int(i, ATTR_DIM, 0)));
	return infer_result(i, (enum dtype)x->dtype, index->rank, index->dim);
}

enum fs_status infer_scatter(const struct infer *i)
{
	TRY(infer_need_index(i, 1));
	TRY(infer_need_dtype(i, 2, (enum dtype)i->in[0]->dtype));
	TRY(need_within(i, 1, 0, infer_int(i, ATTR_DIM, 0)));
	if (i->in[2]->rank > 0)
		TRY(need_within(i, 1, 2, -1));
	return infer_same(i);
}

/* The shape that operands 1 .. count (indices of ATTR_DIMS) pick out of operand 0. */
static enum fs_status indexed_shape(const struct infer *i, int count, int64_t out[3 * MAX_RANK], int *rank)
{
	const struct type *x = i->in[0];
	const struct attr *dims = infer_attr(i, ATTR_DIMS);
	if (dims->count != count || count < 1)
		return infer_fail(i, "%d dims for %d indices", dims->count, count);
	int64_t dim[MAX_RANK];
	int wide = 0;
	for (int k = 1; k <= count; k++) {
		TRY(infer_need_index(i, k));
		TRY(infer_broadcast(i, i->in[k], dim, &wide));
	}
	int64_t first = dims->u.ints[0];
	bool adjacent = dims->u.ints[count - 1] - first == count - 1;
	uint32_t indexed = infer_dims(i);
	int n = adjacent ? append(out, 0, x->dim, (int)first) : 0;
	n = append(out, n, dim, wide);
	for (int at = adjacent ? (int)first : 0; at < x->rank; at++)
		if (!(indexed >> at & 1))
			out[n++] = x->dim[at];
	*rank = n;
	return FS_OK;
}

enum fs_status infer_index(const struct infer *i)
{
	int64_t dim[3 * MAX_RANK];
	int rank;
	TRY(indexed_shape(i, i->count - 1, dim, &rank));
	return infer_result(i, (enum dtype)i->in[0]->dtype, rank, dim);
}

enum fs_status infer_index_put(const struct infer *i)
{
	int64_t dim[3 * MAX_RANK];
	int rank, last = i->count - 1;
	const struct type *values = i->in[last];
	TRY(indexed_shape(i, last - 1, dim, &rank));
	TRY(infer_need_dtype(i, last, (enum dtype)i->in[0]->dtype));
	if (rank > MAX_RANK || values->rank > rank)
		return infer_fail(i, "values of %d dims for places of %d", values->rank, rank);
	for (int at = 0; at < values->rank; at++) {
		int64_t have = values->dim[at], want = dim[at + rank - values->rank];
		if (have != 1 && have != want)
			return infer_fail(i, "values of size %lld for %lld places", (long long)have, (long long)want);
	}
	return infer_same(i);
}

/* --- resharding: the global type stays --- */

enum fs_status infer_all_to_all(const struct infer *i)
{
	if (infer_int(i, ATTR_FROM, 0) == infer_int(i, ATTR_TO_DIM, 0))
		return infer_fail(i, "'from' and 'to_dim' are the same dim");
	return infer_same(i);
}
