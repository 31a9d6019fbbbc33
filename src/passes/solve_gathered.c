/*
 * The answer to be beaten: every operand gathered, everything computed on every rank.  Axes are solved one
 * after another, and one gather over several of them may cost less than what each does for itself.
 */
#include "solve.h"

#include <stdlib.h>
#include <string.h>

/* Is a source sharded on the axis, and may not be gathered? */
static bool is_bound(const struct solver *s, struct node_id n, int axis)
{
	return s->axis[axis].produced[n.i] != LABEL_R && (graph_int(s->g, n, ATTR_HARD, 0) >> axis & 1);
}

static bool takes_forbidden(const struct solver *s, int axis)
{
	const struct axis_labels *l = &s->axis[axis];
	for (uint32_t i = 0; i < s->g->operands.count; i++) {
		struct node_id n = s->g->operands.items[i];
		if (is_forbidden(s, n, axis, l->produced[n.i], l->want[i]))
			return true;
	}
	return false;
}

static bool gather_axis(struct solver *s, int axis)
{
	const struct graph *g = s->g;
	struct axis_labels *l = &s->axis[axis];
	memset(l->want, LABEL_R, g->operands.count);
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		enum op op = graph_op(g, n);
		if (op == OP_PARAM && is_bound(s, n, axis))
			return false;
		if (!op_is_source(op))
			l->produced[i] = LABEL_R;
		if (op == OP_CONSTRAIN && (graph_int(g, n, ATTR_AXES, 0) >> axis & 1) && s->mesh->axis[axis].size > 1)
			l->produced[i] = l->want[graph_node(g, n)->first] = label_of(graph_placement(g, n), axis);
		l->held[i] = l->produced[i];
	}
	for (uint32_t i = 0; i < g->outputs.count; i++)
		l->want_output[i] = l->produced[g->outputs.items[i].value.i];
	return !takes_forbidden(s, axis);
}

bool solve_gathered(struct solver *s)
{
	for (int axis = 0; axis < s->mesh->count; axis++)
		if (!gather_axis(s, axis))
			return false;
	return true;
}

static uint64_t whole_time(const struct solver *s, struct node_id n, int64_t (*shape)[MAX_RANK])
{
	int count = graph_node(s->g, n)->count;
	for (int k = 0; k <= count; k++)
		memcpy(shape[k], graph_type(s->g, k < count ? graph_operand(s->g, n, k) : n)->dim, sizeof(*shape));
	return op_price(s->machine, s->g, n, (const int64_t (*)[MAX_RANK])shape);
}

bool solve_gathered_may_win(const struct solver *s, uint64_t cost)
{
	int axes = 0;
	uint64_t sum = 0;
	for (int axis = 0; axis < s->mesh->count; axis++)
		axes += s->mesh->axis[axis].size > 1;
	int64_t (*shape)[MAX_RANK] = malloc(sizeof(*shape) * (MAX_OPERANDS + 1));
	if (shape == NULL)
		BUG("out of memory");
	for (uint32_t i = 1; axes > 1 && i < s->g->nodes.count && sum < cost; i++)
		if (s->reached[i])
			sum += whole_time(s, (struct node_id){ i }, shape);
	free(shape);
	return axes > 1 && sum < cost;
}
