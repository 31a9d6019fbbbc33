/* canonicalize: attention without repeated keys, and without masks that follow from positions alone. */
#include "canonicalize.h"

#include <math.h>

static bool has_mask(const struct site *s)
{
	return s->count == 4;
}

static bool is_set(const struct site *s, enum attr_key k)
{
	for (int i = 0; i < s->attrs->count; i++)
		if (s->attrs->at[i].key == k)
			return s->attrs->at[i].u.i != 0;
	return false;
}

/* The same attention with another mask, or none. */
static struct node_id with_mask(const struct site *s, struct node_id mask, bool causal)
{
	struct node_id in[4] = { s->in[0], s->in[1], s->in[2], mask };
	struct attrs a = *s->attrs;
	if (causal && !is_set(s, ATTR_CAUSAL))
		attrs_int(&a, ATTR_CAUSAL, 1);
	return site_emit(s, OP_SDPA, in, node_is(mask) ? 4 : 3, &a);
}

/* --- keys and values repeated for groups of heads: sdpa does that itself --- */

/* x of reshape(expand(x [.., G, 1, S, D] to [.., G, R, S, D])) to [.., G * R, S, D], as [.., G, S, D]. */
static bool unrepeated(const struct site *s, int k, struct type *shape, struct node_id *out)
{
	const struct type *t = site_in(s, k);
	int heads = t->rank - 3;
	if (site_op(s, k) != OP_RESHAPE)
		return false;
	struct node_id wide = graph_operand(s->g, s->in[k], 0);
	if (graph_op(s->g, wide) != OP_EXPAND || graph_type(s->g, wide)->rank != t->rank + 1)
		return false;
	*out = graph_operand(s->g, wide, 0);
	const struct type *x = graph_type(s->g, *out), *w = graph_type(s->g, wide);
	if (x->dim[heads + 1] != 1 || t->dim[heads] != w->dim[heads] * w->dim[heads + 1])
		return false;
	*shape = *t;
	shape->dim[heads] = x->dim[heads];
	for (int d = 0; d < t->rank; d++)
		if (x->dim[d + (d > heads)] != shape->dim[d])
			return false;
	return true;
}

bool repeated_keys(const struct site *s, struct node_id *out)
{
	struct type k, v;
	struct node_id in[4] = { s->in[0], NODE_NONE, NODE_NONE, has_mask(s) ? s->in[3] : NODE_NONE };
	if (!unrepeated(s, 1, &k, &in[1]) || !unrepeated(s, 2, &v, &in[2]) || k.dim[k.rank - 3] != v.dim[v.rank - 3])
		return false;
	in[1] = site_reshape(s, in[1], k.rank, k.dim);
	in[2] = site_reshape(s, in[2], v.rank, v.dim);
	*out = site_again(s, in);
	return true;
}

/* --- masks --- */

bool mask_over_expand(const struct site *s, struct node_id *out)
{
	if (!has_mask(s) || site_op(s, 3) != OP_EXPAND)
		return false;
	*out = with_mask(s, graph_operand(s->g, s->in[3], 0), false);
	return true;
}

/* Everything is attended: true, or 0 added. */
bool mask_of_all(const struct site *s, struct node_id *out)
{
	if (!has_mask(s) || site_op(s, 3) != OP_FILL)
		return false;
	bool attend = graph_float(s->g, s->in[3], ATTR_VALUE, 0) != 0;
	if (attend != (site_in(s, 3)->dtype == DT_BOOL))
		return false;
	*out = with_mask(s, NODE_NONE, false);
	return true;
}

static bool is_causal(const struct site *s, struct node_id mask)
{
	const struct form *f = site_form(s, mask);
	return f != NULL && form_is_causal(f, graph_type(s->g, mask)->rank);
}

bool mask_causal(const struct site *s, struct node_id *out)
{
	if (!has_mask(s) || !is_causal(s, s->in[3]))
		return false;
	*out = with_mask(s, NODE_NONE, true);
	return true;
}

/* causal & rest: the rest, a padding mask, stays. */
bool mask_partly_causal(const struct site *s, struct node_id *out)
{
	if (!has_mask(s) || site_in(s, 3)->dtype != DT_BOOL ||
	    (site_op(s, 3) != OP_LOGICAL_AND && site_op(s, 3) != OP_BITWISE_AND))
		return false;
	for (int k = 0; k < 2; k++) {
		struct node_id rest = graph_operand(s->g, s->in[3], 1 - k);
		if (!is_causal(s, graph_operand(s->g, s->in[3], k)) || graph_type(s->g, rest)->dtype != DT_BOOL)
			continue;
		*out = with_mask(s, rest, true);
		return true;
	}
	return false;
}

/* n is one number: which. */
static bool is_number(const struct site *s, struct node_id n, double *value)
{
	*value = graph_float(s->g, n, ATTR_VALUE, 0);
	return graph_op(s->g, n) == OP_FILL;
}

/* "not cond" is causal: where(cond, -inf, 0). */
static bool is_not_causal(const struct site *s, struct node_id cond)
{
	struct form not;
	const struct form *f = site_form(s, cond);
	return f != NULL && form_not(f, &not) && form_is_causal(&not, graph_type(s->g, cond)->rank);
}

/*
 * An added mask of 0 where a condition holds and -inf elsewhere is the condition.  The largest
 * negative number does as well where each query attends to some key, as it does in a causal mask:
 * beside a finite score its weight is 0.
 */
bool mask_of_infinities(const struct site *s, struct node_id *out)
{
	double taken, other;
	if (!has_mask(s) || site_op(s, 3) != OP_WHERE)
		return false;
	struct node_id cond = graph_operand(s->g, s->in[3], 0);
	if (!is_number(s, graph_operand(s->g, s->in[3], 1), &taken) ||
	    !is_number(s, graph_operand(s->g, s->in[3], 2), &other))
		return false;
	bool lowest = taken < -1e38 || other < -1e38;
	if (lowest && (taken == 0 ? is_causal(s, cond) : other == 0 && is_not_causal(s, cond)))
		*out = with_mask(s, NODE_NONE, true);
	else if (taken == 0 && isinf(other) && other < 0)
		*out = with_mask(s, cond, false);
	else
		return false;
	return true;
}
