/* Elements of constants: from any type to f32, f64 and int64, and back, with the kernels' roundings. */
#ifndef FS_FOLD_ELEMENT_H
#define FS_FOLD_ELEMENT_H

#include "dtype.h"
#include "scalar.h"

/* No fp8: nothing of that type is folded. */
#define ELEMENT_INTEGERS(X) \
	X(I64, int64_t) X(I32, int32_t) X(I16, int16_t) X(I8, int8_t) X(U8, uint8_t) X(U32, uint32_t)

static inline double load_double(enum dtype t, const void *from)
{
	switch (t) {
#define ELEMENT(name, stored) case DT_##name: return (double)*(const stored *)from;
	ELEMENT_INTEGERS(ELEMENT)
	ELEMENT(F64, double)
	ELEMENT(F32, float)
#undef ELEMENT
	case DT_F16: return (double)f16_decode(*(const uint16_t *)from);
	case DT_BF16: return (double)bf16_decode(*(const uint16_t *)from);
	default: return *(const uint8_t *)from != 0;
	}
}

/* 64-bit integers round once, as they do in the kernels. */
static inline float load_float(enum dtype t, const void *from)
{
	return t == DT_I64 ? (float)*(const int64_t *)from : (float)load_double(t, from);
}

static inline int64_t load_integer(enum dtype t, const void *from)
{
	switch (t) {
#define ELEMENT(name, stored) case DT_##name: return (int64_t)*(const stored *)from;
	ELEMENT_INTEGERS(ELEMENT)
#undef ELEMENT
	case DT_BOOL: return *(const uint8_t *)from != 0;
	default: return i64_from_f64(load_double(t, from));
	}
}

static inline void store_integer(enum dtype t, int64_t x, void *to)
{
	switch (t) {
#define ELEMENT(name, stored) case DT_##name: *(stored *)to = (stored)x; break;
	ELEMENT_INTEGERS(ELEMENT)
	ELEMENT(F64, double)
	ELEMENT(F32, float)
#undef ELEMENT
	case DT_F16: *(uint16_t *)to = f16_encode((float)x); break;
	case DT_BF16: *(uint16_t *)to = bf16_encode((float)x); break;
	default: *(uint8_t *)to = x != 0;
	}
}

static inline void store_double(enum dtype t, double x, void *to)
{
	switch (t) {
	case DT_F64: *(double *)to = x; break;
	case DT_F32: *(float *)to = (float)x; break;
	case DT_F16: *(uint16_t *)to = f16_encode(f64_to_f32_odd(x)); break;
	case DT_BF16: *(uint16_t *)to = bf16_encode(f64_to_f32_odd(x)); break;
	case DT_BOOL: *(uint8_t *)to = x != 0; break;
	default: store_integer(t, i64_from_f64(x), to);
	}
}

static inline void store_float(enum dtype t, float x, void *to)
{
	switch (t) {
	case DT_F16: *(uint16_t *)to = f16_encode(x); break;
	case DT_BF16: *(uint16_t *)to = bf16_encode(x); break;
	default: store_double(t, (double)x, to);
	}
}

#undef ELEMENT_INTEGERS
#endif
