/* Look-ups in dtype.def. */
#include "dtype.h"

#include <stddef.h>
#include <string.h>

static const struct row {
	const char *text, *safetensors;
	int size, torch;
	enum dtype_class class;
} rows[DT_COUNT] = {
	[DT_NONE] = { "none", "", 0, -1, DC_NONE },
#define DTYPE(name, text, bytes, class, st, torch) [DT_##name] = { text, st, bytes, torch, DC_##class },
#include "dtype.def"
#undef DTYPE
};

int dtype_size(enum dtype t)
{
	return rows[t].size;
}

enum dtype_class dtype_class(enum dtype t)
{
	return rows[t].class;
}

const char *dtype_text(enum dtype t)
{
	return rows[t].text;
}

const char *dtype_safetensors(enum dtype t)
{
	return rows[t].safetensors;
}

enum dtype dtype_from_text(const char *s)
{
	for (int t = 1; t < DT_COUNT; t++)
		if (strcmp(rows[t].text, s) == 0)
			return (enum dtype)t;
	return DT_NONE;
}

enum dtype dtype_from_safetensors(const char *s)
{
	for (int t = 1; t < DT_COUNT; t++)
		if (strcmp(rows[t].safetensors, s) == 0)
			return (enum dtype)t;
	return DT_NONE;
}

enum dtype dtype_from_torch(int64_t number)
{
	for (int t = 1; t < DT_COUNT; t++)
		if (rows[t].torch == number && number > 0)
			return (enum dtype)t;
	return DT_NONE;
}
