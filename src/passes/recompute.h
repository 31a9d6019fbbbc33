/*
 * Recomputation: the backward of a block computes the block's forward once more, from what came into it,
 * so that nothing inside it is kept till then.
 */
#ifndef FS_RECOMPUTE_H
#define FS_RECOMPUTE_H

#include "pattern.h"
#include "vjp.h"

#define RECOMPUTE_BLOCKS "block" /* modules whose name ends with a number: layers.3 */

struct recompute {
	struct graph *g;
	VEC(uint32_t) nodes;       /* of all blocks, block by block */
	VEC(uint32_t) first;       /* of each block, in nodes; one more */
	uint32_t *block;           /* by node: number of its block, from 1; 0: none */
	struct node_id *again;     /* by node: its second value */
	bool *done;                /* by block */
};

/*
 * Finds the blocks: modules that match `pattern` (or end with a number), outermost ones, of nodes below
 * `forward`; of these the first `most` (-1: all) are recomputed.  FS_INVALID where no module matches.
 */
enum fs_status recompute_init(struct recompute *r, struct graph *g, uint32_t forward, const char *pattern, int most,
			      int *found, struct diag *d);
/* Before the backward of v->n: emits its block again, if that was not done, and sets v->again. */
void recompute_for(struct recompute *r, struct vjp *v);
void recompute_release(struct recompute *r);

#endif
