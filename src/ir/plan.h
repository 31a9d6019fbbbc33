/*
 * The plan: the last form of a program, one for all ranks, and its JSON file (docs/plan.md).
 *
 * A plan is a graph of stage fp8 with a section and a place in memory for every node.  Types keep the
 * global view, so shapes, offsets and strides of a rank are computed from its coordinates; the memory
 * offsets hold for the largest shard, which is rank 0's.  Views are nodes without memory of their own:
 * the executor folds them into (pointer, shape, strides).
 */
#ifndef FS_PLAN_H
#define FS_PLAN_H

#include "ir.h"

enum section {
	SECTION_SOURCE, /* inputs, parameters, constants: there before anything runs */
	SECTION_SETUP,  /* run once, after the weights are loaded */
	SECTION_STEP,   /* run each time */
};

enum memory {
	MEM_NONE,   /* of no node */
	MEM_INPUT,  /* given by the caller */
	MEM_PARAM,  /* a parameter or buffer: offset into the parameter memory; lives as long as the plan */
	MEM_CONST,  /* in the plan file */
	MEM_STATE,  /* made by setup and read by steps: offset into the state memory */
	MEM_ARENA,  /* offset into the arena, valid from its node to its last use */
	MEM_VIEW,   /* of `base`, same memory: every view op, and nothing else */
};

struct storage {
	uint8_t section, memory;
	struct node_id base; /* MEM_VIEW: the value that this is a view of (never itself a view) */
	int64_t offset;      /* bytes; multiple of PLAN_ALIGN; of MEM_PARAM, MEM_STATE and MEM_ARENA, else 0 */
	int64_t bytes;       /* of the largest shard */
};

#define PLAN_ALIGN 64

/* A matmul of the source program, for the report. */
struct plan_matmul {
	const char *node, *module, *source;
	const char *equation;
	const char *role;      /* forward, grad_input, grad_weight; NULL: the plan has no backward */
	int64_t m, n, k;       /* global */
	const char *recipe;    /* "none" where it was not swapped */
	const char *reason;    /* why it was or was not */
	struct node_id value;  /* the product in the plan's graph (none: folded away) */
};

struct plan {
	struct context *context;
	struct graph *graph;
	struct storage *storage; /* one a node */
	const char *recipe;      /* as asked for: "rowwise" */
	bool exact;
	const char *target;      /* machine table that placed it: "h100" */
	int64_t param_bytes, state_bytes, arena_bytes; /* of the largest rank */
	VEC(struct plan_matmul) matmuls;
	VEC(const char *) command; /* arguments of the compile that made it: to ask what else it could have done */
	uint64_t hash; /* of the file's bytes after the hash; set by read and write */
};

/* Frees the plan, its graph and its context. NULL is fine. */
void plan_destroy(struct plan *p);

/*
 * One JSON text, the same bytes for the same plan; *text is malloc'ed.  The hash is a 64-bit hash of
 * everything that follows it in the text: integrity, not trust.
 */
enum fs_status plan_write(struct plan *p, char **text, size_t *size, struct diag *d);
/* Parses and verifies in full (plan_verify): nothing of a plan that fails is used. */
enum fs_status plan_read(const char *text, size_t size, const char *file, struct plan **out, struct diag *d);
/* Puts the right hash into a text that was changed: for tests. False where the text does not start as a plan. */
bool plan_rehash(char *text, size_t size);

/*
 * The graph (graph_verify, stage fp8), sections in order (setup hangs on no input), memory inside its
 * region, no two values that live at the same time overlapping, views within their base, operands laid
 * out as their ops need them.
 */
enum fs_status plan_verify(const struct plan *p, struct diag *d);

/* The node whose memory n lies in: itself, or the base of a view. */
static inline struct node_id plan_root(const struct plan *p, struct node_id n)
{
	const struct storage *s = &p->storage[n.i];
	return s->memory == MEM_VIEW ? s->base : n;
}

/*
 * mutated[id]: a parameter or buffer that is not the same in every step: the target of an OUT_BUFFER, and
 * in a program that gives gradients of parameters, which are there to change them, each parameter.
 * What hangs on it is not setup.  Caller frees.
 */
bool *plan_mutated(const struct graph *g);

/*
 * When the memory of each node is in use, by node ids, both ends included: from the op that writes it (of
 * a proj: its operand's) to the last that reads it or a view of it; UINT32_MAX: to the end.  Indexed by
 * node id, of nodes with memory in the arena.  Caller frees.
 */
struct lifetime { uint32_t from, to; };
struct lifetime *plan_lifetimes(const struct plan *p);

/*
 * The view of a value in the memory of its base, for one rank: elements, not bytes; false where the
 * chain of views (reshape of something not dense) cannot be said by strides.  coord NULL: largest shard.
 */
struct strided { int64_t offset, shape[MAX_RANK], stride[MAX_RANK]; };
bool view_resolve(const struct graph *g, struct node_id view, struct node_id base, const int32_t *coord,
		  struct strided *out);
/* The same of any value: a view in its base, or what it is itself, dense. */
bool plan_strided(const struct plan *p, struct node_id n, const int32_t *coord, struct strided *out);
/* Row-major. */
void strided_dense(int rank, const int64_t *shape, struct strided *out);
bool strided_is_dense(int rank, const struct strided *v);

/*
 * The bytes of the largest shard; -1 where they are more than 2^56 or the element type is none.
 * type_local_count() times the size, for types that may lie.
 */
int64_t plan_value_bytes(const struct type *t, const struct mesh *m);

/* What a collective sends per rank under a ring algorithm, in bytes, of the padded chunk. */
int64_t collective_bytes(const struct graph *g, struct node_id n);
/* Ranks in the group of a collective. */
int64_t collective_ranks(const struct graph *g, struct node_id n);

#endif
