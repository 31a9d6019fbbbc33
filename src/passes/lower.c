/*
 * lower: the last graph becomes a plan.  Views are folded into strides, and where that cannot be, a
 * copy goes before what needs it:
 *
 *     %t = permute %x {dims=[1,0]}                  %t = permute %x {dims=[1,0]}
 *     %y = reshape %t {shape=[12]}           =>     %c = copy %t
 *                                                   %y = reshape %c {shape=[12]}
 *
 * - a view of something strided that strides cannot say;
 * - operands of collectives, which are dense;
 * - operands of products that are no matrices in memory (layout.h): brought into the order batch, rows,
 *   contraction.  A result whose letters stand in an order that no matrix product writes is computed
 *   in the usual one, permuted and copied;
 * - constants that are sharded: the file has them whole.
 *
 * Then lower_memory.c says when each value is computed and where it lies.
 *
 * stage local, fp8 -> plan   numerics exact
 */
#include "lower.h"
#include "layout.h"
#include "lower_impl.h"

#include <stdlib.h>
#include <string.h>

/* By old node ids. */
struct lower {
	struct rebuild r;
	struct node_id *base; /* the dense value that a view is of; other values: themselves */
	struct node_id *raw;  /* of a product whose result was rearranged: the node that computes it */
	bool *copied;         /* a view whose operand has to be copied */
	struct diag *diag;
};

/* --- which views strides can say --- */

static struct node_id operand(const struct lower *l, struct node_id n, int k)
{
	return graph_operand(l->r.from, n, k);
}

static enum fs_status place_view(struct lower *l, struct node_id n)
{
	struct node_id x = operand(l, n, 0);
	struct strided v;
	char where[512];
	l->base[n.i] = l->base[x.i];
	if (view_resolve(l->r.from, n, l->base[x.i], NULL, &v))
		return FS_OK;
	l->base[n.i] = x;
	l->copied[n.i] = true;
	if (view_resolve(l->r.from, n, x, NULL, &v))
		return FS_OK;
	node_describe(l->r.from, n, where, sizeof(where));
	return diag_set(l->diag, FS_INVALID, "%s: %s: its shard is no view of its operand's", where,
			op_text(graph_op(l->r.from, n)));
}

static void strided_of(const struct lower *l, struct node_id n, struct strided *out)
{
	if (!view_resolve(l->r.from, n, l->base[n.i], NULL, out))
		BUG("node %u is no view of node %u", n.i, l->base[n.i].i);
}

/* --- new nodes --- */

static struct node_id emit_copy(struct lower *l, struct node_id x, struct prov_id prov)
{
	return graph_emit_typed(l->r.to, OP_COPY, &x, 1, NULL, graph_type(l->r.to, x), prov);
}

static bool is_identity(const int64_t *dims, int count)
{
	for (int i = 0; i < count; i++)
		if (dims[i] != i)
			return false;
	return true;
}

/* Dim i of the result is dim dims[i] of t. */
static struct type permuted_type(const struct type *t, const int64_t *dims)
{
	struct type made = *t;
	for (int i = 0; i < t->rank; i++) {
		made.dim[i] = t->dim[dims[i]];
		for (int k = 0; k < t->place.count; k++)
			if (t->place.at[k].kind == PART_SHARD && t->place.at[k].dim == dims[i])
				made.place.at[k].dim = (uint8_t)i;
	}
	return made;
}

static struct node_id emit_permute(struct lower *l, struct node_id x, const int64_t *dims, struct prov_id prov)
{
	const struct type *t = graph_type(l->r.to, x);
	if (is_identity(dims, t->rank))
		return x;
	struct attrs a = { 0 };
	struct type made = permuted_type(t, dims);
	attrs_ints(&a, ATTR_DIMS, dims, t->rank);
	return graph_emit_typed(l->r.to, OP_PERMUTE, &x, 1, &a, &made, prov);
}

static void invert(const int64_t *dims, int count, int64_t out[MAX_RANK])
{
	for (int i = 0; i < count; i++)
		out[dims[i]] = i;
}

/* --- products --- */

struct product {
	struct node_id node;   /* old */
	struct equation eq;    /* as it is emitted */
	unsigned bad;          /* LAYOUT_A, LAYOUT_B, LAYOUT_C */
	int64_t order[3][MAX_RANK];
	struct node_id in[4];
	struct prov_id prov;
};

static void read_product(const struct lower *l, struct product *p)
{
	struct diag d = { 0 };
	struct strided v[3];
	struct matrix_product made;
	int64_t shape[MAX_RANK];
	const struct type *t = graph_type(l->r.from, p->node);
	if (equation_parse(&p->eq, graph_string(l->r.from, p->node, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	strided_of(l, operand(l, p->node, 0), &v[0]);
	strided_of(l, operand(l, p->node, 1), &v[1]);
	type_local_shape(t, context_mesh(l->r.from->context), NULL, shape);
	strided_dense(t->rank, shape, &v[2]);
	p->bad = matmul_layout(&p->eq, &v[0], &v[1], &v[2], &made);
	for (int k = 0; k < 3; k++)
		layout_order(&p->eq, k, p->order[k]);
}

static void reorder_letters(struct equation *e, int v, const int64_t *dims)
{
	char old[MAX_RANK];
	memcpy(old, e->letter[v], sizeof(old));
	for (int i = 0; i < e->rank[v]; i++)
		e->letter[v][i] = old[dims[i]];
}

/* Operand k in the order of its groups, dense; its scales in the same order. */
static void rearrange_operand(struct lower *l, struct product *p, int k)
{
	int count = graph_node(l->r.from, p->node)->count;
	p->in[k] = emit_copy(l, emit_permute(l, p->in[k], p->order[k], p->prov), p->prov);
	if (k + 2 < count && graph_type(l->r.to, p->in[k + 2])->rank > 0)
		p->in[k + 2] = emit_permute(l, p->in[k + 2], p->order[k], p->prov);
	reorder_letters(&p->eq, k, p->order[k]);
}

static struct node_id emit_product(struct lower *l, struct product *p)
{
	const struct node *n = graph_node(l->r.from, p->node);
	const struct type *t = graph_type(l->r.from, p->node);
	struct type made = p->bad & LAYOUT_C ? permuted_type(t, p->order[2]) : *t;
	struct attrs a;
	char text[3 * MAX_RANK + 4];
	if (p->bad & LAYOUT_C)
		reorder_letters(&p->eq, 2, p->order[2]);
	equation_canonical(&p->eq, text);
	graph_attrs(l->r.from, p->node, &a);
	attrs_string(&a, ATTR_EQ, text);
	return graph_emit_typed(l->r.to, (enum op)n->op, p->in, n->count, &a, &made, n->prov);
}

/* Back from the order of the groups to that of the equation. */
static struct node_id restore_result(struct lower *l, struct product *p, struct node_id made)
{
	int64_t back[MAX_RANK];
	if (!(p->bad & LAYOUT_C))
		return made;
	invert(p->order[2], p->eq.rank[2], back);
	return emit_copy(l, emit_permute(l, made, back, p->prov), p->prov);
}

static void start_product(struct lower *l, struct node_id n, struct product *p)
{
	*p = (struct product){ .node = n, .prov = rebuild_prov(&l->r, n) };
	read_product(l, p);
	for (int k = 0; k < graph_node(l->r.from, n)->count; k++)
		p->in[k] = l->r.map[operand(l, n, k).i];
}

static struct node_id lower_product(struct lower *l, struct node_id n)
{
	struct product p;
	start_product(l, n, &p);
	if (p.bad == 0)
		return rebuild_copy(&l->r, n);
	for (int k = 0; k < 2; k++)
		if (p.bad & (k == 0 ? LAYOUT_A : LAYOUT_B))
			rearrange_operand(l, &p, k);
	struct node_id made = emit_product(l, &p);
	l->raw[n.i] = made;
	return restore_result(l, &p, made);
}

/* The second result follows the first. */
static struct node_id lower_proj(struct lower *l, struct node_id n)
{
	struct node_id x = operand(l, n, 0);
	if (!node_is(l->raw[x.i]))
		return rebuild_copy(&l->r, n);
	struct product p;
	start_product(l, x, &p);
	struct type t = *graph_type(l->r.to, l->raw[x.i]);
	struct attrs a;
	t.dtype = graph_type(l->r.from, n)->dtype;
	graph_attrs(l->r.from, n, &a);
	struct node_id made = graph_emit_typed(l->r.to, OP_PROJ, &l->raw[x.i], 1, &a, &t, graph_node(l->r.from, n)->prov);
	return restore_result(l, &p, made);
}

/* --- other nodes --- */

static struct node_id lower_view(struct lower *l, struct node_id n)
{
	struct node_id x = l->r.map[operand(l, n, 0).i];
	if (l->copied[n.i])
		x = emit_copy(l, x, rebuild_prov(&l->r, n));
	return graph_copy(l->r.to, l->r.from, n, &x);
}

static struct node_id lower_collective(struct lower *l, struct node_id n)
{
	struct node_id old = operand(l, n, 0), x = l->r.map[old.i];
	struct strided v;
	strided_of(l, old, &v);
	if (!strided_is_dense(graph_type(l->r.from, old)->rank, &v))
		x = emit_copy(l, x, rebuild_prov(&l->r, n));
	return graph_copy(l->r.to, l->r.from, n, &x);
}

static struct node_id lower_const(struct lower *l, struct node_id n)
{
	struct type t = *graph_type(l->r.from, n);
	struct placement place = t.place;
	struct prov_id prov = rebuild_prov(&l->r, n);
	struct attrs a;
	if (place.count == 0)
		return rebuild_copy(&l->r, n);
	t.place.count = 0;
	graph_attrs(l->r.from, n, &a);
	struct node_id made = graph_emit_typed(l->r.to, OP_CONST, NULL, 0, &a, &t, graph_node(l->r.from, n)->prov);
	for (int i = 0; i < place.count; i++) {
		a.count = 0;
		attrs_int(&a, ATTR_AXES, (int64_t)1 << place.at[i].axis);
		attrs_int(&a, ATTR_DIM, place.at[i].dim);
		placement_set(&t.place, place.at[i].axis, &place.at[i]);
		made = graph_emit_typed(l->r.to, OP_SHARD, &made, 1, &a, &t, prov);
	}
	return emit_copy(l, made, prov);
}

static struct node_id lower_node(struct lower *l, struct node_id n)
{
	enum op op = graph_op(l->r.from, n);
	if (op_is_view(op))
		return lower_view(l, n);
	if (op_is_collective(op))
		return lower_collective(l, n);
	if (op == OP_MATMUL || op == OP_SCALED_MATMUL)
		return lower_product(l, n);
	if (op == OP_PROJ)
		return lower_proj(l, n);
	return op == OP_CONST ? lower_const(l, n) : rebuild_copy(&l->r, n);
}

/* --- all nodes --- */

/* A buffer that is written and never read is there all the same. */
static void keep_mutated(struct lower *l)
{
	bool *mutated = plan_mutated(l->r.from);
	for (uint32_t i = 1; i < l->r.from->nodes.count; i++)
		l->r.reached[i] = l->r.reached[i] || mutated[i];
	free(mutated);
}

static enum fs_status lower_nodes(struct lower *l)
{
	for (uint32_t i = 1; i < l->r.from->nodes.count; i++) {
		struct node_id n = { i };
		if (!l->r.reached[i])
			continue;
		l->base[i] = n;
		if (op_is_view(graph_op(l->r.from, n)))
			TRY(place_view(l, n));
		l->r.map[i] = lower_node(l, n);
	}
	return FS_OK;
}

static enum fs_status lower_graph(struct graph **g, struct diag *d)
{
	struct lower l = { .diag = d };
	uint32_t count = (*g)->nodes.count;
	rebuild_init(&l.r, *g, STAGE_FP8, "lower");
	keep_mutated(&l);
	l.base = calloc(count, sizeof(*l.base));
	l.raw = calloc(count, sizeof(*l.raw));
	l.copied = calloc(count, sizeof(*l.copied));
	if (l.base == NULL || l.raw == NULL || l.copied == NULL)
		BUG("out of memory");
	enum fs_status status = lower_nodes(&l);
	if (status == FS_OK)
		rebuild_finish(&l.r, g);
	else
		rebuild_abandon(&l.r);
	free(l.base);
	free(l.raw);
	free(l.copied);
	return status;
}

/* --- the report --- */

struct product_key { const struct graph *g; const char *node, *role; };

static bool same_product(const void *key, uint32_t i)
{
	const struct product_key *k = key;
	const char *role = graph_string(k->g, (struct node_id){ i }, ATTR_ROLE);
	return strcmp(graph_prov(k->g, (struct node_id){ i })->node, k->node) == 0 &&
	       (role == NULL || k->role == NULL ? role == k->role : strcmp(role, k->role) == 0);
}

/* Products by the name of the node that they come from and their role; the first of each. */
static void index_products(const struct graph *g, struct hash_table *table)
{
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		const char *node = graph_prov(g, n)->node;
		if ((graph_op(g, n) != OP_MATMUL && graph_op(g, n) != OP_SCALED_MATMUL) || node == NULL)
			continue;
		struct product_key key = { g, node, graph_string(g, n, ATTR_ROLE) };
		if (hash_find(table, hash_string(node), same_product, &key) == UINT32_MAX)
			hash_insert(table, hash_string(node), i);
	}
}

static void add_matmul(struct plan *p, const struct matmul_report *m, const struct hash_table *table)
{
	struct context *c = p->context;
	struct product_key key = { p->graph, m->node, m->role };
	uint32_t value = m->node == NULL ? UINT32_MAX : hash_find(table, hash_string(m->node), same_product, &key);
	*vec_push(&p->matmuls) = (struct plan_matmul){
		.node = context_intern(c, m->node), .module = context_intern(c, m->module),
		.source = context_intern(c, m->source), .equation = context_intern(c, m->equation),
		.m = m->m, .n = m->n, .k = m->k,
		.role = context_intern(c, m->role), .recipe = context_intern(c, m->recipe), .reason = context_intern(c, m->reason),
		.value = { value == UINT32_MAX ? 0 : value },
	};
}

static void add_matmuls(struct plan *p, const struct lower_options *o)
{
	struct hash_table table = { 0 };
	index_products(p->graph, &table);
	for (uint32_t i = 0; i < o->matmul_count; i++)
		add_matmul(p, &o->matmuls[i], &table);
	hash_release(&table);
}

/* --- the plan --- */

static enum fs_status fill_plan(struct plan *p, const struct lower_options *o, struct diag *d)
{
	TRY(lower_graph(&p->graph, d));
	p->recipe = context_intern(p->context, o->recipe);
	p->target = context_intern(p->context, o->target);
	p->exact = o->exact;
	add_matmuls(p, o);
	for (uint32_t i = 0; i < o->command_count; i++)
		*vec_push(&p->command) = context_intern(p->context, o->command[i]);
	TRY(lower_memory(p, d));
	return plan_verify(p, d);
}

enum fs_status lower_plan(struct graph *g, const struct lower_options *o, struct plan **out, struct diag *d)
{
	struct plan *p = calloc(1, sizeof(*p));
	if (p == NULL)
		BUG("out of memory");
	p->graph = g;
	p->context = g->context;
	enum fs_status status = fill_plan(p, o, d);
	if (status == FS_OK)
		*out = p;
	else
		plan_destroy(p);
	return status;
}
