/*
 * move_casts: gather fp8 codes instead of high-precision values.
 *
 *     %g = all_gather %x {axis=tp}               %s  = … amax %x … (reduced over tp too)
 *     %s = … amax %g …                           %q  = fp8_cast %x, %s
 *     %q = fp8_cast %g, %s               =>      %qg = all_gather %q {axis=tp}
 *
 * Also over all_to_all.  Only where the scale does not depend on the move (one scale for the tensor;
 * row scales when no contracted dim moves: then 1/scale is gathered with the codes), and every user of
 * %g is the same cast or its amax: a user of another kind would mean two gathers.  A chain of moves
 * is passed one move at a time, innermost first.
 *
 * stage fp8   needs swap_fp8   numerics exact
 */
#include "wire.h"

#include <stdlib.h>
#include <string.h>

struct mover {
	const struct graph *g;
	struct uses uses;
	struct rebuild r;
	bool *output;          /* by old id: is one */
	struct node_id *moved; /* by old id: the move that this node now stands before; NODE_NONE: none */
};

static bool is_move(const struct graph *g, struct node_id n)
{
	return graph_op(g, n) == OP_ALL_GATHER || graph_op(g, n) == OP_ALL_TO_ALL;
}

static uint32_t user_count(const struct mover *m, struct node_id n)
{
	return m->uses.first[n.i + 1] - m->uses.first[n.i];
}

static struct node_id user(const struct mover *m, struct node_id n, uint32_t k)
{
	return m->uses.at[m->uses.first[n.i] + k];
}

/* The amax at the root of a cast's scale: scale <- [all_reduce] <- amax. */
static struct node_id amax_of(const struct graph *g, struct node_id cast)
{
	struct node_id n = graph_operand(g, cast, 1);
	if (graph_op(g, n) != OP_FP8_SCALE)
		return NODE_NONE;
	n = graph_operand(g, n, 0);
	if (graph_op(g, n) == OP_ALL_REDUCE)
		n = graph_operand(g, n, 0);
	return graph_op(g, n) == OP_AMAX ? n : NODE_NONE;
}

/* Dims of a value that a move changes, as a mask. */
static uint32_t dims_moved(const struct graph *g, struct node_id move)
{
	const struct placement *from = &graph_type(g, graph_operand(g, move, 0))->place;
	uint32_t axes = (uint32_t)graph_int(g, move, ATTR_AXES, 0), dims = 0;
	for (int i = 0; i < from->count; i++)
		if (from->at[i].kind == PART_SHARD && (axes >> from->at[i].axis & 1))
			dims |= 1u << from->at[i].dim;
	if (graph_op(g, move) == OP_ALL_TO_ALL)
		dims |= 1u << graph_int(g, move, ATTR_TO_DIM, 0);
	return dims;
}

/* One scale for the whole tensor, or no reduced dim moves and no shard keeps a scale of its own. */
static bool scale_survives(const struct graph *g, struct node_id move, struct node_id amax)
{
	if (graph_type(g, amax)->rank == 0)
		return true;
	if (shards_a_single(context_mesh(g->context), graph_type(g, graph_operand(g, move, 0))))
		return false;
	const int64_t *dims;
	uint32_t reduced = 0;
	for (int i = graph_ints(g, amax, ATTR_DIMS, &dims); i-- > 0;)
		reduced |= 1u << dims[i];
	return (dims_moved(g, move) & reduced) == 0;
}

/* The cast that may pass the move, or none. */
static struct node_id sole_cast(const struct mover *m, struct node_id move)
{
	const struct graph *g = m->g;
	struct node_id cast = NODE_NONE;
	if (m->output[move.i])
		return NODE_NONE;
	for (uint32_t k = 0; k < user_count(m, move); k++) {
		struct node_id u = user(m, move, k);
		if (graph_op(g, u) == OP_FP8_CAST && !node_is(cast) && node_same(graph_operand(g, u, 0), move))
			cast = u;
		else if (graph_op(g, u) != OP_AMAX)
			return NODE_NONE;
	}
	if (!node_is(cast))
		return NODE_NONE;
	struct node_id amax = amax_of(g, cast);
	bool own = node_is(amax) && node_same(graph_operand(g, amax, 0), move) && user_count(m, move) == 2;
	return own && scale_survives(g, move, amax) ? cast : NODE_NONE;
}

/* Marks the cast, its scale and what leads to it as standing before the move. */
static void mark(struct mover *m, struct node_id move, struct node_id cast)
{
	struct node_id scale = graph_operand(m->g, cast, 1);
	m->moved[move.i] = m->moved[cast.i] = m->moved[scale.i] = move;
	for (struct node_id n = graph_operand(m->g, scale, 0);; n = graph_operand(m->g, n, 0)) {
		m->moved[n.i] = move;
		if (graph_op(m->g, n) == OP_AMAX)
			return;
	}
}

/*
 * Where the move leaves x, which is the moved value or its row scales: on the move's axes as it says, on others
 * as x lies, which may be whole where the value is not (one scale for rows whose parts are sharded).
 */
static struct placement place_after(const struct mover *m, struct node_id move, const struct placement *x)
{
	const struct placement *after = &graph_type(m->g, move)->place;
	uint32_t axes = (uint32_t)graph_int(m->g, move, ATTR_AXES, 0);
	struct placement p = { 0 };
	for (int i = 0; i < after->count; i++)
		if ((axes >> after->at[i].axis & 1) || placement_find(x, after->at[i].axis) >= 0)
			placement_set(&p, after->at[i].axis, &after->at[i]);
	return p;
}

/* The move of the new graph, applied to a value that stands before it. */
static struct node_id redo(struct mover *m, struct node_id move, struct node_id x, struct prov_id prov)
{
	struct type t = *graph_type(m->r.to, x);
	struct attrs a;
	graph_attrs(m->g, move, &a);
	t.place = place_after(m, move, &t.place);
	return graph_emit_typed(m->r.to, graph_op(m->g, move), &x, 1, &a, &t, prov);
}

/* The same on row scales; a single scale stays. */
static struct node_id redo_factor(struct mover *m, struct node_id move, struct node_id x, struct prov_id prov)
{
	const struct type *t = graph_type(m->r.to, x);
	return t->rank == 0 ? x : redo(m, move, x, prov);
}

/* amax of the value before the move: partial over what shards its reduced dims there. */
static struct node_id move_amax(struct mover *m, struct node_id n)
{
	const struct graph *g = m->g;
	struct node_id x = m->r.map[graph_operand(g, n, 0).i];
	const struct type *xt = graph_type(m->r.to, x);
	struct type t = *graph_type(g, n);
	struct placement place = { 0 };
	struct attrs a;
	const int64_t *dims;
	uint32_t reduced = 0;
	for (int i = graph_ints(g, n, ATTR_DIMS, &dims); i-- > 0;)
		reduced |= 1u << dims[i];
	uint32_t scope = (uint32_t)graph_int(g, n, ATTR_SCOPE, 0);
	for (int i = 0; i < xt->place.count; i++) {
		struct part part = xt->place.at[i];
		if ((reduced >> part.dim & 1) && !(scope >> part.axis & 1))
			part = (struct part){ part.axis, PART_MAX, 0 };
		placement_set(&place, part.axis, &part);
	}
	t.place = place;
	graph_attrs(g, n, &a);
	return graph_emit_typed(m->r.to, OP_AMAX, &x, 1, &a, &t, graph_node(g, n)->prov);
}

/* All-reduces whatever is partial in the maximum. */
static struct node_id reduce_amax(struct mover *m, struct node_id amax, struct prov_id prov)
{
	struct type t = *graph_type(m->r.to, amax);
	uint32_t axes = 0;
	for (int i = t.place.count; i-- > 0;)
		if (t.place.at[i].kind == PART_MAX) {
			axes |= 1u << t.place.at[i].axis;
			placement_set(&t.place, t.place.at[i].axis, NULL);
		}
	if (axes == 0)
		return amax;
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_AXES, axes);
	attrs_string(&a, ATTR_REDUCE, "max");
	return graph_emit_typed(m->r.to, OP_ALL_REDUCE, &amax, 1, &a, &t, prov);
}

static struct node_id emit_as(struct mover *m, struct node_id n, const struct node_id *in)
{
	const struct graph *g = m->g;
	struct type t = *graph_type(g, n);
	struct attrs a;
	graph_attrs(g, n, &a);
	t.place = graph_type(m->r.to, in[0])->place;
	return graph_emit_typed(m->r.to, graph_op(g, n), in, graph_node(g, n)->count, &a, &t, graph_node(g, n)->prov);
}

/* A node that stands before a move now. */
static struct node_id move_node(struct mover *m, struct node_id n)
{
	const struct graph *g = m->g;
	struct node_id move = m->moved[n.i], x = m->r.map[graph_operand(g, n, 0).i];
	switch (graph_op(g, n)) {
	case OP_AMAX:
		return reduce_amax(m, move_amax(m, n), graph_node(g, n)->prov);
	case OP_ALL_REDUCE:
		return x; /* the amax was reduced over all its axes */
	case OP_FP8_SCALE:
		return emit_as(m, n, &x);
	case OP_FP8_CAST: {
		struct node_id in[2] = { x, m->r.map[graph_operand(g, n, 1).i] };
		return redo(m, move, emit_as(m, n, in), graph_node(g, move)->prov);
	}
	default:
		return x; /* the move itself */
	}
}

/* A user of a moved scale (1/scale): computed before the move, then moved with the codes. */
static struct node_id scale_user(struct mover *m, struct node_id n)
{
	struct node_id move = m->moved[graph_operand(m->g, n, 0).i], x = m->r.map[graph_operand(m->g, n, 0).i];
	return redo_factor(m, move, emit_as(m, n, &x), graph_node(m->g, move)->prov);
}

static struct node_id rebuild_node(struct mover *m, struct node_id n)
{
	const struct graph *g = m->g;
	if (node_is(m->moved[n.i]))
		return move_node(m, n);
	if (graph_op(g, n) == OP_RECIPROCAL && graph_op(g, graph_operand(g, n, 0)) == OP_FP8_SCALE &&
	    node_is(m->moved[graph_operand(g, n, 0).i]))
		return scale_user(m, n);
	return rebuild_copy(&m->r, n);
}

/* Are all users of the scale its casts and reciprocals? Others would see it unmoved. */
static bool scale_is_private(const struct mover *m, struct node_id cast)
{
	struct node_id scale = graph_operand(m->g, cast, 1);
	for (uint32_t k = 0; k < user_count(m, scale); k++) {
		struct node_id u = user(m, scale, k);
		if (!node_same(u, cast) && graph_op(m->g, u) != OP_RECIPROCAL)
			return false;
	}
	return true;
}

static bool pass_once(struct graph **g)
{
	struct mover m = { .g = *g, .uses = uses_make(*g) };
	bool any = false;
	m.moved = calloc((*g)->nodes.count, sizeof(*m.moved));
	m.output = calloc((*g)->nodes.count, sizeof(*m.output));
	if (m.moved == NULL || m.output == NULL)
		BUG("out of memory");
	for (uint32_t i = 0; i < (*g)->outputs.count; i++)
		m.output[(*g)->outputs.items[i].value.i] = true;
	for (uint32_t i = 1; i < (*g)->nodes.count; i++) {
		struct node_id n = { i }, cast = is_move(*g, n) ? sole_cast(&m, n) : NODE_NONE;
		if (!node_is(cast) || !scale_is_private(&m, cast))
			continue;
		mark(&m, n, cast);
		any = true;
	}
	if (any) {
		rebuild_init(&m.r, *g, (*g)->stage, "move_casts");
		for (uint32_t i = 1; i < (*g)->nodes.count; i++)
			if (m.r.reached[i])
				m.r.map[i] = rebuild_node(&m, (struct node_id){ i });
		rebuild_finish(&m.r, g);
	}
	uses_release(&m.uses);
	free(m.moved);
	free(m.output);
	return any;
}

/* --- what is said of those that stay --- */

/* Is the move taken by a cast, and by another or by the gradient of a weight in high precision? */
static bool cast_in_several_ways(const struct graph *g, const struct uses *uses, struct node_id move)
{
	int casts = 0, high = 0;
	for (uint32_t k = uses->first[move.i]; k < uses->first[move.i + 1]; k++) {
		struct node_id u = uses->at[k];
		const char *role = graph_op(g, u) == OP_MATMUL ? graph_string(g, u, ATTR_ROLE) : NULL;
		casts += graph_op(g, u) == OP_FP8_CAST;
		high += role != NULL && strcmp(role, product_role_text(PRODUCT_GRAD_WEIGHT)) == 0;
	}
	return casts > 1 || (casts == 1 && high > 0);
}

static const char *moved_name(const struct graph *g, struct node_id move)
{
	struct node_id x = graph_operand(g, move, 0);
	const char *name = op_is_source(graph_op(g, x)) ? graph_string(g, x, ATTR_NAME) : graph_prov(g, x)->node;
	return name != NULL ? name : "?";
}

#define MAX_NAMED 4

static void note_several(const struct graph *g, struct compile *c)
{
	struct arena *arena = context_arena(g->context);
	struct uses uses = uses_make(g);
	bool *reached = graph_reached(g);
	const char *names = "";
	int count = 0;
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (!reached[i] || !is_move(g, n) || !cast_in_several_ways(g, &uses, n))
			continue;
		if (count++ < MAX_NAMED)
			names = arena_printf(arena, "%s%s%s", names, count > 1 ? ", " : "", moved_name(g, n));
	}
	if (count > 0)
		*vec_push(&c->notes) = arena_printf(arena, "%d value%s gathered once in high precision, as products cast %s in several ways "
					     "(docs/numerics.md): %s%s", count, count == 1 ? " is" : "s are", count == 1 ? "it" : "them",
					     names, count > MAX_NAMED ? ", ..." : "");
	free(reached);
	uses_release(&uses);
}

enum fs_status pass_move_casts(struct graph **g, struct compile *c, struct diag *d)
{
	(void)d;
	for (int i = 0; i < MAX_AXES && pass_once(g); i++)
		;
	note_several(*g, c);
	return FS_OK;
}
