/*
 * Patterns over dotted names: '*' is one atom, "layers.*.mlp.up_proj", '**' any number of them; a leading
 * "model." may be left out.
 */
#ifndef FS_PATTERN_H
#define FS_PATTERN_H

#include "ir.h"

bool pattern_match(const char *pattern, const char *name);

/* Names of things that are numbered; {0} is empty.  A pattern without '*' is looked up, not tried on all. */
struct name_entry {
	const char *key, *name; /* key: the name, or it without its base */
	uint32_t what, next;    /* next: the next entry of this key, or UINT32_MAX */
};
struct name_index {
	struct arena arena;
	VEC(struct name_entry) entries;
	struct hash_table table;
};
typedef VEC(uint32_t) found_list;
/* The name is borrowed; several may mean one thing. */
void name_index_add(struct name_index *x, const char *name, uint32_t what);
/* What the pattern names, in order, each once. */
void name_index_find(const struct name_index *x, const char *pattern, found_list *out);
void name_index_release(struct name_index *x);

/* The mesh axis of this name; there must be one. */
enum fs_status axis_named(const struct mesh *m, const char *name, int *axis, struct diag *d);

/* Names seen, for "nearest: 'a' (32), 'b'" in messages; numbers in names are shown as '*'. */
struct name_list { VEC(const char *) names; };
void names_nearest(const struct name_list *l, const char *pattern, char *out, size_t size);

#endif
