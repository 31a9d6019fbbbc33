/* Private to plan_read.c and plan_read_attrs.c: fields of JSON objects, checked. */
#ifndef FS_PLAN_READ_H
#define FS_PLAN_READ_H

#include "plan_json.h"

#include <jansson.h>
#include <stdarg.h>

struct reader {
	const char *file;
	struct diag *diag;
	json_t *root;
	struct plan *plan;
	struct context *context; /* the plan's */
	struct graph *graph;
	struct arena scratch;
	struct type *types;
	uint32_t type_count;
	const char *entry; /* "node", and its number, for messages; "": none */
	unsigned number;
	struct node_id operands[MAX_OPERANDS];
};

/* "FILE: node 12: ..." */
enum fs_status plan_error(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
enum fs_status plan_string(struct reader *r, json_t *from, const char *key, const char **out);
enum fs_status plan_optional(struct reader *r, json_t *from, const char *key, const char **out);
enum fs_status plan_int(struct reader *r, json_t *from, const char *key, int64_t least, int64_t most, int64_t *out);

/* The attributes of a node (NULL: none); what they point to lives in the arenas of reader and context. */
enum fs_status plan_attrs(struct reader *r, json_t *from, struct attrs *out);

#endif
