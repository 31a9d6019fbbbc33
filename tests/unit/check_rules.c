/* Sharding rules: the strategies of ops on one axis against expectations, and reshapes against brute force. */
#include "rule.h"
#include "spell.h"
#include "suite.h"

/*
 * Strategies as "operands>result", each label R, a dim that is sharded, or + ^ v for P(sum), P(max),
 * P(min): the linear layer with a column-parallel weight is "R0>2".
 */
static const struct rule_case {
	const char *op, *in, *attrs;
	int ranks;
	bool exact;
	const char *want;
} cases[] = {
	/* matmul: batch, rows, columns, contraction */
	{ "matmul", "bf16[2,64,256] bf16[128,256]", "eq=bmk,nk->bmn", 4, 0, "RR>R 0R>0 1R>1 21>+ R0>2" },
	{ "matmul", "bf16[2,64,256] bf16[2,256,128]", "eq=bmk,bkn->bmn", 2, 0, "RR>R 00>0 1R>1 21>+ R2>2" },
	{ "matmul", "bf16[1,256] bf16[128,256]", "eq=mk,nk->mn", 4, 0, "RR>R 11>+ R0>1" },
	{ "matmul", "bf16[64] bf16[64]", "eq=k,k->", 4, 1, "RR>R 00>+" },

	/* reshape: heads are the major factor; chunk boundaries must fall on them */
	{ "reshape", "f32[2,64,256]", "shape=[2,64,4,64]", 4, 0, "R>R 0>0 1>1 2>2 +>+ ^>^ v>v" },
	{ "reshape", "f32[2,64,256]", "shape=[2,64,4,64]", 2, 1, "R>R 0>0 1>1 2>2 ^>^ v>v" },
	{ "reshape", "f32[64,48]", "shape=[64,3,16]", 2, 1, "R>R 0>0 ^>^ v>v" },
	{ "reshape", "f32[64,48]", "shape=[64,3,16]", 3, 1, "R>R 0>0 1>1 ^>^ v>v" },
	{ "reshape", "f32[64,3,16]", "shape=[64,48]", 3, 1, "R>R 0>0 1>1 ^>^ v>v" },
	{ "reshape", "f32[8,4]", "shape=[32]", 4, 1, "R>R 0>0 ^>^ v>v" },
	{ "reshape", "f32[1,8,1,4]", "shape=[8,4,1]", 2, 1, "R>R 1>0 3>1 ^>^ v>v" },
	{ "reshape", "f32[6,4]", "shape=[4,6]", 2, 1, "R>R 0>0 ^>^ v>v" },
	{ "reshape", "f32[6,4]", "shape=[4,6]", 3, 1, "R>R ^>^ v>v" },
	{ "reshape", "f32[3,4,5]", "shape=[2,6,5]", 5, 1, "R>R 2>2 ^>^ v>v" },
	{ "reshape", "f32[0,4]", "shape=[4,0]", 2, 1, "R>R ^>^ v>v" },
	{ "reshape", "f32[2,2,2,2,2,2,2,2]", "shape=[256]", 2, 1, "R>R 0>0 ^>^ v>v" },

	/* other views */
	{ "permute", "f32[2,3,4]", "dims=[2,0,1]", 2, 1, "R>R 2>0 0>1 1>2 ^>^ v>v" },
	{ "expand", "f32[1,4]", "shape=[8,4]", 4, 1, "R>R R>0 1>1 ^>^ v>v" },
	{ "slice", "f32[8,8]", "dim=1 start=0 end=4", 2, 1, "R>R 0>0 ^>^ v>v" },
	{ "slice", "f32[8,8]", "dim=1 start=0 end=8", 2, 1, "R>R 0>0 1>1 ^>^ v>v" },
	{ "cat", "f32[8,2] f32[8,6]", "dim=1", 2, 0, "RR>R 00>0 ++>+ ^^>^ vv>v" },

	/* pointwise */
	{ "add", "f32[8,4] f32[4]", "", 2, 0, "RR>R 0R>0 10>1 ++>+" },
	{ "add", "f32[8,4] f32[4]", "", 2, 1, "RR>R 0R>0 10>1" },
	{ "mul", "f32[8,1] f32[1,4]", "", 2, 0, "RR>R 0R>0 R1>1" },
	{ "silu", "f32[8,3]", "", 2, 0, "R>R 0>0 1>1" },
	{ "neg", "f32[8]", "", 2, 0, "R>R 0>0 +>+" },
	{ "cast", "f32[8]", "dtype=bf16", 2, 0, "R>R 0>0" },
	{ "where", "bool[4] f32[8,4] f32[]", "", 2, 0, "RRR>R R0R>0 01R>1" },
	{ "proj", "f32[8,4]", "index=1", 2, 0, "R>R 0>0 1>1" },

	/* sources */
	{ "fill", "", "value=0 dtype=f32 shape=[8,1,4]", 2, 0, ">R >0 >2" },
	{ "input", "", "name=x dtype=f32 shape=[8,4]", 2, 0, ">R" },
	{ "iota", "", "start=0 step=1 dtype=i64 shape=[8]", 2, 0, ">R" },

	/* reductions */
	{ "sum", "f32[8,4]", "dims=[1]", 2, 0, "R>R 0>0 1>+ +>+" },
	{ "mean", "f32[8,4,6]", "dims=[1] keepdim=1", 2, 1, "R>R 0>0 1>+ 2>2" },
	{ "max", "f32[8,4]", "dims=[0]", 2, 0, "R>R 0>^ 1>0" },
	{ "all", "f32[8,4]", "dims=[0,1]", 2, 0, "R>R 0>v 1>v" },
	{ "any", "f32[8]", "dims=[0]", 2, 0, "R>R 0>^" },
	{ "prod", "f32[8,4]", "dims=[1]", 2, 0, "R>R 0>0" },
	{ "argmax", "f32[8,4]", "dims=[0]", 2, 0, "R>R 1>0" },
	{ "norm", "f32[8,4]", "dims=[0] ord=2", 2, 0, "R>R 1>0" },

	/* along a dim, over trailing dims */
	{ "softmax", "f32[8,4]", "dim=1", 2, 0, "R>R 0>0" },
	{ "topk", "f32[8,4]", "dim=1 k=2", 2, 0, "R>R 0>0" },
	{ "rms_norm", "f32[8,4,6]", "dims=[2] eps=1e-5", 2, 0, "R>R 0>0 1>1" },
	{ "layer_norm", "f32[8,4,6] f32[4,6] f32[4,6]", "dims=[1,2] eps=1e-5", 2, 0, "RRR>R 0RR>0" },
	{ "tril", "f32[8,4,6]", "", 2, 0, "R>R 0>0" },

	/* look-ups: vocabulary-parallel, by hidden dim, by ids */
	{ "embedding", "f32[100,16] i64[2,6]", "", 2, 0, "RR>R 0R>+ R0>0 R1>1 1R>2" },
	{ "embedding_grad", "f32[2,6,16] i64[2,6]", "shape=[100,16]", 2, 0, "RR>R RR>0 00>+ 11>+ 2R>1 +R>+" },
	{ "embedding", "f32[100,16] i64[1,6]", "", 3, 1, "RR>R 0R>+ R1>1 1R>2" },
	{ "gather", "f32[8,9] i64[8,4]", "dim=1", 2, 0, "RR>R 00>0 R1>1" },
	{ "gather", "f32[8,9] i64[6,4]", "dim=1", 2, 0, "RR>R R1>1" },
	{ "scatter", "f32[8,9] i64[8,4] f32[8,4]", "dim=1", 2, 0, "RRR>R 000>0" },
	{ "scatter", "f32[8,9] i64[8,4] f32[]", "dim=1", 2, 0, "RRR>R 00R>0" },
	{ "scatter", "f32[8,9] i64[8,4] f32[9,4]", "dim=1", 2, 0, "RRR>R" },
	{ "index", "f32[4,5,6] i64[7,1] i64[3]", "dims=[1,2]", 2, 0, "RRR>R R0R>1 RR0>2 0RR>0" },
	{ "index", "f32[4,5,6] i64[7] i64[7]", "dims=[0,2]", 2, 0, "RRR>R R00>0 1RR>1" },
	{ "index", "f32[4,5,6] i64[]", "dims=[1]", 2, 0, "RR>R 0R>0 2R>1" },
	{ "index_put", "f32[4,5] i64[7] f32[7,5]", "dims=[0]", 2, 0, "RRR>R" },

	/* attention: batch, key heads, rows; with groups also the heads of q alone */
	{ "sdpa", "f32[2,8,16,4] f32[2,8,32,4] f32[2,8,32,4]", "scale=1", 2, 0, "RRR>R 000>0 111>1 2RR>2" },
	{ "sdpa", "f32[2,8,16,4] f32[2,8,32,4] f32[2,8,32,4]", "scale=1 causal=1", 2, 0, "RRR>R 000>0 111>1 2RR>2" },
	{ "sdpa", "f32[2,8,16,4] f32[2,2,32,4] f32[2,2,32,4]", "scale=1 causal=1", 2, 0,
	  "RRR>R 000>0 111>1 2RR>2 1RR>1" },
	{ "sdpa", "f32[1,8,16,4] f32[1,2,32,4] f32[1,2,32,4]", "scale=1 causal=1", 4, 0, "RRR>R 2RR>2 1RR>1" },
	{ "sdpa", "f32[8,16,4] f32[1,32,4] f32[1,32,4] bool[16,32]", "scale=1", 4, 0,
	  "RRRR>R 1RR0>1 0RRR>0" },
	{ "sdpa", "f32[2,8,16,4] f32[2,4,32,4] f32[2,4,32,4] f32[1,8,1,32]", "scale=1", 4, 0,
	  "RRRR>R 000R>0 1111>1 2RRR>2 1RR1>1" },

	/* what must not be sharded, and collectives */
	{ "all_reduce", "f32[8,8]", "axis=1 reduce=sum", 2, 0, "R>R" },
};

static struct graph *graph_of(const struct rule_case *c, struct context *context, struct node_id *out)
{
	struct graph *g = graph_create(context, STAGE_GLOBAL);
	struct type types[8], type;
	const struct type *in[8];
	struct node_id ids[8];
	struct spelled_attrs a;
	struct diag d = { 0 };
	int count = spell_types(c->in, types);
	for (int k = 0; k < count; k++) {
		in[k] = &types[k];
		ids[k] = graph_append(g, OP_INPUT, NULL, 0, &(struct attrs){ 0 }, in[k], (struct prov_id){ 0 });
	}
	enum op op = op_from_text(c->op);
	spell_attrs(&a, c->attrs);
	ck_assert_msg(op_infer(context, op, in, count, &a.attrs, &type, &d) == FS_OK, "%s", d.text);
	*out = graph_append(g, op, ids, count, &a.attrs, &type, (struct prov_id){ 0 });
	return g;
}

static void shapes_of(const struct graph *g, struct node_id n, int64_t shape[][MAX_RANK])
{
	int count = graph_node(g, n)->count;
	for (int k = 0; k <= count; k++) {
		const struct type *t = graph_type(g, k == count ? n : graph_operand(g, n, k));
		memcpy(shape[k], t->dim, sizeof(t->dim));
	}
}

static void spell_strategies(const struct strategies *s, char *out)
{
	for (int at = 0; at < s->count; at++, *out++ = ' ')
		for (int k = 0; k < s->stride; k++) {
			if (k == s->stride - 1)
				*out++ = '>';
			*out++ = "R+^v01234567"[s->at[at * s->stride + k]];
		}
	out[-1] = '\0';
}

static struct context *axis_context(int32_t ranks)
{
	struct mesh mesh = { .count = 1, .axis = { { "tp", ranks } } };
	return context_create(&mesh);
}

START_TEST(strategies)
{
	const struct rule_case *c = &cases[_i];
	struct context *context = axis_context(c->ranks);
	struct node_id n;
	struct graph *g = graph_of(c, context, &n);
	int64_t shape[8][MAX_RANK];
	struct arena scratch = { 0 };
	struct strategies s;
	char text[512];
	shapes_of(g, n, shape);
	op_strategies(g, n, (const int64_t(*)[MAX_RANK])shape, c->ranks, c->exact, &scratch, &s);
	spell_strategies(&s, text);
	ck_assert_msg(strcmp(text, c->want) == 0, "%s %s {%s} over %d: %s, not %s", c->op, c->in, c->attrs, c->ranks,
		      text, c->want);
	for (int at = 0; at < s.count; at++) { /* work is divided where something is sharded */
		bool sharded = false;
		for (int k = 0; k < s.stride; k++)
			sharded |= s.at[at * s.stride + k] >= LABEL_S(0);
		ck_assert_int_eq(s.divided[at], sharded);
	}
	arena_release(&scratch);
	graph_destroy(g);
	context_destroy(context);
}
END_TEST

/* A second axis sees the shapes that the first has left. */
START_TEST(second_axis)
{
	static const struct { struct rule_case op; int64_t shape[4][MAX_RANK]; const char *want; } after[] = {
		/* 4 heads of 64 over 4: what is left is one head */
		{ { "reshape", "f32[64,256]", "shape=[64,4,64]", 2, 1, "" }, { { 64, 64 }, { 64, 1, 64 } },
		  "R>R 0>0 1>2 ^>^ v>v" },
		/* heads of q alone were sharded over 4: key heads do not correspond any more */
		{ { "sdpa", "f32[8,16,4] f32[2,32,4] f32[2,32,4]", "scale=1 causal=1", 2, 0, "" },
		  { { 2, 16, 4 }, { 2, 32, 4 }, { 2, 32, 4 }, { 2, 16, 4 } }, "RRR>R 1RR>1 0RR>0" },
		/* all heads were sharded over 2 */
		{ { "sdpa", "f32[8,16,4] f32[4,32,4] f32[4,32,4]", "scale=1 causal=1", 2, 0, "" },
		  { { 4, 16, 4 }, { 2, 32, 4 }, { 2, 32, 4 }, { 4, 16, 4 } }, "RRR>R 000>0 1RR>1 0RR>0" },
	};
	struct context *context = axis_context(2);
	struct arena scratch = { 0 };
	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
		struct node_id n;
		struct graph *g = graph_of(&after[i].op, context, &n);
		struct strategies s;
		char text[512];
		op_strategies(g, n, after[i].shape, after[i].op.ranks, after[i].op.exact, &scratch, &s);
		spell_strategies(&s, text);
		ck_assert_str_eq(text, after[i].want);
		graph_destroy(g);
	}
	arena_release(&scratch);
	context_destroy(context);
}
END_TEST

/* --- reshapes against brute force --- */

struct shape { int rank; int64_t dim[MAX_RANK]; };

/* A random factorisation of `count`, sometimes with ones. */
static struct shape random_shape(int64_t count)
{
	struct shape s = { 0 };
	while (s.rank < 4) {
		int64_t d = 1 + rand() % count;
		while (count % d != 0)
			d--;
		s.dim[s.rank++] = d;
		count /= d;
	}
	s.dim[s.rank++] = count;
	return s;
}

/* Which elements, by row-major number, a rank holds of a shape sharded in `dim`: as a bit per element. */
static void mark_shard(const struct shape *s, int dim, int ranks, int rank, bool *held)
{
	int64_t inner = 1, outer = 1, size = s->dim[dim], chunk = (size + ranks - 1) / ranks;
	for (int at = 0; at < s->rank; at++)
		*(at < dim ? &outer : &inner) *= s->dim[at];
	inner /= size;
	for (int64_t i = 0; i < outer * size * inner; i++)
		held[i] = i / inner % size / chunk == rank;
}

/* Row-major order is kept by both, so equal sets are equal shards. */
static bool same_shards(const struct shape *a, int in, const struct shape *b, int out, int ranks, int64_t count)
{
	static bool x[1024], y[1024];
	for (int rank = 0; rank < ranks; rank++) {
		mark_shard(a, in, ranks, rank, x);
		mark_shard(b, out, ranks, rank, y);
		if (memcmp(x, y, (size_t)count) != 0)
			return false;
	}
	return true;
}

static bool offers(const struct strategies *s, int in, int out)
{
	for (int at = 0; at < s->count; at++)
		if (s->at[2 * at] == LABEL_S(in) && s->at[2 * at + 1] == LABEL_S(out))
			return true;
	return false;
}

/* What is offered is right; what is right is offered where each dim has an element a rank. */
static void check_reshape(const struct shape *a, const struct shape *b, int ranks, int64_t count,
			  const struct strategies *s)
{
	for (int in = 0; in < a->rank; in++)
		for (int out = 0; out < b->rank; out++) {
			bool right = same_shards(a, in, b, out, ranks, count), offered = offers(s, in, out);
			bool ample = a->dim[in] >= ranks && b->dim[out] >= ranks;
			ck_assert_msg(right || !offered, "wrong: dim %d to %d over %d", in, out, ranks);
			ck_assert_msg(offered || !right || !ample, "missing: dim %d (%lld) to %d (%lld) over %d", in,
				      (long long)a->dim[in], out, (long long)b->dim[out], ranks);
		}
}

START_TEST(reshapes)
{
	static const int64_t counts[] = { 12, 24, 36, 60, 64, 72, 96, 120, 144, 210, 256, 360, 720 };
	struct context *context = axis_context(2);
	srand(1);
	for (int round = 0; round < 3000; round++) {
		int64_t count = counts[rand() % 13], shape[2][MAX_RANK];
		struct shape a = random_shape(count), b = random_shape(count);
		int ranks = 2 + rand() % 6;
		struct graph *g = graph_create(context, STAGE_GLOBAL);
		struct type x = type_make(DT_F32, a.rank, a.dim), y = type_make(DT_F32, b.rank, b.dim);
		struct node_id in = graph_append(g, OP_INPUT, NULL, 0, &(struct attrs){ 0 }, &x, (struct prov_id){ 0 });
		struct node_id n = graph_append(g, OP_RESHAPE, &in, 1, &(struct attrs){ 0 }, &y, (struct prov_id){ 0 });
		struct arena scratch = { 0 };
		struct strategies s;
		shapes_of(g, n, shape);
		op_strategies(g, n, (const int64_t(*)[MAX_RANK])shape, ranks, true, &scratch, &s);
		check_reshape(&a, &b, ranks, count, &s);
		arena_release(&scratch);
		graph_destroy(g);
	}
	context_destroy(context);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rules");
	TCase *t = tcase_create("rules");
	tcase_add_loop_test(t, strategies, 0, (int)(sizeof(cases) / sizeof(cases[0])));
	tcase_add_test(t, second_axis);
	tcase_add_test(t, reshapes);
	suite_add_tcase(s, t);
	return suite_run(s);
}
