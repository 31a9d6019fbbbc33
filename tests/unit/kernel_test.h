/* What the tests of kernels share: small views from literals, reading elements, workspaces. */
#ifndef KERNEL_TEST_H
#define KERNEL_TEST_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "suite.h"

#define SHAPE(...) (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (const int64_t[]){ __VA_ARGS__ }
#define F32(data, ...) view_of(data, DT_F32, SHAPE(__VA_ARGS__))
#define F64(data, ...) view_of(data, DT_F64, SHAPE(__VA_ARGS__))
#define I64(data, ...) view_of(data, DT_I64, SHAPE(__VA_ARGS__))

/* Element i in row-major order, as a double. */
static inline double element(const struct view *v, int64_t i)
{
	int64_t at = 0;
	double x;
	for (int d = v->rank - 1; d >= 0; d--) {
		at += i % v->shape[d] * v->stride[d];
		i /= v->shape[d];
	}
	struct view one = { .data = (char *)v->data + at * dtype_size(v->dtype), .dtype = v->dtype };
	struct view out = { .data = &x, .dtype = DT_F64 };
	cpu_copy(&one, &out);
	return x;
}

/* The same number: NaN equals NaN. */
static inline bool same(double a, double b)
{
	return a == b || (a != a && b != b);
}

#define expect(v, ...)                                                                           \
	do {                                                                                     \
		const double expect_want[] = { __VA_ARGS__ };                                    \
		int64_t expect_count = (int64_t)(sizeof expect_want / sizeof *expect_want);      \
		ck_assert_int_eq(view_count(v), expect_count);                                   \
		for (int64_t expect_i = 0; expect_i < expect_count; expect_i++)                  \
			ck_assert_msg(same(element(v, expect_i), expect_want[expect_i]),         \
				      "element %d is %.17g, not %.17g", (int)expect_i,           \
				      element(v, expect_i), expect_want[expect_i]);              \
	} while (0)

#define expect_near(v, tolerance, ...)                                                           \
	do {                                                                                     \
		const double expect_want[] = { __VA_ARGS__ };                                    \
		for (int64_t expect_i = 0; expect_i < view_count(v); expect_i++)                 \
			ck_assert_double_eq_tol(element(v, expect_i), expect_want[expect_i], tolerance); \
	} while (0)

static inline struct view swap_dims(struct view v, int d, int e)
{
	int64_t shape = v.shape[d], stride = v.stride[d];
	v.shape[d] = v.shape[e];
	v.stride[d] = v.stride[e];
	v.shape[e] = shape;
	v.stride[e] = stride;
	return v;
}

static uint64_t draw_state = 1;

/* Uniform in [-1, 1). */
static inline double draw(void)
{
	draw_state = draw_state * 6364136223846793005u + 1442695040888963407u;
	return (double)(int64_t)(draw_state >> 11 << 11) * 0x1p-63;
}

/* A new dense view of random numbers; free(view.data). */
static inline struct view random_view(enum dtype t, int rank, const int64_t *shape)
{
	struct view v = view_of(NULL, t, rank, shape);
	int64_t n = view_count(&v);
	v.data = calloc((size_t)n + 1, (size_t)dtype_size(t));
	for (int64_t i = 0; i < n; i++) {
		double x = draw();
		struct view one = { .data = &x, .dtype = DT_F64 };
		struct view to = { .data = (char *)v.data + i * dtype_size(t), .dtype = t };
		cpu_copy(&one, &to);
	}
	return v;
}

static inline void *workspace(int64_t bytes)
{
	return bytes ? aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64) : NULL;
}

static inline int run_suite(const char *name, const TTest *const *tests, int count)
{
	Suite *s = suite_create(name);
	TCase *c = tcase_create(name);
	tcase_set_timeout(c, 300);
	for (int i = 0; i < count; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	return suite_run(s);
}
#define RUN_SUITE(name, ...)                                          \
	run_suite(name, (const TTest *const[]){ __VA_ARGS__ },        \
		  (int)(sizeof((const TTest *const[]){ __VA_ARGS__ }) / sizeof(TTest *)))

#endif
