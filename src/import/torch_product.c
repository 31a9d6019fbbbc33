/* Products of matrices. */
#include "torch_impl.h"

#include <string.h>

/* --- matmul of any ranks: letters are batch dims a, b, .. from the right, then M, K, N --- */

struct letters { int rank; char at[2 * MAX_RANK]; int64_t size[2 * MAX_RANK]; };

static void push(struct letters *l, char letter, int64_t size)
{
	l->at[l->rank] = letter;
	l->size[l->rank++] = size;
}

/* Batch dim number `back` from the right of a matrix operand (rank 1: none), or -1. */
static int64_t batch_size(struct call *c, struct node_id x, int back)
{
	int dim = rank_of(c, x) - 3 - back;
	return dim < 0 ? -1 : size_of(c, x, dim);
}

static int batch_rank(struct call *c, struct node_id x)
{
	return rank_of(c, x) > 2 ? rank_of(c, x) - 2 : 0;
}

/* A dim of size 1 that the other operand has larger does not take part. */
static void push_batch(struct call *c, struct letters *l, struct node_id x, struct node_id other, int rank)
{
	for (int back = rank - 1; back >= 0; back--) {
		int64_t mine = batch_size(c, x, back), theirs = batch_size(c, other, back);
		if (mine >= 0 && !(mine == 1 && theirs > 1))
			push(l, (char)('a' + back), mine);
	}
}

static void equation_text(char text[3 * MAX_RANK + 4], const struct letters *a, const struct letters *b,
			  const struct letters *r)
{
	snprintf(text, 3 * MAX_RANK + 4, "%.*s,%.*s->%.*s", a->rank, a->at, b->rank, b->at, r->rank, r->at);
}

static struct node_id matmul(struct call *c, struct node_id x, struct node_id y)
{
	struct letters a = { 0 }, b = { 0 }, r = { 0 };
	char eq[3 * MAX_RANK + 4];
	int rx = rank_of(c, x), ry = rank_of(c, y);
	int rank = batch_rank(c, x) > batch_rank(c, y) ? batch_rank(c, x) : batch_rank(c, y);
	if (rx == 0 || ry == 0)
		call_fail(c, FS_INVALID, "an operand of rank 0");
	push_batch(c, &a, x, y, rank);
	push_batch(c, &b, y, x, rank);
	for (int back = rank - 1; back >= 0; back--)
		push(&r, (char)('a' + back), 0);
	if (rx > 1)
		push(&a, 'M', size_of(c, x, rx - 2)), push(&r, 'M', 0);
	push(&a, 'K', size_of(c, x, rx - 1));
	push(&b, 'K', size_of(c, y, ry > 1 ? ry - 2 : 0));
	if (ry > 1)
		push(&b, 'N', size_of(c, y, ry - 1)), push(&r, 'N', 0);
	equation_text(eq, &a, &b, &r);
	x = emit_reshape(c, x, a.rank, a.size);
	y = emit_reshape(c, y, b.rank, b.size);
	return failed(c) ? NODE_NONE : emit_matmul(c, eq, x, y);
}

void aten_matmul(struct call *c)
{
	struct node_id a = arg_tensor(c, "self");
	const char *other = arg_has(c, "other") ? "other" : arg_has(c, "mat2") ? "mat2" : arg_has(c, "vec") ? "vec" : "tensor";
	give(c, matmul(c, a, arg_tensor(c, other)));
}

void aten_outer(struct call *c)
{
	struct node_id a = arg_tensor(c, "self"), b = arg_tensor(c, "vec2");
	give(c, emit2(c, OP_MUL, emit_unsqueeze(c, a, 1), b));
}

/* --- with a bias --- */

void aten_linear(struct call *c)
{
	char eq[3 * MAX_RANK + 4];
	struct attrs a = { 0 };
	struct node_id x = arg_tensor(c, "input"), w = arg_tensor(c, "weight");
	if (rank_of(c, x) == 0)
		call_fail(c, FS_INVALID, "an input of rank 0");
	if (failed(c))
		return;
	if (rank_of(c, w) == 2)
		equation_linear(rank_of(c, x), true, eq);
	attrs_string(&a, ATTR_EQ, eq);
	struct node_id n = rank_of(c, w) == 2 ? emit(c, OP_MATMUL, (struct node_id[]){ x, w }, 2, &a) : matmul(c, x, w);
	if (arg_has(c, "bias"))
		n = emit2(c, OP_ADD, n, arg_tensor(c, "bias"));
	give(c, n);
}

/* beta * self + alpha * product */
static void give_added(struct call *c, struct node_id product)
{
	struct node_id bias = arg_tensor(c, "self");
	enum dtype t = dtype_of(c, product);
	double beta = arg_real(c, "beta", 1), alpha = arg_real(c, "alpha", 1);
	if (alpha != 1)
		product = emit_with(c, OP_MUL, product, alpha);
	if (beta != 1)
		bias = emit_with(c, OP_MUL, bias, beta);
	give(c, beta == 0 ? product : emit_cast(c, emit2(c, OP_ADD, product, bias), t));
}

void aten_addmm(struct call *c)
{
	struct node_id a = arg_tensor(c, "mat1");
	give_added(c, matmul(c, a, arg_tensor(c, "mat2")));
}

void aten_addmv(struct call *c)
{
	struct node_id a = arg_tensor(c, "mat");
	give_added(c, matmul(c, a, arg_tensor(c, "vec")));
}

void aten_baddbmm(struct call *c)
{
	struct node_id a = arg_tensor(c, "batch1");
	give_added(c, matmul(c, a, arg_tensor(c, "batch2")));
}

/* --- fp8 --- */

/* A scale of one element has rank 0. */
static struct node_id as_scale(struct call *c, struct node_id s)
{
	return type_count(type_of(c, s)) == 1 ? emit_reshape(c, s, 0, NULL) : s;
}

/* A bias is added to what was rounded. */
static void give_scaled(struct call *c, struct node_id scale_a, struct node_id scale_b)
{
	struct attrs a = { 0 };
	struct node_id in[4] = { arg_tensor(c, "self") };
	in[1] = arg_tensor(c, "mat2");
	in[2] = as_scale(c, scale_a);
	in[3] = as_scale(c, scale_b);
	enum dtype t = arg_dtype(c, "out_dtype", DT_BF16);
	attrs_string(&a, ATTR_EQ, "mk,kn->mn");
	attrs_int(&a, ATTR_DTYPE, t);
	struct node_id n = emit(c, OP_SCALED_MATMUL, in, 4, &a);
	if (arg_has(c, "bias"))
		n = emit_cast(c, emit2(c, OP_ADD, n, arg_tensor(c, "bias")), t);
	give(c, n);
}

void aten_scaled_mm(struct call *c)
{
	struct node_id scale_a = arg_tensor(c, "scale_a");
	give_scaled(c, scale_a, arg_tensor(c, "scale_b"));
}

/* ScalingType of torch.nn.functional. */
enum { TENSOR_WISE, ROW_WISE };

/* The one scale of an operand: of the tensor or of its rows, in plain order. */
static struct node_id only_scale(struct call *c, const char *name, const char *recipe, const char *swizzle)
{
	struct node_id *scale;
	int64_t kind[MAX_RANK], order[MAX_RANK];
	int count = arg_tensors(c, name, &scale), kinds = arg_ints(c, recipe, kind, MAX_RANK);
	int orders = arg_ints(c, swizzle, order, MAX_RANK);
	if (!failed(c) && (count != 1 || kinds != 1 || (kind[0] != TENSOR_WISE && kind[0] != ROW_WISE)))
		call_lacks(c, "%s with scales other than one a tensor or one a row", c->text);
	if (!failed(c) && orders > 0 && order[0] != 0)
		call_lacks(c, "%s with swizzled scales", c->text);
	return failed(c) ? NODE_NONE : scale[0];
}

void aten_scaled_mm_v2(struct call *c)
{
	int64_t dims[2];
	struct node_id scale_a = only_scale(c, "scale_a", "recipe_a", "swizzle_a");
	struct node_id scale_b = only_scale(c, "scale_b", "recipe_b", "swizzle_b");
	if (arg_ints(c, "contraction_dim", dims, 2) > 0)
		call_lacks(c, "%s with contraction_dim", c->text);
	if (!failed(c))
		give_scaled(c, scale_a, scale_b);
}
