/* VJPs of views and of data movement. */
#include "vjp.h"

#include <string.h>

/* --- views --- */

void vjp_reshape(struct vjp *v)
{
	struct type t = vjp_type(v, vjp_operand(v, 0));
	vjp_give(v, 0, build_reshape(v, v->grad, t.rank, t.dim));
}

void vjp_permute(struct vjp *v)
{
	const int64_t *dims;
	int64_t back[MAX_RANK];
	int count = graph_ints(v->g, v->n, ATTR_DIMS, &dims);
	struct attrs a = { 0 };
	for (int i = 0; i < count; i++)
		back[dims[i]] = i;
	attrs_ints(&a, ATTR_DIMS, back, count);
	vjp_give(v, 0, build_emit(v, OP_PERMUTE, &v->grad, 1, &a));
}

/* vjp_give sums over what was repeated. */
void vjp_expand(struct vjp *v)
{
	vjp_give(v, 0, vjp_grad(v));
}

static struct node_id slice(struct vjp *v, struct node_id n, int64_t dim, int64_t start, int64_t end)
{
	struct attrs a = { 0 };
	if (start == 0 && end == graph_type(v->g, n)->dim[dim])
		return n;
	attrs_int(&a, ATTR_DIM, dim);
	attrs_int(&a, ATTR_START, start);
	attrs_int(&a, ATTR_END, end);
	return build_emit(v, OP_SLICE, &n, 1, &a);
}

/* n between zeros, so that dim `dim` has `size` elements of which n's are the first at `start`. */
static struct node_id pad(struct vjp *v, struct node_id n, int64_t dim, int64_t start, int64_t size)
{
	struct type t = vjp_type(v, n);
	struct node_id in[3];
	struct attrs a = { 0 };
	int64_t own = t.dim[dim], sizes[3] = { start, own, size - start - own };
	int count = 0;
	for (int i = 0; i < 3; i++) {
		t.dim[dim] = sizes[i];
		if (sizes[i] > 0)
			in[count++] = i == 1 ? n : build_fill(v, 0, (enum dtype)t.dtype, t.rank, t.dim);
	}
	attrs_int(&a, ATTR_DIM, dim);
	return count > 1 ? build_emit(v, OP_CAT, in, count, &a) : count == 1 ? in[0] : n;
}

/* step - 1 zeros behind each element of dim `dim`: a dim is split off, for which others join where there is no room. */
static struct node_id spread(struct vjp *v, struct node_id n, int64_t dim, int64_t step)
{
	struct type t = vjp_type(v, n);
	int64_t split[MAX_RANK + 1] = { 1, t.dim[dim], 1, 1 };
	bool room = t.rank < MAX_RANK;
	if (step == 1)
		return n;
	for (int i = 0; i < t.rank; i++)
		if (room)
			split[i + (i > dim)] = t.dim[i];
		else if (i != dim)
			split[i < dim ? 0 : 3] *= t.dim[i];
	int64_t at = room ? dim + 1 : 2;
	split[at] = 1;
	n = pad(v, build_reshape(v, n, room ? t.rank + 1 : 4, split), at, 0, step);
	t.dim[dim] *= step;
	return build_reshape(v, n, t.rank, t.dim);
}

void vjp_slice(struct vjp *v)
{
	struct type t = vjp_type(v, vjp_operand(v, 0));
	int64_t dim = graph_int(v->g, v->n, ATTR_DIM, 0), start = graph_int(v->g, v->n, ATTR_START, 0);
	int64_t step = graph_int(v->g, v->n, ATTR_STEP, 1), most = t.dim[dim] - start;
	struct node_id n = spread(v, v->grad, dim, step);
	int64_t size = graph_type(v->g, n)->dim[dim];
	vjp_give(v, 0, pad(v, slice(v, n, dim, 0, size < most ? size : most), dim, start, t.dim[dim]));
}

void vjp_cat(struct vjp *v)
{
	int64_t dim = graph_int(v->g, v->n, ATTR_DIM, 0), at = 0;
	int count = graph_node(v->g, v->n)->count;
	for (int k = 0; k < count; k++) {
		int64_t size = graph_type(v->g, vjp_operand(v, k))->dim[dim];
		if (vjp_wants(v, k))
			vjp_give(v, k, slice(v, v->grad, dim, at, at + size));
		at += size;
	}
}

void vjp_triangle(struct vjp *v)
{
	struct attrs a;
	graph_attrs(v->g, v->n, &a);
	vjp_give(v, 0, build_emit(v, graph_op(v->g, v->n), &v->grad, 1, &a));
}

/* --- by index --- */

static struct node_id zeros_of(struct vjp *v, int k)
{
	struct type t = vjp_type(v, vjp_operand(v, k));
	return build_fill(v, 0, v->wide, t.rank, t.dim);
}

/* The gradient without what the padding row would get. */
static struct node_id without_padding(struct vjp *v, struct node_id grad, struct node_id ids)
{
	struct type t = vjp_type(v, ids);
	int64_t shape[MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	memcpy(shape, t.dim, sizeof(*shape) * t.rank);
	struct node_id row = build_fill(v, (double)graph_int(v->g, v->n, ATTR_PADDING, 0), (enum dtype)t.dtype, 0, NULL);
	struct node_id counts = build_reshape(v, build_2(v, OP_NE, ids, row), graph_type(v->g, grad)->rank, shape);
	return build_where(v, counts, grad, build_scalar(v, 0));
}

/* Rows of the gradient added up by id. */
void vjp_embedding(struct vjp *v)
{
	struct attrs a = { 0 };
	struct type t = vjp_type(v, vjp_operand(v, 0));
	struct node_id grad = vjp_grad(v), ids = vjp_value(v, 1);
	if (graph_has(v->g, v->n, ATTR_PADDING))
		grad = without_padding(v, grad, ids);
	attrs_ints(&a, ATTR_SHAPE, t.dim, t.rank);
	vjp_give(v, 0, build_emit(v, OP_EMBEDDING_GRAD, (struct node_id[]){ grad, ids }, 2, &a));
}

void vjp_embedding_grad(struct vjp *v)
{
	vjp_give(v, 0, build_2(v, OP_EMBEDDING, v->grad, vjp_value(v, 1)));
}

/* One element of each row, which can be found without moving any. */
static struct node_id one_hot(struct vjp *v, struct node_id index, int dim, const struct type *t)
{
	int64_t shape[MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	shape[dim] = t->dim[dim];
	struct node_id number = build_reshape(v, build_iota(v, t->dim[dim]), t->rank, shape);
	return build_where(v, build_2(v, OP_EQ, number, build_cast(v, index, DT_I64)), vjp_grad(v), build_scalar(v, 0));
}

/* index reaches over the leading part of the other dims */
static bool covers(const struct type *index, const struct type *x, int dim)
{
	for (int i = 0; i < x->rank; i++)
		if (i != dim && index->dim[i] != x->dim[i])
			return false;
	return true;
}

void vjp_gather(struct vjp *v)
{
	struct attrs a;
	struct node_id index = vjp_value(v, 1);
	struct type t = vjp_type(v, vjp_operand(v, 0)), of_index = vjp_type(v, index);
	int dim = (int)graph_int(v->g, v->n, ATTR_DIM, 0);
	if (of_index.dim[dim] == 1 && covers(&of_index, &t, dim)) {
		vjp_give(v, 0, one_hot(v, index, dim, &t));
		return;
	}
	graph_attrs(v->g, v->n, &a);
	attrs_int(&a, ATTR_ACCUMULATE, 1);
	struct node_id in[] = { zeros_of(v, 0), index, vjp_grad(v) };
	vjp_give(v, 0, build_emit(v, OP_SCATTER, in, 3, &a));
}

/* x keeps its gradient where nothing was written over it, src has it of the places where it went. */
void vjp_scatter(struct vjp *v)
{
	struct attrs a, only = { 0 };
	bool adds = graph_int(v->g, v->n, ATTR_ACCUMULATE, 0) != 0;
	struct node_id index = vjp_value(v, 1);
	graph_attrs(v->g, v->n, &a);
	attrs_int(&only, ATTR_DIM, graph_int(v->g, v->n, ATTR_DIM, 0));
	struct node_id over[] = { v->grad, index, build_fill(v, 0, (enum dtype)graph_type(v->g, v->grad)->dtype, 0, NULL) };
	if (vjp_wants(v, 0))
		vjp_give(v, 0, adds ? v->grad : build_emit(v, OP_SCATTER, over, 3, &a));
	if (vjp_wants(v, 2))
		vjp_give(v, 2, build_emit(v, OP_GATHER, (struct node_id[]){ vjp_grad(v), index }, 2, &only));
}

/* Operands with the first replaced, for the ops on indices; count of all of them but the last `drop`. */
static struct node_id with_indices(struct vjp *v, enum op op, struct node_id first, struct node_id last, const struct attrs *a)
{
	struct node_id in[MAX_RANK + 2] = { first };
	int indices = 0;
	const int64_t *dims;
	indices = graph_ints(v->g, v->n, ATTR_DIMS, &dims);
	for (int k = 1; k <= indices; k++)
		in[k] = vjp_value(v, k);
	in[indices + 1] = last;
	return build_emit(v, op, in, indices + 1 + node_is(last), a);
}

void vjp_index(struct vjp *v)
{
	struct attrs a;
	graph_attrs(v->g, v->n, &a);
	attrs_int(&a, ATTR_ACCUMULATE, 1);
	vjp_give(v, 0, with_indices(v, OP_INDEX_PUT, zeros_of(v, 0), vjp_grad(v), &a));
}

void vjp_index_put(struct vjp *v)
{
	const int64_t *dims;
	struct attrs a, only = { 0 };
	bool adds = graph_int(v->g, v->n, ATTR_ACCUMULATE, 0) != 0;
	int indices = graph_ints(v->g, v->n, ATTR_DIMS, &dims);
	graph_attrs(v->g, v->n, &a);
	attrs_ints(&only, ATTR_DIMS, dims, indices);
	struct node_id zero = build_fill(v, 0, (enum dtype)graph_type(v->g, v->grad)->dtype, 0, NULL);
	if (vjp_wants(v, 0))
		vjp_give(v, 0, adds ? v->grad : with_indices(v, OP_INDEX_PUT, v->grad, zero, &a));
	if (vjp_wants(v, indices + 1))
		vjp_give(v, indices + 1, with_indices(v, OP_INDEX, vjp_grad(v), NODE_NONE, &only));
}
