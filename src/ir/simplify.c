/*
 * Rules that graph_emit() tries before it appends a node, in order; the first that fits gives the node.
 * Laws: same type, same bits; never more nodes; each rule makes progress (an operand, or an op on an
 * operand's operand), so they terminate.
 */
#include "simplify.h"

#include <string.h>

struct attempt {
	struct graph *g;
	const struct node_id *in;
	int count;
	const struct attrs *attrs;
	const struct type *type;
	struct prov_id prov;
};

static bool same_type(const struct type *a, const struct type *b)
{
	return a->dtype == b->dtype && a->rank == b->rank && memcmp(a->dim, b->dim, sizeof(a->dim[0]) * a->rank) == 0;
}

static const struct type *operand_type(const struct attempt *t, int k)
{
	return graph_type(t->g, t->in[k]);
}

static bool operand_is(const struct attempt *t, enum op op)
{
	return graph_op(t->g, t->in[0]) == op;
}

/* A view that changes nothing, a cast to the same type, a cat of one. */
static bool nothing_to_do(const struct attempt *t, struct node_id *out)
{
	if (t->count != 1 || !same_type(operand_type(t, 0), t->type))
		return false;
	*out = t->in[0];
	return true;
}

static bool identity_permute(const struct attempt *t, struct node_id *out)
{
	const struct attr *dims = &t->attrs->at[0];
	for (int i = 0; i < t->type->rank; i++)
		if (dims->u.ints[i] != i)
			return false;
	*out = t->in[0];
	return true;
}

/* permute(permute(x)) = permute(x) */
static bool permute_twice(const struct attempt *t, struct node_id *out)
{
	if (!operand_is(t, OP_PERMUTE))
		return false;
	const int64_t *before;
	int rank = graph_ints(t->g, t->in[0], ATTR_DIMS, &before);
	int64_t dims[MAX_RANK];
	for (int i = 0; i < rank; i++)
		dims[i] = before[t->attrs->at[0].u.ints[i]];
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_DIMS, dims, rank);
	struct node_id x = graph_operand(t->g, t->in[0], 0);
	*out = graph_emit(t->g, OP_PERMUTE, &x, 1, &a, t->prov);
	return true;
}

/* A fill under a view is a smaller or larger fill. */
static bool view_of_fill(const struct attempt *t, struct node_id *out)
{
	if (!operand_is(t, OP_FILL))
		return false;
	struct attrs a = { 0 };
	attrs_float(&a, ATTR_VALUE, graph_float(t->g, t->in[0], ATTR_VALUE, 0));
	attrs_int(&a, ATTR_DTYPE, t->type->dtype);
	attrs_ints(&a, ATTR_SHAPE, t->type->dim, t->type->rank);
	*out = graph_emit(t->g, OP_FILL, NULL, 0, &a, t->prov);
	return true;
}

/* reshape(reshape(x)) = reshape(x) */
static bool reshape_twice(const struct attempt *t, struct node_id *out)
{
	if (!operand_is(t, OP_RESHAPE))
		return false;
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_SHAPE, t->type->dim, t->type->rank);
	struct node_id x = graph_operand(t->g, t->in[0], 0);
	*out = graph_emit(t->g, OP_RESHAPE, &x, 1, &a, t->prov);
	return true;
}

/* x * 1, x / 1, and for integers x + 0, x - 0 (a float -0 + 0 is +0). */
static bool neutral(const struct attempt *t, struct node_id *out, double value, int operand)
{
	if (graph_op(t->g, t->in[operand]) != OP_FILL || graph_float(t->g, t->in[operand], ATTR_VALUE, 0) != value ||
	    !same_type(operand_type(t, 1 - operand), t->type))
		return false;
	*out = t->in[1 - operand];
	return true;
}

static bool times_one(const struct attempt *t, struct node_id *out)
{
	return neutral(t, out, 1, 1) || neutral(t, out, 1, 0);
}

static bool over_one(const struct attempt *t, struct node_id *out)
{
	return neutral(t, out, 1, 1);
}

static bool plus_zero(const struct attempt *t, struct node_id *out)
{
	return dtype_class((enum dtype)t->type->dtype) == DC_INT && (neutral(t, out, 0, 1) || neutral(t, out, 0, 0));
}

static bool minus_zero(const struct attempt *t, struct node_id *out)
{
	return dtype_class((enum dtype)t->type->dtype) == DC_INT && neutral(t, out, 0, 1);
}

static const struct rewrite {
	enum op op;
	bool (*apply)(const struct attempt *t, struct node_id *out);
} rewrites[] = {
	{ OP_RESHAPE, nothing_to_do },
	{ OP_RESHAPE, view_of_fill },
	{ OP_RESHAPE, reshape_twice },
	{ OP_PERMUTE, identity_permute },
	{ OP_PERMUTE, view_of_fill },
	{ OP_PERMUTE, permute_twice },
	{ OP_EXPAND, nothing_to_do },
	{ OP_EXPAND, view_of_fill },
	{ OP_SLICE, nothing_to_do },
	{ OP_SLICE, view_of_fill },
	{ OP_CAST, nothing_to_do },
	{ OP_CAT, nothing_to_do },
	{ OP_MUL, times_one },
	{ OP_DIV, over_one },
	{ OP_ADD, plus_zero },
	{ OP_SUB, minus_zero },
};

bool simplify(struct graph *g, enum op op, const struct node_id *in, int count, const struct attrs *a,
	      const struct type *type, struct prov_id prov, struct node_id *out)
{
	struct attempt t = { g, in, count, a, type, prov };
	for (size_t i = 0; i < sizeof(rewrites) / sizeof(rewrites[0]); i++)
		if (rewrites[i].op == op && rewrites[i].apply(&t, out))
			return true;
	return false;
}
