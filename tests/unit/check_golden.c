/*
 * fp8 numbers against the shared golden set, which others' code computed (its README says how).
 * Where the set is not there, small copies in tests/data/golden stand in; what they lack is skipped.
 */
#include "golden.h"

static int skipped;

static struct view like(const struct view *v, enum dtype t)
{
	struct view w = view_of(NULL, t, v->rank, v->shape);
	w.data = calloc((size_t)view_count(v) + 1, (size_t)dtype_size(t));
	return w;
}

/* Bits, or both NaN. */
static void expect_bits(const struct view *got, const struct view *want, const char *what)
{
	int size = dtype_size(got->dtype);
	ck_assert_int_eq(view_count(got), view_count(want));
	for (int64_t i = 0; i < view_count(want); i++) {
		const char *g = (const char *)got->data + i * size, *w = (const char *)want->data + i * size;
		struct view g1 = { .data = (void *)g, .dtype = got->dtype };
		struct view w1 = { .data = (void *)w, .dtype = got->dtype };
		bool nan = isnan(element(&g1, 0)) && isnan(element(&w1, 0));
		ck_assert_msg(nan || memcmp(g, w, (size_t)size) == 0, "%s: element %lld is %.9g, not %.9g", what,
			      (long long)i, element(&g1, 0), element(&w1, 0));
	}
}

START_TEST(decode)
{
	struct safetensors f = open_golden("fp8_decode");
	uint8_t codes[256];
	for (int i = 0; i < 256; i++)
		codes[i] = (uint8_t)i;
	for (int t = 0; t < 2; t++) {
		struct view want = tensor(&f, t ? "e5m2_f32" : "e4m3fn_f32"), got = like(&want, DT_F32);
		struct view in = view_of(codes, t ? DT_E5M2 : DT_E4M3, SHAPE(256));
		cpu_copy(&in, &got);
		expect_bits(&got, &want, "dense");
		/* one at a time: the scalar way */
		for (int i = 0; i < 256; i++) {
			struct view one = view_of(codes + i, in.dtype, SHAPE(1)), to = F32((float *)got.data + i, 1);
			cpu_copy(&one, &to);
		}
		expect_bits(&got, &want, "scalar");
		free(want.data);
		free(got.data);
	}
	safetensors_close(&f);
}
END_TEST

/* x to type t, dense (in vectors) and one by one, against `want`. */
static void encode(const struct view *x, const struct safetensors *f, const char *name, enum dtype t)
{
	struct view want = tensor(f, name), got = like(x, t);
	want.dtype = t;
	cpu_copy(x, &got);
	expect_bits(&got, &want, name);
	for (int64_t i = 0; i < view_count(x); i++) {
		struct view from = { .data = (char *)x->data + i * dtype_size(x->dtype), .dtype = x->dtype };
		struct view to = { .data = (char *)got.data + i * dtype_size(t), .dtype = t };
		cpu_copy(&from, &to);
	}
	expect_bits(&got, &want, name);
	free(want.data);
	free(got.data);
}

START_TEST(encode_f32)
{
	struct safetensors f = open_golden("fp8_encode_f32");
	struct view x = tensor(&f, "x"), wide = like(&x, DT_F64);
	cpu_copy(&x, &wide);
	for (int i = 0; i < 2; i++) {
		encode(i ? &wide : &x, &f, "e4m3_sat", DT_E4M3);
		encode(i ? &wide : &x, &f, "e5m2_sat", DT_E5M2);
		encode(i ? &wide : &x, &f, "bf16", DT_BF16);
		encode(i ? &wide : &x, &f, "f16", DT_F16);
	}
	free(x.data);
	free(wide.data);
	safetensors_close(&f);
}
END_TEST

static void encode_all(const char *file, enum dtype from)
{
	struct safetensors f = open_golden(file);
	const struct safetensors_entry *e = safetensors_find(&f, "e4m3_sat");
	int64_t n = e->dims[0], every = 65536 / n; /* a small copy has every 16th */
	uint16_t *bits = malloc((size_t)n * sizeof *bits);
	for (int64_t i = 0; i < n; i++)
		bits[i] = (uint16_t)(i * every);
	struct view x = view_of(bits, from, SHAPE(n));
	encode(&x, &f, "e4m3_sat", DT_E4M3);
	encode(&x, &f, "e5m2_sat", DT_E5M2);
	free(bits);
	safetensors_close(&f);
}

START_TEST(encode_16_bit)
{
	encode_all("fp8_encode_bf16_exhaustive", DT_BF16);
	encode_all("fp8_encode_f16_exhaustive", DT_F16);
}
END_TEST

static const enum dtype codes[] = { DT_E4M3, DT_E5M2 };
static const enum dtype sources[] = { DT_F32, DT_BF16 };

/* pow2 scales of f32 amaxes just below a power of two may be that power or half of it. */
static void expect_scales(const struct view *got, const struct view *want, bool pow2, const char *what)
{
	for (int64_t i = 0; i < view_count(want); i++) {
		double g = element(got, i), w = element(want, i);
		ck_assert_msg(same(g, w) || (pow2 && (g * 2 == w || g == w * 2)), "%s: scale %lld is %.9g, not %.9g",
			      what, (long long)i, g, w);
	}
}

START_TEST(scales)
{
	struct safetensors f = open_golden("scales_amax_to_scale");
	for (int i = 0; i < 8; i++) {
		const char *source = dtype_text(sources[i & 1]), *code = dtype_text(codes[i >> 1 & 1]);
		bool pow2 = i >> 2;
		const char *name = text("scale_%s_%s%s", source, code, pow2 ? "_pow2" : "");
		struct view want = tensor(&f, name), amax = tensor(&f, text("amax_%s", source));
		struct view in = like(&amax, DT_F32), got = like(&want, DT_F32), inverse = like(&want, DT_F32);
		cpu_copy(&amax, &in);
		cpu_fp8_scale(&in, codes[i >> 1 & 1], pow2, &got);
		expect_bits(&got, &want, name);
		cpu_pointwise(PW_RECIPROCAL, 1, &got, &inverse);
		if (!pow2) {
			struct view want_inverse = tensor(&f, text("inv_scale_%s_%s", source, code));
			expect_bits(&inverse, &want_inverse, name);
			free(want_inverse.data);
		}
		free(want.data), free(amax.data), free(in.data), free(got.data), free(inverse.data);
	}
	safetensors_close(&f);
}
END_TEST

/* amax over the dims of the mask, then its scale, in the shape [1 or rows, 1 or columns]. */
static struct view scale_of(const struct view *x, uint32_t dims, enum dtype code, bool pow2)
{
	int64_t shape[2] = { dims & 1 ? 1 : x->shape[0], dims & 2 ? 1 : x->shape[1] };
	struct view amax = view_of(NULL, DT_F32, 2, shape);
	amax.data = calloc((size_t)view_count(&amax), sizeof(float));
	cpu_amax(dims, x, &amax);
	cpu_fp8_scale(&amax, code, pow2, &amax);
	return amax;
}

static const struct { const char *name, *scales_name; uint32_t dims; } granularities[] = {
	{ "tensor", "tensorwise", 3 }, { "row", "row_dim-1", 2 }, { "col", "col_dim0", 1 }
};

START_TEST(scales_of_tensors)
{
	struct safetensors f = open_golden("scales_tensor_to_scale");
	for (int i = 0; i < 4 * 24; i++) {
		const char *source = dtype_text(sources[i & 1]), *code = dtype_text(codes[i >> 1 & 1]);
		bool pow2 = i >> 2 & 1;
		int c = i >> 3 & 3, kind = i >> 5;
		const char *name = text("c%d_%s_%s_%s%s", c, source, granularities[kind].scales_name, code,
					pow2 ? "_pow2" : "");
		struct view x = maybe(&f, text("c%d_%s_x", c, source)), want = maybe(&f, name);
		if (!x.data || !want.data) {
			skipped++;
			continue;
		}
		struct view got = scale_of(&x, granularities[kind].dims, codes[i >> 1 & 1], pow2);
		expect_scales(&got, &want, pow2, name);
		free(x.data), free(want.data), free(got.data);
	}
	safetensors_close(&f);
}
END_TEST

/* Codes from the stored scale, and from our own: the same. */
static void one_cast(const struct safetensors *f, const char *prefix, int kind, enum dtype code, bool pow2)
{
	const char *name = text("%s.%s.%s%s", prefix, granularities[kind].name, dtype_text(code), pow2 ? ".pow2" : "");
	struct view x = maybe(f, text("%s.x", prefix)), want = maybe(f, text("%s.q", name));
	if (!x.data || !want.data) {
		skipped++;
		free(x.data);
		free(want.data);
		return;
	}
	struct view stored = tensor(f, text("%s.scale", name)), got = like(&x, code);
	struct view own = scale_of(&x, granularities[kind].dims, code, pow2);
	expect_scales(&own, &stored, pow2, name);
	cpu_fp8_cast(&x, &stored, &got);
	expect_bits(&got, &want, name);
	if (!pow2) {
		cpu_fp8_cast(&x, &own, &got);
		expect_bits(&got, &want, name);
	}
	free(x.data), free(want.data), free(stored.data), free(got.data), free(own.data);
}

START_TEST(casts)
{
	static const char *const matrices[] = { "a", "b", "c", "d_nonfinite", "e", "z" };
	struct safetensors f = open_golden("casts");
	for (int i = 0; i < 6 * 24; i++) {
		char prefix[64];
		snprintf(prefix, sizeof prefix, "%s.%s", matrices[i / 24], dtype_text(sources[i & 1]));
		one_cast(&f, prefix, i / 8 % 3, codes[i >> 1 & 1], i >> 2 & 1);
	}
	safetensors_close(&f);
}
END_TEST

/* --- products --- */

struct product {
	const char *name;
	struct view qx, qw, sx, sw, exact, y, abs;
	int64_t m, n, k;
};

static void run_product(const struct product *p, bool scaled, bool exact, struct view *c, struct view *low)
{
	struct diag d = { .status = FS_OK };
	struct scaled_gemm g = { .a = p->qx, .b = swap_dims(p->qw, 0, 1), .c = *c, .exact = exact };
	if (scaled) {
		/* [M or 1] or [M, n] and [N or 1] or [N, n] */
		struct view sx = p->sx, sw = p->sw;
		g.sa = sx.rank == 2 ? sx : view_of(sx.data, DT_F32, SHAPE(sx.shape[0], 1));
		g.sb = swap_dims(sw.rank == 2 ? sw : view_of(sw.data, DT_F32, SHAPE(sw.shape[0], 1)), 0, 1);
	}
	if (low)
		g.low = *low;
	void *space = workspace(cpu_scaled_gemm_workspace(&g));
	ck_assert_msg(cpu_scaled_gemm(&g, space, &d) == FS_OK, "%s", d.text);
	free(space);
}

/* Any f32 order of summation, then at most one rounding to bf16. */
static void expect_product(const struct product *p, const struct view *y, bool bf16, const char *what)
{
	for (int64_t i = 0; i < p->m * p->n; i++) {
		double want = element(&p->y, i), got = element(y, i);
		double most = 1.01 * (double)(p->k + 6) * 0x1p-24 * element(&p->abs, i);
		if (bf16)
			most = most * (1 + 0x1p-8) + 0x1p-8 * fabs(want) + 0x1p-133;
		ck_assert_msg(same(got, want) || fabs(got - want) <= most, "%s %s: element %lld is %.17g, not %.17g",
			      p->name, what, (long long)i, got, want);
	}
}

static void check_exact(const struct product *p)
{
	struct view c = like(&p->exact, DT_F64), low = like(&p->exact, DT_F64);
	run_product(p, false, true, &c, NULL);
	expect_bits(&c, &p->exact, p->name);
	if (p->qx.dtype == DT_E5M2) {
		run_product(p, false, true, &c, &low);
		cpu_pointwise(PW_ADD, 2, (const struct view[]){ c, low }, &c);
		expect_bits(&c, &p->exact, p->name);
	}
	/* post_scale of the accumulator is what the fused product does */
	struct view fused = like(&p->exact, DT_BF16), apart = like(&p->exact, DT_BF16);
	struct view sx = view_of(p->sx.data, DT_F32, SHAPE(p->sx.shape[0], 1)), sw = p->sw;
	run_product(p, true, true, &fused, NULL);
	cpu_post_scale(&c, NULL, &sx, &sw, &apart);
	expect_bits(&apart, &fused, p->name);
	free(c.data), free(low.data), free(fused.data), free(apart.data);
}

static void check_product(const struct product *p)
{
	static const enum dtype outputs[] = { DT_F32, DT_BF16 };
	for (int i = 0; i < 4; i++) {
		struct view y = like(&p->y, outputs[i & 1]);
		run_product(p, true, i >> 1, &y, NULL);
		expect_product(p, &y, i & 1, i >> 1 ? "exact" : "fast");
		free(y.data);
	}
	if (p->exact.data)
		check_exact(p);
}

static void one_product(const struct safetensors *f, int s, const char *recipe)
{
	struct product p = { .name = recipe };
	const struct { struct view *v; const char *name; } parts[] = {
		{ &p.qx, "qx" }, { &p.qw, "qw" }, { &p.sx, "inv_sx" }, { &p.sw, "inv_sw" },
		{ &p.exact, "acc_exact" }, { &p.y, "y_f64" }, { &p.abs, "abs" },
	};
	for (int i = 0; i < 7; i++)
		*parts[i].v = maybe(f, text("s%d.%s.%s", s, recipe, parts[i].name));
	if (p.qx.data && p.y.data) {
		p.m = p.y.shape[0];
		p.n = p.y.shape[1];
		p.k = p.qx.shape[1];
		check_product(&p);
	} else {
		skipped++;
	}
	for (int i = 0; i < 7; i++)
		free(parts[i].v->data);
}

START_TEST(products)
{
	static const char *const recipes[] = { "tw", "tw_pow2", "row", "row_pow2", "mixed", "mixed_np2", "tw_e5m2",
					       "subrow2", "subrow4" };
	const char *shared = getenv("FP8SHARD_SHARED");
	for (int s = 0; s <= 6; s++) {
		char path[4096];
		snprintf(path, sizeof path, "%s/golden/matmul_s%d.safetensors", shared ? shared : "../shared", s);
		FILE *there = fopen(path, "rb");
		if (there)
			fclose(there);
		else if (s != 1) /* the only small one */
			continue;
		struct safetensors f = open_golden(text("matmul_s%d", s));
		for (int r = 0; r < 9; r++)
			one_product(&f, s, recipes[r]);
		safetensors_close(&f);
	}
}
END_TEST

int main(void)
{
	return RUN_SUITE("golden", decode, encode_f32, encode_16_bit, scales, scales_of_tensors, casts, products);
}
