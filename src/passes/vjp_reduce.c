/* VJPs of reductions, and of what goes along one dim. */
#include "vjp.h"

#include <math.h>

/* A reduction: its dims, x, and y and its gradient with those dims kept. */
struct reduced { const int64_t *dims; int count; struct type type; struct node_id x, y, grad; int64_t size; };

static struct node_id kept(struct vjp *v, const struct reduced *r, struct node_id n)
{
	struct type t = r->type;
	for (int i = 0; i < r->count; i++)
		t.dim[r->dims[i]] = 1;
	return build_reshape(v, n, t.rank, t.dim);
}

static struct reduced read_reduced(struct vjp *v)
{
	struct reduced r = { .size = 1 };
	r.count = graph_ints(v->g, v->n, ATTR_DIMS, &r.dims);
	r.type = vjp_type(v, vjp_operand(v, 0));
	for (int i = 0; i < r.count; i++)
		r.size *= r.type.dim[r.dims[i]];
	r.x = vjp_x(v, 0);
	r.y = kept(v, &r, vjp_y(v));
	r.grad = kept(v, &r, vjp_grad(v));
	return r;
}

void vjp_sum(struct vjp *v)
{
	vjp_give(v, 0, read_reduced(v).grad);
}

void vjp_mean(struct vjp *v)
{
	struct reduced r = read_reduced(v);
	vjp_give(v, 0, build_with(v, OP_MUL, r.grad, 1.0 / (double)(r.size > 0 ? r.size : 1)));
}

/* Shared by all that are the result; of the magnitudes |x|, with the sign of x. */
static struct node_id of_best(struct vjp *v, const struct reduced *r, struct node_id x)
{
	struct node_id is = build_cast(v, build_2(v, OP_EQ, x, r->y), v->wide);
	return build_2(v, OP_MUL, is, build_2(v, OP_DIV, r->grad, build_reduce(v, OP_SUM, is, r->dims, r->count)));
}

void vjp_best(struct vjp *v)
{
	struct reduced r = read_reduced(v);
	vjp_give(v, 0, of_best(v, &r, r.x));
}

/* The product of the others: y / x; of one zero among them, the product of the rest; of more, none. */
void vjp_prod(struct vjp *v)
{
	struct reduced r = read_reduced(v);
	struct node_id none = build_scalar(v, 0), is_zero = build_with(v, OP_EQ, r.x, 0);
	struct node_id filled = build_where(v, is_zero, build_scalar(v, 1), r.x);
	struct node_id rest = build_reduce(v, OP_PROD, filled, r.dims, r.count);
	struct node_id zeros = build_reduce(v, OP_SUM, build_cast(v, is_zero, v->wide), r.dims, r.count);
	struct node_id sole = build_2(v, OP_LOGICAL_AND, is_zero, build_with(v, OP_EQ, zeros, 1));
	struct node_id others = build_where(v, build_with(v, OP_EQ, zeros, 0), build_2(v, OP_DIV, rest, filled),
					    build_where(v, sole, rest, none));
	vjp_give(v, 0, build_2(v, OP_MUL, r.grad, others));
}

/* a / b, 0 where b is */
static struct node_id ratio(struct vjp *v, struct node_id a, struct node_id b)
{
	return build_where(v, build_with(v, OP_EQ, b, 0), build_scalar(v, 0), build_2(v, OP_DIV, a, b));
}

/* sign(x) (|x| / y)^(ord - 1) */
void vjp_norm(struct vjp *v)
{
	struct reduced r = read_reduced(v);
	double ord = graph_float(v->g, v->n, ATTR_ORD, 2);
	struct node_id sign = build_1(v, OP_SIGN, r.x), size = build_1(v, OP_ABS, r.x), slope;
	if (ord == 0)
		return;
	if (isinf(ord))
		slope = build_2(v, OP_MUL, sign, of_best(v, &r, size));
	else if (ord == 1)
		slope = build_2(v, OP_MUL, r.grad, sign);
	else if (ord == 2)
		slope = build_2(v, OP_MUL, r.grad, ratio(v, r.x, r.y));
	else
		slope = build_2(v, OP_MUL, build_2(v, OP_MUL, r.grad, sign), build_with(v, OP_POW, ratio(v, size, r.y), ord - 1));
	vjp_give(v, 0, slope);
}

/* --- along one dim --- */

static struct node_id sum_along(struct vjp *v, struct node_id n)
{
	int64_t dim = graph_int(v->g, v->n, ATTR_DIM, 0);
	return build_reduce(v, OP_SUM, n, &dim, 1);
}

/* y (g - sum(g y)) */
void vjp_softmax(struct vjp *v)
{
	struct node_id g = vjp_grad(v), y = vjp_y(v);
	struct node_id sum = sum_along(v, build_2(v, OP_MUL, g, y));
	vjp_give(v, 0, build_2(v, OP_MUL, y, build_2(v, OP_SUB, g, sum)));
}

/* g - exp(y) sum(g) */
void vjp_log_softmax(struct vjp *v)
{
	struct node_id g = vjp_grad(v), p = build_1(v, OP_EXP, vjp_y(v));
	vjp_give(v, 0, build_2(v, OP_SUB, g, build_2(v, OP_MUL, p, sum_along(v, g))));
}

/* The sum of what stands at a place and behind it. */
void vjp_cumsum(struct vjp *v)
{
	struct attrs a = { 0 };
	struct node_id g = vjp_grad(v);
	attrs_int(&a, ATTR_DIM, graph_int(v->g, v->n, ATTR_DIM, 0));
	struct node_id before = build_2(v, OP_SUB, build_emit(v, OP_CUMSUM, &g, 1, &a), g);
	vjp_give(v, 0, build_2(v, OP_SUB, sum_along(v, g), before));
}

/* topk, sort: back to where the indices say. */
void vjp_pick(struct vjp *v)
{
	struct attrs a = { 0 }, second = { 0 };
	struct type t = vjp_type(v, vjp_operand(v, 0));
	attrs_int(&second, ATTR_INDEX, 1);
	attrs_int(&a, ATTR_DIM, graph_int(v->g, v->n, ATTR_DIM, 0));
	attrs_int(&a, ATTR_ACCUMULATE, 1);
	struct node_id picked = vjp_result(v), index = build_emit(v, OP_PROJ, &picked, 1, &second);
	struct node_id in[] = { build_fill(v, 0, v->wide, t.rank, t.dim), index, vjp_grad(v) };
	vjp_give(v, 0, build_emit(v, OP_SCATTER, in, 3, &a));
}
