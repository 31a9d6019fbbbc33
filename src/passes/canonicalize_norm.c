/*
 * canonicalize: RMSNorm.
 *
 *     mul(x, rsqrt(add(mean(x * x), eps)))  =>  rms_norm(x)
 *
 * The kernel of rms_norm has the bits of the chain: f32 inside, the same mean, one product.  Where
 * another node (a backward pass) wants a part of the chain, it stays: it would be computed twice.
 */
#include "canonicalize.h"

static bool is_f32(const struct graph *g, struct node_id n)
{
	return graph_type(g, n)->dtype == DT_F32;
}

/* Operand 0 of n, which only the chain uses; none where n is another op. */
static struct node_id sole_operand(const struct canon *c, struct node_id n, enum op op)
{
	bool fits = node_is(n) && graph_op(c->from, n) == op && c->users[n.i] == 1 && is_f32(c->from, n);
	return fits ? graph_operand(c->from, n, 0) : NODE_NONE;
}

/* rsqrt(a), or reciprocal(sqrt(a)), which is the same: a. */
static struct node_id under_rsqrt(const struct canon *c, struct node_id n)
{
	struct node_id a = sole_operand(c, n, OP_RSQRT);
	return node_is(a) ? a : sole_operand(c, sole_operand(c, n, OP_RECIPROCAL), OP_SQRT);
}

static bool is_fill(const struct graph *g, struct node_id n, double *value)
{
	*value = graph_float(g, n, ATTR_VALUE, 0);
	return graph_op(g, n) == OP_FILL && type_count(graph_type(g, n)) == 1;
}

/* add(m, eps) with eps of f32, either way round: m. */
static struct node_id under_epsilon(const struct canon *c, struct node_id n, double *eps)
{
	if (!node_is(sole_operand(c, n, OP_ADD)))
		return NODE_NONE;
	for (int k = 0; k < 2; k++) {
		struct node_id e = graph_operand(c->from, n, 1 - k);
		if (is_fill(c->from, e, eps) && is_f32(c->from, e))
			return graph_operand(c->from, n, k);
	}
	return NODE_NONE;
}

/* mean over the last dim alone, kept. */
static bool over_last(const struct graph *g, struct node_id mean)
{
	const int64_t *dims;
	int rank = graph_type(g, graph_operand(g, mean, 0))->rank;
	return graph_ints(g, mean, ATTR_DIMS, &dims) == 1 && dims[0] == rank - 1 && graph_int(g, mean, ATTR_KEEPDIM, 0) == 1;
}

/* mul(x, x) or pow(x, 2): x. */
static struct node_id under_square(const struct canon *c, struct node_id n)
{
	double power;
	struct node_id x = sole_operand(c, n, OP_MUL);
	if (node_is(x))
		return node_same(x, graph_operand(c->from, n, 1)) ? x : NODE_NONE;
	x = sole_operand(c, n, OP_POW);
	return node_is(x) && is_fill(c->from, graph_operand(c->from, n, 1), &power) && power == 2 ? x : NODE_NONE;
}

/* r = rsqrt(mean(h * h) + eps): h. */
static struct node_id under_inverse(const struct canon *c, struct node_id r, double *eps)
{
	struct node_id s = under_rsqrt(c, r);
	struct node_id mean = node_is(s) ? under_epsilon(c, s, eps) : NODE_NONE;
	struct node_id square = sole_operand(c, mean, OP_MEAN);
	if (!node_is(square) || !over_last(c->from, mean))
		return NODE_NONE;
	struct node_id h = under_square(c, square);
	return node_is(h) && is_f32(c->from, h) ? h : NODE_NONE;
}

/* x itself, or x before it was cast to f32: a product in f32 casts it too. */
static bool same_in_f32(const struct graph *g, struct node_id h, struct node_id x)
{
	return node_same(h, x) || (graph_op(g, h) == OP_CAST && node_same(graph_operand(g, h, 0), x) &&
				   dtype_is_float((enum dtype)graph_type(g, x)->dtype) && graph_type(g, x)->dtype != DT_F64);
}

bool root_mean_square(const struct site *s, struct node_id *out)
{
	struct canon *c = s->c;
	double eps;
	if (!node_is(s->source) || !is_f32(c->from, s->source))
		return false;
	for (int k = 0; k < 2; k++) {
		struct node_id h = under_inverse(c, graph_operand(c->from, s->source, 1 - k), &eps);
		if (!node_is(h) || !same_in_f32(c->from, h, graph_operand(c->from, s->source, k)) ||
		    !shape_equal(graph_type(c->from, h), graph_type(c->from, s->source)))
			continue;
		struct attrs a = { 0 };
		int64_t last = graph_type(c->from, h)->rank - 1;
		attrs_ints(&a, ATTR_DIMS, &last, 1);
		attrs_float(&a, ATTR_EPS, eps);
		*out = site_emit(s, OP_RMS_NORM, &c->map[h.i], 1, &a);
		return true;
	}
	return false;
}

/* cast(rms_norm(cast(x))) back to x's type: rms_norm(x), rounded at the same place. */
bool narrow_rms_norm(const struct site *s, struct node_id *out)
{
	struct node_id norm = s->in[0];
	if (site_op(s, 0) != OP_RMS_NORM || !node_is(s->source) ||
	    s->c->users[graph_operand(s->c->from, s->source, 0).i] != 1)
		return false;
	struct node_id h = graph_operand(s->g, norm, 0);
	if (graph_op(s->g, h) != OP_CAST || !is_f32(s->g, h))
		return false;
	struct node_id x = graph_operand(s->g, h, 0);
	struct type want = site_type(s);
	if (graph_type(s->g, x)->dtype != want.dtype || (want.dtype != DT_BF16 && want.dtype != DT_F16))
		return false;
	struct attrs a;
	graph_attrs(s->g, norm, &a);
	*out = site_emit(s, OP_RMS_NORM, &x, 1, &a);
	return true;
}
