/*
 * From labels to the placed graph: every value gets the placement that its labels on all axes make,
 * and a reshard stands where a user wants another.  A value that is also held elsewhere is resharded
 * once for all users that start from there.
 *
 * Axes that shard one dim nest: sources as written; the values of an op in mesh order, or as suits its
 * operands: what shards an operand already stays outside what is sharded there.
 */
#include "reshard.h"
#include "solve.h"

#include <stdlib.h>
#include <string.h>

struct insert {
	const struct solver *s;
	const struct graph *from;
	struct graph *to;
	struct node_id *made;         /* by old id: the value as produced */
	uint8_t (*order)[MAX_AXES];   /* by old id: axes, major first, where they shard one dim */
	const char **rule;            /* by old id: what pins the value */
};

static struct part part_of(int axis, label l)
{
	static const uint8_t kinds[] = { [LABEL_SUM] = PART_SUM, [LABEL_MAX] = PART_MAX, [LABEL_MIN] = PART_MIN };
	if (l >= LABEL_S(0))
		return (struct part){ (uint8_t)axis, PART_SHARD, (uint8_t)(l - LABEL_S(0)) };
	return (struct part){ (uint8_t)axis, kinds[l], 0 };
}

/* The placement of labels at[axis], nested in `order`. */
static struct placement compose(const struct insert *x, const label *at, const uint8_t *order)
{
	struct placement p = { 0 };
	for (int i = 0; i < x->s->mesh->count; i++)
		if (at[order[i]] != LABEL_R)
			p.at[p.count++] = part_of(order[i], at[order[i]]);
	placement_canonical(&p);
	return p;
}

enum which { PRODUCED, HELD };

static void value_labels(const struct insert *x, struct node_id n, enum which which, label at[MAX_AXES])
{
	for (int a = 0; a < x->s->mesh->count; a++)
		at[a] = which == HELD ? x->s->axis[a].held[n.i] : x->s->axis[a].produced[n.i];
}

static void slot_labels(const struct insert *x, uint32_t slot, label at[MAX_AXES])
{
	for (int a = 0; a < x->s->mesh->count; a++)
		at[a] = x->s->axis[a].want[slot];
}

/* --- nesting orders --- */

static void mesh_order(const struct insert *x, uint8_t *order)
{
	for (int a = 0; a < x->s->mesh->count; a++)
		order[a] = (uint8_t)a;
}

/* The order in which a placement, as written, names the axes; axes that it does not name come after. */
static void written_order(const struct insert *x, const struct placement *p, uint8_t *order)
{
	int count = 0;
	uint32_t named = 0;
	for (int i = 0; i < p->count; i++) {
		order[count++] = p->at[i].axis;
		named |= 1u << p->at[i].axis;
	}
	for (int a = 0; a < x->s->mesh->count; a++)
		if (!(named >> a & 1))
			order[count++] = (uint8_t)a;
}

/* --- reshards --- */

/* What a constraint says is kept with what it pins: the value, or the reshard that it wants. */
static const char *constraint_rule(const struct graph *g, struct node_id n)
{
	struct prov graph = { 0 };
	for (int a = 0; a < context_mesh(g->context)->count; a++)
		if (graph_int(g, n, ATTR_AXES, 0) >> a & 1)
			prov_add_rule(g->context, &graph, a, RULE_OF_GRAPH);
	return graph_prov(g, n)->rule != NULL ? graph_prov(g, n)->rule : graph.rule;
}

/* What the constraint says of this axis, where the value is made so. */
static void find_rule(struct insert *x, struct node_id n, struct node_id constraint, int axis)
{
	struct prov all = { .rule = constraint_rule(x->from, constraint) }, one = { .rule = x->rule[n.i] };
	const char *rule = prov_rule(x->from->context, &all, 1u << axis);
	if (rule != NULL)
		prov_add_rule(x->from->context, &one, axis, rule);
	x->rule[n.i] = one.rule;
}

static void find_rules(struct insert *x)
{
	const struct graph *g = x->from;
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		while (graph_op(g, n) == OP_CONSTRAIN)
			n = graph_operand(g, n, 0);
		for (int a = 0; n.i != i && a < x->s->mesh->count; a++)
			if ((graph_int(g, (struct node_id){ i }, ATTR_AXES, 0) >> a & 1) &&
			    x->s->axis[a].produced[n.i] == x->s->axis[a].produced[i])
				find_rule(x, n, (struct node_id){ i }, a);
	}
}

static struct prov_id prov_of(const struct insert *x, struct node_id n)
{
	struct prov p = *graph_prov(x->from, n);
	if (x->rule[n.i] == NULL)
		return graph_node(x->from, n)->prov;
	p.rule = x->rule[n.i];
	return context_prov(x->from->context, &p);
}

/* Of a reshard of value n to a placement, for a user. */
static struct prov_id prov_for(const struct insert *x, struct node_id n, const struct placement *to, struct node_id user)
{
	char text[256];
	struct prov p = *graph_prov(x->from, user);
	p.pass = "solve";
	p.rule = graph_op(x->from, user) == OP_CONSTRAIN ? constraint_rule(x->from, user) : NULL;
	if (x->s->tag) {
		placement_text(to, x->s->mesh, text, sizeof(text));
		p.source = arena_printf(context_arena(x->from->context), MOVE_TAG "%u %s", n.i, text);
	}
	return context_prov(x->from->context, &p);
}

static struct node_id reshard(struct insert *x, struct node_id v, const struct placement *to, struct prov_id prov)
{
	struct type t = *graph_type(x->to, v);
	if (placement_equal(&t.place, to))
		return v;
	t.place = *to;
	struct attrs a = { 0 };
	attrs_placement(&a, to);
	return graph_emit_typed(x->to, OP_RESHARD, &v, 1, &a, &t, prov);
}

static uint64_t price(const struct insert *x, const struct type *t, const struct placement *from, const struct placement *to)
{
	struct reshard_path path;
	struct wire none = { 0 };
	return reshard_path(x->s->machine, x->s->mesh, t, &none, from, to, &path) ? path.price : PRICE_INF;
}

/* --- the order that suits an op --- */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Value n under the labels `want`: as produced or as held, whichever is nearer. */
static uint64_t value_price(const struct insert *x, struct node_id n, const label *want, const uint8_t *order)
{
	label produced[MAX_AXES] = { 0 }, held[MAX_AXES] = { 0 };
	value_labels(x, n, PRODUCED, produced);
	value_labels(x, n, HELD, held);
	struct placement from = compose(x, produced, x->order[n.i]), also = compose(x, held, x->order[n.i]);
	struct placement to = compose(x, want, order);
	const struct type *t = graph_type(x->from, n);
	uint64_t direct = price(x, t, &from, &to);
	return placement_equal(&from, &also) ? direct : least(direct, price(x, t, &also, &to));
}

static bool shares_a_dim(const struct insert *x, const label *at)
{
	uint32_t dims = 0;
	for (int a = 0; a < x->s->mesh->count; a++) {
		uint32_t dim = at[a] >= LABEL_S(0) ? 1u << at[a] : 0;
		if (dims & dim)
			return true;
		dims |= dim;
	}
	return false;
}

/* The order of a value, but that the axes whose labels change come last. */
static void order_from(const struct insert *x, struct node_id n, enum which which, const label *want, uint8_t *order)
{
	label at[MAX_AXES] = { 0 };
	int count = 0;
	value_labels(x, n, which, at);
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < x->s->mesh->count; i++) {
			uint8_t axis = x->order[n.i][i];
			if ((at[axis] != want[axis]) == pass)
				order[count++] = axis;
		}
}

#define MOST_ORDERS 8
struct orders { int count; uint8_t at[MOST_ORDERS][MAX_AXES]; };

static void add_order(struct orders *all, const uint8_t *order)
{
	for (int i = 0; i < all->count; i++)
		if (memcmp(all->at[i], order, MAX_AXES) == 0)
			return;
	if (all->count < MOST_ORDERS)
		memcpy(all->at[all->count++], order, MAX_AXES);
}

static uint64_t order_price(const struct insert *x, struct node_id n, const uint8_t *order)
{
	const struct node *node = graph_node(x->from, n);
	uint64_t sum = 0;
	for (int k = 0; k < node->count && sum < PRICE_INF; k++) {
		label want[MAX_AXES] = { 0 };
		slot_labels(x, node->first + (uint32_t)k, want);
		sum += value_price(x, graph_operand(x->from, n, k), want, order);
	}
	return sum;
}

/* Orders worth trying; one alone where no dim is shared. */
static void list_orders(struct insert *x, struct node_id n, struct orders *all)
{
	const struct node *node = graph_node(x->from, n);
	label want[MAX_AXES] = { 0 };
	uint8_t order[MAX_AXES] = { 0 };
	mesh_order(x, order);
	add_order(all, order);
	value_labels(x, n, PRODUCED, want);
	bool shared = shares_a_dim(x, want);
	for (int k = 0; k < node->count && !shared; k++) {
		slot_labels(x, node->first + (uint32_t)k, want);
		shared = shares_a_dim(x, want);
	}
	for (int k = 0; k < node->count && shared; k++)
		for (int which = PRODUCED; which <= HELD; which++) {
			slot_labels(x, node->first + (uint32_t)k, want);
			order_from(x, graph_operand(x->from, n, k), (enum which)which, want, order);
			add_order(all, order);
		}
}

static void op_order(struct insert *x, struct node_id n)
{
	struct orders all = { 0 };
	uint64_t best = UINT64_MAX;
	if (op_is_source(graph_op(x->from, n))) {
		written_order(x, &graph_type(x->from, n)->place, x->order[n.i]);
		return;
	}
	list_orders(x, n, &all);
	for (int i = 0; i < all.count; i++) {
		uint64_t price = all.count == 1 ? 0 : order_price(x, n, all.at[i]);
		if (price < best) {
			best = price;
			memcpy(x->order[n.i], all.at[i], MAX_AXES);
		}
	}
}

/* --- nodes --- */

/* Value n (old id) under the labels `want`, from where it is cheaper: as produced, or as held. */
static struct node_id value_as(struct insert *x, struct node_id n, const label *want, const uint8_t *order,
			       struct node_id user)
{
	label produced[MAX_AXES] = { 0 }, held[MAX_AXES] = { 0 };
	value_labels(x, n, PRODUCED, produced);
	value_labels(x, n, HELD, held);
	struct placement to = compose(x, want, order), also = compose(x, held, x->order[n.i]);
	struct node_id v = x->made[n.i];
	const struct type *t = graph_type(x->to, v);
	if (memcmp(produced, held, sizeof(held)) != 0 && !placement_equal(&t->place, &to) &&
	    price(x, t, &also, &to) < price(x, t, &t->place, &to))
		v = reshard(x, v, &also, prov_for(x, n, &also, user));
	return reshard(x, v, &to, prov_for(x, n, &to, user));
}

static struct node_id place_source(struct insert *x, struct node_id n)
{
	label at[MAX_AXES] = { 0 };
	value_labels(x, n, PRODUCED, at);
	struct type t = *graph_type(x->from, n);
	t.place = compose(x, at, x->order[n.i]);
	struct attrs a;
	graph_attrs(x->from, n, &a);
	return graph_emit_typed(x->to, graph_op(x->from, n), NULL, 0, &a, &t, graph_node(x->from, n)->prov);
}

static struct node_id place_op(struct insert *x, struct node_id n)
{
	const struct node *node = graph_node(x->from, n);
	struct node_id *in = malloc(sizeof(*in) * (node->count + 1u));
	if (in == NULL)
		BUG("out of memory");
	label at[MAX_AXES] = { 0 };
	for (int k = 0; k < node->count; k++) {
		slot_labels(x, node->first + (uint32_t)k, at);
		in[k] = value_as(x, graph_operand(x->from, n, k), at, x->order[n.i], n);
	}
	struct node_id made = in[0];
	if (node->op != OP_CONSTRAIN) {
		struct type t = *graph_type(x->from, n);
		struct attrs a;
		graph_attrs(x->from, n, &a);
		value_labels(x, n, PRODUCED, at);
		t.place = compose(x, at, x->order[n.i]);
		made = graph_emit_typed(x->to, (enum op)node->op, in, node->count, &a, &t, prov_of(x, n));
	}
	free(in);
	return made;
}

static void place_outputs(struct insert *x)
{
	for (uint32_t i = 0; i < x->from->outputs.count; i++) {
		struct output o = x->from->outputs.items[i];
		label at[MAX_AXES] = { 0 };
		for (int a = 0; a < x->s->mesh->count; a++)
			at[a] = x->s->axis[a].want_output[i];
		o.value = value_as(x, o.value, at, x->order[o.value.i], o.value);
		graph_output(x->to, &o);
	}
}

struct graph *solve_insert(const struct solver *s)
{
	const struct graph *g = s->g;
	struct insert x = { .s = s, .from = g, .to = graph_create(g->context, STAGE_PLACED) };
	x.made = calloc(g->nodes.count, sizeof(*x.made));
	x.order = calloc(g->nodes.count, sizeof(*x.order));
	x.rule = calloc(g->nodes.count, sizeof(*x.rule));
	if (x.made == NULL || x.order == NULL || x.rule == NULL)
		BUG("out of memory");
	find_rules(&x);
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (!s->reached[i] && g->nodes.items[i].op != OP_INPUT)
			continue;
		op_order(&x, n);
		x.made[i] = op_is_source(graph_op(g, n)) ? place_source(&x, n) : place_op(&x, n);
	}
	place_outputs(&x);
	free(x.made);
	free(x.order);
	free(x.rule);
	return x.to;
}
