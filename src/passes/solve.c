/*
 * solve: choose the cheapest placement of every value.
 *
 *     %x = input "x" : bf16[4096,4096] (tp:S(0))          %g = reshard %x {to=()} : … (tp:R)
 *     %w = param "w" : bf16[16384,4096] (tp:S(0))    =>   %h = matmul %g, %w … : … (tp:S(1))
 *     %h = matmul %x, %w {eq="mk,nk->mn"}
 *
 * For one mesh axis the labelling is an exact minimum of the cost model (solve_axis.c, machine.c) by
 * variable elimination.  Several axes: one after another, innermost first, on shapes that the others
 * divide, and again until nothing changes; the cost never rises.
 * Sources keep the placement written on their type (R where none is); `constrain` nodes pin values
 * and disappear.  P(sum) leaves an op only where its strategies say so; outputs are never P.
 *
 * stage global -> placed   needs canonical matmuls   numerics reorders (sums over shards)
 */
#include "solve.h"

#include <stdlib.h>

#define MAX_SWEEPS 8

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

/* Before an axis is solved: sources as their types say, all else replicated. */
static void labels_init(struct solver *s, int axis)
{
	const struct graph *g = s->g;
	struct axis_labels *l = &s->axis[axis];
	l->produced = arena_alloc(&s->arena, g->nodes.count);
	l->held = arena_alloc(&s->arena, g->nodes.count);
	l->want = arena_alloc(&s->arena, g->operands.count + 1);
	l->want_output = arena_alloc(&s->arena, g->outputs.count + 1);
	if (s->mesh->axis[axis].size == 1)
		return; /* S and P of one rank are R */
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (op_is_source((enum op)g->nodes.items[i].op))
			l->produced[i] = l->held[i] = label_of(&graph_type(g, (struct node_id){ i })->place, axis);
}

static enum fs_status sweep(struct solver *s, bool *changed, struct diag *d)
{
	*changed = false;
	for (int axis = s->mesh->count - 1; axis >= 0; axis--) {
		bool moved;
		uint64_t cost;
		if (s->mesh->axis[axis].size == 1)
			continue;
		TRY(solve_axis(s, axis, &cost, &moved, d));
		*changed |= moved;
		s->stats.cost = cost;
	}
	s->stats.sweeps++;
	return FS_OK;
}

static enum fs_status solve(struct solver *s, struct diag *d)
{
	for (int axis = 0; axis < s->mesh->count; axis++)
		labels_init(s, axis);
	bool changed = true;
	while (changed && s->stats.sweeps < MAX_SWEEPS) {
		TRY(sweep(s, &changed, d));
		changed &= s->mesh->count > 1;
	}
	return FS_OK;
}

enum fs_status pass_solve(struct graph **g, struct compile *c, struct diag *d)
{
	struct solver s = { .g = *g, .mesh = context_mesh((*g)->context), .exact = c->exact };
	TRY(machine_find(c->target, &s.machine, d));
	bool *reached = graph_reached(*g);
	s.reached = reached;
	enum fs_status status = solve(&s, d);
	if (status == FS_OK) {
		struct graph *placed = solve_insert(&s);
		graph_destroy(*g);
		*g = placed;
		c->solved = s.stats;
	}
	arena_release(&s.arena);
	free(reached);
	return status;
}
