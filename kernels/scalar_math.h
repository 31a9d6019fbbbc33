/*
 * exp, erf and tanh in f32, for loops over arrays: no branches, no calls, no tables, and nothing but
 * single IEEE operations in a fixed order.  So compilers vectorize them, and the bits are the same
 * from every compiler, at every vector width, and from one libm to the next.
 *
 * Largest errors of all 2^32 operands, against f64 libm: exp 1.00 ulp, erf 1.24, tanh 1.34.
 *
 * Polynomials are summed in pairs of terms (G. Estrin, 1960): the shorter the chains, the more of the
 * next elements a core has under way.
 *
 * Coefficients: least squares on 600 Chebyshev nodes in f64, of expressions known to 40 digits
 * (mpmath), reweighted until the largest relative error of the function is least (C. Lawson, 1961).
 * They are rounded to f32 one by one, lowest first, the others fitted again each time.
 *
 * The f64 forms are libm's.
 */
#ifndef FS_SCALAR_MATH_H
#define FS_SCALAR_MATH_H

#include <math.h>
#include <stdint.h>

/*
 * x = n ln 2 + r, |r| <= ln 2 / 2, |x| < 2^7.  Gives exp(r) and, in *n, 0x1.8p23 + n.
 *
 * exp(r) = 1 + r + r^2 P(r), to 0.05 * 2^-24.  Adding 1.5 * 2^23 rounds to an integer, which is left in
 * the low bits.  ln 2 is subtracted in two parts (Cody and Waite): n times the first, of 15 bits, is
 * exact.
 */
static inline float exp_reduced(float x, float *n)
{
	float t = x * 0x1.715476p0f + 0x1.8p23f, whole = t - 0x1.8p23f;
	float r = (x - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f;
	float s = r * r, p = 0x1.6a4d6p-10f * s + (0x1.12398ep-7f * r + 0x1.5558bp-5f);
	p = p * s + (0x1.555492p-3f * r + 0x1.fffffcp-2f);
	*n = t;
	return (p * s + r) + 1;
}

/* 2^n is applied as two factors, because it may be no f32 where the result is denormal, or infinite. */
static inline float scalar_expf(float x)
{
	float n, p = exp_reduced(x > 89 ? 89 : x < -104 ? -104 : x, &n);
	int32_t k = (int32_t)(f32_bits(n) - f32_bits(0x1.8p23f)), half = k >> 1;
	float first = f32_from_bits((uint32_t)(half + 127) << 23);
	float second = f32_from_bits((uint32_t)(k - half + 127) << 23);
	return p * first * second;
}

/* exp(x) for |x| <= 50, the same bits. */
static inline float small_expf(float x)
{
	float n, p = exp_reduced(x, &n);
	return p * f32_from_bits((f32_bits(n) + 127) << 23);
}

/*
 * Near 0, x + x P(x^2), to 0.28 * 2^-24; from 0.93 on, 1 - exp(-(x + x Q(x))), to 0.01 * 2^-24.
 * The idea of two such parts is N. Juffa's.  From 3.92 on the result is 1: there Q grows on, until it
 * is infinite or NaN.
 */
static inline float scalar_erff(float x)
{
	uint32_t sign = f32_bits(x) & 0x80000000;
	float t = f32_from_bits(f32_bits(x) ^ sign), s = t * t;
	float p = -0x1.38fed6p-11f * s + 0x1.46fbacp-8f, q = 0x1.82af48p-17f * s;
	p = p * (s * s) + (-0x1.b681aep-6f * s + 0x1.ce19e6p-4f);
	p = p * (s * s) + (-0x1.8126e4p-2f * s + 0x1.06eba6p-3f);
	q = (q + (-0x1.5590fep-12f * t + 0x1.defecap-9f)) * (s * s);
	q = q + ((-0x1.85bbecp-6f * t + 0x1.b34476p-4f) * s + (0x1.453034p-1f * t + 0x1.077b2ep-3f));
	q = q * t + t;
	float near = t * p + t, far = 1 - small_expf(q < 50 ? -q : -50);
	return f32_from_bits(f32_bits(t > 0.927734375f ? far : near) | sign);
}

/* Near 0, x + x^3 P(x^2), to 0.07 * 2^-24; else 1 - 2 / (exp(2 x) + 1), which is 1 from 9.02 on. */
static inline float scalar_tanhf(float x)
{
	uint32_t sign = f32_bits(x) & 0x80000000;
	float t = f32_from_bits(f32_bits(x) ^ sign);
	float s = t * t, p = -0x1.750ce4p-8f * s + 0x1.51f8cep-6f;
	p = p * (s * s) + (-0x1.b835a4p-5f * s + 0x1.1106f6p-3f);
	p = p * s + -0x1.555532p-2f;
	float near = p * s * t + t, far = 1 - 2 / (small_expf(t > 25 ? 50 : t + t) + 1);
	return f32_from_bits(f32_bits(t > 0.625f ? far : near) | sign);
}

static inline double scalar_exp(double x)
{
	return exp(x);
}

static inline double scalar_erf(double x)
{
	return erf(x);
}

static inline double scalar_tanh(double x)
{
	return tanh(x);
}

#endif
