/* op_infer: arity and attributes by the op's row, then the function of its infer column. */
#include "infer.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* Elements of a tensor: so many that bytes and counts of several fit an int64_t. */
#define MAX_ELEMENTS ((int64_t)1 << 48)

enum fs_status infer_fail(const struct infer *i, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return diag_set(i->diag, FS_INVALID, "%s: %s", op_text(i->op), text);
}

const struct attr *infer_attr(const struct infer *i, enum attr_key k)
{
	for (int at = 0; at < i->attrs->count; at++)
		if (i->attrs->at[at].key == k)
			return &i->attrs->at[at];
	return NULL;
}

int64_t infer_int(const struct infer *i, enum attr_key k, int64_t otherwise)
{
	const struct attr *a = infer_attr(i, k);
	return a == NULL ? otherwise : a->u.i;
}

uint32_t infer_dims(const struct infer *i)
{
	const struct attr *a = infer_attr(i, ATTR_DIMS);
	uint32_t mask = 0;
	for (int at = 0; at < a->count; at++)
		mask |= (uint32_t)1 << a->u.ints[at];
	return mask;
}

/* Dims of 0 count as 1: a product of some of the dims is small, too. */
static enum fs_status check_shape(const struct infer *i, int64_t rank, const int64_t *dim)
{
	int64_t count = 1;
	if (rank > MAX_RANK)
		return infer_fail(i, "%lld dims; at most %d", (long long)rank, MAX_RANK);
	for (int at = 0; at < rank; at++) {
		if (dim[at] < 0)
			return infer_fail(i, "dim %d has size %lld", at, (long long)dim[at]);
		if (!mul_size(count, dim[at] == 0 ? 1 : dim[at], &count) || count > MAX_ELEMENTS)
			return infer_fail(i, "more than 2^48 elements");
	}
	return FS_OK;
}

enum fs_status infer_result(const struct infer *i, enum dtype dtype, int rank, const int64_t *dim)
{
	TRY(check_shape(i, rank, dim));
	*i->out = type_make(dtype, rank, dim);
	return FS_OK;
}

enum fs_status infer_like(const struct infer *i, enum dtype dtype)
{
	return infer_result(i, dtype, i->in[0]->rank, i->in[0]->dim);
}

enum fs_status infer_need_float(const struct infer *i, int k)
{
	enum dtype t = (enum dtype)i->in[k]->dtype;
	return dtype_is_float(t) ? FS_OK : infer_fail(i, "operand %d is %s, not a float type", k, dtype_text(t));
}

enum fs_status infer_need_index(const struct infer *i, int k)
{
	enum dtype t = (enum dtype)i->in[k]->dtype;
	if (t == DT_I64 || t == DT_I32)
		return FS_OK;
	return infer_fail(i, "operand %d is %s; indices are i64 or i32", k, dtype_text(t));
}

enum fs_status infer_need_dtype(const struct infer *i, int k, enum dtype dtype)
{
	enum dtype t = (enum dtype)i->in[k]->dtype;
	if (t == dtype)
		return FS_OK;
	return infer_fail(i, "operand %d is %s, not %s", k, dtype_text(t), dtype_text(dtype));
}

enum fs_status infer_broadcast(const struct infer *i, const struct type *more, int64_t dim[MAX_RANK], int *rank)
{
	int wider = more->rank - *rank;
	if (wider > 0) {
		memmove(dim + wider, dim, sizeof(dim[0]) * (size_t)*rank);
		for (int at = 0; at < wider; at++)
			dim[at] = 1;
		*rank = more->rank;
	}
	int shift = *rank - more->rank;
	for (int at = 0; at < more->rank; at++) {
		int64_t *have = &dim[at + shift], size = more->dim[at];
		if (*have != size && *have != 1 && size != 1)
			return infer_fail(i, "sizes %lld and %lld of dim %d do not broadcast", (long long)*have,
					  (long long)size, at + shift);
		*have = *have == 1 ? size : *have;
	}
	return FS_OK;
}

/* --- attributes: what each key means by itself; dims are those of operand 0 --- */

static enum fs_status attr_error(const struct infer *i, const struct attr *a, const char *what)
{
	return infer_fail(i, "attribute '%s' is %lld: %s", attr_text((enum attr_key)a->key), (long long)a->u.i, what);
}

static enum fs_status check_any(const struct infer *i, const struct attr *a)
{
	(void)i;
	(void)a;
	return FS_OK;
}

static enum fs_status check_flag(const struct infer *i, const struct attr *a)
{
	return a->u.i == 0 || a->u.i == 1 ? FS_OK : attr_error(i, a, "0 or 1 wanted");
}

static enum fs_status check_dim(const struct infer *i, const struct attr *a)
{
	if (a->u.i >= 0 && a->u.i < i->in[0]->rank)
		return FS_OK;
	return infer_fail(i, "no dim %lld in an operand of %d dims", (long long)a->u.i, i->in[0]->rank);
}

/* Ascending, but for the one op whose dims are an order. */
static enum fs_status check_dims(const struct infer *i, const struct attr *a)
{
	uint32_t seen = 0;
	for (int at = 0; at < a->count; at++) {
		int64_t dim = a->u.ints[at];
		if (dim < 0 || dim >= i->in[0]->rank)
			return infer_fail(i, "no dim %lld in an operand of %d dims", (long long)dim, i->in[0]->rank);
		if (seen & (uint32_t)1 << dim)
			return infer_fail(i, "dim %lld stands twice in 'dims'", (long long)dim);
		if (i->op != OP_PERMUTE && seen >> dim != 0)
			return infer_fail(i, "'dims' are not ascending");
		seen |= (uint32_t)1 << dim;
	}
	return FS_OK;
}

static enum fs_status check_shape_attr(const struct infer *i, const struct attr *a)
{
	return check_shape(i, a->count, a->u.ints);
}

static enum fs_status check_dtype(const struct infer *i, const struct attr *a)
{
	return a->u.i > DT_NONE && a->u.i < DT_COUNT ? FS_OK : attr_error(i, a, "no such element type");
}

static enum fs_status check_axes(const struct infer *i, const struct attr *a)
{
	int count = context_mesh(i->context)->count;
	return a->u.i > 0 && a->u.i >> count == 0 ? FS_OK : attr_error(i, a, "no set of axes of this mesh");
}

static enum fs_status check_number(const struct infer *i, const struct attr *a)
{
	if (isnan(a->u.f))
		return infer_fail(i, "attribute '%s' is not a number", attr_text((enum attr_key)a->key));
	return FS_OK;
}

static enum fs_status check_string(const struct infer *i, const struct attr *a)
{
	if (a->u.s == NULL || a->u.s[0] == '\0')
		return infer_fail(i, "attribute '%s' is empty", attr_text((enum attr_key)a->key));
	return FS_OK;
}

static enum fs_status check_reduce(const struct infer *i, const struct attr *a)
{
	static const char *const known[] = { "sum", "max", "min" };
	for (int at = 0; at < 3; at++)
		if (a->u.s != NULL && strcmp(a->u.s, known[at]) == 0)
			return FS_OK;
	return infer_fail(i, "attribute 'reduce' is '%s'; sum, max or min wanted", a->u.s == NULL ? "" : a->u.s);
}

static enum fs_status check_placement(const struct infer *i, const struct attr *a)
{
	const struct placement *p = a->u.place;
	uint32_t seen = 0;
	for (int at = 0; at < p->count; at++) {
		const struct part *part = &p->at[at];
		if (part->axis >= context_mesh(i->context)->count || (seen & (uint32_t)1 << part->axis))
			return infer_fail(i, "attribute 'to' names an axis twice, or one that the mesh has not");
		if (part->kind == PART_SHARD && part->dim >= i->in[0]->rank)
			return infer_fail(i, "attribute 'to' shards dim %d of %d dims", part->dim, i->in[0]->rank);
		seen |= (uint32_t)1 << part->axis;
	}
	return FS_OK;
}

static enum fs_status check_tensor(const struct infer *i, const struct attr *a)
{
	const struct tensor *t = a->u.tensor;
	if (t == NULL || t->dtype == DT_NONE || t->dtype >= DT_COUNT)
		return infer_fail(i, "attribute 'data' is no tensor");
	return check_shape(i, t->rank, t->dim);
}

typedef enum fs_status attr_check(const struct infer *i, const struct attr *a);

/* By key; what an op asks beyond (0 <= start <= end) its own function checks. */
static attr_check *const checks[ATTR_COUNT] = {
	[ATTR_NAME] = check_string,	 [ATTR_DATA] = check_tensor,   [ATTR_DIM] = check_dim,
	[ATTR_DIMS] = check_dims,	 [ATTR_KEEPDIM] = check_flag,  [ATTR_SHAPE] = check_shape_attr,
	[ATTR_DTYPE] = check_dtype,	 [ATTR_EPS] = check_number,    [ATTR_SCALE] = check_number,
	[ATTR_CAUSAL] = check_flag,	 [ATTR_LARGEST] = check_flag,  [ATTR_ORD] = check_number,
	[ATTR_ACCUMULATE] = check_flag,	 [ATTR_BUFFER] = check_flag,   [ATTR_AXES] = check_axes,
	[ATTR_REDUCE] = check_reduce,	 [ATTR_FROM] = check_dim,      [ATTR_TO_DIM] = check_dim,
	[ATTR_TO] = check_placement,	 [ATTR_POW2] = check_flag,     [ATTR_EXACT] = check_flag,
	[ATTR_SETUP] = check_flag,	 [ATTR_SCOPE] = check_axes,    [ATTR_HARD] = check_axes,
	[ATTR_ZERO] = check_flag,	 [ATTR_BESIDE] = check_string,
	[ATTR_EQ] = check_string,	 [ATTR_RECIPE] = check_string, [ATTR_ROLE] = check_string,
};

static enum fs_status check_attr(const struct infer *i, const struct attr *a)
{
	attr_check *check = checks[a->key] != NULL ? checks[a->key] : check_any;
	return check(i, a);
}

static enum fs_status check_missing(const struct infer *i, uint64_t missing)
{
	if (missing == 0)
		return FS_OK;
	return infer_fail(i, "attribute '%s' is missing", attr_text((enum attr_key)__builtin_ctzll(missing)));
}

static enum fs_status check_attrs(const struct infer *i)
{
	struct attr_set set = op_attrs(i->op);
	uint64_t seen = 0;
	for (int at = 0; at < i->attrs->count; at++) {
		const struct attr *a = &i->attrs->at[at];
		if (a->key == ATTR_NONE || a->key >= ATTR_COUNT)
			return infer_fail(i, "attribute number %d is unknown", a->key);
		uint64_t bit = (uint64_t)1 << a->key;
		if (!(set.may & bit))
			return infer_fail(i, "takes no attribute '%s'", attr_text((enum attr_key)a->key));
		if (seen & bit)
			return infer_fail(i, "attribute '%s' stands twice", attr_text((enum attr_key)a->key));
		TRY(check_attr(i, a));
		seen |= bit;
	}
	return check_missing(i, set.must & ~seen);
}

static enum fs_status check_arity(const struct infer *i)
{
	int least, most;
	op_arity(i->op, &least, &most);
	if (i->count >= least && i->count <= most)
		return FS_OK;
	if (least == most)
		return infer_fail(i, "%d operands; %d wanted", i->count, least);
	return infer_fail(i, "%d operands; %d to %d wanted", i->count, least, most);
}

typedef enum fs_status infer_function(const struct infer *i);

static infer_function *const functions[OP_COUNT] = {
#define OP(name, text, least, most, stages, function, ...) [OP_##name] = function,
#include "ops.def"
#undef OP
};

enum fs_status op_infer(const struct context *c, enum op op, const struct type *const *in, int count,
			const struct attrs *a, struct type *out, struct diag *d)
{
	static const struct attrs none;
	struct infer i = { c, op, in, count, a != NULL ? a : &none, out, d };
	if (op <= OP_NONE || op >= OP_COUNT)
		return diag_set(d, FS_INVALID, "op number %d is unknown", (int)op);
	TRY(check_arity(&i));
	TRY(check_attrs(&i));
	return functions[op](&i);
}
