/*
 * The exported program of torch.export, as JSON: schema 8, at training, inference and core ATen level.
 *
 * In-place ops become functional, ops without effect at run time disappear, higher-order ops are
 * inlined, symbolic dims are bound.  Every type that the file gives is compared with the one inferred.
 */
#ifndef FS_TORCH_H
#define FS_TORCH_H

#include "import.h"

/* `file` names the input in messages; `o` may be NULL.  *out is the caller's: graph_destroy(). */
enum fs_status torch_import(const char *bytes, size_t size, const char *file, const struct import_options *o,
			    struct context *c, struct graph **out, struct diag *d);

#endif
