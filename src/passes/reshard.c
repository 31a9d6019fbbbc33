/* Dijkstra over placements: a few dozen states, mostly; the queue is a heap, ties go to the state seen first. */
#include "reshard.h"

#include <string.h>

struct state {
	struct placement at;
	uint64_t price;
	int before;       /* state it was reached from, -1: the start */
	struct move move; /* how */
	bool done;
};

struct queued { uint64_t price; int state; };

struct search {
	const struct machine *machine;
	const struct mesh *mesh;
	const struct type *type;
	const struct wire *wire;
	const struct placement *goal;
	VEC(struct state) states;
	struct hash_table table;
	VEC(struct queued) queue; /* a heap; what is done already is passed over */
};

/* More would take longer than it is worth. */
#define MOST_STATES 4096

/* --- states and the queue --- */

struct state_query { const struct search *s; const struct placement *at; };

static bool same_state(const void *context, uint32_t i)
{
	const struct state_query *q = context;
	return memcmp(&q->s->states.items[i].at, q->at, sizeof(*q->at)) == 0;
}

static int find_state(struct search *s, const struct placement *p)
{
	struct state_query q = { s, p };
	uint64_t hash = hash_bytes(p, sizeof(*p), 0);
	uint32_t i = hash_find(&s->table, hash, same_state, &q);
	if (i != UINT32_MAX)
		return (int)i;
	struct state *made = vec_push(&s->states);
	made->at = *p;
	made->price = PRICE_INF;
	made->before = -1;
	hash_insert(&s->table, hash, s->states.count - 1);
	return (int)s->states.count - 1;
}

static bool sooner(const struct queued *a, const struct queued *b)
{
	return a->price != b->price ? a->price < b->price : a->state < b->state;
}

static void swap_queued(struct queued *a, struct queued *b)
{
	struct queued t = *a;
	*a = *b;
	*b = t;
}

static void enqueue(struct search *s, int state)
{
	uint32_t i = s->queue.count;
	*vec_push(&s->queue) = (struct queued){ s->states.items[state].price, state };
	struct queued *q = s->queue.items;
	for (; i > 0 && sooner(&q[i], &q[(i - 1) / 2]); i = (i - 1) / 2)
		swap_queued(&q[i], &q[(i - 1) / 2]);
}

static struct queued dequeue(struct search *s)
{
	struct queued *q = s->queue.items, first = q[0];
	uint32_t count = --s->queue.count;
	q[0] = q[count];
	for (uint32_t i = 0, child = 1; child < count; child = 2 * i + 1) {
		child += child + 1 < count && sooner(&q[child + 1], &q[child]);
		if (!sooner(&q[child], &q[i]))
			break;
		swap_queued(&q[child], &q[i]);
		i = child;
	}
	return first;
}

/* The nearest state that is not done; -1: there is none. */
static int cheapest(struct search *s)
{
	while (s->queue.count > 0) {
		int i = dequeue(s).state;
		if (!s->states.items[i].done)
			return i;
	}
	return -1;
}

/* --- moves and their prices --- */

/* Shape of the largest shard of `p`, the axes of `without` taken as not there. */
static void shape_without(const struct search *s, const struct placement *p, uint32_t without, int64_t *shape)
{
	struct placement rest = { 0 };
	for (int i = 0; i < p->count; i++)
		if (!(without >> p->at[i].axis & 1))
			rest.at[rest.count++] = p->at[i];
	struct type t = *s->type;
	t.place = rest;
	type_local_shape(&t, s->mesh, NULL, shape);
}

static int32_t ranks_of(const struct search *s, uint32_t axes)
{
	int32_t n = 1;
	for (int a = 0; a < s->mesh->count; a++)
		if (axes >> a & 1)
			n *= s->mesh->axis[a].size;
	return n;
}

/*
 * May the cast pass a move from here? It passes only moves that end at it: so nothing may still have to be
 * reduced, sliced, or moved along what a row scale spans.
 */
static bool cast_may_pass(const struct search *s, const struct placement *here)
{
	if (s->wire->dtype == DT_NONE || placement_has_partial(here))
		return false;
	for (int i = 0; i < s->goal->count; i++)
		if (placement_find(here, s->goal->at[i].axis) < 0)
			return false;
	for (int dim = 0; dim < s->type->rank; dim++)
		if ((s->wire->spanned >> dim & 1) && placement_axes_of(here, dim) != placement_axes_of(s->goal, dim))
			return false;
	return true;
}

static uint64_t price_of(const struct search *s, const struct placement *here, const struct move *m, label from, label to)
{
	int64_t shape[MAX_RANK];
	int rank = s->type->rank, item = dtype_size((enum dtype)s->type->dtype);
	shape_without(s, here, m->axes, shape);
	if (cast_may_pass(s, here))
		return wire_price(s->machine, s->wire, shape, rank, item, from, to, ranks_of(s, m->axes));
	return move_price(s->machine, shape, rank, item, from, to, ranks_of(s, m->axes));
}

/* Relaxes the edge from state `i` by `move`, priced as a change of label. */
static void relax(struct search *s, int i, struct move move, label from, label to)
{
	struct state here = s->states.items[i];
	placement_canonical(&move.after);
	uint64_t price = here.price + price_of(s, &here.at, &move, from, to);
	int to_state = find_state(s, &move.after); /* may move the array */
	struct state *there = &s->states.items[to_state];
	if (price < there->price) {
		there->price = price;
		there->before = i;
		there->move = move;
		enqueue(s, to_state);
	}
}

static bool is_innermost(const struct placement *p, int part)
{
	for (int i = part + 1; i < p->count; i++)
		if (p->at[i].kind == PART_SHARD && p->at[i].dim == p->at[part].dim)
			return false;
	return true;
}

static struct placement with(const struct placement *p, int axis, const struct part *part)
{
	struct placement made = *p;
	placement_set(&made, axis, part);
	return made;
}

/* R to S(d): only to where it is wanted. */
static void try_slice(struct search *s, int i, int axis, const struct placement *to)
{
	int want = placement_find(to, axis);
	if (want < 0 || to->at[want].kind != PART_SHARD)
		return;
	struct move m = { OP_SHARD, 1u << axis, 0, to->at[want].dim, 0, with(&s->states.items[i].at, axis, &to->at[want]) };
	relax(s, i, m, LABEL_R, LABEL_S(to->at[want].dim));
}

/* Gathers the innermost axes of a dim, from the last outwards, as long as they nest in mesh order. */
static void try_gathers(struct search *s, int i, int part)
{
	struct placement p = s->states.items[i].at, after = p;
	uint8_t dim = p.at[part].dim;
	struct move m = { OP_ALL_GATHER, 0, dim, 0, 0, p };
	for (int k = part; k >= 0; k--) {
		if (p.at[k].kind != PART_SHARD || p.at[k].dim != dim)
			continue;
		if (m.axes % (1u << p.at[k].axis) != 0)
			break; /* one of them is further out in the mesh */
		m.axes |= 1u << p.at[k].axis;
		placement_set(&after, p.at[k].axis, NULL);
		m.after = after;
		relax(s, i, m, LABEL_S(dim), LABEL_R);
	}
}

static void try_exchanges(struct search *s, int i, int part)
{
	struct placement p = s->states.items[i].at;
	struct part to = p.at[part];
	for (to.dim = 0; to.dim < s->type->rank; to.dim++) {
		if (to.dim == p.at[part].dim)
			continue;
		struct move m = { OP_ALL_TO_ALL, 1u << to.axis, p.at[part].dim, to.dim, 0, with(&p, to.axis, &to) };
		relax(s, i, m, LABEL_S(p.at[part].dim), LABEL_S(to.dim));
	}
}

static label partial_label(uint8_t kind)
{
	return kind == PART_SUM ? LABEL_SUM : kind == PART_MAX ? LABEL_MAX : LABEL_MIN;
}

/* One axis, and all axes that hold the same kind of partial at once. */
static void try_reductions(struct search *s, int i, int part)
{
	struct placement p = s->states.items[i].at, after = p;
	uint8_t axis = p.at[part].axis, kind = p.at[part].kind;
	struct part to = { axis, PART_SHARD, 0 };
	for (; to.dim < s->type->rank; to.dim++) {
		struct move m = { OP_REDUCE_SCATTER, 1u << axis, 0, to.dim, kind, with(&p, axis, &to) };
		relax(s, i, m, partial_label(kind), LABEL_S(to.dim));
	}
	struct move m = { OP_ALL_REDUCE, 1u << axis, 0, 0, kind, with(&p, axis, NULL) };
	relax(s, i, m, partial_label(kind), LABEL_R);
	m.axes = 0;
	for (int k = 0; k < p.count; k++)
		if (p.at[k].kind == kind) {
			m.axes |= 1u << p.at[k].axis;
			placement_set(&after, p.at[k].axis, NULL);
		}
	m.after = after;
	relax(s, i, m, partial_label(kind), LABEL_R);
}

static void expand(struct search *s, int i, const struct placement *to)
{
	struct placement p = s->states.items[i].at;
	for (int axis = 0; axis < s->mesh->count; axis++) {
		int part = placement_find(&p, axis);
		if (part < 0) {
			try_slice(s, i, axis, to);
		} else if (p.at[part].kind != PART_SHARD) {
			try_reductions(s, i, part);
		} else if (is_innermost(&p, part)) {
			try_gathers(s, i, part);
			try_exchanges(s, i, part);
		}
	}
}

static bool read_path(const struct search *s, int end, struct reshard_path *out)
{
	int count = 0;
	for (int i = end; s->states.items[i].before >= 0; i = s->states.items[i].before)
		count++;
	if (count > MAX_MOVES)
		return false;
	out->count = count;
	out->price = s->states.items[end].price;
	for (int i = end; s->states.items[i].before >= 0; i = s->states.items[i].before)
		out->move[--count] = s->states.items[i].move;
	return true;
}

/* --- where there are too many placements: gather what differs, slice --- */

static void append(struct search *s, struct reshard_path *out, struct move m, label from, label to)
{
	const struct placement *here = out->count == 0 ? &s->states.items[0].at : &out->move[out->count - 1].after;
	out->price += price_of(s, here, &m, from, to);
	placement_canonical(&m.after);
	out->move[out->count++] = m;
}

/* Does the goal have this part, and the same axes outside it? */
static bool stays(const struct placement *p, int part, const struct placement *goal)
{
	int at = 0;
	for (int i = 0; i <= part; i++) {
		if (p->at[i].kind != PART_SHARD || p->at[i].dim != p->at[part].dim)
			continue;
		while (at < goal->count && (goal->at[at].kind != PART_SHARD || goal->at[at].dim != p->at[part].dim))
			at++;
		if (at == goal->count || goal->at[at++].axis != p->at[i].axis)
			return false;
	}
	return true;
}

static bool gather_and_slice(struct search *s, struct reshard_path *out)
{
	struct placement here = s->states.items[0].at;
	*out = (struct reshard_path){ 0 };
	for (int i = here.count; i-- > 0;) {
		struct part p = here.at[i];
		int at = placement_find(s->goal, p.axis);
		bool shard = p.kind == PART_SHARD;
		if (shard ? stays(&here, i, s->goal) : at >= 0 && s->goal->at[at].kind == p.kind)
			continue;
		placement_set(&here, p.axis, NULL);
		struct move m = { shard ? OP_ALL_GATHER : OP_ALL_REDUCE, 1u << p.axis, p.dim, 0, shard ? 0 : p.kind, here };
		append(s, out, m, shard ? LABEL_S(p.dim) : partial_label(p.kind), LABEL_R);
	}
	for (int i = 0; i < s->goal->count; i++) {
		struct part p = s->goal->at[i];
		if (placement_find(&here, p.axis) >= 0)
			continue;
		if (p.kind != PART_SHARD)
			return false;
		placement_set(&here, p.axis, &p);
		append(s, out, (struct move){ OP_SHARD, 1u << p.axis, 0, p.dim, 0, here }, LABEL_R, LABEL_S(p.dim));
	}
	return placement_equal(&here, s->goal);
}

bool reshard_path(const struct machine *m, const struct mesh *mesh, const struct type *t, const struct wire *wire,
		  const struct placement *from, const struct placement *to, struct reshard_path *out)
{
	struct placement start = *from, goal = *to;
	struct search s = { .machine = m, .mesh = mesh, .type = t, .wire = wire, .goal = &goal };
	placement_canonical(&start);
	placement_canonical(&goal);
	int first = find_state(&s, &start);
	s.states.items[first].price = 0;
	enqueue(&s, first);
	bool found = false;
	for (int i; !found && s.states.count <= MOST_STATES && (i = cheapest(&s)) >= 0;) {
		s.states.items[i].done = true;
		if (memcmp(&s.states.items[i].at, &goal, sizeof(goal)) == 0)
			found = read_path(&s, i, out);
		else
			expand(&s, i, &goal);
	}
	if (!found && s.states.count > MOST_STATES)
		found = gather_and_slice(&s, out);
	vec_release(&s.states);
	vec_release(&s.queue);
	hash_release(&s.table);
	return found;
}

/* --- nodes --- */

static const char *const reduce_names[] = { [PART_SUM] = "sum", [PART_MAX] = "max", [PART_MIN] = "min" };

struct node_id reshard_emit(struct graph *g, struct node_id x, const struct move *m, struct prov_id prov)
{
	struct attrs a = { 0 };
	struct type t = *graph_type(g, x);
	t.place = m->after;
	attrs_int(&a, ATTR_AXES, m->axes);
	if (m->op == OP_REDUCE_SCATTER || m->op == OP_ALL_REDUCE)
		attrs_string(&a, ATTR_REDUCE, reduce_names[m->reduce]);
	if (m->op == OP_REDUCE_SCATTER || m->op == OP_SHARD)
		attrs_int(&a, ATTR_DIM, m->to);
	if (m->op == OP_ALL_TO_ALL) {
		attrs_int(&a, ATTR_FROM, m->from);
		attrs_int(&a, ATTR_TO_DIM, m->to);
	}
	return graph_emit_typed(g, m->op, &x, 1, &a, &t, prov);
}
