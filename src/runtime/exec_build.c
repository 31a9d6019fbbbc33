/* From the nodes of a plan to instructions and transfers, setup first. */
#include "exec_internal.h"

#include <stdlib.h>
#include <string.h>

enum fs_status exec_emit(struct exec *e, struct node_id n, enum op op, int count, const struct view *in,
			 const struct view *out, struct diag *d)
{
	struct view *list = malloc(sizeof(*list) * (size_t)(count + 1));
	if (list == NULL || !exec_push(&e->lists, list)) {
		free(list);
		return exec_nomem(d);
	}
	if (count > 0)
		memcpy(list, in, sizeof(*in) * (size_t)count);
	struct work w = {
		.node = n,
		.run = {
			.graph = e->graph, .node = n, .op = op, .exact = e->plan->exact, .mesh = e->mesh,
			.coord = e->coord, .count = count, .in = list, .out = *out,
		},
	};
	return exec_push(&e->work, w) ? FS_OK : exec_nomem(d);
}

/* A view op whose result has memory of its own: its operand, seen through it, is copied there. */
static enum fs_status emit_view_copy(struct exec *e, struct node_id n, struct diag *d)
{
	const struct view *in = &e->views[graph_operand(e->graph, n, 0).i];
	struct view from, to = e->views[n.i];
	if (!exec_view_step(e, n, in, &from)) {
		from = *in; /* a reshape keeps the row-major order */
		to = view_of(to.data, to.dtype, in->rank, in->shape);
	}
	return exec_emit(e, n, OP_COPY, 1, &from, &to, d);
}

static bool is_view_op(enum op op)
{
	return op_is_view(op) || op == OP_SHARD;
}

/* Exact accumulators have a second half: post_scale gets none where the plan keeps none. */
static int present_operands(const struct exec *e, struct node_id n)
{
	int count = graph_node(e->graph, n)->count;
	if (graph_op(e->graph, n) == OP_POST_SCALE && count == 4 &&
	    e->views[graph_operand(e->graph, n, 3).i].data == NULL)
		return 3;
	return count;
}

enum fs_status exec_emit_node(struct exec *e, struct node_id n, struct diag *d)
{
	int count = present_operands(e, n);
	struct view *in = malloc(sizeof(*in) * (size_t)(count + 1));
	if (in == NULL)
		return exec_nomem(d);
	for (int k = 0; k < count; k++)
		in[k] = e->views[graph_operand(e->graph, n, k).i];
	enum fs_status status = exec_emit(e, n, graph_op(e->graph, n), count, in, &e->views[n.i], d);
	free(in);
	if (status == FS_OK && node_is(e->second[n.i]))
		e->work.items[e->work.count - 1].run.second = e->views[e->second[n.i].i];
	return status;
}

static const char *const lowered[OP_COUNT] = {
	[OP_NONE] = "none",
#define OP(name, text, least, most, stages, infer, rule, linear, cost, lower, vjp, attrs) [OP_##name] = #lower,
#include "ops.def"
#undef OP
};

/* Nobody asks for any result. */
static bool is_dead(const struct exec *e, struct node_id n)
{
	struct node_id second = e->second[n.i];
	return e->views[n.i].data == NULL && (!node_is(second) || e->views[second.i].data == NULL);
}

static enum fs_status build_node(struct exec *e, struct node_id n, struct diag *d)
{
	enum op op = graph_op(e->graph, n);
	if (strcmp(lowered[op], "none") == 0 || is_dead(e, n) || !node_same(e->base[n.i], n))
		return FS_OK;
	if (is_view_op(op))
		return emit_view_copy(e, n, d);
	if (strcmp(lowered[op], "collective") == 0)
		return exec_emit_transfer(e, n, d);
	if (exec_is_high(e, n))
		return exec_emit_high(e, n, d);
	if (exec_has_blocks(e, n))
		return exec_emit_blocks(e, n, d);
	return exec_emit_node(e, n, d);
}

static enum fs_status describe(const struct exec *e, struct node_id n, struct diag *d)
{
	char node[256];
	node_describe(e->graph, n, node, sizeof(node));
	return diag_prefix(d, "%s", node);
}

static enum fs_status build_section(struct exec *e, enum section section, struct diag *d)
{
	for (uint32_t i = 1; i < e->nodes; i++) {
		struct node_id n = { i };
		uint32_t before = e->work.count;
		if (e->plan->storage[i].section != section)
			continue;
		if (build_node(e, n, d) != FS_OK)
			return describe(e, n, d);
		if (e->work.count > before)
			e->work.items[e->work.count - 1].last = true;
	}
	return FS_OK;
}

static int64_t workspace_of(const struct exec *e, const struct work *w)
{
	return w->transfer != NULL ? w->transfer->workspace : e->ops->workspace(e->backend, &w->run);
}

/* One workspace for all: work runs one after another. */
static enum fs_status bind_workspace(struct exec *e, struct diag *d)
{
	int64_t most = 0;
	for (uint32_t i = 0; i < e->work.count; i++) {
		int64_t need = workspace_of(e, &e->work.items[i]);
		most = need > most ? need : most;
	}
	TRY(exec_alloc(e, REGION_WORK, most, d));
	for (uint32_t i = 0; i < e->work.count; i++) {
		struct work *w = &e->work.items[i];
		w->run.workspace = e->memory[REGION_WORK];
		if (w->transfer != NULL)
			transfer_bind(w->transfer, e->memory[REGION_WORK]);
	}
	return FS_OK;
}

enum fs_status exec_build(struct exec *e, struct diag *d)
{
	TRY(build_section(e, SECTION_SETUP, d));
	e->setup_count = e->work.count;
	TRY(build_section(e, SECTION_STEP, d));
	return bind_workspace(e, d);
}
