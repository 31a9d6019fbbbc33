#include "host.h"

#include <stdlib.h>
#include <string.h>

/* --- inputs --- */

static const char *input_name(const struct plan *p, struct node_id n)
{
	return graph_op(p->graph, n) == OP_INPUT ? graph_string(p->graph, n, ATTR_NAME) : NULL;
}

/* "i64[1,16]". */
static void describe(char *out, size_t size, const char *dtype, int rank, const int64_t *dims)
{
	size_t used = (size_t)snprintf(out, size, "%s[", dtype);
	for (int d = 0; d < rank && used + 24 < size; d++)
		used += (size_t)snprintf(out + used, size - used, "%s%lld", d > 0 ? "," : "", (long long)dims[d]);
	snprintf(out + used, size - used, "]");
}

static enum fs_status check_input(const struct plan *p, const struct safetensors *f, struct node_id n, struct diag *d)
{
	const struct type *t = graph_type(p->graph, n);
	const char *name = input_name(p, n), *file = f == NULL ? NULL : f->file.name;
	const struct safetensors_entry *have = f == NULL ? NULL : safetensors_find(f, name);
	char want_text[160], have_text[160];
	describe(want_text, sizeof(want_text), dtype_text((enum dtype)t->dtype), t->rank, t->dim);
	if (f == NULL)
		return diag_set(d, FS_INVALID, "the plan has an input '%.200s' (%s): pass --inputs", name, want_text);
	if (have == NULL)
		return diag_set(d, FS_INVALID, "%s: no input '%.200s' (%s)", file, name, want_text);
	bool same = have->dtype == (enum dtype)t->dtype && have->rank == t->rank;
	for (int k = 0; same && k < t->rank; k++)
		same = have->dims[k] == t->dim[k];
	if (same)
		return FS_OK;
	describe(have_text, sizeof(have_text), have->dtype == DT_NONE ? have->type : dtype_text(have->dtype),
		 have->rank, have->dims);
	return diag_set(d, FS_INVALID, "%s: input '%.200s' is %s, the plan has %s", file, name, have_text, want_text);
}

static bool is_input(const struct plan *p, const char *name)
{
	for (uint32_t i = 1; i < p->graph->nodes.count; i++) {
		const char *s = input_name(p, (struct node_id){ i });
		if (s != NULL && strcmp(s, name) == 0)
			return true;
	}
	return false;
}

enum fs_status inputs_check(const struct plan *p, const struct safetensors *f, struct diag *d)
{
	for (uint32_t i = 1; i < p->graph->nodes.count; i++)
		if (input_name(p, (struct node_id){ i }) != NULL)
			TRY(check_input(p, f, (struct node_id){ i }, d));
	for (uint32_t i = 0; f != NULL && i < f->count; i++)
		if (!is_input(p, f->entries[i].name))
			return diag_set(d, FS_INVALID, "%s: the plan has no input '%.200s'", f->file.name,
					f->entries[i].name);
	return FS_OK;
}

static enum fs_status store_input(const struct safetensors *f, struct exec *e, const struct type *t, const char *name,
				  struct node_id n, struct diag *d)
{
	struct box box;
	int64_t count = 1;
	exec_box(e, n, &box);
	for (int k = 0; k < t->rank; k++)
		count *= box.size[k];
	void *part = malloc((size_t)(count * dtype_size((enum dtype)t->dtype)) + 1);
	if (part == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	enum fs_status status = safetensors_read_slice(f, safetensors_find(f, name), box.start, box.size, part, d);
	if (status == FS_OK)
		status = exec_store(e, n, (enum dtype)t->dtype, part, d);
	free(part);
	return status;
}

enum fs_status inputs_store(const struct safetensors *f, struct exec *e, const struct plan *p, struct diag *d)
{
	for (uint32_t i = 1; i < p->graph->nodes.count && f != NULL; i++) {
		struct node_id n = { i };
		if (input_name(p, n) != NULL)
			TRY(store_input(f, e, graph_type(p->graph, n), input_name(p, n), n, d));
	}
	return FS_OK;
}

/* --- values --- */

/* The box of the whole tensor. */
static struct view box_view(const struct host_tensor *t, const struct box *box)
{
	struct view v = view_of(t->data, t->dtype, t->rank, t->dim);
	bool empty = false;
	for (int d = 0; d < t->rank; d++)
		empty |= box->size[d] == 0;
	for (int d = 0; d < t->rank; d++) {
		v.data = (char *)v.data + (empty ? 0 : box->start[d]) * v.stride[d] * dtype_size(v.dtype);
		v.shape[d] = empty ? 0 : box->size[d];
	}
	return v;
}

static const enum pointwise_op combine[] = { [PART_SUM] = PW_ADD, [PART_MAX] = PW_MAXIMUM, [PART_MIN] = PW_MINIMUM };

/* How a rank's part joins what is there: over it, or (PW_ADD, ...) with it where an earlier rank was. */
static enum pointwise_op join_of(const struct placement *p, const int32_t *coord)
{
	for (int k = 0; k < p->count; k++)
		if (p->at[k].kind != PART_SHARD && coord[p->at[k].axis] != 0)
			return combine[p->at[k].kind];
	return PW_COUNT;
}

static enum fs_status add_part(struct exec *e, struct node_id n, struct host_tensor *out, struct diag *d)
{
	struct box box;
	exec_box(e, n, &box);
	struct view to = box_view(out, &box);
	int64_t bytes = view_count(&to) * dtype_size(out->dtype);
	void *part = malloc((size_t)bytes + 1);
	if (part == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	enum fs_status status = exec_load(e, n, out->dtype, part, d);
	struct view from = view_of(part, out->dtype, to.rank, to.shape);
	enum pointwise_op join = join_of(&exec_type(e, n)->place, exec_coord(e));
	struct view both[2] = { to, from };
	if (status == FS_OK && join == PW_COUNT)
		cpu_copy(&from, &to);
	else if (status == FS_OK)
		cpu_pointwise(join, 2, both, &to);
	free(part);
	return status;
}

static enum fs_status alloc_whole(const struct type *type, enum dtype t, struct host_tensor *out, struct diag *d)
{
	*out = (struct host_tensor){ .dtype = t, .rank = type->rank };
	memcpy(out->dim, type->dim, sizeof(out->dim));
	out->data = malloc((size_t)(type_count(type) * dtype_size(t)) + 1);
	return out->data == NULL ? diag_set(d, FS_NOMEM, "out of memory") : FS_OK;
}

enum fs_status value_gather(struct exec *const *ranks, int count, struct node_id n, enum dtype t,
			    struct host_tensor *out, struct diag *d)
{
	const struct type *type = exec_type(ranks[0], n);
	enum fs_status status = alloc_whole(type, t, out, d);
	for (int r = 0; r < count && status == FS_OK; r++)
		if (exec_owns(ranks[r], n))
			status = add_part(ranks[r], n, out, d);
	if (status != FS_OK)
		host_tensor_release(out);
	return status;
}

void host_tensor_release(struct host_tensor *t)
{
	free(t->data);
	t->data = NULL;
}

/* --- outputs --- */

/* An export may list one value twice, as an output and as the new value of a buffer. */
static bool is_there(const struct host_tensors *t, const char *name)
{
	for (uint32_t i = 0; i < t->count; i++)
		if (strcmp(t->at[i].name, name) == 0)
			return true;
	return false;
}

enum fs_status outputs_gather(const struct plan *p, struct exec *const *ranks, int count, struct host_tensors *out,
			      struct diag *d)
{
	uint32_t outputs = p->graph->outputs.count;
	enum fs_status status = FS_OK;
	*out = (struct host_tensors){ .at = calloc((size_t)outputs + 1, sizeof(*out->at)) };
	if (out->at == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	for (uint32_t i = 0; i < outputs && status == FS_OK; i++) {
		const struct output *o = &p->graph->outputs.items[i];
		if (o->name == NULL || is_there(out, o->name))
			continue;
		struct host_tensor *t = &out->at[out->count];
		status = value_gather(ranks, count, o->value, exec_dtype(ranks[0], o->value), t, d);
		t->name = o->name;
		out->count += status == FS_OK;
	}
	if (status != FS_OK)
		host_tensors_release(out);
	return status;
}

enum fs_status outputs_write(const struct host_tensors *t, const char *path, struct diag *d)
{
	struct safetensors_item *items = calloc((size_t)t->count + 1, sizeof(*items));
	if (items == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	for (uint32_t i = 0; i < t->count; i++)
		items[i] = (struct safetensors_item){
			.name = t->at[i].name, .dtype = t->at[i].dtype, .rank = t->at[i].rank,
			.dims = t->at[i].dim, .data = t->at[i].data,
		};
	enum fs_status status = safetensors_write(path, items, t->count, NULL, 0, d);
	free(items);
	return status;
}

void host_tensors_release(struct host_tensors *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		host_tensor_release(&t->at[i]);
	free(t->at);
	*t = (struct host_tensors){ 0 };
}
