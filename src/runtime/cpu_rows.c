/* Reductions, norms, sorting and fp8 scaling on the CPU. */
#include "cpu_lowering.h"

static uint32_t dims_of(const struct instruction *i)
{
	const int64_t *dims;
	int count = graph_ints(i->graph, i->node, ATTR_DIMS, &dims);
	uint32_t mask = 0;
	for (int k = 0; k < count; k++)
		mask |= (uint32_t)1 << dims[k];
	return mask;
}

static int dim_of(const struct instruction *i)
{
	return (int)graph_int(i->graph, i->node, ATTR_DIM, 0);
}

/* Elements of the reduced dims over all ranks. */
static int64_t reduced_count(const struct instruction *i, uint32_t dims)
{
	const struct type *x = graph_type(i->graph, graph_operand(i->graph, i->node, 0));
	int64_t n = 1;
	for (int d = 0; d < x->rank; d++)
		n *= dims >> d & 1 ? x->dim[d] : 1;
	return n;
}

static const uint8_t reduce_ops[OP_COUNT] = {
	[OP_SUM] = REDUCE_SUM, [OP_MEAN] = REDUCE_MEAN, [OP_REDUCE_MAX] = REDUCE_MAX, [OP_REDUCE_MIN] = REDUCE_MIN,
	[OP_PROD] = REDUCE_PROD, [OP_ANY] = REDUCE_ANY, [OP_ALL] = REDUCE_ALL, [OP_ARGMAX] = REDUCE_ARGMAX,
	[OP_ARGMIN] = REDUCE_ARGMIN, [OP_NORM] = REDUCE_NORM,
};

static enum fs_status run_reduce(const struct instruction *i, struct diag *d)
{
	(void)d;
	uint32_t dims = dims_of(i);
	struct reduce r = {
		.op = (enum reduce_op)reduce_ops[i->op],
		.dims = dims,
		.count = reduced_count(i, dims),
		.p = graph_float(i->graph, i->node, ATTR_ORD, 2),
		.exact = i->exact,
	};
	cpu_reduce(&r, &i->in[0], &i->out);
	return FS_OK;
}

static int64_t need_softmax(const struct instruction *i)
{
	return cpu_softmax_workspace(&i->in[0], dim_of(i));
}

static enum fs_status run_softmax(const struct instruction *i, struct diag *d)
{
	(void)d;
	cpu_softmax(dim_of(i), i->op == OP_LOG_SOFTMAX, i->exact, &i->in[0], &i->out, i->workspace);
	return FS_OK;
}

static enum fs_status run_cumsum(const struct instruction *i, struct diag *d)
{
	(void)d;
	cpu_cumsum(dim_of(i), &i->in[0], &i->out);
	return FS_OK;
}

static int64_t need_sort(const struct instruction *i)
{
	return cpu_sort_workspace(&i->in[0], dim_of(i));
}

static enum fs_status sort(const struct instruction *i, bool descending)
{
	cpu_sort(dim_of(i), descending, &i->in[0], i->out.data == NULL ? NULL : &i->out,
		 i->second.data == NULL ? NULL : &i->second, i->workspace);
	return FS_OK;
}

static enum fs_status run_topk(const struct instruction *i, struct diag *d)
{
	(void)d;
	return sort(i, graph_int(i->graph, i->node, ATTR_LARGEST, 1) != 0);
}

static enum fs_status run_sort(const struct instruction *i, struct diag *d)
{
	(void)d;
	return sort(i, graph_int(i->graph, i->node, ATTR_LARGEST, 0) != 0);
}

static int norm_dims(const struct instruction *i)
{
	const int64_t *dims;
	return graph_ints(i->graph, i->node, ATTR_DIMS, &dims);
}

static int64_t need_norm(const struct instruction *i)
{
	return cpu_norm_workspace(&i->in[0], norm_dims(i));
}

static enum fs_status run_rms_norm(const struct instruction *i, struct diag *d)
{
	(void)d;
	double eps = graph_float(i->graph, i->node, ATTR_EPS, 0);
	cpu_rms_norm(&i->in[0], norm_dims(i), eps, i->exact, &i->out, i->workspace);
	return FS_OK;
}

static enum fs_status run_layer_norm(const struct instruction *i, struct diag *d)
{
	(void)d;
	double eps = graph_float(i->graph, i->node, ATTR_EPS, 0);
	cpu_layer_norm(&i->in[0], i->count > 1 ? &i->in[1] : NULL, i->count > 2 ? &i->in[2] : NULL, norm_dims(i),
		       eps, i->exact, &i->out, i->workspace);
	return FS_OK;
}

static enum fs_status run_amax(const struct instruction *i, struct diag *d)
{
	(void)d;
	cpu_amax(dims_of(i), &i->in[0], &i->out);
	return FS_OK;
}

static enum fs_status run_fp8_scale(const struct instruction *i, struct diag *d)
{
	(void)d;
	enum dtype code = (enum dtype)graph_int(i->graph, i->node, ATTR_DTYPE, DT_E4M3);
	bool pow2 = graph_int(i->graph, i->node, ATTR_POW2, 0) != 0;
	cpu_fp8_scale(&i->in[0], code, pow2, &i->out);
	return FS_OK;
}

static enum fs_status run_fp8_cast(const struct instruction *i, struct diag *d)
{
	(void)d;
	cpu_fp8_cast(&i->in[0], &i->in[1], &i->out);
	return FS_OK;
}

const struct lowering lower_reduce = { run_reduce, NULL };
const struct lowering lower_softmax = { run_softmax, need_softmax };
const struct lowering lower_cumsum = { run_cumsum, NULL };
const struct lowering lower_topk = { run_topk, need_sort };
const struct lowering lower_sort = { run_sort, need_sort };
const struct lowering lower_rms_norm = { run_rms_norm, need_norm };
const struct lowering lower_layer_norm = { run_layer_norm, need_norm };
const struct lowering lower_amax = { run_amax, NULL };
const struct lowering lower_fp8_scale = { run_fp8_scale, NULL };
const struct lowering lower_fp8_cast = { run_fp8_cast, NULL };
