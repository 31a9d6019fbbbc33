/* Ops of the JSON graph that the IR has not, or that say more than the IR's op of that name. */
#include "graph_json_impl.h"

#include <math.h>
#include <string.h>

static struct node_id emit1(struct json_node *n, enum op op, struct node_id x)
{
	return node_emit(n, op, &x, 1, NULL);
}

static struct node_id emit2(struct json_node *n, enum op op, struct node_id x, struct node_id y)
{
	return node_emit(n, op, (struct node_id[]){ x, y }, 2, NULL);
}

/* x op v, v a constant of f32 or f64. */
static struct node_id with(struct json_node *n, enum op op, struct node_id x, double v)
{
	struct attrs a = { 0 };
	attrs_float(&a, ATTR_VALUE, v);
	attrs_int(&a, ATTR_DTYPE, node_type(n, x)->dtype == DT_F64 ? DT_F64 : DT_F32);
	attrs_ints(&a, ATTR_SHAPE, (int64_t[1]){ 0 }, 0);
	return emit2(n, op, x, node_emit(n, OP_FILL, NULL, 0, &a));
}

static struct node_id cast(struct json_node *n, struct node_id x, enum dtype t)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DTYPE, t);
	return node_emit(n, OP_CAST, &x, 1, &a);
}

/* Half precision in f32, others as they are. */
static struct node_id wide(struct json_node *n, struct node_id x)
{
	return node_type(n, x)->dtype == DT_F64 ? x : cast(n, x, DT_F32);
}

/* --- products --- */

/* A leading dim of both operands is a batch, of one alone it is free; sizes of 1 do not broadcast. */
static bool leading_letters(struct json_node *n, const struct type *a, const struct type *b, char *letter[3])
{
	int in_a = a->rank > 2 ? a->rank - 2 : 0, in_b = b->rank > 2 ? b->rank - 2 : 0;
	int most = in_a > in_b ? in_a : in_b;
	for (int i = 0; i < most; i++) {
		int of_a = i - (most - in_a), of_b = i - (most - in_b);
		if (of_a >= 0 && of_b >= 0 && a->dim[of_a] != b->dim[of_b]) {
			node_fail(n, "matmul: leading dims of %lld and %lld; they must be equal (expand or reshape one)",
				  (long long)a->dim[of_a], (long long)b->dim[of_b]);
			return false;
		}
		char c = (char)('a' + i);
		if (of_a >= 0)
			*letter[0]++ = c;
		if (of_b >= 0)
			*letter[1]++ = c;
		*letter[2]++ = c;
	}
	return true;
}

/* numpy's matmul as an equation. */
static bool matmul_equation(struct json_node *n, const struct type *a, const struct type *b, struct equation *e)
{
	char *letter[3] = { e->letter[0], e->letter[1], e->letter[2] };
	if (a->rank == 0 || b->rank == 0) {
		node_fail(n, "matmul: an operand has no dims");
		return false;
	}
	if (!leading_letters(n, a, b, letter))
		return false;
	if (a->rank > 1)
		*letter[0]++ = *letter[2]++ = 'm';
	*letter[0]++ = *letter[1]++ = 'k';
	if (b->rank > 1)
		*letter[1]++ = *letter[2]++ = 'n';
	for (int v = 0; v < 3; v++)
		e->rank[v] = (int)(letter[v] - e->letter[v]);
	return true;
}

static struct node_id product(struct json_node *n, const char *eq)
{
	struct attrs a = { 0 };
	node_attrs(n, OP_MATMUL, &a);
	attrs_string(&a, ATTR_EQ, eq);
	return node_emit(n, OP_MATMUL, n->in, 2, &a);
}

static struct node_id build_matmul(struct json_node *n)
{
	struct equation e = { 0 };
	struct diag d = { 0 };
	char text[3 * MAX_RANK + 4];
	const json_t *eq = json_object_get(n->json, "eq");
	if (eq != NULL && !json_is_string(eq))
		node_fail(n, "'eq' is no string");
	else if (eq != NULL && equation_parse(&e, json_string_value(eq), &d) != FS_OK)
		node_fail(n, "%s", d.text);
	else if (eq == NULL)
		matmul_equation(n, node_type(n, n->in[0]), node_type(n, n->in[1]), &e);
	if (n->status != FS_OK)
		return NODE_NONE;
	equation_canonical(&e, text);
	return product(n, text);
}

static struct node_id build_linear(struct json_node *n)
{
	char text[3 * MAX_RANK + 4];
	const struct type *x = node_type(n, n->in[0]), *w = node_type(n, n->in[1]);
	if (x->rank < 1 || w->rank != 2) {
		node_fail(n, "linear: x has %d dims and the weight %d; x [.., K] and a weight [N, K] wanted", x->rank, w->rank);
		return NODE_NONE;
	}
	equation_linear(x->rank, true, text);
	struct node_id y = product(n, text);
	return n->count == 3 ? emit2(n, OP_ADD, y, n->in[2]) : y;
}

/* --- norms --- */

/* Over as many trailing dims as the weight has, then times the weight. */
static struct node_id build_rmsnorm(struct json_node *n)
{
	const struct type *x = node_type(n, n->in[0]), *w = node_type(n, n->in[n->count - 1]);
	int over = n->count == 2 ? w->rank : 1;
	struct attrs a = { 0 };
	int64_t dims[MAX_RANK];
	if (over < 1 || over > x->rank) {
		node_fail(n, "rmsnorm: a weight of %d dims for x of %d", w->rank, x->rank);
		return NODE_NONE;
	}
	for (int i = 0; i < over; i++)
		dims[i] = x->rank - over + i;
	node_attrs(n, OP_RMS_NORM, &a);
	if (json_object_get(n->json, "eps") == NULL)
		attrs_float(&a, ATTR_EPS, 1e-6);
	attrs_ints(&a, ATTR_DIMS, dims, over);
	struct node_id y = node_emit(n, OP_RMS_NORM, n->in, 1, &a);
	return n->count == 2 ? emit2(n, OP_MUL, y, n->in[1]) : y;
}

static struct node_id build_layernorm(struct json_node *n)
{
	return node_ir(n, OP_LAYER_NORM);
}

/* --- rotary embedding --- */

static struct node_id half_of(struct json_node *n, struct node_id x, bool upper)
{
	const struct type *t = node_type(n, x);
	int64_t size = t->dim[t->rank - 1];
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DIM, t->rank - 1);
	attrs_int(&a, ATTR_START, upper ? size / 2 : 0);
	attrs_int(&a, ATTR_END, upper ? size : size / 2);
	return node_emit(n, OP_SLICE, &x, 1, &a);
}

/* x * cos + rotate_half(x) * sin, where rotate_half(x) = cat(-upper half, lower half). */
static struct node_id build_rope(struct json_node *n)
{
	struct node_id x = n->in[0];
	const struct type *t = node_type(n, x);
	struct attrs a = { 0 };
	if (t->rank < 1 || t->dim[t->rank - 1] % 2 != 0) {
		node_fail(n, "rope: the last dim of x is not even");
		return NODE_NONE;
	}
	attrs_int(&a, ATTR_DIM, t->rank - 1);
	struct node_id half[2] = { emit1(n, OP_NEG, half_of(n, x, true)), half_of(n, x, false) };
	struct node_id turned = node_emit(n, OP_CAT, half, 2, &a);
	return emit2(n, OP_ADD, emit2(n, OP_MUL, x, n->in[1]), emit2(n, OP_MUL, turned, n->in[2]));
}

static struct node_id build_transpose(struct json_node *n)
{
	int64_t dims[MAX_RANK];
	int count;
	struct attrs a = { 0 };
	if (!node_dims(n, "perm", n->in[0], dims, &count))
		node_fail(n, "transpose: needs 'perm', the operand's dim that each dim of the result is");
	attrs_ints(&a, ATTR_DIMS, dims, count);
	return node_emit(n, OP_PERMUTE, n->in, 1, &a);
}

/* --- gradients of activations: [dy, x], inside in f32, rounded once --- */

/* dy * (Phi(x) + x * phi(x)) */
static struct node_id build_gelu_grad(struct json_node *n)
{
	struct node_id dy = wide(n, n->in[0]), x = wide(n, n->in[1]);
	struct node_id erf = emit1(n, OP_ERF, with(n, OP_MUL, x, sqrt(0.5)));
	struct node_id below = with(n, OP_MUL, with(n, OP_ADD, erf, 1), 0.5);
	struct node_id bell = emit1(n, OP_EXP, with(n, OP_MUL, emit2(n, OP_MUL, x, x), -0.5));
	struct node_id density = with(n, OP_MUL, bell, 0.3989422804014327); /* 1 / sqrt(2 pi) */
	struct node_id slope = emit2(n, OP_ADD, below, emit2(n, OP_MUL, x, density));
	return cast(n, emit2(n, OP_MUL, dy, slope), (enum dtype)node_type(n, n->in[0])->dtype);
}

/* dy * s * (1 + x * (1 - s)), s = sigmoid(x) */
static struct node_id build_silu_grad(struct json_node *n)
{
	struct node_id dy = wide(n, n->in[0]), x = wide(n, n->in[1]);
	struct node_id s = emit1(n, OP_SIGMOID, x);
	struct node_id rest = with(n, OP_ADD, emit1(n, OP_NEG, s), 1);
	struct node_id slope = emit2(n, OP_MUL, s, with(n, OP_ADD, emit2(n, OP_MUL, x, rest), 1));
	return cast(n, emit2(n, OP_MUL, dy, slope), (enum dtype)node_type(n, n->in[0])->dtype);
}

const struct json_form json_forms[] = {
	{ "matmul", 2, 2, "dtype eq role", build_matmul },
	{ "linear", 2, 3, "dtype role", build_linear },
	{ "rmsnorm", 1, 2, "eps", build_rmsnorm },
	{ "layernorm", 1, 3, "dims eps", build_layernorm },
	{ "rope", 3, 3, "", build_rope },
	{ "transpose", 1, 1, "perm", build_transpose },
	{ "gelu_grad", 2, 2, "", build_gelu_grad },
	{ "silu_grad", 2, 2, "", build_silu_grad },
};
const int json_form_count = (int)(sizeof(json_forms) / sizeof(json_forms[0]));
