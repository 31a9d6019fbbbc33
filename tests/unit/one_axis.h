/* One axis, by trying all strategies of all ops: the least cost, in the cost model of the solver. */
#ifndef FS_TEST_ONE_AXIS_H
#define FS_TEST_ONE_AXIS_H

#include "passes.h"
#include "reshard.h"
#include "solve.h"

#include <stdlib.h>
#include <string.h>

#define MOST_STRATEGIES 32
#define MANY_ELEMENTS ((int64_t)1 << 22)

struct trial {
	const struct graph *g;
	const struct machine *machine;
	int32_t ranks;
	bool *reached;
	struct uses uses;
	struct arena arena;
	struct strategies *strategies; /* by node */
	uint64_t (*time)[MOST_STRATEGIES]; /* by node */
	bool *fixed;
	uint32_t *last;                /* by node: its last user, or itself */
	int *pick;                     /* by node: of strategies */
	uint64_t *known;               /* prices of moves, plus 1 */
	struct forbidden forbidden;
	bool unlimited;                /* any number of copies are held, else one more than is produced */
	bool free_slices;              /* they are nearly free, and no copy is held for their sake */
	uint64_t best;
	uint64_t tried;
};

static bool is_sharded(label l)
{
	return l >= LABEL_S(0);
}

static bool is_partial(label l)
{
	return l == LABEL_SUM || l == LABEL_MAX || l == LABEL_MIN;
}

static struct placement place_of(label l)
{
	struct placement p = { 0 };
	if (l != LABEL_R)
		placement_set(&p, 0, &(struct part){ 0, is_sharded(l) ? PART_SHARD : PART_SUM + l - LABEL_SUM, is_sharded(l) ? l - LABEL_S(0) : 0 });
	return p;
}

static bool carries(const struct trial *t, struct node_id n)
{
	const struct type *type = graph_type(t->g, n);
	enum op op = graph_op(t->g, n);
	bool learnt = op == OP_PARAM || (op == OP_INPUT && dtype_is_float((enum dtype)type->dtype));
	if (op_is_source(op))
		return learnt || type->place.count > 0;
	bool any = op == OP_CONSTRAIN || type_count(type) > MANY_ELEMENTS;
	for (int k = 0; k < graph_node(t->g, n)->count; k++)
		any |= !t->fixed[graph_operand(t->g, n, k).i];
	return any;
}

/* Dims with less than one element a rank stay whole, but where a source lies so. */
static bool may(const struct trial *t, struct node_id n, const label *at)
{
	int count = graph_node(t->g, n)->count;
	bool small = false, pinned = graph_op(t->g, n) == OP_PROJ;
	for (int k = 0; k <= count; k++) {
		struct node_id x = k < count ? graph_operand(t->g, n, k) : n;
		if (!is_sharded(at[k]))
			continue;
		small |= graph_type(t->g, x)->dim[at[k] - LABEL_S(0)] < t->ranks;
		pinned |= k < count && op_is_source(graph_op(t->g, x)) && label_of(&graph_type(t->g, x)->place, 0) == at[k];
	}
	return !small || pinned;
}

/* Of a rank with the largest shards. */
static uint64_t strategy_time(struct trial *t, struct node_id n, const label *at)
{
	int count = graph_node(t->g, n)->count;
	int64_t (*shape)[MAX_RANK] = arena_array(&t->arena, count + 1u, sizeof(*shape));
	for (int k = 0; k <= count; k++) {
		struct type type = *graph_type(t->g, k < count ? graph_operand(t->g, n, k) : n);
		type.place = place_of(at[k]);
		type_local_shape(&type, context_mesh(t->g->context), NULL, shape[k]);
	}
	return op_price(t->machine, t->g, n, (const int64_t (*)[MAX_RANK])shape);
}

static void list_strategies(struct trial *t, struct node_id n)
{
	int count = graph_node(t->g, n)->count, kept = 0;
	int64_t (*shape)[MAX_RANK] = arena_array(&t->arena, count + 1u, sizeof(*shape));
	struct strategies *s = &t->strategies[n.i];
	for (int k = 0; k <= count; k++)
		memcpy(shape[k], graph_type(t->g, k < count ? graph_operand(t->g, n, k) : n)->dim, sizeof(*shape));
	op_strategies(t->g, n, (const int64_t (*)[MAX_RANK])shape, t->ranks, false, &t->arena, s);
	if (graph_op(t->g, n) == OP_CONSTRAIN && graph_int(t->g, n, ATTR_AXES, 0) & 1) {
		s->count = 1;
		s->at[0] = s->at[1] = label_of(graph_placement(t->g, n), 0);
		return;
	}
	for (int i = 0; i < s->count; i++)
		if (may(t, n, s->at + i * s->stride)) {
			memmove(s->at + kept * s->stride, s->at + i * s->stride, (size_t)s->stride);
			kept++;
		}
	s->count = kept;
	for (int i = 0; i < kept; i++)
		t->time[n.i][i] = strategy_time(t, n, s->at + i * s->stride);
}

/* By the cheapest path; a few labels a value, so each is asked for once. */
static uint64_t move(const struct trial *t, struct node_id n, label from, label to)
{
	if (t->free_slices && from == LABEL_R && is_sharded(to))
		return 0;
	uint64_t *known = &t->known[(n.i * LABEL_COUNT + from) * LABEL_COUNT + to];
	if (*known == 0) {
		struct placement a = place_of(from), b = place_of(to);
		struct wire none = { 0 };
		struct reshard_path path;
		bool found = reshard_path(t->machine, context_mesh(t->g->context), graph_type(t->g, n), &none, &a, &b, &path);
		*known = 1 + (found ? path.price : PRICE_INF);
	}
	return *known - 1;
}

/* Of a value made under `made`: is it not to be taken under `to`? */
static bool forbids(const struct trial *t, struct node_id n, label made, label to)
{
	return t->forbidden.count > 0 && node_same(t->forbidden.at[0].value, n) && t->forbidden.at[0].label == to && made != to;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool is_form(enum op op)
{
	return op == OP_CAST || op == OP_COPY || op == OP_RESHAPE || op == OP_EXPAND;
}

static bool is_given(const struct trial *t, struct node_id n)
{
	while (is_form(graph_op(t->g, n)))
		n = graph_operand(t->g, n, 0);
	return op_is_source(graph_op(t->g, n)) && graph_op(t->g, n) != OP_INPUT;
}

/* A hard parameter, a cast of one, or one scaled by another parameter. */
static bool is_hard(const struct trial *t, struct node_id n)
{
	enum op op = graph_op(t->g, n);
	if (op == OP_CAST || op == OP_COPY || op == OP_PERMUTE)
		return is_hard(t, graph_operand(t->g, n, 0));
	for (int k = 0; k < 2 && (op == OP_MUL || op == OP_DIV); k++)
		if (is_hard(t, graph_operand(t->g, n, k)) && is_given(t, graph_operand(t->g, n, !k)))
			return true;
	return op == OP_PARAM && graph_int(t->g, n, ATTR_HARD, 0) & 1;
}

/* The cheapest end of an output. */
static uint64_t output_cost(const struct trial *t, struct node_id n, label produced, label held)
{
	const struct type *type = graph_type(t->g, n);
	uint64_t cost = !is_partial(produced) || !is_partial(held) ? 0 : least(move(t, n, produced, LABEL_R), move(t, n, held, LABEL_R));
	cost = cost > 0 && forbids(t, n, produced, LABEL_R) ? PRICE_INF : cost;
	for (int dim = 0; dim < type->rank; dim++)
		if (type->dim[dim] >= t->ranks && !forbids(t, n, produced, LABEL_S(dim)))
			cost = least(cost, least(move(t, n, produced, LABEL_S(dim)), move(t, n, held, LABEL_S(dim))));
	return cost;
}

static label produced_label(const struct trial *t, struct node_id n)
{
	const struct strategies *s = &t->strategies[n.i];
	if (t->fixed[n.i])
		return LABEL_R;
	return op_is_source(graph_op(t->g, n)) ? label_of(&graph_type(t->g, n)->place, 0)
					       : s->at[t->pick[n.i] * s->stride + s->stride - 1];
}

/* All moves of value n where it is also held as `held`. */
static uint64_t cost_held(const struct trial *t, struct node_id n, label produced, label held, int *users)
{
	bool hard = is_hard(t, n);
	uint64_t cost = move(t, n, produced, held);
	*users = 0;
	for (uint32_t u = t->uses.first[n.i]; u < t->uses.first[n.i + 1]; u++) {
		struct node_id user = t->uses.at[u];
		const struct strategies *s = &t->strategies[user.i];
		if (!t->reached[user.i] || (u > t->uses.first[n.i] && node_same(t->uses.at[u - 1], user)))
			continue;
		for (int k = 0; k < graph_node(t->g, user)->count; k++) {
			if (!node_same(graph_operand(t->g, user, k), n))
				continue;
			label want = t->fixed[user.i] ? LABEL_R : s->at[t->pick[user.i] * s->stride + k];
			(*users)++;
			if (forbids(t, n, produced, want) || (graph_op(t->g, user) == OP_PROJ && want != produced))
				cost = PRICE_INF;
			cost += hard && produced == LABEL_R ? 0 : hard && want != produced ? PRICE_INF : least(move(t, n, produced, want), move(t, n, held, want));
			cost = least(cost, PRICE_INF);
		}
	}
	for (uint32_t i = 0; i < t->g->outputs.count; i++)
		if (node_same(t->g->outputs.items[i].value, n)) {
			cost = least(PRICE_INF, cost + output_cost(t, n, produced, held));
			(*users)++;
		}
	return cost;
}

/* Where a rank has the value under the labels of `set`: the cheapest move to `to`. */
static uint64_t move_from(const struct trial *t, struct node_id n, uint32_t set, label to)
{
	uint64_t cost = PRICE_INF;
	for (int l = 0; l < LABEL_COUNT; l++)
		if (set >> l & 1)
			cost = least(cost, move(t, n, (label)l, to));
	return cost;
}

/* Makes copies one after another, each from those there are, until none is wanted more: the least of all ways. */
static uint64_t cost_copies(const struct trial *t, struct node_id n, uint32_t set, uint32_t wanted)
{
	uint64_t best = PRICE_INF;
	if ((wanted & ~set) == 0)
		return 0;
	for (int l = 0; l < LABEL_S(graph_type(t->g, n)->rank); l++)
		if (!(set >> l & 1) && (!is_partial((label)l) || wanted >> l & 1))
			best = least(best, move_from(t, n, set, (label)l) + cost_copies(t, n, set | 1u << l, wanted));
	return best;
}

/* The labels that ops want of a value. */
static uint32_t labels_wanted(const struct trial *t, struct node_id n)
{
	uint32_t wanted = 0;
	for (uint32_t u = t->uses.first[n.i]; u < t->uses.first[n.i + 1]; u++) {
		struct node_id user = t->uses.at[u];
		const struct strategies *s = &t->strategies[user.i];
		for (int k = 0; t->reached[user.i] && k < graph_node(t->g, user)->count; k++)
			if (node_same(graph_operand(t->g, user, k), n))
				wanted |= 1u << (t->fixed[user.i] ? LABEL_R : s->at[t->pick[user.i] * s->stride + k]);
	}
	return wanted;
}

static bool is_output(const struct trial *t, struct node_id n)
{
	for (uint32_t i = 0; i < t->g->outputs.count; i++)
		if (node_same(t->g->outputs.items[i].value, n))
			return true;
	return false;
}

/* With as many copies as one likes. */
static uint64_t value_cost_unlimited(const struct trial *t, struct node_id n)
{
	label produced = produced_label(t, n);
	uint32_t wanted = labels_wanted(t, n), has = 1u << produced;
	uint64_t cost = PRICE_INF;
	if (!is_output(t, n) || !is_partial(produced))
		return cost_copies(t, n, has, wanted);
	for (int l = 0; l < LABEL_S(graph_type(t->g, n)->rank); l++)
		if (!is_partial((label)l))
			cost = least(cost, cost_copies(t, n, has, wanted | 1u << l));
	return cost;
}

/* A slice is nearly free: nothing is held of what is whole. */
static uint64_t value_cost(const struct trial *t, struct node_id n)
{
	int users;
	label produced = produced_label(t, n);
	if (t->unlimited && !is_hard(t, n))
		return value_cost_unlimited(t, n);
	uint64_t best = cost_held(t, n, produced, produced, &users);
	bool hard = is_hard(t, n);
	for (int l = 0; l < LABEL_S(graph_type(t->g, n)->rank) && users > 1 && !hard && produced != LABEL_R; l++)
		if (!is_partial((label)l) && !forbids(t, n, produced, (label)l))
			best = least(best, cost_held(t, n, produced, (label)l, &users));
	return best;
}

static void try_from(struct trial *t, uint32_t i, uint64_t cost)
{
	if (cost >= t->best)
		return;
	if (i == t->g->nodes.count) {
		t->best = cost;
		return;
	}
	t->tried++;
	struct node_id n = { i };
	bool chosen = t->reached[i] && !t->fixed[i] && !op_is_source(graph_op(t->g, n));
	for (t->pick[i] = 0; t->pick[i] < (chosen ? t->strategies[i].count : 1); t->pick[i]++) {
		uint64_t sum = cost;
		if (chosen)
			sum += t->time[i][t->pick[i]];
		for (uint32_t v = 1; v <= i; v++)
			if (t->last[v] == i && t->reached[v])
				sum = least(PRICE_INF, sum + value_cost(t, (struct node_id){ v }));
		try_from(t, i + 1, sum);
	}
}

static void trial_init(struct trial *t, const struct graph *g, const struct machine *m)
{
	uint32_t n = g->nodes.count;
	*t = (struct trial){ .g = g, .machine = m, .ranks = context_mesh(g->context)->axis[0].size, .best = PRICE_INF };
	t->reached = graph_reached(g);
	t->uses = uses_make(g);
	t->strategies = arena_array(&t->arena, n, sizeof(*t->strategies));
	t->time = arena_array(&t->arena, n, sizeof(*t->time));
	t->fixed = arena_array(&t->arena, n, sizeof(*t->fixed));
	t->last = arena_array(&t->arena, n, sizeof(*t->last));
	t->pick = arena_array(&t->arena, n, sizeof(*t->pick));
	t->known = arena_array(&t->arena, n * LABEL_COUNT * LABEL_COUNT, sizeof(*t->known));
	for (uint32_t i = 1; i < n; i++) {
		struct node_id id = { i };
		t->last[i] = i;
		t->fixed[i] = !carries(t, id);
		for (int k = 0; t->reached[i] && k < graph_node(g, id)->count; k++)
			t->last[graph_operand(g, id, k).i] = i;
		if (t->reached[i] && !t->fixed[i] && !op_is_source(graph_op(g, id)))
			list_strategies(t, id);
	}
}

static void trial_release(struct trial *t)
{
	free(t->reached);
	uses_release(&t->uses);
	arena_release(&t->arena);
}

#endif
