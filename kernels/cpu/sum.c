/* Sums whose order depends on the number of elements alone; see internal.h. */
#include "internal.h"

#define LANES 16

#define SUMS(suffix, T)                                                             \
	T block_sum_##suffix(const T *x, int64_t n)                                 \
	{                                                                           \
		T lane[LANES] = { 0 };                                              \
		int64_t i = 0;                                                      \
		for (; i + LANES <= n; i += LANES)                                  \
			for (int j = 0; j < LANES; j++)                             \
				lane[j] += x[i + j];                                \
		for (int j = 0; i + j < n; j++)                                     \
			lane[j] += x[i + j];                                        \
		for (int width = LANES / 2; width; width /= 2)                      \
			for (int j = 0; j < width; j++)                             \
				lane[j] += lane[j + width];                         \
		return lane[0];                                                     \
	}                                                                           \
	/* A binary counter of blocks: level l holds the sum of 2^l of them. */     \
	void sum_add_##suffix(struct sum_##suffix *s, T block)                      \
	{                                                                           \
		int l = 0;                                                          \
		for (uint64_t n = s->blocks++; n & 1; n >>= 1)                      \
			block = s->level[l++] + block;                              \
		s->level[l] = block;                                                \
	}                                                                           \
	T sum_total_##suffix(const struct sum_##suffix *s)                          \
	{                                                                           \
		T total = 0;                                                        \
		for (int l = 0; s->blocks >> l; l++)                                \
			if (s->blocks >> l & 1)                                     \
				total = s->level[l] + total;                        \
		return total;                                                       \
	}

SUMS(f32, float)
SUMS(f64, double)

static int64_t block_at(int64_t i, int64_t n)
{
	return n - i < SUM_BLOCK ? n - i : SUM_BLOCK;
}

static float sum_f32(const float *x, int64_t n, bool square)
{
	struct sum_f32 s = { .blocks = 0 };
	float block[SUM_BLOCK];
	for (int64_t i = 0; i < n; i += SUM_BLOCK) {
		int64_t m = block_at(i, n);
		for (int64_t j = 0; square && j < m; j++)
			block[j] = x[i + j] * x[i + j];
		sum_add_f32(&s, block_sum_f32(square ? block : x + i, m));
	}
	return sum_total_f32(&s);
}

/* The squares are rounded to f32, as without `exact`. */
static double sum_f64(const float *x, int64_t n, bool square)
{
	struct sum_f64 s = { .blocks = 0 };
	double block[SUM_BLOCK];
	for (int64_t i = 0; i < n; i += SUM_BLOCK) {
		int64_t m = block_at(i, n);
		for (int64_t j = 0; j < m; j++)
			block[j] = square ? (double)(x[i + j] * x[i + j]) : (double)x[i + j];
		sum_add_f64(&s, block_sum_f64(block, m));
	}
	return sum_total_f64(&s);
}

float sum_row(const float *x, int64_t n, bool exact)
{
	return exact ? (float)sum_f64(x, n, false) : sum_f32(x, n, false);
}

float mean_row(const float *x, int64_t n, int64_t count, bool square, bool exact)
{
	if (exact)
		return (float)(sum_f64(x, n, square) / (double)count);
	return sum_f32(x, n, square) / (float)count;
}
