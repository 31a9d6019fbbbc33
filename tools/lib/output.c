#include "output.h"

#include <errno.h>
#include <string.h>

enum fs_status output_is_no_input(const char *option, const char *path, const char *input, struct diag *d)
{
	if (path == NULL || input == NULL || !file_same(path, input))
		return FS_OK;
	return diag_set(d, FS_INVALID, "%s %s: that is an input; name another file", option, path);
}

enum fs_status outputs_differ(const char *option, const char *path, const char *other_option, const char *other,
			      struct diag *d)
{
	if (path == NULL || other == NULL || (strcmp(path, other) != 0 && !file_same(path, other)))
		return FS_OK;
	return diag_set(d, FS_INVALID, "%s %s: that is the file of %s; name another one", option, path, other_option);
}

enum fs_status output_flush(struct diag *d)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return FS_OK;
	return diag_set(d, FS_IO, "standard output: %s", strerror(errno));
}
