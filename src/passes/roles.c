/*
 * Roles of matmuls.  Of a layer y = x w:
 *
 *     %y  = matmul %x, %w      forward       w is a 2-D parameter
 *     %gx = matmul %gy, %w     grad_input    backward, takes the parameter
 *     %gw = matmul %gy, %x     grad_weight   its result becomes the gradient of w, and x is what a forward product of w takes
 *
 * Other backward products (attention) are grad_input, or grad_weight where the result becomes a parameter's
 * gradient; they belong to no layer.  What the backward computes again is forward, as what it repeats.  A parameter with several forward products has as many of each: a
 * grad_weight is known by its activation, a grad_input by the gradient that it shares with a grad_weight.
 */
#include "roles.h"
#include "fp8_chain.h"

#include <stdlib.h>
#include <string.h>

/* A forward product of a parameter, found by a value that it or its gradient takes. */
struct link { struct node_id parameter, value, product; };

struct links {
	struct hash_table table;
	VEC(struct link) items;
};

struct sweep {
	const struct graph *g;
	bool *reached;
	bool *backward;         /* by node */
	struct node_id *twin;   /* by node: of what is computed again the first, else the node itself */
	struct node_id *target; /* by node: the parameter whose gradient its result becomes */
	struct links forwards;  /* by activation, and by none: the first of the parameter */
	struct links gradients; /* grad_weights by gradient */
	struct roles roles;
};

static void *zeroed(size_t count, size_t size)
{
	void *p = calloc(count, size);
	if (p == NULL)
		BUG("out of memory");
	return p;
}

/* --- links --- */

struct link_key { const struct links *links; struct node_id parameter, value; };

static bool same_link(const void *key, uint32_t i)
{
	const struct link_key *k = key;
	const struct link *l = &k->links->items.items[i];
	return node_same(l->parameter, k->parameter) && node_same(l->value, k->value);
}

static uint64_t link_hash(struct node_id parameter, struct node_id value)
{
	uint32_t ids[2] = { parameter.i, value.i };
	return hash_bytes(ids, sizeof(ids), 0);
}

static struct node_id link_find(const struct links *l, struct node_id parameter, struct node_id value)
{
	struct link_key key = { l, parameter, value };
	uint32_t i = hash_find(&l->table, link_hash(parameter, value), same_link, &key);
	return i == UINT32_MAX ? NODE_NONE : l->items.items[i].product;
}

static void link_add(struct links *l, struct node_id parameter, struct node_id value, struct node_id product)
{
	if (node_is(link_find(l, parameter, value)))
		return;
	hash_insert(&l->table, link_hash(parameter, value), l->items.count);
	*vec_push(&l->items) = (struct link){ parameter, value, product };
}

static void links_release(struct links *l)
{
	hash_release(&l->table);
	vec_release(&l->items);
}

/* --- operands --- */

struct node_id parameter_of(const struct graph *g, struct node_id matmul, int k)
{
	struct stored s;
	struct node_id n = graph_operand(g, matmul, k);
	if (stored_operand(g, matmul, k, &s))
		n = s.codes;
	while (graph_op(g, n) == OP_CAST || graph_op(g, n) == OP_COPY || graph_op(g, n) == OP_CONSTRAIN ||
	       (graph_op(g, n) == OP_PERMUTE && dtype_class((enum dtype)graph_type(g, n)->dtype) == DC_FP8))
		n = graph_operand(g, n, 0);
	return graph_op(g, n) == OP_PARAM ? n : NODE_NONE;
}

int weight_operand(const struct graph *g, struct node_id matmul)
{
	for (int k = 1; k >= 0; k--) {
		struct node_id p = parameter_of(g, matmul, k);
		if (node_is(p) && graph_type(g, p)->rank == 2)
			return k;
	}
	return -1;
}

static bool keeps_elements(enum op op)
{
	return op == OP_RESHAPE || op == OP_PERMUTE || op == OP_CAST || op == OP_COPY || op == OP_CONSTRAIN;
}

/* Operand k without views and casts, as it was computed first. */
static struct node_id bare(const struct sweep *s, struct node_id n, int k)
{
	for (n = graph_operand(s->g, n, k); keeps_elements(graph_op(s->g, n));)
		n = graph_operand(s->g, n, 0);
	return s->twin[n.i];
}

/* --- what is backward --- */

static bool is_gradient(enum output_kind k)
{
	return k == OUT_GRAD_PARAM || k == OUT_GRAD_INPUT;
}

static bool has_output(const struct graph *g, enum output_kind kind)
{
	for (uint32_t i = 0; i < g->outputs.count; i++)
		if (g->outputs.items[i].kind == kind)
			return true;
	return false;
}

/* Marks what the marked nodes hang on. */
static void mark_ancestors(const struct graph *g, bool *marked)
{
	for (uint32_t i = g->nodes.count; i-- > 1;)
		for (int k = 0; marked[i] && k < graph_node(g, (struct node_id){ i })->count; k++)
			marked[graph_operand(g, (struct node_id){ i }, k).i] = true;
}

static void find_backward(struct sweep *s)
{
	const struct graph *g = s->g;
	bool *forward = zeroed(g->nodes.count, sizeof(*forward));
	enum output_kind origin = has_output(g, OUT_LOSS) ? OUT_LOSS : OUT_USER;
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		const struct output *o = &g->outputs.items[i];
		forward[o->value.i] |= o->kind == origin;
		s->backward[o->value.i] |= is_gradient(o->kind);
	}
	mark_ancestors(g, forward);
	mark_ancestors(g, s->backward);
	for (uint32_t i = 1; i < g->nodes.count; i++)
		s->backward[i] &= !forward[i];
	free(forward);
}

/* --- what is computed again: behind barriers, the ops of the forward --- */

struct again_key { const struct sweep *s; struct node_id node; };

static bool same_but_barriers(const void *key, uint32_t i)
{
	const struct again_key *k = key;
	const struct graph *g = k->s->g;
	const struct node *a = graph_node(g, k->node), *b = graph_node(g, (struct node_id){ i });
	bool same = a->op == b->op && a->attrs.i == b->attrs.i && a->count == b->count;
	for (int o = 0; same && o < a->count; o++)
		same = node_same(k->s->twin[graph_operand(g, k->node, o).i], graph_operand(g, (struct node_id){ i }, o));
	return same;
}

static uint64_t again_hash(const struct sweep *s, struct node_id n)
{
	const struct node *node = graph_node(s->g, n);
	uint64_t hash = hash_bytes(&(uint32_t[2]){ node->op, node->attrs.i }, 2 * sizeof(uint32_t), 0);
	for (int k = 0; k < node->count; k++) {
		uint32_t x = s->twin[graph_operand(s->g, n, k).i].i;
		hash = hash_bytes(&x, sizeof(x), hash);
	}
	return hash;
}

/* Hangs on the forward alone, as far as is known by now. */
static bool may_be_again(const struct sweep *s, struct node_id n)
{
	for (int k = 0; k < graph_node(s->g, n)->count; k++)
		if (s->backward[graph_operand(s->g, n, k).i])
			return false;
	return graph_node(s->g, n)->count > 0;
}

static bool has_barriers(const struct graph *g)
{
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (graph_op(g, (struct node_id){ i }) == OP_BARRIER)
			return true;
	return false;
}

/* Sets twins; what has one is no longer backward. */
static void find_again(struct sweep *s)
{
	struct hash_table first = { 0 };
	for (uint32_t i = 1; i < s->g->nodes.count; i++) {
		struct node_id n = { i };
		if (!s->reached[i] || (s->backward[i] && !may_be_again(s, n)))
			continue;
		struct again_key key = { s, n };
		uint32_t found = hash_find(&first, again_hash(s, n), same_but_barriers, &key);
		if (graph_op(s->g, n) == OP_BARRIER)
			s->twin[i] = s->twin[graph_operand(s->g, n, 0).i];
		else if (!s->backward[i])
			hash_insert(&first, again_hash(s, n), i);
		else if (found != UINT32_MAX)
			s->twin[i].i = found;
		s->backward[i] = s->backward[i] && s->twin[i].i == i;
	}
	hash_release(&first);
}

/* --- which parameter's gradient --- */

/* Parameters by name, tied names too; names are interned. */
struct name { const char *text; struct node_id parameter; };
struct names {
	struct hash_table table;
	VEC(struct name) items;
};

struct name_key { const struct names *names; const char *text; };

static bool same_name(const void *key, uint32_t i)
{
	const struct name_key *k = key;
	return k->names->items.items[i].text == k->text;
}

static void add_name(struct names *names, const char *text, struct node_id parameter)
{
	hash_insert(&names->table, hash_string(text), names->items.count);
	*vec_push(&names->items) = (struct name){ text, parameter };
}

static void add_names(struct names *names, const struct graph *g, struct node_id n)
{
	add_name(names, graph_string(g, n, ATTR_NAME), n);
	const char *tied = graph_string(g, n, ATTR_TIED);
	for (size_t size; tied != NULL && (size = strcspn(tied, " ")) > 0; tied += size + strspn(tied + size, " "))
		add_name(names, context_intern_n(g->context, tied, size), n);
}

/* The output's own gradient, and what makes it in views, casts, sums and products with a number. */
static void pass_target(const struct graph *g, struct node_id n, struct node_id *target)
{
	enum op op = graph_op(g, n);
	bool sum = op == OP_ADD, factor = op == OP_MUL || op == OP_DIV;
	if (!sum && !factor && !keeps_elements(op))
		return;
	for (int k = 0; k < graph_node(g, n)->count; k++) {
		struct node_id x = graph_operand(g, n, k);
		if (!node_is(target[x.i]) && (!factor || type_count(graph_type(g, x)) > 1))
			target[x.i] = target[n.i];
	}
}

static void find_targets(struct sweep *s)
{
	const struct graph *g = s->g;
	struct names names = { 0 };
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (graph_op(g, (struct node_id){ i }) == OP_PARAM)
			add_names(&names, g, (struct node_id){ i });
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		const struct output *o = &g->outputs.items[i];
		struct name_key key = { &names, o->target };
		uint32_t at = o->kind != OUT_GRAD_PARAM || o->target == NULL ? UINT32_MAX
									  : hash_find(&names.table, hash_string(o->target), same_name, &key);
		if (at != UINT32_MAX)
			s->target[o->value.i] = names.items.items[at].parameter;
	}
	for (uint32_t i = g->nodes.count; i-- > 1;)
		if (s->backward[i] && node_is(s->target[i]))
			pass_target(g, (struct node_id){ i }, s->target);
	hash_release(&names.table);
	vec_release(&names.items);
}

/* --- the products --- */

static void set_forward(struct sweep *s, struct node_id n)
{
	int weight = weight_operand(s->g, n);
	s->roles.of[n.i] = (struct product){ .role = PRODUCT_FORWARD, .flipped = weight == 0 };
	if (weight < 0)
		return;
	struct node_id parameter = parameter_of(s->g, n, weight);
	s->roles.of[n.i].forward = s->twin[n.i];
	link_add(&s->forwards, parameter, bare(s, n, 1 - weight), n);
	link_add(&s->forwards, parameter, NODE_NONE, n);
}

/* Is operand k what a forward product of the target takes? */
static bool set_grad_weight(struct sweep *s, struct node_id n, int k)
{
	struct node_id parameter = s->target[n.i];
	struct node_id forward = link_find(&s->forwards, parameter, bare(s, n, k));
	if (!node_is(forward))
		return false;
	s->roles.of[n.i] = (struct product){ PRODUCT_GRAD_WEIGHT, .flipped = k == 0, .forward = forward };
	link_add(&s->gradients, parameter, bare(s, n, 1 - k), forward);
	return true;
}

static bool is_grad_weight(struct sweep *s, struct node_id n)
{
	return node_is(s->target[n.i]) && (set_grad_weight(s, n, 1) || set_grad_weight(s, n, 0));
}

static void set_other(struct sweep *s, struct node_id n)
{
	int weight = weight_operand(s->g, n);
	struct product *p = &s->roles.of[n.i];
	*p = (struct product){ .role = weight < 0 && node_is(s->target[n.i]) ? PRODUCT_GRAD_WEIGHT : PRODUCT_GRAD_INPUT,
			       .flipped = weight == 0 };
	if (weight < 0)
		return;
	struct node_id parameter = parameter_of(s->g, n, weight);
	p->forward = link_find(&s->gradients, parameter, bare(s, n, 1 - weight));
	if (!node_is(p->forward))
		p->forward = link_find(&s->forwards, parameter, NODE_NONE);
}

/* Forward products first, then gradients of weights, which lead to the gradients of inputs. */
static void set_all(struct sweep *s)
{
	const struct graph *g = s->g;
	VEC(struct node_id) backward = { 0 }, others = { 0 };
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (graph_op(g, n) != OP_MATMUL || !s->reached[i])
			continue;
		if (s->backward[i])
			*vec_push(&backward) = n;
		else
			set_forward(s, n);
	}
	for (uint32_t i = 0; i < backward.count; i++)
		if (!is_grad_weight(s, backward.items[i]))
			*vec_push(&others) = backward.items[i];
	for (uint32_t i = 0; i < others.count; i++)
		set_other(s, others.items[i]);
	vec_release(&backward);
	vec_release(&others);
}

struct roles roles_make(const struct graph *g)
{
	struct sweep s = { .g = g, .reached = graph_reached(g) };
	s.roles.of = zeroed(g->nodes.count, sizeof(*s.roles.of));
	s.roles.backward = has_output(g, OUT_GRAD_PARAM) || has_output(g, OUT_GRAD_INPUT);
	s.backward = zeroed(g->nodes.count, sizeof(*s.backward));
	s.target = zeroed(g->nodes.count, sizeof(*s.target));
	s.twin = zeroed(g->nodes.count, sizeof(*s.twin));
	for (uint32_t i = 0; i < g->nodes.count; i++)
		s.twin[i].i = i;
	if (s.roles.backward) {
		find_backward(&s);
		if (has_barriers(g))
			find_again(&s);
		find_targets(&s);
	}
	set_all(&s);
	links_release(&s.forwards);
	links_release(&s.gradients);
	free(s.reached);
	free(s.backward);
	free(s.twin);
	free(s.target);
	return s.roles;
}

void roles_release(struct roles *r)
{
	free(r->of);
	r->of = NULL;
}
