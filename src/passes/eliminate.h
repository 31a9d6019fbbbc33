/*
 * The exact solver core: labels for variables, so that a sum of cost tables is smallest.
 *
 * It knows nothing of graphs and placements.  A variable has labels 0 .. n-1; a factor is a table
 * of costs over the labels of a few variables.  One variable after another is eliminated (the
 * tables that hold it become one table of their minimum over it), the cheapest elimination first;
 * the walk back reads the labels off.  Time and memory are linear in the cells of all
 * eliminations, which for chains of layers means linear in layers.
 *
 * Deterministic: integers only, ties in the order go to the lower variable, ties in cost to the
 * lower label (of a variable, given the labels of those eliminated after it).
 */
#ifndef FS_ELIMINATE_H
#define FS_ELIMINATE_H

#include "base.h"

/* "Not allowed".  No cost may be above it; sums saturate at it (2^60 ps are 13 days). */
#define ELIM_INF ((uint64_t)1 << 60)
/* The largest cap for the cells of one elimination. */
#define ELIM_CELLS_MAX ((uint64_t)1 << 40)

static inline uint64_t elim_add(uint64_t a, uint64_t b)
{
	return a + b < ELIM_INF ? a + b : ELIM_INF;
}

struct factor {
	uint32_t first, arity; /* its variables, in `scopes` */
	const uint64_t *cost;
};

/* {0} is the empty graph. */
struct factor_graph {
	VEC(uint32_t) labels; /* of each variable, how many */
	VEC(struct factor) factors;
	VEC(uint32_t) scopes;
};

/* A new variable with so many labels (one or more); variables are numbered from 0. */
uint32_t factor_graph_variable(struct factor_graph *fg, uint32_t labels);
/*
 * Adds cost[l0][l1]...: row-major, the last variable of `scope` fastest, each entry <= ELIM_INF.
 * The table is borrowed until the last solve and may serve many factors.  A variable that stands
 * in `scope` twice reads the diagonal.
 */
void factor_graph_add(struct factor_graph *fg, uint32_t arity, const uint32_t *scope,
		      const uint64_t *cost);
void factor_graph_release(struct factor_graph *fg);
/* The sum of all factors at these labels, saturated. */
uint64_t factor_graph_cost(const struct factor_graph *fg, const uint32_t *pick);

enum elim_status {
	ELIM_OK,
	ELIM_INFEASIBLE, /* every labelling costs ELIM_INF */
	ELIM_TOO_WIDE,   /* the next elimination would take more than max_cells */
};

struct elim_result {
	uint64_t cost;   /* ELIM_OK: the minimum, all factors counted */
	uint64_t cells;  /* of all eliminations together */
	uint64_t widest; /* of the largest one; ELIM_TOO_WIDE: of the one refused (at least) */
	uint32_t width;  /* and its variables */
	uint32_t blocks; /* eliminate_blocks: how many it took */
	uint32_t where;  /* not ELIM_OK: the variable at which it ended */
};

/*
 * The minimum over all labellings.  pick: one label per variable, written only on ELIM_OK.
 * max_cells <= ELIM_CELLS_MAX bounds the cells (labels of the variable times those of its
 * neighbours) of each elimination; labels that are fixed or pruned do not count.
 */
enum elim_status eliminate(const struct factor_graph *fg, uint64_t max_cells, uint32_t *pick,
			   struct elim_result *result);
/*
 * The same over the variables with `free`; the others keep the label in `pick`, which is the
 * start and the result.  From a feasible pick the cost never rises: block coordinate descent.
 */
enum elim_status eliminate_given(const struct factor_graph *fg, const bool *free,
				 uint64_t max_cells, uint32_t *pick, struct elim_result *result);
/*
 * For graphs that are too wide: exact in blocks of neighbouring variables, each given the others,
 * until no block can lower the cost; `fewest` blocks (2 at the least) or more.  Variables should be numbered
 * along the graph.  begun: pick holds labels to begin with, of a cost below ELIM_INF; it never rises.
 */
enum elim_status eliminate_blocks(const struct factor_graph *fg, uint64_t max_cells, uint32_t fewest, bool begun,
				  uint32_t *pick, struct elim_result *result);

#endif
