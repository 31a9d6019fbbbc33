/* Patterns over dotted names: '*' is one atom, "layers.*.mlp.up_proj"; a leading "model." may be left out. */
#ifndef FS_PATTERN_H
#define FS_PATTERN_H

#include "ir.h"

bool pattern_match(const char *pattern, const char *name);

/* The mesh axis of this name; there must be one. */
enum fs_status axis_named(const struct mesh *m, const char *name, int *axis, struct diag *d);

/* Names seen, for "nearest: 'a' (32), 'b'" in messages; numbers in names are shown as '*'. */
struct name_list { VEC(const char *) names; };
void names_nearest(const struct name_list *l, const char *pattern, char *out, size_t size);

#endif
