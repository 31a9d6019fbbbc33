/* Reading the shared golden set, which others' code computed; small copies in tests/data/golden stand in for it. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <stdarg.h>
#include <stdio.h>

#include "kernel_test.h"

#include "safetensors.h"

/* Of the shared set, or the copy; false: neither is there. */
static inline bool golden_find(struct safetensors *f, const char *name)
{
	const char *shared = getenv("FP8SHARD_SHARED");
	struct diag d = { .status = FS_OK };
	char path[4096];
	snprintf(path, sizeof path, "%s/golden/%s.safetensors", shared ? shared : "../shared", name);
	if (safetensors_open(f, path, &d) == FS_OK)
		return true;
	snprintf(path, sizeof path, "tests/data/golden/%s.safetensors", name);
	d = (struct diag){ .status = FS_OK };
	return safetensors_open(f, path, &d) == FS_OK;
}

static inline struct safetensors open_golden(const char *name)
{
	struct safetensors f;
	ck_assert_msg(golden_find(&f, name), "no golden file %s", name);
	return f;
}

/* data NULL where the file has no such tensor; free(view.data). */
static inline struct view maybe(const struct safetensors *f, const char *name)
{
	const struct safetensors_entry *e = safetensors_find(f, name);
	struct diag d = { .status = FS_OK };
	struct view none = { .data = NULL };
	if (!e)
		return none;
	struct view v = view_of(malloc((size_t)e->bytes + 1), e->dtype, e->rank, e->dims);
	ck_assert_msg(safetensors_read(f, e, 0, e->bytes, v.data, &d) == FS_OK, "%s", d.text);
	return v;
}

static inline struct view tensor(const struct safetensors *f, const char *name)
{
	struct view v = maybe(f, name);
	ck_assert_msg(v.data != NULL, "no tensor %s", name);
	return v;
}

__attribute__((format(printf, 1, 2))) static inline const char *text(const char *format, ...)
{
	static char buffers[4][256];
	static int at;
	va_list list;
	char *s = buffers[at++ % 4];
	va_start(list, format);
	vsnprintf(s, sizeof buffers[0], format, list);
	va_end(list);
	return s;
}

#endif
