/*
 * The intermediate representation: meshes, placements, types, graphs.
 *
 * Invariants
 *   - A graph is one array of nodes in topological order: operands have smaller ids.
 *   - A node has one value.  Further results of an op (topk's indices) are `proj` nodes on it.
 *   - Types keep the global shape in every stage; the local shape of a rank is computed from it.
 *   - Types, placements (inside types), attribute lists, strings and provenance are interned in the
 *     context: equal means the same id or pointer.
 *   - Nothing of a pass lives in a node; a pass keeps arrays indexed by node id.
 *   - Ids stay valid for the life of a graph; pointers into its arrays do not survive an emit.
 */
#ifndef FS_IR_H
#define FS_IR_H

#include "base.h"
#include "dtype.h"

#define MAX_RANK 8
#define MAX_AXES 8
#define MAX_OPERANDS 4096 /* of one node */

/* --- mesh and placement (placement.c) --- */

struct mesh {
	int count; /* axes, outermost (slowest links) first; 0: one rank */
	struct mesh_axis { char name[16]; int32_t size; } axis[MAX_AXES];
};

/* Parses "dp=2,tp=4". */
enum fs_status mesh_parse(struct mesh *m, const char *text, struct diag *d);
int mesh_find(const struct mesh *m, const char *axis); /* -1 where there is none */
int64_t mesh_size(const struct mesh *m);               /* ranks */
/* The names of these axes (bit mask): "dp,tp". */
void mesh_axes_text(const struct mesh *m, uint32_t axes, char *out, size_t size);
/* Rank of the world to coordinates, last axis fastest. */
void mesh_coords(const struct mesh *m, int64_t rank, int32_t coord[MAX_AXES]);

enum part_kind { PART_SHARD, PART_SUM, PART_MAX, PART_MIN };
struct part { uint8_t axis, kind, dim; };
/* May ranks hold parts of numbers of this type that are joined in this way? Of fp8 codes and sums of bools: no. */
bool part_joins(enum part_kind kind, enum dtype t);

/*
 * What a mesh does with a value: parts by axis; axes not named replicate.  Parts that shard one dim
 * nest in the order written, major first.  Canonical (placement_canonical): sorted by axis, then the
 * parts of each dim put, in their nesting order, on the places that they hold together.
 */
struct placement {
	uint8_t count;
	struct part at[MAX_AXES];
};

void placement_canonical(struct placement *p);
bool placement_equal(const struct placement *a, const struct placement *b);
/* Index of the part of an axis, or -1: replicated. */
int placement_find(const struct placement *p, int axis);
/* Adds (innermost), replaces or removes (part == NULL) what `axis` does. */
void placement_set(struct placement *p, int axis, const struct part *part);
bool placement_has_partial(const struct placement *p);
/* Axes (bit mask) that shard `dim`. */
uint32_t placement_axes_of(const struct placement *p, int dim);
/* Parses "dp:S(0), tp:P(sum)" (parentheses around it optional; dims may be negative); rank < 0: unknown. */
enum fs_status placement_parse(struct placement *p, const struct mesh *m, int rank, const char *text,
			       struct diag *d);

/*
 * The slice [start, start + size) of a dim that a rank holds: nested ceil chunks, as torch.chunk.
 * Trailing ranks may hold less, or nothing (size 0, start = size of the dim).
 */
struct extent { int64_t start, size; };
struct extent placement_extent(const struct placement *p, const struct mesh *m, int dim, int64_t size,
			       const int32_t coord[MAX_AXES]);
/* The chunk of the first rank, which is the largest: ceil division by each axis that shards the dim. */
int64_t placement_chunk(const struct placement *p, const struct mesh *m, int dim, int64_t size);

/* --- types --- */

struct type {
	uint8_t dtype; /* enum dtype */
	uint8_t rank;
	struct placement place;
	int64_t dim[MAX_RANK]; /* global */
};

struct type_id { uint32_t i; };
struct node_id { uint32_t i; };
struct prov_id { uint32_t i; };
struct attrs_id { uint32_t i; };

#define NODE_NONE ((struct node_id){ 0 })
static inline bool node_is(struct node_id n) { return n.i != 0; }
static inline bool node_same(struct node_id a, struct node_id b) { return a.i == b.i; }

int64_t type_count(const struct type *t); /* elements, global */
int64_t type_bytes(const struct type *t);
/* Elements and shape of what the rank at `coord` holds; coord NULL: the largest shard. */
void type_local_shape(const struct type *t, const struct mesh *m, const int32_t *coord, int64_t out[MAX_RANK]);
int64_t type_local_count(const struct type *t, const struct mesh *m, const int32_t *coord);
struct type type_make(enum dtype dtype, int rank, const int64_t *dim);

/* --- ops, attributes, stages: ops.def, attrs.def --- */

enum op {
	OP_NONE,
#define OP(name, ...) OP_##name,
#include "ops.def"
#undef OP
	OP_COUNT
};

enum stage { STAGE_GLOBAL, STAGE_PLACED, STAGE_LOCAL, STAGE_FP8, STAGE_COUNT };
const char *stage_text(enum stage s);

enum attr_key {
	ATTR_NONE,
#define ATTR(name, text, kind) ATTR_##name,
#include "attrs.def"
#undef ATTR
	ATTR_COUNT
};

enum attr_kind { AK_INT, AK_FLOAT, AK_STRING, AK_INTS, AK_DTYPE, AK_AXES, AK_PLACEMENT, AK_TENSOR };
const char *attr_text(enum attr_key k);
enum attr_kind attr_kind(enum attr_key k);
enum attr_key attr_from_text(const char *s);

/* A constant's elements, dense row-major, in the context's arena. */
struct tensor { uint8_t dtype, rank; int64_t dim[MAX_RANK]; const void *data; };

struct attr {
	uint16_t key;
	uint16_t count; /* of ints */
	union {
		int64_t i;                    /* AK_INT, AK_DTYPE (enum dtype), AK_AXES (bit mask) */
		double f;                     /* AK_FLOAT */
		const char *s;                /* AK_STRING, interned */
		const int64_t *ints;          /* AK_INTS */
		const struct tensor *tensor;  /* AK_TENSOR */
		const struct placement *place; /* AK_PLACEMENT */
	} u;
};

/* Under construction, on the stack; keys in any order, each at most once.  Pointers are borrowed until interned. */
#define MAX_ATTRS 12
struct attrs { int count; struct attr at[MAX_ATTRS]; };
void attrs_int(struct attrs *a, enum attr_key k, int64_t v);
void attrs_float(struct attrs *a, enum attr_key k, double v);
void attrs_string(struct attrs *a, enum attr_key k, const char *s);
void attrs_ints(struct attrs *a, enum attr_key k, const int64_t *v, int count);
void attrs_tensor(struct attrs *a, const struct tensor *t); /* ATTR_DATA */
void attrs_placement(struct attrs *a, const struct placement *p); /* ATTR_TO */

/* --- context: what all graphs of one compilation share (context.c) --- */

/* Where a node comes from; any may be NULL.  All printed by diagnostics, dumps, reports and traces. */
struct prov {
	const char *node;   /* name in the source graph: "linear_3" */
	const char *module; /* "layers.3.mlp.up_proj" */
	const char *source; /* the user's line: "modeling.py:212" */
	const char *pass;   /* the pass that made it; NULL: the importer */
	const char *rule;   /* what pins its placement, or wanted this move: "--place 'x=dp:S(0)'"; on a mesh of
			       several axes for each: "dp: ...; tp: ..." (prov_rule) */
};
#define RULE_OF_GRAPH "the graph's own placement" /* where no user's line says it */

struct context;
struct context *context_create(const struct mesh *m);
void context_destroy(struct context *c); /* with all its graphs gone; NULL is fine */
struct arena *context_arena(struct context *c);
const struct mesh *context_mesh(const struct context *c);
const char *context_intern(struct context *c, const char *s);
const char *context_intern_n(struct context *c, const char *s, size_t size);
struct prov_id context_prov(struct context *c, const struct prov *p);
struct type_id context_type(struct context *c, const struct type *t); /* makes the placement canonical */
const struct type *context_type_get(const struct context *c, struct type_id t);
/* The rule of a provenance for the first of these axes that has one; NULL: none. Adds one for an axis. */
const char *prov_rule(struct context *c, const struct prov *p, uint32_t axes);
void prov_add_rule(struct context *c, struct prov *p, int axis, const char *rule);
const struct prov *context_prov_get(const struct context *c, struct prov_id p);
struct attrs_id context_attrs(struct context *c, const struct attrs *a);

/* --- graph (graph.c) --- */

struct node {
	uint16_t op;
	uint16_t count;  /* operands */
	uint32_t first;  /* in graph.operands */
	struct type_id type;
	struct attrs_id attrs;
	struct prov_id prov;
};

enum output_kind { OUT_USER, OUT_BUFFER, OUT_LOSS, OUT_GRAD_PARAM, OUT_GRAD_INPUT };
struct output {
	struct node_id value;
	const char *name;   /* under which it is written */
	const char *target; /* of a buffer mutation or gradient: the parameter's, buffer's or input's name */
	enum output_kind kind;
};

struct graph {
	struct context *context;
	enum stage stage;
	VEC(struct node) nodes; /* [0] is none */
	VEC(struct node_id) operands;
	VEC(struct output) outputs;
	struct hash_table cse;
};

struct graph *graph_create(struct context *c, enum stage stage);
void graph_destroy(struct graph *g);

static inline const struct node *graph_node(const struct graph *g, struct node_id n) { return &g->nodes.items[n.i]; }
static inline enum op graph_op(const struct graph *g, struct node_id n) { return (enum op)g->nodes.items[n.i].op; }
static inline struct node_id graph_operand(const struct graph *g, struct node_id n, int k)
{
	return g->operands.items[g->nodes.items[n.i].first + (uint32_t)k];
}
const struct type *graph_type(const struct graph *g, struct node_id n);
const struct prov *graph_prov(const struct graph *g, struct node_id n);

/* Attributes of a node: the value, or `otherwise` where it is missing. */
bool graph_has(const struct graph *g, struct node_id n, enum attr_key k);
int64_t graph_int(const struct graph *g, struct node_id n, enum attr_key k, int64_t otherwise);
double graph_float(const struct graph *g, struct node_id n, enum attr_key k, double otherwise);
const char *graph_string(const struct graph *g, struct node_id n, enum attr_key k); /* NULL if missing */
int graph_ints(const struct graph *g, struct node_id n, enum attr_key k, const int64_t **out); /* count, 0 if missing */
const struct tensor *graph_tensor(const struct graph *g, struct node_id n);
const struct placement *graph_placement(const struct graph *g, struct node_id n); /* ATTR_TO */
/* All of them, for copying a node with changes. */
void graph_attrs(const struct graph *g, struct node_id n, struct attrs *out);

/*
 * Emits a node: infers and checks its type, simplifies (simplify.c), reuses an equal node, or appends.
 * The first form is for input from outside; the second says BUG where inference fails.
 */
enum fs_status graph_try_emit(struct graph *g, enum op op, const struct node_id *in, int count,
			      const struct attrs *a, struct prov_id prov, struct node_id *out, struct diag *d);
struct node_id graph_emit(struct graph *g, enum op op, const struct node_id *in, int count,
			  const struct attrs *a, struct prov_id prov);
/* The same with a type given (placed stages: the rule says only what is possible). No simplification. */
struct node_id graph_emit_typed(struct graph *g, enum op op, const struct node_id *in, int count,
				const struct attrs *a, const struct type *t, struct prov_id prov);
/* Appends a node as it stands: nothing is inferred, simplified or shared. Operands must be there already. */
struct node_id graph_append(struct graph *g, enum op op, const struct node_id *in, int count,
			    const struct attrs *a, const struct type *t, struct prov_id prov);
/* Copies a node of another graph of the same context on new operands, attributes and type kept. */
struct node_id graph_copy(struct graph *to, const struct graph *from, struct node_id n, const struct node_id *in);
void graph_output(struct graph *g, const struct output *o);

/* The parameter or buffer of this name, its own or one tied to it; NODE_NONE: there is none. */
struct node_id graph_param(const struct graph *g, const char *name);

/* reached[id]: some output hangs on it. Caller frees. */
bool *graph_reached(const struct graph *g);
/* The collectives that are reached, in order, behind what the list has. */
typedef VEC(struct node_id) node_list;
void graph_collectives(const struct graph *g, node_list *out);

/* Use lists, made on request: users of n are at[first[n] .. first[n + 1]); an output is no user. */
struct uses { uint32_t *first; struct node_id *at; };
struct uses uses_make(const struct graph *g);
void uses_release(struct uses *u);

/* --- the op table (op.c) --- */

const char *op_text(enum op op);
enum op op_from_text(const char *s);
bool op_in_stage(enum op op, enum stage s);
void op_arity(enum op op, int *least, int *most);
bool op_is_pointwise(enum op op);
bool op_is_view(enum op op); /* moves no data where strides can say it */
bool op_is_source(enum op op);
bool op_is_collective(enum op op);

/* Infers the type of a node (placements left out: STAGE_GLOBAL meaning) from operand types and attributes. */
enum fs_status op_infer(const struct context *c, enum op op, const struct type *const *in, int count,
			const struct attrs *a, struct type *out, struct diag *d);

/* --- matmul equations: "bmk,nk->bmn" (matmul.c) --- */

/* One letter a dim. Roles by where a letter stands. */
enum letter_role { ROLE_BATCH, ROLE_M, ROLE_N, ROLE_K };
struct equation {
	int rank[3]; /* of a, b, result */
	char letter[3][MAX_RANK];
};
enum fs_status equation_parse(struct equation *e, const char *text, struct diag *d);
enum letter_role equation_role(const struct equation *e, char letter);
/* What a product is to the loss, as the attribute `role` says it; a graph without a backward says nothing. */
enum product_role { PRODUCT_FORWARD, PRODUCT_GRAD_INPUT, PRODUCT_GRAD_WEIGHT, PRODUCT_ROLES };
const char *product_role_text(enum product_role role); /* "grad_input" */
bool product_role_read(const char *text, enum product_role *out); /* false: there is no such role */
/* Renames letters by role: batch b c d e.., M m i j.., N n o p.., K k l..; writes text with a NUL. */
void equation_canonical(struct equation *e, char text[3 * MAX_RANK + 4]);
/* x[..., K] times w[N, K] (or w[K, N] when !transposed). */
void equation_linear(int rank, bool transposed, char text[3 * MAX_RANK + 4]);

/* --- text form (print.c, parse.c) --- */

/* Prints a whole graph; ids are renumbered densely, names kept where unique. Grows *out (malloc). */
void graph_print(const struct graph *g, FILE *out);
enum fs_status graph_parse(const char *text, size_t size, const char *file, struct context **context,
			   struct graph **out, struct diag *d);
void type_print(const struct type *t, const struct mesh *m, FILE *out);
void type_text(const struct type *t, const struct mesh *m, char *out, size_t size);
void placement_text(const struct placement *p, const struct mesh *m, char *out, size_t size);
/* "linear_3 (layers.3.mlp.up_proj, modeling.py:212)" for messages. */
void node_describe(const struct graph *g, struct node_id n, char *out, size_t size);

/* --- verifier (verify.c) --- */

/* Stage legality, arity, inferred types, placements by the rules, topological order. */
enum fs_status graph_verify(const struct graph *g, struct diag *d);

#endif
