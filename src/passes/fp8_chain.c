#include "fp8_chain.h"

#include <math.h>
#include <string.h>

#define MAX_CHAIN 64
#define LARGEST_EPS 1.000001e-12 /* of an amax, as the recipes have it: below it any scale does */

static bool is_fp8(const struct graph *g, struct node_id n)
{
	return dtype_class((enum dtype)graph_type(g, n)->dtype) == DC_FP8;
}

static bool is_wide(const struct graph *g, struct node_id n)
{
	return graph_type(g, n)->dtype == DT_F32 || graph_type(g, n)->dtype == DT_F64;
}

/* --- codes times a scale --- */

static bool add_step(struct stored *s, struct node_id n)
{
	if (s->steps == MAX_STEPS)
		return false;
	memmove(s->step + 1, s->step, sizeof(s->step[0]) * (size_t)s->steps++);
	s->step[0] = n;
	return true;
}

static bool is_step(enum op op)
{
	return op_is_collective(op) || op == OP_SHARD || op == OP_RESHAPE || op == OP_PERMUTE;
}

/* What casts, copies and steps of floats stand on. */
static struct node_id descend(const struct graph *g, struct node_id n, struct stored *s)
{
	while (!is_fp8(g, n)) {
		enum op op = graph_op(g, n);
		if (is_step(op) ? !add_step(s, n) : op != OP_CAST && op != OP_COPY)
			break;
		n = graph_operand(g, n, 0);
	}
	return n;
}

/* One number, or one along each dim of the codes that it does not repeat over. */
static bool scale_fits(const struct graph *g, struct node_id cast, struct node_id scale)
{
	const struct type *t = graph_type(g, scale), *codes = graph_type(g, cast);
	if (!dtype_is_float((enum dtype)t->dtype))
		return false;
	if (type_count(t) == 1)
		return t->rank <= codes->rank;
	for (int i = 0; i < t->rank; i++)
		if (t->rank != codes->rank || (t->dim[i] != 1 && t->dim[i] != codes->dim[i]))
			return false;
	return true;
}

/* Scales of the elements of `from`, in the groups of dims that `from` and `to` have in common: of all dims of one, or none. */
static bool reshape_scale(const struct type *from, const struct type *to, struct type *scale)
{
	struct type out = *scale;
	out.rank = to->rank;
	for (int i = 0, j = 0; i < from->rank || j < to->rank;) {
		int64_t before = 1, after = 1;
		int first = j;
		bool each = false, one = false;
		do {
			if (i < from->rank && (before <= after || j == to->rank)) {
				each |= scale->dim[i] > 1;
				one |= scale->dim[i] == 1 && from->dim[i] > 1;
				before *= from->dim[i++];
			} else if (j < to->rank) {
				after *= to->dim[j++];
			} else {
				return false;
			}
		} while (before != after);
		if (each && one)
			return false;
		for (int k = first; k < j; k++)
			out.dim[k] = each ? to->dim[k] : 1;
	}
	*scale = out;
	return true;
}

bool stored_scale_step(const struct graph *g, struct node_id step, struct type *scale)
{
	const struct type before = *scale;
	const int64_t *dims;
	if (before.rank == 0)
		return true;
	if (graph_op(g, step) == OP_RESHAPE)
		return reshape_scale(graph_type(g, graph_operand(g, step, 0)), graph_type(g, step), scale);
	if (graph_op(g, step) == OP_PERMUTE)
		for (int i = 0, count = graph_ints(g, step, ATTR_DIMS, &dims); i < count; i++)
			scale->dim[i] = before.dim[dims[i]];
	return true;
}

/* The scale after the outer steps; false: they cannot be taken. */
static bool outer_scale(const struct graph *g, const struct stored *s, struct type *scale)
{
	*scale = *graph_type(g, s->scale);
	if (type_count(scale) == 1)
		scale->rank = 0;
	for (int i = s->inner; i < s->steps; i++)
		if (!stored_scale_step(g, s->step[i], scale))
			return false;
	return true;
}

/* n is a product or quotient; operand k is to be the codes. */
static bool stored_product(const struct graph *g, struct node_id n, int k, struct stored *out)
{
	struct stored s = *out;
	s.codes = descend(g, graph_operand(g, n, k), &s);
	s.scale = graph_operand(g, n, 1 - k);
	s.inner = s.steps - out->steps;
	s.divides = graph_op(g, n) == OP_DIV;
	struct type after;
	if (!is_fp8(g, s.codes) || !scale_fits(g, graph_operand(g, n, k), s.scale) || !outer_scale(g, &s, &after))
		return false;
	*out = s;
	return true;
}

bool stored_find(const struct graph *g, struct node_id n, struct stored *out)
{
	*out = (struct stored){ 0 };
	if (is_fp8(g, n))
		return false;
	n = descend(g, n, out);
	out->codes = n;
	if (is_fp8(g, n))
		return true;
	if (graph_op(g, n) == OP_MUL)
		return stored_product(g, n, 0, out) || stored_product(g, n, 1, out);
	return graph_op(g, n) == OP_DIV && stored_product(g, n, 0, out);
}

bool stored_operand(const struct graph *g, struct node_id product, int side, struct stored *out)
{
	struct equation e;
	struct diag d = { 0 };
	if (!stored_find(g, graph_operand(g, product, side), out))
		return false;
	if (!node_is(out->scale))
		return true;
	if (equation_parse(&e, graph_string(g, product, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	struct type t;
	if (!outer_scale(g, out, &t))
		return false;
	for (int i = 0; i < t.rank; i++)
		if (t.dim[i] != 1 && equation_role(&e, e.letter[side][i]) == ROLE_K)
			return false;
	return true;
}

/* Under casts, copies and views. */
static bool is_codes(const struct graph *g, struct node_id n)
{
	while (!is_fp8(g, n)) {
		enum op op = graph_op(g, n);
		if (op != OP_CAST && op != OP_COPY && op != OP_RESHAPE && op != OP_PERMUTE)
			return false;
		n = graph_operand(g, n, 0);
	}
	return true;
}

bool codes_under(const struct graph *g, struct node_id n)
{
	for (int i = 0; i < MAX_CHAIN && !is_codes(g, n); i++) {
		enum op op = graph_op(g, n);
		if (op == OP_MUL && is_codes(g, graph_operand(g, n, 1)))
			return true;
		if (op != OP_CAST && op != OP_COPY && op != OP_RESHAPE && op != OP_PERMUTE && op != OP_MUL && op != OP_DIV)
			return false;
		n = graph_operand(g, n, 0);
	}
	return is_codes(g, n);
}

/* --- numbers --- */

static bool element(const struct tensor *t, double *out)
{
	switch (t->dtype) {
	case DT_F32: {
		float f;
		memcpy(&f, t->data, sizeof(f));
		*out = f;
		return true;
	}
	case DT_F64:
		memcpy(out, t->data, sizeof(*out));
		return true;
	default:
		return false;
	}
}

/* One number for all elements. */
static bool number(const struct graph *g, struct node_id n, double *out)
{
	for (int i = 0; i < MAX_CHAIN; i++) {
		enum op op = graph_op(g, n);
		if (op == OP_FILL) {
			*out = graph_float(g, n, ATTR_VALUE, 0);
			return true;
		}
		if (op == OP_CONST)
			return type_count(graph_type(g, n)) == 1 && element(graph_tensor(g, n), out);
		if (op != OP_CAST && op != OP_COPY && !op_is_view(op))
			return false;
		n = graph_operand(g, n, 0);
	}
	return false;
}

/* --- scales: factor * amax^power --- */

struct ratio {
	struct node_id amax; /* the max */
	double factor;
	int power;
	bool pow2;
};

static bool ratio_of(const struct graph *g, struct node_id n, int depth, struct ratio *r);

/* At most one dim is larger than 1: an order of its elements that no view changes. */
static bool is_line(const struct type *t)
{
	int large = 0;
	for (int i = 0; i < t->rank; i++)
		large += t->dim[i] > 1;
	return large <= 1;
}

static bool invert(struct ratio *r)
{
	r->factor = 1 / r->factor;
	r->power = -r->power;
	return true;
}

static bool times(struct ratio *r, double by)
{
	r->factor *= by;
	return !r->pow2;
}

/* Products and quotients with a number. */
static bool scaled_ratio(const struct graph *g, struct node_id n, int depth, struct ratio *r)
{
	struct node_id a = graph_operand(g, n, 0), b = graph_operand(g, n, 1);
	bool divides = graph_op(g, n) == OP_DIV;
	double by;
	if (!is_wide(g, n))
		return false;
	if (number(g, b, &by))
		return ratio_of(g, a, depth, r) && times(r, divides ? 1 / by : by);
	if (!number(g, a, &by) || !ratio_of(g, b, depth, r))
		return false;
	return divides ? invert(r) && (by == 1 || times(r, by)) : times(r, by);
}

/* max(amax * factor, eps) */
static bool clamped_ratio(const struct graph *g, struct node_id n, int depth, struct ratio *r)
{
	struct node_id a = graph_operand(g, n, 0), b = graph_operand(g, n, 1);
	double eps;
	bool right = number(g, b, &eps);
	if (!right && !number(g, a, &eps))
		return false;
	return ratio_of(g, right ? a : b, depth, r) && r->power == 1 && !r->pow2 && eps / r->factor <= LARGEST_EPS;
}

/* exp2(floor(log2(x))) of a multiplier. */
static bool pow2_ratio(const struct graph *g, struct node_id n, int depth, struct ratio *r)
{
	struct node_id floored = graph_operand(g, n, 0), log;
	if (!is_wide(g, n) || graph_op(g, floored) != OP_FLOOR)
		return false;
	log = graph_operand(g, floored, 0);
	if (graph_op(g, log) != OP_LOG2 || !ratio_of(g, graph_operand(g, log, 0), depth, r) || r->power != -1)
		return false;
	r->pow2 = true;
	return true;
}

static bool ratio_of(const struct graph *g, struct node_id n, int depth, struct ratio *r)
{
	if (depth++ == MAX_CHAIN)
		return false;
	switch (graph_op(g, n)) {
	case OP_CAST:
		return is_wide(g, n) && ratio_of(g, graph_operand(g, n, 0), depth, r);
	case OP_PERMUTE:
		return is_line(graph_type(g, n)) && ratio_of(g, graph_operand(g, n, 0), depth, r);
	case OP_COPY:
	case OP_RESHAPE:
		return ratio_of(g, graph_operand(g, n, 0), depth, r);
	case OP_REDUCE_MAX:
		*r = (struct ratio){ .amax = n, .factor = 1, .power = 1 };
		return graph_op(g, graph_operand(g, n, 0)) == OP_ABS;
	case OP_MAXIMUM:
		return clamped_ratio(g, n, depth, r);
	case OP_RECIPROCAL:
		return is_wide(g, n) && ratio_of(g, graph_operand(g, n, 0), depth, r) && invert(r);
	case OP_MUL:
	case OP_DIV:
		return scaled_ratio(g, n, depth, r);
	case OP_EXP2:
		return pow2_ratio(g, n, depth, r);
	default:
		return false;
	}
}

/* --- x times a scale, clamped and cast --- */

/* Without casts to wider floats. */
static struct node_id narrow(const struct graph *g, struct node_id n)
{
	while (graph_op(g, n) == OP_COPY ||
	       (graph_op(g, n) == OP_CAST && dtype_is_float((enum dtype)graph_type(g, graph_operand(g, n, 0))->dtype) &&
		dtype_size((enum dtype)graph_type(g, n)->dtype) > dtype_size((enum dtype)graph_type(g, graph_operand(g, n, 0))->dtype)))
		n = graph_operand(g, n, 0);
	return n;
}

/* Without views too: the same elements in some order. */
static struct node_id elements_of(const struct graph *g, struct node_id n)
{
	while (graph_op(g, n = narrow(g, n)) == OP_RESHAPE || graph_op(g, n) == OP_PERMUTE)
		n = graph_operand(g, n, 0);
	return n;
}

/* Without a clamp to +-largest, in either order. */
static struct node_id unclamped(const struct graph *g, struct node_id n, double largest)
{
	for (int i = 0; i < 2; i++) {
		double limit;
		enum op op = graph_op(g, n);
		if ((op != OP_MINIMUM && op != OP_MAXIMUM) || !number(g, graph_operand(g, n, 1), &limit) ||
		    limit != (op == OP_MINIMUM ? largest : -largest))
			break;
		n = graph_operand(g, n, 0);
	}
	return n;
}

static bool about(double a, double b)
{
	return fabs(a - b) <= 1e-6 * fabs(b);
}

/* The scale by which x is multiplied (or divided), seen as a multiplier. */
static bool multiplier(const struct graph *g, struct node_id n, int x, struct ratio *r)
{
	if (!ratio_of(g, graph_operand(g, n, 1 - x), 0, r))
		return false;
	return graph_op(g, n) == OP_MUL || invert(r);
}

/* Along `dim` there is one scale, along the others one for each index. */
static bool scales_rows(const struct type *x, const struct type *scale, int dim)
{
	for (int i = 0; i < x->rank; i++)
		if (scale->rank != x->rank || scale->dim[i] != (i == dim ? 1 : x->dim[i]))
			return false;
	return true;
}

/* amax of the x that is scaled, over all of it or over one dim. */
static bool same_source(const struct graph *g, struct node_id x, struct node_id scale, struct node_id amax,
			struct dynamic *out)
{
	const int64_t *dims;
	struct node_id of = graph_operand(g, graph_operand(g, amax, 0), 0);
	int count = graph_ints(g, amax, ATTR_DIMS, &dims), rank = graph_type(g, of)->rank;
	out->x = narrow(g, x);
	out->dim = count == rank ? -1 : (int)dims[0];
	if (count == rank)
		return node_same(elements_of(g, x), elements_of(g, of));
	return count == 1 && node_same(out->x, narrow(g, of)) && scales_rows(graph_type(g, x), graph_type(g, scale), out->dim);
}

static bool quantizes(const struct graph *g, struct node_id n, int x, struct node_id factor, struct dynamic *out)
{
	struct ratio scale, back;
	if (!multiplier(g, n, x, &scale) || !ratio_of(g, factor, 0, &back))
		return false;
	out->pow2 = scale.pow2;
	return scale.power == -1 && about(scale.factor, 448) && back.power == 1 && about(back.factor, 1.0 / 448) &&
	       scale.pow2 == back.pow2 && node_same(scale.amax, back.amax) &&
	       same_source(g, graph_operand(g, n, x), graph_operand(g, n, 1 - x), scale.amax, out);
}

bool dynamic_find(const struct graph *g, struct node_id codes, struct node_id factor, struct dynamic *out)
{
	if (graph_op(g, codes) == OP_PARAM || graph_op(g, codes) == OP_CONST)
		out->why = "stored";
	else if (graph_type(g, codes)->dtype != DT_E4M3)
		out->why = "not e4m3";
	else
		out->why = "scale is not 448/amax of it";
	if (graph_op(g, codes) != OP_CAST || graph_type(g, codes)->dtype != DT_E4M3)
		return false;
	struct node_id n = unclamped(g, graph_operand(g, codes, 0), 448);
	if (!is_wide(g, n))
		return false;
	if (graph_op(g, n) == OP_MUL)
		return quantizes(g, n, 0, factor, out) || quantizes(g, n, 1, factor, out);
	return graph_op(g, n) == OP_DIV && quantizes(g, n, 0, factor, out);
}

/* --- what the report says --- */

const char *lifted_reason(struct context *c, const char *const kept[2])
{
	char text[256] = "lifted from aten._scaled_mm";
	for (int k = 0; k < 2; k++)
		if (kept[k] != NULL)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s (%s)",
				 k == 1 && kept[0] ? ", " : "; codes kept: ", k == 0 ? "a" : "b", kept[k]);
	return context_intern(c, text);
}

bool lifted_keeps(const char *reason, int side)
{
	const char *kept = strstr(reason, "codes kept: ");
	return kept != NULL && strstr(kept, side == 0 ? " a (" : " b (") != NULL;
}
