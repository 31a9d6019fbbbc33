/* Plan files of tensor parallelism: JSON, {"layers.*.mlp.up_proj": "colwise", ...}, as Hugging Face has them. */
#ifndef FS_TP_PLAN_H
#define FS_TP_PLAN_H

#include "base.h"

/* A pattern of names, a style or a placement, and the file, for messages. */
struct tp_rule { const char *pattern, *value, *origin; };
typedef VEC(struct tp_rule) tp_rules;

/* Appends the file's rules in their order; the strings live in `strings`. */
enum fs_status tp_plan_read(const char *path, struct arena *strings, tp_rules *out, struct diag *d);
/* The same of text in memory. */
enum fs_status tp_plan_parse(const char *text, size_t size, const char *file, struct arena *strings, tp_rules *out,
			     struct diag *d);

#endif
