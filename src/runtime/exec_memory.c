/* Where the values of a rank lie: local shapes, regions of memory, views resolved to strides. */
#include "exec_internal.h"

#include <stdlib.h>
#include <string.h>

enum fs_status exec_nomem(struct diag *d)
{
	return diag_set(d, FS_NOMEM, "out of memory");
}

bool exec_reserve(void **items, uint32_t *room, uint32_t need, size_t size)
{
	if (need <= *room)
		return true;
	uint32_t wanted = *room < 16 ? 16 : *room * 2;
	void *more = realloc(*items, (size_t)wanted * size);
	if (more == NULL)
		return false;
	*items = more;
	*room = wanted;
	return true;
}

enum fs_status exec_alloc(struct exec *e, enum region r, int64_t bytes, struct diag *d)
{
	void *memory;
	e->bytes[r] = bytes < 64 ? 64 : bytes; /* so that pointers to empty values are pointers */
	TRY(e->ops->alloc(e->backend, e->bytes[r], &memory, d));
	e->memory[r] = memory;
	return FS_OK;
}

enum fs_status exec_extra(struct exec *e, enum dtype t, int rank, const int64_t *shape, struct view *out,
			  struct diag *d)
{
	void *memory;
	*out = view_of(NULL, t, rank, shape);
	int64_t bytes = view_count(out) * dtype_size(t);
	TRY(e->ops->alloc(e->backend, bytes < 64 ? 64 : bytes, &memory, d));
	out->data = memory;
	if (exec_push(&e->extras, memory))
		return FS_OK;
	e->ops->release(e->backend, memory);
	return exec_nomem(d);
}

struct view exec_part(const struct view *v, int dim, int64_t start, int64_t size)
{
	struct view part = *v;
	part.data = (char *)v->data + start * v->stride[dim] * dtype_size(v->dtype);
	part.shape[dim] = size;
	return part;
}

bool exec_is_dense(const struct view *v)
{
	int64_t stride = 1;
	for (int d = v->rank - 1; d >= 0; d--) {
		if (v->shape[d] == 0)
			return true;
		if (v->shape[d] != 1 && v->stride[d] != stride)
			return false;
		stride *= v->shape[d];
	}
	return true;
}

/* --- view ops --- */

static struct extent extent_of(const struct exec *e, struct node_id n, int dim)
{
	const struct type *t = graph_type(e->graph, n);
	return placement_extent(&t->place, e->mesh, dim, t->dim[dim], e->coord);
}

static void step_slice(const struct exec *e, struct node_id n, const struct view *in, struct view *out)
{
	int dim = (int)graph_int(e->graph, n, ATTR_DIM, 0);
	int64_t start = graph_int(e->graph, n, ATTR_START, 0), step = graph_int(e->graph, n, ATTR_STEP, 1);
	int64_t size = extent_of(e, n, dim).size;
	if (size == in->shape[dim] && step == 1)
		return; /* whole, and so it may be sharded */
	*out = exec_part(in, dim, size == 0 ? 0 : start, size);
	out->stride[dim] *= step;
}

static void step_shard(const struct exec *e, struct node_id n, const struct view *in, struct view *out)
{
	int dim = (int)graph_int(e->graph, n, ATTR_DIM, 0);
	struct extent from = extent_of(e, graph_operand(e->graph, n, 0), dim), to = extent_of(e, n, dim);
	*out = exec_part(in, dim, to.size == 0 ? 0 : to.start - from.start, to.size);
}

static void step_permute(const struct exec *e, struct node_id n, const struct view *in, struct view *out)
{
	const int64_t *dims;
	int rank = graph_ints(e->graph, n, ATTR_DIMS, &dims);
	for (int d = 0; d < rank; d++) {
		out->shape[d] = in->shape[dims[d]];
		out->stride[d] = in->stride[dims[d]];
	}
}

static void step_expand(const struct exec *e, struct node_id n, const struct view *in, struct view *out)
{
	const struct type *from = graph_type(e->graph, graph_operand(e->graph, n, 0));
	const struct type *to = graph_type(e->graph, n);
	for (int d = 0; d < in->rank; d++) {
		if (from->dim[d] == to->dim[d])
			continue;
		out->shape[d] = extent_of(e, n, d).size;
		out->stride[d] = 0;
	}
}

/* Dense operands take any shape; others are looked at as the result where they are that already. */
static bool step_reshape(const struct exec *e, struct node_id n, const struct view *in, struct view *out)
{
	int64_t shape[MAX_RANK];
	const struct type *t = graph_type(e->graph, n);
	if (!exec_is_dense(in))
		return false;
	type_local_shape(t, e->mesh, e->coord, shape);
	*out = view_of(in->data, in->dtype, t->rank, shape);
	return true;
}

bool exec_view_step(const struct exec *e, struct node_id n, const struct view *in, struct view *out)
{
	*out = *in;
	switch (graph_op(e->graph, n)) {
	case OP_BARRIER: return true;
	case OP_RESHAPE: return step_reshape(e, n, in, out);
	case OP_PERMUTE: step_permute(e, n, in, out); return true;
	case OP_EXPAND: step_expand(e, n, in, out); return true;
	case OP_SLICE: step_slice(e, n, in, out); return true;
	case OP_SHARD: step_shard(e, n, in, out); return true;
	default: BUG("%s is no view", op_text(graph_op(e->graph, n)));
	}
}

/* --- values --- */

static const struct storage *storage_of(const struct exec *e, struct node_id n)
{
	return &e->plan->storage[n.i];
}

static enum dtype dtype_of(const struct exec *e, struct node_id n)
{
	if (e->o.numerics != EXEC_PLAN)
		return exec_high_dtype(e, n);
	return (enum dtype)graph_type(e->graph, n)->dtype;
}

/* A dense view without memory yet. */
static struct view shape_of(const struct exec *e, struct node_id n)
{
	int64_t shape[MAX_RANK];
	const struct type *t = graph_type(e->graph, n);
	type_local_shape(t, e->mesh, e->coord, shape);
	return view_of(NULL, dtype_of(e, n), t->rank, shape);
}

/* The view of n in the memory of the value that its operand's memory belongs to. */
static bool resolve(const struct exec *e, struct node_id n, struct node_id base, struct view *out)
{
	struct strided s;
	if (!view_resolve(e->graph, n, base, e->coord, &s))
		return false;
	const struct view *v = &e->views[base.i];
	*out = shape_of(e, n);
	out->data = (char *)v->data + s.offset * dtype_size(v->dtype);
	memcpy(out->stride, s.stride, sizeof(s.stride[0]) * (size_t)out->rank);
	return true;
}

static enum fs_status place_view(struct exec *e, struct node_id n, struct diag *d)
{
	struct node_id base = storage_of(e, n)->base;
	if (!resolve(e, n, base, &e->views[n.i]))
		return diag_set(d, FS_INVALID, "no strides can say this view");
	e->base[n.i] = base;
	return FS_OK;
}

static const enum region region_of[] = {
	[MEM_NONE] = REGION_OWN, [MEM_INPUT] = REGION_OWN, [MEM_CONST] = REGION_OWN, [MEM_VIEW] = REGION_OWN,
	[MEM_PARAM] = REGION_PARAM, [MEM_STATE] = REGION_STATE, [MEM_ARENA] = REGION_ARENA,
};

static int64_t local_bytes(const struct exec *e, struct node_id n)
{
	return (type_local_count(graph_type(e->graph, n), e->mesh, e->coord) * dtype_size(dtype_of(e, n)) + 63) &
	       ~(int64_t)63;
}

/* True where the plan gives this value no place, or `keep` wants another one. */
static bool wants_own(const struct exec *e, struct node_id n)
{
	uint8_t m = storage_of(e, n)->memory;
	return m == MEM_INPUT || m == MEM_CONST || (e->o.keep && m != MEM_NONE);
}

/* In a `keep` run, views are resolved anew: shapes differ on one rank. */
static bool is_kept_view(const struct exec *e, struct node_id n)
{
	enum op op = graph_op(e->graph, n);
	return e->o.keep && (op_is_view(op) || op == OP_SHARD);
}

/* The memory of values that need their own, views that turn out to need some included. */
static enum fs_status place_own(struct exec *e, struct diag *d)
{
	int64_t total = 0, *offset = calloc(e->nodes, sizeof(*offset));
	if (offset == NULL)
		return exec_nomem(d);
	for (uint32_t i = 1; i < e->nodes; i++) {
		struct node_id n = { i };
		offset[i] = total;
		if (wants_own(e, n) && !add_size(total, local_bytes(e, n), &total))
			total = INT64_MAX;
	}
	enum fs_status status = exec_alloc(e, REGION_OWN, total, d);
	for (uint32_t i = 1; i < e->nodes && status == FS_OK; i++)
		e->views[i].data = e->memory[REGION_OWN] + offset[i];
	free(offset);
	return status;
}

static void place_kept_view(struct exec *e, struct node_id n)
{
	struct node_id base = e->base[graph_operand(e->graph, n, 0).i];
	struct view v;
	if (!resolve(e, n, base, &v))
		return; /* a copy, in the memory that it has */
	e->views[n.i] = v;
	e->base[n.i] = base;
}

/* Of the plan's memory; values without any point somewhere, but nobody reads or writes there. */
static void *planned_memory(const struct exec *e, struct node_id n)
{
	const struct storage *s = storage_of(e, n);
	if (s->memory == MEM_NONE)
		return view_count(&e->views[n.i]) == 0 ? e->memory[REGION_OWN] : NULL;
	return e->memory[region_of[s->memory]] + s->offset;
}

static enum fs_status place_value(struct exec *e, struct node_id n, struct diag *d)
{
	void *own = e->views[n.i].data;
	e->views[n.i] = shape_of(e, n);
	e->base[n.i] = n;
	if (storage_of(e, n)->memory == MEM_VIEW && !e->o.keep)
		return place_view(e, n, d);
	e->views[n.i].data = wants_own(e, n) ? own : planned_memory(e, n);
	if (is_kept_view(e, n))
		place_kept_view(e, n);
	return FS_OK;
}

static enum fs_status alloc_regions(struct exec *e, struct diag *d)
{
	bool keep = e->o.keep;
	TRY(exec_alloc(e, REGION_PARAM, keep ? 0 : e->plan->param_bytes, d));
	TRY(exec_alloc(e, REGION_STATE, keep ? 0 : e->plan->state_bytes, d));
	TRY(exec_alloc(e, REGION_ARENA, keep ? 0 : e->plan->arena_bytes, d));
	return place_own(e, d);
}

enum fs_status exec_place_values(struct exec *e, struct diag *d)
{
	for (uint32_t i = 1; i < e->nodes; i++) /* dtypes of high-precision runs follow from those before */
		e->views[i].dtype = dtype_of(e, (struct node_id){ i });
	TRY(alloc_regions(e, d));
	for (uint32_t i = 1; i < e->nodes; i++) {
		struct node_id n = { i };
		TRY(place_value(e, n, d));
		if (graph_op(e->graph, n) == OP_PROJ)
			e->second[graph_operand(e->graph, n, 0).i] = n;
	}
	return FS_OK;
}
