/* What a plan says of itself: lifetimes, bytes of values and of collectives. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

void plan_destroy(struct plan *p)
{
	if (p == NULL)
		return;
	graph_destroy(p->graph);
	context_destroy(p->context);
	vec_release(&p->matmuls);
	vec_release(&p->command);
	free(p->storage);
	free(p);
}

/* --- lifetimes --- */

struct lifetime *plan_lifetimes(const struct plan *p)
{
	const struct graph *g = p->graph;
	struct lifetime *life = malloc(sizeof(*life) * g->nodes.count);
	if (life == NULL)
		BUG("out of memory");
	for (uint32_t i = 0; i < g->nodes.count; i++) {
		bool second = g->nodes.items[i].op == OP_PROJ;
		life[i] = (struct lifetime){ second ? graph_operand(g, (struct node_id){ i }, 0).i : i, i };
	}
	for (uint32_t i = 1; i < g->nodes.count; i++)
		for (int k = 0; k < g->nodes.items[i].count; k++)
			life[plan_root(p, graph_operand(g, (struct node_id){ i }, k)).i].to = i;
	for (uint32_t i = 0; i < g->outputs.count; i++)
		life[plan_root(p, g->outputs.items[i].value).i].to = UINT32_MAX;
	return life;
}

/* --- parameters that change --- */

struct target_key { const struct graph *g; const char *name; size_t size; };

static bool same_target(const void *key, uint32_t i)
{
	const struct target_key *k = key;
	const char *target = k->g->outputs.items[i].target;
	return strncmp(target, k->name, k->size) == 0 && target[k->size] == '\0';
}

static bool has_target(const struct graph *g, const struct hash_table *targets, const char *name, size_t size)
{
	struct target_key key = { g, name, size };
	return hash_find(targets, hash_bytes(name, size, 0), same_target, &key) != UINT32_MAX;
}

/* Under its own name or one of those tied to it. */
static bool is_target(const struct graph *g, const struct hash_table *targets, struct node_id n)
{
	const char *name = graph_string(g, n, ATTR_NAME), *tied = graph_string(g, n, ATTR_TIED);
	if (name != NULL && has_target(g, targets, name, strlen(name)))
		return true;
	for (size_t size; tied != NULL && *tied != '\0'; tied += size + (tied[size] == ' ')) {
		size = strcspn(tied, " ");
		if (has_target(g, targets, tied, size))
			return true;
	}
	return false;
}

bool *plan_mutated(const struct graph *g)
{
	struct hash_table targets = { 0 };
	bool *mutated = calloc(g->nodes.count, sizeof(*mutated)), trained = false;
	if (mutated == NULL)
		BUG("out of memory");
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		const struct output *o = &g->outputs.items[i];
		trained = trained || o->kind == OUT_GRAD_PARAM;
		if (o->kind == OUT_BUFFER && o->target != NULL)
			hash_insert(&targets, hash_string(o->target), i);
	}
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (graph_op(g, n) == OP_PARAM)
			mutated[i] = (trained && !graph_int(g, n, ATTR_BUFFER, 0)) || is_target(g, &targets, n);
	}
	hash_release(&targets);
	return mutated;
}

/* --- bytes --- */

#define MAX_BYTES ((int64_t)1 << 56)

int64_t plan_value_bytes(const struct type *t, const struct mesh *m)
{
	int64_t shape[MAX_RANK], bytes = dtype_size((enum dtype)t->dtype);
	if (t->dtype == DT_NONE)
		return -1;
	type_local_shape(t, m, NULL, shape);
	for (int i = 0; i < t->rank; i++)
		if (!mul_size(bytes, shape[i], &bytes) || bytes > MAX_BYTES)
			return -1;
	return bytes;
}

int64_t collective_ranks(const struct graph *g, struct node_id n)
{
	const struct mesh *m = context_mesh(g->context);
	int64_t axes = graph_int(g, n, ATTR_AXES, 0), ranks = 1;
	for (int i = 0; i < m->count; i++)
		if (axes >> i & 1)
			ranks *= m->axis[i].size;
	return ranks;
}

/* What a rank sends to each other one of an all_to_all: its part of the dim that is split, padded. */
static int64_t exchanged_bytes(const struct graph *g, struct node_id n)
{
	const struct mesh *m = context_mesh(g->context);
	const struct type *from = graph_type(g, graph_operand(g, n, 0)), *to = graph_type(g, n);
	int64_t shape[MAX_RANK], bytes = dtype_size((enum dtype)from->dtype);
	int dim = (int)graph_int(g, n, ATTR_TO_DIM, 0);
	type_local_shape(from, m, NULL, shape);
	shape[dim] = placement_chunk(&to->place, m, dim, to->dim[dim]);
	for (int i = 0; i < from->rank; i++)
		bytes *= shape[i];
	return bytes;
}

/* Plans that lie say absurd numbers, not undefined ones. */
static int64_t times(int64_t a, int64_t b)
{
	int64_t product;
	return mul_size(a, b, &product) ? product : INT64_MAX;
}

int64_t collective_bytes(const struct graph *g, struct node_id n)
{
	const struct mesh *m = context_mesh(g->context);
	int64_t others = collective_ranks(g, n) - 1;
	int64_t before = plan_value_bytes(graph_type(g, graph_operand(g, n, 0)), m);
	int64_t after = plan_value_bytes(graph_type(g, n), m);
	switch (graph_op(g, n)) {
	case OP_ALL_GATHER:
		return times(others, before);
	case OP_REDUCE_SCATTER:
		return times(others, after);
	case OP_ALL_REDUCE:
		return 2 * before - 2 * before / (others + 1);
	case OP_ALL_TO_ALL:
		return times(others, exchanged_bytes(g, n));
	default:
		return 0;
	}
}
