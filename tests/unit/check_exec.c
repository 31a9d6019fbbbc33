/* The executor: small programs in text form, sharded over thread ranks, against values made by hand. */
#include "exec.h"
#include "host.h"
#include "lower.h"
#include "ranks.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- running a text --- */

struct given { const char *name; const float *data; };
#define MAX_GIVEN 8
struct program {
	const char *text;
	struct given given[MAX_GIVEN];
};

static struct plan *plan_of(const char *text)
{
	struct diag d = { 0 };
	struct context *c;
	struct graph *g;
	struct plan *p = NULL;
	struct lower_options o = { 0 };
	enum fs_status status = graph_parse(text, strlen(text), "test", &c, &g, &d);
	ck_assert_msg(status == FS_OK, "%s", d.text);
	status = lower_plan(g, &o, &p, &d);
	ck_assert_msg(status == FS_OK, "%s", d.text);
	return p;
}

struct world {
	const struct plan *plan;
	const struct program *program;
	struct exec_options options;
	int ranks, steps;
	struct comm **ends;
	struct exec **execs;
};

static const float *data_of(const struct program *p, const char *name)
{
	for (int i = 0; i < MAX_GIVEN && p->given[i].name != NULL; i++)
		if (strcmp(p->given[i].name, name) == 0)
			return p->given[i].data;
	ck_abort_msg("nothing given for '%s'", name);
}

/* The rank's part of a source. */
static enum fs_status store(struct world *w, struct exec *e, struct node_id n, struct diag *d)
{
	const struct type *t = exec_type(e, n);
	const float *data = data_of(w->program, graph_string(w->plan->graph, n, ATTR_NAME));
	struct view whole = view_of((void *)(uintptr_t)data, DT_F32, t->rank, t->dim);
	struct box box;
	exec_box(e, n, &box);
	for (int k = 0; k < t->rank; k++) {
		if (box.size[k] > 0)
			whole.data = (float *)whole.data + box.start[k] * whole.stride[k];
		whole.shape[k] = box.size[k];
	}
	float *part = malloc((size_t)view_count(&whole) * sizeof(*part) + 1);
	struct view dense = view_of(part, DT_F32, t->rank, whole.shape);
	cpu_copy(&whole, &dense);
	enum fs_status status = exec_store(e, n, DT_F32, part, d);
	free(part);
	return status;
}

static enum fs_status run_rank(void *context, int rank, struct diag *d)
{
	struct world *w = context;
	struct exec_options o = w->options;
	o.world = w->ends == NULL ? NULL : w->ends[rank];
	TRY(exec_create(w->plan, &o, &w->execs[rank], d));
	for (uint32_t i = 1; i < w->plan->graph->nodes.count; i++) {
		enum op op = graph_op(w->plan->graph, (struct node_id){ i });
		if (op == OP_INPUT || op == OP_PARAM)
			TRY(store(w, w->execs[rank], (struct node_id){ i }, d));
	}
	TRY(exec_setup(w->execs[rank], d));
	for (int i = 0; i < w->steps; i++)
		TRY(exec_step(w->execs[rank], d));
	return FS_OK;
}

static enum fs_status world_run(struct world *w, struct diag *d)
{
	w->ranks = (int)mesh_size(context_mesh(w->plan->context));
	w->steps = w->steps == 0 ? 1 : w->steps;
	w->execs = calloc((size_t)w->ranks, sizeof(*w->execs));
	w->ends = w->ranks == 1 ? NULL : calloc((size_t)w->ranks, sizeof(*w->ends));
	if (w->ends != NULL)
		ck_assert_int_eq(comm_world_threads_create(w->ranks, w->ends, d), FS_OK);
	return ranks_run(w->ranks, w->ends, run_rank, w, d);
}

static void world_release(struct world *w)
{
	for (int k = 0; k < w->ranks; k++) {
		exec_destroy(w->execs[k]);
		if (w->ends != NULL)
			comm_destroy(w->ends[k]);
	}
	free(w->execs);
	free(w->ends);
}

/* Output `name` as f32; the count of its elements. */
static int64_t output_of(struct world *w, const char *name, float *out)
{
	struct diag d = { 0 };
	struct host_tensor t;
	const struct graph *g = w->plan->graph;
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		if (strcmp(g->outputs.items[i].name, name) != 0)
			continue;
		ck_assert_msg(value_gather(w->execs, w->ranks, g->outputs.items[i].value, DT_F32, &t, &d) == FS_OK,
			      "%s", d.text);
		int64_t count = 1;
		for (int k = 0; k < t.rank; k++)
			count *= t.dim[k];
		memcpy(out, t.data, (size_t)count * sizeof(*out));
		host_tensor_release(&t);
		return count;
	}
	ck_abort_msg("no output '%s'", name);
}

static void compare(struct world *w, const char *name, const float *want, int64_t count, const char *how)
{
	float got[4096];
	ck_assert_int_eq(output_of(w, name, got), count);
	for (int64_t i = 0; i < count; i++)
		ck_assert_msg(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])), "%s, %s[%lld]: %.9g, not %.9g",
			      how, name, (long long)i, (double)got[i], (double)want[i]);
}

/* Output "y" is `want`: as planned, with all values kept, and with one rank for all. */
static void check_program(const struct program *p, const float *want, int64_t count)
{
	struct diag d = { 0 };
	struct plan *plan = plan_of(p->text), *one = NULL;
	ck_assert_int_eq(plan_on_one_rank(plan, &one, &d), FS_OK);
	struct world planned = { .plan = plan, .program = p };
	struct world kept = { .plan = plan, .program = p, .options = { .keep = true } };
	struct world single = { .plan = one, .program = p,
				.options = { .keep = true, .blocks = context_mesh(plan->context) } };
	struct world *all[] = { &planned, &kept, &single };
	static const char *const how[] = { "planned", "kept", "on one rank" };
	for (int k = 0; k < 3; k++) {
		ck_assert_msg(world_run(all[k], &d) == FS_OK, "%s: %s", how[k], d.text);
		compare(all[k], "y", want, count, how[k]);
		world_release(all[k]);
	}
	plan_destroy(one);
	plan_destroy(plan);
}

#define CHECK(program, ...)                                                             \
	do {                                                                            \
		static const float want[] = { __VA_ARGS__ };                            \
		check_program(&(program), want, (int64_t)(sizeof(want) / sizeof(want[0]))); \
	} while (0)

static const float range24[24] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23 };

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
	tcase_add_test(t, scaled_matmul_tensorwise);
	tcase_add_test(t, scaled_matmul_by_shard);
	tcase_add_test(t, scales_of_uneven_shards);
	tcase_add_test(t, high_precision);
	tcase_add_test(t, buffer_counts_up);
	tcase_add_test(t, sort_and_topk);
	tcase_add_test(t, constants_and_views);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed == 0 ? 0 : 1;
}
