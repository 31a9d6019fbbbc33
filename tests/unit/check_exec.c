/* The executor: small programs in text form, sharded over thread ranks, against values made by hand. */
#include "exec_test.h"
#include "suite.h"

/* --- collectives --- */

START_TEST(gather_uneven)
{
	/* 5 rows over 4 ranks: 2, 2, 1, 0 */
	struct program p = { "mesh tp=4\nstage local\ngraph {\n"
			     "  %x = input \"x\" : f32[5,2] (tp:S(0))\n"
			     "  %n = neg %x : f32[5,2] (tp:S(0))\n"
			     "  %g = all_gather %n {axis=tp} : f32[5,2] (tp:R)\n"
			     "  output \"y\" = %g\n}\n",
			     { { "x", range24 } } };
	CHECK(p, 0, -1, -2, -3, -4, -5, -6, -7, -8, -9);
}
END_TEST

START_TEST(gather_inner_dim_of_permuted)
{
	struct program p = { "mesh tp=3\nstage local\ngraph {\n"
			     "  %x = input \"x\" : f32[4,2] (tp:S(0))\n"
			     "  %t = permute %x {dims=[1,0]} : f32[2,4] (tp:S(1))\n"
			     "  %g = all_gather %t {axis=tp} : f32[2,4] (tp:R)\n"
			     "  output \"y\" = %g\n}\n",
			     { { "x", range24 } } };
	CHECK(p, 0, 2, 4, 6, 1, 3, 5, 7);
}
END_TEST

START_TEST(gather_nested)
{
	/* dim 0 of 6: tp major (3, 3), dp within (2, 1) */
	struct program p = { "mesh dp=2, tp=2\nstage local\ngraph {\n"
			     "  %x = input \"x\" : f32[6] (tp:S(0), dp:S(0))\n"
			     "  %n = neg %x : f32[6] (tp:S(0), dp:S(0))\n"
			     "  %g = all_gather %n {axis=dp} : f32[6] (tp:S(0))\n"
			     "  %h = all_gather %g {axis=tp} : f32[6] (dp:R)\n"
			     "  output \"y\" = %h\n}\n",
			     { { "x", range24 } } };
	CHECK(p, 0, -1, -2, -3, -4, -5);
}
END_TEST

START_TEST(gather_two_axes)
{
	struct program p = { "mesh dp=2, tp=2\nstage local\ngraph {\n"
			     "  %x = input \"x\" : bf16[2,6] (dp:S(1), tp:S(1))\n"
			     "  %g = all_gather %x {axis=dp+tp} : bf16[2,6] (dp:R)\n"
			     "  %n = neg %g : bf16[2,6] (dp:R)\n"
			     "  output \"y\" = %n\n}\n",
			     { { "x", range24 } } };
	CHECK(p, 0, -1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11);
}
END_TEST

START_TEST(all_to_all_uneven)
{
	struct program p = { "mesh tp=2\nstage local\ngraph {\n"
			     "  %x = input \"x\" : f32[3,3] (tp:S(0))\n"
			     "  %a = all_to_all %x {axis=tp from=0 to_dim=1} : f32[3,3] (tp:S(1))\n"
			     "  %c = cumsum %a {dim=0} : f32[3,3] (tp:S(1))\n"
			     "  output \"y\" = %c\n}\n",
			     { { "x", range24 } } };
	CHECK(p, 0, 1, 2, 3, 5, 7, 9, 12, 15);
}
END_TEST

START_TEST(all_to_all_with_empty_shards)
{
	struct program p = { "mesh tp=4\nstage local\ngraph {\n"
			     "  %x = input \"x\" : i32[2,5] (tp:S(0))\n"
			     "  %a = all_to_all %x {axis=tp from=0 to_dim=1} : i32[2,5] (tp:S(1))\n"
			     "  %c = neg %a : i32[2,5] (tp:S(1))\n"
			     "  %b = all_to_all %c {axis=tp from=1 to_dim=0} : i32[2,5] (tp:S(0))\n"
			     "  output \"y\" = %b\n}\n",
			     { { "x", range24 } } };
	CHECK(p, 0, -1, -2, -3, -4, -5, -6, -7, -8, -9);
}
END_TEST

START_TEST(reductions_of_partial_sums)
{
	struct program p = { "mesh tp=2\nstage local\ngraph {\n"
			     "  %x = input \"x\" : f32[2,3] (tp:S(1))\n"
			     "  %s = sum %x {dims=[1]} : f32[2] (tp:P(sum))\n"
			     "  %r = all_reduce %s {axis=tp reduce=\"sum\"} : f32[2] (tp:R)\n"
			     "  %e = mean %x {dims=[1]} : f32[2] (tp:P(sum))\n"
			     "  %q = reduce_scatter %e {axis=tp dim=0 reduce=\"sum\"} : f32[2] (tp:S(0))\n"
			     "  %g = all_gather %q {axis=tp} : f32[2] (tp:R)\n"
			     "  %m = max %x {dims=[1]} : f32[2] (tp:P(max))\n"
			     "  %k = all_reduce %m {axis=tp reduce=\"max\"} : f32[2] (tp:R)\n"
			     "  %c = cat %r, %g, %k {dim=0} : f32[6] (tp:R)\n"
			     "  output \"y\" = %c\n}\n",
			     { { "x", range24 } } };
	CHECK(p, 3, 12, 1, 4, 2, 5);
}
END_TEST

START_TEST(reduce_scatter_uneven_inner_dim)
{
	struct program p = { "mesh tp=2\nstage local\ngraph {\n"
			     "  %x = input \"x\" : f32[2,2,3] (tp:S(0))\n"
			     "  %s = sum %x {dims=[0]} : f32[2,3] (tp:P(sum))\n"
			     "  %r = reduce_scatter %s {axis=tp dim=1 reduce=\"sum\"} : f32[2,3] (tp:S(1))\n"
			     "  output \"y\" = %r\n}\n",
			     { { "x", range24 } } };
	CHECK(p, 6, 8, 10, 12, 14, 16);
}
END_TEST

START_TEST(nan_of_one_rank_wins)
{
	static const float x[4] = { 1, NAN, 3, 4 };
	struct program p = { "mesh tp=2\nstage fp8\ngraph {\n"
			     "  %x = input \"x\" : f32[4] (tp:S(0))\n"
			     "  %a = amax %x {dims=[0]} : f32[] (tp:P(max))\n"
			     "  %r = all_reduce %a {axis=tp reduce=\"max\"} : f32[] (tp:R)\n"
			     "  output \"y\" = %r\n}\n",
			     { { "x", x } } };
	CHECK(p, NAN);
}
END_TEST

/* --- offsets of a rank --- */

START_TEST(iota_fill_shard)
{
	struct program p = { "mesh tp=4\nstage local\ngraph {\n"
			     "  %i = iota {start=10 step=3} : i64[5] (tp:S(0))\n"
			     "  %f = fill {value=2} : i64[5] (tp:R)\n"
			     "  %s = shard %f {axis=tp dim=0} : i64[5] (tp:S(0))\n"
			     "  %m = mul %i, %s : i64[5] (tp:S(0))\n"
			     "  output \"y\" = %m\n}\n",
			     { { NULL, NULL } } };
	CHECK(p, 20, 26, 32, 38, 44);
}
END_TEST

START_TEST(embedding_by_vocabulary)
{
	static const float ids[3] = { 4, 0, 2 };
	struct program p = { "mesh tp=2\nstage local\ngraph {\n"
			     "  %w = param \"w\" : f32[5,2] (tp:S(0))\n"
			     "  %i = input \"i\" : i64[3] (tp:R)\n"
			     "  %e = embedding %w, %i : f32[3,2] (tp:P(sum))\n"
			     "  %r = all_reduce %e {axis=tp reduce=\"sum\"} : f32[3,2] (tp:R)\n"
			     "  output \"y\" = %r\n}\n",
			     { { "w", range24 }, { "i", ids } } };
	CHECK(p, 8, 9, 0, 1, 4, 5);
}
END_TEST

START_TEST(embedding_out_of_range)
{
	static const float ids[3] = { 4, 5, 2 };
	struct program p = { "mesh tp=2\nstage local\ngraph {\n"
			     "  %w = param \"w\" : f32[5,2] (tp:S(0))\n"
			     "  %i = input \"i\" : i64[3] (tp:R)\n"
			     "  %e = embedding %w, %i : f32[3,2] (tp:P(sum)) ; embed @ model.embed_tokens\n"
			     "  %r = all_reduce %e {axis=tp reduce=\"sum\"} : f32[3,2] (tp:R)\n"
			     "  output \"y\" = %r\n}\n",
			     { { "w", range24 }, { "i", ids } } };
	struct diag d = { 0 };
	struct plan *plan = plan_of(p.text);
	struct world w = { .plan = plan, .program = &p };
	ck_assert_int_eq(world_run(&w, &d), FS_INVALID);
	ck_assert_msg(strstr(d.text, "model.embed_tokens") != NULL && strstr(d.text, "5") != NULL, "%s", d.text);
	world_release(&w);
	plan_destroy(plan);
}
END_TEST

/* 3 query heads of size 1 over 3 ranks, 1 KV head for all; causal, so row 0 sees v[0] alone. */
START_TEST(sdpa_heads)
{
	static const float q[6] = { 0, 0, 0, 0, 0, 0 }, v[2] = { 2, 4 };
	struct program p = { "mesh tp=3\nstage local\ngraph {\n"
			     "  %q = input \"q\" : f32[3,2,1] (tp:S(0))\n"
			     "  %k = input \"k\" : f32[1,2,1] (tp:R)\n"
			     "  %v = input \"v\" : f32[1,2,1] (tp:R)\n"
			     "  %o = sdpa %q, %k, %v {scale=1 causal=1} : f32[3,2,1] (tp:S(0))\n"
			     "  output \"y\" = %o\n}\n",
			     { { "q", q }, { "k", v }, { "v", v } } };
	CHECK(p, 2, 3, 2, 3, 2, 3);
}
END_TEST

START_TEST(sdpa_grouped_heads_by_rank)
{
	static const float q[4] = { 0, 0, 0, 0 }, v[4] = { 2, 4, 6, 10 };
	struct program p = { "mesh tp=4\nstage local\ngraph {\n"
			     "  %q = input \"q\" : f32[4,1,1] (tp:S(0))\n"
			     "  %v = input \"v\" : f32[2,2,1] (tp:R)\n"
			     "  %o = sdpa %q, %v, %v {scale=1} : f32[4,1,1] (tp:S(0))\n"
			     "  output \"y\" = %o\n}\n",
			     { { "q", q }, { "v", v } } };
	CHECK(p, 3, 3, 8, 8);
}
END_TEST

/* --- products --- */

START_TEST(matmul_column_row_parallel)
{
	static const float x[4] = { 1, 2, 3, 4 }, w1[6] = { 1, 0, 0, 1, 1, 1 }, w2[6] = { 1, 1, 1, 0, 1, 2 };
	/* h = x w1^T = [1 2 3; 3 4 7], y = h w2^T */
	struct program p = { "mesh tp=2\nstage local\ngraph {\n"
			     "  %x = input \"x\" : f32[2,2] (tp:S(0))\n"
			     "  %w1 = param \"w1\" : f32[3,2] (tp:S(0))\n"
			     "  %w2 = param \"w2\" : f32[2,3] (tp:S(1))\n"
			     "  %g = all_gather %x {axis=tp} : f32[2,2] (tp:R)\n"
			     "  %h = matmul %g, %w1 {eq=\"mk,nk->mn\"} : f32[2,3] (tp:S(1))\n"
			     "  %y = matmul %h, %w2 {eq=\"mk,nk->mn\"} : f32[2,2] (tp:P(sum))\n"
			     "  %r = reduce_scatter %y {axis=tp dim=0 reduce=\"sum\"} : f32[2,2] (tp:S(0))\n"
			     "  output \"y\" = %r\n}\n",
			     { { "x", x }, { "w1", w1 }, { "w2", w2 } } };
	CHECK(p, 6, 8, 14, 18);
}
END_TEST

START_TEST(matmul_letters)
{
	/* two letters of K in different orders, N before M in the result */
	static const float a[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, b[4] = { 1, 0, 2, 1 };
	/* a[m][k][l], b[l][k][n=1]: y[n][m] = sum a[m,k,l] b[l,k] */
	struct program p = { "mesh tp=2\nstage local\ngraph {\n"
			     "  %a = input \"a\" : f32[2,2,2] (tp:S(0))\n"
			     "  %b = input \"b\" : f32[2,2,1] (tp:R)\n"
			     "  %y = matmul %a, %b {eq=\"mkl,lkn->nm\"} : f32[1,2] (tp:S(1))\n"
			     "  output \"y\" = %y\n}\n",
			     { { "a", a }, { "b", b } } };
	/* m0: k0l0 1*1 + k0l1 2*2 + k1l0 3*0 + k1l1 4*1 = 9; m1: 5 + 12 + 0 + 8 = 25 */
	CHECK(p, 9, 25);
}
END_TEST

/* --- buffers, constants, second results --- */

START_TEST(buffer_counts_up)
{
	struct program p = { "mesh tp=2\nstage local\ngraph {\n"
			     "  %b = param \"calls\" {buffer=1} : f32[3] (tp:S(0))\n"
			     "  %x = input \"x\" : f32[3] (tp:S(0))\n"
			     "  %s = add %b, %x : f32[3] (tp:S(0))\n"
			     "  output buffer \"calls\" \"y\" = %s\n}\n",
			     { { "calls", range24 }, { "x", range24 } } };
	static const float want[3] = { 0, 4, 8 };
	struct plan *plan = plan_of(p.text);
	struct diag d = { 0 };
	struct world w = { .plan = plan, .program = &p, .steps = 3 };
	ck_assert_msg(world_run(&w, &d) == FS_OK, "%s", d.text);
	compare(&w, "y", want, 3, "three steps");
	world_release(&w);
	plan_destroy(plan);
}
END_TEST

START_TEST(sort_and_topk)
{
	static const float x[8] = { 3, 1, 2, 0, 5, 7, 6, 4 };
	struct program p = { "mesh tp=2\nstage local\ngraph {\n"
			     "  %x = input \"x\" : f32[2,4] (tp:S(0))\n"
			     "  %t = topk %x {dim=1 k=2} : f32[2,2] (tp:S(0))\n"
			     "  %i = proj %t {index=1} : i64[2,2] (tp:S(0))\n"
			     "  %f = cast %i {dtype=f32} : f32[2,2] (tp:S(0))\n"
			     "  %c = cat %t, %f {dim=1} : f32[2,4] (tp:S(0))\n"
			     "  output \"y\" = %c\n}\n",
			     { { "x", x } } };
	CHECK(p, 3, 2, 0, 2, 7, 6, 1, 2);
}
END_TEST

START_TEST(constants_and_views)
{
	struct program p = { "mesh tp=2\nstage local\ngraph {\n"
			     "  %c = const {data=[1, 2, 3, 4, 5, 6]} : f32[2,3] (tp:R)\n"
			     "  %x = input \"x\" : f32[4,3] (tp:S(0))\n"
			     "  %t = permute %x {dims=[1,0]} : f32[3,4] (tp:S(1))\n"
			     "  %h = slice %t {dim=0 start=1 end=3} : f32[2,4] (tp:S(1))\n"
			     "  %r = reshape %h {shape=[2,1,4]} : f32[2,1,4] (tp:S(2))\n"
			     "  %d = slice %c {dim=1 start=2 end=3} : f32[2,1] (tp:R)\n"
			     "  %d3 = reshape %d {shape=[2,1,1]} : f32[2,1,1] (tp:R)\n"
			     "  %e = expand %d3 {shape=[2,1,4]} : f32[2,1,4] (tp:R)\n"
			     "  %f = shard %e {axis=tp dim=2} : f32[2,1,4] (tp:S(2))\n"
			     "  %m = mul %r, %f : f32[2,1,4] (tp:S(2))\n"
			     "  output \"y\" = %m\n}\n",
			     { { "x", range24 } } };
	CHECK(p, 3, 12, 21, 30, 12, 30, 48, 66);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("exec");
	TCase *t = tcase_create("exec");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, gather_uneven);
	tcase_add_test(t, gather_inner_dim_of_permuted);
	tcase_add_test(t, gather_nested);
	tcase_add_test(t, gather_two_axes);
	tcase_add_test(t, all_to_all_uneven);
	tcase_add_test(t, all_to_all_with_empty_shards);
	tcase_add_test(t, reductions_of_partial_sums);
	tcase_add_test(t, reduce_scatter_uneven_inner_dim);
	tcase_add_test(t, nan_of_one_rank_wins);
	tcase_add_test(t, iota_fill_shard);
	tcase_add_test(t, embedding_by_vocabulary);
	tcase_add_test(t, embedding_out_of_range);
	tcase_add_test(t, sdpa_heads);
	tcase_add_test(t, sdpa_grouped_heads_by_rank);
	tcase_add_test(t, matmul_column_row_parallel);
	tcase_add_test(t, matmul_letters);
	tcase_add_test(t, buffer_counts_up);
	tcase_add_test(t, sort_and_topk);
	tcase_add_test(t, constants_and_views);
	suite_add_tcase(s, t);
	return suite_run(s);
}
