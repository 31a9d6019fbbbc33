#include "wire.h"
#include "recipe.h"

#include <string.h>

#define SCALE_BYTES 4

struct wire wire_operand(const struct graph *g, struct node_id n, int k)
{
	struct wire w = { 0 };
	struct product_casts casts;
	struct equation e;
	struct diag d = { 0 };
	if (!matmul_casts(g, n, &casts))
		return w;
	if (equation_parse(&e, graph_string(g, n, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	w.dtype = casts.operand[k].dtype;
	w.pow2 = casts.pow2;
	w.whole = casts.operand[k].span == SPAN_TENSOR;
	for (int i = 0; i < e.rank[k] && !w.whole; i++)
		if (equation_role(&e, e.letter[k][i]) == ROLE_K)
			w.spanned |= (uint16_t)(1u << i);
	return w;
}

static bool local_scopes(const struct compile *c)
{
	for (uint32_t i = 0; i < c->scopes.count; i++)
		if (strcmp(c->scopes.items[i].value, "local") == 0)
			return true;
	return false;
}

static bool any_recipe(const struct graph *g)
{
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (wire_operand(g, (struct node_id){ i }, 0).dtype != DT_NONE)
			return true;
	return false;
}

/* What the uses of node n's operands say of them; `mixed`: two of them differ. */
static void note_uses(const struct graph *g, struct node_id n, struct wires *w, bool *mixed)
{
	const struct node *node = graph_node(g, n);
	for (int k = 0; k < node->count; k++) {
		struct wire use = wire_operand(g, n, k), *have = &w->value[graph_operand(g, n, k).i];
		w->casts[node->first + (uint32_t)k] = use.dtype != DT_NONE;
		if (use.dtype == DT_NONE)
			continue;
		if (have->dtype != DT_NONE && !wire_equal(have, &use))
			mixed[graph_operand(g, n, k).i] = true;
		*have = use;
	}
}

struct wires wires_make(const struct graph *g, const struct compile *c, struct arena *arena)
{
	struct wires w = { 0 };
	if (!any_recipe(g) || local_scopes(c))
		return w;
	bool *mixed = arena_array(arena, g->nodes.count, sizeof(*mixed));
	w.value = arena_array(arena, g->nodes.count, sizeof(*w.value));
	w.casts = arena_array(arena, g->operands.count + 1u, sizeof(*w.casts));
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (g->nodes.items[i].op == OP_MATMUL)
			note_uses(g, (struct node_id){ i }, &w, mixed);
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (mixed[i])
			w.value[i] = (struct wire){ 0 };
	for (uint32_t i = 0; i < g->operands.count; i++)
		w.casts[i] &= w.value[g->operands.items[i].i].dtype != DT_NONE;
	return w;
}

static bool is_shard(label l)
{
	return l >= LABEL_S(0);
}

static bool spans(const struct wire *w, label l)
{
	return is_shard(l) && (w->spanned >> (l - LABEL_S(0)) & 1);
}

int64_t wire_bytes(const struct wire *w, const int64_t *shape, int rank, label from, label to, int32_t ranks)
{
	if (w->dtype == DT_NONE || !is_shard(from) || (to != LABEL_R && !is_shard(to)) || spans(w, from) || spans(w, to))
		return -1;
	int64_t codes = move_bytes(shape, rank, 1, from, to, ranks), scales[MAX_RANK];
	if (w->whole)
		return codes;
	for (int i = 0; i < rank; i++)
		scales[i] = w->spanned >> i & 1 ? 1 : shape[i];
	return codes + move_bytes(scales, rank, SCALE_BYTES, from, to, ranks);
}

uint64_t wire_price(const struct machine *m, const struct wire *w, const int64_t *shape, int rank, int item, label from,
		    label to, int32_t ranks)
{
	int64_t bytes = from == to ? -1 : wire_bytes(w, shape, rank, from, to, ranks);
	if (bytes >= 0)
		return (uint64_t)((2 * m->latency + (double)bytes / m->link) * 1e12);
	return move_price(m, shape, rank, item, from, to, ranks);
}

bool shards_a_single(const struct mesh *mesh, const struct type *t)
{
	int64_t left[MAX_RANK];
	memcpy(left, t->dim, sizeof(left));
	for (int i = 0; i < t->place.count; i++) {
		const struct part *p = &t->place.at[i];
		int64_t ranks = mesh->axis[p->axis].size;
		if (p->kind == PART_SHARD && left[p->dim] <= 1)
			return true;
		if (p->kind == PART_SHARD)
			left[p->dim] = (left[p->dim] + ranks - 1) / ranks;
	}
	return false;
}
