/*
 * partition: each reshard becomes the cheapest collectives that do it.
 *
 *     %g = reshard %x {to=(tp:R)} : … (tp:R)     =>     %g = all_gather %x {axis=tp} : … (tp:R)
 *
 * Where all users of the resharded value cast it alike, moves of fp8 codes are what is priced (wire.h).
 * The graph is a local program from here: every op works on shards.  Equal reshards share one path
 * and one node.
 *
 * stage placed -> local   numerics exact (the order of sums was the solver's choice)
 */
#include "passes.h"
#include "reshard.h"

/* How each value is cast by all its users alike; NULL: none is. */
static struct wire *sole_casts(const struct graph *g, const struct compile *c, struct arena *arena)
{
	struct wires w = wires_make(g, c, arena);
	if (w.value == NULL)
		return NULL;
	for (uint32_t i = 0; i < g->operands.count; i++)
		if (!w.casts[i])
			w.value[g->operands.items[i].i] = (struct wire){ 0 };
	for (uint32_t i = 0; i < g->outputs.count; i++)
		w.value[g->outputs.items[i].value.i] = (struct wire){ 0 };
	return w.value;
}

static enum fs_status lower_reshard(struct rebuild *r, const struct machine *m, const struct wire *casts, struct node_id n,
				    struct diag *d)
{
	struct wire wire = casts == NULL ? (struct wire){ 0 } : casts[n.i];
	struct node_id x = r->map[graph_operand(r->from, n, 0).i];
	const struct type *t = graph_type(r->to, x);
	struct reshard_path path;
	if (!reshard_path(m, context_mesh(r->from->context), t, &wire, &t->place, graph_placement(r->from, n), &path)) {
		char where[512];
		node_describe(r->from, n, where, sizeof(where));
		return diag_set(d, FS_INVALID, "%s: there is no way from one placement to the other", where);
	}
	struct prov_id prov = graph_node(r->from, n)->prov;
	for (int i = 0; i < path.count; i++)
		x = reshard_emit(r->to, x, &path.move[i], prov);
	r->map[n.i] = x;
	return FS_OK;
}

enum fs_status pass_partition(struct graph **g, struct compile *c, struct diag *d)
{
	const struct machine *m;
	TRY(machine_find(c->target, &m, d));
	struct arena arena = { 0 };
	const struct wire *casts = sole_casts(*g, c, &arena);
	struct rebuild r;
	rebuild_init(&r, *g, STAGE_LOCAL, "partition");
	enum fs_status status = FS_OK;
	for (uint32_t i = 1; status == FS_OK && i < (*g)->nodes.count; i++) {
		struct node_id n = { i };
		if (!r.reached[i])
			continue;
		if (graph_op(*g, n) == OP_RESHARD)
			status = lower_reshard(&r, m, casts, n, d);
		else
			r.map[i] = rebuild_copy(&r, n);
	}
	if (status == FS_OK)
		rebuild_finish(&r, g);
	else
		rebuild_abandon(&r);
	arena_release(&arena);
	return status;
}
