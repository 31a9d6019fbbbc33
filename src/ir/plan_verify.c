/*
 * What a plan must be before anything of it runs.
 *
 * One node after the other: that it stands in a section that may see its operands, that it has memory
 * of the kind that its op takes, inside of the region, that views resolve and operands are laid out as
 * the op needs them.  Then, region by region, that no two values that live at once overlap.
 */
#include "layout.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct checker {
	const struct plan *plan;
	const struct graph *graph;
	const struct mesh *mesh;
	struct diag *diag;
	bool *mutated;
	struct lifetime *life;
	uint32_t *second; /* the proj of a node, if there is one */
};

__attribute__((format(printf, 3, 4)))
static enum fs_status fail(const struct checker *c, struct node_id n, const char *format, ...)
{
	char text[512], node[256];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	node_describe(c->graph, n, node, sizeof(node));
	return diag_set(c->diag, FS_INVALID, "node %u, %s: %s", n.i, node, text);
}

static const struct storage *storage_of(const struct checker *c, struct node_id n)
{
	return &c->plan->storage[n.i];
}

/* --- sections --- */

/* Whether setup may read n. */
static bool is_early(const struct checker *c, struct node_id n)
{
	const struct storage *s = storage_of(c, n);
	if (s->section == SECTION_SETUP)
		return true;
	return s->section == SECTION_SOURCE && s->memory != MEM_INPUT && !c->mutated[n.i];
}

/* Whether a step, or whoever takes the outputs, may read n. */
static bool is_kept(const struct checker *c, struct node_id n)
{
	return storage_of(c, n)->section != SECTION_SETUP ||
	       storage_of(c, plan_root(c->plan, n))->memory != MEM_ARENA;
}

static enum fs_status check_section(const struct checker *c, struct node_id n)
{
	const struct storage *s = storage_of(c, n);
	for (int k = 0; k < graph_node(c->graph, n)->count; k++) {
		struct node_id x = graph_operand(c->graph, n, k);
		if (s->section == SECTION_SETUP && !is_early(c, x))
			return fail(c, n, "is setup and reads node %u, which is not", x.i);
		if (s->section == SECTION_STEP && !is_kept(c, x))
			return fail(c, n, "is run in each step and reads node %u, which setup does not keep", x.i);
	}
	return FS_OK;
}

/* --- memory --- */

/* The kinds of memory that an op may have, as a mask; sources stand in section source. */
static uint32_t memories_of(enum op op)
{
	switch (op) {
	case OP_INPUT:
		return 1u << MEM_INPUT;
	case OP_PARAM:
		return 1u << MEM_PARAM;
	case OP_CONST:
		return 1u << MEM_CONST;
	default:
		return op_is_view(op) ? 1u << MEM_VIEW : 1u << MEM_ARENA | 1u << MEM_STATE;
	}
}

static int64_t region_bytes(const struct plan *p, int memory)
{
	return memory == MEM_PARAM ? p->param_bytes : memory == MEM_STATE ? p->state_bytes :
	       memory == MEM_ARENA ? p->arena_bytes : 0;
}

static bool has_offset(int memory)
{
	return memory == MEM_PARAM || memory == MEM_STATE || memory == MEM_ARENA;
}

static enum fs_status check_memory(const struct checker *c, struct node_id n)
{
	const struct storage *s = storage_of(c, n);
	enum op op = graph_op(c->graph, n);
	bool given = op == OP_INPUT || op == OP_PARAM || op == OP_CONST;
	if (!(memories_of(op) >> s->memory & 1) || given != (s->section == SECTION_SOURCE))
		return fail(c, n, "%s has no such section or memory", op_text(op));
	if (s->memory == MEM_STATE && s->section != SECTION_SETUP)
		return fail(c, n, "is run in each step, but kept as state");
	if (s->bytes != plan_value_bytes(graph_type(c->graph, n), c->mesh) || s->bytes < 0)
		return fail(c, n, "has %lld bytes, which its type does not say", (long long)s->bytes);
	if (op == OP_CONST && graph_type(c->graph, n)->place.count > 0)
		return fail(c, n, "a constant of the file is not replicated");
	if (!has_offset(s->memory))
		return s->offset == 0 ? FS_OK : fail(c, n, "has an offset into memory that it is not given");
	int64_t room = region_bytes(c->plan, s->memory);
	if (s->offset < 0 || s->offset % PLAN_ALIGN != 0 || s->bytes > room || s->offset > room - s->bytes)
		return fail(c, n, "lies outside of its memory");
	return FS_OK;
}

static enum fs_status check_base(const struct checker *c, struct node_id n)
{
	const struct storage *s = storage_of(c, n);
	struct strided v;
	if (s->memory != MEM_VIEW)
		return node_is(s->base) ? fail(c, n, "has a base, but is no view") : FS_OK;
	if (s->base.i >= n.i || plan_root(c->plan, graph_operand(c->graph, n, 0)).i != s->base.i)
		return fail(c, n, "is no view of node %u", s->base.i);
	if (!view_resolve(c->graph, n, s->base, NULL, &v))
		return fail(c, n, "cannot be a view of node %u: there are no strides that say it", s->base.i);
	return FS_OK;
}

/* --- what ops need of their operands --- */

static enum fs_status check_matmul(const struct checker *c, struct node_id n)
{
	struct equation e;
	struct strided v[3];
	struct matrix_product made;
	TRY(equation_parse(&e, graph_string(c->graph, n, ATTR_EQ), c->diag));
	for (int k = 0; k < 2; k++)
		if (!plan_strided(c->plan, graph_operand(c->graph, n, k), NULL, &v[k]))
			return fail(c, n, "operand %d is not there", k);
	plan_strided(c->plan, n, NULL, &v[2]);
	if (matmul_layout(&e, &v[0], &v[1], &v[2], &made) != 0)
		return fail(c, n, "its operands do not lie in memory as matrices");
	return FS_OK;
}

static enum fs_status check_collective(const struct checker *c, struct node_id n)
{
	struct node_id x = graph_operand(c->graph, n, 0);
	struct strided v;
	if (!plan_strided(c->plan, x, NULL, &v) || !strided_is_dense(graph_type(c->graph, x)->rank, &v))
		return fail(c, n, "its operand is not dense");
	return FS_OK;
}

/* Ops with a second result, and one proj of each at most. */
static enum fs_status check_proj(const struct checker *c, struct node_id n)
{
	struct node_id x = graph_operand(c->graph, n, 0);
	enum op op = graph_op(c->graph, x);
	bool exact = op == OP_SCALED_MATMUL && graph_int(c->graph, x, ATTR_EXACT, 0);
	if (op != OP_TOPK && op != OP_SORT && !exact)
		return fail(c, n, "%s has no second result", op_text(op));
	if (c->second[x.i] != 0)
		return fail(c, n, "is the second result of node %u, as is node %u", x.i, c->second[x.i]);
	if (storage_of(c, x)->section != storage_of(c, n)->section)
		return fail(c, n, "is not in the section of node %u, which writes it", x.i);
	c->second[x.i] = n.i;
	return FS_OK;
}

static enum fs_status check_use(const struct checker *c, struct node_id n)
{
	enum op op = graph_op(c->graph, n);
	if (op == OP_MATMUL || op == OP_SCALED_MATMUL)
		return check_matmul(c, n);
	if (op == OP_PROJ)
		return check_proj(c, n);
	return op_is_collective(op) ? check_collective(c, n) : FS_OK;
}

static enum fs_status check_nodes(const struct checker *c)
{
	for (uint32_t i = 1; i < c->graph->nodes.count; i++) {
		struct node_id n = { i };
		TRY(check_memory(c, n));
		TRY(check_base(c, n));
		TRY(check_section(c, n));
		TRY(check_use(c, n));
	}
	return FS_OK;
}

/* --- outputs --- */

static enum fs_status check_outputs(const struct checker *c)
{
	const struct graph *g = c->graph;
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		const struct output *o = &g->outputs.items[i];
		if (!is_kept(c, o->value))
			return fail(c, o->value, "is an output, but setup does not keep it");
		if (o->kind != OUT_USER && o->kind != OUT_LOSS && o->target == NULL)
			return diag_set(c->diag, FS_INVALID, "output '%s' has no target", o->name);
	}
	return FS_OK;
}

/* --- the size of the regions --- */

/* A region ends with its last value, in whole multiples of PLAN_ALIGN. */
static enum fs_status check_region(const struct checker *c, int memory, const char *name)
{
	int64_t end = 0, room = region_bytes(c->plan, memory);
	for (uint32_t i = 1; i < c->graph->nodes.count; i++) {
		const struct storage *s = &c->plan->storage[i];
		if (s->memory == memory && s->offset + s->bytes > end)
			end = s->offset + s->bytes;
	}
	if (room % PLAN_ALIGN == 0 && room - end < PLAN_ALIGN)
		return FS_OK;
	return diag_set(c->diag, FS_INVALID, "memory '%s' has %lld bytes, its values end at %lld", name, (long long)room,
			(long long)end);
}

/* --- overlap: sweeps program order, the values that live sorted by offset --- */

struct span { int64_t offset, end; uint32_t from, to, node; };
struct live { struct span **at; uint32_t count; };

static int by_from(const void *a, const void *b)
{
	const struct span *x = a, *y = b;
	return x->from != y->from ? (x->from < y->from ? -1 : 1) : x->node < y->node ? -1 : x->node > y->node;
}

static int by_to(const void *a, const void *b)
{
	const struct span *x = *(struct span *const *)a, *y = *(struct span *const *)b;
	return x->to != y->to ? (x->to < y->to ? -1 : 1) : 0;
}

/* The first that lives at or behind `offset`. */
static uint32_t live_find(const struct live *l, int64_t offset)
{
	uint32_t low = 0, high = l->count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (l->at[middle]->offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void live_remove(struct live *l, const struct span *s)
{
	uint32_t i = live_find(l, s->offset);
	l->count--;
	memmove(&l->at[i], &l->at[i + 1], sizeof(*l->at) * (l->count - i));
}

/* Gives the value in whose memory it would lie, or NULL. */
static const struct span *live_add(struct live *l, struct span *s)
{
	uint32_t i = live_find(l, s->offset);
	if (i < l->count && l->at[i]->offset < s->end)
		return l->at[i];
	if (i > 0 && l->at[i - 1]->end > s->offset)
		return l->at[i - 1];
	memmove(&l->at[i + 1], &l->at[i], sizeof(*l->at) * (l->count - i));
	l->at[i] = s;
	l->count++;
	return NULL;
}

static enum fs_status sweep(const struct checker *c, struct span *spans, uint32_t count)
{
	struct span **ends = malloc(sizeof(*ends) * ((size_t)count + 1));
	struct live live = { malloc(sizeof(*live.at) * ((size_t)count + 1)), 0 };
	enum fs_status status = FS_OK;
	if (ends == NULL || live.at == NULL)
		BUG("out of memory");
	qsort(spans, count, sizeof(*spans), by_from);
	for (uint32_t i = 0; i < count; i++)
		ends[i] = &spans[i];
	qsort(ends, count, sizeof(*ends), by_to);
	for (uint32_t i = 0, gone = 0; i < count && status == FS_OK; i++) {
		for (; ends[gone]->to < spans[i].from; gone++)
			live_remove(&live, ends[gone]);
		const struct span *other = live_add(&live, &spans[i]);
		if (other != NULL)
			status = fail(c, (struct node_id){ spans[i].node }, "overlaps node %u in memory", other->node);
	}
	free(ends);
	free(live.at);
	return status;
}

/* Values of one kind of memory that setup (or steps, or anyone) writes. */
static enum fs_status check_overlap(const struct checker *c, int memory, int section)
{
	uint32_t count = 0;
	struct span *spans = malloc(sizeof(*spans) * c->graph->nodes.count);
	if (spans == NULL)
		BUG("out of memory");
	for (uint32_t i = 1; i < c->graph->nodes.count; i++) {
		const struct storage *s = &c->plan->storage[i];
		if (s->memory != memory || s->section != section || s->bytes == 0)
			continue;
		struct lifetime life = memory == MEM_ARENA ? c->life[i] : (struct lifetime){ 0, UINT32_MAX };
		spans[count++] = (struct span){ s->offset, s->offset + s->bytes, life.from, life.to, i };
	}
	enum fs_status status = sweep(c, spans, count);
	free(spans);
	return status;
}

/* --- all of it --- */

static enum fs_status check(struct checker *c)
{
	TRY(check_nodes(c));
	TRY(check_outputs(c));
	c->life = plan_lifetimes(c->plan);
	TRY(check_overlap(c, MEM_PARAM, SECTION_SOURCE));
	TRY(check_overlap(c, MEM_STATE, SECTION_SETUP));
	TRY(check_overlap(c, MEM_ARENA, SECTION_SETUP));
	TRY(check_overlap(c, MEM_ARENA, SECTION_STEP));
	TRY(check_region(c, MEM_PARAM, "params"));
	TRY(check_region(c, MEM_STATE, "state"));
	return check_region(c, MEM_ARENA, "arena");
}

enum fs_status plan_verify(const struct plan *p, struct diag *d)
{
	struct checker c = { .plan = p, .graph = p->graph, .mesh = context_mesh(p->context), .diag = d };
	if (p->graph->stage != STAGE_FP8 || p->graph->nodes.count < 1)
		return diag_set(d, FS_INVALID, "the graph of a plan is of stage fp8");
	TRY(graph_verify(p->graph, d));
	c.mutated = plan_mutated(p->graph);
	c.second = calloc(p->graph->nodes.count, sizeof(*c.second));
	if (c.second == NULL)
		BUG("out of memory");
	enum fs_status status = check(&c);
	free(c.mutated);
	free(c.second);
	free(c.life);
	return status;
}
