/*
 * Inside of the JSON graph's reader: the document (graph_json.c), nodes and their attributes
 * (graph_json_node.c), conveniences (graph_json_forms.c), inline tensors (graph_json_data.c).
 *
 * While a node is built errors are sticky: after the first one its helpers return NODE_NONE.
 */
#ifndef FS_GRAPH_JSON_IMPL_H
#define FS_GRAPH_JSON_IMPL_H

#include "graph_json.h"

#include <jansson.h>

struct json_value { const char *name; struct node_id node; };

struct json_reader {
	const char *file;
	const struct import_options *options; /* NULL: none */
	struct context *context;
	struct graph *graph;
	struct diag *diag;
	struct arena scratch;
	VEC(struct json_value) values;
	struct hash_table table;
	const json_t *dims;  /* "dims": names of sizes, with defaults; NULL: none */
	const json_t *nodes;
};

/* What a message is about: "input 'x'", "node 'h'". */
struct json_place { const char *kind, *name; };

/* FS_INVALID, "FILE: node 'h': ...". */
enum fs_status json_fail(struct json_reader *r, struct json_place at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* --- graph_json.c --- */

/* Every key of the object is one of `keys`, which are separated by blanks. */
enum fs_status json_check_keys(struct json_reader *r, struct json_place at, const json_t *object, const char *keys);
/* A size: an integer, or the name of a dim; `least` is the smallest that may be. */
enum fs_status json_size(struct json_reader *r, struct json_place at, const json_t *v, int64_t least, int64_t *out);
enum fs_status json_shape(struct json_reader *r, struct json_place at, const json_t *v, int64_t least,
			  int64_t dim[MAX_RANK], int *rank);
enum fs_status json_dtype(struct json_reader *r, struct json_place at, const json_t *v, enum dtype *out);
/* The object's string, or NULL where it has none; another type is an error. */
enum fs_status json_string_of(struct json_reader *r, struct json_place at, const json_t *object, const char *key,
			      const char **out);
/* x itself, or where the object has a placement, a constraint on x. */
enum fs_status json_constrain(struct json_reader *r, struct json_place at, const json_t *object, struct prov_id prov,
			      struct node_id *x);
enum fs_status json_define(struct json_reader *r, struct json_place at, struct node_id node);
/* False where nothing has that name. */
bool json_find(const struct json_reader *r, const char *name, struct node_id *out);

/* --- graph_json_data.c --- */

/* A constant: dtype, shape (where the nesting of `data` does not say it), data. */
enum fs_status json_constant(struct json_reader *r, struct json_place at, const json_t *v, struct tensor *out);

/* --- graph_json_node.c --- */

struct json_node {
	struct json_reader *r;
	const json_t *json;
	const char *op;
	struct json_place at;
	struct prov_id prov;
	int count;
	struct node_id *in;      /* none where the operand is a number */
	const json_t **number;
	enum fs_status status;
};

enum fs_status json_node_read(struct json_reader *r, const json_t *v, size_t index);
void node_fail(struct json_node *n, const char *format, ...) __attribute__((format(printf, 2, 3)));
const struct type *node_type(const struct json_node *n, struct node_id x);
struct node_id node_emit(struct json_node *n, enum op op, const struct node_id *in, int count, const struct attrs *a);
/* An op of the IR with the node's own operands and attributes, and defaults for what is missing. */
struct node_id node_ir(struct json_node *n, enum op op);
/* The attributes of the node that `op` takes, without defaults. */
void node_attrs(struct json_node *n, enum op op, struct attrs *a);
/* A list of dims of x, made non-negative; false where the key is missing. */
bool node_dims(struct json_node *n, const char *key, struct node_id x, int64_t dims[MAX_RANK], int *count);

/* --- graph_json_forms.c --- */

/* What the IR does not have, or has with more to say. */
struct json_form {
	const char *name;
	int least, most;
	const char *keys;
	struct node_id (*build)(struct json_node *n);
};
extern const struct json_form json_forms[];
extern const int json_form_count;

#endif
