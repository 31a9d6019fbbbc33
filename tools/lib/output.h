/* What the programs write: files that are not also read, and standard output. */
#ifndef FS_OUTPUT_H
#define FS_OUTPUT_H

#include "file.h"

/* Refuses to let `option` write to `path` where that is the file `input`, which is read.  Any may be NULL. */
enum fs_status output_is_no_input(const char *option, const char *path, const char *input, struct diag *d);
/* Refuses one name for the files of two options.  Any may be NULL. */
enum fs_status outputs_differ(const char *option, const char *path, const char *other_option, const char *other,
			      struct diag *d);
/* All that was printed is out, or an error: a full disk, a closed pipe. */
enum fs_status output_flush(struct diag *d);

#endif
