/* Types of pointwise ops, reductions, and what works along dims. */
#include "infer.h"

#include <string.h>

/* --- promotion, as torch's --- */

/* 0 bool, 1 integers, 2 floats. */
static int category(enum dtype t)
{
	enum dtype_class class = dtype_class(t);
	return class == DC_BOOLEAN ? 0 : class == DC_INT ? 1 : 2;
}

static bool is_unsigned(enum dtype t)
{
	return t == DT_U8 || t == DT_U32;
}

/* The wider; of signed and unsigned the first signed type that holds both. */
static enum dtype promote_ints(enum dtype a, enum dtype b)
{
	static const enum dtype holds[] = { [1] = DT_I16, [4] = DT_I64 }; /* by size of the unsigned */
	if (is_unsigned(a) == is_unsigned(b))
		return dtype_size(a) >= dtype_size(b) ? a : b;
	enum dtype u = is_unsigned(a) ? a : b, s = is_unsigned(a) ? b : a;
	return dtype_size(s) > dtype_size(u) ? s : holds[dtype_size(u)];
}

static enum dtype promote_floats(enum dtype a, enum dtype b)
{
	if (a == b)
		return a;
	if (dtype_size(a) == dtype_size(b))
		return DT_F32; /* f16 and bf16 */
	return dtype_size(a) > dtype_size(b) ? a : b;
}

/* DT_NONE is neutral. */
static enum dtype promote(enum dtype a, enum dtype b)
{
	if (a == DT_NONE || b == DT_NONE)
		return a == DT_NONE ? b : a;
	if (category(a) != category(b))
		return category(a) > category(b) ? a : b;
	switch (category(a)) {
	case 0: return a;
	case 1: return promote_ints(a, b);
	default: return promote_floats(a, b);
	}
}

/* Operands [from, count): those of rank 0 count only where their category is the higher one. */
static enum dtype promoted(const struct infer *i, int from)
{
	enum dtype wide = DT_NONE, scalar = DT_NONE;
	for (int k = from; k < i->count; k++) {
		enum dtype *into = i->in[k]->rank > 0 ? &wide : &scalar;
		*into = promote(*into, (enum dtype)i->in[k]->dtype);
	}
	if (wide != DT_NONE && scalar != DT_NONE && category(scalar) <= category(wide))
		return wide;
	return promote(wide, scalar);
}

static enum dtype to_float(enum dtype t)
{
	return dtype_is_float(t) ? t : DT_F32;
}

/* --- pointwise --- */

static enum fs_status refuse_fp8(const struct infer *i)
{
	for (int k = 0; k < i->count; k++)
		if (dtype_class((enum dtype)i->in[k]->dtype) == DC_FP8)
			return infer_fail(i, "operand %d is %s, which must be cast first", k,
					  dtype_text((enum dtype)i->in[k]->dtype));
	return FS_OK;
}

static enum fs_status refuse_floats(const struct infer *i)
{
	for (int k = 0; k < i->count; k++)
		if (dtype_is_float((enum dtype)i->in[k]->dtype))
			return infer_fail(i, "operand %d is %s; bool or integers wanted", k,
					  dtype_text((enum dtype)i->in[k]->dtype));
	return FS_OK;
}

/* All operands broadcast together. */
static enum fs_status pointwise(const struct infer *i, enum dtype dtype)
{
	int64_t dim[MAX_RANK];
	int rank = 0;
	TRY(refuse_fp8(i));
	for (int k = 0; k < i->count; k++)
		TRY(infer_broadcast(i, i->in[k], dim, &rank));
	return infer_result(i, dtype, rank, dim);
}

enum fs_status infer_unary(const struct infer *i)
{
	return pointwise(i, to_float((enum dtype)i->in[0]->dtype));
}

enum fs_status infer_unary_bool(const struct infer *i)
{
	return pointwise(i, DT_BOOL);
}

enum fs_status infer_unary_same(const struct infer *i)
{
	return pointwise(i, (enum dtype)i->in[0]->dtype);
}

enum fs_status infer_bitwise_not(const struct infer *i)
{
	TRY(refuse_floats(i));
	return pointwise(i, (enum dtype)i->in[0]->dtype);
}

enum fs_status infer_binary(const struct infer *i)
{
	return pointwise(i, promoted(i, 0));
}

enum fs_status infer_binary_bool(const struct infer *i)
{
	return pointwise(i, DT_BOOL);
}

enum fs_status infer_binary_bits(const struct infer *i)
{
	TRY(refuse_floats(i));
	return pointwise(i, promoted(i, 0));
}

enum fs_status infer_divide(const struct infer *i)
{
	return pointwise(i, to_float(promoted(i, 0)));
}

enum fs_status infer_where(const struct infer *i)
{
	TRY(infer_need_dtype(i, 0, DT_BOOL));
	return pointwise(i, promoted(i, 1));
}

/* --- reductions over {dims} --- */

static enum fs_status reduce(const struct infer *i, enum dtype dtype)
{
	const struct type *x = i->in[0];
	uint32_t dims = infer_dims(i);
	bool keep = infer_int(i, ATTR_KEEPDIM, 0);
	int64_t dim[MAX_RANK];
	int rank = 0;
	TRY(refuse_fp8(i));
	for (int at = 0; at < x->rank; at++)
		if (!(dims >> at & 1))
			dim[rank++] = x->dim[at];
		else if (keep)
			dim[rank++] = 1;
	return infer_result(i, dtype, rank, dim);
}

/* Sums of bool and integers are i64. */
static enum dtype accumulator(enum dtype t)
{
	return category(t) < 2 ? DT_I64 : t;
}

/* f32 of what is narrower, where that is asked for. */
static enum fs_status reduce_to(const struct infer *i, enum dtype dtype)
{
	enum dtype asked = (enum dtype)infer_int(i, ATTR_DTYPE, dtype);
	if (asked != dtype && (asked != DT_F32 || !dtype_is_float(dtype) || dtype_size(dtype) > dtype_size(DT_F32)))
		return infer_fail(i, "'dtype' is %s; the operand's or f32 wanted", dtype_text(asked));
	return reduce(i, asked);
}

enum fs_status infer_reduce_sum(const struct infer *i)
{
	return reduce_to(i, accumulator((enum dtype)i->in[0]->dtype));
}

enum fs_status infer_reduce_mean(const struct infer *i)
{
	TRY(infer_need_float(i, 0));
	return reduce_to(i, (enum dtype)i->in[0]->dtype);
}

enum fs_status infer_reduce_float(const struct infer *i)
{
	TRY(infer_need_float(i, 0));
	return reduce(i, (enum dtype)i->in[0]->dtype);
}

/* The largest of nothing does not exist. */
static enum fs_status need_elements(const struct infer *i)
{
	uint32_t dims = infer_dims(i);
	for (int at = 0; at < i->in[0]->rank; at++)
		if ((dims >> at & 1) && i->in[0]->dim[at] == 0)
			return infer_fail(i, "dim %d is empty", at);
	return FS_OK;
}

enum fs_status infer_reduce_same(const struct infer *i)
{
	TRY(need_elements(i));
	return reduce(i, (enum dtype)i->in[0]->dtype);
}

enum fs_status infer_reduce_bool(const struct infer *i)
{
	return reduce(i, DT_BOOL);
}

enum fs_status infer_reduce_index(const struct infer *i)
{
	int count = infer_attr(i, ATTR_DIMS)->count;
	if (count != 1)
		return infer_fail(i, "'dims' has %d dims; 1 wanted", count);
	TRY(need_elements(i));
	return reduce(i, DT_I64);
}

/* --- along one {dim} --- */

enum fs_status infer_softmax(const struct infer *i)
{
	TRY(infer_need_float(i, 0));
	return infer_like(i, (enum dtype)i->in[0]->dtype);
}

enum fs_status infer_cumsum(const struct infer *i)
{
	TRY(refuse_fp8(i));
	return infer_like(i, accumulator((enum dtype)i->in[0]->dtype));
}

enum fs_status infer_sort(const struct infer *i)
{
	TRY(refuse_fp8(i));
	return infer_like(i, (enum dtype)i->in[0]->dtype);
}

enum fs_status infer_topk(const struct infer *i)
{
	struct type t = *i->in[0];
	int64_t dim = infer_int(i, ATTR_DIM, 0), k = infer_int(i, ATTR_K, 0);
	TRY(refuse_fp8(i));
	if (k < 0 || k > t.dim[dim])
		return infer_fail(i, "k is %lld of dim %lld, which has size %lld", (long long)k, (long long)dim,
				  (long long)t.dim[dim]);
	t.dim[dim] = k;
	return infer_result(i, (enum dtype)t.dtype, t.rank, t.dim);
}

/* --- over trailing {dims} --- */

/* Weight or bias: the shape of the last `count` dims of x. */
static enum fs_status need_trailing(const struct infer *i, int k, int count)
{
	const struct type *x = i->in[0], *w = i->in[k];
	TRY(infer_need_float(i, k));
	if (w->rank != count || memcmp(w->dim, x->dim + x->rank - count, sizeof(w->dim[0]) * (size_t)count) != 0)
		return infer_fail(i, "operand %d has not the shape of the last %d dims", k, count);
	return FS_OK;
}

enum fs_status infer_norm(const struct infer *i)
{
	const struct type *x = i->in[0];
	int count = infer_attr(i, ATTR_DIMS)->count;
	TRY(infer_need_float(i, 0));
	if (count < 1 || infer_dims(i) >> (x->rank - count) != ((uint32_t)1 << count) - 1)
		return infer_fail(i, "'dims' are not the last dims");
	for (int k = 1; k < i->count; k++)
		TRY(need_trailing(i, k, count));
	return infer_like(i, (enum dtype)x->dtype);
}
