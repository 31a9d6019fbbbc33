/*
 * What the best plan without one of its moves would cost: placement solved again with that forbidden.
 *
 * "Without" is: no user takes the moved value under the label that the move gives it on one of its axes,
 * unless an op makes it so; of several axes, the one that is cheapest to do without.  A plan with collectives of the
 * same kinds and bytes, of a value one op before or behind, is the same choice: that is forbidden, too.  On a mesh of one axis the
 * answer is the exact minimum of the cost model, on several it is what the solver's sweeps find.
 */
#ifndef FS_NEXT_BEST_H
#define FS_NEXT_BEST_H

#include "machine.h"
#include "passes.h"

/* Of setup and one step: time of all ops and collectives in picoseconds, bytes that a rank sends. */
struct plan_price { uint64_t time; int64_t bytes; };

struct search {
	const struct graph *g;       /* what solve takes; borrowed */
	const struct compile *c;     /* borrowed */
	const struct machine *machine;
	struct graph *best;          /* what the passes make of it, moves tagged */
	node_list collectives;       /* of best, in order: as in the plan */
	struct plan_price price;     /* of best */
};

enum fs_status search_start(struct search *s, const struct graph *g, const struct compile *c, struct diag *d);
void search_release(struct search *s);

struct next_best {
	enum next_kind {
		NEXT_FOUND,
		NEXT_FORCED,      /* no placement does without */
		NEXT_ON_THE_WAY,  /* the value ends up as it was made on these axes: others of the same dim moved */
		NEXT_NOT_PLACED,  /* the collective is not placement's: amaxes of fp8 */
	} kind;
	const char *without;      /* "x as (tp:R)": what is done without; in the arena, as the strings below */
	struct plan_price price;  /* of the whole plan */
	int instead, more;        /* collectives that it has and the best has not: those named, and others */
	const char *move[3];
};

/* Of the k-th collective. */
enum fs_status search_next(const struct search *s, uint32_t k, struct arena *a, struct next_best *out, struct diag *d);

#endif
