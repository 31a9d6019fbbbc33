#include "train.h"
#include "host.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of each node of a rank, in a step that is looked at: what is not finite in it. */
enum finite { FINITE, HAS_INFINITY, HAS_NAN };
struct watch {
	bool on;
	uint8_t *found; /* by node */
};

static struct node_id find_output(const struct plan *p, enum output_kind kind, const char *name)
{
	for (uint32_t i = 0; i < p->graph->outputs.count; i++) {
		const struct output *o = &p->graph->outputs.items[i];
		if (o->kind == kind && (name == NULL || strcmp(o->name, name) == 0))
			return o->value;
	}
	return NODE_NONE;
}

struct node_id train_next(const struct plan *p, struct node_id n)
{
	for (uint32_t i = 0; i < p->graph->outputs.count; i++) {
		const struct output *o = &p->graph->outputs.items[i];
		if (o->kind == OUT_BUFFER && node_same(graph_param(p->graph, o->target), n))
			return o->value;
	}
	return n;
}

enum fs_status train_check(const struct plan *p, struct diag *d)
{
	if (!node_is(find_output(p, OUT_LOSS, NULL)))
		return diag_set(d, FS_INVALID, "the plan gives no loss: compile it with --train --loss LOSS --optimizer NAME");
	for (uint32_t i = 1; i < p->graph->nodes.count; i++) {
		struct node_id n = { i };
		if (graph_op(p->graph, n) == OP_PARAM && !graph_int(p->graph, n, ATTR_BUFFER, 0) && !node_same(train_next(p, n), n))
			return FS_OK;
	}
	return diag_set(d, FS_INVALID, "the plan changes no parameter: compile it with --optimizer NAME");
}

/* --- what is not finite --- */

static bool holds_floats(const struct type *t)
{
	return dtype_class((enum dtype)t->dtype) >= DC_FP8;
}

/* What of node n is not finite here, into *found. */
static enum fs_status look(struct exec *e, struct node_id n, uint8_t *found, struct diag *d)
{
	int64_t count = view_count(exec_view(e, n));
	double *x = malloc((size_t)count * sizeof(*x) + 1);
	if (x == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	enum fs_status status = exec_load(e, n, DT_F64, x, d);
	*found = FINITE;
	for (int64_t i = 0; i < count && status == FS_OK; i++) {
		uint8_t is = isnan(x[i]) ? HAS_NAN : isinf(x[i]) ? HAS_INFINITY : FINITE;
		*found = is > *found ? is : *found;
	}
	free(x);
	return status;
}

static int rank_of(const struct plan *p, const struct exec *e)
{
	const struct mesh *m = context_mesh(p->context);
	int rank = 0;
	for (int a = 0; a < m->count; a++)
		rank = rank * m->axis[a].size + exec_coord(e)[a];
	return rank;
}

static enum fs_status look_after(void *context, struct exec *e, struct node_id n, struct diag *d)
{
	struct train *t = context;
	struct watch *w = &t->watch[rank_of(t->plan, e)];
	return w->on && holds_floats(exec_type(e, n)) ? look(e, n, &w->found[n.i], d) : FS_OK;
}

/* There before a step begins. */
static bool is_given(const struct plan *p, struct node_id n)
{
	enum memory m = (enum memory)p->storage[n.i].memory;
	return (m == MEM_INPUT || m == MEM_PARAM || m == MEM_CONST || m == MEM_STATE) && holds_floats(graph_type(p->graph, n));
}

static enum fs_status step_watched(void *context, int rank, struct diag *d)
{
	struct train *t = context;
	struct watch *w = &t->watch[rank];
	struct exec *e = t->session.execs[rank];
	w->found = calloc(t->plan->graph->nodes.count, sizeof(*w->found));
	if (w->found == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	exec_discard(e);
	for (uint32_t i = 1; i < t->plan->graph->nodes.count; i++)
		if (is_given(t->plan, (struct node_id){ i }))
			TRY(look(e, (struct node_id){ i }, &w->found[i], d));
	w->on = true;
	enum fs_status status = exec_step(e, d);
	w->on = false;
	return status;
}

/* On any rank; views have what their operand has. */
static uint8_t found_anywhere(const struct train *t, struct node_id n)
{
	uint8_t most = FINITE;
	if (op_is_view(graph_op(t->plan->graph, n)) || graph_op(t->plan->graph, n) == OP_PROJ)
		return found_anywhere(t, graph_operand(t->plan->graph, n, 0));
	for (int r = 0; r < t->session.ranks; r++)
		most = t->watch[r].found[n.i] > most ? t->watch[r].found[n.i] : most;
	return most;
}

/* meant[id]: what the program itself writes, and infinities that come of such alone, as in a mask. */
static bool *find_meant(const struct train *t)
{
	const struct graph *g = t->plan->graph;
	bool *meant = calloc(g->nodes.count, sizeof(*meant));
	for (uint32_t i = 1; i < g->nodes.count && meant != NULL; i++) {
		struct node_id n = { i };
		bool others = false;
		meant[i] = graph_op(g, n) == OP_FILL || graph_op(g, n) == OP_CONST;
		if (meant[i] || found_anywhere(t, n) != HAS_INFINITY)
			continue;
		for (int k = 0; k < graph_node(g, n)->count; k++) {
			struct node_id x = graph_operand(g, n, k);
			meant[i] |= meant[x.i];
			others |= found_anywhere(t, x) != FINITE && !meant[x.i];
		}
		meant[i] &= !others;
	}
	return meant;
}

/* From n back through what is not finite to where it began. */
static struct node_id find_origin(const struct train *t, const bool *meant, struct node_id n)
{
	const struct graph *g = t->plan->graph;
	for (;;) {
		struct node_id before = NODE_NONE;
		for (int k = 0; k < graph_node(g, n)->count; k++) {
			struct node_id x = graph_operand(g, n, k);
			if (found_anywhere(t, x) != FINITE && !meant[x.i] && (!node_is(before) || x.i < before.i))
				before = x;
		}
		if (!node_is(before))
			return n;
		n = before;
	}
}

static void describe_origin(const struct graph *g, struct node_id n, char *out, size_t size)
{
	char where[400];
	if (graph_op(g, n) == OP_PARAM || graph_op(g, n) == OP_INPUT) {
		snprintf(out, size, "%s '%.300s'", graph_op(g, n) == OP_PARAM ? "parameter" : "input", graph_string(g, n, ATTR_NAME));
		return;
	}
	node_describe(g, n, where, sizeof(where));
	snprintf(out, size, "%s of %s", op_text(graph_op(g, n)), where);
}

static enum fs_status say_not_finite(struct train *t, int64_t step, const char *what, double x, struct node_id n, struct diag *d)
{
	char where[512] = "nothing, when it was run again";
	TRY(ranks_run(t->session.ranks, t->session.ends, step_watched, t, d));
	bool *meant = find_meant(t);
	if (meant == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	if (found_anywhere(t, n) != FINITE)
		describe_origin(t->plan->graph, find_origin(t, meant, n), where, sizeof(where));
	free(meant);
	return diag_set(d, FS_INVALID, "step %lld: the %s is %s; first not finite: %s", (long long)step + 1, what,
			isnan(x) ? "nan" : x > 0 ? "inf" : "-inf", where);
}

/* --- steps --- */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct batch_step { struct train *train; int64_t step; float lr; };

static enum fs_status step_rank(void *context, int rank, struct diag *d)
{
	struct batch_step *s = context;
	struct train *t = s->train;
	struct exec *e = t->session.execs[rank];
	TRY(batches_store(t->batches, e, s->step, d));
	if (node_is(t->lr))
		TRY(exec_store(e, t->lr, DT_F32, &s->lr, d));
	return exec_step(e, d);
}

static enum fs_status load_number(const struct train *t, struct node_id n, double *out, struct diag *d)
{
	struct host_tensor x;
	*out = NAN;
	if (!node_is(n))
		return FS_OK;
	TRY(value_gather(t->session.execs, t->session.ranks, n, DT_F64, &x, d));
	*out = *(const double *)x.data;
	host_tensor_release(&x);
	return FS_OK;
}

enum fs_status train_step(struct train *t, int64_t step, double lr, struct train_result *out, struct diag *d)
{
	struct batch_step s = { t, step, (float)lr };
	double start = now();
	if (ranks_run(t->session.ranks, t->session.ends, step_rank, &s, d) != FS_OK)
		return diag_prefix(d, "step %lld", (long long)step + 1);
	TRY(load_number(t, t->loss, &out->loss, d));
	TRY(load_number(t, t->norm, &out->grad_norm, d));
	out->seconds = now() - start;
	if (!isfinite(out->loss))
		return say_not_finite(t, step, "loss", out->loss, t->loss, d);
	if (node_is(t->norm) && !isfinite(out->grad_norm))
		return say_not_finite(t, step, "norm of the gradients", out->grad_norm, t->norm, d);
	return FS_OK;
}

/* --- create --- */

enum fs_status train_create(struct train *t, const struct plan *p, const struct params *params, const struct batches *b, struct diag *d)
{
	struct session_options o = { .params = params, .exec = { .after = look_after, .context = t } };
	*t = (struct train){ .plan = p, .batches = b, .loss = find_output(p, OUT_LOSS, NULL),
			     .norm = find_output(p, OUT_USER, "grad_norm"), .lr = batches_lr(p) };
	t->watch = calloc((size_t)mesh_size(context_mesh(p->context)), sizeof(*t->watch));
	if (t->watch == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	return session_create(&t->session, p, &o, d);
}

void train_destroy(struct train *t)
{
	for (int r = 0; r < t->session.ranks; r++)
		free(t->watch[r].found);
	session_destroy(&t->session);
	free(t->watch);
	*t = (struct train){ 0 };
}
