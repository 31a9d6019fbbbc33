/* What a run of a plan takes, from a table of rates: nothing is run, no weights are read. */
#ifndef FS_ESTIMATE_H
#define FS_ESTIMATE_H

#include "plan.h"
#include "rates.h"

/* Where ranks lie: the last axis fastest, as many on each node. */
struct node_layout {
	int64_t nodes, node_ranks;
	int64_t across[MAX_AXES]; /* of an axis: so many nodes (its size: no two of its ranks share one) */
};

/* nodes 0: as few as hold no more ranks than the machine's have, and split the mesh evenly. */
enum fs_status layout_nodes(const struct mesh *m, const struct rates *r, int64_t nodes, struct node_layout *out, struct diag *d);
/* The ranks that a collective over these axes (bit mask) joins. */
struct group layout_group(const struct mesh *m, const struct node_layout *l, uint32_t axes);

enum work {
	WORK_FP8, WORK_HALF, WORK_SINGLE, /* products, by their operands: enum number */
	WORK_ATTENTION,
	WORK_SCALING,                     /* amaxes, scales, casts to fp8 */
	WORK_OTHER,
	WORK_COUNT
};
const char *work_text(enum work w);

struct amount { int64_t count; double flops, bytes, seconds; }; /* of a rank; bytes: of its memory, or sent */
struct moved { enum op op; uint32_t axes; struct group group; struct amount amount; };

struct estimate_section {
	struct amount work[WORK_COUNT];
	VEC(struct moved) moves;   /* by kind and axes */
	double launches;           /* seconds */
	double compute, collective; /* sums: of work and launches, of moves */
	double beside;             /* seconds from start to end if collectives ran beside the compute */
	double at_peak;            /* of products at the data sheet's rates */
	int64_t arena;             /* bytes */
};

struct estimate {
	const struct rates *rates;
	struct node_layout layout;
	struct estimate_section setup, step; /* setup: once, when the weights are there */
	int64_t params, state, given, workspace; /* bytes of a rank; given: inputs and constants */
};

/* Of the rank with the largest shards.  Time is linear in the plan's nodes, and the same for any number of ranks. */
void estimate_plan(const struct plan *p, const struct rates *r, const struct node_layout *l, struct estimate *out);
void estimate_release(struct estimate *e);

/* All memory of a rank, in bytes. */
int64_t estimate_memory(const struct estimate *e);

#endif
