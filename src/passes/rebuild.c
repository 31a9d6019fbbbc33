/* The frame of a pass: copy what is reached, change some of it. */
#include "passes.h"

#include <stdlib.h>

void rebuild_init(struct rebuild *r, const struct graph *from, enum stage stage, const char *pass)
{
	r->from = from;
	r->to = graph_create(from->context, stage);
	r->map = calloc(from->nodes.count, sizeof(*r->map));
	if (r->map == NULL)
		BUG("out of memory");
	r->reached = graph_reached(from);
	r->pass = pass;
	for (uint32_t i = 1; i < from->nodes.count; i++)
		if (from->nodes.items[i].op == OP_INPUT)
			r->reached[i] = true; /* an input that nothing uses is still an input */
}

struct node_id rebuild_copy(struct rebuild *r, struct node_id n)
{
	const struct node *node = graph_node(r->from, n);
	struct node_id few[16], *in = few;
	if (node->count > 16) {
		in = malloc(sizeof(*in) * node->count);
		if (in == NULL)
			BUG("out of memory");
	}
	for (int k = 0; k < node->count; k++)
		in[k] = r->map[graph_operand(r->from, n, k).i];
	struct node_id made;
	if (r->to->stage == STAGE_GLOBAL && node->count > 0) {
		struct attrs a;
		graph_attrs(r->from, n, &a);
		made = graph_emit(r->to, (enum op)node->op, in, node->count, &a, node->prov);
	} else {
		made = graph_copy(r->to, r->from, n, in);
	}
	if (in != few)
		free(in);
	return made;
}

struct prov_id rebuild_prov(struct rebuild *r, struct node_id n)
{
	struct prov p = *graph_prov(r->from, n);
	p.pass = r->pass;
	p.rule = NULL; /* it pinned n alone */
	return context_prov(r->from->context, &p);
}

void rebuild_abandon(struct rebuild *r)
{
	graph_destroy(r->to);
	free(r->map);
	free(r->reached);
}

void rebuild_finish(struct rebuild *r, struct graph **g)
{
	for (uint32_t i = 0; i < r->from->outputs.count; i++) {
		struct output o = r->from->outputs.items[i];
		o.value = r->map[o.value.i];
		graph_output(r->to, &o);
	}
	free(r->map);
	free(r->reached);
	graph_destroy(*g);
	*g = r->to;
}
