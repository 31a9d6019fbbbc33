/* Compiles random programs, runs them on thread ranks and compares what comes out. */
#include "random.h"
#include "host.h"
#include "lower.h"
#include "ranks.h"

#include <math.h>

/* --- compile --- */

/* The program as it stands: no pass has seen it. */
static enum fs_status compile_plain(const struct program *p, struct plan **out, struct diag *d)
{
	static const struct mesh none;
	struct lower_options o = { .exact = p->exact };
	return lower_plan(program_graph(p, context_create(&none), NULL), &o, out, d);
}

static const char *recipe_text(const struct program *p)
{
	static const char *const text[][2] = { { "none", "none" },
					       { "tensorwise", "tensorwise:pow2" },
					       { "rowwise", "rowwise:pow2" } };
	return text[p->recipe][p->pow2];
}

static enum fs_status compile_as(const struct program *p, const struct layout *l, struct compile *c, struct plan **out,
				 struct diag *d)
{
	const struct pipeline_options passes = { .out = stdout };
	struct context *context = context_create(&l->mesh);
	struct graph *g = program_graph(p, context, l);
	c->exact = p->exact;
	c->reduce_f32 = l->reduce_f32;
	c->target = l->target;
	*vec_push(&c->recipes) = (struct request){ NULL, recipe_text(p), "--fp8" };
	for (int a = 0; p->whole_scales && a < l->mesh.count; a++)
		*vec_push(&c->scopes) = (struct request){ l->mesh.axis[a].name, "global", "--scale-scope" };
	if (pipeline_run(&g, c, &passes, d) != FS_OK) {
		graph_destroy(g);
		context_destroy(context);
		return d->status;
	}
	struct lower_options o = { .exact = p->exact, .recipe = recipe_text(p), .target = l->target,
				   .matmuls = c->matmuls.items, .matmul_count = c->matmuls.count };
	return lower_plan(g, &o, out, d);
}

static enum fs_status compile_for(const struct program *p, const struct layout *l, struct plan **out, struct diag *d)
{
	struct compile c = { 0 };
	enum fs_status status = compile_as(p, l, &c, out, d);
	compile_release(&c);
	return status;
}

/* The plan as its file gives it back. */
static enum fs_status through_text(struct plan **p, struct diag *d)
{
	struct plan *given = *p;
	char *text;
	size_t size;
	*p = NULL;
	enum fs_status status = plan_write(given, &text, &size, d);
	plan_destroy(given);
	if (status != FS_OK)
		return status;
	status = plan_read(text, size, "plan", p, d);
	free(text);
	return status;
}

/* --- run --- */

struct run {
	const struct program *program;
	const struct plan *plan;
	int ranks;
	struct comm **ends; /* NULL: one rank */
	struct exec **execs;
};

/* What this rank holds of a source, dense. */
static void *part_of(const struct value *v, const struct box *box)
{
	int size = dtype_size((enum dtype)v->type.dtype), rank = v->type.rank;
	int64_t count = 1, at[MAX_RANK] = { 0 };
	for (int k = 0; k < rank; k++)
		count *= box->size[k];
	char *out = malloc((size_t)(count * size) + 1);
	if (out == NULL)
		BUG("out of memory");
	for (int64_t i = 0; i < count; i++) {
		int64_t from = 0;
		for (int k = 0; k < rank; k++)
			from = from * v->type.dim[k] + box->start[k] + at[k];
		memcpy(out + i * size, (const char *)v->elements + from * size, (size_t)size);
		for (int k = rank - 1; k >= 0 && ++at[k] == box->size[k]; k--)
			at[k] = 0;
	}
	return out;
}

static enum fs_status store_sources(const struct run *r, struct exec *e, struct diag *d)
{
	const struct graph *g = r->plan->graph;
	enum fs_status status = FS_OK;
	for (uint32_t i = 1; i < g->nodes.count && status == FS_OK; i++) {
		struct node_id n = { i };
		struct box box;
		if (graph_op(g, n) != OP_INPUT && graph_op(g, n) != OP_PARAM)
			continue;
		const struct value *v = value_at(r->program, atoi(graph_string(g, n, ATTR_NAME) + 1));
		exec_box(e, n, &box);
		void *part = part_of(v, &box);
		status = exec_store(e, n, (enum dtype)v->type.dtype, part, d);
		free(part);
	}
	return status;
}

/* Two steps: the second finds what the first left. */
static enum fs_status run_rank(void *context, int rank, struct diag *d)
{
	struct run *r = context;
	struct exec_options o = { .world = r->ends == NULL ? NULL : r->ends[rank] };
	TRY(exec_create(r->plan, &o, &r->execs[rank], d));
	TRY(store_sources(r, r->execs[rank], d));
	TRY(exec_setup(r->execs[rank], d));
	TRY(exec_step(r->execs[rank], d));
	return exec_step(r->execs[rank], d);
}

static enum fs_status run_ranks(struct run *r, struct host_tensors *out, struct diag *d)
{
	if (r->ranks > 1)
		TRY(comm_world_threads_create(r->ranks, r->ends, d));
	enum fs_status status = ranks_run(r->ranks, r->ranks > 1 ? r->ends : NULL, run_rank, r, d);
	if (status == FS_OK)
		status = outputs_gather(r->plan, r->execs, r->ranks, out, d);
	for (int k = 0; k < r->ranks; k++)
		exec_destroy(r->execs[k]);
	for (int k = 0; k < r->ranks && r->ranks > 1; k++)
		comm_destroy(r->ends[k]);
	return status;
}

static enum fs_status run_plan(const struct program *p, const struct plan *plan, struct host_tensors *out, struct diag *d)
{
	struct run r = { p, plan, (int)mesh_size(context_mesh(plan->context)), NULL, NULL };
	struct comm **ends = calloc((size_t)r.ranks, sizeof(*ends));
	r.execs = calloc((size_t)r.ranks, sizeof(*r.execs));
	if (ends == NULL || r.execs == NULL)
		BUG("out of memory");
	r.ends = r.ranks > 1 ? ends : NULL;
	enum fs_status status = run_ranks(&r, out, d);
	free(ends);
	free(r.execs);
	return status;
}

/* --- compare --- */

static bool same_element(const struct value *v, const char *a, const char *b)
{
	enum dtype t = (enum dtype)v->type.dtype;
	if (memcmp(a, b, (size_t)dtype_size(t)) == 0)
		return true;
	if (!dtype_is_float(t))
		return false;
	double x = load_double(t, a), y = load_double(t, b);
	if (isnan(x) || isnan(y))
		return isnan(x) && isnan(y);
	if (x == 0 && y == 0)
		return v->zeros || v->err > 0;
	return fabs(x - y) <= v->err;
}

/* The first output and element that differ. */
static bool compare(const struct program *p, const struct host_tensors *want, const struct host_tensors *got,
		    const char *what, struct outcome *o)
{
	for (uint32_t i = 0; i < p->outputs.count; i++) {
		int at = p->outputs.items[i];
		const struct value *v = value_at(p, at);
		enum dtype t = (enum dtype)v->type.dtype;
		const char *a = want->at[i].data, *b = got->at[i].data;
		for (int64_t k = 0; k < type_count(&v->type); k++, a += dtype_size(t), b += dtype_size(t)) {
			if (same_element(v, a, b))
				continue;
			o->verdict = RUN_BAD;
			snprintf(o->text, sizeof(o->text), "v%d (%s), element %lld: %.17g, %s %.17g; they may differ by %.3g",
				 at, op_text(v->op), (long long)k, load_double(t, a), what, load_double(t, b), v->err);
			return false;
		}
	}
	return true;
}

/* --- coverage --- */

static bool is_uneven(const struct type *t, const struct mesh *m)
{
	for (int k = 0; k < t->place.count; k++) {
		const struct part *part = &t->place.at[k];
		if (part->kind == PART_SHARD && t->dim[part->dim] % m->axis[part->axis].size != 0)
			return true;
	}
	return false;
}

static bool is_sharded(const struct type *t, const struct mesh *m)
{
	for (int k = 0; k < t->place.count; k++)
		if (t->place.at[k].kind == PART_SHARD && m->axis[t->place.at[k].axis].size > 1)
			return true;
	return false;
}

/* The last rank has nothing of a value that is not empty. */
static bool leaves_empty(const struct type *t, const struct mesh *m)
{
	int32_t coord[MAX_AXES];
	mesh_coords(m, mesh_size(m) - 1, coord);
	return type_count(t) > 0 && type_local_count(t, m, coord) == 0;
}

static void count_graph(const struct program *p, const struct graph *g, struct coverage *c)
{
	const struct mesh *m = context_mesh(g->context);
	bool with[OP_COUNT] = { false }, sharded[OP_COUNT] = { false }, uneven = false, empty = false, bits = true;
	int axes = 0;
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		with[graph_op(g, n)] = true;
		sharded[graph_op(g, n)] |= is_sharded(graph_type(g, n), m);
		uneven |= is_uneven(graph_type(g, n), m);
		empty |= leaves_empty(graph_type(g, n), m);
	}
	for (int op = 0; op < OP_COUNT; op++) {
		c->with[op] += with[op];
		c->sharded[op] += sharded[op];
	}
	for (int a = 0; a < m->count; a++)
		axes += m->axis[a].size > 1;
	for (uint32_t i = 0; i < p->outputs.count; i++)
		bits &= value_at(p, p->outputs.items[i])->err == 0;
	c->programs++;
	c->uneven += uneven;
	c->empty += empty;
	c->several_axes += axes > 1;
	c->exact += p->exact;
	c->bits += bits;
	c->fp8 += with[OP_SCALED_MATMUL];
}

/* --- check --- */

static bool has_hard(const struct program *p, const struct layout *l)
{
	for (uint32_t i = 0; i < p->values.count; i++)
		if (l->pin[i].hard != 0)
			return true;
	return false;
}

/* The outputs of one of a program's plans; an error is the outcome's. */
static bool outputs_of(const struct program *p, const struct layout *l, struct coverage *c, FILE *print,
		       struct host_tensors *out, struct outcome *o)
{
	struct plan *plan = NULL;
	struct diag d = { 0 };
	enum fs_status status = l == NULL ? compile_plain(p, &plan, &d) : compile_for(p, l, &plan, &d);
	if (status == FS_OK)
		status = through_text(&plan, &d);
	if (status != FS_OK) {
		o->verdict = l != NULL && has_hard(p, l) ? RUN_REFUSED : RUN_BAD;
		snprintf(o->text, sizeof(o->text), "compile: %s", d.text);
		return false;
	}
	if (print != NULL)
		graph_print(plan->graph, print);
	if (c != NULL)
		count_graph(p, plan->graph, c);
	status = run_plan(p, plan, out, &d);
	plan_destroy(plan);
	if (status == FS_OK)
		return true;
	o->verdict = RUN_BAD;
	snprintf(o->text, sizeof(o->text), "run: %s", d.text);
	return false;
}

struct outcome program_check(const struct program *p, const struct layout *l, struct coverage *c, FILE *print)
{
	struct layout one = *l; /* which products are fp8 hangs on constraints too: they stay */
	struct outcome o = { .verdict = RUN_GOOD };
	struct host_tensors plain = { 0 }, whole = { 0 }, sharded = { 0 };
	for (int a = 0; a < one.mesh.count; a++)
		one.mesh.axis[a].size = 1;
	bool good = outputs_of(p, &one, NULL, NULL, &whole, &o);
	if (good && p->recipe == RECIPE_NONE)
		good = outputs_of(p, NULL, NULL, NULL, &plain, &o) && compare(p, &plain, &whole, "compiled for one rank", &o);
	if (good && outputs_of(p, l, c, print, &sharded, &o))
		compare(p, &whole, &sharded, "sharded", &o);
	host_tensors_release(&plain);
	host_tensors_release(&whole);
	host_tensors_release(&sharded);
	return o;
}
