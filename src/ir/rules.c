/*
 * Sharding rules: one function per `rule` token of ops.def writes which dims share which factors
 * (rule.h, docs/ir.md); op_strategies() reads from that, mechanically, how an op may run on an axis.
 */
#include "rule.h"

#include <string.h>

struct builder {
	const struct graph *g;
	struct node_id n;
	const int64_t (*shape)[MAX_RANK];
	int alternative;
	int result; /* index of the result among the values: the number of operands */
	struct rule *rule;
};

#define NO_FACTOR (-1)

static int64_t size_of(const struct builder *b, int value, int dim)
{
	return b->shape[value][dim];
}

static int rank_of(const struct builder *b, int value)
{
	return b->rule->value[value].rank;
}

static const struct type *global_type(const struct builder *b, int value)
{
	return graph_type(b->g, value == b->result ? b->n : graph_operand(b->g, b->n, value));
}

/* A new factor; none for sizes 0 and 1. */
static int factor_of(struct builder *b, int64_t size)
{
	struct rule *r = b->rule;
	if (size <= 1)
		return NO_FACTOR;
	BUG_ON(r->factors == MAX_FACTORS);
	r->factor[r->factors] = (struct rule_factor){ .size = size };
	return r->factors++;
}

/* The same for a dim that the result lacks; PART_SHARD: it must stay whole. */
static int reduced_factor(struct builder *b, int64_t size, enum part_kind kind)
{
	int f = kind == PART_SHARD ? NO_FACTOR : factor_of(b, size);
	if (f != NO_FACTOR)
		b->rule->factor[f].reduce = (uint8_t)kind;
	return f;
}

/* The next minor factor of a dim. */
static void append_factor(struct builder *b, int f, int value, int dim)
{
	struct rule_dim *d = &b->rule->value[value].dim[dim];
	if (f == NO_FACTOR)
		return;
	BUG_ON(d->count == MAX_RANK);
	d->factor[d->count++] = (uint8_t)f;
}

/*
 * The factor is the dim. A dim of size 1 is broadcast and has none; one of another size (a graph that
 * breaks its placements) makes the factor whole.
 */
static void set_factor(struct builder *b, int f, int value, int dim)
{
	if (f == NO_FACTOR || size_of(b, value, dim) == 1)
		return;
	if (size_of(b, value, dim) != b->rule->factor[f].size)
		b->rule->factor[f].whole = true;
	append_factor(b, f, value, dim);
}

/* Operand 0 and the result share a dim. */
static void share(struct builder *b, int operand_dim, int result_dim)
{
	int f = factor_of(b, size_of(b, b->result, result_dim));
	set_factor(b, f, 0, operand_dim);
	set_factor(b, f, b->result, result_dim);
}

/* Dims [from, to) of all operands and the result are the same. */
static void share_all(struct builder *b, int from, int to)
{
	for (int dim = from; dim < to; dim++) {
		int f = factor_of(b, size_of(b, b->result, dim));
		for (int value = 0; value <= b->result; value++)
			set_factor(b, f, value, dim);
	}
}

/* --- the rules --- */

static void rule_none(struct builder *b)
{
	(void)b;
}

static void rule_whole(struct builder *b)
{
	(void)b;
}

/* Any part of a fill is a fill. The solver labels inputs and parameters itself. */
static void rule_source(struct builder *b)
{
	if (graph_op(b->g, b->n) == OP_FILL)
		share_all(b, 0, rank_of(b, b->result));
}

static void rule_pointwise(struct builder *b)
{
	int rank = rank_of(b, b->result);
	for (int dim = 0; dim < rank; dim++) {
		int f = factor_of(b, size_of(b, b->result, dim));
		set_factor(b, f, b->result, dim);
		for (int k = 0; k < b->result; k++) {
			int at = dim - (rank - rank_of(b, k));
			if (at >= 0)
				set_factor(b, f, k, at);
		}
	}
}

/* One factor a letter; those that the result lacks are summed. */
static void rule_matmul(struct builder *b)
{
	struct equation e;
	struct diag d = { 0 };
	int factor[128] = { 0 }; /* of a letter, plus 1 */
	if (equation_parse(&e, graph_string(b->g, b->n, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	for (int value = 0; value < 3; value++)
		for (int dim = 0; dim < e.rank[value]; dim++) {
			int *f = &factor[(unsigned char)e.letter[value][dim]];
			if (*f == 0)
				*f = 1 + reduced_factor(b, size_of(b, value, dim), PART_SUM);
			set_factor(b, *f - 1, value, dim);
		}
}

/* Query heads per key head, globally: 1 but for grouped attention. */
static int64_t group_size(const struct builder *b)
{
	const struct type *q = global_type(b, 0), *k = global_type(b, 1);
	int64_t groups = k->dim[k->rank - 3];
	return groups == 0 ? 1 : q->dim[q->rank - 3] / groups;
}

/* A factor of q, of the result and, where it is not broadcast, of the mask. */
static void set_query_factor(struct builder *b, int f, int dim)
{
	int rank = rank_of(b, 0);
	set_factor(b, f, 0, dim);
	set_factor(b, f, b->result, dim);
	if (b->result == 4 && dim >= rank - rank_of(b, 3))
		set_factor(b, f, 3, dim - (rank - rank_of(b, 3)));
}

/* Heads of q, mask and result are [key head, group]; k and v have the key heads. */
static void share_key_heads(struct builder *b, int dim)
{
	int64_t heads = size_of(b, 0, dim), groups = size_of(b, 1, dim), group = group_size(b);
	if (heads != groups * group)
		return; /* an axis before has sharded the heads of q alone */
	int f = factor_of(b, groups);
	set_factor(b, f, 1, dim);
	set_factor(b, f, 2, dim);
	append_factor(b, f, 0, dim);
	append_factor(b, f, b->result, dim);
	int mask_dim = b->result == 4 ? dim - (rank_of(b, 0) - rank_of(b, 3)) : -1;
	if (mask_dim >= 0 && size_of(b, 3, mask_dim) == heads)
		append_factor(b, f, 3, mask_dim);
}

/*
 * Alternative 1 shards the heads of q alone: head h of the whole q uses key head h / group, so a rank
 * takes its key heads from all of k and v. Under `causal`, which keys a row sees depends on its number
 * in the whole q, which a rank knows.
 */
static void rule_sdpa(struct builder *b)
{
	int heads = rank_of(b, 0) - 3, rows = heads + 1;
	for (int dim = 0; dim < heads; dim++) {
		int f = factor_of(b, size_of(b, 0, dim));
		set_factor(b, f, 1, dim);
		set_factor(b, f, 2, dim);
		set_query_factor(b, f, dim);
	}
	if (b->alternative == 0)
		share_key_heads(b, heads);
	else
		set_query_factor(b, factor_of(b, size_of(b, 0, heads)), heads);
	set_query_factor(b, factor_of(b, size_of(b, 0, rows)), rows);
}

/* A reader of the dims of one value, major to minor; `left` is what is not read of the current dim. */
struct reader {
	int value, dim;
	int64_t left;
};

static bool read_on(const struct builder *b, struct reader *r)
{
	while (r->left <= 1 && r->dim + 1 < rank_of(b, r->value))
		r->left = size_of(b, r->value, ++r->dim);
	return r->left > 1;
}

static int64_t gcd(int64_t a, int64_t b)
{
	while (b != 0) {
		int64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* Both read on to where they have read equally much: [2,3] and [3,2] share no factor. */
static void skip_unshared(const struct builder *b, struct reader *x, struct reader *y)
{
	int64_t in_x = x->left, in_y = y->left;
	bool more = true;
	while (more && in_x != in_y) {
		struct reader *behind = in_x < in_y ? x : y;
		int64_t *count = in_x < in_y ? &in_x : &in_y;
		behind->left = 1;
		more = read_on(b, behind);
		*count *= behind->left;
	}
	x->left = y->left = 1;
}

static bool is_empty(const struct builder *b, int value)
{
	for (int dim = 0; dim < rank_of(b, value); dim++)
		if (size_of(b, value, dim) == 0)
			return true;
	return false;
}

/* [a*b] and [a,b] share a and b; [6,4] and [4,6] share their major 2, the rest is whole. */
static void rule_reshape(struct builder *b)
{
	struct reader x = { 0, -1, 1 }, y = { 1, -1, 1 };
	if (is_empty(b, 0) || is_empty(b, 1))
		return;
	while (read_on(b, &x) && read_on(b, &y)) {
		int64_t common = gcd(x.left, y.left);
		if (common == 1) {
			skip_unshared(b, &x, &y);
			continue;
		}
		int f = factor_of(b, common);
		append_factor(b, f, 0, x.dim);
		append_factor(b, f, 1, y.dim);
		x.left /= common;
		y.left /= common;
	}
}

static void rule_permute(struct builder *b)
{
	const int64_t *from;
	int rank = graph_ints(b->g, b->n, ATTR_DIMS, &from);
	for (int dim = 0; dim < rank; dim++)
		share(b, (int)from[dim], dim);
}

static void rule_expand(struct builder *b)
{
	for (int dim = 0; dim < rank_of(b, b->result); dim++)
		share(b, dim, dim);
}

/* The dim that is cut stays whole. */
static void rule_slice(struct builder *b)
{
	int64_t cut = graph_int(b->g, b->n, ATTR_DIM, 0);
	for (int dim = 0; dim < rank_of(b, 0); dim++)
		if (dim != cut || global_type(b, 0)->dim[dim] == global_type(b, 1)->dim[dim])
			share(b, dim, dim);
}

static void rule_cat(struct builder *b)
{
	int dim = (int)graph_int(b->g, b->n, ATTR_DIM, 0);
	share_all(b, 0, dim);
	share_all(b, dim + 1, rank_of(b, b->result));
}

static void rule_along(struct builder *b)
{
	rule_cat(b);
}

static void rule_matrix(struct builder *b)
{
	share_all(b, 0, rank_of(b, 0) - 2);
}

/* Of operand 0 alone: weight and bias have trailing dims only. */
static void rule_norm(struct builder *b)
{
	const int64_t *dims;
	int trailing = graph_ints(b->g, b->n, ATTR_DIMS, &dims);
	for (int dim = 0; dim < rank_of(b, 0) - trailing; dim++)
		share(b, dim, dim);
}

/* How partial reductions join; those not listed need the whole dim. */
static const uint8_t joined_by[OP_COUNT] = {
	[OP_SUM] = PART_SUM,	    [OP_MEAN] = PART_SUM, [OP_REDUCE_MAX] = PART_MAX,
	[OP_REDUCE_MIN] = PART_MIN, [OP_ANY] = PART_MAX,  [OP_ALL] = PART_MIN,
};

static void rule_reduce(struct builder *b)
{
	const int64_t *dims;
	int count = graph_ints(b->g, b->n, ATTR_DIMS, &dims), next = 0, result_dim = 0;
	bool keep = graph_int(b->g, b->n, ATTR_KEEPDIM, 0);
	enum part_kind kind = (enum part_kind)joined_by[graph_op(b->g, b->n)];
	for (int dim = 0; dim < rank_of(b, 0); dim++) {
		if (next == count || dims[next] != dim) {
			share(b, dim, result_dim++);
			continue;
		}
		set_factor(b, reduced_factor(b, size_of(b, 0, dim), kind), 0, dim);
		result_dim += keep;
		next++;
	}
}

/* Sharded on its rows, a rank looks up the ids that it has and gives zeros for the others. */
static void rule_embedding(struct builder *b)
{
	int ids = rank_of(b, 1);
	set_factor(b, reduced_factor(b, size_of(b, 0, 0), PART_SUM), 0, 0);
	for (int dim = 0; dim < rank_of(b, 2); dim++) {
		int f = factor_of(b, size_of(b, 2, dim));
		set_factor(b, f, 2, dim);
		if (dim < ids)
			set_factor(b, f, 1, dim);
		else
			set_factor(b, f, 0, dim - ids + 1);
	}
}

/* Sharded on its rows, a rank adds up the ids that it has; sharded on ids, its part of the sum. */
static void rule_embedding_grad(struct builder *b)
{
	int ids = rank_of(b, 1);
	set_factor(b, factor_of(b, size_of(b, 2, 0)), 2, 0);
	for (int dim = 0; dim < rank_of(b, 0); dim++) {
		int64_t size = size_of(b, 0, dim);
		int f = dim < ids ? reduced_factor(b, size, PART_SUM) : factor_of(b, size);
		set_factor(b, f, 0, dim);
		set_factor(b, f, dim < ids ? 1 : 2, dim < ids ? dim : dim - ids + 1);
	}
}

/* Rows that correspond: equally many in all values that have dims. */
static bool equal_in_all(const struct builder *b, int dim)
{
	for (int value = 0; value < b->result; value++)
		if (rank_of(b, value) > 0 && size_of(b, value, dim) != size_of(b, b->result, dim))
			return false;
	return true;
}

static void share_where_equal(struct builder *b, int but)
{
	for (int dim = 0; dim < rank_of(b, b->result); dim++) {
		int f = dim != but && equal_in_all(b, dim) ? factor_of(b, size_of(b, b->result, dim)) : NO_FACTOR;
		for (int value = 0; value <= b->result; value++)
			if (rank_of(b, value) > 0)
				set_factor(b, f, value, dim);
	}
}

/* Along `dim` any part of the index gives its part of the result. */
static void rule_gather(struct builder *b)
{
	int dim = (int)graph_int(b->g, b->n, ATTR_DIM, 0);
	share_where_equal(b, dim);
	int f = factor_of(b, size_of(b, 2, dim));
	set_factor(b, f, 1, dim);
	set_factor(b, f, 2, dim);
}

static void rule_scatter(struct builder *b)
{
	share_where_equal(b, (int)graph_int(b->g, b->n, ATTR_DIM, 0));
}

/* Dims [from, from + wide) of the result are those of the indices, broadcast. */
static void share_indices(struct builder *b, int from, int wide)
{
	for (int at = 0; at < wide; at++) {
		int f = factor_of(b, size_of(b, b->result, from + at));
		set_factor(b, f, b->result, from + at);
		for (int k = 1; k < b->result; k++)
			if (at >= wide - rank_of(b, k))
				set_factor(b, f, k, at - (wide - rank_of(b, k)));
	}
}

/* Dims that are not indexed are shared; the result's dims stand as infer_index() puts them. */
static void rule_index(struct builder *b)
{
	const int64_t *dims;
	int count = graph_ints(b->g, b->n, ATTR_DIMS, &dims), next = 0;
	int wide = rank_of(b, b->result) - (rank_of(b, 0) - count);
	int from = dims[count - 1] - dims[0] == count - 1 ? (int)dims[0] : 0;
	share_indices(b, from, wide);
	for (int dim = 0, at = 0; dim < rank_of(b, 0); dim++) {
		if (next < count && dims[next] == dim) {
			next++;
			continue;
		}
		at = at == from ? at + wide : at;
		share(b, dim, at++);
	}
}

/* --- the table --- */

enum linear { LINEAR_NONE, LINEAR_ALL, LINEAR_FIRST, LINEAR_LOCAL };

static const struct row {
	void (*build)(struct builder *b);
	enum linear linear;
	const char *lower;
} rows[OP_COUNT] = {
	[OP_NONE] = { rule_none, LINEAR_NONE, "" },
#define OP(name, text, least, most, stages, infer, rule, linear, cost, lower, vjp, attrs) \
	[OP_##name] = { rule, LINEAR_##linear, #lower },
#include "ops.def"
#undef OP
};

static bool has_alternative(const struct builder *b)
{
	if (b->alternative == 0)
		return true;
	return b->alternative == 1 && rows[graph_op(b->g, b->n)].build == rule_sdpa && group_size(b) > 1;
}

bool op_rule(const struct graph *g, struct node_id n, const int64_t (*shape)[MAX_RANK], int alternative,
	     struct arena *scratch, struct rule *out)
{
	int operands = graph_node(g, n)->count;
	struct builder b = { g, n, shape, alternative, operands, out };
	if (!has_alternative(&b))
		return false;
	out->factors = 0;
	out->values = operands + 1;
	out->value = arena_array(scratch, (size_t)out->values, sizeof(*out->value));
	for (int value = 0; value < out->values; value++)
		out->value[value].rank = global_type(&b, value)->rank;
	rows[graph_op(g, n)].build(&b);
	return true;
}

/* --- strategies --- */

#define MAX_ALTERNATIVES 2

label label_of(const struct placement *p, int axis)
{
	int i = placement_find(p, axis);
	if (i < 0)
		return LABEL_R;
	switch (p->at[i].kind) {
	case PART_SUM: return LABEL_SUM;
	case PART_MAX: return LABEL_MAX;
	case PART_MIN: return LABEL_MIN;
	default: return LABEL_S(p->at[i].dim);
	}
}

static int64_t ceil_div(int64_t a, int64_t b)
{
	return (a + b - 1) / b;
}

static int factor_position(const struct rule_dim *d, int f)
{
	for (int at = 0; at < d->count; at++)
		if (d->factor[at] == f)
			return at;
	return -1;
}

/* Chunks of the dim are chunks of its major factor. */
static bool chunks_agree(int64_t dim, int64_t factor, int32_t ranks)
{
	return ceil_div(dim, ranks) == ceil_div(factor, ranks) * (dim / factor);
}

/* The label of a value where factor f is sharded; false: f must not be sharded here. */
static bool factor_label(const struct rule *r, int value, const int64_t *dims, int f, int32_t ranks, label *out)
{
	const struct rule_value *v = &r->value[value];
	*out = LABEL_R;
	for (int dim = 0; dim < v->rank; dim++) {
		int position = factor_position(&v->dim[dim], f);
		if (position < 0)
			continue;
		if (position > 0 || !chunks_agree(dims[dim], r->factor[f].size, ranks))
			return false;
		*out = LABEL_S(dim);
	}
	return true;
}

/* t: of the result. */
static bool factor_labels(const struct rule *r, const int64_t (*shape)[MAX_RANK], int f, int32_t ranks, enum dtype t,
			  label *out)
{
	const struct rule_factor *factor = &r->factor[f];
	int result = r->values - 1;
	if (factor->whole)
		return false;
	for (int value = 0; value < r->values; value++)
		if (!factor_label(r, value, shape[value], f, ranks, &out[value]))
			return false;
	if (out[result] != LABEL_R)
		return true;
	if (factor->reduce == PART_SHARD || !part_joins((enum part_kind)factor->reduce, t))
		return false;
	out[result] = (label)(LABEL_SUM + factor->reduce - PART_SUM);
	return true;
}

static label *next_strategy(struct strategies *s)
{
	return s->at + s->count * s->stride;
}

/* Takes what is written at next_strategy(), unless it is there already. */
static void keep_strategy(struct strategies *s, bool divided)
{
	for (int at = 0; at < s->count; at++)
		if (memcmp(s->at + at * s->stride, next_strategy(s), (size_t)s->stride) == 0)
			return;
	s->divided[s->count++] = divided;
}

/* Operands [0, count) and the result have this label, the other operands are whole. */
static void uniform_strategy(struct strategies *s, label l, int count)
{
	label *row = next_strategy(s);
	memset(row, LABEL_R, (size_t)s->stride);
	memset(row, l, (size_t)count);
	row[s->stride - 1] = l;
	keep_strategy(s, false);
}

/* Ops that only move elements pass P(max) and P(min), too. */
static void partial_strategies(struct strategies *s, enum op op, enum stage stage, bool exact)
{
	const struct row *row = &rows[op];
	int operands = s->stride - 1, passing = row->linear == LINEAR_FIRST ? 1 : operands;
	if (row->linear == LINEAR_NONE || (row->linear == LINEAR_LOCAL && stage < STAGE_LOCAL))
		return;
	if (!exact)
		uniform_strategy(s, LABEL_SUM, passing);
	if (strcmp(row->lower, "copy") != 0 && strcmp(row->lower, "cat") != 0)
		return;
	uniform_strategy(s, LABEL_MAX, passing);
	uniform_strategy(s, LABEL_MIN, passing);
}

void op_strategies(const struct graph *g, struct node_id n, const int64_t (*shape)[MAX_RANK], int32_t size,
		   bool exact, struct arena *scratch, struct strategies *out)
{
	struct rule rule[MAX_ALTERNATIVES];
	enum dtype t = (enum dtype)graph_type(g, n)->dtype;
	int rules = 0, room = 1 + 3 + 1; /* R, three P, one that keep_strategy() drops */
	while (rules < MAX_ALTERNATIVES && op_rule(g, n, shape, rules, scratch, &rule[rules]))
		room += rule[rules++].factors;
	out->count = 0;
	out->stride = rule[0].values;
	out->at = arena_array(scratch, (size_t)room * (size_t)out->stride, sizeof(*out->at));
	out->divided = arena_array(scratch, (size_t)room, sizeof(*out->divided));
	uniform_strategy(out, LABEL_R, 0);
	for (int r = 0; r < rules; r++)
		for (int f = 0; f < rule[r].factors; f++)
			if (factor_labels(&rule[r], shape, f, size, t, next_strategy(out)))
				keep_strategy(out, true);
	partial_strategies(out, graph_op(g, n), g->stage, exact);
}
