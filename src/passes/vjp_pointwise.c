/* VJPs of pointwise ops. */
#include "vjp.h"

#include <math.h>

/* x, y, g: the operand, the result and its gradient, wide; M: times, W: with a number. */
#define M(a, b)     build_2(v, OP_MUL, a, b)
#define W(op, a, x) build_with(v, OP_##op, a, x)
#define U(op, a)    build_1(v, OP_##op, a)

static struct node_id from(struct vjp *v, double c, struct node_id a)
{
	return build_2(v, OP_SUB, build_scalar(v, c), a);
}

static struct node_id square(struct vjp *v, struct node_id a)
{
	return M(a, a);
}

/* --- of one operand: the gradient, or the slope by which it is multiplied --- */

#define GRADIENT(name, expression)                                                                  \
	void vjp_##name(struct vjp *v)                                                              \
	{                                                                                           \
		struct node_id x = vjp_x(v, 0), y = vjp_y(v), g = vjp_grad(v);                      \
		(void)x, (void)y;                                                                   \
		vjp_give(v, 0, expression);                                                         \
	}
#define SLOPE(name, expression) GRADIENT(name, M(g, expression))

/* cdf(x) + x pdf(x), of the normal distribution */
static struct node_id gelu_slope(struct vjp *v, struct node_id x)
{
	struct node_id cdf = W(MUL, W(ADD, U(ERF, W(MUL, x, 0.70710678118654752440)), 1), 0.5);
	struct node_id pdf = U(EXP, W(MUL, square(v, x), -0.5));
	return build_2(v, OP_ADD, cdf, M(x, W(MUL, pdf, 0.39894228040143267794)));
}

/* 0.5 (1 + t) + 0.5 x (1 - t t) k (1 + 3 a x x), t = tanh(k (x + a x x x)) */
static struct node_id gelu_tanh_slope(struct vjp *v, struct node_id x)
{
	const double k = 0.79788456080286535588, a = 0.044715;
	struct node_id xx = square(v, x);
	struct node_id t = U(TANH, W(MUL, M(x, W(ADD, W(MUL, xx, a), 1)), k));
	struct node_id inner = W(MUL, W(ADD, W(MUL, xx, 3 * a), 1), k);
	struct node_id bend = M(M(x, from(v, 1, square(v, t))), inner);
	return W(MUL, build_2(v, OP_ADD, W(ADD, t, 1), bend), 0.5);
}

/* s (1 + x (1 - s)), s = sigmoid(x) */
static struct node_id silu_slope(struct vjp *v, struct node_id x)
{
	struct node_id s = U(SIGMOID, x);
	return M(s, W(ADD, M(x, from(v, 1, s)), 1));
}

/* t + x (1 - t t) sigmoid(x), t = tanh(softplus(x)) */
static struct node_id mish_slope(struct vjp *v, struct node_id x)
{
	struct node_id t = U(TANH, U(SOFTPLUS, x));
	return build_2(v, OP_ADD, t, M(M(x, from(v, 1, square(v, t))), U(SIGMOID, x)));
}

GRADIENT(copy, g)
GRADIENT(cast, g)
GRADIENT(neg, U(NEG, g))
GRADIENT(relu, build_where(v, W(GT, x, 0), g, build_scalar(v, 0)))
GRADIENT(log, build_2(v, OP_DIV, g, x))
GRADIENT(log2, build_2(v, OP_DIV, g, W(MUL, x, 0.69314718055994530942)))
GRADIENT(log1p, build_2(v, OP_DIV, g, W(ADD, x, 1)))
GRADIENT(sqrt, build_2(v, OP_DIV, g, W(MUL, y, 2)))
SLOPE(abs, U(SIGN, x))
SLOPE(exp, y)
SLOPE(exp2, W(MUL, y, 0.69314718055994530942))
SLOPE(expm1, W(ADD, y, 1))
SLOPE(rsqrt, W(MUL, M(y, square(v, y)), -0.5))
SLOPE(reciprocal, U(NEG, square(v, y)))
SLOPE(sin, U(COS, x))
SLOPE(cos, U(NEG, U(SIN, x)))
SLOPE(tan, W(ADD, square(v, y), 1))
SLOPE(sinh, U(COSH, x))
SLOPE(cosh, U(SINH, x))
SLOPE(tanh, from(v, 1, square(v, y)))
SLOPE(asin, U(RSQRT, from(v, 1, square(v, x))))
SLOPE(acos, U(NEG, U(RSQRT, from(v, 1, square(v, x)))))
SLOPE(atan, U(RECIPROCAL, W(ADD, square(v, x), 1)))
SLOPE(erf, W(MUL, U(EXP, U(NEG, square(v, x))), 1.12837916709551257390))
SLOPE(sigmoid, M(y, from(v, 1, y)))
SLOPE(silu, silu_slope(v, x))
SLOPE(gelu, gelu_slope(v, x))
SLOPE(gelu_tanh, gelu_tanh_slope(v, x))
SLOPE(softplus, U(SIGMOID, x))
SLOPE(mish, mish_slope(v, x))

/* --- of two --- */

#define GRADIENTS(name, of_a, of_b)                                                                 \
	void vjp_##name(struct vjp *v)                                                              \
	{                                                                                           \
		struct node_id a = vjp_x(v, 0), b = vjp_x(v, 1), y = vjp_y(v), g = vjp_grad(v);     \
		(void)a, (void)b, (void)y;                                                          \
		if (vjp_wants(v, 0))                                                                \
			vjp_give(v, 0, of_a);                                                       \
		if (vjp_wants(v, 1))                                                                \
			vjp_give(v, 1, of_b);                                                       \
	}

/* b a^(b-1); 0 where b is */
static struct node_id power_slope(struct vjp *v, struct node_id a, struct node_id b)
{
	struct node_id slope = M(b, build_2(v, OP_POW, a, W(SUB, b, 1)));
	return build_where(v, W(EQ, b, 0), build_scalar(v, 0), slope);
}

/* y log(a); 0 where a is, and b is not negative */
static struct node_id exponent_slope(struct vjp *v, struct node_id a, struct node_id b, struct node_id y)
{
	struct node_id none = build_2(v, OP_LOGICAL_AND, W(EQ, a, 0), W(GE, b, 0));
	return build_where(v, none, build_scalar(v, 0), M(y, U(LOG, a)));
}

/* 1 where op says that a is the result, 1/2 where both are */
static struct node_id share(struct vjp *v, enum op op, struct node_id a, struct node_id b)
{
	struct node_id tied = build_where(v, build_2(v, OP_EQ, a, b), build_scalar(v, 0.5), build_scalar(v, 0));
	return build_where(v, build_2(v, op, a, b), build_scalar(v, 1), tied);
}

static struct node_id over_squares(struct vjp *v, struct node_id x, struct node_id a, struct node_id b)
{
	return build_2(v, OP_DIV, x, build_2(v, OP_ADD, square(v, a), square(v, b)));
}

GRADIENTS(add, g, g)
GRADIENTS(sub, g, U(NEG, g))
GRADIENTS(mul, M(g, b), M(g, a))
GRADIENTS(div, build_2(v, OP_DIV, g, b), U(NEG, M(g, build_2(v, OP_DIV, y, b))))
GRADIENTS(pow, M(g, power_slope(v, a, b)), M(g, exponent_slope(v, a, b, y)))
GRADIENTS(maximum, M(g, share(v, OP_GT, a, b)), M(g, share(v, OP_GT, b, a)))
GRADIENTS(minimum, M(g, share(v, OP_LT, a, b)), M(g, share(v, OP_LT, b, a)))
GRADIENTS(atan2, M(g, over_squares(v, b, a, b)), U(NEG, M(g, over_squares(v, a, a, b))))
GRADIENTS(remainder, g, U(NEG, M(g, build_2(v, OP_FLOOR_DIVIDE, a, b))))
GRADIENTS(fmod, g, U(NEG, M(g, U(TRUNC, build_2(v, OP_DIV, a, b)))))

void vjp_where(struct vjp *v)
{
	struct node_id cond = vjp_value(v, 0), g = vjp_grad(v), zero = build_scalar(v, 0);
	if (vjp_wants(v, 1))
		vjp_give(v, 1, build_where(v, cond, g, zero));
	if (vjp_wants(v, 2))
		vjp_give(v, 2, build_where(v, cond, zero, g));
}

void vjp_zero(struct vjp *v)
{
	(void)v;
}

void vjp_none(struct vjp *v)
{
	v->lack = "which has no gradient here";
}
