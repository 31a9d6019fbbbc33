/* Ops that torchao registers: fp8 quantization with the dequantization factor as scale. */
#include "torch_impl.h"

static double largest(enum dtype t)
{
	return t == DT_E5M2 ? 57344 : 448;
}

/* amax of x over blocks of `size` elements a dim: each the whole dim or 1. */
static struct node_id block_amax(struct call *c, struct node_id x, const int64_t *size)
{
	int64_t dims[MAX_RANK];
	int count = 0;
	for (int i = 0; i < rank_of(c, x); i++) {
		if (size[i] == size_of(c, x, i))
			dims[count++] = i;
		else if (size[i] != 1)
			call_lacks(c, "%s of blocks", c->text);
	}
	return emit_reduce(c, OP_REDUCE_MAX, emit1(c, OP_ABS, x), dims, count, true);
}

/* Limits of an amax, where they are given. */
static struct node_id limited(struct call *c, struct node_id amax)
{
	if (arg_has(c, "hp_value_lb"))
		amax = emit_with(c, OP_MAXIMUM, amax, arg_real(c, "hp_value_lb", 0));
	if (arg_has(c, "hp_value_ub"))
		amax = emit_with(c, OP_MINIMUM, amax, arg_real(c, "hp_value_ub", 0));
	return amax;
}

void torchao_choose_scale(struct call *c)
{
	int64_t size[MAX_RANK];
	struct node_id x = arg_tensor(c, "tensor");
	enum dtype codes = arg_dtype(c, "float8_dtype", DT_E4M3);
	int count = arg_ints(c, "block_size", size, MAX_RANK);
	if (!failed(c) && count != rank_of(c, x))
		call_fail(c, FS_INVALID, "block_size has %d sizes for %d dims", count, rank_of(c, x));
	if (arg_dtype(c, "scale_dtype", DT_F32) != DT_F32)
		call_lacks(c, "%s with scale_dtype", c->text);
	if (failed(c))
		return;
	struct node_id amax = limited(c, block_amax(c, x, size));
	give(c, emit_cast(c, emit_with(c, OP_DIV, amax, largest(codes)), DT_F32));
}

/* The scale has x's rank, and along each dim one entry or all. */
static void check_scale(struct call *c, struct node_id x, struct node_id s)
{
	for (int i = 0; !failed(c) && i < rank_of(c, s); i++)
		if (rank_of(c, s) != rank_of(c, x) || (size_of(c, s, i) != 1 && size_of(c, s, i) != size_of(c, x, i)))
			call_lacks(c, "%s with scales of blocks", c->text);
}

void torchao_quantize(struct call *c)
{
	struct node_id x = arg_tensor(c, "tensor"), s = arg_tensor(c, "scale");
	enum dtype codes = arg_dtype(c, "float8_dtype", DT_E4M3);
	check_scale(c, x, s);
	x = emit2(c, OP_DIV, emit_cast(c, x, DT_F32), s);
	x = emit_with(c, OP_MINIMUM, emit_with(c, OP_MAXIMUM, x, -largest(codes)), largest(codes));
	give(c, emit_cast(c, x, codes));
}

void torchao_dequantize(struct call *c)
{
	struct node_id x = arg_tensor(c, "tensor"), s = arg_tensor(c, "scale");
	enum dtype t = arg_dtype(c, "output_dtype", DT_F32);
	check_scale(c, x, s);
	give(c, emit_cast(c, emit2(c, OP_MUL, emit_cast(c, x, DT_F32), s), t));
}
