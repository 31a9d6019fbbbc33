/* Look-ups in the op table, equations, and inferred types: what comes out, or what is said. */
#include "spell.h"
#include "suite.h"

static const struct infer_case {
	const char *op, *in, *attrs;
	const char *want; /* the type, or with '!' before a part of the message */
} cases[] = {
	/* sources */
	{ "input", "", "name=x dtype=bf16 shape=[2,3]", "bf16[2,3]" },
	{ "input", "", "name=x dtype=bf16 shape=[2,-3]", "!input: dim 1 has size -3" },
	{ "input", "", "dtype=bf16 shape=[]", "!input: attribute 'name' is missing" },
	{ "param", "", "name=w dtype=f32 shape=[] buffer=2", "!attribute 'buffer' is 2: 0 or 1 wanted" },
	{ "fill", "", "value=1 dtype=f32 shape=[1073741824,1073741824]", "!more than 2^48 elements" },
	{ "fill", "", "value=1 dtype=f32 shape=[0,4611686018427387904,4611686018427387904]", "!more than 2^48 elements" },
	{ "fill", "", "value=1 dtype=f32 shape=[1,1,1,1,1,1,1,1,1]", "!9 dims; at most 8" },
	{ "fill", "", "value=1 dtype=f32 shape=[] dim=0", "!fill: takes no attribute 'dim'" },
	{ "iota", "", "start=0 step=1 dtype=i64 shape=[7]", "i64[7]" },
	{ "iota", "", "start=0 step=1 dtype=i64 shape=[7,2]", "!2 dims; 1 wanted" },
	{ "iota", "", "start=0 step=1 dtype=bool shape=[7]", "!no sequence of bool" },
	{ "proj", "f32[2,3]", "index=1", "i64[2,3]" },
	{ "proj", "f64[2,3]", "index=1 dtype=f64", "f64[2,3]" },
	{ "proj", "f32[2,3]", "index=0", "!no result 0" },

	/* products */
	{ "matmul", "bf16[2,64,256] bf16[128,256]", "eq=bmk,nk->bmn", "bf16[2,64,128]" },
	{ "matmul", "bf16[64] bf16[64]", "eq=k,k->", "bf16[]" },
	{ "matmul", "bf16[4,64] bf16[64,8]", "eq=mk,kn->mn dtype=f32", "f32[4,8]" },
	{ "matmul", "bf16[4,64] bf16[32,8]", "eq=mk,kn->mn", "!matmul: letter 'k' is 64 in a and 32 in b" },
	{ "matmul", "bf16[4,64] f32[64,8]", "eq=mk,kn->mn", "!operand 1 is f32, not bf16" },
	{ "matmul", "i64[4,64] i64[64,8]", "eq=mk,kn->mn", "!operand 0 is i64, not a float type" },
	{ "matmul", "f32[4,64,1] f32[64,8]", "eq=mk,kn->mn", "!operand 0 has 3 dims, its equation 2" },
	{ "matmul", "f32[4,64] f32[64,8]", "eq=mk,kn", "!is not of the form" },
	{ "matmul", "f32[4,64] f32[64,8]", "eq=mk,kn->mnm", "!'m' stands twice" },
	{ "matmul", "f32[4,64] f32[64,8]", "eq=mk,kn->mx", "!'n' stands in one operand only" },
	{ "matmul", "f32[4,64] f32[64,8]", "eq=mk,kn->mnx", "!'x' stands in no operand" },
	{ "matmul", "f32[4,64] f32[64,8]", "eq=m.,kn->mn", "!'.' is not a letter" },
	{ "matmul", "f32[4,64]", "eq=mk,kn->mn", "!1 operands; 2 wanted" },
	{ "sdpa", "f32[2,8,16,64] f32[2,2,32,64] f32[2,2,32,48]", "scale=0.125", "f32[2,8,16,48]" },
	{ "sdpa", "f32[8,16,64] f32[2,32,64] f32[2,32,64] bool[16,32]", "scale=0.125 causal=1", "f32[8,16,64]" },
	{ "sdpa", "f32[8,16,64] f32[2,32,64] f32[2,32,64] f32[8,1,32]", "scale=0.125", "f32[8,16,64]" },
	{ "sdpa", "f32[8,16,64] f32[2,32,64] f32[2,32,64] bool[16,16]", "scale=0.125", "!dim 1 of the mask is 16; 1 or 32" },
	{ "sdpa", "f32[8,16,64] f32[3,32,64] f32[3,32,64]", "scale=0.125", "!8 heads for 3 key heads" },
	{ "sdpa", "f32[8,16,64] f32[2,32,32] f32[2,32,64]", "scale=0.125", "!heads of size 64 in q and 32 in k" },
	{ "sdpa", "f32[16,64] f32[32,64] f32[32,64]", "scale=0.125", "!3 or more" },

	/* views */
	{ "reshape", "f32[2,64,256]", "shape=[2,64,4,64]", "f32[2,64,4,64]" },
	{ "reshape", "f32[2,3]", "shape=[7]", "!6 elements do not become 7" },
	{ "reshape", "f32[0,3]", "shape=[5,0]", "f32[5,0]" },
	{ "permute", "f32[2,3,4]", "dims=[2,0,1]", "f32[4,2,3]" },
	{ "permute", "f32[2,3,4]", "dims=[2,0,2]", "!dim 2 stands twice" },
	{ "permute", "f32[2,3,4]", "dims=[1,0]", "!'dims' has 2 of 3 dims" },
	{ "expand", "f32[1,3]", "shape=[5,3]", "f32[5,3]" },
	{ "expand", "f32[2,3]", "shape=[5,3]", "!dim 0 of size 2 does not expand to 5" },
	{ "slice", "f32[10]", "dim=0 start=1 end=10 step=4", "f32[3]" },
	{ "slice", "f32[10]", "dim=0 start=3 end=3", "f32[0]" },
	{ "slice", "f32[10]", "dim=0 start=3 end=11", "![3, 11) is no range of dim 0, which has size 10" },
	{ "slice", "f32[10]", "dim=0 start=0 end=1 step=0", "!step 0" },
	{ "slice", "f32[10]", "dim=1 start=0 end=1", "!no dim 1 in an operand of 1 dims" },

	/* data movement */
	{ "cat", "f32[2,3] f32[2,4] f32[2,0]", "dim=1", "f32[2,7]" },
	{ "cat", "f32[2,3] bf16[2,4]", "dim=1", "!operand 1 is bf16, not f32" },
	{ "cat", "f32[2,3] f32[3,3]", "dim=1", "!dim 0 is 3 in operand 1 and 2 in operand 0" },
	{ "copy", "e4m3[4]", "", "e4m3[4]" },
	{ "cast", "bool[4]", "dtype=bf16", "bf16[4]" },
	{ "embedding", "bf16[100,8] i64[2,5]", "", "bf16[2,5,8]" },
	{ "embedding", "bf16[100,8] f32[2,5]", "", "!operand 1 is f32; indices are i64 or i32" },
	{ "embedding_grad", "f32[2,5,8] i64[2,5]", "shape=[100,8]", "f32[100,8]" },
	{ "embedding_grad", "f32[2,5,8] i64[2,4]", "shape=[100,8]", "!operand 0 does not begin with the dims of operand 1" },
	{ "embedding_grad", "f32[2,5,8] i64[2,5]", "shape=[100,9]",
	  "!'shape' is not a number of rows and the other dims of operand 0" },
	{ "embedding", "f32[9,1,1,1,1] i64[1,1,1,1,1]", "", "!9 dims; at most 8" },
	{ "gather", "f32[4,9] i64[4,2]", "dim=1", "f32[4,2]" },
	{ "gather", "f32[4,9] i64[5,2]", "dim=1", "!dim 0 is 5 in operand 1 and only 4 in operand 0" },
	{ "scatter", "f32[4,9] i64[4,2] f32[]", "dim=1", "f32[4,9]" },
	{ "scatter", "f32[4,9] i64[4,2] f32[4,1]", "dim=1", "!dim 1 is 2 in operand 1 and only 1 in operand 2" },
	{ "index", "f32[4,5,6] i64[7,1] i64[3]", "dims=[1,2]", "f32[4,7,3]" },
	{ "index", "f32[4,5,6] i64[7] i64[7]", "dims=[0,2]", "f32[7,5]" },
	{ "index", "f32[4,5,6] bool[4]", "dims=[0]", "!operand 1 is bool; indices" },
	{ "index", "f32[4,5,6] i64[7]", "dims=[0,1]", "!2 dims for 1 indices" },
	{ "index_put", "f32[4,5,6] i64[7] f32[6]", "dims=[1]", "f32[4,5,6]" },
	{ "index_put", "f32[4,5,6] i64[7] f32[5]", "dims=[1]", "!values of size 5 for 6 places" },
	{ "triu", "f32[4]", "", "!1 dims; 2 or more wanted" },

	/* reductions */
	{ "sum", "f32[2,3,4]", "dims=[0,2]", "f32[3]" },
	{ "sum", "bool[2,3,4]", "dims=[1] keepdim=1", "i64[2,1,4]" },
	{ "sum", "f32[2,3]", "dims=[1,0]", "!'dims' are not ascending" },
	{ "mean", "i64[2,3]", "dims=[0]", "!operand 0 is i64, not a float type" },
	{ "max", "i32[2,3]", "dims=[0]", "i32[3]" },
	{ "max", "i32[2,0]", "dims=[1]", "!dim 1 is empty" },
	{ "any", "f32[2,3]", "dims=[0,1]", "bool[]" },
	{ "argmax", "f32[2,3]", "dims=[1]", "i64[2]" },
	{ "argmax", "f32[2,3]", "dims=[0,1]", "!'dims' has 2 dims; 1 wanted" },
	{ "norm", "f32[2,3]", "dims=[1] ord=2", "f32[2]" },
	{ "norm", "f32[2,3]", "dims=[1] ord=nan", "!attribute 'ord' is not a number" },

	/* along and over dims */
	{ "softmax", "bf16[2,3]", "dim=1", "bf16[2,3]" },
	{ "softmax", "i64[2,3]", "dim=1", "!not a float type" },
	{ "cumsum", "bool[2,3]", "dim=0", "i64[2,3]" },
	{ "topk", "f32[2,9]", "dim=1 k=4", "f32[2,4]" },
	{ "topk", "f32[2,9]", "dim=1 k=10", "!k is 10 of dim 1, which has size 9" },
	{ "rms_norm", "bf16[2,3,4]", "dims=[1,2] eps=1e-5", "bf16[2,3,4]" },
	{ "rms_norm", "bf16[2,3,4]", "dims=[1] eps=1e-5", "!'dims' are not the last dims" },
	{ "layer_norm", "f32[2,3,4] f32[4] f32[4]", "dims=[2] eps=1e-5", "f32[2,3,4]" },
	{ "layer_norm", "f32[2,3,4] f32[3]", "dims=[2] eps=1e-5", "!operand 1 has not the shape of the last 1 dims" },

	/* pointwise: broadcasting and promotion */
	{ "add", "f32[2,1,4] f32[3,1]", "", "f32[2,3,4]" },
	{ "add", "f32[2,3] f32[2,4]", "", "!add: sizes 3 and 4 of dim 1 do not broadcast" },
	{ "add", "f32[0] f32[1]", "", "f32[0]" },
	{ "mul", "bf16[4] f32[]", "", "bf16[4]" },
	{ "mul", "i64[4] f32[]", "", "f32[4]" },
	{ "mul", "bf16[4] f16[4]", "", "f32[4]" },
	{ "mul", "bf16[4] f64[]", "", "bf16[4]" },
	{ "mul", "i32[4] i64[]", "", "i32[4]" },
	{ "mul", "bool[4] i64[]", "", "i64[4]" },
	{ "mul", "u8[4] i8[4]", "", "i16[4]" },
	{ "mul", "u32[4] i32[4]", "", "i64[4]" },
	{ "mul", "u8[4] i64[4]", "", "i64[4]" },
	{ "mul", "bf16[] f32[]", "", "f32[]" },
	{ "mul", "e4m3[4] f32[4]", "", "!operand 0 is e4m3, which must be cast first" },
	{ "div", "i64[4] i64[4]", "", "f32[4]" },
	{ "exp", "i64[4]", "", "f32[4]" },
	{ "neg", "i64[4]", "", "i64[4]" },
	{ "isnan", "bf16[4]", "", "bool[4]" },
	{ "lt", "i64[4] bf16[2,1]", "", "bool[2,4]" },
	{ "bitwise_and", "bool[4] bool[1]", "", "bool[4]" },
	{ "bitwise_and", "f32[4] bool[4]", "", "!operand 0 is f32; bool or integers wanted" },
	{ "bitwise_not", "f32[4]", "", "!bool or integers wanted" },
	{ "where", "bool[3,1] bf16[4] f32[]", "", "bf16[3,4]" },
	{ "where", "i64[3] f32[3] f32[]", "", "!operand 0 is i64, not bool" },

	/* resharding; the mesh is dp=2, tp=4 */
	{ "all_gather", "f32[8,8]", "axis=2", "f32[8,8]" },
	{ "all_gather", "f32[8,8]", "axis=4", "!no set of axes of this mesh" },
	{ "reduce_scatter", "f32[8,8]", "axis=1 dim=2 reduce=sum", "!no dim 2" },
	{ "all_reduce", "f32[8,8]", "axis=1 reduce=prod", "!'reduce' is 'prod'" },
	{ "all_to_all", "f32[8,8]", "axis=1 from=1 to_dim=1", "!'from' and 'to_dim' are the same dim" },

	/* fp8 */
	{ "amax", "bf16[64,32]", "dims=[1]", "f32[64,1]" },
	{ "amax", "bf16[64,32]", "dims=[0,1]", "f32[]" },
	{ "amax", "bf16[64,32]", "dims=[1] scope=2", "!'scope' has an axis that does not shard the operand" },
	{ "fp8_scale", "f32[64,1]", "dtype=e4m3 pow2=1", "f32[64,1]" },
	{ "fp8_scale", "f32[64,1]", "dtype=f16", "!'dtype' is f16, not e4m3 or e5m2" },
	{ "fp8_cast", "bf16[64,32] f32[64,1]", "dtype=e5m2", "e5m2[64,32]" },
	{ "fp8_cast", "bf16[64,32] f32[64,8]", "dtype=e4m3", "e4m3[64,32]" },
	{ "fp8_cast", "bf16[64,32] f32[64]", "dtype=e4m3", "!operand 1 has 1 dims; 0 or 2 wanted" },
	{ "fp8_cast", "bf16[64,4] f32[64,9]", "dtype=e4m3", "!dim 1 has 9 scales for 4" },
	{ "scaled_matmul", "e4m3[4,64] e4m3[8,64] f32[4,1] f32[]", "eq=mk,nk->mn dtype=bf16", "bf16[4,8]" },
	{ "scaled_matmul", "e4m3[4,64] e5m2[8,64]", "eq=mk,nk->mn dtype=f32", "f32[4,8]" },
	{ "scaled_matmul", "e4m3[4,64] e5m2[8,64]", "eq=mk,nk->mn dtype=bf16", "!an unscaled product is f32 or f64" },
	{ "scaled_matmul", "e4m3[4,64] e5m2[8,64] f32[]", "eq=mk,nk->mn dtype=bf16", "!3 operands" },
	{ "scaled_matmul", "bf16[4,64] e5m2[8,64]", "eq=mk,nk->mn dtype=f32", "!operand 0 is bf16, not e4m3" },
	{ "post_scale", "f32[4,8] f32[4,1] f32[1,8]", "eq=mk,kn->mn dtype=bf16", "bf16[4,8]" },
	{ "post_scale", "f64[4,8] f32[] f32[] f64[4,8]", "eq=mk,kn->mn dtype=f32", "f32[4,8]" },
	{ "post_scale", "f64[4,8] f32[] f32[] f32[4,8]", "eq=mk,kn->mn dtype=f32", "!operand 3 is f32, not f64" },
};

static struct context *mesh_context(void)
{
	static const struct mesh mesh = { .count = 2, .axis = { { "dp", 2 }, { "tp", 4 } } };
	return context_create(&mesh);
}

START_TEST(infers)
{
	const struct infer_case *c = &cases[_i];
	struct context *context = mesh_context();
	struct type types[8], out;
	const struct type *in[8];
	struct spelled_attrs a;
	struct diag d = { 0 };
	char text[256];
	int count = spell_types(c->in, types);
	for (int k = 0; k < count; k++)
		in[k] = &types[k];
	spell_attrs(&a, c->attrs);
	enum fs_status status = op_infer(context, op_from_text(c->op), in, count, &a.attrs, &out, &d);
	if (status == FS_OK)
		spell_type(&out, text);
	if (c->want[0] == '!')
		ck_assert_msg(status == FS_INVALID && strstr(d.text, c->want + 1) != NULL, "%s %s: %s, not %s", c->op,
			      c->in, status == FS_OK ? text : d.text, c->want);
	else
		ck_assert_msg(status == FS_OK && strcmp(text, c->want) == 0, "%s %s: %s, not %s", c->op, c->in,
			      status == FS_OK ? text : d.text, c->want);
	context_destroy(context);
}
END_TEST

/* One entry a shard, where the operand is sharded. */
START_TEST(amax_scope)
{
	struct context *context = mesh_context();
	struct type x = type_make(DT_BF16, 2, (int64_t[]){ 64, 32 }), out;
	const struct type *in[] = { &x };
	struct spelled_attrs a;
	struct diag d = { 0 };
	char text[64];
	placement_set(&x.place, 1, &(struct part){ 1, PART_SHARD, 1 });
	spell_attrs(&a, "dims=[1] scope=2");
	ck_assert_int_eq(op_infer(context, OP_AMAX, in, 1, &a.attrs, &out, &d), FS_OK);
	spell_type(&out, text);
	ck_assert_str_eq(text, "f32[64,4]");
	spell_attrs(&a, "dims=[0] scope=2");
	ck_assert_int_eq(op_infer(context, OP_AMAX, in, 1, &a.attrs, &out, &d), FS_INVALID);
	context_destroy(context);
}
END_TEST

START_TEST(names)
{
	for (int op = 1; op < OP_COUNT; op++)
		ck_assert_int_eq(op_from_text(op_text((enum op)op)), op);
	for (int k = 1; k < ATTR_COUNT; k++)
		ck_assert_int_eq(attr_from_text(attr_text((enum attr_key)k)), k);
	ck_assert_int_eq(op_from_text("grid_sampler_2d"), OP_NONE);
	ck_assert_int_eq(op_from_text("none"), OP_NONE);
	ck_assert_int_eq(op_from_text(""), OP_NONE);
	ck_assert_int_eq(attr_from_text("none"), ATTR_NONE);
}
END_TEST

START_TEST(classes)
{
	ck_assert(op_is_view(OP_RESHAPE) && op_is_view(OP_SLICE) && !op_is_view(OP_COPY) && !op_is_view(OP_CAST));
	ck_assert(op_is_pointwise(OP_WHERE) && op_is_pointwise(OP_SILU) && !op_is_pointwise(OP_CAST));
	ck_assert(op_is_source(OP_FILL) && !op_is_source(OP_PROJ));
	ck_assert(op_is_collective(OP_ALL_TO_ALL) && !op_is_collective(OP_SHARD) && !op_is_collective(OP_RESHARD));
	ck_assert(op_in_stage(OP_RESHARD, STAGE_PLACED) && !op_in_stage(OP_RESHARD, STAGE_LOCAL));
	ck_assert(!op_in_stage(OP_NONE, STAGE_GLOBAL));
}
END_TEST

START_TEST(equations)
{
	static const struct { const char *from, *to; } same[] = {
		{ "bmk,nk->bmn", "mik,nk->min" }, /* b stands in one operand: it is a row letter */
		{ "xyz,xzw->xyw", "bmk,bkn->bmn" },
		{ "k,k->", "k,k->" },
		{ "abcdefgh,->abcdefgh", "mijuvwxy,->mijuvwxy" },
	};
	struct equation e;
	struct diag d = { 0 };
	char text[3 * MAX_RANK + 4];
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		ck_assert_int_eq(equation_parse(&e, same[i].from, &d), FS_OK);
		equation_canonical(&e, text);
		ck_assert_str_eq(text, same[i].to);
		ck_assert_int_eq(equation_parse(&e, text, &d), FS_OK);
		equation_canonical(&e, text);
		ck_assert_str_eq(text, same[i].to);
	}
	equation_linear(3, true, text);
	ck_assert_str_eq(text, "mik,nk->min");
	equation_linear(1, false, text);
	ck_assert_str_eq(text, "k,kn->n");
	ck_assert_int_eq(equation_parse(&e, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnop", &d), FS_INVALID);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("infer");
	TCase *t = tcase_create("infer");
	tcase_add_loop_test(t, infers, 0, (int)(sizeof(cases) / sizeof(cases[0])));
	tcase_add_test(t, amax_scope);
	tcase_add_test(t, names);
	tcase_add_test(t, classes);
	tcase_add_test(t, equations);
	suite_add_tcase(s, t);
	return suite_run(s);
}
