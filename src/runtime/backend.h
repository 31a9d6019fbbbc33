/*
 * Backends: where values live and what computes them.  One vtable for the CPU (cpu_backend.c) and
 * later CUDA; conformance is tests/unit/check_exec.c.
 *
 * A struct backend is the device state of one rank and belongs to one thread.  Pointers in views are
 * the backend's own memory; only upload and download see memory of the host.
 */
#ifndef FS_BACKEND_H
#define FS_BACKEND_H

#include "ir.h"
#include "kernels.h"

/*
 * One op on local shards, all shapes and strides resolved.  `op` is the op of `node`, or what stands
 * for it in a high-precision run (exec_high.c); attributes are those of `node` either way.
 */
struct instruction {
	const struct graph *graph;
	struct node_id node;
	enum op op;
	bool exact;              /* of the plan */
	const struct mesh *mesh;
	const int32_t *coord;    /* of this rank */
	int count;
	const struct view *in;
	struct view out;
	struct view second;      /* the other result (indices of topk, low half of e5m2); data NULL: none */
	void *workspace;         /* as many bytes as backend_ops.workspace says */
};

struct backend;

struct backend_ops {
	const char *name;
	enum fs_status (*create)(struct backend **out, int rank, struct diag *d);
	void (*destroy)(struct backend *b);
	/* 0 bytes may give NULL; aligned to 64. FS_NOMEM says how much was wanted. */
	enum fs_status (*alloc)(struct backend *b, int64_t bytes, void **out, struct diag *d);
	void (*release)(struct backend *b, void *memory);
	enum fs_status (*upload)(struct backend *b, void *to, const void *from, int64_t bytes, struct diag *d);
	enum fs_status (*download)(struct backend *b, void *to, const void *from, int64_t bytes, struct diag *d);
	int64_t (*workspace)(struct backend *b, const struct instruction *i);
	enum fs_status (*run)(struct backend *b, const struct instruction *i, struct diag *d);
	/* out = in, converted; equal shapes, any strides.  Packing of collectives, loading of weights. */
	enum fs_status (*copy)(struct backend *b, const struct view *in, const struct view *out, struct diag *d);
	/* Returns when all that was run is done. */
	enum fs_status (*finish)(struct backend *b, struct diag *d);
};

extern const struct backend_ops cpu_backend;

#endif
