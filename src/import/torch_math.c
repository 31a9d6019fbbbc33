/* Pointwise ops. */
#include "torch_impl.h"

#include <float.h>
#include <math.h>
#include <string.h>

static struct operand as_number(double v)
{
	return (struct operand){ .number = { .kind = VALUE_FLOAT, .f = v } };
}

static struct node_id self(struct call *c)
{
	return arg_tensor(c, arg_has(c, "self") ? "self" : "input");
}

/* --- one op --- */

void aten_unary(struct call *c)
{
	give(c, emit1(c, c->target->op, self(c)));
}

void aten_bitwise_not(struct call *c)
{
	struct node_id x = self(c);
	give(c, emit1(c, dtype_of(c, x) == DT_BOOL ? OP_LOGICAL_NOT : OP_BITWISE_NOT, x));
}

void aten_positive(struct call *c)
{
	give(c, self(c));
}

void aten_binary(struct call *c)
{
	struct operand in[2];
	in[0] = arg_operand(c, "self");
	in[1] = arg_operand(c, "other");
	give(c, emit_pointwise(c, c->target->op, in, 2));
}

static struct node_id combine(struct call *c, enum op op, struct operand a, struct operand b)
{
	return emit_pointwise(c, op, (struct operand[]){ a, b }, 2);
}

/* The tensor of an operand widened, so that several ops round once. */
static struct operand wide(struct call *c, struct operand x)
{
	return node_is(x.node) ? as_operand(emit_wide(c, x.node)) : x;
}

/* self op alpha * other */
static void give_sum(struct call *c, enum op op, struct operand a, struct operand b)
{
	struct number alpha = arg_has(c, "alpha") ? arg_number(c, "alpha") : (struct number){ VALUE_INT, 1, 0 };
	if (number_real(alpha) == 1) {
		give(c, combine(c, op, a, b));
		return;
	}
	enum dtype t = promoted(c, (struct operand[]){ a, b }, 2);
	struct node_id scaled = combine(c, OP_MUL, wide(c, b), (struct operand){ .number = alpha });
	give(c, emit_cast(c, combine(c, op, wide(c, a), as_operand(scaled)), t));
}

void aten_sum_of(struct call *c)
{
	struct operand a = arg_operand(c, "self");
	give_sum(c, c->target->op, a, arg_operand(c, "other"));
}

/* other - alpha * self */
void aten_rsub(struct call *c)
{
	struct operand a = arg_operand(c, "self");
	give_sum(c, OP_SUB, arg_operand(c, "other"), a);
}

/* --- quotients and powers --- */

static struct node_id truncated_quotient(struct call *c, struct node_id a, struct node_id b)
{
	struct node_id size_a = emit1(c, OP_ABS, a), size_b = emit1(c, OP_ABS, b);
	struct node_id sign_a = emit1(c, OP_SIGN, a), sign_b = emit1(c, OP_SIGN, b);
	struct node_id q = emit2(c, OP_FLOOR_DIVIDE, size_a, size_b), sign = emit2(c, OP_MUL, sign_a, sign_b);
	return emit2(c, OP_MUL, sign, q);
}

static struct node_id operand_node(struct call *c, struct operand x, enum dtype t)
{
	return node_is(x.node) || failed(c) ? emit_cast(c, x.node, t) : emit_fill(c, x.number, t, 0, NULL);
}

static void give_truncated(struct call *c, struct operand a, struct operand b)
{
	enum dtype t = promoted(c, (struct operand[]){ a, b }, 2);
	if (dtype_is_float(t)) {
		a = wide(c, a);
		b = wide(c, b);
		give(c, emit_cast(c, emit1(c, OP_TRUNC, combine(c, OP_DIV, a, b)), t));
	} else {
		struct node_id x = operand_node(c, a, t), y = operand_node(c, b, t);
		give(c, truncated_quotient(c, x, y));
	}
}

void aten_div(struct call *c)
{
	struct operand a = arg_operand(c, "self"), b = arg_operand(c, "other");
	const char *mode = arg_string(c, "rounding_mode", "true");
	if (strcmp(mode, "floor") == 0)
		give(c, combine(c, OP_FLOOR_DIVIDE, a, b));
	else if (strcmp(mode, "trunc") == 0)
		give_truncated(c, a, b);
	else if (strcmp(mode, "true") == 0)
		give(c, combine(c, OP_DIV, a, b));
	else
		call_lacks(c, "%s with rounding_mode '%s'", c->text, mode);
}

/* What torch's kernel computes for some exponents; NODE_NONE: a pow. */
static struct node_id simple_power(struct call *c, struct node_id x, double e)
{
	bool real = dtype_is_float(dtype_of(c, x)), full = real && dtype_size(dtype_of(c, x)) >= 4;
	if (e == 2)
		return emit2(c, OP_MUL, x, x);
	if (e == 3 && full)
		return emit2(c, OP_MUL, emit2(c, OP_MUL, x, x), x);
	if (e == 0.5 && real)
		return emit1(c, OP_SQRT, x);
	if (e == -0.5 && real)
		return emit1(c, OP_RSQRT, x);
	if (e == -1 && real)
		return emit1(c, OP_RECIPROCAL, x);
	return e == 1 && real ? x : NODE_NONE;
}

void aten_pow(struct call *c)
{
	struct operand x = arg_operand(c, "self"), e = arg_operand(c, "exponent");
	struct node_id simple = NODE_NONE;
	bool counts = node_is(x.node) && !node_is(e.node) && dtype_of(c, x.node) != DT_BOOL &&
		      (dtype_is_float(dtype_of(c, x.node)) || e.number.kind == VALUE_INT);
	if (counts)
		simple = simple_power(c, x.node, number_real(e.number));
	give(c, node_is(simple) ? simple : combine(c, OP_POW, x, e));
}

void aten_square(struct call *c)
{
	struct node_id x = self(c);
	give(c, emit2(c, OP_MUL, x, x));
}

/* --- choices --- */

void aten_where(struct call *c)
{
	struct operand in[3];
	in[0] = arg_operand(c, "condition");
	in[1] = arg_operand(c, "self");
	in[2] = arg_operand(c, "other");
	in[0].node = emit_cast(c, in[0].node, DT_BOOL);
	give(c, emit_pointwise(c, OP_WHERE, in, 3));
}

void aten_masked_fill(struct call *c)
{
	struct node_id x = arg_tensor(c, "self"), mask = arg_tensor(c, "mask");
	enum dtype t = dtype_of(c, x);
	struct node_id value = operand_node(c, arg_operand(c, "value"), t);
	give(c, emit3(c, OP_WHERE, mask, value, x));
}

/* Bounds are numbers or tensors; the upper one wins. */
static struct node_id clamp(struct call *c, struct node_id x, const char *low, const char *high)
{
	if (low != NULL && arg_has(c, low))
		x = combine(c, OP_MAXIMUM, as_operand(x), arg_operand(c, low));
	if (high != NULL && arg_has(c, high))
		x = combine(c, OP_MINIMUM, as_operand(x), arg_operand(c, high));
	return x;
}

void aten_clamp(struct call *c)
{
	struct node_id x = self(c);
	give(c, clamp(c, x, arg_has(c, "min_val") ? "min_val" : "min", arg_has(c, "max_val") ? "max_val" : "max"));
}

void aten_hardtanh(struct call *c)
{
	struct node_id x = self(c);
	x = emit_with(c, OP_MAXIMUM, x, arg_real(c, "min_val", -1));
	give(c, emit_with(c, OP_MINIMUM, x, arg_real(c, "max_val", 1)));
}

void aten_relu6(struct call *c)
{
	give(c, emit_with(c, OP_MINIMUM, emit1(c, OP_RELU, self(c)), 6));
}

/* --- three operands: self + value * t1 (* or /) t2, and lerp --- */

void aten_addc(struct call *c)
{
	struct operand x = arg_operand(c, "self"), a = arg_operand(c, "tensor1"), b = arg_operand(c, "tensor2");
	enum dtype t = promoted(c, (struct operand[]){ x, a, b }, 3);
	a = wide(c, a);
	b = wide(c, b);
	struct node_id n = combine(c, c->target->op, a, b);
	if (arg_has(c, "value"))
		n = combine(c, OP_MUL, as_operand(n), (struct operand){ .number = arg_number(c, "value") });
	give(c, emit_cast(c, combine(c, OP_ADD, wide(c, x), as_operand(n)), t));
}

/* torch goes from the nearer end. */
void aten_lerp(struct call *c)
{
	struct operand x = arg_operand(c, "self"), end = arg_operand(c, "end"), w = arg_operand(c, "weight");
	enum dtype t = promoted(c, (struct operand[]){ x, end }, 2);
	if (node_is(w.node))
		call_lacks(c, "%s with a tensor as weight", c->text);
	double by = number_real(w.number);
	bool near = fabs(by) < 0.5;
	x = wide(c, x);
	end = wide(c, end);
	struct operand span = as_operand(combine(c, OP_SUB, end, x));
	struct operand part = as_operand(combine(c, OP_MUL, span, as_number(near ? by : 1 - by)));
	struct node_id n = near ? combine(c, OP_ADD, x, part) : combine(c, OP_SUB, end, part);
	give(c, emit_cast(c, n, t));
}

/* --- activations: several ops in f32, one rounding --- */

struct wide_call { struct node_id x; enum dtype dtype; };

static struct wide_call widen(struct call *c)
{
	struct node_id x = self(c);
	return (struct wide_call){ emit_wide(c, x), dtype_of(c, x) };
}

static struct node_id constant(struct call *c, const struct wide_call *w, double v)
{
	return emit_scalar(c, v, dtype_of(c, w->x));
}

static struct node_id positive(struct call *c, const struct wide_call *w)
{
	return emit2(c, OP_GT, w->x, constant(c, w, 0));
}

void aten_gelu(struct call *c)
{
	const char *how = arg_string(c, "approximate", "none");
	give(c, emit1(c, strcmp(how, "tanh") == 0 ? OP_GELU_TANH : OP_GELU, self(c)));
}

void aten_leaky_relu(struct call *c)
{
	struct wide_call w = widen(c);
	struct node_id low = emit_with(c, OP_MUL, w.x, arg_real(c, "negative_slope", 0.01));
	give(c, emit_cast(c, emit3(c, OP_WHERE, positive(c, &w), w.x, low), w.dtype));
}

/* x > 0: scale x, else scale alpha (exp(input_scale x) - 1) */
static void give_elu(struct call *c, double alpha, double scale, double input_scale)
{
	struct wide_call w = widen(c);
	struct node_id low = emit1(c, OP_EXPM1, emit_with(c, OP_MUL, w.x, input_scale));
	low = emit_with(c, OP_MUL, low, alpha * scale);
	struct node_id high = emit_with(c, OP_MUL, w.x, scale);
	give(c, emit_cast(c, emit3(c, OP_WHERE, positive(c, &w), high, low), w.dtype));
}

void aten_elu(struct call *c)
{
	give_elu(c, arg_real(c, "alpha", 1), arg_real(c, "scale", 1), arg_real(c, "input_scale", 1));
}

void aten_selu(struct call *c)
{
	give_elu(c, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
}

void aten_celu(struct call *c)
{
	double alpha = arg_real(c, "alpha", 1);
	give_elu(c, alpha, 1, 1 / alpha);
}

/* clamp(x + 3, 0, 6) / 6 */
static struct node_id hard_gate(struct call *c, const struct wide_call *w)
{
	struct node_id n = emit_with(c, OP_MAXIMUM, emit_with(c, OP_ADD, w->x, 3), 0);
	return emit_with(c, OP_MINIMUM, n, 6);
}

void aten_hardsigmoid(struct call *c)
{
	struct wide_call w = widen(c);
	give(c, emit_cast(c, emit_with(c, OP_DIV, hard_gate(c, &w), 6), w.dtype));
}

void aten_hardswish(struct call *c)
{
	struct wide_call w = widen(c);
	struct node_id n = emit2(c, OP_MUL, w.x, hard_gate(c, &w));
	give(c, emit_cast(c, emit_with(c, OP_DIV, n, 6), w.dtype));
}

void aten_softplus(struct call *c)
{
	double beta = arg_real(c, "beta", 1), threshold = arg_real(c, "threshold", 20);
	struct wide_call w = widen(c);
	if (beta == 1 && threshold == 20) {
		give(c, emit_cast(c, emit1(c, OP_SOFTPLUS, w.x), w.dtype));
		return;
	}
	struct node_id scaled = emit_with(c, OP_MUL, w.x, beta);
	struct node_id soft = emit_with(c, OP_DIV, emit1(c, OP_LOG1P, emit1(c, OP_EXP, scaled)), beta);
	struct node_id linear = emit2(c, OP_GT, scaled, constant(c, &w, threshold));
	give(c, emit_cast(c, emit3(c, OP_WHERE, linear, w.x, soft), w.dtype));
}

/* min(x, 0) - log1p(exp(-|x|)) */
void aten_log_sigmoid(struct call *c)
{
	struct wide_call w = widen(c);
	struct node_id tail = emit1(c, OP_LOG1P, emit1(c, OP_EXP, emit1(c, OP_NEG, emit1(c, OP_ABS, w.x))));
	give(c, emit_cast(c, emit2(c, OP_SUB, emit_with(c, OP_MINIMUM, w.x, 0), tail), w.dtype));
}

void aten_glu(struct call *c)
{
	struct node_id x = self(c);
	int dim = arg_dim(c, "dim", -1, rank_of(c, x));
	int64_t size = size_of(c, x, dim);
	if (size % 2 != 0 || rank_of(c, x) == 0)
		call_fail(c, FS_INVALID, "dim %d of size %lld has no halves", dim, (long long)size);
	struct node_id a = emit_wide(c, emit_slice(c, x, dim, 0, size / 2, 1));
	struct node_id b = emit_wide(c, emit_slice(c, x, dim, size / 2, size, 1));
	give(c, emit_cast(c, emit2(c, OP_MUL, a, emit1(c, OP_SIGMOID, b)), dtype_of(c, x)));
}

/* x where x > threshold, else value */
void aten_threshold(struct call *c)
{
	struct node_id x = self(c);
	struct node_id low = emit_scalar(c, arg_real(c, "value", 0), dtype_of(c, x));
	struct node_id above = emit2(c, OP_GT, x, emit_scalar(c, arg_real(c, "threshold", 0), dtype_of(c, x)));
	give(c, emit3(c, OP_WHERE, above, x, low));
}

/* x where x > 0, else weight x; the weight is one, or one for each of dim 1 */
void aten_prelu(struct call *c)
{
	struct wide_call w = widen(c);
	struct node_id weight = emit_wide(c, arg_tensor(c, "weight"));
	int64_t shape[MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	int rank = rank_of(c, w.x);
	if (rank > 1)
		shape[1] = type_count(type_of(c, weight));
	weight = emit_reshape(c, weight, rank, shape);
	give(c, emit_cast(c, emit3(c, OP_WHERE, positive(c, &w), w.x, emit2(c, OP_MUL, w.x, weight)), w.dtype));
}

/* 0 where |x| <= lambd, else x */
void aten_hardshrink(struct call *c)
{
	struct wide_call w = widen(c);
	struct node_id small = emit2(c, OP_LE, emit1(c, OP_ABS, w.x), constant(c, &w, arg_real(c, "lambd", 0.5)));
	give(c, emit_cast(c, emit3(c, OP_WHERE, small, constant(c, &w, 0), w.x), w.dtype));
}

/* x without what clamp(x, -lambd, lambd) takes */
void aten_softshrink(struct call *c)
{
	struct wide_call w = widen(c);
	double lambd = arg_real(c, "lambd", 0.5);
	struct node_id inner = emit_with(c, OP_MINIMUM, emit_with(c, OP_MAXIMUM, w.x, -lambd), lambd);
	give(c, emit_cast(c, emit2(c, OP_SUB, w.x, inner), w.dtype));
}

/* --- tests --- */

/* Infinities become the type's largest and least numbers where nothing else is said. */
void aten_nan_to_num(struct call *c)
{
	struct node_id x = self(c);
	enum dtype t = dtype_of(c, x);
	double most = t == DT_BF16 ? 0x1.fep127 : t == DT_F16 ? 65504 : t == DT_F64 ? DBL_MAX : (double)FLT_MAX;
	double nan = arg_real(c, "nan", 0), high = arg_real(c, "posinf", most), low = arg_real(c, "neginf", -most);
	if (dtype_is_float(t)) {
		x = emit3(c, OP_WHERE, emit2(c, OP_EQ, x, emit_scalar(c, INFINITY, t)), emit_scalar(c, high, t), x);
		x = emit3(c, OP_WHERE, emit2(c, OP_EQ, x, emit_scalar(c, -INFINITY, t)), emit_scalar(c, low, t), x);
		x = emit3(c, OP_WHERE, emit1(c, OP_ISNAN, x), emit_scalar(c, nan, t), x);
	}
	give(c, x);
}

void aten_isfinite(struct call *c)
{
	struct node_id x = self(c), nan = emit1(c, OP_ISNAN, x), inf = emit1(c, OP_ISINF, x);
	give(c, emit1(c, OP_LOGICAL_NOT, emit2(c, OP_LOGICAL_OR, nan, inf)));
}

void aten_erfc(struct call *c)
{
	struct wide_call w = widen(c);
	struct node_id erf = emit1(c, OP_ERF, w.x);
	give(c, emit_cast(c, emit2(c, OP_SUB, constant(c, &w, 1), erf), w.dtype));
}
