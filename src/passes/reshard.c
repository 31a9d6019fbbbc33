/* Dijkstra over placements: a few dozen states at most, so the queue is an array. */
#include "reshard.h"

#include <string.h>

struct state {
	struct placement at;
	uint64_t price;
	int before;       /* state it was reached from, -1: the start */
	struct move move; /* how */
	bool done;
};

struct search {
	const struct machine *machine;
	const struct mesh *mesh;
	const struct type *type;
	const struct wire *wire;
	const struct placement *goal;
	VEC(struct state) states;
};

static int find_state(struct search *s, const struct placement *p)
{
	for (uint32_t i = 0; i < s->states.count; i++)
		if (memcmp(&s->states.items[i].at, p, sizeof(*p)) == 0)
			return (int)i;
	struct state *made = vec_push(&s->states);
	made->at = *p;
	made->price = PRICE_INF;
	made->before = -1;
	return (int)s->states.count - 1;
}

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
	if (s->wire->recipe == NULL || placement_has_partial(here))
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

static int cheapest(const struct search *s)
{
	int best = -1;
	for (uint32_t i = 0; i < s->states.count; i++)
		if (!s->states.items[i].done && s->states.items[i].price < PRICE_INF &&
		    (best < 0 || s->states.items[i].price < s->states.items[best].price))
			best = (int)i;
	return best;
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

bool reshard_path(const struct machine *m, const struct mesh *mesh, const struct type *t, const struct wire *wire,
		  const struct placement *from, const struct placement *to, struct reshard_path *out)
{
	struct placement start = *from, goal = *to;
	struct search s = { .machine = m, .mesh = mesh, .type = t, .wire = wire, .goal = &goal };
	placement_canonical(&start);
	placement_canonical(&goal);
	int first = find_state(&s, &start);
	s.states.items[first].price = 0;
	bool found = false;
	for (int i; !found && (i = cheapest(&s)) >= 0;) {
		s.states.items[i].done = true;
		if (memcmp(&s.states.items[i].at, &goal, sizeof(goal)) == 0)
			found = read_path(&s, i, out);
		else
			expand(&s, i, &goal);
	}
	vec_release(&s.states);
	return found;
}
