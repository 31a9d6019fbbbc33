/* Forms of integer and bool values, one function an op. */
#include "affine_impl.h"
#include "canonicalize_shape.h"
#include "fold_element.h"

#include <string.h>

#define MAX_CONST 65536 /* elements of a constant that are looked at */

/* --- sources --- */

static void set_constant(struct form *out, int64_t v)
{
	out->value.base = v;
	out->never = v == 0; /* of a bool */
}

static bool of_fill(const struct flow *f, struct form *out)
{
	double v = graph_float(f->g, f->n, ATTR_VALUE, 0);
	if (!(v > -0x1p62 && v < 0x1p62) || v != (double)(int64_t)v)
		return false;
	set_constant(out, (int64_t)v);
	return true;
}

static bool of_iota(const struct flow *f, struct form *out)
{
	out->value.base = graph_int(f->g, f->n, ATTR_START, 0);
	out->value.step[0] = graph_int(f->g, f->n, ATTR_STEP, 1);
	return true;
}

/* Steps from the neighbours of the first element; then every element must be as they say. */
static bool of_const(const struct flow *f, struct form *out)
{
	const struct tensor *t = graph_tensor(f->g, f->n);
	int64_t count = type_count(f->type), stride = 1, at[MAX_RANK] = { 0 };
	const char *data = t->data;
	int size = dtype_size((enum dtype)t->dtype);
	if (count > MAX_CONST)
		return false;
	set_constant(out, load_integer((enum dtype)t->dtype, data));
	for (int d = f->type->rank - 1; d >= 0; stride *= f->type->dim[d--])
		if (f->type->dim[d] > 1)
			out->value.step[d] = int_sub(load_integer((enum dtype)t->dtype, data + stride * size), out->value.base);
	if (f->type->dtype == DT_BOOL && !affine_is_constant(&out->value))
		return false;
	for (int64_t i = 0; i < count; i++) {
		int64_t want = out->value.base;
		for (int d = 0; d < f->type->rank; d++)
			want = int_add(want, int_mul(out->value.step[d], at[d]));
		if (load_integer((enum dtype)t->dtype, data + i * size) != want)
			return false;
		for (int d = f->type->rank - 1; d >= 0 && ++at[d] == f->type->dim[d]; d--)
			at[d] = 0;
	}
	return true;
}

/* --- views: where each coordinate of the operand comes from --- */

static bool through(const struct flow *f, const struct affine *map, struct form *out)
{
	const struct form *x = form_of(f, 0);
	return x != NULL && form_substitute(x, type_of(f, 0)->rank, map, out);
}

static bool of_permute(const struct flow *f, struct form *out)
{
	struct affine map[MAX_RANK] = { 0 };
	const int64_t *dims;
	int rank = graph_ints(f->g, f->n, ATTR_DIMS, &dims);
	for (int d = 0; d < rank; d++)
		map[dims[d]].step[d] = 1;
	return through(f, map, out);
}

static bool of_slice(const struct flow *f, struct form *out)
{
	struct affine map[MAX_RANK] = { 0 };
	int64_t dim = graph_int(f->g, f->n, ATTR_DIM, 0);
	for (int d = 0; d < f->type->rank; d++)
		map[d].step[d] = 1;
	map[dim].base = graph_int(f->g, f->n, ATTR_START, 0);
	map[dim].step[dim] = graph_int(f->g, f->n, ATTR_STEP, 1);
	return through(f, map, out);
}

/* Operand k of a broadcasting op, at the result's coordinates: aligned at the right. */
static bool broadcast_form(const struct flow *f, int k, struct form *out)
{
	struct affine map[MAX_RANK] = { 0 };
	int rank = type_of(f, k)->rank;
	for (int d = 0; d < rank; d++)
		map[d].step[d + f->type->rank - rank] = 1;
	const struct form *x = form_of(f, k);
	return x != NULL && form_substitute(x, rank, map, out);
}

static bool of_expand(const struct flow *f, struct form *out)
{
	return broadcast_form(f, 0, out);
}

/* Within a group of dims the value must be affine in the position in row-major order. */
static bool reshape_group(const struct affine *a, const struct type *from, const struct type *to,
			  const struct dim_group *g, struct affine *out)
{
	int64_t stride = 1, step = 0;
	bool found = false;
	for (int d = g->from + g->from_count - 1; d >= g->from; stride *= from->dim[d--]) {
		if (from->dim[d] == 1)
			continue;
		if (!found && a->step[d] % stride != 0)
			return false;
		step = found ? step : a->step[d] / stride;
		found = true;
		int64_t want;
		if (!mul_size(step, stride, &want) || a->step[d] != want)
			return false;
	}
	stride = 1;
	for (int d = g->to + g->to_count - 1; d >= g->to; stride *= to->dim[d--])
		if (!mul_size(step, stride, &out->step[d]))
			return false;
	return true;
}

static bool reshape_affine(const struct flow *f, const struct affine *a, struct affine *out)
{
	struct dim_group group[MAX_GROUPS];
	int count = shape_groups(type_of(f, 0), f->type, group);
	struct affine made = { .base = a->base };
	for (int i = 0; i < count; i++)
		if (!reshape_group(a, type_of(f, 0), f->type, &group[i], &made))
			return false;
	*out = made;
	return count >= 0;
}

static bool of_reshape(const struct flow *f, struct form *out)
{
	const struct form *x = form_of(f, 0);
	if (x == NULL)
		return false;
	*out = *x;
	for (int i = 0; i < x->count; i++)
		if (!reshape_affine(f, &x->at[i].of, &out->at[i].of))
			return false;
	return x->boolean || reshape_affine(f, &x->value, &out->value);
}

/* --- cat: pieces that line up --- */

/* The step along the dim, from a piece with two elements there or from the first two pieces. */
static bool cat_step(const struct flow *f, int64_t dim, int64_t *step)
{
	for (int k = 0; k < f->count; k++) {
		*step = form_of(f, k)->value.step[dim];
		if (type_of(f, k)->dim[dim] > 1)
			return true;
	}
	*step = 0;
	return f->count < 2 || !__builtin_sub_overflow(form_of(f, 1)->value.base, form_of(f, 0)->value.base, step);
}

static bool piece_fits(const struct flow *f, int k, int64_t dim, int64_t start, const struct affine *all)
{
	struct affine want = *all;
	int64_t skip;
	if (!mul_size(all->step[dim], start, &skip) || !add_size(want.base, skip, &want.base))
		return false;
	affine_drop_unit_dims(&want, type_of(f, k));
	return memcmp(&want, &form_of(f, k)->value, sizeof(want)) == 0;
}

static bool of_cat(const struct flow *f, struct form *out)
{
	int64_t dim = graph_int(f->g, f->n, ATTR_DIM, 0), start = 0;
	for (int k = 0; k < f->count; k++)
		if (form_of(f, k) == NULL || form_of(f, k)->count > 0)
			return false;
	*out = *form_of(f, 0);
	if (f->type->dtype != DT_BOOL && !cat_step(f, dim, &out->value.step[dim]))
		return false;
	for (int k = 0; k < f->count; start += type_of(f, k++)->dim[dim])
		if (f->type->dtype == DT_BOOL ? form_of(f, k)->never != out->never
					      : !piece_fits(f, k, dim, start, &out->value))
			return false;
	return true;
}

/* --- numbers --- */

/* Operand k as a number at the result's coordinates; a bool only where it is constant. */
static bool number(const struct flow *f, int k, struct affine *out)
{
	struct form x;
	int64_t v;
	if (!broadcast_form(f, k, &x))
		return false;
	if (!x.boolean)
		*out = x.value;
	else if (form_constant(&x, &v))
		*out = (struct affine){ .base = v };
	else
		return false;
	return true;
}

/* Sums of bools are bools: another arithmetic. */
static bool is_integer(const struct flow *f)
{
	return f->type->dtype != DT_BOOL;
}

static bool difference(const struct flow *f, struct affine *out)
{
	struct affine b;
	return number(f, 0, out) && number(f, 1, &b) && affine_add_times(out, &b, -1);
}

static bool of_add(const struct flow *f, struct form *out)
{
	struct affine b;
	return is_integer(f) && number(f, 0, &out->value) && number(f, 1, &b) && affine_add_times(&out->value, &b, 1);
}

static bool of_sub(const struct flow *f, struct form *out)
{
	return is_integer(f) && difference(f, &out->value);
}

static bool of_mul(const struct flow *f, struct form *out)
{
	struct affine a, b;
	if (!is_integer(f) || !number(f, 0, &a) || !number(f, 1, &b) || (!affine_is_constant(&a) && !affine_is_constant(&b)))
		return false;
	return affine_is_constant(&b) ? affine_add_times(&out->value, &a, b.base) : affine_add_times(&out->value, &b, a.base);
}

static bool of_neg(const struct flow *f, struct form *out)
{
	struct affine a;
	return is_integer(f) && number(f, 0, &a) && affine_add_times(&out->value, &a, -1);
}

/* The operand that is the larger (or smaller) one everywhere. */
static bool extreme(const struct flow *f, bool largest, struct form *out)
{
	struct affine d;
	int64_t least, most;
	if (!is_integer(f) || !difference(f, &d) || !affine_range(&d, f->type, &least, &most) ||
	    (least < 0 && most > 0))
		return false;
	return number(f, (most <= 0) == largest, &out->value);
}

static bool of_maximum(const struct flow *f, struct form *out)
{
	return extreme(f, true, out);
}

static bool of_minimum(const struct flow *f, struct form *out)
{
	return extreme(f, false, out);
}

static bool of_same(const struct flow *f, struct form *out)
{
	const struct form *x = form_of(f, 0);
	if (x != NULL)
		*out = *x;
	return x != NULL;
}

static bool of_cast(const struct flow *f, struct form *out)
{
	const struct form *x = form_of(f, 0);
	bool to_bool = f->type->dtype == DT_BOOL;
	if (x == NULL || x->boolean == to_bool)
		return of_same(f, out);
	if (!to_bool)
		return number(f, 0, &out->value);
	out->count = 1;
	out->at[0] = (struct condition){ DIFFERS_0, x->value };
	return true;
}

/* --- comparisons --- */

/* The result: sign * (a - b) + more, in a relation to 0. */
static bool compare(const struct flow *f, enum relation is, int sign, int64_t more, struct form *out)
{
	struct affine d;
	out->count = 1;
	out->at[0].is = is;
	out->at[0].of.base = more;
	return difference(f, &d) && affine_add_times(&out->at[0].of, &d, sign);
}

static bool of_eq(const struct flow *f, struct form *out) { return compare(f, EQUALS_0, 1, 0, out); }
static bool of_ne(const struct flow *f, struct form *out) { return compare(f, DIFFERS_0, 1, 0, out); }
static bool of_le(const struct flow *f, struct form *out) { return compare(f, AT_MOST_0, 1, 0, out); }
static bool of_lt(const struct flow *f, struct form *out) { return compare(f, AT_MOST_0, 1, 1, out); }
static bool of_ge(const struct flow *f, struct form *out) { return compare(f, AT_MOST_0, -1, 0, out); }
static bool of_gt(const struct flow *f, struct form *out) { return compare(f, AT_MOST_0, -1, 1, out); }

/* --- logic --- */

static bool of_not(const struct flow *f, struct form *out)
{
	const struct form *x = form_of(f, 0);
	return x != NULL && x->boolean && form_not(x, out);
}

static bool bools(const struct flow *f, struct form *a, struct form *b)
{
	return broadcast_form(f, 0, a) && broadcast_form(f, 1, b) && a->boolean && b->boolean;
}

static bool of_and(const struct flow *f, struct form *out)
{
	struct form b;
	if (!bools(f, out, &b) || out->count + b.count > MAX_CONDITIONS)
		return false;
	out->never |= b.never;
	for (int i = 0; i < b.count; i++)
		out->at[out->count++] = b.at[i];
	return true;
}

static bool is_always(const struct form *f)
{
	return f->count == 0 && !f->never;
}

static bool of_or(const struct flow *f, struct form *out)
{
	struct form a, b;
	if (!bools(f, &a, &b) || (a.count > 0 && b.count > 0))
		return false;
	*out = is_always(&a) || b.never ? a : b;
	return is_always(&a) || is_always(&b) || a.never || b.never;
}

/* where(c, true, false), where(c, false, true) */
static bool where_bools(const struct flow *f, const struct form *c, struct form *out)
{
	struct form a, b;
	if (!broadcast_form(f, 1, &a) || !broadcast_form(f, 2, &b) || a.count > 0 || b.count > 0 || a.never == b.never)
		return false;
	if (a.never)
		return form_not(c, out);
	*out = *c;
	return true;
}

static bool of_where(const struct flow *f, struct form *out)
{
	struct form c;
	int64_t v;
	if (!broadcast_form(f, 0, &c))
		return false;
	if (!form_constant(&c, &v))
		return f->type->dtype == DT_BOOL && where_bools(f, &c, out);
	return f->type->dtype == DT_BOOL ? broadcast_form(f, v ? 1 : 2, out) && out->boolean
					 : number(f, v ? 1 : 2, &out->value);
}

/* triu, tril of a mask: one more condition. */
static bool triangle(const struct flow *f, int sign, struct form *out)
{
	int64_t diagonal = graph_int(f->g, f->n, ATTR_DIAGONAL, 0);
	if (!of_same(f, out) || !out->boolean || out->count == MAX_CONDITIONS || diagonal == INT64_MIN)
		return false;
	struct condition *c = &out->at[out->count++];
	*c = (struct condition){ AT_MOST_0, { .base = -sign * diagonal } };
	c->of.step[f->type->rank - 1] = sign;
	c->of.step[f->type->rank - 2] = -sign;
	return true;
}

static bool of_tril(const struct flow *f, struct form *out) { return triangle(f, 1, out); }
static bool of_triu(const struct flow *f, struct form *out) { return triangle(f, -1, out); }

/* --- sums and reductions of constants --- */

static bool of_cumsum(const struct flow *f, struct form *out)
{
	const struct form *x = form_of(f, 0);
	if (x == NULL || !form_constant(x, &out->value.base))
		return false;
	out->value.step[graph_int(f->g, f->n, ATTR_DIM, 0)] = out->value.base;
	return true;
}

static bool of_any_all(const struct flow *f, struct form *out)
{
	const struct form *x = form_of(f, 0);
	int64_t v;
	if (x == NULL || !form_constant(x, &v))
		return false;
	set_constant(out, v != 0);
	return true;
}

static bool of_index(const struct flow *f, struct form *out)
{
	struct affine map[MAX_RANK];
	return index_coordinates(f, map) && through(f, map, out);
}

/* --- the table --- */

affine_transfer *const affine_transfers[OP_COUNT] = {
	[OP_FILL] = of_fill,	       [OP_IOTA] = of_iota,	     [OP_CONST] = of_const,
	[OP_PERMUTE] = of_permute,     [OP_SLICE] = of_slice,	     [OP_EXPAND] = of_expand,
	[OP_RESHAPE] = of_reshape,     [OP_CAT] = of_cat,	     [OP_COPY] = of_same,
	[OP_CAST] = of_cast,	       [OP_ADD] = of_add,	     [OP_SUB] = of_sub,
	[OP_MUL] = of_mul,	       [OP_NEG] = of_neg,	     [OP_MAXIMUM] = of_maximum,
	[OP_MINIMUM] = of_minimum,     [OP_EQ] = of_eq,		     [OP_NE] = of_ne,
	[OP_LT] = of_lt,	       [OP_LE] = of_le,		     [OP_GT] = of_gt,
	[OP_GE] = of_ge,	       [OP_LOGICAL_NOT] = of_not,    [OP_BITWISE_NOT] = of_not,
	[OP_LOGICAL_AND] = of_and,     [OP_BITWISE_AND] = of_and,    [OP_LOGICAL_OR] = of_or,
	[OP_BITWISE_OR] = of_or,       [OP_WHERE] = of_where,	     [OP_TRIL] = of_tril,
	[OP_TRIU] = of_triu,	       [OP_CUMSUM] = of_cumsum,	     [OP_ANY] = of_any_all,
	[OP_ALL] = of_any_all,	       [OP_INDEX] = of_index,	     [OP_GATHER] = of_index,
};
