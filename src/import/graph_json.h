/*
 * Our own JSON graph (docs/graph.md), for models that do not come from torch.
 *
 * Strict: an unknown key, op, name or size is an error that says where.  Values are defined before
 * they are used.  Placements of inputs and parameters become part of their types, those of other
 * values `constrain` nodes.
 */
#ifndef FS_GRAPH_JSON_H
#define FS_GRAPH_JSON_H

#include "import.h"

/*
 * `mesh` is that of the command line; NULL: the file's own, or none.  `o` may be NULL.
 * On success *context and *out are the caller's.
 */
enum fs_status graph_json_import(const char *bytes, size_t size, const char *file, const struct import_options *o,
				 const struct mesh *mesh, struct context **context, struct graph **out,
				 struct diag *d);

/* Every op that a node may have, the IR's and the conveniences, from 1 to graph_json_op_count() - 1. */
const char *graph_json_op(int k);
int graph_json_op_count(void);
/* The attribute keys of that op, separated by blanks, in alphabetic order. */
void graph_json_op_keys(int k, char *out, size_t size);

#endif
