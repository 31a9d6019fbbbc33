/*
 * The executor: one rank's run of a plan.  Everything that depends on the rank (shapes, strides,
 * offsets, what a collective packs) is resolved once, by exec_create; a step is then a walk over an
 * array of instructions and transfers.
 *
 * An exec belongs to one thread at a time.  Calls marked "collective" are made by all ranks of the
 * world in the same order; after an error on one of them only comm_abort() and exec_destroy() may
 * follow on that rank.
 */
#ifndef FS_EXEC_H
#define FS_EXEC_H

#include "backend.h"
#include "comm.h"
#include "plan.h"

/*
 * EXEC_HIGH: fp8 casts give back their operand and scaled products are plain ones, so that values
 * that hold codes in the plan hold what was cast.  EXEC_WIDE: the same, and every bf16 and f16 value
 * is f32.  Both need `keep`.
 */
enum exec_numerics { EXEC_PLAN, EXEC_HIGH, EXEC_WIDE };

struct exec;

struct exec_options {
	const struct backend_ops *backend; /* NULL: cpu_backend */
	struct comm *world;                /* borrowed; NULL: one rank */
	enum exec_numerics numerics;
	bool keep;                         /* every value in memory of its own, all there after a step */
	const struct mesh *blocks;         /* plan_on_one_rank(): the mesh whose shards have scales of their own */
	/* Called after each node that computes something (not: views). */
	enum fs_status (*after)(void *context, struct exec *e, struct node_id n, struct diag *d);
	void *context;
};

/* Collective.  The plan is borrowed, verified by the caller, and must match the world's size. */
enum fs_status exec_create(const struct plan *p, const struct exec_options *o, struct exec **out, struct diag *d);
void exec_destroy(struct exec *e); /* NULL is fine */

/* Bytes that this rank's exec asks of its backend. */
int64_t exec_memory(const struct exec *e);

/* The same program on a mesh with the same axes, all of size 1. */
enum fs_status plan_on_one_rank(const struct plan *p, struct plan **out, struct diag *d);

/* --- values --- */

/* The box of the whole tensor that this rank holds. */
struct box { int64_t start[MAX_RANK], size[MAX_RANK]; };
void exec_box(const struct exec *e, struct node_id n, struct box *out);
/* True where this rank speaks for its box: of the ranks that hold a copy it is the first. Partial values have no copies. */
bool exec_owns(const struct exec *e, struct node_id n);
enum dtype exec_dtype(const struct exec *e, struct node_id n); /* as stored here: see enum exec_numerics */
/* The local part, from or to host memory: dense, row-major, of type `t` and converted where they differ. */
enum fs_status exec_store(struct exec *e, struct node_id n, enum dtype t, const void *from, struct diag *d);
enum fs_status exec_load(struct exec *e, struct node_id n, enum dtype t, void *to, struct diag *d);
const struct view *exec_view(const struct exec *e, struct node_id n);
const struct type *exec_type(const struct exec *e, struct node_id n);
const int32_t *exec_coord(const struct exec *e);

/* --- running; parameters are stored before setup, inputs before a step.  Collective. --- */

enum fs_status exec_setup(struct exec *e, struct diag *d);
/* Outputs (and with them what they say of buffers) are there until the next step begins. */
enum fs_status exec_step(struct exec *e, struct diag *d);

/* The last step has not been: what it says of buffers is not taken over. */
void exec_discard(struct exec *e);

uint64_t exec_bytes_sent(const struct exec *e); /* by this rank, in all steps */

#endif
