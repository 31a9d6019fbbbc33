/* canonicalize: what works element by element: casts, logic, and views moved below. */
#include "canonicalize.h"

#include <string.h>

/* Where elements lie is not for the graph to say. */
bool copy_to_operand(const struct site *s, struct node_id *out)
{
	*out = s->in[0];
	return true;
}

bool expand_twice(const struct site *s, struct node_id *out)
{
	if (site_op(s, 0) != OP_EXPAND)
		return false;
	struct node_id x = graph_operand(s->g, s->in[0], 0);
	*out = site_again(s, &x);
	return true;
}

/* --- casts --- */

/* Bits of mantissa and exponent, sign not counted; integers: their range. */
struct precision { int mantissa, exponent; };

static struct precision precision_of(enum dtype t)
{
	switch (t) {
	case DT_F64: return (struct precision){ 52, 11 };
	case DT_F32: return (struct precision){ 23, 8 };
	case DT_BF16: return (struct precision){ 7, 8 };
	case DT_F16: return (struct precision){ 10, 5 };
	default: return (struct precision){ 0, 0 };
	}
}

static bool is_unsigned(enum dtype t)
{
	return t == DT_U8 || t == DT_U32;
}

/* Every value of a is one of b: a cast between them loses nothing. */
static bool holds(enum dtype b, enum dtype a)
{
	enum dtype_class class = dtype_class(a);
	if (class == DC_BOOLEAN || a == b)
		return true;
	if (class == DC_FLOAT && dtype_class(b) == DC_FLOAT)
		return precision_of(a).mantissa <= precision_of(b).mantissa && precision_of(a).exponent <= precision_of(b).exponent;
	if (class != DC_INT || dtype_class(b) != DC_INT)
		return false;
	return is_unsigned(a) == is_unsigned(b) ? dtype_size(a) <= dtype_size(b)
						: is_unsigned(a) && dtype_size(a) < dtype_size(b);
}

/* cast(cast(x)) where the inner one loses nothing. */
bool cast_of_cast(const struct site *s, struct node_id *out)
{
	if (site_op(s, 0) != OP_CAST)
		return false;
	struct node_id x = graph_operand(s->g, s->in[0], 0);
	if (!holds((enum dtype)site_in(s, 0)->dtype, (enum dtype)graph_type(s->g, x)->dtype))
		return false;
	*out = site_again(s, &x);
	return true;
}

#define MAX_VIEWS 8

/* The iota under views, none where there is another thing. */
static struct node_id iota_under(const struct graph *g, struct node_id n)
{
	for (int i = 0; i < MAX_VIEWS && op_is_view(graph_op(g, n)); i++)
		n = graph_operand(g, n, 0);
	return graph_op(g, n) == OP_IOTA ? n : NODE_NONE;
}

/* All of its numbers are integers that the float type has. */
static bool iota_in(const struct graph *g, struct node_id iota, enum dtype t)
{
	int64_t start = graph_int(g, iota, ATTR_START, 0), span, end;
	int64_t most = INT64_C(1) << (precision_of(t).mantissa + 1);
	return mul_size(graph_int(g, iota, ATTR_STEP, 1), graph_type(g, iota)->dim[0], &span) &&
	       add_size(start, span, &end) && start >= -most && start <= most && end >= -most && end <= most;
}

/* The views of n over `base` once more, on `x`. */
static struct node_id views_again(const struct site *s, struct node_id n, struct node_id base, struct node_id x)
{
	if (node_same(n, base))
		return x;
	struct node_id under = views_again(s, graph_operand(s->g, n, 0), base, x);
	enum op op = graph_op(s->g, n);
	struct attrs a;
	graph_attrs(s->g, n, &a);
	return site_emit(s, op, &under, 1, &a);
}

/* cast(view(iota)) = view(iota of the float type) */
bool cast_of_iota(const struct site *s, struct node_id *out)
{
	struct node_id iota = iota_under(s->g, s->in[0]);
	enum dtype t = (enum dtype)site_type(s).dtype;
	if (!node_is(iota) || !dtype_is_float(t) || dtype_class((enum dtype)graph_type(s->g, iota)->dtype) != DC_INT ||
	    !iota_in(s->g, iota, t))
		return false;
	struct attrs a;
	graph_attrs(s->g, iota, &a);
	attrs_int(&a, ATTR_DTYPE, t);
	*out = views_again(s, s->in[0], iota, site_emit(s, OP_IOTA, NULL, 0, &a));
	return true;
}

/* --- constants as operands --- */

static bool is_filled(const struct site *s, int k, double *value)
{
	*value = graph_float(s->g, s->in[k], ATTR_VALUE, 0);
	return site_op(s, k) == OP_FILL;
}

bool power_of_one(const struct site *s, struct node_id *out)
{
	double power;
	struct type t = site_type(s);
	*out = s->in[0];
	return is_filled(s, 1, &power) && power == 1 && t.dtype == site_in(s, 0)->dtype && shape_equal(&t, site_in(s, 0));
}

/* true & x, false | x: x.  false & x, true | x: the constant. */
bool constant_logic(const struct site *s, struct node_id *out)
{
	bool is_and = s->op == OP_LOGICAL_AND || s->op == OP_BITWISE_AND;
	double value;
	if (site_in(s, 0)->dtype != DT_BOOL || site_in(s, 1)->dtype != DT_BOOL)
		return false;
	for (int k = 0; k < 2; k++) {
		if (!is_filled(s, k, &value))
			continue;
		struct type t = site_type(s);
		*out = (value != 0) == is_and ? site_broadcast(s, s->in[1 - k], &t) : site_fill(s, value, &t);
		return true;
	}
	return false;
}

bool constant_where(const struct site *s, struct node_id *out)
{
	double value;
	if (!is_filled(s, 0, &value))
		return false;
	int taken = value != 0 ? 1 : 2;
	struct type t = site_type(s);
	if (site_in(s, taken)->dtype != t.dtype)
		return false;
	*out = site_broadcast(s, s->in[taken], &t);
	return true;
}

/* --- expand: broadcasting does it --- */

/* Operand k before it was expanded; of a fill one with dims of size 1. */
static struct node_id unexpanded(const struct site *s, int k)
{
	if (site_op(s, k) == OP_EXPAND)
		return graph_operand(s->g, s->in[k], 0);
	struct type t = *site_in(s, k);
	if (site_op(s, k) != OP_FILL || s->count == 1 || type_count(&t) <= 1)
		return s->in[k];
	for (int d = 0; d < t.rank; d++)
		t.dim[d] = 1;
	return site_fill(s, graph_float(s->g, s->in[k], ATTR_VALUE, 0), &t);
}

/* f(expand(x), y) = f(x, y), expanded where y is not as large. */
bool pointwise_over_expand(const struct site *s, struct node_id *out)
{
	struct node_id in[3];
	bool any = false;
	for (int k = 0; k < s->count; k++) {
		in[k] = unexpanded(s, k);
		any |= !node_same(in[k], s->in[k]);
	}
	if (!any)
		return false;
	struct type t = site_type(s);
	*out = site_broadcast(s, site_again(s, in), &t);
	return true;
}

/* --- reshape: merged dims stay apart, the merging moves below --- */

/* An operand that a reshape has merged from `from` to the shape of the result. */
struct merge {
	struct type from, to;
	struct dim_group group[MAX_GROUPS];
	int count;
};

static bool is_merge(const struct site *s, int k, const struct type *result, struct merge *m)
{
	if (site_op(s, k) != OP_RESHAPE || !shape_equal(site_in(s, k), result))
		return false;
	m->from = *graph_type(s->g, graph_operand(s->g, s->in[k], 0));
	m->to = *result;
	m->count = shape_groups(&m->from, &m->to, m->group);
	return shape_only_merges(m->group, m->count);
}

/* The shape of a broadcasting operand once the merged dims are apart; false: it is not the same along one. */
static bool apart(const struct merge *m, const struct type *x, struct type *out)
{
	int shift = m->to.rank - x->rank;
	*out = *x;
	out->rank = 0;
	for (int i = 0; i < m->count; i++) {
		const struct dim_group *g = &m->group[i];
		int64_t size = g->to < shift ? 1 : x->dim[g->to - shift];
		if (g->to < shift)
			continue;
		if (g->from_count > 1 && size != 1)
			return false;
		for (int d = 0; d < g->from_count; d++)
			out->dim[out->rank++] = size;
	}
	return true;
}

/* Operand k where merged dims are apart. */
static bool take_apart(const struct site *s, int k, const struct merge *m, struct node_id *out)
{
	const struct type *x = site_in(s, k);
	struct type shape;
	*out = s->in[k];
	if (x->rank == 0)
		return true;
	if (site_op(s, k) == OP_RESHAPE && shape_equal(x, &m->to)) {
		*out = graph_operand(s->g, s->in[k], 0);
		if (shape_equal(graph_type(s->g, *out), &m->from))
			return true;
	}
	if (!apart(m, x, &shape))
		return false;
	*out = site_reshape(s, s->in[k], shape.rank, shape.dim);
	return true;
}

/* f(reshape(x), b) = reshape(f(x, b')) */
bool pointwise_over_reshape(const struct site *s, struct node_id *out)
{
	struct node_id in[3];
	struct merge m;
	int k = 0;
	while (k < s->count && site_op(s, k) != OP_RESHAPE)
		k++;
	if (k == s->count)
		return false;
	struct type t = site_type(s);
	for (k = 0; k < s->count && !is_merge(s, k, &t, &m); k++)
		;
	if (k == s->count)
		return false;
	for (k = 0; k < s->count; k++)
		if (!take_apart(s, k, &m, &in[k]))
			return false;
	*out = site_reshape(s, site_again(s, in), t.rank, t.dim);
	return true;
}

/* f along dims that the reshape leaves alone: softmax(reshape(x)) = reshape(softmax(x)) */
bool along_over_reshape(const struct site *s, struct node_id *out)
{
	struct merge m;
	struct attrs a = *s->attrs;
	int64_t last;
	if (!is_merge(s, 0, site_in(s, 0), &m))
		return false;
	const struct dim_group *g = &m.group[m.count - 1];
	for (int i = 0; i < a.count; i++) {
		if (a.at[i].key == ATTR_DIM && (a.at[i].u.i != g->to || g->from_count != 1))
			return false;
		if (a.at[i].key == ATTR_DIMS && (a.at[i].count != 1 || g->from_count != 1))
			return false;
	}
	last = g->from;
	if (s->op == OP_SOFTMAX || s->op == OP_LOG_SOFTMAX)
		attrs_int(&a, ATTR_DIM, last);
	else
		attrs_ints(&a, ATTR_DIMS, &last, 1);
	struct node_id in[3] = { graph_operand(s->g, s->in[0], 0) };
	for (int k = 1; k < s->count; k++)
		in[k] = s->in[k];
	*out = site_reshape(s, site_emit(s, s->op, in, s->count, &a), m.to.rank, m.to.dim);
	return true;
}
