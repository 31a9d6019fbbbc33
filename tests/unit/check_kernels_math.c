/* exp, erf and tanh of scalar_math.h, and what is made of them: against libm in f64. */
#include "kernel_test.h"
#include "scalar.h"
#include "suite.h"

/* Distance between f32 numbers near x; that of 2^127 for what overflows. */
static double ulp(double x)
{
	int e;
	if (fabs(x) >= 0x1p128)
		return 0x1p104;
	frexp(x, &e);
	return ldexp(1, e - 24 < -149 ? -149 : e - 24);
}

/* In units of the last place; infinite where a NaN, a sign or an infinity is wrong. */
static double error(float got, double want)
{
	if (want != want)
		return got != got ? 0 : INFINITY;
	if (!signbit(got) != !signbit(want))
		return INFINITY;
	if (isinf(got))
		return fabs(want) >= 0x1.ffffffp127 ? 0 : INFINITY; /* where rounding gives infinity */
	return fabs((double)got - want) / ulp(want);
}

static const struct function {
	enum pointwise_op op;
	float (*f)(float);
	double (*want)(double);
	double most; /* ulp */
} functions[] = {
	{ PW_EXP, scalar_expf, exp, 1.1 },
	{ PW_ERF, scalar_erff, erf, 1.4 },
	{ PW_TANH, scalar_tanhf, tanh, 1.4 },
};

static void check_at(const struct function *f, float x, float got)
{
	double e = error(got, f->want((double)x));
	ck_assert_msg(e <= f->most, "%s(%a) is %a, %g ulp from %a", pointwise_text(f->op), (double)x, (double)got, e,
		      f->want((double)x));
}

#define RUN 1021 /* a length with a tail */

/* A run of floats `step` apart in their bits: each right, and the same bits from the kernel. */
static uint32_t check_run(const struct function *f, uint32_t bits, uint32_t step)
{
	float x[RUN], y[RUN];
	struct view in = F32(x, RUN), out = F32(y, RUN);
	for (int i = 0; i < RUN; i++, bits += step)
		x[i] = f32_from_bits(bits);
	cpu_pointwise(f->op, 1, &in, &out);
	for (int i = 0; i < RUN; i++) {
		float alone = f->f(x[i]);
		check_at(f, x[i], alone);
		ck_assert_msg(y[i] != y[i] || f32_bits(y[i]) == f32_bits(alone), "%s(%a): the kernel has %a, not %a",
			      pointwise_text(f->op), (double)x[i], (double)y[i], (double)alone);
	}
	return bits;
}

START_TEST(all_magnitudes)
{
	const struct function *f = &functions[_i];
	uint32_t bits = 0;
	for (int64_t i = 0; i < (1LL << 32) / 2503 / RUN + 1; i++)
		bits = check_run(f, bits, 2503);
}
END_TEST

/* Every float near where something changes: the clamps, denormal and infinite results, two halves. */
START_TEST(every_float_near)
{
	static const float edges[] = { 0x1.62e42ep6f, 89, -0x1.5d589ep6f, -0x1.9fe368p6f, -104, 0.34657359f, 1.0397207f,
				       0.927734375f, 3.9192059f, 4, 0.625f, 9.0109129f, 10, 0x1p-126f, 0x1p-24f };
	const struct function *f = &functions[_i];
	for (size_t k = 0; k < sizeof edges / sizeof *edges; k++)
		for (int sign = 0; sign < 2; sign++)
			check_run(f, f32_bits(sign ? -edges[k] : edges[k]) - RUN / 2, 1);
	check_run(f, 0, 1);
	check_run(f, f32_bits(-0.0f), 1);
	check_run(f, f32_bits(INFINITY) - RUN / 2, 1); /* and NaN */
	check_run(f, f32_bits(-INFINITY) - RUN / 2, 1);
}
END_TEST

START_TEST(exact_values)
{
	ck_assert(f32_bits(scalar_expf(0)) == f32_bits(1) && f32_bits(scalar_expf(-0.0f)) == f32_bits(1));
	ck_assert(scalar_expf(INFINITY) == INFINITY && f32_bits(scalar_expf(-INFINITY)) == 0);
	ck_assert(f32_bits(scalar_erff(-0.0f)) == f32_bits(-0.0f) && f32_bits(scalar_erff(0)) == 0);
	ck_assert(scalar_erff(INFINITY) == 1 && scalar_erff(-INFINITY) == -1 && scalar_erff(5) == 1);
	ck_assert(f32_bits(scalar_tanhf(-0.0f)) == f32_bits(-0.0f) && f32_bits(scalar_tanhf(0)) == 0);
	ck_assert(scalar_tanhf(INFINITY) == 1 && scalar_tanhf(-INFINITY) == -1 && scalar_tanhf(-20) == -1);
}
END_TEST

/* Larger x gives no smaller result by more than the error allowed. */
START_TEST(nearly_monotone)
{
	const struct function *f = &functions[_i];
	for (float x = -12; x < 12; x += 0x1p-9f) {
		float a = f->f(x), b = f->f(x + 0x1p-9f);
		ck_assert(b >= a - (float)(2 * ulp((double)a)));
	}
}
END_TEST

static double f_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double f_silu(double x) { return x / (1 + exp(-x)); }
static double f_gelu(double x) { return 0.5 * x * (1 + erf(x / sqrt(2))); }
static double f_gelu_tanh(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))); }

static const struct { enum pointwise_op op; double (*f)(double); } made[] = {
	{ PW_SIGMOID, f_sigmoid }, { PW_SILU, f_silu }, { PW_GELU, f_gelu }, { PW_GELU_TANH, f_gelu_tanh },
};

/* gelu's tail at the left is a difference of nearly equal numbers, here as in torch: an absolute bound. */
START_TEST(activations)
{
	float x[4001], y[4001], again[4001];
	struct view in = F32(x, 4001), out = F32(y, 4001), same = F32(again, 4001);
	for (int i = 0; i < 4001; i++)
		x[i] = again[i] = (float)(i - 2000) * 0.0501f;
	cpu_pointwise(made[_i].op, 1, &in, &out);
	cpu_pointwise(made[_i].op, 1, &same, &same);
	ck_assert(memcmp(y, again, sizeof y) == 0); /* in place */
	for (int i = 0; i < 4001; i++) {
		double want = made[_i].f((double)x[i]);
		double most = 0x1p-22 * fabs(want) + 0x1p-24 * fmin(1, fabs((double)x[i])) * fabs((double)x[i]) + 0x1p-149;
		ck_assert_msg(fabs((double)y[i] - want) <= most, "%s(%.9g) is %.9g, not %.17g",
			      pointwise_text(made[_i].op), (double)x[i], (double)y[i], want);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kernels_math");
	TCase *c = tcase_create("kernels_math");
	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, all_magnitudes, 0, 3);
	tcase_add_loop_test(c, every_float_near, 0, 3);
	tcase_add_test(c, exact_values);
	tcase_add_loop_test(c, nearly_monotone, 0, 3);
	tcase_add_loop_test(c, activations, 0, 4);
	suite_add_tcase(s, c);
	return suite_run(s);
}
