/* What the files of the placement solver share (solve.c, solve_*.c). */
#ifndef FS_SOLVE_H
#define FS_SOLVE_H

#include "wire.h"

/*
 * Labels of one mesh axis.  A value is produced under one label and, where it has several users, may
 * also be held under another, so that one gather serves them all (held == produced: no second copy).
 * An op wants each operand under a label of its strategy.
 */
struct axis_labels {
	label *produced, *held; /* by node id */
	label *want;            /* by place in graph.operands */
	label *want_output;     /* by output */
};

struct solver {
	const struct graph *g;
	const struct mesh *mesh;
	const struct machine *machine;
	const bool *reached;
	bool exact, tag;
	struct forbidden forbidden;
	struct wires wires; /* empty: every move is of the value itself */
	struct axis_labels axis[MAX_AXES];
	bool stale[MAX_AXES]; /* labels of another axis have changed since this one was solved */
	uint64_t cost[MAX_AXES]; /* of the labels, as each axis sees them */
	uint32_t blocks[MAX_AXES]; /* that the axis was too wide to be solved without; 0: it was not */
	struct arena arena;
	struct solve_stats stats;
};

/* Is the value, made under `produced` on this axis, not to be taken under `to`? */
static inline bool is_forbidden(const struct solver *s, struct node_id n, int axis, label produced, label to)
{
	const struct forbidden *f = &s->forbidden;
	for (int i = 0; i < f->count; i++)
		if (node_same(n, f->at[i].value) && axis == f->at[i].axis && to == f->at[i].label && produced != to)
			return true;
	return false;
}

/*
 * Labels all values for one axis, the other axes held as they are: the exact minimum. Where that is too wide, no more
 * than what the labels at hand cost.
 */
enum fs_status solve_axis(struct solver *s, int axis, uint64_t *cost, bool *changed, struct diag *d);

/*
 * solve_gathered.c: every operand whole, labels are there already.  False: a hard parameter may not be gathered.
 * Can that cost less than `cost`?  On several axes alone, and not where the ops by themselves take longer.
 */
bool solve_gathered(struct solver *s);
bool solve_gathered_may_win(const struct solver *s, uint64_t cost);

/* The placed graph that the labels mean: placements on all types, reshards where they differ. */
struct graph *solve_insert(const struct solver *s);

#endif
