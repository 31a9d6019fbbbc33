/*
 * A .pt2 archive of torch.export: the program's JSON and its tensors.
 *
 * A record of weights is a whole untyped storage; a tensor is a strided view of one, and tied
 * parameters are views of the same record.  Which tensors the file cannot give, and why, is
 * known at opening but an error only when they are read: weights may come from elsewhere.
 */
#ifndef FS_PT2_H
#define FS_PT2_H

#include "archive.h"
#include "file_view.h"

enum pt2_state {
	PT2_HAS_DATA,
	PT2_NO_DATA, /* saved without: an empty record */
	PT2_PICKLED, /* a pickle: a tensor subclass, a custom object */
	PT2_UNKNOWN_TYPE,
};

struct pt2_tensor {
	const char *name;  /* "layers.0.attention.wq.weight" */
	bool is_param;
	bool is_constant;  /* not in the state dict: a constant or a non-persistent buffer */
	enum pt2_state state;
	int64_t storage;   /* equal: the same memory; -1: none to share */
	const struct archive_record *record; /* PT2_HAS_DATA, and not empty */
	struct file_view view;  /* dtype DT_NONE where the file does not say */
};

struct pt2 {
	struct archive archive;
	struct arena arena;
	const char *model;                   /* name of the program: models/<model>.json */
	const struct archive_record *program;
	bool pickled_weights;                /* an older layout: no raw tensors in it */
	struct pt2_tensor *tensors;
	uint32_t count;
	struct hash_table by_name;
};

/* `model` may be NULL where there is only one.  On failure nothing is owned. */
enum fs_status pt2_open(struct pt2 *p, const char *path, const char *model, struct diag *d);
/* Takes over an open file, also where it fails. */
enum fs_status pt2_open_take(struct pt2 *p, struct file *file, const char *model, struct diag *d);
void pt2_close(struct pt2 *p); /* {0} and a closed one are fine */

/* The program's JSON and a NUL, its checksum verified; from malloc: the caller frees *text. */
enum fs_status pt2_read_program(const struct pt2 *p, char **text, size_t *size, struct diag *d);

/* NULL where there is none. */
const struct pt2_tensor *pt2_find(const struct pt2 *p, const char *name);
/* The box [start, start + extent), row-major and dense, of a record that matches its checksum. */
enum fs_status pt2_read_slice(const struct pt2 *p, const struct pt2_tensor *t, const int64_t *start,
			      const int64_t *extent, void *dst, struct diag *d);

#endif
