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

/* As 'reduction' says, rounded once. */
static void give_reduced(struct call *c, struct node_id n, enum dtype t)
{
	int64_t reduction = arg_int(c, "reduction", REDUCE_MEAN);
	if (reduction != REDUCE_NONE)
		n = over_all(c, reduction == REDUCE_MEAN ? OP_MEAN : OP_SUM, n);
	give(c, emit_cast(c, n, t));
}

/* --- negative log likelihood of classes along `dim` --- */

/* total: of the weights of the rows that count. */
struct nll { struct node_id loss, total, valid; };

static struct nll nll(struct call *c, struct node_id logp, struct node_id target, int dim)
{
	enum dtype t = dtype_of(c, logp);
	struct attrs a = { 0 }, first = { 0 };
	int64_t ignore = arg_int(c, "ignore_index", -100), reduction = arg_int(c, "reduction", REDUCE_MEAN), zero = 0;
	struct node_id weight = emit_wide(c, arg_tensor_or_none(c, "weight"));
	struct node_id valid = emit2(c, OP_NE, target, emit_fill(c, (struct number){ VALUE_INT, ignore, 0 }, DT_I64, 0, NULL));
	struct node_id safe = emit3(c, OP_WHERE, valid, target, emit_scalar(c, 0, dtype_of(c, target)));
	struct node_id counts = emit_cast(c, valid, t);
	attrs_int(&a, ATTR_DIM, dim);
	attrs_ints(&first, ATTR_DIMS, &zero, 1);
	struct node_id picked = emit(c, OP_GATHER, (struct node_id[]){ logp, emit_unsqueeze(c, safe, dim) }, 2, &a);
	picked = emit1(c, OP_NEG, emit_squeeze(c, picked, dim));
	if (node_is(weight)) {
		struct node_id own = emit(c, OP_INDEX, (struct node_id[]){ weight, safe }, 2, &first);
		picked = emit2(c, OP_MUL, picked, own);
		counts = emit2(c, OP_MUL, counts, own);
	}
	struct node_id loss = emit3(c, OP_WHERE, valid, picked, emit_scalar(c, 0, t));
	struct node_id total = over_all(c, OP_SUM, counts);
	if (reduction != REDUCE_NONE)
		loss = over_all(c, OP_SUM, loss);
	if (reduction == REDUCE_MEAN)
		loss = emit2(c, OP_DIV, loss, total);
	return (struct nll){ loss, total, valid };
}

/* Classes are dim 1 of [N, C, ..], dim 0 of [C]. */
static int class_dim(struct call *c, struct node_id x)
{
	return rank_of(c, x) > 1;
}

/* x times the weights of the classes, where there are any; minus the sum over classes */
static struct node_id minus_sum(struct call *c, struct node_id x, int dim)
{
	int64_t shape[MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 }, dims[1] = { dim };
	struct node_id weight = emit_wide(c, arg_tensor_or_none(c, "weight"));
	shape[dim] = size_of(c, x, dim);
	if (node_is(weight))
		x = emit2(c, OP_MUL, x, emit_reshape(c, weight, rank_of(c, x), shape));
	return emit1(c, OP_NEG, emit_reduce(c, OP_SUM, x, dims, 1, false));
}

/* (1 - smoothing) nll + smoothing / classes times the loss of all classes alike */
static struct node_id smoothed(struct call *c, struct node_id logp, struct nll n, int dim, double smoothing)
{
	int64_t reduction = arg_int(c, "reduction", REDUCE_MEAN), classes = size_of(c, logp, dim);
	struct node_id rest = emit3(c, OP_WHERE, n.valid, minus_sum(c, logp, dim), emit_scalar(c, 0, dtype_of(c, logp)));
	if (reduction != REDUCE_NONE)
		rest = over_all(c, OP_SUM, rest);
	if (reduction == REDUCE_MEAN)
		rest = emit2(c, OP_DIV, rest, n.total);
	n.loss = emit_with(c, OP_MUL, n.loss, 1 - smoothing);
	return emit2(c, OP_ADD, n.loss, emit_with(c, OP_MUL, rest, smoothing / (double)(classes > 0 ? classes : 1)));
}

/* The target gives a probability for each class; the mean is over rows. */
static struct node_id of_probabilities(struct call *c, struct node_id logp, struct node_id target, int dim, double smoothing)
{
	int64_t reduction = arg_int(c, "reduction", REDUCE_MEAN), classes = size_of(c, logp, dim);
	arg_has(c, "ignore_index");
	if (smoothing != 0) {
		target = emit_with(c, OP_MUL, target, 1 - smoothing);
		target = emit_with(c, OP_ADD, target, smoothing / (double)(classes > 0 ? classes : 1));
	}
	struct node_id loss = minus_sum(c, emit2(c, OP_MUL, logp, target), dim);
	if (reduction == REDUCE_NONE)
		return loss;
	return over_all(c, reduction == REDUCE_MEAN ? OP_MEAN : OP_SUM, loss);
}

void aten_cross_entropy(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), target = arg_tensor(c, "target");
	int dim = class_dim(c, x);
	double smoothing = arg_real(c, "label_smoothing", 0);
	struct node_id logp = emit_wide(c, emit_along(c, OP_LOG_SOFTMAX, x, dim)), loss;
	if (dtype_class(dtype_of(c, target)) != DC_INT) {
		loss = of_probabilities(c, logp, emit_wide(c, target), dim, smoothing);
	} else {
		struct nll n = nll(c, logp, target, dim);
		loss = smoothing != 0 ? smoothed(c, logp, n, dim, smoothing) : n.loss;
	}
	give(c, emit_cast(c, loss, dtype_of(c, x)));
}

/* nll_loss, nll_loss_nd; nll_loss_forward also gives the total. */
void aten_nll_loss(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), target = arg_tensor(c, "target");
	struct nll n = nll(c, emit_wide(c, x), target, class_dim(c, x));
	give(c, emit_cast(c, n.loss, dtype_of(c, x)));
	give(c, emit_cast(c, n.total, dtype_of(c, x)));
}

/* --- distances --- */

static struct node_id away(struct call *c)
{
	struct node_id x = emit_wide(c, arg_tensor(c, "self"));
	return emit2(c, OP_SUB, x, emit_wide(c, arg_tensor(c, "target")));
}

void aten_mse_loss(struct call *c)
{
	struct node_id d = away(c);
	give_reduced(c, emit2(c, OP_MUL, d, d), dtype_of(c, arg_tensor(c, "self")));
}

void aten_l1_loss(struct call *c)
{
	give_reduced(c, emit1(c, OP_ABS, away(c)), dtype_of(c, arg_tensor(c, "self")));
}

/* d < limit: d^2 / 2, else limit (d - limit / 2); all times `scale` */
static void give_huber(struct call *c, double limit, double scale)
{
	struct node_id d = emit1(c, OP_ABS, away(c));
	struct node_id near = emit_with(c, OP_MUL, emit2(c, OP_MUL, d, d), 0.5 * scale);
	struct node_id far = emit_with(c, OP_MUL, emit_with(c, OP_SUB, d, 0.5 * limit), limit * scale);
	struct node_id is_near = emit2(c, OP_LT, d, emit_scalar(c, limit, dtype_of(c, d)));
	give_reduced(c, emit3(c, OP_WHERE, is_near, near, far), dtype_of(c, arg_tensor(c, "self")));
}

void aten_huber_loss(struct call *c)
{
	give_huber(c, arg_real(c, "delta", 1), 1);
}

void aten_smooth_l1_loss(struct call *c)
{
	double beta = arg_real(c, "beta", 1);
	if (beta == 0)
		aten_l1_loss(c);
	else
		give_huber(c, beta, 1 / beta);
}

/* target (log target - x), or, of a log, exp(target) (target - x) */
void aten_kl_div(struct call *c)
{
	struct node_id x = emit_wide(c, arg_tensor(c, "self")), target = emit_wide(c, arg_tensor(c, "target")), n;
	if (arg_bool(c, "log_target", false)) {
		n = emit2(c, OP_MUL, emit1(c, OP_EXP, target), emit2(c, OP_SUB, target, x));
	} else {
		struct node_id zero = emit_scalar(c, 0, dtype_of(c, target));
		struct node_id entropy = emit2(c, OP_MUL, target, emit1(c, OP_LOG, target));
		entropy = emit3(c, OP_WHERE, emit2(c, OP_EQ, target, zero), zero, entropy);
		n = emit2(c, OP_SUB, entropy, emit2(c, OP_MUL, target, x));
	}
	give_reduced(c, n, dtype_of(c, arg_tensor(c, "self")));
}

/* --- two classes --- */

static struct node_id one_minus(struct call *c, struct node_id x)
{
	return emit2(c, OP_SUB, emit_scalar(c, 1, dtype_of(c, x)), x);
}

static void give_weighted(struct call *c, struct node_id n)
{
	struct node_id weight = emit_wide(c, arg_tensor_or_none(c, "weight"));
	n = node_is(weight) ? emit2(c, OP_MUL, n, weight) : n;
	give_reduced(c, n, dtype_of(c, arg_tensor(c, "self")));
}

/* (target - 1) log(1 - x) - target log x, logs at least -100 */
void aten_binary_cross_entropy(struct call *c)
{
	struct node_id x = emit_wide(c, arg_tensor(c, "self")), target = emit_wide(c, arg_tensor(c, "target"));
	struct node_id yes = emit_with(c, OP_MAXIMUM, emit1(c, OP_LOG, x), -100);
	struct node_id no = emit_with(c, OP_MAXIMUM, emit1(c, OP_LOG1P, emit1(c, OP_NEG, x)), -100);
	no = emit2(c, OP_MUL, emit_with(c, OP_SUB, target, 1), no);
	give_weighted(c, emit2(c, OP_SUB, no, emit2(c, OP_MUL, target, yes)));
}

/* (1 - target) x + (1 + (pos_weight - 1) target) softplus(-x) */
void aten_binary_cross_entropy_with_logits(struct call *c)
{
	struct node_id x = emit_wide(c, arg_tensor(c, "self")), target = emit_wide(c, arg_tensor(c, "target"));
	struct node_id positive = emit_wide(c, arg_tensor_or_none(c, "pos_weight"));
	struct node_id tail = emit1(c, OP_LOG1P, emit1(c, OP_EXP, emit1(c, OP_NEG, emit1(c, OP_ABS, x))));
	tail = emit2(c, OP_SUB, tail, emit_with(c, OP_MINIMUM, x, 0));
	if (node_is(positive)) {
		struct node_id more = emit2(c, OP_MUL, emit_with(c, OP_SUB, positive, 1), target);
		tail = emit2(c, OP_MUL, tail, emit_with(c, OP_ADD, more, 1));
	}
	give_weighted(c, emit2(c, OP_ADD, emit2(c, OP_MUL, one_minus(c, target), x), tail));
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
