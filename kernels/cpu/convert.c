/* Runs of elements of any type, from and to dense arrays of f32, f64 or int64. */
#include "internal.h"
#include "scalar.h"

/*
 * Storage type, and its values as f32, f64, int64; from each of them to storage.  Integers reach
 * narrow floats through f32, as in torch.
 *
 *     name  stored    f32 of x          f64 of x                  i64 of x                          */
#define FLOAT_TYPES(X)                                                                                 \
	X(F64,  double,   (float)x,          x,                       i64_from_f64(x))                 \
	X(F32,  float,    x,                 (double)x,               i64_from_f64((double)x))         \
	X(F16,  uint16_t, f16_decode(x),     (double)f16_decode(x),   i64_from_f64((double)f16_decode(x)))  \
	X(BF16, uint16_t, bf16_decode(x),    (double)bf16_decode(x),  i64_from_f64((double)bf16_decode(x))) \
	X(E4M3, uint8_t,  e4m3_decode(x),    (double)e4m3_decode(x),  i64_from_f64((double)e4m3_decode(x))) \
	X(E5M2, uint8_t,  e5m2_decode(x),    (double)e5m2_decode(x),  i64_from_f64((double)e5m2_decode(x)))
#define INTEGER_TYPES(X)                                               \
	X(I64,  int64_t,  (float)x, (double)x, x)                      \
	X(I32,  int32_t,  (float)x, (double)x, x)                      \
	X(I16,  int16_t,  (float)x, (double)x, x)                      \
	X(I8,   int8_t,   (float)x, (double)x, x)                      \
	X(U8,   uint8_t,  (float)x, (double)x, x)                      \
	X(U32,  uint32_t, (float)x, (double)x, x)                      \
	X(BOOL, uint8_t,  (float)(x != 0), (double)(x != 0), x != 0)

#define LOADERS(name, stored, as_f32, as_f64, as_i64)  \
	LOADER(name, stored, f32, float, as_f32)       \
	LOADER(name, stored, f64, double, as_f64)      \
	LOADER(name, stored, i64, int64_t, as_i64)
#define LOADER(name, stored, suffix, T, value)                                                         \
	static void load_##name##_##suffix(const void *from, int64_t step, void *to, int64_t n)        \
	{                                                                                              \
		const stored *p = from;                                                                \
		T *y = to;                                                                             \
		for (int64_t i = 0; i < n; i++) {                                                      \
			stored x = p[i * step];                                                        \
			y[i] = value;                                                                  \
		}                                                                                      \
	}
FLOAT_TYPES(LOADERS)
INTEGER_TYPES(LOADERS)

/*     name  stored    of an f32 x                      of an f64 x                          of an int64 x */
#define STORE_TYPES(X)                                                                                        \
	X(F64,  double,   (double)x,                       x,                                   (double)x)            \
	X(F32,  float,    x,                               (float)x,                            (float)x)             \
	X(F16,  uint16_t, f16_encode(x),                   f16_encode(f64_to_f32_odd(x)),       f16_encode((float)x)) \
	X(BF16, uint16_t, bf16_encode(x),                  bf16_encode(f64_to_f32_odd(x)),      bf16_encode((float)x)) \
	X(E4M3, uint8_t,  e4m3_encode(x),                  e4m3_encode(f64_to_f32_odd(x)),      e4m3_encode((float)x)) \
	X(E5M2, uint8_t,  e5m2_encode(x),                  e5m2_encode(f64_to_f32_odd(x)),      e5m2_encode((float)x)) \
	X(I64,  int64_t,  i64_from_f64((double)x),         i64_from_f64(x),                     x)                    \
	X(I32,  int32_t,  (int32_t)i64_from_f64((double)x),  (int32_t)i64_from_f64(x),          (int32_t)x)           \
	X(I16,  int16_t,  (int16_t)i64_from_f64((double)x),  (int16_t)i64_from_f64(x),          (int16_t)x)           \
	X(I8,   int8_t,   (int8_t)i64_from_f64((double)x),   (int8_t)i64_from_f64(x),           (int8_t)x)            \
	X(U8,   uint8_t,  (uint8_t)i64_from_f64((double)x),  (uint8_t)i64_from_f64(x),          (uint8_t)x)           \
	X(U32,  uint32_t, (uint32_t)i64_from_f64((double)x), (uint32_t)i64_from_f64(x),         (uint32_t)x)          \
	X(BOOL, uint8_t,  x != 0,                          x != 0,                              x != 0)

#define STORERS(name, stored, of_f32, of_f64, of_i64)  \
	STORER(name, stored, f32, float, of_f32)       \
	STORER(name, stored, f64, double, of_f64)      \
	STORER(name, stored, i64, int64_t, of_i64)
#define STORER(name, stored, suffix, T, value)                                                          \
	static void store_##name##_##suffix(void *to, int64_t step, const void *from, int64_t n)        \
	{                                                                                               \
		stored *p = to;                                                                         \
		const T *y = from;                                                                      \
		for (int64_t i = 0; i < n; i++) {                                                       \
			T x = y[i];                                                                     \
			p[i * step] = value;                                                            \
		}                                                                                       \
	}
STORE_TYPES(STORERS)

typedef void load_fn(const void *from, int64_t step, void *to, int64_t n);
typedef void store_fn(void *to, int64_t step, const void *from, int64_t n);

static const struct row {
	load_fn *load[3];
	store_fn *store[3];
	enum compute compute;
} rows[DT_COUNT] = {
#define ROW(name, in)                                                                     \
	[DT_##name] = { { load_##name##_f32, load_##name##_f64, load_##name##_i64 },      \
			{ store_##name##_f32, store_##name##_f64, store_##name##_i64 }, in },
#define FLOAT_ROW(name, ...) ROW(name, IN_F32)
#define INTEGER_ROW(name, ...) ROW(name, IN_I64)
	FLOAT_TYPES(FLOAT_ROW)
	INTEGER_TYPES(INTEGER_ROW)
};

#define CHUNK 256

ANY_WIDTH static void widen(const float *x, double *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = (double)x[i];
}

ANY_WIDTH static void narrow(const double *x, float *y, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		y[i] = f64_to_f32_odd(x[i]);
}

enum compute compute_of(enum dtype t)
{
	return t == DT_F64 ? IN_F64 : rows[t].compute;
}

void load_f32(enum dtype t, const void *from, int64_t step, float *to, int64_t n)
{
	if (step != 1 || !load_f32_avx2(t, from, to, n))
		rows[t].load[IN_F32](from, step, to, n);
}

/* Dense narrow floats have a fast way to and from f32 only; every one is an f32. */
static bool is_narrow_float(enum dtype t)
{
	return t == DT_F16 || t == DT_BF16 || t == DT_E4M3 || t == DT_E5M2;
}

void load_f64(enum dtype t, const void *from, int64_t step, double *to, int64_t n)
{
	float x[CHUNK];
	if (step != 1 || n < 8 || !is_narrow_float(t)) {
		rows[t].load[IN_F64](from, step, to, n);
		return;
	}
	for (int64_t i = 0; i < n; i += CHUNK) {
		int64_t m = n - i < CHUNK ? n - i : CHUNK;
		load_f32(t, (const char *)from + i * dtype_size(t), 1, x, m);
		widen(x, to + i, m);
	}
}

void load_i64(enum dtype t, const void *from, int64_t step, int64_t *to, int64_t n)
{
	rows[t].load[IN_I64](from, step, to, n);
}

void store_f32(enum dtype t, void *to, int64_t step, const float *from, int64_t n)
{
	if (step != 1 || !store_f32_avx2(t, to, from, n))
		rows[t].store[IN_F32](to, step, from, n);
}

void store_f64(enum dtype t, void *to, int64_t step, const double *from, int64_t n)
{
	float x[CHUNK];
	if (step != 1 || n < 8 || !is_narrow_float(t)) {
		rows[t].store[IN_F64](to, step, from, n);
		return;
	}
	for (int64_t i = 0; i < n; i += CHUNK) {
		int64_t m = n - i < CHUNK ? n - i : CHUNK;
		narrow(from + i, x, m);
		store_f32(t, (char *)to + i * dtype_size(t), 1, x, m);
	}
}

void store_i64(enum dtype t, void *to, int64_t step, const int64_t *from, int64_t n)
{
	rows[t].store[IN_I64](to, step, from, n);
}
