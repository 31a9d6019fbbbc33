#include "batches.h"
#include "file_view.h"

#include <stdlib.h>
#include <string.h>

#define WINDOWS 2
static const char *const window_inputs[WINDOWS] = { "input_ids", "labels" };

/* The name of an input that batches are for; NULL: n is none. */
static const char *input_name(const struct plan *p, struct node_id n)
{
	const char *name = graph_op(p->graph, n) == OP_INPUT ? graph_string(p->graph, n, ATTR_NAME) : NULL;
	return name != NULL && strcmp(name, TRAIN_LR) != 0 ? name : NULL;
}

static struct node_id find_input(const struct plan *p, const char *name)
{
	for (uint32_t i = 1; i < p->graph->nodes.count; i++) {
		struct node_id n = { i };
		if (graph_op(p->graph, n) == OP_INPUT && strcmp(graph_string(p->graph, n, ATTR_NAME), name) == 0)
			return n;
	}
	return NODE_NONE;
}

struct node_id batches_lr(const struct plan *p)
{
	struct node_id n = find_input(p, TRAIN_LR);
	return node_is(n) && graph_type(p->graph, n)->rank == 0 ? n : NODE_NONE;
}

int64_t batches_size(const struct plan *p, const char **unit)
{
	struct node_id first = NODE_NONE;
	for (uint32_t i = p->graph->nodes.count; i-- > 1;) {
		struct node_id n = { i };
		if (input_name(p, n) == NULL)
			continue;
		bool whole = dtype_class((enum dtype)graph_type(p->graph, n)->dtype) == DC_INT;
		if (whole || !node_is(first) || dtype_class((enum dtype)graph_type(p->graph, first)->dtype) != DC_INT)
			first = n;
	}
	*unit = "rows";
	if (!node_is(first))
		return 1;
	const struct type *t = graph_type(p->graph, first);
	if (dtype_class((enum dtype)t->dtype) == DC_INT)
		*unit = "tokens";
	else if (t->rank > 0 && t->dim[t->rank - 1] > 0)
		return type_count(t) / t->dim[t->rank - 1];
	return type_count(t);
}

/* --- tensors --- */

static enum fs_status check_tensor(struct batches *b, struct node_id n, struct diag *d)
{
	const struct type *t = graph_type(b->plan->graph, n);
	const char *name = input_name(b->plan, n), *file = b->tensors.file.name;
	const struct safetensors_entry *e = safetensors_find(&b->tensors, name);
	const char *wanted = file_view_describe(dtype_text((enum dtype)t->dtype), t->dim, t->rank).s;
	if (e == NULL)
		return diag_set(d, FS_INVALID, "%s: no input '%.200s': a row a step of %s wanted", file, name, wanted);
	bool same = e->dtype == (enum dtype)t->dtype && e->rank == t->rank + 1;
	for (int k = 0; same && k < t->rank; k++)
		same = e->dims[k + 1] == t->dim[k];
	if (!same)
		return diag_set(d, FS_INVALID, "%s: '%.200s' is %s; a row a step of %s wanted", file, name,
				file_view_describe(e->dtype == DT_NONE ? e->type : dtype_text(e->dtype), e->dims, e->rank).s, wanted);
	if (b->steps != INT64_MAX && b->steps != e->dims[0])
		return diag_set(d, FS_INVALID, "%s: '%.200s' has rows for %lld steps, other inputs for %lld", file, name,
				(long long)e->dims[0], (long long)b->steps);
	b->steps = e->dims[0];
	return FS_OK;
}

static enum fs_status check_tensors(struct batches *b, struct diag *d)
{
	for (uint32_t i = 1; i < b->plan->graph->nodes.count; i++)
		if (input_name(b->plan, (struct node_id){ i }) != NULL)
			TRY(check_tensor(b, (struct node_id){ i }, d));
	for (uint32_t i = 0; i < b->tensors.count; i++) {
		const char *name = b->tensors.entries[i].name;
		if (strcmp(name, TRAIN_LR) == 0 || !node_is(find_input(b->plan, name)))
			return diag_set(d, FS_INVALID, "%s: '%.200s' is %s", b->tensors.file.name, name,
					strcmp(name, TRAIN_LR) == 0 ? "the learning rate, which --lr gives" : "no input of the plan");
	}
	return FS_OK;
}

enum fs_status batches_open(struct batches *b, const struct plan *p, const char *path, struct diag *d)
{
	*b = (struct batches){ .plan = p, .steps = INT64_MAX, .file.fd = -1 };
	TRY(safetensors_open(&b->tensors, path, d));
	enum fs_status status = check_tensors(b, d);
	if (status != FS_OK)
		batches_close(b);
	return status;
}

static enum fs_status read_tensor(const struct batches *b, const char *name, int64_t step, const struct box *box, int rank,
				  void *part, struct diag *d)
{
	int64_t start[MAX_RANK + 1] = { step }, size[MAX_RANK + 1] = { 1 };
	memcpy(start + 1, box->start, sizeof(*start) * (size_t)rank);
	memcpy(size + 1, box->size, sizeof(*size) * (size_t)rank);
	return safetensors_read_slice(&b->tensors, safetensors_find(&b->tensors, name), start, size, part, d);
}

/* --- tokens --- */

static enum fs_status check_windows(struct batches *b, struct diag *d)
{
	const struct type *t[WINDOWS];
	for (uint32_t i = 1; i < b->plan->graph->nodes.count; i++) {
		const char *name = input_name(b->plan, (struct node_id){ i });
		if (name != NULL && strcmp(name, window_inputs[0]) != 0 && strcmp(name, window_inputs[1]) != 0)
			return diag_set(d, FS_INVALID, "--tokens: a file of tokens has nothing for the plan's input '%.200s'; there are %s and %s",
					name, window_inputs[0], window_inputs[1]);
	}
	for (int k = 0; k < WINDOWS; k++) {
		struct node_id n = find_input(b->plan, window_inputs[k]);
		if (!node_is(n))
			return diag_set(d, FS_INVALID, "--tokens: the plan has no input '%s'", window_inputs[k]);
		t[k] = graph_type(b->plan->graph, n);
		if (t[k]->rank != 2 || (t[k]->dtype != DT_I64 && t[k]->dtype != DT_I32) || memcmp(t[k]->dim, t[0]->dim, 2 * sizeof(int64_t)) != 0)
			return diag_set(d, FS_INVALID, "--tokens: the plan's input '%s' is %s; i64[B,T] or i32[B,T] wanted, the same for both",
					window_inputs[k], file_view_describe(dtype_text((enum dtype)t[k]->dtype), t[k]->dim, t[k]->rank).s);
	}
	b->tokens = b->file.size / b->token_bytes;
	if (b->tokens > t[0]->dim[1])
		return FS_OK;
	return diag_set(d, FS_INVALID, "%s: %lld tokens; a window and its label take %lld", b->file.name, (long long)b->tokens,
			(long long)t[0]->dim[1] + 1);
}

enum fs_status batches_open_tokens(struct batches *b, const struct plan *p, const char *path, int token_bytes, uint64_t seed,
				   struct diag *d)
{
	*b = (struct batches){ .plan = p, .steps = INT64_MAX, .token_bytes = token_bytes, .seed = seed, .tensors.file.fd = -1 };
	TRY(file_open(&b->file, path, d));
	enum fs_status status = check_windows(b, d);
	if (status == FS_OK && b->file.size % token_bytes != 0)
		status = diag_set(d, FS_INVALID, "%s: %lld bytes are no whole number of tokens of %d", path, (long long)b->file.size, token_bytes);
	if (status != FS_OK)
		batches_close(b);
	return status;
}

/* splitmix64 (Steele, Lea, Flood 2014), its output function */
static uint64_t mixed(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static int64_t window_start(const struct batches *b, int64_t step, int64_t row, int64_t size)
{
	uint64_t starts = (uint64_t)(b->tokens - size);
	return (int64_t)(mixed(mixed(mixed(b->seed) ^ (uint64_t)step) ^ (uint64_t)row) % starts);
}

static int64_t token_at(const unsigned char *bytes, int width)
{
	int64_t token = 0;
	for (int k = 0; k < width; k++)
		token |= (int64_t)bytes[k] << 8 * k;
	return token;
}

/* Row `row` of the window's batch, its columns [start, start + size) of `whole`, as i64. */
static enum fs_status read_window(const struct batches *b, int64_t step, int64_t row, int64_t whole, int64_t start, int64_t size,
				  int64_t *to, struct diag *d)
{
	int64_t width = b->token_bytes, at = window_start(b, step, row, whole) + start;
	unsigned char *bytes = malloc((size_t)(size * width) + 1);
	if (bytes == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	enum fs_status status = file_read(&b->file, at * width, size * width, bytes, d);
	for (int64_t i = 0; i < size && status == FS_OK; i++)
		to[i] = token_at(bytes + i * width, (int)width);
	free(bytes);
	return status;
}

static enum fs_status read_windows(const struct batches *b, const char *name, const struct type *t, int64_t step,
				   const struct box *box, int64_t *part, struct diag *d)
{
	int64_t on = strcmp(name, window_inputs[1]) == 0;
	for (int64_t r = 0; r < box->size[0]; r++)
		TRY(read_window(b, step, box->start[0] + r, t->dim[1], box->start[1] + on, box->size[1], part + r * box->size[1], d));
	return FS_OK;
}

/* --- storing --- */

static enum fs_status store(const struct batches *b, struct exec *e, struct node_id n, int64_t step, struct diag *d)
{
	const struct type *t = graph_type(b->plan->graph, n);
	const char *name = input_name(b->plan, n);
	enum dtype stored = b->token_bytes != 0 ? DT_I64 : (enum dtype)t->dtype;
	struct box box;
	int64_t count = 1;
	exec_box(e, n, &box);
	for (int k = 0; k < t->rank; k++)
		count *= box.size[k];
	void *part = malloc((size_t)(count * dtype_size(stored)) + 1);
	if (part == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	enum fs_status status = b->token_bytes != 0 ? read_windows(b, name, t, step, &box, part, d)
						    : read_tensor(b, name, step, &box, t->rank, part, d);
	if (status == FS_OK)
		status = exec_store(e, n, stored, part, d);
	free(part);
	return status;
}

enum fs_status batches_store(const struct batches *b, struct exec *e, int64_t step, struct diag *d)
{
	for (uint32_t i = 1; i < b->plan->graph->nodes.count; i++)
		if (input_name(b->plan, (struct node_id){ i }) != NULL)
			TRY(store(b, e, (struct node_id){ i }, step, d));
	return FS_OK;
}

void batches_close(struct batches *b)
{
	if (b->plan == NULL)
		return;
	safetensors_close(&b->tensors);
	file_close(&b->file);
	*b = (struct batches){ 0 };
}
