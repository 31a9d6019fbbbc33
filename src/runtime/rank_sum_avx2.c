/* Sums of f32 and bf16 over ranks, held in registers.  Same bits as the loops of rank_reduce.c. */
#include "rank_reduce.h"

#include "cpu/internal.h"

#ifdef HAVE_AVX2
#include <immintrin.h>

#define STEP 16 /* elements at a time */

TARGET_AVX2 static void sum_f32(int ranks, const void *const *in, float *out, size_t count)
{
	for (size_t i = 0; i < count; i += STEP) {
		const float *x = (const float *)in[0] + i;
		__m256 a = _mm256_loadu_ps(x), b = _mm256_loadu_ps(x + 8);
		for (int r = 1; r < ranks; r++) {
			x = (const float *)in[r] + i;
			a = _mm256_add_ps(a, _mm256_loadu_ps(x));
			b = _mm256_add_ps(b, _mm256_loadu_ps(x + 8));
		}
		_mm256_storeu_ps(out + i, a);
		_mm256_storeu_ps(out + i + 8, b);
	}
}

/* bf16_encode, the result in the upper half of each lane. */
TARGET_AVX2 static inline __m256i round_bf16(__m256 x)
{
	__m256i bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
	__m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
	__m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
	return _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc00000), nan);
}

/* Two elements share a lane: the upper one is an f32 once the lower is cleared, and the other way round. */
TARGET_AVX2 static void sum_bf16(int ranks, const void *const *in, uint16_t *out, size_t count)
{
	const __m256i upper = _mm256_set1_epi32((int)0xffff0000);
	for (size_t i = 0; i < count; i += STEP) {
		__m256i x = _mm256_loadu_si256((const void *)((const uint16_t *)in[0] + i));
		__m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(x, 16));
		__m256 odd = _mm256_castsi256_ps(_mm256_and_si256(x, upper));
		for (int r = 1; r < ranks; r++) {
			x = _mm256_loadu_si256((const void *)((const uint16_t *)in[r] + i));
			even = _mm256_add_ps(even, _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)));
			odd = _mm256_add_ps(odd, _mm256_castsi256_ps(_mm256_and_si256(x, upper)));
		}
		__m256i low = _mm256_srli_epi32(round_bf16(even), 16);
		__m256i high = _mm256_and_si256(round_bf16(odd), upper);
		_mm256_storeu_si256((void *)(out + i), _mm256_or_si256(low, high));
	}
}

size_t rank_sum_avx2(enum dtype dtype, int ranks, const void *const *in, void *out, size_t count)
{
	size_t whole = count / STEP * STEP;
	if (!HAVE_AVX2())
		return 0;
	if (dtype == DT_F32)
		sum_f32(ranks, in, out, whole);
	else if (dtype == DT_BF16)
		sum_bf16(ranks, in, out, whole);
	else
		return 0;
	return whole;
}

#else

size_t rank_sum_avx2(enum dtype dtype, int ranks, const void *const *in, void *out, size_t count)
{
	(void)dtype, (void)ranks, (void)in, (void)out, (void)count;
	return 0;
}

#endif
