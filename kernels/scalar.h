/*
 * Single numbers: narrow float formats to and from f32, and the C that pointwise.def needs.
 * Encoders round to nearest, ties to even.  All inline: the compiler's constant folder uses them
 * without linking kernels.
 */
#ifndef FS_SCALAR_H
#define FS_SCALAR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static inline float f32_from_bits(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

/* exp, erf and tanh: scalar_expf(), scalar_exp() and so on. */
#include "scalar_math.h"

/* f64 to f32 so that a second rounding, to a narrower type, rounds as if there was only that one. */
static inline float f64_to_f32_odd(double d)
{
	float f = (float)d;
	uint32_t u = f32_bits(f);
	if ((double)f != d && d == d && !(u & 1))
		u += fabs((double)f) < fabs(d) ? 1u : -1u;
	return f32_from_bits(u);
}

static inline float bf16_decode(uint16_t h)
{
	return f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t bf16_encode(float f)
{
	uint32_t u = f32_bits(f);
	if (f != f)
		return 0x7fc0;
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float f16_decode(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
	if ((h & 0x7c00) == 0x7c00) /* as vcvtph2ps: infinity, or a quiet NaN */
		return f32_from_bits(sign | 0x7f800000 | magnitude | (h & 0x3ff ? 0x400000u : 0));
	return f32_from_bits(f32_bits(f32_from_bits(magnitude) * 0x1p112f) | sign);
}

static inline uint16_t f16_encode(float f)
{
	uint32_t u = f32_bits(f), magnitude = u & 0x7fffffff;
	uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
	if (magnitude > 0x7f800000) /* as vcvtps2ph */
		return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
	if (magnitude >= 0x477ff000) /* 65520 and more */
		return sign | 0x7c00;
	if (magnitude < 0x38800000) /* below 2^-14: adding 2^-1 leaves units of 2^-24 */
		return sign | (uint16_t)(f32_bits(f32_from_bits(magnitude) + 0.5f) - 0x3f000000);
	return sign | (uint16_t)((magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000) >> 13);
}

static inline float e4m3_decode(uint8_t q)
{
	uint32_t sign = (uint32_t)(q & 0x80) << 24;
	if ((q & 0x7f) == 0x7f)
		return f32_from_bits(sign | 0x7fc00000);
	return f32_from_bits(f32_bits(f32_from_bits((uint32_t)(q & 0x7f) << 20) * 0x1p120f) | sign);
}

static inline float e5m2_decode(uint8_t q)
{
	return f16_decode((uint16_t)(q << 8));
}

/* Saturating: finite overflow and infinity give +-448; NaN gives 0x7f. */
static inline uint8_t e4m3_encode(float f)
{
	uint32_t u = f32_bits(f), magnitude = u & 0x7fffffff;
	uint8_t sign = (uint8_t)(u >> 24 & 0x80);
	if (magnitude > 0x7f800000)
		return 0x7f;
	if (magnitude > 0x43e00000) /* 448 */
		magnitude = 0x43e00000;
	if (magnitude < 0x3c800000) /* below 2^-6: adding 2^14 leaves units of 2^-9 */
		return sign | (uint8_t)(f32_bits(f32_from_bits(magnitude) + 0x1p14f) - 0x46800000);
	return sign | (uint8_t)((magnitude + 0x7ffff + (magnitude >> 20 & 1) - 0x3c000000) >> 20);
}

/* Saturating: finite overflow and infinity give +-57344; NaN gives 0x7f. */
static inline uint8_t e5m2_encode(float f)
{
	uint32_t u = f32_bits(f), magnitude = u & 0x7fffffff;
	uint8_t sign = (uint8_t)(u >> 24 & 0x80);
	if (magnitude > 0x7f800000)
		return 0x7f;
	if (magnitude > 0x47600000) /* 57344 */
		magnitude = 0x47600000;
	if (magnitude < 0x38800000) /* below 2^-14: adding 2^7 leaves units of 2^-16 */
		return sign | (uint8_t)(f32_bits(f32_from_bits(magnitude) + 0x1p7f) - 0x43000000);
	return sign | (uint8_t)((magnitude + 0xfffff + (magnitude >> 21 & 1) - 0x38000000) >> 21);
}

/* float to integer as x86 does it: truncated; NaN and what does not fit give INT64_MIN. */
static inline int64_t i64_from_f64(double d)
{
	return d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : INT64_MIN;
}

/* --- integers: wrapping, and defined for every operand --- */

static inline int64_t int_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t int_sub(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t int_mul(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t int_divide(int64_t a, int64_t b)
{
	if (b == 0)
		return 0;
	return b == -1 ? int_sub(0, a) : a / b;
}

static inline int64_t int_fmod(int64_t a, int64_t b)
{
	return b == 0 || b == -1 ? 0 : a % b;
}

static inline int64_t int_remainder(int64_t a, int64_t b)
{
	int64_t r = int_fmod(a, b);
	return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline int64_t int_floor_divide(int64_t a, int64_t b)
{
	return int_sub(int_divide(a, b), int_fmod(a, b) != 0 && (a < 0) != (b < 0));
}

/* Negative powers truncate to 0, except of 1 and -1. */
static inline int64_t int_pow(int64_t a, int64_t b)
{
	if (b < 0)
		return a == 1 ? 1 : a != -1 ? 0 : b % 2 ? -1 : 1;
	int64_t r = 1;
	for (; b; b >>= 1, a = int_mul(a, a))
		if (b & 1)
			r = int_mul(r, a);
	return r;
}

static inline int64_t int_shift_left(int64_t a, int64_t b)
{
	return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}

static inline int64_t int_shift_right(int64_t a, int64_t b)
{
	return a >> (b < 0 || b > 63 ? 63 : b);
}

/* --- floats: what libm lacks.  The f32 forms end in f, as in libm --- */

#define FLOAT_FUNCTIONS(T, f)                                                                        \
	/* Exact where torch is: x * x, x * x * x, 1 / x, sqrt. */                                   \
	static inline T float_pow##f(T a, T b)                                                       \
	{                                                                                            \
		if (b == 2)                                                                          \
			return a * a;                                                                \
		if (b == 3)                                                                          \
			return a * a * a;                                                            \
		return b == (T)0.5 ? sqrt##f(a) : b == -1 ? 1 / a : pow##f(a, b);                    \
	}                                                                                            \
	/* Of the sign of b, as in Python. */                                                        \
	static inline T float_remainder##f(T a, T b)                                                 \
	{                                                                                            \
		T r = fmod##f(a, b);                                                                 \
		return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                     \
	}                                                                                            \
	static inline T float_floor_divide##f(T a, T b)                                              \
	{                                                                                            \
		if (b == 0)                                                                          \
			return a / b;                                                                \
		T r = fmod##f(a, b), q = (a - r) / b;                                                \
		if (r != 0 && (r < 0) != (b < 0))                                                    \
			q -= 1;                                                                      \
		if (q == 0)                                                                          \
			return copysign##f(0, a / b);                                                \
		return q - floor##f(q) > (T)0.5 ? floor##f(q) + 1 : floor##f(q);                     \
	}

FLOAT_FUNCTIONS(float, f)
FLOAT_FUNCTIONS(double, )
#undef FLOAT_FUNCTIONS

#endif
