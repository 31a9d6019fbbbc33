/* The executor on fp8 plans: scales of tensors and of shards, on ranks and on one rank; high-precision runs. */
#include "exec_test.h"
#include "suite.h"

#define FP8_HEAD "mesh tp=2\nstage fp8\ngraph {\n" \
	"  %x = input \"x\" : f32[2,32] (tp:S(1))\n" \
	"  %w = param \"w\" : f32[1,32] (tp:S(1))\n"

/* Row 0: 1s and then 2s; row 1: 4s and then 448s.  w: 1s and then 0.5s.  All of them are codes at any scale here. */
static void fill_fp8(float x[64], float w[32])
{
	for (int i = 0; i < 32; i++) {
		x[i] = i < 16 ? 1 : 2;
		x[32 + i] = i < 16 ? 4 : 448;
		w[i] = i < 16 ? 1 : 0.5f;
	}
}

START_TEST(scaled_matmul_tensorwise)
{
	float x[64], w[32];
	fill_fp8(x, w);
	struct program p = { FP8_HEAD
			     "  %ax = amax %x {dims=[0,1]} : f32[] (tp:P(max))\n"
			     "  %aw = amax %w {dims=[0,1]} : f32[] (tp:P(max))\n"
			     "  %rx = all_reduce %ax {axis=tp reduce=\"max\"} : f32[] (tp:R)\n"
			     "  %rw = all_reduce %aw {axis=tp reduce=\"max\"} : f32[] (tp:R)\n"
			     "  %sx = fp8_scale %rx {dtype=e4m3 pow2=1} : f32[] (tp:R)\n"
			     "  %sw = fp8_scale %rw {dtype=e4m3 pow2=1} : f32[] (tp:R)\n"
			     "  %qx = fp8_cast %x, %sx {dtype=e4m3} : e4m3[2,32] (tp:S(1))\n"
			     "  %qw = fp8_cast %w, %sw {dtype=e4m3} : e4m3[1,32] (tp:S(1))\n"
			     "  %ix = reciprocal %sx : f32[] (tp:R)\n"
			     "  %iw = reciprocal %sw : f32[] (tp:R)\n"
			     "  %y = scaled_matmul %qx, %qw, %ix, %iw {eq=\"mk,nk->mn\" dtype=f32} : f32[2,1] (tp:P(sum))\n"
			     "  %r = all_reduce %y {axis=tp reduce=\"sum\"} : f32[2,1] (tp:R)\n"
			     "  %acc = scaled_matmul %qx, %qw {eq=\"mk,nk->mn\" dtype=f64 exact=1} : f64[2,1] (tp:P(sum))\n"
			     "  %sum = all_reduce %acc {axis=tp reduce=\"sum\"} : f64[2,1] (tp:R)\n"
			     "  %post = post_scale %sum, %ix, %iw {eq=\"mk,nk->mn\" dtype=f32} : f32[2,1] (tp:R)\n"
			     "  %c = cat %r, %post {dim=1} : f32[2,2] (tp:R)\n"
			     "  output \"y\" = %c\n}\n",
			     { { "x", x }, { "w", w } } };
	CHECK(p, 32, 32, 3648, 3648);
}
END_TEST

#define SCOPED_SCALES \
	"  %ax = amax %x {dims=[1] scope=tp} : f32[2,2] (tp:S(1))\n" \
	"  %aw = amax %w {dims=[1] scope=tp} : f32[1,2] (tp:S(1))\n" \
	"  %sx = fp8_scale %ax {dtype=e4m3} : f32[2,2] (tp:S(1))\n" \
	"  %sw = fp8_scale %aw {dtype=e4m3} : f32[1,2] (tp:S(1))\n" \
	"  %qx = fp8_cast %x, %sx {dtype=e4m3} : e4m3[2,32] (tp:S(1))\n" \
	"  %qw = fp8_cast %w, %sw {dtype=e4m3} : e4m3[1,32] (tp:S(1))\n" \
	"  %ix = reciprocal %sx : f32[2,2] (tp:S(1))\n" \
	"  %iw = reciprocal %sw : f32[1,2] (tp:S(1))\n"

START_TEST(scaled_matmul_by_shard)
{
	float x[64], w[32];
	fill_fp8(x, w);
	struct program p = { FP8_HEAD SCOPED_SCALES
			     "  %y = scaled_matmul %qx, %qw, %ix, %iw {eq=\"mk,nk->mn\" dtype=f32} : f32[2,1] (tp:P(sum))\n"
			     "  %r = all_reduce %y {axis=tp reduce=\"sum\"} : f32[2,1] (tp:R)\n"
			     "  %acc = scaled_matmul %qx, %qw {eq=\"mk,nk->mn\" dtype=f32} : f32[2,1] (tp:P(sum))\n"
			     "  %post = post_scale %acc, %ix, %iw {eq=\"mk,nk->mn\" dtype=f32} : f32[2,1] (tp:P(sum))\n"
			     "  %s = all_reduce %post {axis=tp reduce=\"sum\"} : f32[2,1] (tp:R)\n"
			     "  %n = cat %r, %s {dim=1} : f32[2,2] (tp:R)\n"
			     "  %i = cast %n {dtype=i32} : i32[2,2] (tp:R)\n"
			     "  output \"y\" = %i\n}\n",
			     { { "x", x }, { "w", w } } };
	CHECK(p, 32, 32, 3648, 3648);
}
END_TEST

/* K = 48 over 5 ranks: 10, 10, 10, 10, 8; each has its own scale. */
START_TEST(scales_of_uneven_shards)
{
	float x[48], w[48];
	for (int i = 0; i < 48; i++) {
		x[i] = (float)(1 << i / 10);
		w[i] = 1;
	}
	struct program p = { "mesh tp=5\nstage fp8\ngraph {\n"
			     "  %x = input \"x\" : f32[1,48] (tp:S(1))\n"
			     "  %w = param \"w\" : f32[1,48] (tp:S(1))\n"
			     "  %ax = amax %x {dims=[1] scope=tp} : f32[1,5] (tp:S(1))\n"
			     "  %aw = amax %w {dims=[1] scope=tp} : f32[1,5] (tp:S(1))\n"
			     "  %sx = fp8_scale %ax {dtype=e4m3 pow2=1} : f32[1,5] (tp:S(1))\n"
			     "  %sw = fp8_scale %aw {dtype=e4m3 pow2=1} : f32[1,5] (tp:S(1))\n"
			     "  %qx = fp8_cast %x, %sx {dtype=e4m3} : e4m3[1,48] (tp:S(1))\n"
			     "  %qw = fp8_cast %w, %sw {dtype=e4m3} : e4m3[1,48] (tp:S(1))\n"
			     "  %ix = reciprocal %sx : f32[1,5] (tp:S(1))\n"
			     "  %iw = reciprocal %sw : f32[1,5] (tp:S(1))\n"
			     "  %y = scaled_matmul %qx, %qw, %ix, %iw {eq=\"mk,nk->mn\" dtype=f32} : f32[1,1] (tp:P(sum))\n"
			     "  %r = all_reduce %y {axis=tp reduce=\"sum\"} : f32[1,1] (tp:R)\n"
			     "  output \"y\" = %r\n}\n",
			     { { "x", x }, { "w", w } } };
	CHECK(p, 10 + 20 + 40 + 80 + 8 * 16);
}
END_TEST

/* --- high-precision runs --- */

START_TEST(high_precision)
{
	static const float x[32] = { 1.0625f, 1.03125f }, w[32] = { 3, 5 };
	struct program p = { "mesh tp=2\nstage fp8\ngraph {\n"
			     "  %x = input \"x\" : bf16[1,32] (tp:S(1))\n"
			     "  %w = param \"w\" : bf16[1,32] (tp:S(1))\n"
			     "  %ax = amax %x {dims=[1] scope=tp} : f32[1,2] (tp:S(1))\n"
			     "  %aw = amax %w {dims=[1] scope=tp} : f32[1,2] (tp:S(1))\n"
			     "  %sx = fp8_scale %ax {dtype=e4m3} : f32[1,2] (tp:S(1))\n"
			     "  %sw = fp8_scale %aw {dtype=e4m3} : f32[1,2] (tp:S(1))\n"
			     "  %qx = fp8_cast %x, %sx {dtype=e4m3} : e4m3[1,32] (tp:S(1))\n"
			     "  %qw = fp8_cast %w, %sw {dtype=e4m3} : e4m3[1,32] (tp:S(1))\n"
			     "  %ix = reciprocal %sx : f32[1,2] (tp:S(1))\n"
			     "  %iw = reciprocal %sw : f32[1,2] (tp:S(1))\n"
			     "  %acc = scaled_matmul %qx, %qw {eq=\"mk,nk->mn\" dtype=f32} : f32[1,1] (tp:P(sum))\n"
			     "  %y = post_scale %acc, %ix, %iw {eq=\"mk,nk->mn\" dtype=bf16} : bf16[1,1] (tp:P(sum))\n"
			     "  %r = all_reduce %y {axis=tp reduce=\"sum\"} : bf16[1,1] (tp:R)\n"
			     "  output \"y\" = %r\n}\n",
			     { { "x", x }, { "w", w } } };
	struct diag d = { 0 };
	struct plan *plan = plan_of(p.text), *one;
	ck_assert_int_eq(plan_on_one_rank(plan, &one, &d), FS_OK);
	for (int k = 0; k < 4; k++) {
		struct world w4 = { .plan = k < 2 ? plan : one, .program = &p,
				    .options = { .keep = true, .numerics = k % 2 ? EXEC_WIDE : EXEC_HIGH } };
		float want = k % 2 ? 8.34375f : 8.375f; /* 3 * 1.0625 + 5 * 1.03125 = 8.34375, in bf16 8.375 */
		if (k >= 2)
			w4.options.blocks = context_mesh(plan->context);
		ck_assert_msg(world_run(&w4, &d) == FS_OK, "%s", d.text);
		compare(&w4, "y", &want, 1, "high");
		world_release(&w4);
	}
	plan_destroy(one);
	plan_destroy(plan);
}
END_TEST

/* e5m2 operand, exact: the products of large and of small codes are summed over ranks apart, then added. */
START_TEST(two_halves)
{
	float x[32], w[32];
	for (int i = 0; i < 32; i++) {
		x[i] = i % 2 ? 0.25f : 2;
		w[i] = i < 16 ? 1 : 3;
	}
	struct program p = { "mesh tp=2\nstage fp8\ngraph {\n"
			     "  %x = input \"x\" : f32[1,32] (tp:S(1))\n"
			     "  %w = param \"w\" : f32[1,32] (tp:S(1))\n"
			     "  %one = fill {value=1} : f32[] (tp:R)\n"
			     "  %qx = fp8_cast %x, %one {dtype=e5m2} : e5m2[1,32] (tp:S(1))\n"
			     "  %qw = fp8_cast %w, %one {dtype=e4m3} : e4m3[1,32] (tp:S(1))\n"
			     "  %a = scaled_matmul %qx, %qw {eq=\"mk,nk->mn\" dtype=f64 exact=1} : f64[1,1] (tp:P(sum))\n"
			     "  %b = proj %a {index=1 dtype=f64} : f64[1,1] (tp:P(sum))\n"
			     "  %ra = all_reduce %a {axis=tp reduce=\"sum\"} : f64[1,1] (tp:R)\n"
			     "  %rb = all_reduce %b {axis=tp reduce=\"sum\"} : f64[1,1] (tp:R)\n"
			     "  %h = fill {value=0.5} : f32[] (tp:R)\n"
			     "  %y = post_scale %ra, %h, %one, %rb {eq=\"mk,nk->mn\" dtype=f32} : f32[1,1] (tp:R)\n"
			     "  output \"y\" = %y\n}\n",
			     { { "x", x }, { "w", w } } };
	CHECK(p, 0.5f * (8 * 2.25f + 8 * 3 * 2.25f));
}
END_TEST

/* A weight that is stored as codes is code * scale in a high-precision run too. */
START_TEST(stored_codes)
{
	static const float x[16] = { 1.0625f, 2 }, w[16] = { 3, 5 }, scale[1] = { 0.5f };
	struct program p = { "mesh tp=2\nstage fp8\ngraph {\n"
			     "  %x = input \"x\" : f32[1,16] (tp:S(1))\n"
			     "  %w = param \"w\" : e4m3[1,16] (tp:S(1))\n"
			     "  %s = param \"s\" : f32[1,1] (tp:R)\n"
			     "  %one = fill {value=1} : f32[] (tp:R)\n"
			     "  %q = fp8_cast %x, %one {dtype=e4m3} : e4m3[1,16] (tp:S(1))\n"
			     "  %y = scaled_matmul %q, %w, %one, %s {eq=\"mk,nk->mn\" dtype=f32} : f32[1,1] (tp:P(sum))\n"
			     "  %r = all_reduce %y {axis=tp reduce=\"sum\"} : f32[1,1] (tp:R)\n"
			     "  %a = scaled_matmul %q, %w {eq=\"mk,nk->mn\" dtype=f32} : f32[1,1] (tp:P(sum))\n"
			     "  %p = post_scale %a, %one, %s {eq=\"mk,nk->mn\" dtype=f32} : f32[1,1] (tp:P(sum))\n"
			     "  %t = all_reduce %p {axis=tp reduce=\"sum\"} : f32[1,1] (tp:R)\n"
			     "  %c = cat %r, %t {dim=1} : f32[1,2] (tp:R)\n"
			     "  output \"y\" = %c\n}\n",
			     { { "x", x }, { "w", w }, { "s", scale } } };
	static const float high[2] = { 0.5f * (3 * 1.0625f + 10), 0.5f * (3 * 1.0625f + 10) };
	struct diag d = { 0 };
	struct plan *plan = plan_of(p.text);
	struct world run = { .plan = plan, .program = &p, .options = { .keep = true, .numerics = EXEC_HIGH } };
	CHECK(p, 6.5f, 6.5f); /* 1.0625 is halfway between the codes 1 and 1.125: to even */
	ck_assert_msg(world_run(&run, &d) == FS_OK, "%s", d.text);
	compare(&run, "y", high, 2, "high");
	world_release(&run);
	plan_destroy(plan);
}
END_TEST

/* --- memory --- */

static _Thread_local int allowed; /* allocations until one fails */

static enum fs_status failing_alloc(struct backend *b, int64_t bytes, void **out, struct diag *d)
{
	if (allowed-- == 0)
		return diag_set(d, FS_NOMEM, "out of memory: %lld bytes wanted", (long long)bytes);
	return cpu_backend.alloc(b, bytes, out, d);
}

/* Each allocation of a backend may fail: an error, and nothing leaks. */
START_TEST(allocations_fail)
{
	float x[64], w[32];
	fill_fp8(x, w);
	struct program p = { FP8_HEAD SCOPED_SCALES
			     "  %y = scaled_matmul %qx, %qw, %ix, %iw {eq=\"mk,nk->mn\" dtype=f32} : f32[2,1] (tp:P(sum))\n"
			     "  %r = all_reduce %y {axis=tp reduce=\"sum\"} : f32[2,1] (tp:R)\n"
			     "  output \"y\" = %r\n}\n",
			     { { "x", x }, { "w", w } } };
	struct backend_ops ops = cpu_backend;
	struct diag d = { 0 };
	struct plan *plan = plan_of(p.text), *one;
	enum fs_status status = FS_NOMEM;
	int failures = 0;
	ops.alloc = failing_alloc;
	ck_assert_int_eq(plan_on_one_rank(plan, &one, &d), FS_OK);
	for (; status == FS_NOMEM; failures++) {
		struct world run = { .plan = one, .program = &p,
				     .options = { .backend = &ops, .keep = true, .blocks = context_mesh(plan->context) } };
		allowed = failures;
		d.status = FS_OK;
		d.text[0] = '\0';
		status = world_run(&run, &d);
		world_release(&run);
	}
	ck_assert_msg(status == FS_OK, "%s", d.text);
	ck_assert_int_gt(failures, 5);
	plan_destroy(one);
	plan_destroy(plan);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("exec_fp8");
	TCase *t = tcase_create("exec_fp8");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, scaled_matmul_tensorwise);
	tcase_add_test(t, scaled_matmul_by_shard);
	tcase_add_test(t, scales_of_uneven_shards);
	tcase_add_test(t, high_precision);
	tcase_add_test(t, two_halves);
	tcase_add_test(t, stored_codes);
	tcase_add_test(t, allocations_fail);
	suite_add_tcase(s, t);
	return suite_run(s);
}
