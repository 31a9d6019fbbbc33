/*
 * High-precision runs of an fp8 plan, for --check.
 *
 * A value that holds codes in the plan holds what was cast: fp8_cast is a copy, scaled products are
 * plain ones, post_scale is the last rounding.  Weights that are stored as codes have no other value
 * than code * scale.
 */
#include "exec_internal.h"

static bool is_code(enum dtype t)
{
	return t == DT_E4M3 || t == DT_E5M2;
}

static enum dtype widened(const struct exec *e, enum dtype t)
{
	return e->o.numerics == EXEC_WIDE && (t == DT_BF16 || t == DT_F16) ? DT_F32 : t;
}

enum dtype exec_high_dtype(const struct exec *e, struct node_id n)
{
	enum dtype t = (enum dtype)graph_type(e->graph, n)->dtype;
	if (!is_code(t) || graph_node(e->graph, n)->count == 0)
		return widened(e, t);
	struct node_id x = graph_operand(e->graph, n, 0);
	bool moves = graph_op(e->graph, n) == OP_FP8_CAST || is_code((enum dtype)graph_type(e->graph, x)->dtype);
	return moves ? e->views[x.i].dtype : t; /* `cast` to fp8 is the user's own */
}

bool exec_is_high(const struct exec *e, struct node_id n)
{
	enum op op = graph_op(e->graph, n);
	return e->o.numerics != EXEC_PLAN && (op == OP_FP8_CAST || op == OP_SCALED_MATMUL || op == OP_POST_SCALE);
}

/* Codes as f32: code * scale, or the code itself where the scale is applied later (scale none). */
static enum fs_status emit_decoded(struct exec *e, struct node_id n, struct node_id x, struct node_id scale,
				   struct view *out, struct diag *d)
{
	struct view in[2] = { e->views[x.i] };
	TRY(exec_extra(e, DT_F32, in[0].rank, in[0].shape, out, d));
	if (!node_is(scale))
		return exec_emit(e, n, OP_COPY, 1, in, out, d);
	TRY(exec_spread_scale(e, n, x, scale, -1, &in[1], d));
	return exec_emit(e, n, OP_MUL, 2, in, out, d);
}

static enum fs_status emit_zero(struct exec *e, struct node_id n, const struct view *out, struct diag *d)
{
	struct view zero;
	static const float value = 0;
	TRY(exec_extra(e, DT_F32, 0, NULL, &zero, d));
	TRY(e->ops->upload(e->backend, zero.data, &value, sizeof(value), d));
	return exec_emit(e, n, OP_COPY, 1, &zero, out, d);
}

static enum fs_status emit_product(struct exec *e, struct node_id n, struct diag *d)
{
	struct view in[2];
	bool scaled = graph_node(e->graph, n)->count == 4;
	for (int k = 0; k < 2; k++) {
		struct node_id x = graph_operand(e->graph, n, k);
		struct node_id scale = scaled ? graph_operand(e->graph, n, 2 + k) : NODE_NONE;
		in[k] = e->views[x.i];
		if (is_code(in[k].dtype))
			TRY(emit_decoded(e, n, x, scale, &in[k], d));
	}
	struct node_id low = e->second[n.i];
	if (node_is(low) && e->views[low.i].data != NULL)
		TRY(emit_zero(e, n, &e->views[low.i], d));
	return exec_emit(e, n, OP_MATMUL, 2, in, &e->views[n.i], d);
}

/* The product whose accumulator this is. */
static struct node_id product_of(const struct exec *e, struct node_id n)
{
	enum op op = graph_op(e->graph, n);
	while (op != OP_SCALED_MATMUL && graph_node(e->graph, n)->count > 0) {
		n = graph_operand(e->graph, n, 0);
		op = graph_op(e->graph, n);
	}
	return op == OP_SCALED_MATMUL ? n : NODE_NONE;
}

/* Only the scales of stored codes are still to be applied; 1 stands for the others. */
static enum fs_status emit_post_scale(struct exec *e, struct node_id n, struct diag *d)
{
	struct node_id product = product_of(e, n);
	struct view in[3] = { e->views[graph_operand(e->graph, n, 0).i] }, one;
	static const float value = 1;
	TRY(exec_extra(e, DT_F32, 0, NULL, &one, d));
	TRY(e->ops->upload(e->backend, one.data, &value, sizeof(value), d));
	for (int k = 0; k < 2; k++) {
		bool coded = node_is(product) && is_code(e->views[graph_operand(e->graph, product, k).i].dtype);
		in[1 + k] = coded ? e->views[graph_operand(e->graph, n, 1 + k).i] : one;
	}
	return exec_emit(e, n, OP_POST_SCALE, 3, in, &e->views[n.i], d);
}

enum fs_status exec_emit_high(struct exec *e, struct node_id n, struct diag *d)
{
	switch (graph_op(e->graph, n)) {
	case OP_FP8_CAST:
		return exec_emit(e, n, OP_COPY, 1, &e->views[graph_operand(e->graph, n, 0).i], &e->views[n.i], d);
	case OP_SCALED_MATMUL: return emit_product(e, n, d);
	default: return emit_post_scale(e, n, d);
	}
}
