/* Data movement and pointwise ops on the CPU. */
#include "cpu_lowering.h"

static struct scalar scalar_of(double value, enum dtype t)
{
	bool is_float = dtype_class(t) == DC_FLOAT || dtype_class(t) == DC_FP8;
	return (struct scalar){ .is_float = is_float, .f = value, .i = is_float ? 0 : (int64_t)value };
}

static enum fs_status run_fill(const struct instruction *i, struct diag *d)
{
	(void)d;
	cpu_fill(scalar_of(graph_float(i->graph, i->node, ATTR_VALUE, 0), i->out.dtype), &i->out);
	return FS_OK;
}

static enum fs_status run_iota(const struct instruction *i, struct diag *d)
{
	(void)d;
	int64_t step = graph_int(i->graph, i->node, ATTR_STEP, 1);
	int64_t first = graph_int(i->graph, i->node, ATTR_START, 0);
	first = (int64_t)((uint64_t)first + (uint64_t)instruction_start(i, -1, 0) * (uint64_t)step);
	struct scalar start = { .is_float = false, .i = first }, by = { .is_float = false, .i = step };
	cpu_iota(start, by, &i->out);
	return FS_OK;
}

static enum fs_status run_copy(const struct instruction *i, struct diag *d)
{
	(void)d;
	cpu_copy(&i->in[0], &i->out);
	return FS_OK;
}

static enum fs_status run_pointwise(const struct instruction *i, struct diag *d)
{
	(void)d;
	enum pointwise_op op = pointwise_from_text(op_text(i->op));
	BUG_ON(op == PW_COUNT);
	cpu_pointwise(op, i->count, i->in, &i->out);
	return FS_OK;
}

/* [start, start + size) of a dim. */
static struct view view_part(const struct view *v, int dim, int64_t start, int64_t size)
{
	struct view part = *v;
	part.data = (char *)v->data + start * v->stride[dim] * dtype_size(v->dtype);
	part.shape[dim] = size;
	return part;
}

static enum fs_status run_cat(const struct instruction *i, struct diag *d)
{
	(void)d;
	int dim = (int)graph_int(i->graph, i->node, ATTR_DIM, 0);
	int64_t at = 0;
	for (int k = 0; k < i->count; k++) {
		struct view part = view_part(&i->out, dim, at, i->in[k].shape[dim]);
		cpu_copy(&i->in[k], &part);
		at += i->in[k].shape[dim];
	}
	return FS_OK;
}

static enum fs_status run_embedding(const struct instruction *i, struct diag *d)
{
	int64_t rows = graph_type(i->graph, graph_operand(i->graph, i->node, 0))->dim[0];
	return cpu_embedding(&i->in[0], &i->in[1], instruction_start(i, 0, 0), rows, &i->out, d);
}

static enum fs_status run_embedding_grad(const struct instruction *i, struct diag *d)
{
	int64_t rows = graph_type(i->graph, i->node)->dim[0];
	return cpu_embedding_grad(&i->in[0], &i->in[1], instruction_start(i, -1, 0), rows, &i->out, d);
}

static enum fs_status run_gather(const struct instruction *i, struct diag *d)
{
	return cpu_gather((int)graph_int(i->graph, i->node, ATTR_DIM, 0), &i->in[0], &i->in[1], &i->out, d);
}

static enum fs_status run_scatter(const struct instruction *i, struct diag *d)
{
	int dim = (int)graph_int(i->graph, i->node, ATTR_DIM, 0);
	bool add = graph_int(i->graph, i->node, ATTR_ACCUMULATE, 0) != 0;
	cpu_copy(&i->in[0], &i->out);
	return cpu_scatter(dim, &i->in[1], &i->in[2], add, &i->out, d);
}

/* Operands 1, 2, ... as indices of the dims that ATTR_DIMS names. */
static struct indices indices_of(const struct instruction *i)
{
	const int64_t *dims;
	int count = graph_ints(i->graph, i->node, ATTR_DIMS, &dims);
	struct indices ix = { .count = 0 };
	for (int k = 0; k < count; k++) {
		ix.at[dims[k]] = i->in[1 + k];
		if (ix.count <= dims[k])
			ix.count = (int)dims[k] + 1;
	}
	return ix;
}

static enum fs_status run_index(const struct instruction *i, struct diag *d)
{
	struct indices ix = indices_of(i);
	return cpu_index(&i->in[0], &ix, &i->out, d);
}

static enum fs_status run_index_put(const struct instruction *i, struct diag *d)
{
	struct indices ix = indices_of(i);
	bool add = graph_int(i->graph, i->node, ATTR_ACCUMULATE, 0) != 0;
	cpu_copy(&i->in[0], &i->out);
	return cpu_index_put(&ix, &i->in[i->count - 1], add, &i->out, d);
}

static enum fs_status run_triangle(const struct instruction *i, struct diag *d)
{
	(void)d;
	cpu_tri(i->op == OP_TRIU, graph_int(i->graph, i->node, ATTR_DIAGONAL, 0), &i->in[0], &i->out);
	return FS_OK;
}

const struct lowering lower_fill = { run_fill, NULL };
const struct lowering lower_iota = { run_iota, NULL };
const struct lowering lower_copy = { run_copy, NULL };
const struct lowering lower_pointwise = { run_pointwise, NULL };
const struct lowering lower_cat = { run_cat, NULL };
const struct lowering lower_embedding = { run_embedding, NULL };
const struct lowering lower_embedding_grad = { run_embedding_grad, NULL };
const struct lowering lower_gather = { run_gather, NULL };
const struct lowering lower_scatter = { run_scatter, NULL };
const struct lowering lower_index = { run_index, NULL };
const struct lowering lower_index_put = { run_index_put, NULL };
const struct lowering lower_triangle = { run_triangle, NULL };
