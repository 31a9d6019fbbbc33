/* The executor: create, store, run.  See exec.h. */
#include "exec_internal.h"

#include <stdlib.h>
#include <string.h>

/* --- create --- */

static enum fs_status alloc_tables(struct exec *e, struct diag *d)
{
	e->views = calloc(e->nodes, sizeof(*e->views));
	e->base = calloc(e->nodes, sizeof(*e->base));
	e->second = calloc(e->nodes, sizeof(*e->second));
	return e->views != NULL && e->base != NULL && e->second != NULL ? FS_OK : exec_nomem(d);
}

static enum fs_status join_world(struct exec *e, struct diag *d)
{
	int64_t want = mesh_size(e->mesh), have = e->o.world == NULL ? 1 : e->o.world->size;
	if (want != have)
		return diag_set(d, FS_INVALID, "the plan's mesh has %lld ranks, the world %lld", (long long)want,
				(long long)have);
	mesh_coords(e->mesh, e->o.world == NULL ? 0 : e->o.world->rank, e->coord);
	return FS_OK;
}

/* Constants are values of the plan: there from the start. */
static enum fs_status store_constant(struct exec *e, struct node_id n, struct diag *d)
{
	const struct tensor *t = graph_tensor(e->graph, n);
	struct view whole = view_of((void *)(uintptr_t)t->data, (enum dtype)t->dtype, t->rank, t->dim);
	struct view local = e->views[n.i], part = whole;
	struct box box;
	exec_box(e, n, &box);
	for (int d0 = 0; d0 < whole.rank; d0++)
		part = exec_part(&part, d0, box.size[d0] == 0 ? 0 : box.start[d0], box.size[d0]);
	int64_t bytes = view_count(&local) * dtype_size(local.dtype);
	void *dense = malloc((size_t)bytes + 1);
	if (dense == NULL)
		return exec_nomem(d);
	struct view packed = view_of(dense, local.dtype, local.rank, local.shape);
	cpu_copy(&part, &packed);
	enum fs_status status = e->ops->upload(e->backend, local.data, dense, bytes, d);
	free(dense);
	return status;
}

static enum fs_status store_constants(struct exec *e, struct diag *d)
{
	for (uint32_t i = 1; i < e->nodes; i++)
		if (graph_op(e->graph, (struct node_id){ i }) == OP_CONST && e->views[i].data != NULL)
			TRY(store_constant(e, (struct node_id){ i }, d));
	return FS_OK;
}

static enum fs_status add_update(struct exec *e, const struct output *o, struct diag *d)
{
	struct buffer_update u = { o->value, graph_param(e->graph, o->target) };
	if (!node_is(u.buffer))
		return FS_OK; /* nobody reads it */
	const struct view *from = &e->views[u.value.i], *to = &e->views[u.buffer.i];
	struct placement a = graph_type(e->graph, u.value)->place, b = graph_type(e->graph, u.buffer)->place;
	if (from->rank != to->rank || memcmp(from->shape, to->shape, sizeof(to->shape[0]) * (size_t)to->rank) != 0 ||
	    !placement_equal(&a, &b))
		return diag_set(d, FS_UNSUPPORTED, "buffer '%s': its new value has another shape or placement",
				o->target);
	return exec_push(&e->updates, u) ? FS_OK : exec_nomem(d);
}

static enum fs_status find_updates(struct exec *e, struct diag *d)
{
	for (uint32_t i = 0; i < e->graph->outputs.count; i++)
		if (e->graph->outputs.items[i].kind == OUT_BUFFER)
			TRY(add_update(e, &e->graph->outputs.items[i], d));
	return FS_OK;
}

static enum fs_status init(struct exec *e, const struct plan *p, const struct exec_options *o, struct diag *d)
{
	e->plan = p;
	e->graph = p->graph;
	e->mesh = context_mesh(p->context);
	e->o = *o;
	e->ops = o->backend != NULL ? o->backend : &cpu_backend;
	e->nodes = p->graph->nodes.count;
	BUG_ON(o->numerics != EXEC_PLAN && !o->keep);
	TRY(join_world(e, d));
	TRY(e->ops->create(&e->backend, o->world == NULL ? 0 : o->world->rank, d));
	TRY(alloc_tables(e, d));
	TRY(exec_place_values(e, d));
	TRY(store_constants(e, d));
	TRY(find_updates(e, d));
	return exec_build(e, d);
}

enum fs_status exec_create(const struct plan *p, const struct exec_options *o, struct exec **out, struct diag *d)
{
	struct exec *e = calloc(1, sizeof(*e));
	*out = NULL;
	if (e == NULL)
		return exec_nomem(d);
	enum fs_status status = init(e, p, o, d);
	if (status == FS_OK)
		*out = e;
	else
		exec_destroy(e);
	return status;
}

static void release_lists(struct exec *e)
{
	for (uint32_t i = 0; i < e->work.count; i++)
		transfer_destroy(e->work.items[i].transfer);
	for (uint32_t i = 0; i < e->lists.count; i++)
		free(e->lists.items[i]);
	for (uint32_t i = 0; i < e->comms.count; i++)
		comm_destroy(e->comms.items[i].comm);
	vec_release(&e->work);
	vec_release(&e->lists);
	vec_release(&e->comms);
	vec_release(&e->updates);
}

void exec_destroy(struct exec *e)
{
	if (e == NULL)
		return;
	release_lists(e);
	for (uint32_t i = 0; i < e->extras.count; i++)
		e->ops->release(e->backend, e->extras.items[i]);
	vec_release(&e->extras);
	for (int r = 0; r < REGION_COUNT; r++)
		if (e->memory[r] != NULL)
			e->ops->release(e->backend, e->memory[r]);
	if (e->backend != NULL)
		e->ops->destroy(e->backend);
	free(e->views);
	free(e->base);
	free(e->second);
	free(e);
}

int64_t exec_memory(const struct exec *e)
{
	int64_t total = 0;
	for (int r = 0; r < REGION_COUNT; r++)
		total += e->bytes[r];
	return total;
}

/* --- values --- */

void exec_box(const struct exec *e, struct node_id n, struct box *out)
{
	const struct type *t = graph_type(e->graph, n);
	for (int d = 0; d < t->rank; d++) {
		struct extent x = placement_extent(&t->place, e->mesh, d, t->dim[d], e->coord);
		out->start[d] = x.start;
		out->size[d] = x.size;
	}
}

bool exec_owns(const struct exec *e, struct node_id n)
{
	const struct placement *p = &graph_type(e->graph, n)->place;
	for (int a = 0; a < e->mesh->count; a++)
		if (placement_find(p, a) < 0 && e->coord[a] != 0)
			return false;
	return true;
}

enum dtype exec_dtype(const struct exec *e, struct node_id n)
{
	return e->views[n.i].dtype;
}

const struct view *exec_view(const struct exec *e, struct node_id n)
{
	return &e->views[n.i];
}

const struct type *exec_type(const struct exec *e, struct node_id n)
{
	return graph_type(e->graph, n);
}

const int32_t *exec_coord(const struct exec *e)
{
	return e->coord;
}

enum fs_status exec_store(struct exec *e, struct node_id n, enum dtype t, const void *from, struct diag *d)
{
	const struct view *v = &e->views[n.i];
	int64_t bytes = view_count(v) * dtype_size(v->dtype);
	if (t == v->dtype)
		return e->ops->upload(e->backend, v->data, from, bytes, d);
	struct view given = view_of((void *)(uintptr_t)from, t, v->rank, v->shape);
	void *converted = malloc((size_t)bytes + 1);
	if (converted == NULL)
		return exec_nomem(d);
	struct view to = view_of(converted, v->dtype, v->rank, v->shape);
	cpu_copy(&given, &to);
	enum fs_status status = e->ops->upload(e->backend, v->data, converted, bytes, d);
	free(converted);
	return status;
}

/* Dense in the backend's memory, then across. */
static enum fs_status load_packed(struct exec *e, const struct view *v, void *to, struct diag *d)
{
	void *packed;
	int64_t bytes = view_count(v) * dtype_size(v->dtype);
	if (exec_is_dense(v))
		return e->ops->download(e->backend, to, v->data, bytes, d);
	TRY(e->ops->alloc(e->backend, bytes, &packed, d));
	struct view dense = view_of(packed, v->dtype, v->rank, v->shape);
	enum fs_status status = e->ops->copy(e->backend, v, &dense, d);
	if (status == FS_OK)
		status = e->ops->download(e->backend, to, packed, bytes, d);
	e->ops->release(e->backend, packed);
	return status;
}

enum fs_status exec_load(struct exec *e, struct node_id n, enum dtype t, void *to, struct diag *d)
{
	const struct view *v = &e->views[n.i];
	TRY(e->ops->finish(e->backend, d));
	if (t == v->dtype)
		return load_packed(e, v, to, d);
	void *stored = malloc((size_t)(view_count(v) * dtype_size(v->dtype)) + 1);
	if (stored == NULL)
		return exec_nomem(d);
	enum fs_status status = load_packed(e, v, stored, d);
	struct view from = view_of(stored, v->dtype, v->rank, v->shape), out = view_of(to, t, v->rank, v->shape);
	if (status == FS_OK)
		cpu_copy(&from, &out);
	free(stored);
	return status;
}

/* --- running --- */

static enum fs_status fail_at(const struct exec *e, struct node_id n, struct diag *d)
{
	char node[256];
	node_describe(e->graph, n, node, sizeof(node));
	return d->status == FS_PEER ? FS_PEER : diag_prefix(d, "%s", node);
}

static enum fs_status run_work(struct exec *e, uint32_t first, uint32_t end, struct diag *d)
{
	for (uint32_t i = first; i < end; i++) {
		struct work *w = &e->work.items[i];
		enum fs_status status = w->transfer != NULL ? transfer_run(e, w->transfer, d)
							     : e->ops->run(e->backend, &w->run, d);
		if (status == FS_OK && w->last && e->o.after != NULL)
			status = e->o.after(e->o.context, e, w->node, d);
		if (status != FS_OK)
			return fail_at(e, w->node, d);
	}
	return FS_OK;
}

/* Before a step, so that the last one's outputs stay: they may lie in the buffers. */
static enum fs_status update_buffers(struct exec *e, struct diag *d)
{
	for (uint32_t i = 0; e->stepped && i < e->updates.count; i++) {
		const struct view *from = &e->views[e->updates.items[i].value.i];
		const struct view *to = &e->views[e->updates.items[i].buffer.i];
		if (from->data != to->data)
			TRY(e->ops->copy(e->backend, from, to, d));
	}
	e->stepped = false;
	return FS_OK;
}

static uint64_t all_bytes_sent(const struct exec *e)
{
	uint64_t total = 0;
	for (uint32_t i = 0; i < e->comms.count; i++)
		total += e->comms.items[i].comm->bytes_sent;
	return total;
}

uint64_t exec_bytes_sent(const struct exec *e)
{
	return all_bytes_sent(e) - e->setup_bytes_sent;
}

enum fs_status exec_setup(struct exec *e, struct diag *d)
{
	TRY(run_work(e, 0, e->setup_count, d));
	e->setup_bytes_sent = all_bytes_sent(e);
	return FS_OK;
}

enum fs_status exec_step(struct exec *e, struct diag *d)
{
	TRY(update_buffers(e, d));
	TRY(run_work(e, e->setup_count, e->work.count, d));
	e->stepped = true;
	return e->ops->finish(e->backend, d);
}

void exec_discard(struct exec *e)
{
	e->stepped = false;
}

/* --- one rank --- */

/* The nodes as they stand, in a context whose axes have size 1. */
static void copy_graph(const struct graph *from, struct graph *to)
{
	for (uint32_t i = 1; i < from->nodes.count; i++) {
		struct node_id n = { i };
		const struct node *node = graph_node(from, n);
		struct attrs attrs;
		graph_attrs(from, n, &attrs);
		struct prov_id prov = context_prov(to->context, graph_prov(from, n));
		graph_append(to, graph_op(from, n), &from->operands.items[node->first], node->count, &attrs,
			     graph_type(from, n), prov);
	}
	for (uint32_t i = 0; i < from->outputs.count; i++) {
		struct output o = from->outputs.items[i];
		o.name = o.name == NULL ? NULL : context_intern(to->context, o.name);
		o.target = o.target == NULL ? NULL : context_intern(to->context, o.target);
		graph_output(to, &o);
	}
}

enum fs_status plan_on_one_rank(const struct plan *p, struct plan **out, struct diag *d)
{
	struct mesh mesh = *context_mesh(p->context);
	struct plan *one = calloc(1, sizeof(*one));
	size_t bytes = sizeof(*p->storage) * p->graph->nodes.count;
	struct storage *storage = malloc(bytes);
	*out = NULL;
	if (one == NULL || storage == NULL) {
		free(one);
		free(storage);
		return exec_nomem(d);
	}
	memcpy(storage, p->storage, bytes);
	for (int a = 0; a < mesh.count; a++)
		mesh.axis[a].size = 1;
	one->context = context_create(&mesh);
	one->graph = graph_create(one->context, p->graph->stage);
	one->storage = storage;
	one->exact = p->exact;
	one->hash = p->hash;
	copy_graph(p->graph, one->graph);
	*out = one;
	return FS_OK;
}
