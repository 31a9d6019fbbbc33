/* Losses, and backward ops that core ATen keeps whole. */
#include "torch_impl.h"

#include <math.h>
#include <string.h>

enum { REDUCE_NONE, REDUCE_MEAN, REDUCE_SUM };

static struct node_id over_all(struct call *c, enum op op, struct node_id x)
{
	int64_t dims[MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	return emit_reduce(c, op, x, dims, rank_of(c, x), false);
}

/* --- negative log likelihood of classes along `dim` --- */

struct nll { struct node_id loss, count; };

static struct nll nll(struct call *c, struct node_id logp, struct node_id target, int dim)
{
	enum dtype t = dtype_of(c, logp);
	struct attrs a = { 0 };
	int64_t ignore = arg_int(c, "ignore_index", -100), reduction = arg_int(c, "reduction", REDUCE_MEAN);
	if (arg_has(c, "weight"))
		call_lacks(c, "%s with weights", c->text);
	if (dtype_class(dtype_of(c, target)) != DC_INT)
		call_lacks(c, "%s with class probabilities", c->text);
	struct node_id valid = emit2(c, OP_NE, target, emit_fill(c, (struct number){ VALUE_INT, ignore, 0 }, DT_I64, 0, NULL));
	struct node_id safe = emit3(c, OP_WHERE, valid, target, emit_scalar(c, 0, dtype_of(c, target)));
	attrs_int(&a, ATTR_DIM, dim);
	struct node_id picked = emit(c, OP_GATHER, (struct node_id[]){ logp, emit_unsqueeze(c, safe, dim) }, 2, &a);
	picked = emit1(c, OP_NEG, emit_squeeze(c, picked, dim));
	struct node_id loss = emit3(c, OP_WHERE, valid, picked, emit_scalar(c, 0, t));
	struct node_id count = over_all(c, OP_SUM, emit_cast(c, valid, t));
	if (reduction != REDUCE_NONE)
		loss = over_all(c, OP_SUM, loss);
	if (reduction == REDUCE_MEAN)
		loss = emit2(c, OP_DIV, loss, count);
	return (struct nll){ loss, count };
}

/* Classes are dim 1 of [N, C, ..], dim 0 of [C]. */
static int class_dim(struct call *c, struct node_id x)
{
	return rank_of(c, x) > 1;
}

void aten_cross_entropy(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), target = arg_tensor(c, "target");
	int dim = class_dim(c, x);
	if (arg_real(c, "label_smoothing", 0) != 0)
		call_lacks(c, "%s with label smoothing", c->text);
	struct nll n = nll(c, emit_wide(c, emit_along(c, OP_LOG_SOFTMAX, x, dim)), target, dim);
	give(c, emit_cast(c, n.loss, dtype_of(c, x)));
}

/* nll_loss, nll_loss_nd; nll_loss_forward also gives the count. */
void aten_nll_loss(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), target = arg_tensor(c, "target");
	struct nll n = nll(c, emit_wide(c, x), target, class_dim(c, x));
	give(c, emit_cast(c, n.loss, dtype_of(c, x)));
	give(c, emit_cast(c, n.count, dtype_of(c, x)));
}

void aten_mse_loss(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), w = emit_wide(c, x);
	struct node_id away = emit2(c, OP_SUB, w, emit_wide(c, arg_tensor(c, "target")));
	int64_t reduction = arg_int(c, "reduction", REDUCE_MEAN);
	struct node_id n = emit2(c, OP_MUL, away, away);
	if (reduction != REDUCE_NONE)
		n = over_all(c, reduction == REDUCE_MEAN ? OP_MEAN : OP_SUM, n);
	give(c, emit_cast(c, n, dtype_of(c, x)));
}

/* --- backward, in f32 and rounded once --- */

struct backward { struct node_id grad, x; enum dtype dtype; };

static struct backward read_backward(struct call *c, const char *x)
{
	struct node_id grad = arg_tensor(c, "grad_output"), of = arg_tensor(c, x);
	struct backward b = { .dtype = dtype_of(c, grad) };
	b.grad = emit_wide(c, grad);
	b.x = emit_wide(c, of);
	return b;
}

static struct node_id times(struct call *c, struct node_id a, struct node_id b)
{
	return emit2(c, OP_MUL, a, b);
}

static struct node_id one_minus(struct call *c, struct node_id x)
{
	return emit2(c, OP_SUB, emit_scalar(c, 1, dtype_of(c, x)), x);
}

/* y (g - sum(g y)) */
void aten_softmax_backward(struct call *c)
{
	struct backward b = read_backward(c, "output");
	int64_t dim[1] = { arg_dim(c, "dim", -1, rank_of(c, b.x)) };
	struct node_id gy = times(c, b.grad, b.x);
	struct node_id sum = emit_reduce(c, OP_SUM, gy, dim, 1, true);
	give(c, emit_cast(c, emit2(c, OP_SUB, gy, times(c, b.x, sum)), arg_dtype(c, "input_dtype", b.dtype)));
}

/* g - exp(y) sum(g) */
void aten_log_softmax_backward(struct call *c)
{
	struct backward b = read_backward(c, "output");
	int64_t dim[1] = { arg_dim(c, "dim", -1, rank_of(c, b.x)) };
	struct node_id sum = emit_reduce(c, OP_SUM, b.grad, dim, 1, true);
	struct node_id n = emit2(c, OP_SUB, b.grad, times(c, emit1(c, OP_EXP, b.x), sum));
	give(c, emit_cast(c, n, arg_dtype(c, "input_dtype", b.dtype)));
}

/* g where x > threshold */
void aten_threshold_backward(struct call *c)
{
	struct node_id grad = arg_tensor(c, "grad_output"), x = arg_tensor(c, "self");
	struct node_id above = emit2(c, OP_GT, x, emit_scalar(c, arg_real(c, "threshold", 0), dtype_of(c, x)));
	struct node_id zero = emit_scalar(c, 0, dtype_of(c, grad));
	give(c, emit3(c, OP_WHERE, above, grad, zero));
}

/* g s (1 + x (1 - s)), s = sigmoid(x) */
void aten_silu_backward(struct call *c)
{
	struct backward b = read_backward(c, "self");
	struct node_id s = emit1(c, OP_SIGMOID, b.x);
	struct node_id inner = emit_with(c, OP_ADD, times(c, b.x, one_minus(c, s)), 1);
	give(c, emit_cast(c, times(c, b.grad, times(c, s, inner)), b.dtype));
}

/* g y (1 - y) */
void aten_sigmoid_backward(struct call *c)
{
	struct backward b = read_backward(c, "output");
	give(c, emit_cast(c, times(c, b.grad, times(c, b.x, one_minus(c, b.x))), b.dtype));
}

/* g (1 - y y) */
void aten_tanh_backward(struct call *c)
{
	struct backward b = read_backward(c, "output");
	give(c, emit_cast(c, times(c, b.grad, one_minus(c, times(c, b.x, b.x))), b.dtype));
}

#define SQRT1_2 0.70710678118654752440
#define SQRT2_OVER_SQRTPI_2 0.39894228040143267794 /* 1 / sqrt(2 pi) */

/* cdf(x) + x pdf(x) */
static struct node_id gelu_slope(struct call *c, struct node_id x)
{
	struct node_id cdf = emit_with(c, OP_ADD, emit1(c, OP_ERF, emit_with(c, OP_MUL, x, SQRT1_2)), 1);
	struct node_id pdf = emit1(c, OP_EXP, emit_with(c, OP_MUL, times(c, x, x), -0.5));
	cdf = emit_with(c, OP_MUL, cdf, 0.5);
	return emit2(c, OP_ADD, cdf, times(c, x, emit_with(c, OP_MUL, pdf, SQRT2_OVER_SQRTPI_2)));
}

/* 0.5 (1 + t) + 0.5 x (1 - t t) k (1 + 3 a x x), t = tanh(k (x + a x x x)) */
static struct node_id gelu_tanh_slope(struct call *c, struct node_id x)
{
	const double k = 0.79788456080286535588, a = 0.044715;
	struct node_id xx = times(c, x, x);
	struct node_id inner = emit2(c, OP_ADD, x, emit_with(c, OP_MUL, times(c, xx, x), a));
	struct node_id t = emit1(c, OP_TANH, emit_with(c, OP_MUL, inner, k));
	struct node_id left = emit_with(c, OP_MUL, emit_with(c, OP_ADD, t, 1), 0.5);
	struct node_id slope = emit_with(c, OP_MUL, emit_with(c, OP_ADD, emit_with(c, OP_MUL, xx, 3 * a), 1), k);
	struct node_id bend = one_minus(c, times(c, t, t));
	struct node_id right = times(c, times(c, emit_with(c, OP_MUL, x, 0.5), bend), slope);
	return emit2(c, OP_ADD, left, right);
}

void aten_gelu_backward(struct call *c)
{
	struct backward b = read_backward(c, "self");
	bool tanh = strcmp(arg_string(c, "approximate", "none"), "tanh") == 0;
	struct node_id slope = tanh ? gelu_tanh_slope(c, b.x) : gelu_slope(c, b.x);
	give(c, emit_cast(c, times(c, b.grad, slope), b.dtype));
}

/* Rows of the gradient added up by id. */
void aten_embedding_backward(struct call *c)
{
	struct node_id grad = arg_tensor(c, "grad_output"), ids = arg_tensor(c, "indices");
	int64_t rows = arg_int_required(c, "num_weights"), padding = arg_int(c, "padding_idx", -1), dim = 0;
	struct attrs a = { 0 };
	int rank = rank_of(c, grad);
	struct node_id wide = emit_wide(c, grad);
	int64_t shape[2] = { rows, size_of(c, grad, rank - 1) };
	if (arg_bool(c, "scale_grad_by_freq", false))
		call_lacks(c, "%s with scale_grad_by_freq", c->text);
	if (padding >= 0) {
		struct node_id pad = emit_fill(c, (struct number){ VALUE_INT, padding, 0 }, dtype_of(c, ids), 0, NULL);
		struct node_id used = emit_unsqueeze(c, emit2(c, OP_NE, ids, pad), rank_of(c, ids));
		wide = emit3(c, OP_WHERE, used, wide, emit_scalar(c, 0, dtype_of(c, wide)));
	}
	struct node_id zero = emit_fill(c, (struct number){ VALUE_INT, 0, 0 }, dtype_of(c, wide), 2, shape);
	attrs_ints(&a, ATTR_DIMS, &dim, 1);
	attrs_int(&a, ATTR_ACCUMULATE, 1);
	struct node_id n = emit(c, OP_INDEX_PUT, (struct node_id[]){ zero, ids, wide }, 3, &a);
	give(c, emit_cast(c, n, dtype_of(c, grad)));
}

/* With h = (x - mean) rstd and gw = g w:  rstd (gw - mean(gw) - h mean(gw h)) */
void aten_layer_norm_backward(struct call *c)
{
	struct node_id x = arg_tensor(c, "input"), grad = emit_wide(c, arg_tensor(c, "grad_out"));
	struct node_id mean = emit_wide(c, arg_tensor(c, "mean")), rstd = emit_wide(c, arg_tensor(c, "rstd"));
	struct node_id w = arg_tensor_or_none(c, "weight"), b = arg_tensor_or_none(c, "bias");
	int64_t shape[MAX_RANK], inner[MAX_RANK], outer[MAX_RANK] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	int count = arg_ints(c, "normalized_shape", shape, MAX_RANK), rank = rank_of(c, x);
	arg_has(c, "output_mask");
	for (int i = 0; i < count; i++)
		inner[i] = rank - count + i;
	if (count < 1 || count > rank)
		call_fail(c, FS_INVALID, "'normalized_shape' does not fit a tensor of rank %d", rank);
	if (failed(c))
		return;
	struct node_id h = times(c, emit2(c, OP_SUB, emit_wide(c, x), mean), rstd);
	struct node_id gw = node_is(w) ? times(c, grad, emit_wide(c, w)) : grad;
	struct node_id first = emit_reduce(c, OP_MEAN, gw, inner, count, true);
	struct node_id second = times(c, h, emit_reduce(c, OP_MEAN, times(c, gw, h), inner, count, true));
	struct node_id dx = times(c, rstd, emit2(c, OP_SUB, emit2(c, OP_SUB, gw, first), second));
	give(c, emit_cast(c, dx, dtype_of(c, x)));
	struct node_id dw = emit_reduce(c, OP_SUM, times(c, grad, h), outer, rank - count, false);
	give(c, node_is(w) ? emit_cast(c, dw, dtype_of(c, w)) : NODE_NONE);
	struct node_id db = emit_reduce(c, OP_SUM, grad, outer, rank - count, false);
	give(c, node_is(b) ? emit_cast(c, db, dtype_of(c, b)) : NODE_NONE);
}
