/* Whole rows of f32: what softmax and attention do to one. */
#include "internal.h"
#include "scalar.h"

#define LANES 16

ANY_WIDTH static float max_of(const float *x, int64_t n)
{
	float lane[LANES];
	int64_t i = 0;
	for (int j = 0; j < LANES; j++)
		lane[j] = -INFINITY;
	for (; i + LANES <= n; i += LANES)
		for (int j = 0; j < LANES; j++)
			lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
	for (int j = 0; i + j < n; j++)
		lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
	for (int j = 1; j < LANES; j++)
		lane[0] = lane[j] > lane[0] ? lane[j] : lane[0];
	return lane[0];
}

float max_row(const float *x, int64_t n)
{
	return max_of(x, n);
}

#define EACH(name, expression)                                                   \
	ANY_WIDTH static void name##_loop(float *x, float by, int64_t n)         \
	{                                                                        \
		for (int64_t i = 0; i < n; i++)                                  \
			x[i] = expression;                                       \
	}                                                                        \
	void name(float *x, float by, int64_t n)                                 \
	{                                                                        \
		name##_loop(x, by, n);                                           \
	}
EACH(exp_row, scalar_expf(x[i] - by))
EACH(scale_row, x[i] * by)
EACH(divide_row, x[i] / by)
