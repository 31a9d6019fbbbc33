/* Whole rows of f32: what softmax and attention do to one. */
#include "internal.h"
#include "scalar.h"

#define LANES 16

#define MAX_ROW(name, target)                                                                  \
	target static float name(const float *x, int64_t n)                                    \
	{                                                                                      \
		float lane[LANES];                                                             \
		int64_t i = 0;                                                                 \
		for (int j = 0; j < LANES; j++)                                                \
			lane[j] = -INFINITY;                                                   \
		for (; i + LANES <= n; i += LANES)                                             \
			for (int j = 0; j < LANES; j++)                                        \
				lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];             \
		for (int j = 0; i + j < n; j++)                                                \
			lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];                     \
		for (int j = 1; j < LANES; j++)                                                \
			lane[0] = lane[j] > lane[0] ? lane[j] : lane[0];                       \
		return lane[0];                                                                \
	}
MAX_ROW(max_row_plain, )
MAX_ROW(max_row_wide, TARGET_WIDE)

float max_row(const float *x, int64_t n)
{
	return HAVE_WIDE() ? max_row_wide(x, n) : max_row_plain(x, n);
}

#define EACH(name, expression)                                                                 \
	static void name##_plain(float *x, float by, int64_t n)                                \
	{                                                                                      \
		for (int64_t i = 0; i < n; i++)                                                \
			x[i] = expression;                                                     \
	}                                                                                      \
	TARGET_WIDE static void name##_wide(float *x, float by, int64_t n)                     \
	{                                                                                      \
		for (int64_t i = 0; i < n; i++)                                                \
			x[i] = expression;                                                     \
	}                                                                                      \
	void name(float *x, float by, int64_t n)                                               \
	{                                                                                      \
		if (HAVE_WIDE())                                                               \
			name##_wide(x, by, n);                                                 \
		else                                                                           \
			name##_plain(x, by, n);                                                \
	}
EACH(exp_row, scalar_expf(x[i] - by))
EACH(scale_row, x[i] * by)
EACH(divide_row, x[i] / by)
