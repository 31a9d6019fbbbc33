/* Pointwise ops, copies, reductions, scans and sorting: against numbers worked out by hand or by libm in f64. */
#include "kernel_test.h"

#define NANF __builtin_nanf("")
#define INFF __builtin_inff()

/* --- pointwise --- */

static void unary(enum pointwise_op op, const struct view *in, const struct view *out)
{
	cpu_pointwise(op, 1, in, out);
}

static void binary(enum pointwise_op op, struct view a, struct view b, const struct view *out)
{
	cpu_pointwise(op, 2, (const struct view[]){ a, b }, out);
}

START_TEST(exact_unary)
{
	float x[] = { -2.5f, -1, -0.5f, 0, 0.5f, 1.5f, 2.5f, NANF, INFF }, y[9];
	bool flag[9];
	struct view in = F32(x, 9), out = F32(y, 9), flags = view_of(flag, DT_BOOL, SHAPE(9));
	unary(PW_NEG, &in, &out);
	expect(&out, 2.5, 1, 0.5, 0, -0.5, -1.5, -2.5, NAN, -INFINITY);
	unary(PW_ABS, &in, &out);
	expect(&out, 2.5, 1, 0.5, 0, 0.5, 1.5, 2.5, NAN, INFINITY);
	unary(PW_RELU, &in, &out);
	expect(&out, 0, 0, 0, 0, 0.5, 1.5, 2.5, NAN, INFINITY);
	unary(PW_SIGN, &in, &out);
	expect(&out, -1, -1, -1, 0, 1, 1, 1, 0, 1);
	unary(PW_ROUND, &in, &out);
	expect(&out, -2, -1, 0, 0, 0, 2, 2, NAN, INFINITY);
	unary(PW_FLOOR, &in, &out);
	expect(&out, -3, -1, -1, 0, 0, 1, 2, NAN, INFINITY);
	unary(PW_CEIL, &in, &out);
	expect(&out, -2, -1, 0, 0, 1, 2, 3, NAN, INFINITY);
	unary(PW_TRUNC, &in, &out);
	expect(&out, -2, -1, 0, 0, 0, 1, 2, NAN, INFINITY);
	unary(PW_RECIPROCAL, &in, &out);
	expect(&out, -0.4f, -1, -2, INFINITY, 2, 1 / 1.5f, 0.4f, NAN, 0);
	unary(PW_ISNAN, &in, &flags);
	expect(&flags, 0, 0, 0, 0, 0, 0, 0, 1, 0);
	unary(PW_ISINF, &in, &flags);
	expect(&flags, 0, 0, 0, 0, 0, 0, 0, 0, 1);
	unary(PW_LOGICAL_NOT, &in, &flags);
	expect(&flags, 0, 0, 0, 1, 0, 0, 0, 0, 0);
}
END_TEST

static double id(double x) { return x; }
static double f_rsqrt(double x) { return 1 / sqrt(x); }
static double f_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double f_logsigmoid(double x) { return -log1p(exp(-x)); }
static double f_silu(double x) { return x / (1 + exp(-x)); }
static double f_gelu(double x) { return x * 0.5 * erfc(-x / sqrt(2)); }
static double f_gelu_tanh(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3)))); }
static double f_softplus(double x) { return log(1 + exp(x)); }
static double f_mish(double x) { return x * tanh(log(1 + exp(x))); }

static const struct { enum pointwise_op op; double (*f)(double); double low, high; } functions[] = {
	{ PW_EXP, exp, -20, 20 }, { PW_EXP2, exp2, -20, 20 }, { PW_EXPM1, expm1, -3, 3 }, { PW_LOG, log, 0.01, 9 },
	{ PW_LOG2, log2, 0.01, 9 }, { PW_LOG10, log10, 0.01, 9 }, { PW_LOG1P, log1p, -0.9, 9 },
	{ PW_SQRT, sqrt, 0, 9 }, { PW_RSQRT, f_rsqrt, 0.01, 9 }, { PW_SIN, sin, -9, 9 }, { PW_COS, cos, -9, 9 },
	{ PW_TAN, tan, -1.5, 1.5 }, { PW_ASIN, asin, -1, 1 }, { PW_ACOS, acos, -1, 1 }, { PW_ATAN, atan, -9, 9 },
	{ PW_SINH, sinh, -5, 5 }, { PW_COSH, cosh, -5, 5 }, { PW_TANH, tanh, -5, 5 }, { PW_ERF, erf, -3, 3 },
	{ PW_SIGMOID, f_sigmoid, -9, 9 }, { PW_LOGSIGMOID, f_logsigmoid, -9, 9 }, { PW_SILU, f_silu, -9, 9 },
	{ PW_GELU, f_gelu, -4, 4 }, { PW_GELU_TANH, f_gelu_tanh, -4, 4 }, { PW_SOFTPLUS, f_softplus, -9, 19 },
	{ PW_MISH, f_mish, -9, 9 }, { PW_FLOOR, floor, -9, 9 }, { PW_TRUNC, id, 3, 3 },
};

/* Within a few units of the last place of the largest value around. */
static void check_function(int row, enum dtype t, double unit)
{
	for (int i = 0; i <= 64; i++) {
		double wide = functions[row].low + (functions[row].high - functions[row].low) * i / 64, got;
		struct view in = { .data = &wide, .dtype = DT_F64 };
		float x = (float)wide, y;
		struct view x32 = { .data = &x, .dtype = DT_F32 }, y32 = { .data = &y, .dtype = DT_F32 };
		struct view y64 = { .data = &got, .dtype = DT_F64 };
		unary(functions[row].op, t == DT_F32 ? &x32 : &in, t == DT_F32 ? &y32 : &y64);
		if (t == DT_F32)
			got = y;
		double want = functions[row].f(t == DT_F32 ? (double)x : wide);
		double most = unit * (fabs(want) + fmin(1, fabs(wide)));
		ck_assert_msg(fabs(got - want) <= most, "%s(%g) is %.17g, not %.17g",
			      pointwise_text(functions[row].op), wide, got, want);
	}
}

START_TEST(function_values)
{
	for (int i = 0; i < (int)(sizeof functions / sizeof *functions); i++) {
		check_function(i, DT_F32, 0x1p-22);
		check_function(i, DT_F64, 0x1p-50);
	}
}
END_TEST

START_TEST(float_binary)
{
	float x[] = { 7, -7, 7, -7, 1, NANF, 2, 0 }, z[] = { 3, 3, -3, -3, NANF, 1, 0, 0 }, y[8];
	bool flag[8];
	struct view a = F32(x, 8), b = F32(z, 8), out = F32(y, 8), flags = view_of(flag, DT_BOOL, SHAPE(8));
	binary(PW_REMAINDER, a, b, &out);
	expect(&out, 1, 2, -2, -1, NAN, NAN, NAN, NAN);
	binary(PW_FMOD, a, b, &out);
	expect(&out, 1, -1, 1, -1, NAN, NAN, NAN, NAN);
	binary(PW_FLOOR_DIVIDE, a, b, &out);
	expect(&out, 2, -3, -3, 2, NAN, NAN, INFINITY, NAN);
	binary(PW_TRUNC_DIVIDE, a, b, &out);
	expect(&out, 2, -2, -2, 2, NAN, NAN, INFINITY, NAN);
	binary(PW_MAXIMUM, a, b, &out);
	expect(&out, 7, 3, 7, -3, NAN, NAN, 2, 0);
	binary(PW_MINIMUM, a, b, &out);
	expect(&out, 3, -7, -3, -7, NAN, NAN, 0, 0);
	binary(PW_LT, a, b, &flags);
	expect(&flags, 0, 1, 0, 1, 0, 0, 0, 0);
	binary(PW_GE, a, b, &flags);
	expect(&flags, 1, 0, 1, 0, 0, 0, 1, 1);
	binary(PW_NE, a, b, &flags);
	expect(&flags, 1, 1, 1, 1, 1, 1, 1, 0);
	binary(PW_LOGICAL_AND, a, b, &flags);
	expect(&flags, 1, 1, 1, 1, 1, 1, 0, 0);
	binary(PW_LOGICAL_XOR, a, b, &flags);
	expect(&flags, 0, 0, 0, 0, 0, 0, 1, 0);
	float base[] = { 3, 2, -2, 4, 9, 2, 0, -1 }, power[] = { 2, 10, 3, 0.5f, -0.5f, -1, 0, 5 };
	binary(PW_POW, F32(base, 8), F32(power, 8), &out);
	expect(&out, 9, 1024, -8, 2, 1 / 3.f, 0.5, 1, -1);
}
END_TEST

START_TEST(integer_ops)
{
	int64_t x[] = { 7, -7, 7, -7, INT64_MAX, 5, 3, INT64_MIN }, z[] = { 3, 3, -3, -3, 2, 0, -2, -1 }, y[8];
	struct view a = I64(x, 8), b = I64(z, 8), out = I64(y, 8);
	binary(PW_REMAINDER, a, b, &out);
	expect(&out, 1, 2, -2, -1, 1, 0, -1, 0);
	binary(PW_FMOD, a, b, &out);
	expect(&out, 1, -1, 1, -1, 1, 0, 1, 0);
	binary(PW_FLOOR_DIVIDE, a, b, &out);
	expect(&out, 2, -3, -3, 2, (double)(INT64_MAX / 2), 0, -2, (double)INT64_MIN);
	binary(PW_ADD, a, b, &out);
	ck_assert_int_eq(y[4], INT64_MIN + 1); /* wraps */
	binary(PW_POW, a, b, &out);
	expect(&out, 343, -343, 0, 0, 1, 1, 0, 0);
	binary(PW_SHIFT_LEFT, a, b, &out);
	ck_assert_int_eq(y[0], 56);
	binary(PW_SHIFT_RIGHT, a, b, &out);
	ck_assert_int_eq(y[1], -1);
	binary(PW_BITWISE_XOR, a, b, &out);
	ck_assert_int_eq(y[0], 4);
	float q[8];
	struct view quotient = F32(q, 8);
	binary(PW_DIV, a, b, &quotient); /* true division */
	ck_assert_float_eq(q[0], 7 / 3.f);
	uint8_t u[] = { 250, 3 }, v[] = { 10, 5 }, w[2];
	struct view narrow = view_of(w, DT_U8, SHAPE(2));
	binary(PW_ADD, view_of(u, DT_U8, SHAPE(2)), view_of(v, DT_U8, SHAPE(2)), &narrow);
	expect(&narrow, 4, 8);
}
END_TEST

START_TEST(bools_and_where)
{
	uint8_t p[] = { 0, 1, 1 }, q[] = { 1, 1, 0 }, r[3];
	struct view a = view_of(p, DT_BOOL, SHAPE(3)), b = view_of(q, DT_BOOL, SHAPE(3)), out = view_of(r, DT_BOOL, SHAPE(3));
	unary(PW_BITWISE_NOT, &a, &out);
	expect(&out, 1, 0, 0);
	binary(PW_ADD, a, b, &out);
	expect(&out, 1, 1, 1);
	binary(PW_BITWISE_AND, a, b, &out);
	expect(&out, 0, 1, 0);
	int64_t big[] = { (1LL << 53) + 1, 2, 3 }, other = -1, y[3];
	struct view chosen = I64(y, 3), minus = { .data = &other, .dtype = DT_I64 };
	cpu_pointwise(PW_WHERE, 3, (const struct view[]){ b, I64(big, 3), minus }, &chosen);
	ck_assert_int_eq(y[0], (1LL << 53) + 1); /* not through a float */
	ck_assert_int_eq(y[2], -1);
	float f[3] = { 1, NANF, 3 }, g[3];
	struct view floats = F32(g, 3);
	cpu_pointwise(PW_WHERE, 3, (const struct view[]){ a, F32(f, 3), minus }, &floats);
	expect(&floats, -1, NAN, 3);
}
END_TEST

START_TEST(strides_and_broadcast)
{
	float x[] = { 1, 2, 3, 4, 5, 6 }, row[] = { 10, 20, 30 }, column[] = { 100, 200 }, y[6];
	struct view a = F32(x, 2, 3), out = F32(y, 2, 3);
	binary(PW_ADD, a, F32(row, 3), &out);
	expect(&out, 11, 22, 33, 14, 25, 36);
	binary(PW_ADD, a, F32(column, 2, 1), &out);
	expect(&out, 101, 102, 103, 204, 205, 206);
	struct view t = swap_dims(F32(x, 3, 2), 0, 1); /* [[1,3,5],[2,4,6]] */
	binary(PW_ADD, a, t, &out);
	expect(&out, 2, 5, 8, 6, 9, 12);
	struct view t_out = swap_dims(F32(y, 3, 2), 0, 1);
	binary(PW_SUB, a, F32(row, 3), &t_out);
	expect(&t_out, -9, -18, -27, -6, -15, -24);
	struct view backwards = { .data = x + 5, .dtype = DT_F32, .rank = 1, .shape = { 6 }, .stride = { -1 } };
	struct view flat = F32(y, 6);
	cpu_copy(&backwards, &flat);
	expect(&flat, 6, 5, 4, 3, 2, 1);
}
END_TEST

/* Long, odd runs of every type go through vectors and chunks: compared with elements one by one. */
START_TEST(long_runs)
{
	static const enum dtype types[] = { DT_F64, DT_F32, DT_BF16, DT_F16, DT_E4M3, DT_E5M2, DT_I64, DT_I32,
					    DT_I16, DT_I8, DT_U8, DT_U32, DT_BOOL };
	for (int s = 0; s < 13; s++)
		for (int t = 0; t < 13; t++) {
			struct view in = random_view(types[s], SHAPE(3, 521));
			struct view out = random_view(types[t], SHAPE(521, 3)), moved = swap_dims(out, 0, 1);
			cpu_copy(&in, &moved);
			for (int64_t i = 0; i < 3 * 521; i++) {
				double x = element(&in, i), y;
				struct view from = { .data = &x, .dtype = DT_F64 };
				char store[8];
				struct view to = { .data = store, .dtype = types[t] };
				cpu_copy(&from, &to);
				y = element(&to, 0);
				ck_assert_double_eq(element(&moved, i), y);
			}
			free(in.data);
			free(out.data);
		}
}
END_TEST

START_TEST(rounds_once)
{
	/* f64 just above the middle of two bf16: through f32 it would be the middle, and go to even */
	double x = 1 + 0x1p-8 + 0x1p-40, y;
	uint16_t h;
	struct view in = { .data = &x, .dtype = DT_F64 }, out = { .data = &h, .dtype = DT_BF16 };
	cpu_copy(&in, &out);
	ck_assert_double_eq(element(&out, 0), 1 + 0x1p-7);
	out.dtype = DT_F16;
	x = 1 + 0x1p-11 + 0x1p-40;
	cpu_copy(&in, &out);
	ck_assert_double_eq(element(&out, 0), 1 + 0x1p-10);
	/* float to integer: towards zero */
	float f[] = { 1.9f, -1.9f, 300, NANF };
	int64_t n[4];
	struct view floats = F32(f, 4), ints = I64(n, 4);
	cpu_copy(&floats, &ints);
	ck_assert_int_eq(n[0], 1);
	ck_assert_int_eq(n[1], -1);
	ck_assert_int_eq(n[3], INT64_MIN);
	(void)y;
}
END_TEST

START_TEST(empty_views)
{
	float y = 5;
	struct view none = F32(&y, 2, 0, 3), rows = F32(&y, 0), sums = F32(&y, 1);
	unary(PW_EXP, &none, &none);
	cpu_copy(&none, &none);
	cpu_fill((struct scalar){ .is_float = true, .f = 1 }, &none);
	ck_assert_float_eq(y, 5);
	struct reduce sum = { .op = REDUCE_SUM, .dims = 1 };
	cpu_reduce(&sum, &rows, &sums);
	expect(&sums, 0);
	sum.op = REDUCE_MAX;
	cpu_reduce(&sum, &rows, &sums);
	expect(&sums, -INFINITY);
	cpu_amax(1, &rows, &sums);
	expect(&sums, 0);
}
END_TEST

START_TEST(fills)
{
	uint16_t h[4];
	int64_t n[4];
	float x[16];
	struct view half = view_of(h, DT_BF16, SHAPE(4)), ints = I64(n, 4), m = F32(x, 4, 4);
	cpu_fill((struct scalar){ .is_float = true, .f = 0.1 }, &half);
	expect(&half, 0.10009765625, 0.10009765625, 0.10009765625, 0.10009765625);
	cpu_fill((struct scalar){ .i = (1LL << 60) + 1 }, &ints);
	ck_assert_int_eq(n[3], (1LL << 60) + 1);
	cpu_iota((struct scalar){ .i = 3 }, (struct scalar){ .i = -2 }, &ints);
	expect(&ints, 3, 1, -1, -3);
	cpu_iota((struct scalar){ .i = 1 }, (struct scalar){ .is_float = true, .f = 0.25 }, &half);
	expect(&half, 1, 1.25, 1.5, 1.75);
	for (int i = 0; i < 16; i++)
		x[i] = (float)(i + 1);
	float y[16];
	struct view out = F32(y, 4, 4);
	cpu_tri(true, 1, &m, &out);
	expect(&out, 0, 2, 3, 4, 0, 0, 7, 8, 0, 0, 0, 12, 0, 0, 0, 0);
	cpu_tri(false, -1, &m, &out);
	expect(&out, 0, 0, 0, 0, 5, 0, 0, 0, 9, 10, 0, 0, 13, 14, 15, 0);
	cpu_tri(true, -9, &m, &out);
	ck_assert_float_eq(y[12], 13);
	cpu_tri(true, 9, &m, &out);
	ck_assert_float_eq(y[3], 0);
}
END_TEST

/* --- reductions --- */

static void reduce(enum reduce_op op, uint32_t dims, double p, const struct view *x, const struct view *out)
{
	cpu_reduce(&(struct reduce){ .op = op, .dims = dims, .p = p, .count = 3 }, x, out);
}

/* A rank with nothing: what is never the best where another rank has something. */
START_TEST(best_of_nothing)
{
	static const struct { enum dtype t; double least, most; } rows[] = {
		{ DT_BOOL, 0, 1 },
		{ DT_U8, 0, 255 },
		{ DT_I8, -128, 127 },
		{ DT_I16, -32768, 32767 },
		{ DT_U32, 0, 4294967295 },
		{ DT_I32, -2147483648.0, 2147483647 },
		{ DT_F16, -INFINITY, INFINITY },
		{ DT_F32, -INFINITY, INFINITY },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int64_t at[3];
		struct view x = view_of(at, rows[i].t, SHAPE(3, 0)), out = view_of(at, rows[i].t, SHAPE(3));
		reduce(REDUCE_MAX, 2, 0, &x, &out);
		expect(&out, rows[i].least, rows[i].least, rows[i].least);
		reduce(REDUCE_MIN, 2, 0, &x, &out);
		expect(&out, rows[i].most, rows[i].most, rows[i].most);
	}
}
END_TEST

START_TEST(reductions)
{
	float x[] = { 1, -2, 3, 4, 5, -6 }, y[3], n[] = { 1, NANF, NANF, 0 };
	int64_t at[3];
	uint8_t flag;
	struct view m = F32(x, 2, 3), rows = F32(y, 2), columns = F32(y, 3), all = { .data = y, .dtype = DT_F32 };
	struct view column_index = I64(at, 3), index = I64(at, 1), any = view_of(&flag, DT_BOOL, SHAPE(1, 1));
	struct view row_keep = F32(y, 2, 1), nans = F32(n, 4);
	reduce(REDUCE_SUM, 2, 0, &m, &rows);
	expect(&rows, 2, 3);
	reduce(REDUCE_SUM, 1, 0, &m, &columns);
	expect(&columns, 5, 3, -3);
	reduce(REDUCE_SUM, 3, 0, &m, &all);
	expect(&all, 5);
	reduce(REDUCE_MEAN, 2, 0, &m, &row_keep);
	expect(&row_keep, 2 / 3.f, 1);
	reduce(REDUCE_MAX, 2, 0, &m, &rows);
	expect(&rows, 3, 5);
	reduce(REDUCE_MIN, 2, 0, &m, &rows);
	expect(&rows, -2, -6);
	reduce(REDUCE_PROD, 2, 0, &m, &rows);
	expect(&rows, -6, -120);
	reduce(REDUCE_SUMSQ, 2, 0, &m, &rows);
	expect(&rows, 14, 77);
	reduce(REDUCE_ARGMAX, 1, 0, &m, &column_index);
	expect(&column_index, 1, 1, 0);
	struct view scalar = { .data = at, .dtype = DT_I64 };
	reduce(REDUCE_ARGMIN, 3, 0, &m, &scalar);
	expect(&scalar, 5);
	reduce(REDUCE_ARGMAX, 1, 0, &nans, &index);
	expect(&index, 1);
	reduce(REDUCE_MAX, 1, 0, &nans, &all);
	expect(&all, NAN);
	reduce(REDUCE_ANY, 3, 0, &m, &any);
	expect(&any, 1);
	any = view_of(&flag, DT_BOOL, SHAPE(1));
	reduce(REDUCE_ALL, 1, 0, &nans, &any);
	expect(&any, 0);
	reduce(REDUCE_NORM, 2, 2, &m, &rows);
	expect(&rows, sqrtf(14), sqrtf(77));
	reduce(REDUCE_NORM, 2, 1, &m, &rows);
	expect(&rows, 6, 15);
	reduce(REDUCE_NORM, 2, INFINITY, &m, &rows);
	expect(&rows, 3, 6);
	reduce(REDUCE_NORM, 2, 3, &m, &rows);
	expect_near(&rows, 1e-6, cbrt(36), cbrt(405));
}
END_TEST

START_TEST(integer_reductions)
{
	int64_t x[] = { INT64_MAX, 1, 5, 6 }, y[2];
	uint8_t flags[] = { 1, 1, 0, 1 };
	struct view m = I64(x, 2, 2), rows = I64(y, 2), b = view_of(flags, DT_BOOL, SHAPE(4)), one = I64(y, 1);
	float mean;
	struct view f = F32(&mean, 1);
	reduce(REDUCE_SUM, 2, 0, &m, &rows);
	ck_assert_int_eq(y[0], INT64_MIN);
	ck_assert_int_eq(y[1], 11);
	reduce(REDUCE_MAX, 1, 0, &m, &rows);
	ck_assert_int_eq(y[0], INT64_MAX);
	reduce(REDUCE_SUM, 1, 0, &b, &one);
	expect(&one, 3);
	reduce(REDUCE_MEAN, 1, 0, &b, &f);
	expect(&f, 1);
}
END_TEST

/* Sums have the same bits whatever the layout, and are close to an f64 sum. */
START_TEST(sums_of_layouts)
{
	static const int64_t lengths[] = { 1, 15, 16, 17, 255, 256, 257, 1000, 4096, 100003 };
	for (int i = 0; i < 10; i++) {
		int64_t n = lengths[i];
		struct view x = random_view(DT_F32, SHAPE(n, 2)), t = random_view(DT_F32, SHAPE(2, n));
		struct view moved = swap_dims(x, 0, 1);
		float a[2], b[2], c[2];
		double want = 0, size = 0;
		struct view out_a = F32(a, 2), out_b = F32(b, 2), out_c = F32(c, 2);
		cpu_copy(&moved, &t);
		reduce(REDUCE_SUM, 1, 0, &x, &out_a);
		reduce(REDUCE_SUM, 2, 0, &t, &out_b);
		ck_assert_mem_eq(a, b, sizeof a);
		cpu_reduce(&(struct reduce){ .op = REDUCE_SUM, .dims = 2, .exact = true }, &t, &out_c);
		for (int64_t j = 0; j < n; j++) {
			want += element(&t, j);
			size += fabs(element(&t, j));
		}
		ck_assert_double_le(fabs(a[0] - want), size * 0x1p-24 * 30);
		ck_assert_double_le(fabs(c[0] - want), fabs(want) * 0x1p-23 + size * 0x1p-50);
		free(x.data);
		free(t.data);
	}
}
END_TEST

START_TEST(cumulative_sums)
{
	float x[] = { 1, 2, 3, 4, 5, 6 }, y[6];
	int64_t n[] = { 1, 2, 3 }, s[3];
	struct view m = F32(x, 2, 3), out = F32(y, 2, 3), ints = I64(n, 3), sums = I64(s, 3);
	cpu_cumsum(1, &m, &out);
	expect(&out, 1, 3, 6, 4, 9, 15);
	cpu_cumsum(0, &m, &out);
	expect(&out, 1, 2, 3, 5, 7, 9);
	cpu_cumsum(0, &ints, &sums);
	expect(&sums, 1, 3, 6);
}
END_TEST

START_TEST(sorting)
{
	float x[] = { 3, 1, NANF, 2, 1, 3 }, y[6];
	int64_t at[6], n[] = { 5, -1, 5, 2 };
	struct view in = F32(x, 6), values = F32(y, 6), indices = I64(at, 6), ints = I64(n, 4), k = I64(at, 2);
	void *space = workspace(cpu_sort_workspace(&in, 0));
	cpu_sort(0, false, &in, &values, &indices, space);
	expect(&values, 1, 1, 2, 3, 3, NAN);
	expect(&indices, 1, 4, 3, 0, 5, 2);
	cpu_sort(0, true, &in, &values, &indices, space);
	expect(&values, NAN, 3, 3, 2, 1, 1);
	expect(&indices, 2, 0, 5, 3, 1, 4);
	cpu_sort(0, true, &ints, NULL, &k, space); /* topk: ties by index */
	expect(&k, 0, 2);
	float m[] = { 2, 9, 1, 3 }, s[4];
	struct view columns = F32(m, 2, 2), sorted = F32(s, 2, 2);
	cpu_sort(0, false, &columns, &sorted, NULL, space);
	expect(&sorted, 1, 3, 2, 9);
	free(space);
}
END_TEST

START_TEST(amax_layouts)
{
	float x[] = { 1, -7, 3, NANF, 0, 2 }, y[3];
	struct view m = F32(x, 2, 3), rows = F32(y, 2, 1), columns = F32(y, 3), all = F32(y, 1, 1);
	cpu_amax(2, &m, &rows);
	expect(&rows, 7, NAN);
	cpu_amax(1, &m, &columns);
	expect(&columns, NAN, 7, 3);
	cpu_amax(3, &m, &all);
	expect(&all, NAN);
	struct view big = random_view(DT_BF16, SHAPE(3, 700)), most = F32(y, 3, 1);
	cpu_amax(2, &big, &most);
	for (int i = 0; i < 3; i++) {
		double want = 0;
		for (int j = 0; j < 700; j++)
			want = fmax(want, fabs(element(&big, i * 700 + j)));
		ck_assert_double_eq(element(&most, i), want);
	}
	free(big.data);
}
END_TEST

static void check_columns(enum reduce_op op, enum dtype t)
{
	enum { N = 700, COLUMNS = 37 };
	enum dtype result = op >= REDUCE_ARGMAX ? DT_F64 : t == DT_BOOL ? DT_I64 : t;
	struct view x = random_view(t, SHAPE(2, N, COLUMNS)), rows = random_view(t, SHAPE(2, COLUMNS, N));
	struct view from_columns = random_view(result, SHAPE(2, COLUMNS)), from_rows = random_view(result, SHAPE(2, COLUMNS));
	struct view turned = swap_dims(x, 1, 2);
	struct reduce r = { .op = op, .dims = 2, .count = N, .p = 3 };
	cpu_copy(&turned, &rows);
	cpu_reduce(&r, &x, &from_columns);
	r.dims = 4;
	cpu_reduce(&r, &rows, &from_rows);
	ck_assert_mem_eq(from_columns.data, from_rows.data, (size_t)(2 * COLUMNS * dtype_size(result)));
	free(x.data), free(rows.data), free(from_columns.data), free(from_rows.data);
}

/* Columns are read in strips: the bits of the same numbers as rows, whatever the op and the strip's length. */
START_TEST(reduce_columns)
{
	static const enum dtype types[] = { DT_F32, DT_BF16, DT_F64, DT_I64, DT_BOOL };
	for (int op = REDUCE_SUM; op <= REDUCE_NORM; op++)
		for (int t = 0; t < 5; t++)
			check_columns((enum reduce_op)op, types[t]);
}
END_TEST

START_TEST(column_sums)
{
	struct view x = random_view(DT_F32, SHAPE(1000, 50)), sums = random_view(DT_F32, SHAPE(50));
	cpu_reduce(&(struct reduce){ .op = REDUCE_SUM, .dims = 1 }, &x, &sums);
	for (int64_t j = 0; j < 50; j++) {
		double want = 0;
		for (int64_t i = 0; i < 1000; i++)
			want += element(&x, i * 50 + j);
		ck_assert_double_eq_tol(element(&sums, j), want, 1e-4);
	}
	free(x.data), free(sums.data);
}
END_TEST

/* Transposes of each element size, with dims around and between, and tiles that are not full. */
START_TEST(turned_copies)
{
	static const enum dtype types[] = { DT_F64, DT_F32, DT_BF16, DT_E4M3 };
	for (int t = 0; t < 4; t++) {
		struct view x = random_view(types[t], SHAPE(3, 70, 2, 45)), y = random_view(types[t], SHAPE(3, 45, 2, 70));
		struct view turned = swap_dims(x, 1, 3);
		cpu_copy(&turned, &y);
		for (int64_t i = 0; i < view_count(&y); i++)
			ck_assert(same(element(&y, i), element(&turned, i)));
		struct view back = random_view(types[t], SHAPE(3, 70, 2, 45)), into = swap_dims(back, 1, 3);
		cpu_copy(&y, &into);
		ck_assert_mem_eq(back.data, x.data, (size_t)(view_count(&x) * dtype_size(types[t])));
		free(x.data), free(y.data), free(back.data);
	}
}
END_TEST

int main(void)
{
	return RUN_SUITE("kernels", exact_unary, function_values, float_binary, integer_ops, bools_and_where,
			 strides_and_broadcast, long_runs, rounds_once, empty_views, fills, best_of_nothing, reductions,
			 integer_reductions, sums_of_layouts, cumulative_sums, sorting, amax_layouts,
			 reduce_columns, column_sums, turned_copies);
}
