/*
 * One mesh axis, solved exactly: a factor graph over the graph's values and ops.
 *
 *   variable of a value: pairs (produced p, held q); q == p: no second copy.  Only labels that matter:
 *       p that its producer can make, q that some user wants or can be served from, not free from p.
 *   variable of an op: its strategy.  A result that one op uses has no variable: its label is the
 *       strategy's, whose time is in the table of that use.  So every table has two variables at the most:
 *       value:          the price of p -> q
 *       operand x op:   the price from p or q, whichever is less, to what the strategy wants, with the moves
 *                       that the other axes make of it; where codes move (wire.h), q is a copy for the matmuls
 *                       that cast the value alike
 *       result x op:    the time of the strategy where it makes p, else infinite
 *
 * Values that hang on no parameter, no float input and nothing sharded on this axis (masks, rotary
 * tables) are R and have no variables, unless they are large.  Ops with equal attributes, types and labels on the other axes
 * share a class: strategies, times and tables are made once.
 */
#include "fp8_chain.h"
#include "solve_axis.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PAIRS (LABEL_COUNT * LABEL_COUNT)

/* --- which values have variables, what is wanted of them --- */

static bool source_carries(const struct work *w, struct node_id n)
{
	enum op op = graph_op(w->s->g, n);
	const struct type *t = graph_type(w->s->g, n);
	return w->s->axis[w->axis].produced[n.i] != LABEL_R ||
	       (op == OP_PARAM && (graph_int(w->s->g, n, ATTR_BUFFER, 0) == 0 || dtype_class((enum dtype)t->dtype) == DC_FP8)) ||
	       (op == OP_INPUT && dtype_class((enum dtype)t->dtype) >= DC_FP8);
}

/* A parameter or constant, in any form. */
static bool is_given(const struct graph *g, struct node_id n)
{
	while (graph_op(g, n) == OP_CAST || graph_op(g, n) == OP_COPY || graph_op(g, n) == OP_RESHAPE || graph_op(g, n) == OP_EXPAND ||
	       graph_op(g, n) == OP_RECIPROCAL)
		n = graph_operand(g, n, 0);
	return op_is_source(graph_op(g, n)) && graph_op(g, n) != OP_INPUT;
}

/* May not be gathered: a parameter with a style, and what is but another form of it. */
static bool is_hard(const struct work *w, struct node_id n)
{
	switch (graph_op(w->s->g, n)) {
	case OP_PARAM:
		return graph_int(w->s->g, n, ATTR_HARD, 0) >> w->axis & 1;
	case OP_CAST:
	case OP_COPY:
	case OP_PERMUTE:
		return w->hard[graph_operand(w->s->g, n, 0).i];
	case OP_RESHAPE: /* codes and scales of blocks */
		return w->hard[graph_operand(w->s->g, n, 0).i] && codes_under(w->s->g, n);
	case OP_MUL:
	case OP_DIV: /* codes and their scale */
		return (w->hard[graph_operand(w->s->g, n, 0).i] && is_given(w->s->g, graph_operand(w->s->g, n, 1))) ||
		       (w->hard[graph_operand(w->s->g, n, 1).i] && is_given(w->s->g, graph_operand(w->s->g, n, 0)));
	default:
		return false;
	}
}

/* Masks and tables of more elements are worth a shard. */
#define MANY_ELEMENTS ((int64_t)1 << 22)

/* Which values have no choice, and which may not be gathered. */
static void find_fixed(struct work *w)
{
	const struct graph *g = w->s->g;
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		bool carries = op_is_source(graph_op(g, n)) ? source_carries(w, n)
							  : graph_op(g, n) == OP_CONSTRAIN || type_count(graph_type(g, n)) > MANY_ELEMENTS;
		for (int k = 0; k < graph_node(g, n)->count; k++)
			carries |= !w->fixed[graph_operand(g, n, k).i];
		w->fixed[i] = !carries;
		w->hard[i] = is_hard(w, n);
	}
}

static void count_uses(struct work *w)
{
	const struct graph *g = w->s->g;
	for (uint32_t i = 1; i < g->nodes.count; i++)
		for (int k = 0; w->s->reached[i] && k < g->nodes.items[i].count; k++) {
			uint16_t *u = &w->uses[graph_operand(g, (struct node_id){ i }, k).i];
			*u += *u < UINT16_MAX;
		}
	for (uint32_t i = 1; i < g->nodes.count; i++)
		w->inner[i] = has_op(w, i) && w->uses[i] == 1;
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		struct node_id n = g->outputs.items[i].value;
		w->uses[n.i]++;
		w->inner[n.i] = false;
	}
}

/* Labels that an output may end under: any that is whole or sharded evenly enough. */
static label_set output_labels(const struct work *w, struct node_id n)
{
	const struct value_class *c = &w->value_classes.items[w->value_class[n.i]];
	label_set set = 1u << LABEL_R;
	for (int d = 0; d < c->rank; d++)
		if (c->shape[d] >= w->ranks)
			set |= (label_set)(1u << LABEL_S(d));
	return set;
}

static void classify(struct work *w)
{
	const struct graph *g = w->s->g;
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (!w->s->reached[i])
			continue;
		w->value_class[i] = value_class_of(w, n);
		w->held_class[i] = held_class_of(w, n);
		if (!has_op(w, i))
			continue;
		w->op_class[i] = op_class_of(w, n);
		for (int k = 0; k < graph_node(g, n)->count; k++)
			w->wanted[graph_operand(g, n, k).i] |= w->classes.items[w->op_class[i]].wants[k];
	}
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		struct node_id n = g->outputs.items[i].value;
		if (!w->fixed[n.i])
			w->wanted[n.i] |= output_labels(w, n);
	}
}

/* --- domains --- */

/* Not 0 of a value that may not be taken as it could be: tables of its uses are its own. */
static uint64_t has_forbidden(const struct work *w, struct node_id n)
{
	const struct forbidden *f = &w->s->forbidden;
	int i = f->count;
	while (i > 0 && !(node_same(n, f->at[i - 1].value) && w->axis == f->at[i - 1].axis))
		i--;
	return (uint64_t)i;
}

static uint32_t make_domain(struct work *w, label_set produced, label_set wanted)
{
	struct domain d = { produced, wanted, 0, arena_array(&w->arena, MAX_PAIRS, 2) };
	for (int p = 0; p < LABEL_COUNT; p++) {
		if (!(produced >> p & 1))
			continue;
		d.pair[d.count][0] = d.pair[d.count][1] = (label)p;
		d.count++;
		for (int q = 0; q < LABEL_COUNT && p != LABEL_R; q++)
			if (q != p && (wanted & (label_set)~PARTIALS) >> q & 1) {
				d.pair[d.count][0] = (label)p;
				d.pair[d.count++][1] = (label)q;
			}
	}
	*vec_push(&w->domains) = d;
	return w->domains.count - 1;
}

/*
 * Labels worth holding: those that users want, and R, from which they can slice.  Where chunks of the value are
 * padded, any: a label that nobody wants may be the least padded to go by.
 */
static label_set held_labels(const struct work *w, struct node_id n, label_set produced)
{
	const struct value_class *c = &w->value_classes.items[w->value_class[n.i]];
	label_set all = (label_set)((1u << LABEL_S(c->rank)) - 1), wanted = w->wanted[n.i] | 1u << LABEL_R;
	return (produced | wanted) & c->uneven ? all : wanted;
}

static uint32_t domain_of(struct work *w, struct node_id n)
{
	const struct graph *g = w->s->g;
	bool source = op_is_source(graph_op(g, n));
	label_set produced = source ? (label_set)(1u << w->s->axis[w->axis].produced[n.i])
				    : w->classes.items[w->op_class[n.i]].made;
	label_set wanted = w->uses[n.i] > 1 && !w->hard[n.i] ? held_labels(w, n, produced) : 0;
	for (int l = 0; l < LABEL_COUNT; l++)
		if (is_forbidden(w->s, n, w->axis, LABEL_COUNT, (label)l))
			wanted &= (label_set)~(1u << l);
	for (uint32_t i = 0; i < w->domains.count; i++)
		if (w->domains.items[i].produced == produced && w->domains.items[i].wanted == wanted)
			return i;
	return make_domain(w, produced, wanted);
}

/* What is produced and held of a value at each label of its variable (its op's, if it has none; R, if it is fixed). */
static const label (*pairs_of(const struct work *w, struct node_id n, int *count))[2]
{
	static const label whole[1][2] = { { LABEL_R, LABEL_R } };
	if (w->fixed[n.i]) {
		*count = 1;
		return whole;
	}
	if (w->inner[n.i]) {
		const struct op_class *c = &w->classes.items[w->op_class[n.i]];
		*count = c->strategies.count;
		return (const label (*)[2])c->pair;
	}
	const struct domain *d = &w->domains.items[w->domain[n.i]];
	*count = d->count;
	return (const label (*)[2])d->pair;
}

/* --- tables, shared by what they depend on --- */

enum table_kind { TABLE_HOLD, TABLE_OPERAND, TABLE_RESULT, TABLE_OUTPUT };

struct table_query { const struct work *w; const uint64_t *key; };

static bool same_table(const void *context, uint32_t i)
{
	const struct table_query *q = context;
	return memcmp(q->w->tables.items[i].key, q->key, sizeof(q->w->tables.items[i].key)) == 0;
}

/* The table of a key, or a new one of `cells` to be filled: *fresh. */
static uint64_t *table_of(struct work *w, const uint64_t key[4], size_t cells, bool *fresh)
{
	uint64_t hash = hash_bytes(key, 4 * sizeof(*key), 2);
	struct table_query q = { w, key };
	uint32_t i = hash_find(&w->table_table, hash, same_table, &q);
	*fresh = i == UINT32_MAX;
	if (*fresh) {
		i = w->tables.count;
		vec_push(&w->tables);
		memcpy(w->tables.items[i].key, key, 4 * sizeof(*key));
		w->tables.items[i].cost = arena_array(&w->arena, cells, sizeof(uint64_t));
		hash_insert(&w->table_table, hash, i);
	}
	return (uint64_t *)(uintptr_t)w->tables.items[i].cost;
}

/* From where it is cheaper; what is held of a value that is cast are codes, for those who cast it. */
struct source { struct edge produced, held; bool both; };

static struct source source_make(const struct work *w, struct node_id x, uint32_t want_class, bool casts)
{
	bool cast = w->value_classes.items[want_class].wire.dtype != DT_NONE;
	struct source s = { .both = !cast || casts };
	s.produced = edge_make(w, w->value_class[x.i], want_class, casts);
	s.held = w->held_class[x.i] == w->value_class[x.i] ? s.produced : edge_make(w, w->held_class[x.i], want_class, casts);
	return s;
}

static uint64_t price_between(const struct source *s, const label *pair, label want)
{
	uint64_t p = edge_price(&s->produced, pair[0], want);
	uint64_t q = s->both ? edge_price(&s->held, pair[1], want) : p;
	return p < q ? p : q;
}

static void add_value(struct work *w, struct node_id n)
{
	w->domain[n.i] = domain_of(w, n);
	w->value_var[n.i] = factor_graph_variable(&w->fg, (uint32_t)w->domains.items[w->domain[n.i]].count);
	const struct domain *d = &w->domains.items[w->domain[n.i]];
	if (d->count == 1 || (d->wanted == 0 && w->held_class[n.i] == w->value_class[n.i]))
		return;
	bool fresh;
	uint64_t key[4] = { TABLE_HOLD, w->domain[n.i], w->value_class[n.i], w->held_class[n.i] };
	uint64_t *cost = table_of(w, key, (size_t)d->count, &fresh);
	struct edge e;
	if (fresh)
		e = edge_make(w, w->value_class[n.i], w->held_class[n.i], true);
	for (int i = 0; fresh && i < d->count; i++)
		cost[i] = edge_price(&e, d->pair[i][0], d->pair[i][1]);
	factor_graph_add(&w->fg, 1, &w->value_var[n.i], cost);
}

/* A hard value is used as it lies, or, where it is whole, sliced. */
static uint64_t hard_price(const struct edge *e, label pinned, label want)
{
	if (pinned != LABEL_R && pinned != want)
		return PRICE_INF;
	return e->others[want] < e->others[pinned] ? e->others[want] : e->others[pinned];
}

/* A second result is where the first one was made. */
static uint64_t operand_price(const struct work *w, struct node_id n, struct node_id x, const struct source *from,
			      const label *pair, label want)
{
	if (graph_op(w->s->g, n) == OP_PROJ && pair[0] != want)
		return PRICE_INF;
	return w->hard[x.i] ? hard_price(&from->produced, pair[0], want) : price_between(from, pair, want);
}

static void fill_operand(const struct work *w, struct node_id n, int k, const struct source *from, uint64_t *cost)
{
	struct node_id x = graph_operand(w->s->g, n, k);
	const struct op_class *c = &w->classes.items[w->op_class[n.i]];
	int count, strategies = c->strategies.count, stride = c->strategies.stride;
	const label (*pair)[2] = pairs_of(w, x, &count);
	const uint64_t *time = w->inner[x.i] ? w->classes.items[w->op_class[x.i]].price : NULL;
	for (int i = 0; i < count; i++)
		for (int s = 0; s < strategies; s++) {
			label want = c->strategies.at[s * stride + k];
			uint64_t price = operand_price(w, n, x, from, pair[i], want);
			if (is_forbidden(w->s, x, w->axis, pair[i][0], want))
				price = ELIM_INF;
			cost[i * strategies + s] = elim_add(price, time != NULL ? time[i] : 0);
		}
}

static void add_operand(struct work *w, struct node_id n, int k)
{
	uint32_t slot = graph_node(w->s->g, n)->first + (uint32_t)k;
	struct node_id x = graph_operand(w->s->g, n, k);
	const struct op_class *c = &w->classes.items[w->op_class[n.i]];
	bool casts = w->s->wires.casts != NULL && w->s->wires.casts[slot];
	bool hard = w->hard[x.i], inner = w->inner[x.i], fixed = w->fixed[x.i], fresh;
	uint32_t want_class = wanted_class_of(w, x, slot);
	if (fixed && c->wants[k] == 1u << LABEL_R)
		return;
	int count;
	pairs_of(w, x, &count);
	uint64_t key[4] = { TABLE_OPERAND | (uint64_t)hard << 8 | (uint64_t)inner << 9 | (uint64_t)fixed << 10 |
			    has_forbidden(w, x) << 11 | (uint64_t)k << 16,
			    inner ? w->op_class[x.i] : w->domain[x.i], w->value_class[x.i] | (uint64_t)w->held_class[x.i] << 32,
			    w->op_class[n.i] };
	uint64_t *cost = table_of(w, key, (size_t)count * (size_t)c->strategies.count, &fresh);
	if (fresh) {
		struct source from = source_make(w, x, want_class, casts);
		fill_operand(w, n, k, &from, cost);
	}
	uint32_t scope[2] = { inner ? w->op_var[x.i] : w->value_var[x.i], w->op_var[n.i] };
	factor_graph_add(&w->fg, fixed ? 1 : 2, scope + fixed, cost);
}

static void add_result(struct work *w, struct node_id n)
{
	const struct op_class *c = &w->classes.items[w->op_class[n.i]];
	const struct domain *d = &w->domains.items[w->domain[n.i]];
	int strategies = c->strategies.count;
	bool fresh;
	uint64_t key[4] = { TABLE_RESULT, w->domain[n.i], w->op_class[n.i], 0 };
	uint64_t *cost = table_of(w, key, (size_t)d->count * (size_t)strategies, &fresh);
	for (int i = 0; fresh && i < d->count; i++)
		for (int s = 0; s < strategies; s++)
			cost[i * strategies + s] = c->pair[s][0] == d->pair[i][0] ? c->price[s] : ELIM_INF;
	uint32_t scope[2] = { w->value_var[n.i], w->op_var[n.i] };
	factor_graph_add(&w->fg, 2, scope, cost);
}

/* The label under which an output leaves, and its price: as it is, if it is no partial. */
static uint64_t output_price(const struct work *w, struct node_id n, const struct source *from, const label *pair, label *best)
{
	label_set allowed = output_labels(w, n);
	uint64_t least = PRICE_INF;
	*best = LABEL_R;
	for (int i = 0; i < 1 + from->both; i++)
		if (!(PARTIALS >> pair[i] & 1)) {
			*best = pair[i];
			return price_between(from, pair, pair[i]);
		}
	for (int l = 0; l < LABEL_S(from->produced.to->rank); l++)
		if ((allowed >> l & 1) && !is_forbidden(w->s, n, w->axis, pair[0], (label)l) && price_between(from, pair, (label)l) < least) {
			least = price_between(from, pair, (label)l);
			*best = (label)l;
		}
	return least;
}

static void add_output(struct work *w, uint32_t output)
{
	struct node_id n = w->s->g->outputs.items[output].value;
	uint32_t want_class = output_class_of(w, output);
	const struct domain *d = &w->domains.items[w->domain[n.i]];
	bool fresh;
	uint64_t key[4] = { TABLE_OUTPUT | has_forbidden(w, n) << 8, w->domain[n.i], w->value_class[n.i] | (uint64_t)w->held_class[n.i] << 32, want_class };
	uint64_t *cost = table_of(w, key, (size_t)d->count, &fresh);
	if (fresh) {
		struct source from = source_make(w, n, want_class, false);
		for (int i = 0; i < d->count; i++) {
			label best;
			cost[i] = output_price(w, n, &from, d->pair[i], &best);
		}
	}
	factor_graph_add(&w->fg, 1, &w->value_var[n.i], cost);
}

static void build(struct work *w)
{
	const struct graph *g = w->s->g;
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (!w->s->reached[i] || w->fixed[i])
			continue;
		if (has_op(w, i)) /* before its value: whatever it takes, the value can follow (eliminate_blocks) */
			w->op_var[i] = factor_graph_variable(&w->fg, (uint32_t)w->classes.items[w->op_class[i]].strategies.count);
		if (!w->inner[i])
			add_value(w, n);
		if (!has_op(w, i))
			continue;
		for (int k = 0; k < graph_node(g, n)->count; k++)
			add_operand(w, n, k);
		if (!w->inner[i])
			add_result(w, n);
	}
	for (uint32_t i = 0; i < g->outputs.count; i++)
		if (!w->fixed[g->outputs.items[i].value.i])
			add_output(w, i);
}

/* --- reading the answer --- */

static bool set_label(label *at, label l)
{
	bool changed = *at != l;
	*at = l;
	return changed;
}

static bool decode_node(struct work *w, const uint32_t *pick, uint32_t i)
{
	const struct graph *g = w->s->g;
	struct axis_labels *l = &w->s->axis[w->axis];
	label none[2] = { LABEL_R, LABEL_R };
	int count;
	const label *pair = w->fixed[i] ? none
					: pairs_of(w, (struct node_id){ i }, &count)[pick[w->inner[i] ? w->op_var[i] : w->value_var[i]]];
	bool changed = set_label(&l->produced[i], pair[0]);
	changed |= set_label(&l->held[i], pair[1]);
	const struct node *node = &g->nodes.items[i];
	const label *at = NULL;
	if (has_op(w, i)) {
		const struct strategies *s = &w->classes.items[w->op_class[i]].strategies;
		at = &s->at[(int)pick[w->op_var[i]] * s->stride];
	}
	for (int k = 0; k < node->count; k++)
		changed |= set_label(&l->want[node->first + (uint32_t)k], at ? at[k] : LABEL_R);
	return changed;
}

static bool decode(struct work *w, const uint32_t *pick)
{
	const struct graph *g = w->s->g;
	struct axis_labels *l = &w->s->axis[w->axis];
	bool changed = false;
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (w->s->reached[i])
			changed |= decode_node(w, pick, i);
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		struct node_id n = g->outputs.items[i].value;
		label pair[2] = { l->produced[n.i], l->held[n.i] }, best = LABEL_R;
		if (!w->fixed[n.i]) {
			struct source from = source_make(w, n, output_class_of(w, i), false);
			output_price(w, n, &from, pair, &best);
		}
		changed |= set_label(&l->want_output[i], best);
	}
	return changed;
}

/* --- the axis --- */

static void work_init(struct work *w)
{
	size_t n = w->s->g->nodes.count;
	w->uses = arena_array(&w->arena, n, sizeof(*w->uses));
	w->inner = arena_array(&w->arena, n, sizeof(*w->inner));
	w->fixed = arena_array(&w->arena, n, sizeof(*w->fixed));
	w->hard = arena_array(&w->arena, n, sizeof(*w->hard));
	w->wanted = arena_array(&w->arena, n, sizeof(*w->wanted));
	w->op_class = arena_array(&w->arena, n, sizeof(*w->op_class));
	w->value_class = arena_array(&w->arena, n, sizeof(*w->value_class));
	w->held_class = arena_array(&w->arena, n, sizeof(*w->held_class));
	w->domain = arena_array(&w->arena, n, sizeof(*w->domain));
	w->value_var = arena_array(&w->arena, n, sizeof(*w->value_var));
	w->op_var = arena_array(&w->arena, n, sizeof(*w->op_var));
}

static void work_release(struct work *w)
{
	arena_release(&w->arena);
	factor_graph_release(&w->fg);
	vec_release(&w->classes);
	vec_release(&w->value_classes);
	vec_release(&w->domains);
	vec_release(&w->keys);
	vec_release(&w->tables);
	hash_release(&w->class_table);
	hash_release(&w->value_table);
	hash_release(&w->table_table);
}

/* The node whose variable the elimination ended at, for the message. */
static struct node_id node_of_variable(const struct work *w, uint32_t variable)
{
	for (uint32_t i = 1; i < w->s->g->nodes.count; i++)
		if (!w->fixed[i] && w->s->reached[i] &&
		    ((!w->inner[i] && w->value_var[i] == variable) || (has_op(w, i) && w->op_var[i] == variable)))
			return (struct node_id){ i };
	return NODE_NONE;
}

static enum fs_status no_answer(const struct work *w, enum elim_status why, const struct elim_result *r, struct diag *d)
{
	char where[512] = "the graph";
	struct node_id n = node_of_variable(w, r->where);
	if (node_is(n))
		node_describe(w->s->g, n, where, sizeof(where));
	const char *axis = w->s->mesh->axis[w->axis].name;
	if (why == ELIM_INFEASIBLE)
		return diag_set(d, FS_INVALID, "no placement on axis '%s' satisfies what is pinned around %s: a parameter with a "
				"tensor-parallel style may not be gathered%s; use --place for one that may", axis, where,
				w->s->exact ? ", and --exact splits no sum of a matmul that is not in fp8" : "");
	return diag_set(d, FS_UNSUPPORTED, "the graph around %s is too wide to be placed exactly on axis '%s' (a table of %llu cells)",
			where, axis, (unsigned long long)r->widest);
}

enum fs_status solve_axis(struct solver *s, int axis, uint64_t *cost, bool *changed, struct diag *d)
{
	struct work w = { .s = s, .axis = axis, .ranks = s->mesh->axis[axis].size };
	work_init(&w);
	find_fixed(&w);
	count_uses(&w);
	classify(&w);
	build(&w);
	uint32_t *pick = arena_array(&w.arena, w.fg.labels.count + 1, sizeof(*pick));
	struct elim_result r = { 0 };
	enum elim_status e = minimize(&w, pick, &r);
	enum fs_status status = FS_OK;
	if (e != ELIM_OK)
		status = no_answer(&w, e, &r, d);
	else
		*changed = decode(&w, pick);
	*cost = r.cost;
	s->stats.cells += r.cells;
	s->stats.blocks = r.blocks > s->stats.blocks ? r.blocks : s->stats.blocks;
	s->stats.widest = r.widest > s->stats.widest ? r.widest : s->stats.widest;
	work_release(&w);
	return status;
}
