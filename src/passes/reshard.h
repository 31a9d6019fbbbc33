/* The cheapest way from one placement of a value to another. */
#ifndef FS_RESHARD_H
#define FS_RESHARD_H

#include "wire.h"

/* One collective, or a slice by rank. */
struct move {
	enum op op;            /* ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, ALL_TO_ALL, SHARD */
	uint32_t axes;         /* bit mask */
	uint8_t from, to;      /* dims, where the op has them */
	uint8_t reduce;        /* PART_SUM ..., of reductions */
	struct placement after;
};

#define MAX_MOVES 16

struct reshard_path { int count; struct move move[MAX_MOVES]; uint64_t price; };

/*
 * Shortest path (Dijkstra) over the placements of a value of type `t` (t->place is not read).  Moves
 * act on the innermost axes of a dim; reductions and gathers may take several axes at once; slices are
 * as the goal has them.  Where there are too many placements to search (five axes and more), the path is to
 * gather what differs and slice.  False: there is none (to P, or from one P to another).  `wire`: how
 * all users of the goal cast it.
 */
bool reshard_path(const struct machine *m, const struct mesh *mesh, const struct type *t, const struct wire *wire,
		  const struct placement *from, const struct placement *to, struct reshard_path *out);

/* The node of one move of x, in a graph of stage local or fp8. */
struct node_id reshard_emit(struct graph *g, struct node_id x, const struct move *m, struct prov_id prov);

#endif
