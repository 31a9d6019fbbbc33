#include "params.h"

#include <stdlib.h>
#include <string.h>

#define MISSING_SHOWN 5

/* --- finding --- */

/* The name itself, then with "model." added, then without. */
static const struct weight *find_name(const struct weights *w, const char *name)
{
	char longer[1024];
	const struct weight *t = weights_find(w, name);
	if (t == NULL && strncmp(name, "model.", 6) == 0)
		t = weights_find(w, name + 6);
	if (t == NULL && (size_t)snprintf(longer, sizeof(longer), "model.%s", name) < sizeof(longer))
		t = weights_find(w, longer);
	return t;
}

static const struct weight *find_tied(const struct weights *w, const char *names)
{
	char name[1024];
	const struct weight *t = NULL;
	for (size_t size; names != NULL && *names != '\0' && t == NULL; names += size + (names[size] == ' ')) {
		size = strcspn(names, " ");
		if (size > 0 && size < sizeof(name)) {
			memcpy(name, names, size);
			name[size] = '\0';
			t = find_name(w, name);
		}
	}
	return t;
}

static const struct weight *find(const struct plan *p, const struct weights *w, struct node_id n)
{
	const struct weight *t = find_name(w, graph_string(p->graph, n, ATTR_NAME));
	return t != NULL ? t : find_tied(w, graph_string(p->graph, n, ATTR_TIED));
}

/* "f32[2,3]". */
static const char *describe(char out[160], enum dtype t, int rank, const int64_t *dims)
{
	size_t used = (size_t)snprintf(out, 160, "%s[", t == DT_NONE ? "?" : dtype_text(t));
	for (int d = 0; d < rank && used < 120; d++)
		used += (size_t)snprintf(out + used, 160 - used, "%s%lld", d > 0 ? "," : "", (long long)dims[d]);
	snprintf(out + used, 160 - used, "]");
	return out;
}

/* Of a master a file may have what the model casts it to: widened, it is the same number. */
static bool is_widened(enum dtype have, enum dtype want, bool trained)
{
	return trained && want == DT_F32 && (have == DT_BF16 || have == DT_F16);
}

static enum fs_status check(const struct plan *p, struct node_id n, const struct weight *t, bool trained, const char *origin,
			    struct diag *d)
{
	const struct type *want = graph_type(p->graph, n);
	char have_text[160], want_text[160];
	if (t->state != WEIGHT_READABLE)
		return weights_read_slice(t, NULL, NULL, NULL, d); /* which says why */
	bool same = t->rank == want->rank;
	for (int k = 0; same && k < t->rank; k++)
		same = t->dims[k] == want->dim[k];
	if (same && (t->dtype == (enum dtype)want->dtype || is_widened(t->dtype, (enum dtype)want->dtype, trained)))
		return FS_OK;
	return diag_set(d, FS_INVALID, "%s: '%.200s' is %s, the plan's parameter '%.200s' is %s%s", origin, t->name,
			describe(have_text, t->dtype, t->rank, t->dims), graph_string(p->graph, n, ATTR_NAME),
			describe(want_text, (enum dtype)want->dtype, want->rank, want->dim),
			same ? ": convert the weights to that type" : ": these are the weights of another model");
}

/* A parameter or buffer, and not one that begins as zeros. */
static bool is_needed(const struct plan *p, struct node_id n)
{
	return graph_op(p->graph, n) == OP_PARAM && !graph_int(p->graph, n, ATTR_ZERO, 0);
}

static enum fs_status say_missing(const struct plan *p, const struct params *out, uint32_t missing,
				  const char *origin, struct diag *d)
{
	char list[700];
	size_t used = 0;
	uint32_t shown = 0;
	list[0] = '\0';
	for (uint32_t i = 1; i < p->graph->nodes.count && shown < MISSING_SHOWN; i++) {
		struct node_id n = { i };
		if (!is_needed(p, n) || out->of[i] != NULL)
			continue;
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s'%.120s'", shown++ > 0 ? ", " : "",
					 graph_string(p->graph, n, ATTR_NAME));
	}
	return diag_set(d, FS_INVALID, "%s: %u parameter%s of the plan missing: %s%s", origin, missing,
			missing == 1 ? "" : "s", list, missing > shown ? " ..." : "");
}

enum fs_status params_find(const struct plan *p, const struct weights *w, const char *origin, struct params *out,
			   struct diag *d)
{
	uint32_t missing = 0;
	out->of = calloc(p->graph->nodes.count, sizeof(*out->of));
	if (out->of == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	bool *mutated = plan_mutated(p->graph);
	enum fs_status status = FS_OK;
	for (uint32_t i = 1; i < p->graph->nodes.count && status == FS_OK; i++) {
		struct node_id n = { i };
		if (graph_op(p->graph, n) != OP_PARAM)
			continue;
		out->of[i] = find(p, w, n);
		missing += out->of[i] == NULL && is_needed(p, n);
		if (out->of[i] != NULL)
			status = check(p, n, out->of[i], mutated[i], origin, d);
	}
	free(mutated);
	if (status == FS_OK && missing > 0)
		status = say_missing(p, out, missing, origin, d);
	if (status != FS_OK)
		params_release(out);
	return status;
}

void params_release(struct params *p)
{
	free(p->of);
	p->of = NULL;
}

/* --- storing --- */

/* t NULL: zeros */
static enum fs_status store(const struct weight *t, struct exec *e, const struct type *type, struct node_id n,
			    struct diag *d)
{
	enum dtype have = t != NULL ? t->dtype : (enum dtype)type->dtype;
	struct box box;
	int64_t count = 1;
	exec_box(e, n, &box);
	for (int k = 0; k < type->rank; k++)
		count *= box.size[k];
	void *part = calloc((size_t)(count * dtype_size(have)) + 1, 1);
	if (part == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	enum fs_status status = t == NULL ? FS_OK : weights_read_slice(t, box.start, box.size, part, d);
	if (status == FS_OK)
		status = exec_store(e, n, have, part, d);
	free(part);
	return status;
}

enum fs_status params_store(const struct params *p, struct exec *e, const struct plan *plan, struct diag *d)
{
	for (uint32_t i = 1; i < plan->graph->nodes.count; i++) {
		struct node_id n = { i };
		if (graph_op(plan->graph, n) == OP_PARAM)
			TRY(store(p->of[i], e, graph_type(plan->graph, n), n, d));
	}
	return FS_OK;
}
