/* What the functions of vjp_*.c emit with. */
#include "vjp.h"

#include <string.h>

bool vjp_wants(const struct vjp *v, int k)
{
	return v->wanted[vjp_operand(v, k).i];
}

struct node_id vjp_operand(const struct vjp *v, int k)
{
	return graph_operand(v->g, v->n, k);
}

struct type vjp_type(const struct vjp *v, struct node_id n)
{
	return *graph_type(v->g, n);
}

static struct node_id value_of(const struct vjp *v, struct node_id n)
{
	return v->again != NULL && v->block[n.i] == v->block[v->n.i] ? v->again[n.i] : n;
}

struct node_id vjp_value(const struct vjp *v, int k)
{
	return value_of(v, vjp_operand(v, k));
}

struct node_id vjp_result(const struct vjp *v)
{
	return value_of(v, v->n);
}

/* --- emission --- */

struct node_id build_emit(struct vjp *v, enum op op, const struct node_id *in, int count, const struct attrs *a)
{
	static const struct attrs no_attrs;
	return graph_emit(v->g, op, in, count, a != NULL ? a : &no_attrs, v->prov);
}

struct node_id build_1(struct vjp *v, enum op op, struct node_id a)
{
	return build_emit(v, op, &a, 1, NULL);
}

struct node_id build_2(struct vjp *v, enum op op, struct node_id a, struct node_id b)
{
	return build_emit(v, op, (struct node_id[]){ a, b }, 2, NULL);
}

struct node_id build_where(struct vjp *v, struct node_id cond, struct node_id a, struct node_id b)
{
	return build_emit(v, OP_WHERE, (struct node_id[]){ cond, a, b }, 3, NULL);
}

struct node_id build_fill(struct vjp *v, double x, enum dtype t, int rank, const int64_t *dim)
{
	struct attrs a = { 0 };
	attrs_float(&a, ATTR_VALUE, x);
	attrs_int(&a, ATTR_DTYPE, t);
	attrs_ints(&a, ATTR_SHAPE, dim, rank);
	return build_emit(v, OP_FILL, NULL, 0, &a);
}

struct node_id build_scalar(struct vjp *v, double x)
{
	return build_fill(v, x, v->wide, 0, NULL);
}

struct node_id build_with(struct vjp *v, enum op op, struct node_id a, double x)
{
	return build_2(v, op, a, build_scalar(v, x));
}

struct node_id build_cast(struct vjp *v, struct node_id n, enum dtype t)
{
	struct attrs a = { 0 };
	if (graph_type(v->g, n)->dtype == t)
		return n;
	attrs_int(&a, ATTR_DTYPE, t);
	return build_emit(v, OP_CAST, &n, 1, &a);
}

static struct node_id shaped(struct vjp *v, enum op op, struct node_id n, int rank, const int64_t *dim)
{
	const struct type *t = graph_type(v->g, n);
	struct attrs a = { 0 };
	if (t->rank == rank && memcmp(t->dim, dim, sizeof(*dim) * (size_t)rank) == 0)
		return n;
	attrs_ints(&a, ATTR_SHAPE, dim, rank);
	return build_emit(v, op, &n, 1, &a);
}

struct node_id build_reshape(struct vjp *v, struct node_id n, int rank, const int64_t *dim)
{
	return shaped(v, OP_RESHAPE, n, rank, dim);
}

struct node_id build_expand(struct vjp *v, struct node_id n, int rank, const int64_t *dim)
{
	return shaped(v, OP_EXPAND, n, rank, dim);
}

struct node_id build_reduce(struct vjp *v, enum op op, struct node_id n, const int64_t *dims, int count)
{
	struct attrs a = { 0 };
	if (count == 0)
		return n;
	attrs_ints(&a, ATTR_DIMS, dims, count);
	attrs_int(&a, ATTR_KEEPDIM, 1);
	return build_emit(v, op, &n, 1, &a);
}

struct node_id build_iota(struct vjp *v, int64_t count)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_START, 0);
	attrs_int(&a, ATTR_STEP, 1);
	attrs_int(&a, ATTR_DTYPE, DT_I64);
	attrs_ints(&a, ATTR_SHAPE, &count, 1);
	return build_emit(v, OP_IOTA, NULL, 0, &a);
}

struct node_id build_product(struct vjp *v, const char *a_letters, struct node_id a, const char *b_letters,
			   struct node_id b, const char *letters, enum dtype t)
{
	struct equation e;
	struct diag d = { 0 };
	struct attrs attrs = { 0 };
	char text[3 * MAX_RANK + 4];
	enum dtype in = (enum dtype)graph_type(v->g, b)->dtype;
	snprintf(text, sizeof(text), "%s,%s->%s", a_letters, b_letters, letters);
	if (equation_parse(&e, text, &d) != FS_OK)
		BUG("%s", d.text);
	equation_canonical(&e, text);
	attrs_string(&attrs, ATTR_EQ, context_intern(v->g->context, text));
	if (t != in)
		attrs_int(&attrs, ATTR_DTYPE, t);
	return build_emit(v, OP_MATMUL, (struct node_id[]){ build_cast(v, a, in), b }, 2, &attrs);
}

/* --- operands, the result, its gradient --- */

struct node_id vjp_x(struct vjp *v, int k)
{
	return build_cast(v, vjp_value(v, k), v->wide);
}

struct node_id vjp_y(struct vjp *v)
{
	return build_cast(v, vjp_result(v), v->wide);
}

struct node_id vjp_grad(struct vjp *v)
{
	return build_cast(v, v->grad, v->wide);
}

/* d as the gradient of something of type t: summed over the dims in which that was broadcast, repeated over others. */
static struct node_id fitted(struct vjp *v, struct node_id d, const struct type *t)
{
	struct type from = vjp_type(v, d);
	int64_t dims[MAX_RANK], shape[MAX_RANK];
	int count = 0, more = from.rank - t->rank;
	for (int i = 0; i < from.rank; i++)
		if (i < more || (t->dim[i - more] == 1 && from.dim[i] != 1))
			dims[count++] = i;
	for (int i = 0; i < t->rank; i++)
		shape[i] = i + more < 0 || t->dim[i] == 1 ? 1 : from.dim[i + more];
	d = build_reshape(v, build_reduce(v, OP_SUM, d, dims, count), t->rank, shape);
	return build_expand(v, d, t->rank, t->dim);
}

void vjp_give(struct vjp *v, int k, struct node_id d)
{
	struct node_id x = vjp_operand(v, k), *sum = &v->sums[x.i];
	struct type t = vjp_type(v, x);
	if (!v->wanted[x.i])
		return;
	d = build_cast(v, fitted(v, d, &t), (enum dtype)t.dtype);
	*sum = node_is(*sum) ? build_2(v, OP_ADD, *sum, d) : d;
}
