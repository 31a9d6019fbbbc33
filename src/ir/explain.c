/* What moves and what pins it (explain.h). */
#include "explain.h"
#include "rule.h"

#include <stdlib.h>
#include <string.h>

#define SOLVER "the solver's choice"
#define AMAX_NEEDS "one scale for all shards"

/* --- what a collective moves --- */

const char *moved_as_text(enum moved_as as)
{
	static const char *const text[] = { "", "fp8 codes", "scales of fp8 codes", "amax" };
	return text[as];
}

bool is_move(const struct graph *g, struct node_id n)
{
	return op_is_collective(graph_op(g, n)) || graph_op(g, n) == OP_SHARD;
}

static bool made_by(const struct graph *g, struct node_id n, const char *pass)
{
	const char *by = graph_prov(g, n)->pass;
	return by != NULL && strcmp(by, pass) == 0;
}

/* A copy or an order of dims that only lays a value out for the op behind it. */
static bool is_layout(const struct graph *g, struct node_id n)
{
	return (graph_op(g, n) == OP_COPY || graph_op(g, n) == OP_PERMUTE) && made_by(g, n, "lower");
}

static bool is_bucket(const struct graph *g, struct node_id n)
{
	return graph_op(g, n) == OP_CAT && graph_op(g, graph_operand(g, n, 0)) == OP_RESHAPE &&
	       graph_op(g, graph_operand(g, graph_operand(g, n, 0), 0)) == OP_AMAX;
}

/* One step from a value to what it was made of, where it is but another form of that; false: an op made it. */
static bool step_back(const struct graph *g, struct moved *m)
{
	struct node_id n = m->value, x = graph_node(g, n)->count > 0 ? graph_operand(g, n, 0) : NODE_NONE;
	enum op op = graph_op(g, n), before = node_is(x) ? graph_op(g, x) : OP_NONE;
	if (op == OP_FP8_CAST)
		m->as = MOVED_CODES;
	else if (op == OP_RECIPROCAL && before == OP_FP8_SCALE)
		m->as = MOVED_SCALES;
	else if (op == OP_AMAX)
		m->as = m->as == MOVED_VALUE ? MOVED_AMAX : m->as;
	else if (is_bucket(g, n))
		m->more = graph_node(g, n)->count - 1u;
	else if (op != OP_FP8_SCALE && !is_move(g, n) && !is_layout(g, n) && !(op == OP_RESHAPE && before == OP_AMAX))
		return false;
	m->value = x;
	return true;
}

/* The value that n is a form of, as an op made it. */
static struct node_id made_as(const struct graph *g, struct node_id n)
{
	struct moved m = { .value = n };
	while (step_back(g, &m))
		;
	return m.value;
}

void explain_moved(const struct graph *g, struct node_id collective, struct moved *out)
{
	struct node_id x = graph_operand(g, collective, 0);
	*out = (struct moved){ .value = x, .axes = (uint32_t)graph_int(g, collective, ATTR_AXES, 0),
			       .from = graph_type(g, x)->place, .to = graph_type(g, collective)->place };
	while (step_back(g, out))
		;
}

/* --- words --- */

const char *value_name(const struct graph *g, struct node_id n, struct arena *a)
{
	const char *name = graph_string(g, n, ATTR_NAME), *node = graph_prov(g, n)->node;
	if (name != NULL || node != NULL)
		return name != NULL ? name : node;
	return arena_printf(a, "%%%u", n.i);
}

const char *placement_on(const struct graph *g, const struct placement *p, uint32_t axes, struct arena *a)
{
	static const char *const partial[] = { [PART_SUM] = "P(sum)", [PART_MAX] = "P(max)", [PART_MIN] = "P(min)" };
	const struct mesh *m = context_mesh(g->context);
	const char *text = "";
	for (int i = 0; i < p->count; i++) {
		struct part part = p->at[i];
		const char *comma = *text != '\0' ? ", " : "", *axis = m->axis[part.axis].name;
		if (!(axes >> part.axis & 1))
			continue;
		text = part.kind == PART_SHARD ? arena_printf(a, "%s%s%s:S(%d)", text, comma, axis, part.dim)
					       : arena_printf(a, "%s%s%s:%s", text, comma, axis, partial[part.kind]);
	}
	for (int axis = 0; axis < m->count; axis++)
		if ((axes >> axis & 1) && placement_find(p, axis) < 0)
			text = arena_printf(a, "%s%s%s:R", text, *text != '\0' ? ", " : "", m->axis[axis].name);
	return arena_printf(a, "(%s)", text);
}

/* Do the axes of the mask anything with the value? */
static bool is_placed(const struct graph *g, struct node_id n, uint32_t axes)
{
	const struct placement *p = &graph_type(g, n)->place;
	for (int i = 0; i < p->count; i++)
		if (axes >> p->at[i].axis & 1)
			return true;
	return false;
}

static const char *placed_name(const struct graph *g, struct node_id n, uint32_t axes, struct arena *a)
{
	return arena_printf(a, "%s %s", value_name(g, made_as(g, n), a), placement_on(g, &graph_type(g, n)->place, axes, a));
}

static void add_letter(char *text, size_t size, char letter, bool *found)
{
	size_t used = strlen(text);
	if (!*found)
		snprintf(text + used, size - used, " splits %c", letter);
	else if (strchr(text, letter) == NULL)
		snprintf(text + used, size - used, " %c", letter);
	*found = true;
}

/* " splits k": the letters of a product whose dims the axes shard. */
static void split_letters(const struct graph *g, struct node_id n, uint32_t axes, char *out, size_t size)
{
	struct equation e;
	struct diag d = { 0 };
	const char *text = graph_string(g, n, ATTR_EQ);
	bool found = false;
	out[0] = '\0';
	if (text == NULL || equation_parse(&e, text, &d) != FS_OK)
		return;
	for (int k = 0; k < 2; k++) {
		const struct placement *p = &graph_type(g, graph_operand(g, n, k))->place;
		for (int i = 0; i < p->count; i++)
			if ((axes >> p->at[i].axis & 1) && p->at[i].kind == PART_SHARD && p->at[i].dim < e.rank[k])
				add_letter(out, size, e.letter[k][p->at[i].dim], &found);
	}
}

#define MAX_LISTED 4

/* How the op runs on these axes. */
static const char *how_text(const struct graph *g, struct node_id n, uint32_t axes, struct arena *a)
{
	char split[32];
	enum op op = graph_op(g, n);
	int count = graph_node(g, n)->count, listed = op == OP_SCALED_MATMUL ? 2 : count < MAX_LISTED ? count : MAX_LISTED;
	const char *equation = graph_string(g, n, ATTR_EQ), *role = graph_string(g, n, ATTR_ROLE), *text = "";
	const char *place = placement_on(g, &graph_type(g, n)->place, axes, a);
	if (op_is_source(op))
		return arena_printf(a, "%s %s", op_text(op), place);
	split_letters(g, n, axes, split, sizeof(split));
	for (int k = 0; k < listed; k++)
		text = arena_printf(a, "%s%s%s", text, k > 0 ? ", " : "", placed_name(g, graph_operand(g, n, k), axes, a));
	if (role != NULL)
		equation = arena_printf(a, "%s (%s)", equation, role);
	return arena_printf(a, "%s%s%s%s: %s%s -> %s", op_text(op), equation != NULL ? " " : "", equation != NULL ? equation : "",
			    split, text, listed < count && op != OP_SCALED_MATMUL ? ", ..." : "", place);
}

/* --- pins --- */

struct tracer {
	const struct graph *g;
	const struct uses *uses;
	struct arena *arena;
	uint32_t axes;
	bool *seen;         /* by node, from there backward */
	uint32_t *mark;     /* nodes seen, to be forgotten */
	uint32_t marks;
};

static const char *rule_of(const struct tracer *t, struct node_id n)
{
	return prov_rule(t->g->context, graph_prov(t->g, n), t->axes);
}

static bool first_time(struct tracer *t, struct node_id n)
{
	bool first = !t->seen[n.i];
	t->seen[n.i] = true;
	if (first)
		t->mark[t->marks++] = n.i;
	return first;
}

static void forget(struct tracer *t)
{
	while (t->marks > 0)
		t->seen[t->mark[--t->marks]] = false;
}

/* That `value` lies as `n` does, itself or another form of it. */
static void add_pin(struct tracer *t, struct side *s, struct node_id value, struct node_id n, const char *rule, bool solvers)
{
	struct pin made = { value_name(t->g, value, t->arena), placement_on(t->g, &graph_type(t->g, n)->place, t->axes, t->arena), rule,
			    solvers };
	int others = 0;
	for (int i = 0; i < s->pins; i++) {
		if (strcmp(s->pin[i].value, made.value) == 0 && strcmp(s->pin[i].rule, made.rule) == 0)
			return;
		others += s->pin[i].solvers;
	}
	if (s->pins < MAX_PINS && (!solvers || others < MAX_SOLVERS))
		s->pin[s->pins++] = made;
}

/* A move on these axes: what it gives is told of it. */
static void pin_move(struct tracer *t, struct side *s, struct node_id n)
{
	bool slice = graph_op(t->g, n) == OP_SHARD;
	const char *gives = arena_printf(t->arena, "%s %%%u gives it so", op_text(graph_op(t->g, n)), n.i);
	add_pin(t, s, made_as(t->g, n), n, slice ? SOLVER ": a slice costs nothing" : gives, true);
}

/* What holds the placement of n by itself; false: what it is computed from. */
static bool pin_here(struct tracer *t, struct side *s, struct node_id n)
{
	const char *rule = rule_of(t, n);
	bool source = op_is_source(graph_op(t->g, n));
	bool moves = is_move(t->g, n) && (graph_int(t->g, n, ATTR_AXES, 0) & t->axes);
	if (rule != NULL)
		add_pin(t, s, n, n, rule, false);
	else if (source)
		add_pin(t, s, n, n, is_placed(t->g, n, t->axes) ? RULE_OF_GRAPH : "not placed, so replicated", false);
	else if (moves)
		pin_move(t, s, n);
	return rule != NULL || source || moves;
}

/* Pins of what was marked from `start` on, and of what that is computed from where the axes do something; nearest first. */
static void trace_back(struct tracer *t, struct side *s, uint32_t start)
{
	for (uint32_t i = start; i < t->marks && s->pins < MAX_PINS; i++) {
		struct node_id n = { t->mark[i] };
		if (pin_here(t, s, n))
			continue;
		for (int k = 0; k < graph_node(t->g, n)->count; k++)
			if (is_placed(t->g, graph_operand(t->g, n, k), t->axes))
				first_time(t, graph_operand(t->g, n, k));
	}
}

/* Pins of the op's operands other than x. */
static void trace_others(struct tracer *t, struct side *s, struct node_id user, struct node_id x)
{
	uint32_t start = t->marks;
	for (int k = 0; k < graph_node(t->g, user)->count; k++) {
		struct node_id other = graph_operand(t->g, user, k);
		if (!node_same(other, x) && is_placed(t->g, other, t->axes))
			first_time(t, other);
	}
	trace_back(t, s, start);
}

#define MOST_STEPS 256

/* From an op on, while no axis of these moves: the first pins that its results meet. */
static void trace_on(struct tracer *t, struct side *s, struct node_id from)
{
	struct node_id queue[MOST_STEPS];
	int count = 0;
	queue[count++] = from;
	for (int i = 0; i < count && s->pins == 0; i++) {
		struct node_id n = queue[i];
		const char *rule = rule_of(t, n);
		if (rule != NULL && !is_move(t->g, n))
			add_pin(t, s, n, n, rule, false);
		for (uint32_t k = t->uses->first[n.i]; k < t->uses->first[n.i + 1] && s->pins == 0; k++) {
			struct node_id user = t->uses->at[k];
			if (is_move(t->g, user) && (graph_int(t->g, user, ATTR_AXES, 0) & t->axes))
				continue;
			trace_others(t, s, user, n);
			if (count < MOST_STEPS && first_time(t, user))
				queue[count++] = user;
		}
	}
}

/* --- what an op needs --- */

/* Shape of a value over all axes but one. */
static void shape_without(const struct graph *g, struct node_id n, int axis, int64_t *out)
{
	struct type t = *graph_type(g, n);
	placement_set(&t.place, axis, NULL);
	type_local_shape(&t, context_mesh(g->context), NULL, out);
}

/* Can the op take operand k under the label at all? Ops that swap_fp8 makes are the plain product's. */
static bool can_take(const struct graph *g, struct node_id n, int k, int axis, label from)
{
	struct arena scratch = { 0 };
	struct strategies all;
	const struct node *node = graph_node(g, n);
	int64_t (*shape)[MAX_RANK] = arena_array(&scratch, node->count + 1u, sizeof(*shape));
	bool can = false;
	for (int i = 0; i <= node->count; i++)
		shape_without(g, i < node->count ? graph_operand(g, n, i) : n, axis, shape[i]);
	op_strategies(g, n, (const int64_t (*)[MAX_RANK])shape, context_mesh(g->context)->axis[axis].size, false, &scratch, &all);
	for (int i = 0; i < all.count; i++)
		can |= all.at[i * all.stride + k] == from;
	arena_release(&scratch);
	return can;
}

static bool is_plain(enum op op)
{
	return op_in_stage(op, STAGE_GLOBAL) && op != OP_AMAX && op != OP_FP8_SCALE && op != OP_FP8_CAST &&
	       op != OP_SCALED_MATMUL && op != OP_POST_SCALE && op != OP_PROJ;
}

/* Where the op cannot take the value as it was made, on some axis. */
static const char *needs_text(struct tracer *t, struct node_id user, struct node_id x, const struct placement *made)
{
	const struct graph *g = t->g;
	if (!is_plain(graph_op(g, user)))
		return NULL;
	for (int k = 0; k < graph_node(g, user)->count; k++)
		for (int axis = 0; axis < context_mesh(g->context)->count; axis++)
			if (node_same(graph_operand(g, user, k), x) && (t->axes >> axis & 1) &&
			    !can_take(g, user, k, axis, label_of(made, axis)))
				return arena_printf(t->arena, "%s takes no %s here", op_text(graph_op(g, user)),
						    placement_on(g, made, 1u << axis, t->arena));
	return NULL;
}

/* --- the sides --- */

static void start_side(struct tracer *t, struct side *s, struct node_id op)
{
	*s = (struct side){ .op = op, .name = value_name(t->g, op, t->arena), .module = graph_prov(t->g, op)->module,
			    .how = how_text(t->g, op, t->axes, t->arena) };
}

static void explain_made(struct tracer *t, struct explanation *e)
{
	start_side(t, &e->made, e->moved.value);
	first_time(t, e->moved.value);
	trace_back(t, &e->made, 0);
	forget(t);
}

static void add_user(struct tracer *t, struct explanation *e, struct node_id user, struct node_id x)
{
	for (int i = 0; i < e->users; i++)
		if (node_same(e->user[i].op, user))
			return;
	if (e->users == MAX_SIDES) {
		e->more_users++;
		return;
	}
	struct side *s = &e->user[e->users++];
	start_side(t, s, user);
	if (e->moved.as == MOVED_AMAX) {
		s->needs = AMAX_NEEDS;
		return;
	}
	first_time(t, x);
	trace_others(t, s, user, x);
	s->needs = s->pins == 0 ? needs_text(t, user, x, &e->moved.from) : NULL;
	if (s->pins == 0 && s->needs == NULL)
		trace_on(t, s, user);
	forget(t);
}

/* Ops that a moved value, or an amax, goes on through to those that compute with it. */
static bool passes_on(const struct graph *g, struct node_id n, enum moved_as as)
{
	enum op op = graph_op(g, n);
	if (as == MOVED_AMAX && (op == OP_SLICE || op == OP_RESHAPE || op == OP_FP8_SCALE || op == OP_RECIPROCAL))
		return true;
	return is_move(g, n) || is_layout(g, n) || graph_op(g, n) == OP_FP8_CAST || graph_op(g, n) == OP_POST_SCALE;
}

static bool is_of_scale(const struct graph *g, struct node_id n, enum moved_as as)
{
	return (graph_op(g, n) == OP_AMAX || graph_op(g, n) == OP_FP8_SCALE) && as == MOVED_VALUE;
}

static void add_output_user(struct tracer *t, struct explanation *e, struct node_id n)
{
	for (uint32_t i = 0; i < t->g->outputs.count; i++) {
		const struct output *o = &t->g->outputs.items[i];
		if (!node_same(o->value, n) || e->users == MAX_SIDES)
			continue;
		struct side *s = &e->user[e->users++];
		*s = (struct side){ .name = o->name, .how = arena_printf(t->arena, "output %s",
			placement_on(t->g, &graph_type(t->g, n)->place, t->axes, t->arena)) };
		if (e->rule != NULL)
			s->pin[s->pins++] = (struct pin){ o->name, placement_on(t->g, &graph_type(t->g, n)->place, t->axes, t->arena), e->rule, false };
	}
}

static void find_users(struct tracer *t, struct explanation *e, struct node_id n, int depth)
{
	add_output_user(t, e, n);
	for (uint32_t k = t->uses->first[n.i]; k < t->uses->first[n.i + 1]; k++) {
		struct node_id user = t->uses->at[k];
		if (is_of_scale(t->g, user, e->moved.as))
			continue;
		if (passes_on(t->g, user, e->moved.as) && depth < 16)
			find_users(t, e, user, depth + 1);
		else
			add_user(t, e, user, n);
	}
}

/* --- the cause --- */

static const struct pin *asked_pin(const struct side *s)
{
	for (int i = 0; i < s->pins; i++)
		if (!s->pin[i].solvers)
			return &s->pin[i];
	return NULL;
}

/* The first pin of the users; where there is none, what one of them needs; value NULL: neither. */
static struct pin cause_of_users(const struct explanation *e)
{
	for (int i = 0; i < e->users; i++)
		if (asked_pin(&e->user[i]) != NULL)
			return *asked_pin(&e->user[i]);
	for (int i = 0; i < e->users; i++)
		if (e->user[i].needs != NULL)
			return (struct pin){ e->user[i].name, e->to, e->user[i].needs, false };
	return (struct pin){ 0 };
}

static struct pin cause_of(const struct explanation *e)
{
	const struct pin *made = asked_pin(&e->made);
	struct pin users = cause_of_users(e);
	for (int i = 0; i < e->users; i++)
		if (!node_is(e->user[i].op) && e->user[i].pins > 0)
			return e->user[i].pin[0]; /* an output, by its own name */
	if (e->moved.as == MOVED_AMAX || e->rule != NULL)
		return (struct pin){ e->name, e->to, e->rule != NULL ? e->rule : "its fp8 recipe: " AMAX_NEEDS, false };
	if (made != NULL && (users.value == NULL || placement_has_partial(&e->moved.from)))
		return *made;
	return users.value != NULL ? users : (struct pin){ e->name, e->to, SOLVER, true };
}

void explain_collective(const struct graph *g, const struct uses *uses, struct node_id collective, struct arena *a,
			struct explanation *out)
{
	struct tracer t = { .g = g, .uses = uses, .arena = a };
	char type[512];
	t.seen = calloc(g->nodes.count, sizeof(*t.seen));
	t.mark = calloc(g->nodes.count, sizeof(*t.mark));
	if (t.seen == NULL || t.mark == NULL)
		BUG("out of memory");
	*out = (struct explanation){ 0 };
	explain_moved(g, collective, &out->moved);
	t.axes = out->moved.axes;
	out->rule = rule_of(&t, collective);
	out->name = value_name(g, out->moved.value, a);
	out->module = graph_prov(g, out->moved.value)->module;
	out->from = placement_on(g, &out->moved.from, t.axes, a);
	out->to = placement_on(g, &out->moved.to, t.axes, a);
	type_text(graph_type(g, out->moved.value), NULL, type, sizeof(type));
	out->type = arena_strdup(a, type);
	explain_made(&t, out);
	find_users(&t, out, collective, 0);
	out->cause = cause_of(out);
	free(t.seen);
	free(t.mark);
}
