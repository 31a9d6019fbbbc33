/*
 * wide_sums: sums over ranks of 16-bit numbers are rounded no oftener than they are on one rank.
 *
 *     %a = matmul .. : bf16[..] (tp:P(sum))          %a = matmul .. {dtype=f32} : f32[..] (tp:P(sum))
 *     %b = matmul .. : bf16[..] (tp:P(sum))    =>    %b = matmul .. {dtype=f32} : f32[..] (tp:P(sum))
 *     %s = add %a, %b                                %s = cast (add %a, %b) {dtype=bf16}
 *     %y = all_reduce %s                             %y = all_reduce %s
 *
 * - products that are added up before they are reduced stay f32 till then: the same bytes move;
 * - sums and means over a sharded dim, which are small, are reduced in f32 and rounded when they are whole;
 * - so are products with --reduce-dtype f32, and those that are gradients of parameters with --grad-reduce f32; a
 *   cast to f32 then takes them as they are.
 * Exact plans have no such sums but those of fp8 products, which swap_fp8 sees to.
 *
 * stage local   numerics lossy (fewer roundings)
 */
#include "passes.h"
#include "wire.h"

#include <stdlib.h>
#include <string.h>

struct wide_sums {
	struct rebuild r;
	const struct mesh *mesh;
	struct uses uses;
	bool reduce_f32, gradients_f32;
	struct node_id *unrounded; /* by old id: the f32 value that it was rounded from when it was whole */
	bool *adds;  /* by old id: an add of products that nothing else takes */
	bool *wide;  /* by old id: what it is mapped to is f32 */
};

static bool is_narrow_part(const struct graph *g, struct node_id n)
{
	const struct type *t = graph_type(g, n);
	return (t->dtype == DT_BF16 || t->dtype == DT_F16) && placement_has_partial(&t->place);
}

static bool is_move(const struct graph *g, struct node_id n)
{
	return op_is_collective(graph_op(g, n)) || graph_op(g, n) == OP_SHARD;
}

/* Is the value only moved, until it is whole? What is rounded then must be a value that a cast may stand on. */
static bool only_moved(const struct wide_sums *w, struct node_id n)
{
	const struct graph *g = w->r.from;
	uint32_t first = w->uses.first[n.i], end = w->uses.first[n.i + 1];
	for (uint32_t k = first; k < end; k++) {
		struct node_id u = w->uses.at[k];
		const struct type *t = graph_type(g, u);
		if (!is_move(g, u) || (placement_has_partial(&t->place) ? !only_moved(w, u) : shards_a_single(w->mesh, t)))
			return false;
	}
	return first < end;
}

static bool has_one_use(const struct wide_sums *w, struct node_id n)
{
	return w->uses.first[n.i + 1] - w->uses.first[n.i] == 1;
}

static bool adds_products(const struct wide_sums *w, struct node_id n)
{
	const struct graph *g = w->r.from;
	if (graph_op(g, n) != OP_ADD || !is_narrow_part(g, n))
		return false;
	for (int k = 0; k < 2; k++) {
		struct node_id x = graph_operand(g, n, k);
		if (!has_one_use(w, x) || !is_narrow_part(g, x) || (graph_op(g, x) != OP_MATMUL && !w->adds[x.i]))
			return false;
	}
	return true;
}

/* Is it a sum of gradients of a parameter? */
static bool is_gradient(const struct graph *g, struct node_id n)
{
	while (graph_op(g, n) == OP_ADD)
		n = graph_operand(g, n, 0);
	const char *role = graph_op(g, n) == OP_MATMUL ? graph_string(g, n, ATTR_ROLE) : NULL;
	return role != NULL && strcmp(role, product_role_text(PRODUCT_GRAD_WEIGHT)) == 0;
}

/* Is the value better kept f32 for those that take it? */
static bool stays_wide(const struct wide_sums *w, struct node_id n)
{
	const struct graph *g = w->r.from;
	enum op op = graph_op(g, n);
	if (!is_narrow_part(g, n))
		return false;
	if (op == OP_SUM || op == OP_MEAN)
		return only_moved(w, n);
	if (op != OP_MATMUL && !w->adds[n.i])
		return false;
	bool wanted = w->reduce_f32 || (w->gradients_f32 && is_gradient(g, n));
	return (has_one_use(w, n) && w->adds[w->uses.at[w->uses.first[n.i]].i]) || (wanted && only_moved(w, n));
}

/* The node in f32, on what its operands became. */
static struct node_id emit_wide(struct wide_sums *w, struct node_id n)
{
	const struct graph *g = w->r.from;
	struct type t = *graph_type(g, n);
	struct node_id in[2];
	struct attrs a;
	int count = graph_node(g, n)->count;
	BUG_ON(count > 2);
	for (int k = 0; k < count; k++)
		in[k] = w->r.map[graph_operand(g, n, k).i];
	graph_attrs(g, n, &a);
	if (!is_move(g, n) && graph_op(g, n) != OP_ADD)
		attrs_int(&a, ATTR_DTYPE, DT_F32);
	t.dtype = DT_F32;
	return graph_emit_typed(w->r.to, graph_op(g, n), in, count, &a, &t, graph_node(g, n)->prov);
}

static struct node_id narrow(struct wide_sums *w, struct node_id made, struct node_id n)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DTYPE, graph_type(w->r.from, n)->dtype);
	return graph_emit_typed(w->r.to, OP_CAST, &made, 1, &a, graph_type(w->r.from, n), graph_node(w->r.from, n)->prov);
}

static struct node_id wide_node(struct wide_sums *w, struct node_id n)
{
	const struct graph *g = w->r.from;
	bool moves_wide = is_move(g, n) && w->wide[graph_operand(g, n, 0).i];
	w->wide[n.i] = moves_wide ? placement_has_partial(&graph_type(g, n)->place) : stays_wide(w, n);
	if (w->wide[n.i])
		return emit_wide(w, n);
	struct node_id x = graph_op(g, n) == OP_CAST ? w->unrounded[graph_operand(g, n, 0).i] : NODE_NONE;
	if (node_is(x) && graph_type(g, n)->dtype == DT_F32)
		return x;
	if (!moves_wide && !w->adds[n.i])
		return rebuild_copy(&w->r, n);
	struct node_id made = emit_wide(w, n);
	w->unrounded[n.i] = moves_wide ? made : NODE_NONE;
	return narrow(w, made, n);
}

enum fs_status pass_wide_sums(struct graph **g, struct compile *c, struct diag *d)
{
	struct wide_sums w = { .mesh = context_mesh((*g)->context), .reduce_f32 = c->reduce_f32, .gradients_f32 = c->train.reduce_f32 };
	uint32_t count = (*g)->nodes.count;
	(void)d;
	if (c->exact)
		return FS_OK;
	w.uses = uses_make(*g);
	w.adds = calloc(count, sizeof(*w.adds));
	w.wide = calloc(count, sizeof(*w.wide));
	w.unrounded = calloc(count, sizeof(*w.unrounded));
	if (w.adds == NULL || w.wide == NULL || w.unrounded == NULL)
		BUG("out of memory");
	rebuild_init(&w.r, *g, STAGE_LOCAL, "wide_sums");
	for (uint32_t i = 1; i < count; i++)
		w.adds[i] = w.r.reached[i] && adds_products(&w, (struct node_id){ i });
	for (uint32_t i = 1; i < count; i++)
		if (w.r.reached[i])
			w.r.map[i] = wide_node(&w, (struct node_id){ i });
	rebuild_finish(&w.r, g);
	uses_release(&w.uses);
	free(w.adds);
	free(w.wide);
	free(w.unrounded);
	return FS_OK;
}
