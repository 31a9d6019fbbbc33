/*
 * Communicators: what ranks say to each other.  One vtable for threads (comm_threads.c), and later
 * MPI and NCCL; conformance is tests/unit/check_comm.c.
 *
 * A struct comm is one rank's end of one group of ranks.  A collective is called by every rank of
 * the group with equal kind, count, dtype, reduce and root, in the same order; ranks that disagree
 * all get FS_PEER with a message that says who asked for what.  Each end belongs to one thread and
 * has at most one collective in flight.
 *
 * Memory is plain arrays, laid out in chunks by the caller (pad, permute); n ranks, `count` elements:
 *
 *     kind            send        recv        may overlap               bytes_sent (ring)
 *     all_gather      [count]     [n][count]  send = recv[rank]         (n-1) chunks
 *     reduce_scatter  [n][count]  [count]     recv = send[rank]         (n-1) chunks
 *     all_reduce      [count]     [count]     send = recv               2 (n-1)/n buffers
 *     all_to_all      [n][count]  [n][count]  never                     (n-1) chunks
 *     broadcast       [count]     [count]     send = recv               (n-1)/n buffers
 *     barrier         -           -
 *
 * broadcast reads `send` on the root only and writes `recv` on every rank.  Buffers are aligned to
 * their elements; both may be touched by other ranks from start to wait, and by none after it.
 *
 * Reductions take the ranks in order: f16, bf16, f32 and fp8 in f32, f64 in f64, integers in i64,
 * rounded (integers: cut) to the dtype once.  All ranks get the same bits.  max and min: NaN wins.
 * An amax travels as u32 with COMM_MAX: NaN is the largest there.
 */
#ifndef FS_COMM_H
#define FS_COMM_H

#include "base.h"
#include "dtype.h"

enum comm_kind {
	COMM_BARRIER,
	COMM_ALL_GATHER,
	COMM_REDUCE_SCATTER,
	COMM_ALL_REDUCE,
	COMM_ALL_TO_ALL,
	COMM_BROADCAST,
};

enum comm_reduce { COMM_SUM, COMM_MAX, COMM_MIN };

struct collective {
	enum comm_kind kind;
	const void *send;
	void *recv;
	size_t count; /* elements: of a chunk, or of the buffer (see above) */
	enum dtype dtype;
	enum comm_reduce reduce; /* reduce_scatter, all_reduce */
	int root;                /* broadcast */
};

struct comm;

struct comm_ops {
	const char *name; /* "threads" */
	enum fs_status (*start)(struct comm *c, const struct collective *call, struct diag *d);
	enum fs_status (*wait)(struct comm *c, struct diag *d);
	enum fs_status (*split)(struct comm *c, int color, int key, struct comm **out, struct diag *d);
	void (*abort)(struct comm *c, const char *reason);
	void (*destroy)(struct comm *c);
};

/* The head of every implementation's struct.  Read only for callers. */
struct comm {
	const struct comm_ops *ops;
	int rank, size;      /* in this group */
	int world_rank;      /* in messages */
	bool in_flight;      /* started, not waited for */
	uint64_t bytes_sent; /* by this end, as a ring algorithm sends them */
};

/*
 * start, then wait: between them the rank may compute.  Every started collective is waited for,
 * whatever happens.  FS_PEER: a rank stopped, or ranks disagree; the world is over then and every
 * call on every end returns FS_PEER.  recv is undefined after an error.  FS_INVALID (sizes that
 * overflow) touches nothing.
 */
enum fs_status comm_start(struct comm *c, const struct collective *call, struct diag *d);
enum fs_status comm_wait(struct comm *c, struct diag *d);
enum fs_status comm_run(struct comm *c, const struct collective *call, struct diag *d);

/*
 * Collective.  Ranks of equal color make a group, in the order of (key, rank).  The new end is the
 * caller's; it lives on when `c` is destroyed.
 */
enum fs_status comm_split(struct comm *c, int color, int key, struct comm **out, struct diag *d);
/*
 * The group along a set of mesh axes.  Ranks of `world` are numbered with the last axis fastest;
 * set: axes, major first: it gives the order of ranks (and so of chunks) in the group.
 */
enum fs_status comm_split_axes(struct comm *world, int axes, const int32_t *sizes, int set_size,
			       const int *set, struct comm **out, struct diag *d);

/*
 * A rank that gives up says so, on any of its ends with nothing in flight, so that nobody waits for
 * it: collectives not yet entered by all ranks return FS_PEER everywhere, "rank 5 stopped: REASON".
 * The first abort counts.
 */
void comm_abort(struct comm *c, const char *reason);
void comm_destroy(struct comm *c); /* NULL is allowed; not collective */

const char *comm_kind_text(enum comm_kind kind);
const char *comm_reduce_text(enum comm_reduce reduce);

/*
 * comm_threads.c: ranks are threads of this process.  Fills ends[0 .. ranks-1]; hand one to each
 * thread, which destroys it.  Waiting spins only where there is a core for every rank.
 */
enum fs_status comm_world_threads_create(int ranks, struct comm **ends, struct diag *d);

#endif
