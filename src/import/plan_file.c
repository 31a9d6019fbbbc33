#include "plan_file.h"
#include "file.h"

#include <stdlib.h>

enum fs_status plan_open(const char *path, struct plan **out, struct diag *d)
{
	struct file f;
	char *text = NULL;
	TRY(file_open(&f, path, d));
	enum fs_status status = file_read_text(&f, 0, f.size, &text, d);
	if (status == FS_OK)
		status = plan_read(text, (size_t)f.size, path, out, d);
	free(text);
	file_close(&f);
	return status;
}
