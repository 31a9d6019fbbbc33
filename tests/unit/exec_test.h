/* Programs in text form, sharded over thread ranks, for the tests of the executor. */
#ifndef EXEC_TEST_H
#define EXEC_TEST_H

#include "exec.h"
#include "host.h"
#include "lower.h"
#include "ranks.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- running a text --- */

struct given { const char *name; const float *data; };
#define MAX_GIVEN 8
struct program {
	const char *text;
	struct given given[MAX_GIVEN];
};

static inline struct plan *plan_of(const char *text)
{
	struct diag d = { 0 };
	struct context *c;
	struct graph *g;
	struct plan *p = NULL;
	struct lower_options o = { 0 };
	enum fs_status status = graph_parse(text, strlen(text), "test", &c, &g, &d);
	ck_assert_msg(status == FS_OK, "%s", d.text);
	status = lower_plan(g, &o, &p, &d);
	ck_assert_msg(status == FS_OK, "%s", d.text);
	return p;
}

struct world {
	const struct plan *plan;
	const struct program *program;
	struct exec_options options;
	int ranks, steps;
	struct comm **ends;
	struct exec **execs;
};

static const float *data_of(const struct program *p, const char *name)
{
	for (int i = 0; i < MAX_GIVEN && p->given[i].name != NULL; i++)
		if (strcmp(p->given[i].name, name) == 0)
			return p->given[i].data;
	ck_abort_msg("nothing given for '%s'", name);
}

/* The rank's part of a source. */
static enum fs_status store(struct world *w, struct exec *e, struct node_id n, struct diag *d)
{
	const struct type *t = exec_type(e, n);
	const float *data = data_of(w->program, graph_string(w->plan->graph, n, ATTR_NAME));
	struct view whole = view_of((void *)(uintptr_t)data, DT_F32, t->rank, t->dim);
	struct box box;
	exec_box(e, n, &box);
	for (int k = 0; k < t->rank; k++) {
		if (box.size[k] > 0)
			whole.data = (float *)whole.data + box.start[k] * whole.stride[k];
		whole.shape[k] = box.size[k];
	}
	float *part = malloc((size_t)view_count(&whole) * sizeof(*part) + 1);
	struct view dense = view_of(part, DT_F32, t->rank, whole.shape);
	cpu_copy(&whole, &dense);
	enum fs_status status = exec_store(e, n, DT_F32, part, d);
	free(part);
	return status;
}

static enum fs_status run_rank(void *context, int rank, struct diag *d)
{
	struct world *w = context;
	struct exec_options o = w->options;
	o.world = w->ends == NULL ? NULL : w->ends[rank];
	TRY(exec_create(w->plan, &o, &w->execs[rank], d));
	for (uint32_t i = 1; i < w->plan->graph->nodes.count; i++) {
		enum op op = graph_op(w->plan->graph, (struct node_id){ i });
		if (op == OP_INPUT || op == OP_PARAM)
			TRY(store(w, w->execs[rank], (struct node_id){ i }, d));
	}
	TRY(exec_setup(w->execs[rank], d));
	for (int i = 0; i < w->steps; i++)
		TRY(exec_step(w->execs[rank], d));
	return FS_OK;
}

static enum fs_status world_run(struct world *w, struct diag *d)
{
	w->ranks = (int)mesh_size(context_mesh(w->plan->context));
	w->steps = w->steps == 0 ? 1 : w->steps;
	w->execs = calloc((size_t)w->ranks, sizeof(*w->execs));
	w->ends = w->ranks == 1 ? NULL : calloc((size_t)w->ranks, sizeof(*w->ends));
	if (w->ends != NULL)
		ck_assert_int_eq(comm_world_threads_create(w->ranks, w->ends, d), FS_OK);
	return ranks_run(w->ranks, w->ends, run_rank, w, d);
}

static void world_release(struct world *w)
{
	for (int k = 0; k < w->ranks; k++) {
		exec_destroy(w->execs[k]);
		if (w->ends != NULL)
			comm_destroy(w->ends[k]);
	}
	free(w->execs);
	free(w->ends);
}

/* Output `name` as f32; the count of its elements. */
static int64_t output_of(struct world *w, const char *name, float *out)
{
	struct diag d = { 0 };
	struct host_tensor t;
	const struct graph *g = w->plan->graph;
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		if (strcmp(g->outputs.items[i].name, name) != 0)
			continue;
		ck_assert_msg(value_gather(w->execs, w->ranks, g->outputs.items[i].value, DT_F32, &t, &d) == FS_OK,
			      "%s", d.text);
		int64_t count = 1;
		for (int k = 0; k < t.rank; k++)
			count *= t.dim[k];
		memcpy(out, t.data, (size_t)count * sizeof(*out));
		host_tensor_release(&t);
		return count;
	}
	ck_abort_msg("no output '%s'", name);
}

static inline void compare(struct world *w, const char *name, const float *want, int64_t count, const char *how)
{
	float got[4096];
	ck_assert_int_eq(output_of(w, name, got), count);
	for (int64_t i = 0; i < count; i++)
		ck_assert_msg(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])), "%s, %s[%lld]: %.9g, not %.9g",
			      how, name, (long long)i, (double)got[i], (double)want[i]);
}

/* Output "y" is `want`: as planned, with all values kept, and with one rank for all. */
static inline void check_program(const struct program *p, const float *want, int64_t count)
{
	struct diag d = { 0 };
	struct plan *plan = plan_of(p->text), *one = NULL;
	ck_assert_int_eq(plan_on_one_rank(plan, &one, &d), FS_OK);
	struct world planned = { .plan = plan, .program = p };
	struct world kept = { .plan = plan, .program = p, .options = { .keep = true } };
	struct world single = { .plan = one, .program = p,
				.options = { .keep = true, .blocks = context_mesh(plan->context) } };
	struct world *all[] = { &planned, &kept, &single };
	static const char *const how[] = { "planned", "kept", "on one rank" };
	for (int k = 0; k < 3; k++) {
		ck_assert_msg(world_run(all[k], &d) == FS_OK, "%s: %s", how[k], d.text);
		compare(all[k], "y", want, count, how[k]);
		world_release(all[k]);
	}
	plan_destroy(one);
	plan_destroy(plan);
}

#define CHECK(program, ...)                                                             \
	do {                                                                            \
		static const float want[] = { __VA_ARGS__ };                            \
		check_program(&(program), want, (int64_t)(sizeof(want) / sizeof(want[0]))); \
	} while (0)

static const float range24[24] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23 };

#endif
