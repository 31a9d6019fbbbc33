/* The price of a whole local program, to tell two plans of one graph apart. */
#include "machine.h"
#include "plan.h"

#include <stdlib.h>

uint64_t collective_price(const struct machine *m, const struct graph *g, struct node_id n)
{
	return (uint64_t)((m->latency + (double)collective_bytes(g, n) / m->link) * 1e12);
}

/* shape: room for those of any node. */
static uint64_t local_price(const struct machine *m, const struct graph *g, struct node_id n, int64_t (*shape)[MAX_RANK])
{
	const struct node *node = graph_node(g, n);
	const struct mesh *mesh = context_mesh(g->context);
	for (int k = 0; k < node->count; k++)
		type_local_shape(graph_type(g, graph_operand(g, n, k)), mesh, NULL, shape[k]);
	type_local_shape(graph_type(g, n), mesh, NULL, shape[node->count]);
	return op_price(m, g, n, (const int64_t (*)[MAX_RANK])shape);
}

uint64_t graph_price(const struct machine *m, const struct graph *g)
{
	bool *reached = graph_reached(g);
	int64_t (*shape)[MAX_RANK] = malloc(sizeof(*shape) * (MAX_OPERANDS + 1));
	uint64_t sum = 0;
	if (shape == NULL)
		BUG("out of memory");
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (reached[i])
			sum += op_is_collective(graph_op(g, n)) ? collective_price(m, g, n) : local_price(m, g, n, shape);
	}
	free(shape);
	free(reached);
	return sum;
}
