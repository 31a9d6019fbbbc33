/*
 * estimate: each op of a plan takes the longer of its flops and its bytes; each collective what rates_collective()
 * says.  Ops run one after the other; collectives block, as the executor runs them.  A second clock runs them beside the
 * compute, in the plan's order: what remains of them then is the most that overlap could hide.
 */
#include "estimate.h"
#include "machine.h"

#include <stdlib.h>

/* --- where ranks lie --- */

/* Nodes split axes from the left: whole ones, then equal parts of one. */
static bool split_mesh(const struct mesh *m, int64_t nodes, struct node_layout *out)
{
	*out = (struct node_layout){ .nodes = nodes, .node_ranks = mesh_size(m) / nodes };
	for (int i = 0; i < m->count; i++) {
		int64_t size = m->axis[i].size;
		if (nodes % size != 0 && size % nodes != 0)
			return false;
		out->across[i] = nodes % size == 0 ? size : nodes;
		nodes /= out->across[i];
	}
	return nodes == 1;
}

enum fs_status layout_nodes(const struct mesh *m, const struct rates *r, int64_t nodes, struct node_layout *out, struct diag *d)
{
	int64_t ranks = mesh_size(m);
	if (nodes == 0) {
		int64_t here = r->node_ranks > 0 ? r->node_ranks : ranks;
		while (ranks % here != 0 || !split_mesh(m, ranks / here, out))
			here--;
		return FS_OK;
	}
	if (r->node_ranks == 0 && nodes != 1)
		return diag_set(d, FS_INVALID, "--nodes %lld: ranks on %s are threads of one process, on one node", (long long)nodes, r->name);
	if (!split_mesh(m, nodes, out))
		return diag_set(d, FS_INVALID, "--nodes %lld: the plan's %lld ranks do not split into so many equal nodes; take the sizes "
				"of the first mesh axes, times a divisor of the next", (long long)nodes, (long long)ranks);
	return FS_OK;
}

struct group layout_group(const struct mesh *m, const struct node_layout *l, uint32_t axes)
{
	struct group g = { 1, 1 };
	for (int i = 0; i < m->count; i++)
		if (axes >> i & 1) {
			g.ranks *= m->axis[i].size;
			g.nodes *= l->across[i];
		}
	return g;
}

/* --- one op --- */

const char *work_text(enum work w)
{
	static const char *const text[] = { "matmul fp8", "matmul bf16", "matmul f32", "attention", "fp8 scaling", "other ops" };
	return text[w];
}

static enum number number_of(const struct graph *g, struct node_id n)
{
	enum dtype a = (enum dtype)graph_type(g, graph_operand(g, n, 0))->dtype;
	enum dtype b = (enum dtype)graph_type(g, graph_operand(g, n, 1))->dtype;
	if (dtype_class(a) == DC_FP8 && dtype_class(b) == DC_FP8)
		return NUMBER_FP8;
	return dtype_size(a) > 2 || dtype_size(b) > 2 ? NUMBER_SINGLE : NUMBER_HALF;
}

static enum work work_of(const struct graph *g, struct node_id n)
{
	switch (graph_op(g, n)) {
	case OP_MATMUL:
	case OP_SCALED_MATMUL:
		return (enum work)number_of(g, n);
	case OP_SDPA:
		return WORK_ATTENTION;
	case OP_AMAX:
	case OP_FP8_SCALE:
	case OP_FP8_CAST:
	case OP_POST_SCALE:
		return WORK_SCALING;
	default:
		return WORK_OTHER;
	}
}

/* Bytes of a value on a rank; what a broadcast repeats is there once. */
static double value_bytes(const struct plan *p, struct node_id n)
{
	struct strided v;
	const struct type *t = graph_type(p->graph, n);
	double bytes = dtype_size((enum dtype)t->dtype);
	if (!plan_strided(p, n, NULL, &v))
		BUG("a view that strides do not say");
	for (int i = 0; i < t->rank; i++)
		if (v.stride[i] != 0 || v.shape[i] == 0)
			bytes *= (double)v.shape[i];
	return bytes;
}

/* Of a table that is looked up: only the entries that are found. */
static bool is_lookup(enum op op)
{
	return op == OP_EMBEDDING || op == OP_GATHER || op == OP_INDEX;
}

static double op_bytes(const struct plan *p, struct node_id n)
{
	const struct graph *g = p->graph;
	double result = value_bytes(p, n), bytes = result;
	for (int k = 0; k < graph_node(g, n)->count; k++) {
		struct node_id in = graph_operand(g, n, k);
		double read = value_bytes(p, in);
		if (k == 0 && is_lookup(graph_op(g, n)) && read > result)
			read = result;
		if (k == 0 || !node_same(in, graph_operand(g, n, 0)))
			bytes += read;
	}
	return bytes;
}

/* shape: room for those of any node. */
static double local_flops(const struct graph *g, struct node_id n, int64_t (*shape)[MAX_RANK])
{
	const struct mesh *m = context_mesh(g->context);
	int count = graph_node(g, n)->count;
	for (int k = 0; k < count; k++)
		type_local_shape(graph_type(g, graph_operand(g, n, k)), m, NULL, shape[k]);
	type_local_shape(graph_type(g, n), m, NULL, shape[count]);
	return op_flops(g, n, (const int64_t (*)[MAX_RANK])shape);
}

/* --- a section, in order --- */

struct walk {
	const struct plan *plan;
	struct estimate *e;
	struct estimate_section *s;
	int64_t (*shape)[MAX_RANK];
	double *ready; /* when a value would be there, by node, with collectives beside the compute */
	double compute_free, link_free;
};

static void add(struct amount *a, double flops, double bytes, double seconds)
{
	a->count++;
	a->flops += flops;
	a->bytes += bytes;
	a->seconds += seconds;
}

static double operands_ready(const struct walk *w, struct node_id n)
{
	double ready = 0;
	for (int k = 0; k < graph_node(w->plan->graph, n)->count; k++) {
		double at = w->ready[graph_operand(w->plan->graph, n, k).i];
		ready = at > ready ? at : ready;
	}
	return ready;
}

/* Something that takes `seconds` on one of the two clocks. */
static void run(struct walk *w, struct node_id n, double *free_at, double seconds)
{
	double ready = operands_ready(w, n), start = ready > *free_at ? ready : *free_at;
	*free_at = w->ready[n.i] = start + seconds;
}

static void walk_local(struct walk *w, struct node_id n)
{
	const struct rates *r = w->e->rates;
	double flops = local_flops(w->plan->graph, n, w->shape), bytes = op_bytes(w->plan, n), seconds = bytes / r->memory;
	if (flops > 0) {
		enum number number = number_of(w->plan->graph, n);
		double compute = flops / r->flops[number];
		seconds = compute > seconds ? compute : seconds;
		w->s->at_peak += r->peak[number] > 0 ? flops / r->peak[number] : 0;
	}
	add(&w->s->work[work_of(w->plan->graph, n)], flops, bytes, seconds);
	w->s->launches += r->launch;
	w->s->compute += seconds + r->launch;
	run(w, n, &w->compute_free, seconds + r->launch);
}

static struct moved *moved_of(struct walk *w, enum op op, uint32_t axes)
{
	for (uint32_t i = 0; i < w->s->moves.count; i++)
		if (w->s->moves.items[i].op == op && w->s->moves.items[i].axes == axes)
			return &w->s->moves.items[i];
	struct moved *m = vec_push(&w->s->moves);
	*m = (struct moved){ .op = op, .axes = axes };
	m->group = layout_group(context_mesh(w->plan->context), &w->e->layout, axes);
	return m;
}

static void walk_collective(struct walk *w, struct node_id n)
{
	const struct graph *g = w->plan->graph;
	struct moved *m = moved_of(w, graph_op(g, n), (uint32_t)graph_int(g, n, ATTR_AXES, 0));
	double bytes = (double)collective_bytes(g, n);
	bool summable = rates_summable((enum dtype)graph_type(g, n)->dtype, graph_string(g, n, ATTR_REDUCE));
	double seconds = rates_collective(w->e->rates, m->op, bytes, m->group, summable);
	add(&m->amount, 0, bytes, seconds);
	w->s->collective += seconds;
	run(w, n, &w->link_free, seconds);
}

/* A view, or the second result of the op before: there when that is. */
static bool takes_no_time(enum op op)
{
	return op_is_view(op) || op == OP_PROJ;
}

static void walk_section(struct walk *w, enum section section)
{
	const struct graph *g = w->plan->graph;
	w->compute_free = w->link_free = 0;
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		const struct storage *at = &w->plan->storage[i];
		w->ready[i] = 0;
		if (at->section != section)
			continue;
		if (at->memory == MEM_ARENA && at->offset + at->bytes > w->s->arena)
			w->s->arena = at->offset + at->bytes;
		if (takes_no_time(graph_op(g, n)))
			w->ready[i] = operands_ready(w, n);
		else if (op_is_collective(graph_op(g, n)))
			walk_collective(w, n);
		else
			walk_local(w, n);
	}
	w->s->beside = w->compute_free > w->link_free ? w->compute_free : w->link_free;
}

/* --- the whole --- */

/* Plans that lie say absurd numbers, not undefined ones. */
static int64_t plus(int64_t a, int64_t b)
{
	int64_t sum;
	return add_size(a, b, &sum) ? sum : INT64_MAX;
}

/* What is neither loaded nor computed. */
static int64_t given_bytes(const struct plan *p)
{
	int64_t bytes = 0;
	for (uint32_t i = 1; i < p->graph->nodes.count; i++)
		if (p->storage[i].memory == MEM_INPUT || p->storage[i].memory == MEM_CONST)
			bytes = plus(bytes, p->storage[i].bytes);
	return bytes;
}

int64_t estimate_memory(const struct estimate *e)
{
	int64_t arena = e->setup.arena > e->step.arena ? e->setup.arena : e->step.arena;
	return plus(plus(plus(e->params, e->state), plus(e->given, e->workspace)), arena);
}

void estimate_plan(const struct plan *p, const struct rates *r, const struct node_layout *l, struct estimate *out)
{
	struct walk w = { .plan = p, .e = out };
	*out = (struct estimate){ .rates = r, .layout = *l, .params = p->param_bytes, .state = p->state_bytes,
				  .given = given_bytes(p), .workspace = (int64_t)r->workspace };
	w.shape = malloc(sizeof(*w.shape) * (MAX_OPERANDS + 1));
	w.ready = malloc(sizeof(*w.ready) * p->graph->nodes.count);
	if (w.shape == NULL || w.ready == NULL)
		BUG("out of memory");
	w.s = &out->setup;
	walk_section(&w, SECTION_SETUP);
	w.s = &out->step;
	walk_section(&w, SECTION_STEP);
	free(w.shape);
	free(w.ready);
}

void estimate_release(struct estimate *e)
{
	vec_release(&e->setup.moves);
	vec_release(&e->step.moves);
}
