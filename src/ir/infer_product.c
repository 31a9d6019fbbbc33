/* Types of products (matmul, sdpa) and of the fp8 ops. */
#include "infer.h"

#include <string.h>

/* --- matmul --- */

static int letter_dim(const struct equation *e, int value, char letter)
{
	for (int at = 0; at < e->rank[value]; at++)
		if (e->letter[value][at] == letter)
			return at;
	return -1;
}

static enum fs_status parse_equation(const struct infer *i, struct equation *e)
{
	if (equation_parse(e, infer_attr(i, ATTR_EQ)->u.s, i->diag) != FS_OK)
		return diag_prefix(i->diag, "%s", op_text(i->op));
	return FS_OK;
}

static enum fs_status check_role(const struct infer *i)
{
	const struct attr *role = infer_attr(i, ATTR_ROLE);
	enum product_role known;
	if (role == NULL || product_role_read(role->u.s, &known))
		return FS_OK;
	return infer_fail(i, "'role' is '%s'; forward, grad_input or grad_weight wanted", role->u.s);
}

/* Sizes of the letters agree; gives those of the result. */
static enum fs_status product_shape(const struct infer *i, const struct equation *e, int64_t dim[MAX_RANK])
{
	for (int k = 0; k < 2; k++)
		if (i->in[k]->rank != e->rank[k])
			return infer_fail(i, "operand %d has %d dims, its equation %d", k, i->in[k]->rank, e->rank[k]);
	for (int at = 0; at < e->rank[0]; at++) {
		int other = letter_dim(e, 1, e->letter[0][at]);
		int64_t a = i->in[0]->dim[at], b = other < 0 ? a : i->in[1]->dim[other];
		if (a != b)
			return infer_fail(i, "letter '%c' is %lld in a and %lld in b", e->letter[0][at], (long long)a,
					  (long long)b);
	}
	for (int at = 0; at < e->rank[2]; at++) {
		int in_a = letter_dim(e, 0, e->letter[2][at]), in_b = letter_dim(e, 1, e->letter[2][at]);
		dim[at] = in_a >= 0 ? i->in[0]->dim[in_a] : i->in[1]->dim[in_b];
	}
	return FS_OK;
}

/* The attribute, else `otherwise`; a float type. */
static enum fs_status product_dtype(const struct infer *i, enum dtype otherwise, enum dtype *out)
{
	*out = (enum dtype)infer_int(i, ATTR_DTYPE, otherwise);
	if (!dtype_is_float(*out))
		return infer_fail(i, "no product of type %s", dtype_text(*out));
	return FS_OK;
}

enum fs_status infer_matmul(const struct infer *i)
{
	struct equation e;
	enum dtype dtype;
	int64_t dim[MAX_RANK];
	TRY(parse_equation(i, &e));
	TRY(check_role(i));
	TRY(infer_need_float(i, 0));
	TRY(infer_need_dtype(i, 1, (enum dtype)i->in[0]->dtype));
	TRY(product_dtype(i, (enum dtype)i->in[0]->dtype, &dtype));
	TRY(product_shape(i, &e, dim));
	return infer_result(i, dtype, e.rank[2], dim);
}

/* --- sdpa --- */

static enum fs_status check_heads(const struct infer *i)
{
	const struct type *q = i->in[0], *k = i->in[1], *v = i->in[2];
	int r = q->rank;
	if (r < 3 || k->rank != r || v->rank != r)
		return infer_fail(i, "q, k and v have %d, %d and %d dims; equal ones, 3 or more, wanted", r, k->rank, v->rank);
	if (memcmp(q->dim, k->dim, sizeof(q->dim[0]) * (size_t)(r - 3)) != 0 ||
	    memcmp(k->dim, v->dim, sizeof(q->dim[0]) * (size_t)(r - 1)) != 0)
		return infer_fail(i, "leading dims of q, k and v differ");
	int64_t heads = q->dim[r - 3], groups = k->dim[r - 3];
	if (groups == 0 ? heads != 0 : heads % groups != 0)
		return infer_fail(i, "%lld heads for %lld key heads", (long long)heads, (long long)groups);
	if (q->dim[r - 1] != k->dim[r - 1])
		return infer_fail(i, "heads of size %lld in q and %lld in k", (long long)q->dim[r - 1],
				  (long long)k->dim[r - 1]);
	return FS_OK;
}

/* bool or float, broadcasting to [.., H, T, S]. */
static enum fs_status check_mask(const struct infer *i)
{
	const struct type *q = i->in[0], *k = i->in[1], *mask = i->in[3];
	int shift = q->rank - mask->rank;
	if (mask->dtype != DT_BOOL)
		TRY(infer_need_float(i, 3));
	if (shift < 0)
		return infer_fail(i, "the mask has %d dims, q has %d", mask->rank, q->rank);
	for (int at = 0; at < mask->rank; at++) {
		int64_t want = at + shift == q->rank - 1 ? k->dim[q->rank - 2] : q->dim[at + shift];
		if (mask->dim[at] != 1 && mask->dim[at] != want)
			return infer_fail(i, "dim %d of the mask is %lld; 1 or %lld wanted", at,
					  (long long)mask->dim[at], (long long)want);
	}
	return FS_OK;
}

enum fs_status infer_sdpa(const struct infer *i)
{
	struct type t = *i->in[0];
	TRY(infer_need_float(i, 0));
	TRY(infer_need_dtype(i, 1, (enum dtype)t.dtype));
	TRY(infer_need_dtype(i, 2, (enum dtype)t.dtype));
	TRY(check_heads(i));
	if (i->count == 4)
		TRY(check_mask(i));
	t.dim[t.rank - 1] = i->in[2]->dim[t.rank - 1];
	return infer_result(i, (enum dtype)t.dtype, t.rank, t.dim);
}

/* --- fp8 --- */

static enum fs_status need_fp8(const struct infer *i, int k)
{
	enum dtype t = (enum dtype)i->in[k]->dtype;
	return dtype_class(t) == DC_FP8 ? FS_OK : infer_fail(i, "operand %d is %s, not e4m3 or e5m2", k, dtype_text(t));
}

/* The attribute, an fp8 type. */
static enum fs_status need_fp8_attr(const struct infer *i, enum dtype *out)
{
	*out = (enum dtype)infer_int(i, ATTR_DTYPE, 0);
	return dtype_class(*out) == DC_FP8 ? FS_OK : infer_fail(i, "'dtype' is %s, not e4m3 or e5m2", dtype_text(*out));
}

/* How many shards the axes of `scope` make of each dim of x; all of them shard some dim. */
static enum fs_status scope_shards(const struct infer *i, int64_t shards[MAX_RANK])
{
	const struct type *x = i->in[0];
	uint32_t left = (uint32_t)infer_int(i, ATTR_SCOPE, 0);
	for (int at = 0; at < MAX_RANK; at++)
		shards[at] = 1;
	for (int at = 0; at < x->place.count; at++) {
		const struct part *p = &x->place.at[at];
		if (!(left >> p->axis & 1) || p->kind != PART_SHARD)
			continue;
		shards[p->dim] *= context_mesh(i->context)->axis[p->axis].size;
		left &= ~((uint32_t)1 << p->axis);
	}
	return left == 0 ? FS_OK : infer_fail(i, "'scope' has an axis that does not shard the operand");
}

enum fs_status infer_amax(const struct infer *i)
{
	const struct type *x = i->in[0];
	uint32_t dims = infer_dims(i);
	int64_t shards[MAX_RANK], dim[MAX_RANK], entries = 1;
	TRY(infer_need_float(i, 0));
	TRY(scope_shards(i, shards));
	for (int at = 0; at < x->rank; at++) {
		bool reduced = dims >> at & 1;
		if (!reduced && shards[at] > 1)
			return infer_fail(i, "'scope' shards dim %d, which is not in 'dims'", at);
		dim[at] = reduced ? shards[at] : x->dim[at];
		entries *= shards[at];
	}
	bool scalar = dims == ((uint32_t)1 << x->rank) - 1 && entries == 1;
	return infer_result(i, DT_F32, scalar ? 0 : x->rank, dim);
}

enum fs_status infer_scale(const struct infer *i)
{
	enum dtype dtype;
	TRY(infer_need_dtype(i, 0, DT_F32));
	TRY(need_fp8_attr(i, &dtype));
	return infer_like(i, DT_F32);
}

/* Operand k scales a tensor of `rank` dims: rank 0, or one entry a block along each dim. */
static enum fs_status need_scale(const struct infer *i, int k, int rank)
{
	const struct type *s = i->in[k];
	TRY(infer_need_dtype(i, k, DT_F32));
	if (s->rank != 0 && s->rank != rank)
		return infer_fail(i, "operand %d has %d dims; 0 or %d wanted", k, s->rank, rank);
	return FS_OK;
}

/* Along each dim one entry for all, one for each index, or one for each of at most that many or `mesh` blocks. */
static enum fs_status need_blocks(const struct infer *i, int k, const struct type *of)
{
	const struct type *s = i->in[k];
	int64_t ranks = mesh_size(context_mesh(i->context));
	TRY(need_scale(i, k, of->rank));
	for (int at = 0; at < s->rank; at++) {
		int64_t most = of->dim[at] > ranks ? of->dim[at] : ranks;
		if (s->dim[at] > most || (s->dim[at] == 0 && of->dim[at] != 0))
			return infer_fail(i, "dim %d has %lld scales for %lld", at, (long long)s->dim[at],
					  (long long)of->dim[at]);
	}
	return FS_OK;
}

enum fs_status infer_fp8_cast(const struct infer *i)
{
	enum dtype dtype;
	TRY(infer_need_float(i, 0));
	TRY(need_blocks(i, 1, i->in[0]));
	TRY(need_fp8_attr(i, &dtype));
	return infer_like(i, dtype);
}

enum fs_status infer_scaled_matmul(const struct infer *i)
{
	struct equation e;
	enum dtype dtype;
	int64_t dim[MAX_RANK];
	if (i->count == 3)
		return infer_fail(i, "3 operands; codes alone, or codes and both scales wanted");
	TRY(parse_equation(i, &e));
	TRY(check_role(i));
	TRY(need_fp8(i, 0));
	TRY(need_fp8(i, 1));
	TRY(product_dtype(i, DT_NONE, &dtype));
	TRY(product_shape(i, &e, dim));
	for (int k = 2; k < i->count; k++)
		TRY(need_blocks(i, k, i->in[k - 2]));
	if (i->count == 2 && dtype != DT_F32 && dtype != DT_F64)
		return infer_fail(i, "an unscaled product is f32 or f64, not %s", dtype_text(dtype));
	return infer_result(i, dtype, e.rank[2], dim);
}

/* An accumulator. */
static enum fs_status need_wide(const struct infer *i, int k)
{
	if (i->in[k]->dtype == DT_F64)
		return FS_OK;
	return infer_need_dtype(i, k, DT_F32);
}

static enum fs_status need_same_shape(const struct infer *i, int k)
{
	const struct type *a = i->in[0], *b = i->in[k];
	if (a->rank == b->rank && memcmp(a->dim, b->dim, sizeof(a->dim[0]) * a->rank) == 0)
		return infer_need_dtype(i, k, (enum dtype)a->dtype);
	return infer_fail(i, "operands 0 and %d differ in shape", k);
}

enum fs_status infer_post_scale(const struct infer *i)
{
	struct equation e;
	enum dtype dtype;
	TRY(parse_equation(i, &e));
	TRY(need_wide(i, 0));
	if (i->in[0]->rank != e.rank[2])
		return infer_fail(i, "operand 0 has %d dims, its equation %d", i->in[0]->rank, e.rank[2]);
	TRY(need_scale(i, 1, e.rank[0]));
	TRY(need_scale(i, 2, e.rank[1]));
	if (i->count == 4)
		TRY(need_same_shape(i, 3));
	TRY(product_dtype(i, DT_NONE, &dtype));
	return infer_like(i, dtype);
}
