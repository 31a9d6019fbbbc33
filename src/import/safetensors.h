/*
 * safetensors: an 8-byte length, a JSON header, then the tensors' bytes, dense and row-major.
 *
 * A file is checked in full when it is opened: what it says of a tensor can be relied on.
 * Messages begin with the file's name.
 */
#ifndef FS_SAFETENSORS_H
#define FS_SAFETENSORS_H

#include "dtype.h"
#include "file.h"

struct safetensors_entry {
	const char *name;
	const char *type;    /* "F32", as the file has it */
	enum dtype dtype;    /* DT_NONE: a type that we cannot read */
	int rank;
	const int64_t *dims;
	int64_t offset;      /* of the first byte, from the start of the file */
	int64_t bytes;
};

struct safetensors_pair { const char *key, *value; };

struct safetensors {
	struct file file;
	struct arena arena;
	struct safetensors_entry *entries; /* by offset, then by name */
	uint32_t count;
	struct safetensors_pair *metadata; /* in the file's order */
	uint32_t metadata_count;
	struct hash_table by_name;
};

/* On failure nothing is owned. */
enum fs_status safetensors_open(struct safetensors *f, const char *path, struct diag *d);
/* `bytes` stays the caller's and must outlive `f`. */
enum fs_status safetensors_open_memory(struct safetensors *f, const char *name, const void *bytes,
				       size_t size, struct diag *d);
/* Takes over an open file, also where it fails. */
enum fs_status safetensors_open_take(struct safetensors *f, struct file *file, struct diag *d);
void safetensors_close(struct safetensors *f); /* {0} and a closed file are fine */

/* NULL where there is none. */
const struct safetensors_entry *safetensors_find(const struct safetensors *f, const char *name);
const char *safetensors_metadata(const struct safetensors *f, const char *key);

/* `size` bytes from byte `offset` of the tensor; the whole tensor is (0, e->bytes). */
enum fs_status safetensors_read(const struct safetensors *f, const struct safetensors_entry *e,
				int64_t offset, int64_t size, void *dst, struct diag *d);
/* The box [start, start + extent), row-major and dense; reads only its bytes. */
enum fs_status safetensors_read_slice(const struct safetensors *f, const struct safetensors_entry *e,
				      const int64_t *start, const int64_t *extent, void *dst,
				      struct diag *d);

struct safetensors_item {
	const char *name;
	enum dtype dtype;
	int rank;
	const int64_t *dims;
	const void *data; /* dense, row-major */
};

/*
 * Writes the items in the order given, so equal input gives equal bytes.  The file appears whole
 * or not at all.  `metadata` may be NULL where its count is 0.
 */
enum fs_status safetensors_write(const char *path, const struct safetensors_item *items, uint32_t count,
				 const struct safetensors_pair *metadata, uint32_t metadata_count,
				 struct diag *d);

/*
 * The same a tensor at a time: begin writes what the file says of all items (their data are not looked at), then
 * each is added in that order, then file_writer_commit(), or file_writer_abort().  A failed call has aborted.
 */
enum fs_status safetensors_begin(struct file_writer *w, const char *path, const struct safetensors_item *items, uint32_t count,
				 const struct safetensors_pair *metadata, uint32_t metadata_count, struct diag *d);
enum fs_status safetensors_add(struct file_writer *w, const struct safetensors_item *item, struct diag *d);

#endif
