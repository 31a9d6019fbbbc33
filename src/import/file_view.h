/*
 * A tensor as it lies in a file: sizes, strides, offset; and reading a box out of it.
 */
#ifndef FS_FILE_VIEW_H
#define FS_FILE_VIEW_H

#include "dtype.h"
#include "file.h"

enum { FILE_VIEW_MAX_RANK = 32 };

struct file_view {
	enum dtype dtype;
	int rank;
	const int64_t *dims;
	const int64_t *strides; /* in elements, not negative; NULL: row-major */
	int64_t offset;         /* of the first element, bytes from the start of the file */
};

/* Elements, or bytes, of a dense tensor: false on overflow or where a dim is negative. */
bool file_view_numel(const int64_t *dims, int rank, int64_t *numel);
bool file_view_dense_bytes(enum dtype t, const int64_t *dims, int rank, int64_t *bytes);
/* Bytes from the first element to the end of the farthest one. */
bool file_view_span(const struct file_view *v, int64_t *bytes);
/*
 * Reads the box [start, start + extent) into `dst`, row-major and dense; touches no other bytes
 * of the file where the box is contiguous.  The box must lie in the tensor (BUG otherwise).
 */
enum fs_status file_view_read(const struct file *f, const struct file_view *v, const int64_t *start,
			 const int64_t *extent, void *dst, struct diag *d);

/* "f32[2,2]"; long shapes end in "...". */
struct file_view_text { char s[160]; };
struct file_view_text file_view_describe(const char *dtype, const int64_t *dims, int rank);

#endif
