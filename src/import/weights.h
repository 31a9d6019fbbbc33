/*
 * Parameters by name, whatever holds them: safetensors files, an index of such files, a .pt2.
 *
 * A name in two sources is an error; but a .pt2 that was saved without data gives way to any
 * source that has them, and its constants to those of a file of weights.  To let one source come
 * before another, use two struct weights.
 */
#ifndef FS_WEIGHTS_H
#define FS_WEIGHTS_H

#include "dtype.h"
#include "file.h"

struct weights_source;

enum weight_state {
	WEIGHT_READABLE,
	WEIGHT_NO_DATA,    /* a .pt2 that was saved without: pass another source */
	WEIGHT_UNREADABLE, /* a pickle, a type that we do not have: reading says which */
};

struct weight {
	const char *name;
	enum dtype dtype; /* DT_NONE where it is not known or not ours */
	int rank;
	const int64_t *dims;
	enum weight_state state;
	const struct weights_source *source;
	const void *entry; /* in the source: of safetensors or of pt2 */
};

struct weights {
	struct arena arena;
	VEC(struct weights_source *) sources;
	VEC(struct weight) list; /* in the order of the sources; pointers last until the next add */
	struct hash_table by_name;
};

/*
 * Adds a source; {0} is an empty struct weights.  What `path` is shows in its content: a
 * .safetensors file, a *.safetensors.index.json, a .pt2, or a folder with model.safetensors or
 * model.safetensors.index.json.  After a failure only weights_release() may follow.
 */
enum fs_status weights_add(struct weights *w, const char *path, struct diag *d);
void weights_release(struct weights *w);

/* True where `path` is one of the files that hold the weights. */
bool weights_hold(const struct weights *w, const char *path);

/* NULL where there is none. */
const struct weight *weights_find(const struct weights *w, const char *name);
/* The weight that a model needs: there, with data, of this type and shape; else says what is wrong. */
enum fs_status weights_require(const struct weights *w, const char *name, enum dtype dtype, int rank,
			       const int64_t *dims, const struct weight **out, struct diag *d);
/* The box [start, start + extent), row-major and dense; reads only its bytes.  Threads may share. */
enum fs_status weights_read_slice(const struct weight *t, const int64_t *start, const int64_t *extent,
				  void *dst, struct diag *d);
/* The whole tensor. */
enum fs_status weights_read(const struct weight *t, void *dst, struct diag *d);
/* True where both are the same bytes of the same file: tied parameters. */
bool weights_tied(const struct weight *a, const struct weight *b);

#endif
