/* Inside of the executor. */
#ifndef FS_EXEC_INTERNAL_H
#define FS_EXEC_INTERNAL_H

#include "exec.h"

/* Part of a tensor and where it lies in the workspace while ranks exchange it. */
struct piece { struct view tensor, staged; int64_t offset; /* bytes, in the workspace */ };

/* A collective with its packing and unpacking (exec_transfer.c). */
struct transfer {
	struct comm *comm;
	struct collective call;
	int sends, recvs;          /* pieces to pack and to unpack; 0: straight from, or to, the tensor */
	struct piece *send, *recv;
	int64_t send_offset, recv_offset, workspace;
};

/* What a node does: an instruction, or a transfer. */
struct work {
	struct node_id node;
	bool last; /* of its node */
	struct instruction run;
	struct transfer *transfer; /* NULL: run */
};

enum region { REGION_OWN, REGION_PARAM, REGION_STATE, REGION_ARENA, REGION_WORK, REGION_COUNT };

struct exec_comm { uint32_t axes; struct comm *comm; };
struct buffer_update { struct node_id value, buffer; };

struct exec {
	const struct plan *plan;
	const struct graph *graph;
	const struct mesh *mesh;
	struct exec_options o;
	const struct backend_ops *ops;
	struct backend *backend;
	int32_t coord[MAX_AXES];

	char *memory[REGION_COUNT];
	int64_t bytes[REGION_COUNT];

	/* by node */
	uint32_t nodes;
	struct view *views;
	struct node_id *base;   /* the value whose memory a view is of; else the value itself */
	struct node_id *second; /* the proj that is its second result */

	VEC(struct work) work;
	uint32_t setup_count;   /* work[0 .. setup_count) is setup */
	VEC(struct view *) lists; /* operand views, malloc'ed */
	VEC(void *) extras;       /* the backend's: memory of what the plan does not know of */
	VEC(struct exec_comm) comms;
	VEC(struct buffer_update) updates;
	uint64_t setup_bytes_sent;
	bool stepped;           /* the last step's updates of buffers are still to be made */
};

/* Appends to a VEC of an exec; false without memory. */
#define exec_push(v, x) \
	(exec_reserve((void **)&(v)->items, &(v)->room, (v)->count + 1, sizeof(*(v)->items)) && \
	 ((v)->items[(v)->count++] = (x), true))
bool exec_reserve(void **items, uint32_t *room, uint32_t need, size_t size);
enum fs_status exec_nomem(struct diag *d);

/* --- exec_memory.c --- */

/* Local shapes and dtypes of all values, their places in regions; allocates the regions. */
enum fs_status exec_place_values(struct exec *e, struct diag *d);
/* A dense value that the plan does not know of; it lives as long as the exec. */
enum fs_status exec_extra(struct exec *e, enum dtype t, int rank, const int64_t *shape, struct view *out,
			  struct diag *d);
enum fs_status exec_alloc(struct exec *e, enum region r, int64_t bytes, struct diag *d);
/* [start, start + size) of a dim. */
struct view exec_part(const struct view *v, int dim, int64_t start, int64_t size);
bool exec_is_dense(const struct view *v);
/* View op n on operand view `in`, one step by strides; false for a reshape that is not dense. */
bool exec_view_step(const struct exec *e, struct node_id n, const struct view *in, struct view *out);

/* --- exec_build.c: from nodes to work --- */

enum fs_status exec_build(struct exec *e, struct diag *d);
/* Appends an instruction of node n; `in` is copied. */
enum fs_status exec_emit(struct exec *e, struct node_id n, enum op op, int count, const struct view *in,
			 const struct view *out, struct diag *d);
enum fs_status exec_emit_node(struct exec *e, struct node_id n, struct diag *d);

/* --- exec_transfer.c --- */

enum fs_status exec_emit_transfer(struct exec *e, struct node_id n, struct diag *d);
void transfer_bind(struct transfer *t, char *workspace);
enum fs_status transfer_run(struct exec *e, struct transfer *t, struct diag *d);
void transfer_destroy(struct transfer *t);

/* --- exec_blocks.c: scales by shard, where one rank holds all shards (plan_on_one_rank) --- */

/* True where some scale of node n has blocks; it is emitted then. */
bool exec_has_blocks(const struct exec *e, struct node_id n);
enum fs_status exec_emit_blocks(struct exec *e, struct node_id n, struct diag *d);
/*
 * A view of `scale` that broadcasts to x: scales by shard are repeated, in dim `grouped` (-1: none) an
 * entry for each group of equal size; others as they are.  Instructions for it are those of node n.
 */
enum fs_status exec_spread_scale(struct exec *e, struct node_id n, struct node_id x, struct node_id scale, int grouped,
				 struct view *out, struct diag *d);

/* --- exec_high.c: EXEC_HIGH and EXEC_WIDE --- */

/* The dtype of a value in this run, from those of its operands. */
enum dtype exec_high_dtype(const struct exec *e, struct node_id n);
/* True where n is not what the plan says; it is emitted then. */
bool exec_is_high(const struct exec *e, struct node_id n);
enum fs_status exec_emit_high(struct exec *e, struct node_id n, struct diag *d);

#endif
