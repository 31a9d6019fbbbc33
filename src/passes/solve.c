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
 * Where matmuls will cast a value, it may be moved in fp8 (wire.h): the graph is solved with both prices,
 * and the answer that is cheaper after swap_fp8 and move_casts is kept.
 *
 * stage global -> placed   needs canonical matmuls   numerics reorders (sums over shards)
 */
#include "solve.h"

#include <stdlib.h>
#include <string.h>

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
		if (s->mesh->axis[axis].size == 1 || !s->stale[axis])
			continue;
		TRY(solve_axis(s, axis, &cost, &moved, d));
		for (int other = 0; other < s->mesh->count; other++)
			s->stale[other] |= moved;
		s->stale[axis] = false;
		*changed |= moved;
		s->stats.cost = cost;
	}
	s->stats.sweeps++;
	return FS_OK;
}

/* Sweeps from labels that are there. */
static enum fs_status solve(struct solver *s, struct diag *d)
{
	bool changed = true;
	for (int axis = 0; axis < s->mesh->count; axis++)
		s->stale[axis] = true;
	while (changed && s->stats.sweeps < MAX_SWEEPS) {
		TRY(sweep(s, &changed, d));
		changed &= s->mesh->count > 1;
	}
	return FS_OK;
}

/* Labels of another solver, to begin with. */
static void labels_copy(struct solver *s, const struct solver *from)
{
	const struct graph *g = s->g;
	for (int axis = 0; axis < s->mesh->count; axis++) {
		const struct axis_labels *l = &from->axis[axis];
		s->axis[axis].produced = arena_copy(&s->arena, l->produced, g->nodes.count);
		s->axis[axis].held = arena_copy(&s->arena, l->held, g->nodes.count);
		s->axis[axis].want = arena_copy(&s->arena, l->want, g->operands.count + 1);
		s->axis[axis].want_output = arena_copy(&s->arena, l->want_output, g->outputs.count + 1);
	}
}

static bool same_labels(const struct solver *a, const struct solver *b)
{
	size_t nodes = a->g->nodes.count, operands = a->g->operands.count, outputs = a->g->outputs.count;
	for (int i = 0; i < a->mesh->count; i++) {
		const struct axis_labels *x = &a->axis[i], *y = &b->axis[i];
		if (memcmp(x->produced, y->produced, nodes) != 0 || memcmp(x->held, y->held, nodes) != 0 ||
		    memcmp(x->want, y->want, operands) != 0 || memcmp(x->want_output, y->want_output, outputs) != 0)
			return false;
	}
	return true;
}

/* What the program of these labels costs when all passes that change its moves are done. */
static enum fs_status final_price(const struct solver *s, const struct compile *c, uint64_t *price, struct diag *d)
{
	struct compile trial = *c;
	struct graph *g = solve_insert(s);
	trial.matmuls.items = NULL; /* the report is of the plan that is kept */
	trial.matmuls.count = 0;
	enum fs_status status = pass_partition(&g, &trial, d);
	if (status == FS_OK)
		status = pass_swap_fp8(&g, &trial, d);
	if (status == FS_OK)
		status = pass_move_casts(&g, &trial, d);
	if (status == FS_OK)
		status = pass_bucket_amax(&g, &trial, d);
	if (status == FS_OK)
		*price = graph_price(s->machine, g);
	graph_destroy(g);
	return status;
}

/* Solves again with the prices of fp8 codes; *better: that answer is the cheaper one in the end. */
static enum fs_status solve_wire(const struct solver *plain, struct solver *wire, const struct compile *c, bool *better,
				 struct diag *d)
{
	uint64_t price[2];
	wire->wires = wires_make(plain->g, c, &wire->arena);
	*better = false;
	if (wire->wires.value == NULL)
		return FS_OK;
	labels_copy(wire, plain);
	TRY(solve(wire, d));
	if (same_labels(plain, wire))
		return FS_OK;
	TRY(final_price(plain, c, &price[0], d));
	TRY(final_price(wire, c, &price[1], d));
	*better = price[1] < price[0];
	return FS_OK;
}

enum fs_status pass_solve(struct graph **g, struct compile *c, struct diag *d)
{
	struct solver plain = { .g = *g, .mesh = context_mesh((*g)->context), .exact = c->exact }, wire;
	bool better = false;
	TRY(machine_find(c->target, &plain.machine, d));
	bool *reached = graph_reached(*g);
	plain.reached = reached;
	wire = plain;
	for (int axis = 0; axis < plain.mesh->count; axis++)
		labels_init(&plain, axis);
	enum fs_status status = solve(&plain, d);
	if (status == FS_OK)
		status = solve_wire(&plain, &wire, c, &better, d);
	if (status == FS_OK) {
		const struct solver *best = better ? &wire : &plain;
		struct graph *placed = solve_insert(best);
		graph_destroy(*g);
		*g = placed;
		c->solved = best->stats;
	}
	arena_release(&plain.arena);
	arena_release(&wire.arena);
	free(reached);
	return status;
}
