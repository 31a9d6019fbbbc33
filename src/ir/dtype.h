/* Element types.  The table is dtype.def; this header needs nothing else of the project. */
#ifndef FS_DTYPE_H
#define FS_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

enum dtype {
	DT_NONE,
#define DTYPE(name, text, bytes, class, st, torch) DT_##name,
#include "dtype.def"
#undef DTYPE
	DT_COUNT
};

enum dtype_class { DC_NONE, DC_BOOLEAN, DC_INT, DC_FP8, DC_FLOAT };

int dtype_size(enum dtype t);                  /* bytes of an element */
enum dtype_class dtype_class(enum dtype t);
const char *dtype_text(enum dtype t);          /* "bf16" */
const char *dtype_safetensors(enum dtype t);   /* "BF16" */
/* DT_NONE where there is no such type. */
enum dtype dtype_from_text(const char *s);
enum dtype dtype_from_safetensors(const char *s);
enum dtype dtype_from_torch(int64_t number);

static inline bool dtype_is_float(enum dtype t)
{
	return t == DT_F64 || t == DT_F32 || t == DT_F16 || t == DT_BF16;
}

#endif
