/*
 * Sections and memory of a plan.
 *
 * Setup is what hangs on parameters and constants alone, none of which changes between steps; what of it
 * a step or an output reads is state, the rest lies in the arena while setup runs.  All else is run
 * in each step, in the arena, which the two sections use one after the other.
 */
#include "lower_impl.h"
#include "pack.h"

#include <stdlib.h>

/* --- sections --- */

static bool is_given(enum op op)
{
	return op == OP_INPUT || op == OP_PARAM || op == OP_CONST;
}

static enum section section_of(const struct plan *p, const bool *mutated, struct node_id n)
{
	if (is_given(graph_op(p->graph, n)))
		return SECTION_SOURCE;
	for (int k = 0; k < graph_node(p->graph, n)->count; k++) {
		struct node_id x = graph_operand(p->graph, n, k);
		if (p->storage[x.i].section == SECTION_STEP || graph_op(p->graph, x) == OP_INPUT || mutated[x.i])
			return SECTION_STEP;
	}
	return SECTION_SETUP;
}

static enum memory memory_of(enum op op)
{
	return op == OP_INPUT ? MEM_INPUT : op == OP_PARAM ? MEM_PARAM : op == OP_CONST ? MEM_CONST :
	       op_is_view(op) ? MEM_VIEW : MEM_ARENA;
}

static void keep(struct plan *p, struct node_id n)
{
	struct storage *s = &p->storage[plan_root(p, n).i];
	if (s->section == SECTION_SETUP && s->memory == MEM_ARENA)
		s->memory = MEM_STATE;
}

/* What of setup is read after it. */
static void keep_state(struct plan *p)
{
	const struct graph *g = p->graph;
	for (uint32_t i = 1; i < g->nodes.count; i++)
		for (int k = 0; p->storage[i].section == SECTION_STEP && k < g->nodes.items[i].count; k++)
			keep(p, graph_operand(g, (struct node_id){ i }, k));
	for (uint32_t i = 0; i < g->outputs.count; i++)
		keep(p, g->outputs.items[i].value);
}

static enum fs_status set_bytes(struct plan *p, struct node_id n, struct diag *d)
{
	struct storage *s = &p->storage[n.i];
	char where[512];
	s->bytes = plan_value_bytes(graph_type(p->graph, n), context_mesh(p->context));
	if (s->bytes >= 0)
		return FS_OK;
	node_describe(p->graph, n, where, sizeof(where));
	return diag_set(d, FS_UNSUPPORTED, "%s: a value of more than 2^56 bytes", where);
}

static enum fs_status place_nodes(struct plan *p, struct diag *d)
{
	bool *mutated = plan_mutated(p->graph);
	enum fs_status status = FS_OK;
	for (uint32_t i = 1; i < p->graph->nodes.count && status == FS_OK; i++) {
		struct node_id n = { i };
		struct storage *s = &p->storage[i];
		s->section = (uint8_t)section_of(p, mutated, n);
		s->memory = (uint8_t)memory_of(graph_op(p->graph, n));
		if (s->memory == MEM_VIEW)
			s->base = plan_root(p, graph_operand(p->graph, n, 0));
		status = set_bytes(p, n, d);
	}
	free(mutated);
	return status;
}

/* --- offsets --- */

static enum fs_status too_large(struct diag *d)
{
	return diag_set(d, FS_UNSUPPORTED, "the values of a rank take more than 2^62 bytes");
}

/* One after the other. */
static enum fs_status lay_out(struct plan *p, enum memory memory, int64_t *total, struct diag *d)
{
	int64_t end = 0;
	for (uint32_t i = 1; i < p->graph->nodes.count; i++) {
		struct storage *s = &p->storage[i];
		if (s->memory != memory)
			continue;
		s->offset = end;
		end += (s->bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
		if (end > INT64_MAX / 2)
			return too_large(d);
	}
	*total = end;
	return FS_OK;
}

static bool in_arena(const struct storage *s, enum section section)
{
	return s->memory == MEM_ARENA && s->section == section && s->bytes > 0;
}

static enum fs_status pack_section(struct plan *p, enum section section, const struct lifetime *life, struct diag *d)
{
	uint32_t nodes = p->graph->nodes.count, count = 0;
	struct packed *at = malloc(sizeof(*at) * nodes);
	int64_t sum = 0;
	if (at == NULL)
		BUG("out of memory");
	for (uint32_t i = 1; i < nodes && sum < INT64_MAX / 4; i++)
		if (in_arena(&p->storage[i], section)) {
			at[count++] = (struct packed){ life[i].from, life[i].to, p->storage[i].bytes, 0 };
			sum += p->storage[i].bytes;
		}
	int64_t bytes = sum < INT64_MAX / 4 ? pack_values(at, count, PLAN_ALIGN) : 0;
	for (uint32_t i = 1, k = 0; i < nodes && k < count; i++)
		if (in_arena(&p->storage[i], section))
			p->storage[i].offset = at[k++].offset;
	free(at);
	p->arena_bytes = bytes > p->arena_bytes ? bytes : p->arena_bytes;
	return sum < INT64_MAX / 4 ? FS_OK : too_large(d);
}

static enum fs_status pack_arena(struct plan *p, struct diag *d)
{
	struct lifetime *life = plan_lifetimes(p);
	enum fs_status status = pack_section(p, SECTION_SETUP, life, d);
	if (status == FS_OK)
		status = pack_section(p, SECTION_STEP, life, d);
	free(life);
	return status;
}

enum fs_status lower_memory(struct plan *p, struct diag *d)
{
	p->storage = calloc(p->graph->nodes.count, sizeof(*p->storage));
	if (p->storage == NULL)
		BUG("out of memory");
	TRY(place_nodes(p, d));
	keep_state(p);
	TRY(lay_out(p, MEM_PARAM, &p->param_bytes, d));
	TRY(lay_out(p, MEM_STATE, &p->state_bytes, d));
	return pack_arena(p, d);
}
