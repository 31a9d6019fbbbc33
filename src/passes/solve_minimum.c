/*
 * The minimum of one axis's factor graph: exact, or, where that is too wide, in blocks (eliminate_blocks.c).  Those
 * begin with the labels at hand, so that no sweep makes them dearer; the first time, where these are "everything
 * whole", with labels grown block after block, too.
 */
#include "solve_axis.h"

#include <string.h>

/* Wider eliminations are not worth their time: blocks (eliminate_blocks) come within a few percent. */
#define MAX_CELLS ((uint64_t)1 << 20)

/* The strategy that takes and makes what the labels say; its count, if there is none. */
static uint32_t find_strategy(const struct work *w, struct node_id n)
{
	const struct axis_labels *l = &w->s->axis[w->axis];
	const struct node *node = graph_node(w->s->g, n);
	const struct strategies *all = &w->classes.items[w->op_class[n.i]].strategies;
	int i = 0;
	for (; i < all->count; i++) {
		const label *at = &all->at[i * all->stride];
		if (memcmp(at, &l->want[node->first], node->count * sizeof(*at)) == 0 && at[node->count] == l->produced[n.i])
			break;
	}
	return (uint32_t)i;
}

static uint32_t find_pair(const struct work *w, struct node_id n)
{
	const struct axis_labels *l = &w->s->axis[w->axis];
	const struct domain *d = &w->domains.items[w->domain[n.i]];
	int i = 0;
	while (i < d->count && (d->pair[i][0] != l->produced[n.i] || d->pair[i][1] != l->held[n.i]))
		i++;
	return (uint32_t)i;
}

/* False: as the other axes are now, they are no answer. */
static bool encode(const struct work *w, uint32_t *pick)
{
	for (uint32_t i = 1; i < w->s->g->nodes.count; i++) {
		struct node_id n = { i };
		if (!w->s->reached[i] || w->fixed[i])
			continue;
		if (has_op(w, i) && (pick[w->op_var[i]] = find_strategy(w, n)) == w->fg.labels.items[w->op_var[i]])
			return false;
		if (!w->inner[i] && (pick[w->value_var[i]] = find_pair(w, n)) == w->fg.labels.items[w->value_var[i]])
			return false;
	}
	return factor_graph_cost(&w->fg, pick) < ELIM_INF;
}

static enum elim_status in_blocks(struct work *w, uint32_t *pick, struct elim_result *r)
{
	uint32_t *blocks = &w->s->blocks[w->axis];
	bool first = *blocks == 0, begun = encode(w, pick);
	enum elim_status e = eliminate_blocks(&w->fg, MAX_CELLS, *blocks, begun, pick, r);
	*blocks = r->blocks;
	if (e != ELIM_OK || !first || !begun)
		return e;
	struct elim_result other = { 0 };
	uint32_t *grown = arena_array(&w->arena, w->fg.labels.count + 1, sizeof(*grown));
	e = eliminate_blocks(&w->fg, MAX_CELLS, 2, false, grown, &other);
	other.cells += r->cells;
	if (e == ELIM_OK && other.cost < r->cost) {
		memcpy(pick, grown, w->fg.labels.count * sizeof(*pick));
		*r = other;
	}
	r->cells = other.cells;
	return ELIM_OK;
}

enum elim_status minimize(struct work *w, uint32_t *pick, struct elim_result *r)
{
	enum elim_status e = w->s->blocks[w->axis] == 0 ? eliminate(&w->fg, MAX_CELLS, pick, r) : ELIM_TOO_WIDE;
	return e == ELIM_TOO_WIDE ? in_blocks(w, pick, r) : e;
}
