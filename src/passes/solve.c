/*
 * solve: choose the cheapest placement of every value.
 *
 *     %x = input "x" : bf16[4096,4096] (tp:S(0))          %g = reshard %x {to=()} : … (tp:R)
 *     %w = param "w" : bf16[16384,4096] (tp:S(0))    =>   %h = matmul %g, %w … : … (tp:S(1))
 *     %h = matmul %x, %w {eq="mk,nk->mn"}
 *
 * For one mesh axis the labelling is an exact minimum of the cost model (solve_axis.c, machine.c) by
 * variable elimination.  Several axes: one after another, innermost first, on shapes that the others
 * divide and with what the others' moves cost then, and again until nothing changes; the cost never rises.
 * They begin twice: with nothing solved, and with each outer axis solved by itself.
 * Sources keep the placement written on their type (R where none is); `constrain` nodes pin values
 * and disappear.  P(sum) leaves an op only where its strategies say so; outputs are never P.
 *
 * Where matmuls will cast a value, it may be moved in fp8 (wire.h): the graph is solved with both prices,
 * and the answer that is cheaper after swap_fp8 and move_casts is kept.  On several axes, gathering
 * everything is an answer, too.
 *
 * stage global -> placed   needs canonical matmuls   numerics reorders (sums over shards)
 */
#include "solve.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SWEEPS 8

/* Before an axis is solved: sources as their types say, all else replicated. */
static void axis_init(struct solver *s, int axis)
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

static void labels_init(struct solver *s)
{
	for (int axis = 0; axis < s->mesh->count; axis++)
		axis_init(s, axis);
}

/* One axis, if it is not as the others want it. */
static enum fs_status turn(struct solver *s, int axis, bool *changed, struct diag *d)
{
	bool moved;
	uint64_t cost;
	if (s->mesh->axis[axis].size == 1 || !s->stale[axis])
		return FS_OK;
	TRY(solve_axis(s, axis, &cost, &moved, d));
	for (int other = 0; other < s->mesh->count; other++)
		s->stale[other] |= moved;
	s->stale[axis] = false;
	*changed |= moved;
	s->stats.cost = s->cost[axis] = cost;
	return FS_OK;
}

static enum fs_status sweep(struct solver *s, bool *changed, struct diag *d)
{
	*changed = false;
	for (int axis = s->mesh->count - 1; axis >= 0; axis--)
		TRY(turn(s, axis, changed, d));
	s->stats.sweeps++;
	return FS_OK;
}

static void all_stale(struct solver *s)
{
	for (int axis = 0; axis < s->mesh->count; axis++)
		s->stale[axis] = true;
}

/* Sweeps from labels that are there. */
static enum fs_status solve(struct solver *s, struct diag *d)
{
	bool changed = true;
	all_stale(s);
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

/* On the first `axes` of the mesh. */
static bool same_labels(const struct solver *a, const struct solver *b, int axes)
{
	size_t nodes = a->g->nodes.count, operands = a->g->operands.count, outputs = a->g->outputs.count;
	for (int i = 0; i < axes; i++) {
		const struct axis_labels *x = &a->axis[i], *y = &b->axis[i];
		if (memcmp(x->produced, y->produced, nodes) != 0 || memcmp(x->held, y->held, nodes) != 0 ||
		    memcmp(x->want, y->want, operands) != 0 || memcmp(x->want_output, y->want_output, outputs) != 0)
			return false;
	}
	return true;
}

/* What the program of these labels costs when all passes that change its moves are done; UINT64_MAX: it is none. */
static enum fs_status final_price(const struct solver *s, const struct compile *c, uint64_t *price, struct diag *d)
{
	struct compile trial = compile_trial(c); /* the report is of the plan that is kept */
	struct graph *g = solve_insert(s);
	struct diag none = { 0 };
	if (graph_verify(g, &none) != FS_OK) { /* axes that began alone may have met where no op allows them together */
		*price = UINT64_MAX;
		graph_destroy(g);
		return FS_OK;
	}
	enum fs_status status = pass_partition(&g, &trial, d);
	if (status == FS_OK)
		status = pass_wide_sums(&g, &trial, d);
	if (status == FS_OK)
		status = pass_swap_fp8(&g, &trial, d);
	if (status == FS_OK)
		status = pass_move_casts(&g, &trial, d);
	if (status == FS_OK)
		status = pass_bucket_amax(&g, &trial, d);
	if (status == FS_OK)
		*price = graph_price(s->machine, g);
	graph_destroy(g);
	compile_trial_release(&trial);
	return status;
}

/* --- answers, of which the one that is cheapest in the end is kept --- */

#define MOST_ANSWERS 3
struct answers {
	struct solver at[MOST_ANSWERS];
	uint64_t price[MOST_ANSWERS]; /* 0: not known yet */
	int count;
};

/* Another one, that begins with the labels of the first. */
static struct solver *add_answer(struct answers *a)
{
	const struct solver *first = &a->at[0];
	struct solver *s = &a->at[a->count];
	a->price[a->count++] = 0;
	arena_release(&s->arena); /* of one that was no other answer */
	*s = (struct solver){ .g = first->g, .mesh = first->mesh, .machine = first->machine, .reached = first->reached,
			      .exact = first->exact, .tag = first->tag, .forbidden = first->forbidden };
	labels_copy(s, first);
	return s;
}

/* Puts the cheapest answer first and forgets the others. */
static enum fs_status keep_cheapest(struct answers *a, const struct compile *c, struct diag *d)
{
	int best = 0;
	for (int i = 0; i < a->count && a->count > 1; i++) {
		if (a->price[i] == 0)
			TRY(final_price(&a->at[i], c, &a->price[i], d));
		if (a->price[i] < a->price[best])
			best = i;
	}
	struct solver first = a->at[0];
	a->at[0] = a->at[best];
	a->at[best] = first;
	a->price[0] = a->price[best];
	a->count = 1;
	return FS_OK;
}

static enum fs_status add_plain(struct answers *a, struct diag *d)
{
	struct solver *s = &a->at[a->count++];
	labels_init(s);
	return solve(s, d);
}

/* Each axis outside of `inner` as if there were no others. */
static enum fs_status solve_alone(struct solver *s, int inner, struct diag *d)
{
	struct axis_labels alone[MAX_AXES];
	bool changed = false;
	labels_init(s);
	all_stale(s);
	for (int axis = 0; axis < inner; axis++) {
		TRY(turn(s, axis, &changed, d));
		alone[axis] = s->axis[axis];
		axis_init(s, axis);
	}
	memcpy(s->axis, alone, sizeof(*alone) * (size_t)inner);
	return FS_OK;
}

static int innermost_axis(const struct mesh *m)
{
	int axis = m->count - 1;
	while (axis > 0 && m->axis[axis].size == 1)
		axis--;
	return axis;
}

/*
 * The first answer may rest where no axis gains by itself: the innermost one saw whole operands that the others
 * divide, moved the wrong one, and they did as suits that. Here each axis first sees what the others want by
 * themselves. Where they have that in the first answer, the innermost axis has it, too.
 */
static void add_alone(struct answers *a)
{
	int inner = innermost_axis(a->at[0].mesh);
	struct diag none = { 0 };
	if (inner <= 0)
		return;
	struct solver *s = add_answer(a);
	if (solve_alone(s, inner, &none) != FS_OK || same_labels(&a->at[0], s, inner) || solve(s, &none) != FS_OK ||
	    same_labels(&a->at[0], s, s->mesh->count))
		a->count--;
}

/* With the prices of fp8 codes, where values are cast. */
static enum fs_status add_wire(struct answers *a, const struct compile *c, struct diag *d)
{
	struct wires wires = wires_make(a->at[0].g, c, &a->at[0].arena);
	if (wires.value == NULL)
		return FS_OK;
	struct solver *s = add_answer(a);
	s->wires = wires;
	TRY(solve(s, d));
	a->count -= same_labels(&a->at[0], s, s->mesh->count);
	return FS_OK;
}

static void add_gathered(struct answers *a)
{
	uint64_t cost = 0;
	for (int axis = 0; axis < a->at[0].mesh->count; axis++)
		cost += a->at[0].cost[axis];
	if (solve_gathered_may_win(&a->at[0], 2 * cost) && /* nesting may cost more than the axes saw */
	    !solve_gathered(add_answer(a)))
		a->count--;
}

enum fs_status pass_solve(struct graph **g, struct compile *c, struct diag *d)
{
	struct answers a = { 0 };
	struct solver *first = &a.at[0];
	TRY(machine_find(c->target, &first->machine, d));
	bool *reached = graph_reached(*g);
	first->g = *g;
	first->mesh = context_mesh((*g)->context);
	first->exact = c->exact;
	first->tag = c->tag_moves;
	first->forbidden = c->forbidden;
	first->reached = reached;
	enum fs_status status = add_plain(&a, d);
	if (status == FS_OK)
		add_alone(&a);
	if (status == FS_OK)
		status = keep_cheapest(&a, c, d);
	if (status == FS_OK)
		status = add_wire(&a, c, d);
	if (status == FS_OK)
		add_gathered(&a);
	if (status == FS_OK)
		status = keep_cheapest(&a, c, d);
	if (status == FS_OK) {
		struct graph *placed = solve_insert(first);
		graph_destroy(*g);
		*g = placed;
		c->solved = first->stats;
	}
	for (int i = 0; i < MOST_ANSWERS; i++)
		arena_release(&a.at[i].arena);
	free(reached);
	return status;
}
