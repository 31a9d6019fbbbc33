/* Softmax, norms, attention and matrix products, against plain f64 loops. */
#include "kernel_test.h"

#include <pthread.h>

static struct diag diag;

static const enum dtype floats[] = { DT_F32, DT_BF16, DT_F16, DT_F64 };

/* Half a unit in the last place of t near 1, and the error of f32 inside. */
static double unit(enum dtype t)
{
	return (t == DT_BF16 ? 0x1p-9 : t == DT_F16 ? 0x1p-12 : 0) + (t == DT_F64 ? 0x1p-48 : 0x1p-21);
}

static double rounded(enum dtype t, double x)
{
	char store[8];
	struct view in = { .data = &x, .dtype = DT_F64 }, out = { .data = store, .dtype = t };
	cpu_copy(&in, &out);
	return element(&out, 0);
}

/* --- softmax --- */

static void check_softmax(enum dtype t, bool log, bool exact)
{
	struct view x = random_view(t, SHAPE(3, 70, 2)), y = random_view(t, SHAPE(3, 70, 2));
	void *space = workspace(cpu_softmax_workspace(&x, 1));
	cpu_softmax(1, log, exact, &x, &y, space);
	for (int line = 0; line < 6; line++) {
		int first = line / 2 * 140 + line % 2;
		double sum = 0;
		for (int i = 0; i < 70; i++)
			sum += exp(element(&x, first + 2 * i));
		for (int i = 0; i < 70; i++) {
			double p = exp(element(&x, first + 2 * i)) / sum, want = log ? log1p(p - 1) : p;
			ck_assert_double_eq_tol(element(&y, first + 2 * i), want, fabs(want) * unit(t) * 2);
		}
	}
	free(space), free(x.data), free(y.data);
}

START_TEST(softmax)
{
	for (int i = 0; i < 16; i++)
		check_softmax(floats[i / 4], i & 1, i >> 1 & 1);
	float big[] = { 1000, 1001, -INFINITY }, y[3];
	struct view x = F32(big, 3), out = F32(y, 3);
	void *space = workspace(cpu_softmax_workspace(&x, 0));
	cpu_softmax(0, false, false, &x, &out, space);
	expect_near(&out, 1e-7, 0.26894142, 0.73105858, 0);
	free(space);
}
END_TEST

/* --- norms --- */

START_TEST(rms_norm)
{
	for (int i = 0; i < 8; i++) {
		enum dtype t = floats[i / 2];
		struct view x = random_view(t, SHAPE(2, 5, 300)), y = random_view(t, SHAPE(2, 5, 300));
		void *space = workspace(cpu_norm_workspace(&x, 1));
		cpu_rms_norm(&x, 1, 1e-5, i & 1, &y, space);
		for (int row = 0; row < 10; row++) {
			double sum = 0;
			for (int j = 0; j < 300; j++)
				sum += pow(element(&x, row * 300 + j), 2);
			for (int j = 0; j < 300; j++) {
				double want = element(&x, row * 300 + j) / sqrt(sum / 300 + 1e-5);
				ck_assert_double_eq_tol(element(&y, row * 300 + j), want, fabs(want) * unit(t) * 2);
			}
		}
		free(space), free(x.data), free(y.data);
	}
}
END_TEST

/* Over two dims that lie transposed in memory. */
START_TEST(rms_norm_of_a_view)
{
	struct view x = random_view(DT_F32, SHAPE(3, 7, 5)), y = random_view(DT_F32, SHAPE(3, 5, 7)), t = x;
	t.shape[1] = 5, t.shape[2] = 7, t.stride[1] = 1, t.stride[2] = 5;
	void *space = workspace(cpu_norm_workspace(&t, 2));
	cpu_rms_norm(&t, 2, 1e-5, false, &y, space);
	for (int i = 0; i < 3; i++) {
		double sum = 0;
		for (int j = 0; j < 35; j++)
			sum += pow(element(&x, i * 35 + j), 2);
		for (int j = 0; j < 35; j++) {
			double want = element(&x, i * 35 + j % 7 * 5 + j / 7) / sqrt(sum / 35 + 1e-5);
			ck_assert_double_eq_tol(element(&y, i * 35 + j), want, fabs(want) * unit(DT_F32) * 2);
		}
	}
	free(space), free(x.data), free(y.data);
}
END_TEST

/* The fused norm has the bits of the ops it stands for. */
START_TEST(rms_norm_is_its_parts)
{
	for (int exact = 0; exact < 2; exact++) {
		struct view x = random_view(DT_BF16, SHAPE(4, 700)), wide = random_view(DT_F32, SHAPE(4, 700));
		struct view square = random_view(DT_F32, SHAPE(4, 700)), mean = random_view(DT_F32, SHAPE(4, 1));
		struct view got = random_view(DT_BF16, SHAPE(4, 700)), want = random_view(DT_BF16, SHAPE(4, 700));
		double eps = 1e-6;
		struct view epsilon = { .data = &eps, .dtype = DT_F64 };
		float eps32;
		struct view e = { .data = &eps32, .dtype = DT_F32 };
		cpu_copy(&epsilon, &e);
		cpu_copy(&x, &wide);
		cpu_pointwise(PW_MUL, 2, (const struct view[]){ wide, wide }, &square);
		cpu_reduce(&(struct reduce){ .op = REDUCE_MEAN, .dims = 2, .count = 700, .exact = exact }, &square, &mean);
		cpu_pointwise(PW_ADD, 2, (const struct view[]){ mean, e }, &mean);
		cpu_pointwise(PW_RSQRT, 1, &mean, &mean);
		cpu_pointwise(PW_MUL, 2, (const struct view[]){ wide, mean }, &want);
		void *space = workspace(cpu_norm_workspace(&x, 1));
		cpu_rms_norm(&x, 1, eps, exact, &got, space);
		ck_assert_mem_eq(got.data, want.data, 4 * 700 * 2);
		free(space), free(x.data), free(wide.data), free(square.data), free(mean.data), free(got.data),
			free(want.data);
	}
}
END_TEST

START_TEST(layer_norm)
{
	for (int i = 0; i < 8; i++) {
		enum dtype t = floats[i / 2];
		struct view x = random_view(t, SHAPE(3, 4, 50)), y = random_view(t, SHAPE(3, 4, 50));
		struct view w = random_view(DT_F32, SHAPE(4, 50)), b = random_view(DT_F32, SHAPE(4, 50));
		void *space = workspace(cpu_norm_workspace(&x, 2));
		cpu_layer_norm(&x, i & 1 ? &w : NULL, i & 1 ? &b : NULL, 2, 1e-5, i == 3, &y, space);
		for (int row = 0; row < 3; row++) {
			double mean = 0, var = 0;
			for (int j = 0; j < 200; j++)
				mean += element(&x, row * 200 + j) / 200;
			for (int j = 0; j < 200; j++)
				var += pow(element(&x, row * 200 + j) - mean, 2) / 200;
			for (int j = 0; j < 200; j++) {
				double n = (element(&x, row * 200 + j) - mean) / sqrt(var + 1e-5);
				double want = i & 1 ? n * element(&w, j) + element(&b, j) : n;
				ck_assert_double_eq_tol(element(&y, row * 200 + j), want, unit(t) * 4);
			}
		}
		free(space), free(x.data), free(y.data), free(w.data), free(b.data);
	}
}
END_TEST

/* --- products --- */

/* a [B,M,K], b [B or 1,K,N], c [B,M,N], each transposed in memory or not. */
struct product_case { int64_t batch, m, n, k; bool ta, tb, tc, shared_b; };

static struct view matrix(enum dtype t, int64_t batch, int64_t rows, int64_t columns, bool transposed)
{
	if (transposed)
		return swap_dims(random_view(t, SHAPE(batch, columns, rows)), 1, 2);
	return random_view(t, SHAPE(batch, rows, columns));
}

static void run_gemm(const struct gemm *g)
{
	void *space = workspace(cpu_gemm_workspace(g));
	diag.status = FS_OK;
	ck_assert_msg(cpu_gemm(g, space, &diag) == FS_OK, "%s", diag.text);
	free(space);
}

static void expect_gemm(const struct gemm *g, const struct product_case *p, double rounding)
{
	int64_t b_size = g->b.shape[0] == 1 ? 0 : p->k * p->n;
	for (int64_t i = 0; i < p->batch * p->m * p->n; i++) {
		int64_t batch = i / (p->m * p->n), row = i / p->n % p->m, column = i % p->n;
		double sum = 0, size = 0;
		for (int64_t k = 0; k < p->k; k++) {
			double term = element(&g->a, (batch * p->m + row) * p->k + k) *
				      element(&g->b, batch * b_size + k * p->n + column);
			sum += term;
			size += fabs(term);
		}
		double most = fabs(sum) * rounding + size * 0x1p-22;
		ck_assert_msg(fabs(element(&g->c, i) - sum) <= most, "element %d is %g, not %g", (int)i,
			      element(&g->c, i), sum);
	}
}

static void check_gemm(const struct product_case *p, enum dtype t, enum dtype out, bool exact)
{
	struct gemm g = { .a = matrix(t, p->batch, p->m, p->k, p->ta),
			  .b = matrix(t, p->shared_b ? 1 : p->batch, p->k, p->n, p->tb),
			  .c = matrix(out, p->batch, p->m, p->n, p->tc), .exact = exact };
	run_gemm(&g);
	expect_gemm(&g, p, out == DT_BF16 ? 0x1p-8 : out == DT_F16 ? 0x1p-11 : 0x1p-23);
	free(g.a.data), free(g.b.data), free(g.c.data);
}

START_TEST(gemm)
{
	static const struct product_case cases[] = {
		{ 1, 7, 9, 33, false, false, false, false }, { 3, 5, 6, 17, true, false, false, false },
		{ 3, 5, 6, 17, false, true, false, true },   { 2, 4, 3, 2, true, true, true, false },
		{ 1, 1, 1, 1, false, false, false, false },  { 2, 1, 40, 300, false, true, false, true },
		{ 2, 33, 1, 9, false, true, false, true },   { 2, 3, 4, 0, false, false, false, true },
		{ 2, 0, 4, 3, false, false, false, false },  { 1, 3, 5, 2100, false, true, false, false },
		{ 1, 1030, 2, 3, false, true, false, false },  { 1, 2, 1030, 3, false, true, true, false },
	};
	for (int i = 0; i < 12; i++)
		for (int t = 0; t < 4; t++) {
			check_gemm(&cases[i], floats[t], floats[t], false);
			check_gemm(&cases[i], floats[t], DT_F32, false);
			check_gemm(&cases[i], floats[t], floats[t], true);
		}
}
END_TEST

/* Exact: the same bits for any part of M and N, and the f64 sum in order, rounded once. */
START_TEST(exact_gemm)
{
	struct view a = random_view(DT_BF16, SHAPE(13, 600)), b = random_view(DT_BF16, SHAPE(21, 600));
	struct view c = random_view(DT_BF16, SHAPE(13, 21)), part = random_view(DT_BF16, SHAPE(5, 21));
	struct gemm g = { .a = a, .b = swap_dims(b, 0, 1), .c = c, .exact = true };
	run_gemm(&g);
	for (int i = 0; i < 13 * 21; i++) {
		double sum = 0;
		for (int k = 0; k < 600; k++)
			sum += element(&a, i / 21 * 600 + k) * element(&b, i % 21 * 600 + k);
		ck_assert_double_eq(element(&c, i), rounded(DT_BF16, sum));
	}
	g.a.data = (uint16_t *)a.data + 3 * 600;
	g.a.shape[0] = 5;
	g.c = part;
	run_gemm(&g);
	ck_assert_mem_eq(part.data, (uint16_t *)c.data + 3 * 21, 5 * 21 * 2);
	free(a.data), free(b.data), free(c.data), free(part.data);
}
END_TEST

START_TEST(integer_gemm)
{
	int64_t x[] = { 1, 2, 3, 4 }, y[] = { 1, 0, INT64_MAX, 1 }, z[4];
	struct gemm g = { .a = I64(x, 2, 2), .b = I64(y, 2, 2), .c = I64(z, 2, 2) };
	run_gemm(&g);
	ck_assert_int_eq(z[0], -1); /* 1 + 2 * INT64_MAX wraps */
	ck_assert_int_eq(z[1], 2);
	ck_assert_int_eq(z[3], 4);
}
END_TEST

/* Sub-row-wise: K in groups, each with its own scales; and leading dims that fold into M. */
START_TEST(scaled_groups)
{
	for (int exact = 0; exact < 2; exact++) {
		struct view a = random_view(DT_E4M3, SHAPE(2, 3, 48)), b = random_view(DT_E5M2, SHAPE(5, 48));
		struct view sa = random_view(DT_F32, SHAPE(2, 3, 4)), sb = random_view(DT_F32, SHAPE(5, 4));
		struct view c = random_view(DT_F32, SHAPE(2, 3, 5));
		struct scaled_gemm g = { .a = a, .b = swap_dims(b, 0, 1), .sa = sa, .sb = swap_dims(sb, 0, 1), .c = c,
					 .exact = exact };
		void *space = workspace(cpu_scaled_gemm_workspace(&g));
		diag.status = FS_OK;
		ck_assert(cpu_scaled_gemm(&g, space, &diag) == FS_OK);
		for (int i = 0; i < 30; i++) {
			double sum = 0;
			for (int k = 0; k < 48; k++)
				sum += element(&a, i / 5 * 48 + k) * element(&b, i % 5 * 48 + k) *
				       element(&sa, i / 5 * 4 + k / 12) * element(&sb, i % 5 * 4 + k / 12);
			ck_assert_double_eq_tol(element(&c, i), sum, 1e-5);
		}
		free(space), free(a.data), free(b.data), free(sa.data), free(sb.data), free(c.data);
	}
}
END_TEST

/* --- attention --- */

struct attention { int64_t batch, heads, kv_heads, t, s, d, dv; int mask; bool causal, exact; };

/* mask kinds: none, bool [T,S], float [B,1,T,S], a bool that hides all keys of query 1 */
static struct view make_mask(const struct attention *p)
{
	struct view none = { .data = NULL };
	if (p->mask == 0)
		return none;
	if (p->mask == 2)
		return random_view(DT_F32, SHAPE(p->batch, 1, p->t, p->s));
	struct view m = random_view(DT_BOOL, SHAPE(p->t, p->s));
	for (int64_t i = 0; i < p->t * p->s; i++)
		((bool *)m.data)[i] = p->mask == 3 ? i / p->s != 1 : i % 3 != 0;
	return m;
}

static double score(const struct sdpa *s, const struct attention *p, int64_t b, int64_t h, int64_t i, int64_t j)
{
	int64_t kv = h / (p->heads / p->kv_heads);
	double x = 0;
	for (int64_t d = 0; d < p->d; d++)
		x += element(&s->q, ((b * p->heads + h) * p->t + i) * p->d + d) *
		     element(&s->k, ((b * p->kv_heads + kv) * p->s + j) * p->d + d);
	x *= s->scale;
	if (p->causal && j > i + s->q_first)
		return -INFINITY;
	if (p->mask == 2)
		return x + element(&s->mask, (b * p->t + i) * p->s + j);
	return p->mask && element(&s->mask, i * p->s + j) == 0 ? -INFINITY : x;
}

static void expect_row(const struct sdpa *s, const struct attention *p, int64_t b, int64_t h, int64_t i, double tolerance)
{
	int64_t kv = h / (p->heads / p->kv_heads);
	double sum = 0, y[16] = { 0 };
	for (int64_t j = 0; j < p->s; j++) {
		double e = exp(score(s, p, b, h, i, j));
		sum += e;
		for (int64_t d = 0; d < p->dv; d++)
			y[d] += e * element(&s->v, ((b * p->kv_heads + kv) * p->s + j) * p->dv + d);
	}
	for (int64_t d = 0; d < p->dv; d++) {
		double got = element(&s->out, ((b * p->heads + h) * p->t + i) * p->dv + d);
		ck_assert_double_eq_tol(got, sum ? y[d] / sum : 0, tolerance);
	}
}

static void check_sdpa(const struct attention *p, enum dtype t)
{
	struct view out = random_view(t, SHAPE(p->batch, p->t, p->heads, p->dv));
	struct sdpa s = { .q = random_view(t, SHAPE(p->batch, p->heads, p->t, p->d)),
			  .k = random_view(t, SHAPE(p->batch, p->kv_heads, p->s, p->d)),
			  .v = random_view(t, SHAPE(p->batch, p->kv_heads, p->s, p->dv)),
			  .out = swap_dims(out, 1, 2), .mask = make_mask(p), .scale = 1 / sqrt((double)p->d),
			  .causal = p->causal, .q_first = p->t == 1 ? p->s - 1 : 0,
			  .group = p->heads / p->kv_heads, .exact = p->exact };
	void *space = workspace(cpu_sdpa_workspace(&s));
	diag.status = FS_OK;
	ck_assert(cpu_sdpa(&s, space, &diag) == FS_OK);
	for (int64_t i = 0; i < p->batch * p->heads * p->t; i++)
		expect_row(&s, p, i / (p->heads * p->t), i / p->t % p->heads, i % p->t, unit(t));
	free(space), free(out.data), free(s.q.data), free(s.k.data), free(s.v.data), free(s.mask.data);
}

START_TEST(sdpa)
{
	static const struct attention cases[] = {
		{ 2, 4, 2, 5, 7, 8, 8, 0, false, false },   { 2, 4, 4, 6, 6, 16, 4, 0, true, false },
		{ 1, 2, 1, 150, 150, 8, 8, 0, true, false },  { 2, 2, 2, 5, 9, 8, 8, 1, false, false },
		{ 2, 2, 2, 5, 9, 8, 8, 2, false, true },    { 1, 2, 2, 3, 4, 8, 8, 3, false, false },
		{ 1, 4, 2, 1, 9, 8, 8, 0, true, true },     { 1, 2, 2, 0, 4, 8, 8, 0, false, false },
		{ 1, 2, 2, 3, 0, 8, 8, 0, false, false },   { 1, 2, 1, 140, 30, 8, 8, 2, true, true },
	};
	for (int i = 0; i < 10; i++)
		for (int t = 0; t < 3; t++)
			check_sdpa(&cases[i], floats[t]);
}
END_TEST

/* Heads 2 and 3 of 4 with the KV head 1 of 2, as a rank of two has them. */
START_TEST(sdpa_shard_of_heads)
{
	struct view q = random_view(DT_F32, SHAPE(1, 4, 3, 8)), k = random_view(DT_F32, SHAPE(1, 2, 3, 8));
	struct view all = random_view(DT_F32, SHAPE(1, 4, 3, 8)), part = random_view(DT_F32, SHAPE(1, 2, 3, 8));
	struct sdpa s = { .q = q, .k = k, .v = k, .out = all, .scale = 0.3, .group = 2 };
	void *space = workspace(cpu_sdpa_workspace(&s));
	diag.status = FS_OK;
	ck_assert(cpu_sdpa(&s, space, &diag) == FS_OK);
	s.q = view_of((float *)q.data + 2 * 24, DT_F32, SHAPE(1, 2, 3, 8));
	s.k = s.v = view_of((float *)k.data + 24, DT_F32, SHAPE(1, 1, 3, 8));
	s.out = part;
	s.q_head_first = 2;
	s.kv_head_first = 1;
	ck_assert(cpu_sdpa(&s, space, &diag) == FS_OK);
	ck_assert_mem_eq(part.data, (float *)all.data + 2 * 24, 2 * 24 * sizeof(float));
	free(space), free(q.data), free(k.data), free(all.data), free(part.data);
}
END_TEST

/* --- several ranks at once --- */

static void *rank(void *matrix)
{
	struct view a = view_of(matrix, DT_F32, SHAPE(64, 64));
	struct view c = view_of(calloc(64 * 64, sizeof(float)), DT_F32, SHAPE(64, 64));
	struct diag d = { .status = FS_OK };
	struct gemm g = { .a = a, .b = a, .c = c };
	void *space = workspace(cpu_gemm_workspace(&g));
	for (int i = 0; i < 20; i++)
		if (cpu_gemm(&g, space, &d) != FS_OK)
			break;
	free(space);
	return c.data;
}

START_TEST(concurrent_ranks)
{
	struct view a = random_view(DT_F32, SHAPE(64, 64));
	pthread_t threads[8];
	float *results[8];
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, rank, a.data);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], (void **)&results[i]);
	for (int i = 1; i < 8; i++)
		ck_assert_mem_eq(results[i], results[0], 64 * 64 * sizeof(float));
	for (int i = 0; i < 8; i++)
		free(results[i]);
	free(a.data);
}
END_TEST

/* Products cut for three threads, from two callers: by rows, by columns, with scales. */
static void *caller(void *matrix)
{
	float *c = calloc(300 * 250, sizeof(float)), *tall = calloc(250 * 300, sizeof(float));
	struct diag d = { .status = FS_OK };
	struct view one = view_of((float[]){ 1 }, DT_F32, SHAPE(1, 1));
	struct gemm g = { .a = view_of(matrix, DT_F32, SHAPE(250, 200)),
			  .b = swap_dims(view_of(matrix, DT_F32, SHAPE(300, 200)), 0, 1), .c = F32(c, 250, 300) };
	struct scaled_gemm s = { .a = view_of(matrix, DT_E4M3, SHAPE(300, 200)),
				 .b = swap_dims(view_of(matrix, DT_E4M3, SHAPE(250, 200)), 0, 1), .sa = one, .sb = one,
				 .c = F32(tall, 300, 250), .exact = true };
	int64_t bytes = cpu_gemm_workspace(&g), more = cpu_scaled_gemm_workspace(&s);
	void *space = workspace(bytes > more ? bytes : more);
	for (int i = 0; i < 3; i++)
		if (cpu_gemm(&g, space, &d) != FS_OK || cpu_scaled_gemm(&s, space, &d) != FS_OK)
			break;
	free(space);
	memcpy(matrix, &(float *[2]){ c, tall }, sizeof(float *[2]));
	return matrix;
}

START_TEST(threads)
{
	enum { SIZE = 300 * 200 };
	float *data = calloc(SIZE, 4), *copies[2] = { calloc(SIZE, 4), calloc(SIZE, 4) }, *results[2][2];
	pthread_t callers[2];
	for (int i = 0; i < SIZE; i++)
		data[i] = (float)draw();
	cpu_blas_threads(3);
	for (int i = 0; i < 2; i++)
		memcpy(copies[i], data, SIZE * 4);
	for (int i = 0; i < 2; i++)
		pthread_create(&callers[i], NULL, caller, copies[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(callers[i], NULL);
		memcpy(results[i], copies[i], sizeof results[i]);
	}
	cpu_blas_threads(1);
	ck_assert_mem_eq(results[0][0], results[1][0], 250 * 300 * 4);
	ck_assert_mem_eq(results[0][1], results[1][1], 250 * 300 * 4);
	struct view a = view_of(data, DT_F32, SHAPE(250, 200)), c = F32(results[0][0], 250, 300);
	struct view codes = view_of(data, DT_E4M3, SHAPE(300, 200)), tall = F32(results[0][1], 300, 250);
	for (int i = 0; i < 250 * 300; i += 37) {
		double sum = 0, exact = 0;
		for (int k = 0; k < 200; k++) {
			sum += element(&a, i / 300 * 200 + k) * (double)data[i % 300 * 200 + k];
			exact += element(&codes, i / 250 * 200 + k) * element(&codes, i % 250 * 200 + k);
		}
		ck_assert_double_eq_tol(element(&c, i), sum, 1e-4);
		ck_assert(same(element(&tall, i), (double)(float)exact));
	}
	for (int i = 0; i < 2; i++)
		free(copies[i]), free(results[i][0]), free(results[i][1]);
	free(data);
}
END_TEST

/* Heads in parts, more threads than some parts have heads: the bits of one thread, and of one head alone. */
START_TEST(sdpa_on_threads)
{
	struct view q = random_view(DT_F32, SHAPE(2, 3, 140, 64)), k = random_view(DT_F32, SHAPE(2, 1, 140, 64));
	struct view out[2] = { random_view(DT_F32, SHAPE(2, 3, 140, 64)), random_view(DT_F32, SHAPE(2, 3, 140, 64)) };
	diag.status = FS_OK;
	for (int i = 0; i < 2; i++) {
		struct sdpa s = { .q = q, .k = k, .v = k, .out = out[i], .scale = 0.125, .causal = true, .group = 3 };
		cpu_blas_threads(i ? 4 : 1);
		void *space = workspace(cpu_sdpa_workspace(&s));
		ck_assert(cpu_sdpa(&s, space, &diag) == FS_OK);
		free(space);
	}
	cpu_blas_threads(1);
	ck_assert_mem_eq(out[0].data, out[1].data, 2 * 3 * 140 * 64 * 4);
	for (int64_t i = 0; i < 64; i++) /* query 0 sees key 0 alone */
		ck_assert_double_eq_tol(element(&out[1], (5 * 140) * 64 + i), element(&k, 140 * 64 + i), 1e-6);
	free(q.data), free(k.data), free(out[0].data), free(out[1].data);
}
END_TEST

int main(void)
{
	return RUN_SUITE("kernels_nn", softmax, rms_norm, rms_norm_of_a_view, rms_norm_is_its_parts, layer_norm, gemm, exact_gemm,
			 integer_gemm, scaled_groups, sdpa, sdpa_shard_of_heads, concurrent_ranks, threads,
			 sdpa_on_threads);
}
