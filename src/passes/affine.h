/*
 * What is known of integer and bool values from the way in which they are computed, without
 * computing them: integers that are affine in their coordinates, bools that are a conjunction of
 * conditions on such integers.  Enough for positions and for the masks made from them, at any size.
 */
#ifndef FS_AFFINE_H
#define FS_AFFINE_H

#include "ir.h"

/* base + the sum of step[d] * coordinate d.  The step of a dim of size 1 is 0. */
struct affine { int64_t base, step[MAX_RANK]; };

enum relation { AT_MOST_0, EQUALS_0, DIFFERS_0 };
struct condition { enum relation is; struct affine of; };
#define MAX_CONDITIONS 4

/* Of an integer: `value`.  Of a bool: never true, or true where all conditions hold (none: always). */
struct form {
	bool boolean, never;
	int count;
	struct affine value;
	struct condition at[MAX_CONDITIONS];
};

/* Forms of the nodes of a growing graph, found as they are asked for. */
struct affine_table {
	struct arena arena;
	VEC(const struct form *) forms;
};
void affine_release(struct affine_table *t);

/* NULL: nothing is known. */
const struct form *affine_form(struct affine_table *t, const struct graph *g, struct node_id n);
/* Is it the same everywhere? */
bool form_constant(const struct form *f, int64_t *out);
/* Is a mask [.., T, S] true just where key j <= query i? */
bool form_is_causal(const struct form *f, int rank);
/* The form of "not f"; false: it has none. */
bool form_not(const struct form *f, struct form *out);

/*
 * Of an index or gather: the coordinates in x, of rank map's length, as affine functions of the
 * result's; false: not known, or perhaps out of range.
 */
bool affine_index_map(struct affine_table *t, const struct graph *g, struct node_id n, struct affine map[MAX_RANK]);

#endif
