/*
 * Inside the torch importer.
 *
 * A node of the file is a `call`: a target with named arguments.  Its handler reads the arguments
 * (arg_*, torch_args.c), builds IR (emit_*, torch_build.c) and gives results (give).  An argument that
 * no handler reads is an error, so a handler need not list what it cannot do.
 *
 * Errors are sticky: after the first one in a call its helpers return NODE_NONE, zeros and defaults,
 * and everything takes NODE_NONE, so handlers are written without error paths.
 */
#ifndef FS_TORCH_IMPL_H
#define FS_TORCH_IMPL_H

#include "torch.h"

#include <jansson.h>

#define MAX_ARGS 4096 /* higher-order ops have one a tensor */
#define MAX_DEPTH 16 /* of graphs in graphs */

/* --- JSON: unions of one key, or of many with nulls (torch_json.c) --- */

enum tag {
	TAG_NONE, TAG_TENSOR, TAG_INT, TAG_INTS, TAG_FLOAT, TAG_BOOL, TAG_SCALAR_TYPE, TAG_TENSORS, TAG_DEVICE,
	TAG_LAYOUT, TAG_MEMORY_FORMAT, TAG_STRING, TAG_SYM_INT, TAG_SYM_INTS, TAG_OPTIONAL_TENSOR,
	TAG_OPTIONAL_TENSORS, TAG_GRAPH, TAG_SYM_BOOL, TAG_SYM_FLOAT, TAG_FLOATS, TAG_BOOLS, TAG_STRINGS, TAG_NAME,
	TAG_EXPR, TAG_OTHER,
};

/* The one key of `u` that is set, and its value; TAG_NONE where nothing is. False: not an object. */
bool union_get(const json_t *u, enum tag *tag, const json_t **value);
const char *text_of(const json_t *object, const char *key); /* NULL where it is not a string */
/* A number, or one of the strings "Infinity", "-Infinity", "NaN". */
bool real_of(const json_t *v, double *out);

/* --- values --- */

enum value_kind { VALUE_UNSET, VALUE_TENSOR, VALUE_INT, VALUE_FLOAT, VALUE_BOOL, VALUE_LOST };
enum value_source { FROM_NODE, FROM_PARAM, FROM_BUFFER, FROM_INPUT };

/* A view op on x: enough to write a changed view back. */
struct step { enum op op; struct node_id x; int dim; int64_t start, end, stride, dims[MAX_RANK]; };

/*
 * What a name of the file means.  Values that share storage form a list from `root`; an in-place op
 * gives all of them that cover the storage whole a new node, and makes the others stale.
 */
struct value {
	enum value_kind kind;
	enum value_source source;
	struct node_id node;
	struct node_id imaginary; /* of a complex tensor, of which node is the real part (torch_complex.c) */
	int64_t i; /* VALUE_INT, VALUE_BOOL */
	double f;  /* VALUE_FLOAT */
	const char *name;   /* borrowed from the file */
	const char *target; /* of parameters, buffers and inputs: the name in the model */
	uint32_t root, next;
	uint32_t parent;          /* of a view: what it is a view of, */
	const struct step *steps; /* and how, first step first */
	int step_count;
	bool view;    /* not the storage's whole value */
	bool perhaps; /* shares storage or is a copy: torch decides by strides */
	bool stale;   /* its storage has been changed since */
	bool mutated; /* of a root */
};

struct binding { const char *name; uint32_t value; };

struct scope {
	const json_t *graph, *types; /* types: its tensor_values */
	struct hash_table table;     /* of names, to bindings */
	VEC(struct binding) bindings;
	enum dtype autocast;         /* DT_NONE: off */
	bool autocast_cuda;
	int depth;
};

/* An op that cannot be imported, with the first node that has it. */
struct lack { const char *what; struct prov_id at; };

/* What a handler gives: a node and its view steps, or (of an inlined graph) a value. */
struct result { struct node_id node, imaginary; uint32_t value; const struct step *steps; int step_count; };

struct symbol { const char *name; int64_t value; bool known, bound, noted; };

struct import {
	struct context *context;
	struct graph *graph;
	const struct import_options *options;
	const json_t *ranges;
	struct diag *diag;
	VEC(struct value) values; /* [0] is none */
	VEC(struct result) results; /* of the calls at work, outermost first */
	VEC(struct step) steps;     /* since the last give() */
	VEC(struct lack) lacks;
	VEC(struct symbol) symbols;
	struct hash_table targets; /* of torch.def */
};

/* --- calls --- */

enum alias {
	FRESH,   /* results have their own storage */
	SAME,    /* the first operand itself */
	VIEW,    /* a view of the first operand */
	PERHAPS, /* a view or a copy */
};
enum autocast_rule { KEEP, LOWER, WIDER };

struct call;
struct target {
	const char *name; /* without namespace and overload */
	void (*import)(struct call *c);
	enum op op;       /* what the handler is to emit, where it serves several */
	enum alias alias;
	enum autocast_rule autocast;
};

struct argument { const char *name; enum tag tag; bool used; const json_t *value; };

struct call {
	struct import *im;
	struct scope *scope;
	const struct target *target;
	const char *text; /* "aten.add_.Tensor" */
	const char *name;
	const json_t *json;
	struct prov_id prov;
	bool in_place;
	bool imaginary; /* complex operands are read as their imaginary parts, not their real ones */
	int args;
	struct argument *arg;
	uint32_t first_result;
	enum fs_status status;
};

/* The first error of a call; the message gets the node's name and place. */
void call_fail(struct call *c, enum fs_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* `what` ("aten.dropout with train=True") is not supported; collected, import goes on with other nodes. */
void call_lacks(struct call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline bool failed(const struct call *c) { return c->status != FS_OK; }

/* --- arguments (torch_args.c); a missing one without a default is an error --- */

struct number { enum value_kind kind; int64_t i; double f; };
/* A tensor (node set), or a Python number. */
struct operand { struct node_id node; struct number number; };

bool arg_has(struct call *c, const char *name); /* given, and not None */
struct node_id arg_tensor(struct call *c, const char *name);
struct node_id arg_tensor_or_none(struct call *c, const char *name);
/* A list; NODE_NONE for None.  Memory of the context's arena. */
int arg_tensors(struct call *c, const char *name, struct node_id **out);
struct operand arg_operand(struct call *c, const char *name);
struct number arg_number(struct call *c, const char *name);
int64_t arg_int(struct call *c, const char *name, int64_t otherwise);
int64_t arg_int_required(struct call *c, const char *name);
double arg_real(struct call *c, const char *name, double otherwise);
bool arg_bool(struct call *c, const char *name, bool otherwise);
const char *arg_string(struct call *c, const char *name, const char *otherwise);
enum dtype arg_dtype(struct call *c, const char *name, enum dtype otherwise);
/* A list or one number; -1 where it is not given. */
int arg_ints(struct call *c, const char *name, int64_t *out, int room);
/* A dim of a tensor of that rank, made non-negative; arg_dims: a list of them, in the order given. */
int arg_dim(struct call *c, const char *name, int64_t otherwise, int rank);
int arg_dims(struct call *c, const char *name, int rank, int64_t out[MAX_RANK]);
int wrap_dim(struct call *c, int64_t dim, int rank);
double number_real(struct number n);

/* --- building (torch_build.c) --- */

const struct type *type_of(const struct call *c, struct node_id n);
enum dtype dtype_of(const struct call *c, struct node_id n);
int rank_of(const struct call *c, struct node_id n);
int64_t size_of(const struct call *c, struct node_id n, int dim);

void give(struct call *c, struct node_id n);
struct node_id emit(struct call *c, enum op op, const struct node_id *in, int count, const struct attrs *a);
struct node_id emit1(struct call *c, enum op op, struct node_id x);
struct node_id emit2(struct call *c, enum op op, struct node_id x, struct node_id y);
struct node_id emit3(struct call *c, enum op op, struct node_id x, struct node_id y, struct node_id z);
struct node_id emit_cast(struct call *c, struct node_id x, enum dtype t);
struct node_id emit_reshape(struct call *c, struct node_id x, int rank, const int64_t *dim);
struct node_id emit_permute(struct call *c, struct node_id x, const int64_t *dims);
struct node_id emit_swap(struct call *c, struct node_id x, int a, int b);
/* Broadcasts to a shape of the same or a higher rank. */
struct node_id emit_broadcast(struct call *c, struct node_id x, int rank, const int64_t *dim);
struct node_id emit_slice(struct call *c, struct node_id x, int dim, int64_t start, int64_t end, int64_t step);
struct node_id emit_cat(struct call *c, const struct node_id *in, int count, int dim);
struct node_id emit_unsqueeze(struct call *c, struct node_id x, int dim);
struct node_id emit_squeeze(struct call *c, struct node_id x, int dim); /* of size 1 */
struct node_id emit_fill(struct call *c, struct number v, enum dtype t, int rank, const int64_t *dim);
struct node_id emit_scalar(struct call *c, double v, enum dtype t);
struct node_id emit_iota(struct call *c, int64_t start, int64_t step, int64_t count, enum dtype t);
struct node_id emit_reduce(struct call *c, enum op op, struct node_id x, const int64_t *dims, int count,
			   bool keepdim);
struct node_id emit_along(struct call *c, enum op op, struct node_id x, int dim);
/* x op v, v a constant of x's type (f32 where x is narrower). */
struct node_id emit_with(struct call *c, enum op op, struct node_id x, double v);
/* A matmul by any letters: "abc,cd->abd"; they are renamed by role. */
struct node_id emit_matmul(struct call *c, const char *eq, struct node_id a, struct node_id b);
/* A pointwise op of one to three operands, with torch's promotion of numbers and tensors of rank 0. */
struct node_id emit_pointwise(struct call *c, enum op op, const struct operand *in, int count);
enum dtype promoted(struct call *c, const struct operand *in, int count);
struct operand as_operand(struct node_id n);
/* Half-precision values in f32, for functions that torch rounds once; others as they are. */
struct node_id emit_wide(struct call *c, struct node_id x);

/* --- sizes (torch_dims.c) --- */

/* A SymInt of the file: a number, or an expression over the symbols. */
enum fs_status dims_read(struct import *im, const json_t *symint, int64_t *out);
/* The value that the file's sym_int_values, sym_bool_values and sym_float_values give for a name; false: none. */
bool dims_named(struct import *im, const json_t *graph, const char *name, struct value *out);
/* Before the inputs: a --dim outside its range is an error. */
enum fs_status dims_start(struct import *im);
/* After the inputs: a size outside its range, or a --dim that names no symbol, is an error. */
enum fs_status dims_finish(struct import *im, const struct scope *s);
enum fs_status dims_shape(struct import *im, const json_t *meta, struct type *out);
/* Where --dim binds a size: what tracing took for granted of sizes ("guards_code") must hold (torch_guards.c). */
enum fs_status guards_check(struct import *im, const json_t *program);

#define COMPLEX64 10 /* the element type's number in the file */
/* The file says that this tensor is complex; dims_shape gives the type of its parts. */
bool dims_complex(const json_t *meta);

/* --- complex tensors: two of floats (torch_complex.c) --- */

/* Runs the handler of a call; one with complex operands for both parts, where it can be. */
void import_call(struct call *c);

/* --- values (torch_value.c) --- */

uint32_t scope_find(const struct import *im, const struct scope *s, const char *name); /* 0: not known */
/* False: the name is taken. */
bool scope_bind(struct scope *s, const char *name, uint32_t value);
void scope_release(struct scope *s);
uint32_t value_new(struct import *im, const char *name);
void value_share(struct import *im, uint32_t value, uint32_t with, enum alias how);
/* Gives a value (of the call's in-place operand) the node n, and all that shares its storage what follows. */
void value_store(struct call *c, uint32_t value, struct node_id n);

/* --- nodes (torch_node.c) --- */

enum fs_status import_nodes(struct import *im, struct scope *s);
/* The element type that the file gives output number k of the call, or `otherwise`. */
enum dtype output_dtype(struct call *c, int k, enum dtype otherwise);
struct prov_id prov_read(struct import *im, const char *node, const json_t *metadata);
/* The error that lists all that call_lacks() has collected. */
enum fs_status lacks_report(struct import *im);

/* --- the table (torch_table.c) --- */

void targets_init(struct import *im);
const struct target *target_find(const struct import *im, const char *name, size_t size);

/* Handlers, all declared from the table. */
#define TARGET(name, handler, op, alias, autocast) void handler(struct call *c);
#include "torch.def"
#undef TARGET

#endif
