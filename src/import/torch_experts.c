/* Products of experts, dense: every expert's product is computed, and each row takes its own. */
#include "torch_impl.h"

/* --- histc: how many elements fall in each of equal bins from min to max --- */

/* [n, bins] bool: element i is in bin b. */
static struct node_id in_bin(struct call *c, struct node_id x, int64_t bins, double least, double most)
{
	struct node_id at = emit_with(c, OP_MUL, emit_with(c, OP_SUB, x, least), (double)bins);
	at = emit1(c, OP_FLOOR, emit_with(c, OP_DIV, at, most - least));
	at = emit_with(c, OP_MINIMUM, at, (double)(bins - 1));
	struct node_id inside = emit2(c, OP_LOGICAL_AND, emit_with(c, OP_GE, x, least), emit_with(c, OP_LE, x, most));
	struct node_id numbers = emit_cast(c, emit_iota(c, 0, 1, bins, DT_I64), dtype_of(c, at));
	struct node_id same = emit2(c, OP_EQ, emit_unsqueeze(c, at, 1), numbers);
	return emit2(c, OP_LOGICAL_AND, same, emit_unsqueeze(c, inside, 1));
}

void aten_histc(struct call *c)
{
	struct node_id x = arg_tensor(c, "self");
	int64_t bins = arg_int(c, "bins", 100);
	double least = arg_real(c, "min", 0), most = arg_real(c, "max", 0);
	enum dtype t = dtype_of(c, x);
	if (least >= most)
		call_lacks(c, "%s without min and max", c->text);
	if (bins < 1)
		call_fail(c, FS_INVALID, "%lld bins", (long long)bins);
	if (failed(c))
		return;
	x = emit_reshape(c, x, 1, (int64_t[]){ type_count(type_of(c, x)) });
	x = emit_cast(c, x, t == DT_F64 ? DT_F64 : DT_F32);
	struct node_id counts = emit_reduce(c, OP_SUM, in_bin(c, x, bins, least, most), (int64_t[]){ 0 }, 1, false);
	give(c, emit_cast(c, counts, t));
}

/* --- x[S, K] in groups of rows that end at offs[E], times weight[E, K, N] --- */

/* [S, E] bool: row s is in group e. */
static struct node_id in_group(struct call *c, struct node_id offs, int64_t rows)
{
	struct node_id row = emit_unsqueeze(c, emit_iota(c, 0, 1, rows, DT_I64), 1);
	struct node_id zero = emit_fill(c, (struct number){ 0 }, DT_I64, 1, (int64_t[]){ 1 });
	offs = emit_cast(c, offs, DT_I64);
	struct node_id start[2] = { zero, emit_slice(c, offs, 0, 0, size_of(c, offs, 0) - 1, 1) };
	struct node_id begun = emit2(c, OP_GE, row, emit_cat(c, start, 2, 0));
	return emit2(c, OP_LOGICAL_AND, begun, emit2(c, OP_LT, row, offs));
}

static void give_grouped(struct call *c, struct node_id x, struct node_id weight, struct node_id offs)
{
	if (!failed(c) && (!node_is(offs) || rank_of(c, x) != 2 || rank_of(c, weight) != 3 || rank_of(c, offs) != 1 ||
			   size_of(c, offs, 0) < 1))
		call_lacks(c, "%s of other operands than [rows, K], [groups, K, N] and ends of groups", c->text);
	if (failed(c))
		return;
	struct node_id group = emit_unsqueeze(c, in_group(c, offs, size_of(c, x, 0)), 2);
	struct node_id all = emit_matmul(c, "sk,ekn->sen", x, weight);
	struct node_id own = emit3(c, OP_WHERE, group, all, emit_scalar(c, 0, dtype_of(c, all)));
	give(c, emit_cast(c, emit_reduce(c, OP_SUM, own, (int64_t[]){ 1 }, 1, false), arg_dtype(c, "out_dtype", dtype_of(c, all))));
}

void aten_grouped_mm(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), weight = arg_tensor(c, "mat2");
	give_grouped(c, x, weight, arg_tensor_or_none(c, "offs"));
}

void transformers_grouped_mm(struct call *c)
{
	struct node_id x = arg_tensor(c, "input"), weight = arg_tensor(c, "weight");
	give_grouped(c, x, weight, arg_tensor(c, "offs"));
}
