/*
 * Dense runs of narrow floats, eight at a time.  Same bits as scalar.h.
 * (The tail of a run goes through scalar.h.)
 */
#include "internal.h"
#include "scalar.h"

#include <string.h>

#ifdef HAVE_AVX2
#include <immintrin.h>

TARGET_AVX2 static void load_bf16(const uint16_t *p, float *y, int64_t n)
{
	int64_t i = 0;
	for (; i + 8 <= n; i += 8) {
		__m256i x = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p + i)));
		_mm256_storeu_si256((void *)(y + i), _mm256_slli_epi32(x, 16));
	}
	for (; i < n; i++)
		y[i] = bf16_decode(p[i]);
}

TARGET_AVX2 static void load_f16(const uint16_t *p, float *y, int64_t n)
{
	int64_t i = 0;
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + i))));
	for (; i < n; i++)
		y[i] = f16_decode(p[i]);
}

/* Sixteen codes, each in the upper byte of a 16-bit number. */
TARGET_AVX2 static inline __m256i upper_bytes(const uint8_t *p)
{
	return _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)p)), 8);
}

TARGET_AVX2 static inline __m256 low_f16(__m256i h)
{
	return _mm256_cvtph_ps(_mm256_castsi256_si128(h));
}

TARGET_AVX2 static inline __m256 high_f16(__m256i h)
{
	return _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1));
}

/* The code's exponent and mantissa, moved to those of an f16, are a number that is 2^8 too small. */
TARGET_AVX2 static void load_e4m3(const uint8_t *p, float *y, int64_t n)
{
	const __m256i nan = _mm256_set1_epi16(0x7f00), all_but_14 = _mm256_set1_epi16((short)0xbfff);
	const __m256 rescale = _mm256_set1_ps(0x1p8f);
	int64_t i = 0;
	for (; i + 16 <= n; i += 16) {
		__m256i x = upper_bytes(p + i);
		__m256i is_nan = _mm256_cmpeq_epi16(_mm256_and_si256(x, nan), nan);
		__m256i h = _mm256_and_si256(_mm256_srai_epi16(x, 1), all_but_14);
		h = _mm256_or_si256(h, _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7e00)));
		_mm256_storeu_ps(y + i, _mm256_mul_ps(low_f16(h), rescale));
		_mm256_storeu_ps(y + i + 8, _mm256_mul_ps(high_f16(h), rescale));
	}
	for (; i < n; i++)
		y[i] = e4m3_decode(p[i]);
}

TARGET_AVX2 static void load_e5m2(const uint8_t *p, float *y, int64_t n)
{
	int64_t i = 0;
	for (; i + 16 <= n; i += 16) {
		__m256i h = upper_bytes(p + i);
		_mm256_storeu_ps(y + i, low_f16(h));
		_mm256_storeu_ps(y + i + 8, high_f16(h));
	}
	for (; i < n; i++)
		y[i] = e5m2_decode(p[i]);
}

/* Eight 32-bit numbers below 2^16, in order, as 16-bit ones. */
TARGET_AVX2 static inline __m128i narrow_to_16(__m256i x)
{
	__m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(x, x), 0x08);
	return _mm256_castsi256_si128(packed);
}

/* Adds just under half a unit of bit `shift`, and the rest of it where that bit is odd. */
TARGET_AVX2 static inline __m256i round_even(__m256i bits, int shift)
{
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, shift), _mm256_set1_epi32(1));
	return _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32((1 << (shift - 1)) - 1));
}

TARGET_AVX2 static inline __m256i is_nan(__m256 x)
{
	return _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

/* The bf16 of each in its lower half. */
TARGET_AVX2 static inline __m256i encode_bf16(__m256 x)
{
	__m256i h = _mm256_srli_epi32(round_even(_mm256_castps_si256(x), 16), 16);
	return _mm256_blendv_epi8(h, _mm256_set1_epi32(0x7fc0), is_nan(x));
}

TARGET_AVX2 static void store_bf16(uint16_t *p, const float *y, int64_t n)
{
	int64_t i = 0;
	for (; i + 16 <= n; i += 16) {
		__m256i low = encode_bf16(_mm256_loadu_ps(y + i)), high = encode_bf16(_mm256_loadu_ps(y + i + 8));
		__m256i h = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
		_mm256_storeu_si256((void *)(p + i), h);
	}
	for (; i < n; i++)
		p[i] = bf16_encode(y[i]);
}

TARGET_AVX2 static void store_f16(uint16_t *p, const float *y, int64_t n)
{
	int64_t i = 0;
	for (; i + 8 <= n; i += 8)
		_mm_storeu_si128((void *)(p + i),
				 _mm256_cvtps_ph(_mm256_loadu_ps(y + i), _MM_FROUND_TO_NEAREST_INT));
	for (; i < n; i++)
		p[i] = f16_encode(y[i]);
}

/* What e4m3 and e5m2 differ in. */
struct fp8_format {
	int shift;            /* f32 mantissa bits that the code lacks */
	uint32_t max, normal; /* f32 bits of the largest value, the smallest normal one */
	uint32_t rebias;
	float subnormal_unit; /* a number whose last bit is the smallest subnormal */
};
static const struct fp8_format e4m3_format = { 20, 0x43e00000, 0x3c800000, 0x3c000000, 0x1p14f };
static const struct fp8_format e5m2_format = { 21, 0x47600000, 0x38800000, 0x38000000, 0x1p7f };

TARGET_AVX2 static inline __attribute__((always_inline)) __m256i encode_fp8(__m256 x, const struct fp8_format f)
{
	__m256i bits = _mm256_castps_si256(x);
	__m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), _mm256_set1_epi32(0x80));
	__m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
	magnitude = _mm256_min_epi32(magnitude, _mm256_set1_epi32((int)f.max));
	__m256i normal = _mm256_srli_epi32(
		_mm256_sub_epi32(round_even(magnitude, f.shift), _mm256_set1_epi32((int)f.rebias)), f.shift);
	__m256 unit = _mm256_set1_ps(f.subnormal_unit);
	__m256i subnormal = _mm256_sub_epi32(
		_mm256_castps_si256(_mm256_add_ps(_mm256_castsi256_ps(magnitude), unit)),
		_mm256_castps_si256(unit));
	__m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)f.normal), magnitude);
	__m256i code = _mm256_or_si256(_mm256_blendv_epi8(normal, subnormal, small), sign);
	return _mm256_blendv_epi8(code, _mm256_set1_epi32(0x7f), is_nan(x));
}

TARGET_AVX2 static inline __attribute__((always_inline)) int64_t
store_fp8(uint8_t *p, const float *y, int64_t n, const struct fp8_format f)
{
	int64_t i = 0;
	for (; i + 8 <= n; i += 8) {
		__m128i h = narrow_to_16(encode_fp8(_mm256_loadu_ps(y + i), f));
		_mm_storel_epi64((void *)(p + i), _mm_packus_epi16(h, h));
	}
	return i;
}

TARGET_AVX2 static void store_e4m3(uint8_t *p, const float *y, int64_t n)
{
	for (int64_t i = store_fp8(p, y, n, e4m3_format); i < n; i++)
		p[i] = e4m3_encode(y[i]);
}

TARGET_AVX2 static void store_e5m2(uint8_t *p, const float *y, int64_t n)
{
	for (int64_t i = store_fp8(p, y, n, e5m2_format); i < n; i++)
		p[i] = e5m2_encode(y[i]);
}

TARGET_AVX2 static uint32_t amax_bits(const float *x, int64_t n)
{
	const __m256i mask = _mm256_set1_epi32(0x7fffffff);
	__m256i m0 = _mm256_setzero_si256(), m1 = m0, m2 = m0, m3 = m0;
	int64_t i = 0;
	for (; i + 32 <= n; i += 32) {
		const __m256i *p = (const void *)(x + i);
		m0 = _mm256_max_epu32(m0, _mm256_and_si256(_mm256_loadu_si256(p), mask));
		m1 = _mm256_max_epu32(m1, _mm256_and_si256(_mm256_loadu_si256(p + 1), mask));
		m2 = _mm256_max_epu32(m2, _mm256_and_si256(_mm256_loadu_si256(p + 2), mask));
		m3 = _mm256_max_epu32(m3, _mm256_and_si256(_mm256_loadu_si256(p + 3), mask));
	}
	uint32_t lane[8], most = 0;
	m0 = _mm256_max_epu32(_mm256_max_epu32(m0, m1), _mm256_max_epu32(m2, m3));
	_mm256_storeu_si256((void *)lane, m0);
	for (int j = 0; j < 8; j++)
		most = lane[j] > most ? lane[j] : most;
	for (; i < n; i++)
		most = (f32_bits(x[i]) & 0x7fffffff) > most ? f32_bits(x[i]) & 0x7fffffff : most;
	return most;
}

bool load_f32_avx2(enum dtype t, const void *from, float *to, int64_t n)
{
	if (n < 8 || !HAVE_AVX2())
		return false;
	switch (t) {
	case DT_F32: memcpy(to, from, (size_t)n * sizeof *to); return true;
	case DT_BF16: load_bf16(from, to, n); return true;
	case DT_F16: load_f16(from, to, n); return true;
	case DT_E4M3: load_e4m3(from, to, n); return true;
	case DT_E5M2: load_e5m2(from, to, n); return true;
	default: return false;
	}
}

bool store_f32_avx2(enum dtype t, void *to, const float *from, int64_t n)
{
	if (n < 8 || !HAVE_AVX2())
		return false;
	switch (t) {
	case DT_F32: memcpy(to, from, (size_t)n * sizeof *from); return true;
	case DT_BF16: store_bf16(to, from, n); return true;
	case DT_F16: store_f16(to, from, n); return true;
	case DT_E4M3: store_e4m3(to, from, n); return true;
	case DT_E5M2: store_e5m2(to, from, n); return true;
	default: return false;
	}
}

#else

bool load_f32_avx2(enum dtype t, const void *from, float *to, int64_t n)
{
	(void)t, (void)from, (void)to, (void)n;
	return false;
}

bool store_f32_avx2(enum dtype t, void *to, const float *from, int64_t n)
{
	(void)t, (void)to, (void)from, (void)n;
	return false;
}

#endif

uint32_t amax_bits_f32(const float *x, int64_t n)
{
#ifdef HAVE_AVX2
	if (n >= 32 && HAVE_AVX2())
		return amax_bits(x, n);
#endif
	uint32_t most = 0;
	for (int64_t i = 0; i < n; i++)
		most = (f32_bits(x[i]) & 0x7fffffff) > most ? f32_bits(x[i]) & 0x7fffffff : most;
	return most;
}
