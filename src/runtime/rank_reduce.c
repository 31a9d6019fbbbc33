/* See rank_reduce.h.  Block by block: the sums of a block stay in the first-level cache. */
#include "rank_reduce.h"

#include <string.h>

#include "cpu/internal.h"

#define BLOCK 1024

/* A whole block has a constant length: then compilers make vector code without being asked to. */
#define COMBINE(name, T, value)                                                          \
	static inline void name##_run(T *restrict acc, const T *restrict x, size_t n)    \
	{                                                                                \
		for (size_t i = 0; i < n; i++) {                                         \
			T a = acc[i], b = x[i];                                          \
			acc[i] = value;                                                  \
		}                                                                        \
	}                                                                                \
	static void name(T *acc, const T *x, size_t n)                                   \
	{                                                                                \
		if (n == BLOCK)                                                          \
			name##_run(acc, x, BLOCK);                                       \
		else                                                                     \
			name##_run(acc, x, n);                                           \
	}

/* A NaN in `a` stays, as no comparison with it is true. */
COMBINE(sum_f32, float, a + b)
COMBINE(max_f32, float, b > a || b != b ? b : a)
COMBINE(min_f32, float, b < a || b != b ? b : a)
COMBINE(sum_f64, double, a + b)
COMBINE(max_f64, double, b > a || b != b ? b : a)
COMBINE(min_f64, double, b < a || b != b ? b : a)
COMBINE(sum_i64, int64_t, (int64_t)((uint64_t)a + (uint64_t)b))
COMBINE(max_i64, int64_t, b > a ? b : a)
COMBINE(min_i64, int64_t, b < a ? b : a)

/* A block of one rank as T; the array itself where it is of that type. */
#define REDUCE(suffix, T, same)                                                                   \
	static void (*const combine_##suffix[])(T *, const T *, size_t) = {                       \
		sum_##suffix, max_##suffix, min_##suffix};                                        \
	static void reduce_##suffix(enum comm_reduce op, enum dtype t, int ranks,                 \
				    const void *const *in, size_t at, void *out, size_t n)        \
	{                                                                                         \
		T acc[BLOCK], buffer[BLOCK];                                                      \
		load_##suffix(t, (const char *)in[0] + at, 1, acc, (int64_t)n);                   \
		for (int r = 1; r < ranks; r++) {                                                 \
			const void *from = (const char *)in[r] + at;                              \
			if (t != (same))                                                          \
				load_##suffix(t, from, 1, buffer, (int64_t)n);                    \
			combine_##suffix[op](acc, t == (same) ? from : buffer, n);                \
		}                                                                                 \
		store_##suffix(t, (char *)out + at, 1, acc, (int64_t)n);                          \
	}

REDUCE(f32, float, DT_F32)
REDUCE(f64, double, DT_F64)
REDUCE(i64, int64_t, DT_I64)

void rank_reduce(enum comm_reduce op, enum dtype dtype, int ranks, const void *const *in, void *out,
		 size_t count)
{
	bool integer = dtype_class(dtype) == DC_INT || dtype_class(dtype) == DC_BOOLEAN;
	size_t size = (size_t)dtype_size(dtype);
	size_t done = op == COMM_SUM ? rank_sum_avx2(dtype, ranks, in, out, count) : 0;
	for (size_t i = done; i < count; i += BLOCK) {
		size_t n = count - i < BLOCK ? count - i : BLOCK;
		if (integer)
			reduce_i64(op, dtype, ranks, in, i * size, out, n);
		else if (dtype == DT_F64)
			reduce_f64(op, dtype, ranks, in, i * size, out, n);
		else
			reduce_f32(op, dtype, ranks, in, i * size, out, n);
	}
}
