/*
 * canonicalize: recognise what exporters take apart, so that later passes see few, large ops.
 *
 *     %t = permute %w {dims=[1,0]}
 *     %f = reshape %x {shape=[128,256]}          =>   %y = matmul %x, %w {eq="mik,nk->min"}
 *     %m = matmul %f, %t {eq="mk,kn->mn"}
 *     %y = reshape %m {shape=[2,64,384]}
 *
 *     %h = cast %x {dtype=f32}
 *     %s = mean (mul %h, %h) {dims=[2] keepdim=1}  =>   %y = rms_norm %x {dims=[2] eps=1e-6}
 *     %y = cast (mul %h, (rsqrt (add %s, 1e-6))) {dtype=bf16}
 *
 *     %a = sdpa %q, %k, %v, %mask                =>   %a = sdpa %q, %k, %v {causal=1}
 *          (%mask computed from positions, true just where j <= i)
 *
 * A graph is copied node by node; on each the rewrites of its op are tried, first those that stand
 * first in the table.  What a rewrite emits is tried in turn.  They terminate because each takes a
 * view, a cast or a mask off an operand, splits a letter of an equation (which has at most MAX_RANK
 * a tensor), or moves a view below its user.  Integers and masks that follow from positions alone
 * are found by affine.c and become fills and iotas.  At the end, what nothing reaches is dropped.
 *
 * stage global   needs nothing   makes N-D matmuls, rms_norm, sdpa {causal}   numerics exact
 */
#include "canonicalize.h"

#include <stdlib.h>
#include <string.h>

/* OP_NONE: any op that works element by element. */
static const struct {
	const char *name;
	enum op root;
	rewrite_fn *apply;
} rewrites[] = {
	{ "copy to operand",        OP_COPY,        copy_to_operand },
	{ "expand twice",           OP_EXPAND,      expand_twice },
	{ "matmul over permute",    OP_MATMUL,      matmul_over_permute },
	{ "matmul over broadcast",  OP_MATMUL,      matmul_over_broadcast },
	{ "matmul over reshape",    OP_MATMUL,      matmul_over_reshape },
	{ "root mean square",       OP_MUL,         root_mean_square },
	{ "narrow rms_norm",        OP_CAST,        narrow_rms_norm },
	{ "cast of cast",           OP_CAST,        cast_of_cast },
	{ "cast of iota",           OP_CAST,        cast_of_iota },
	{ "power of one",           OP_POW,         power_of_one },
	{ "constant logic",         OP_LOGICAL_AND, constant_logic },
	{ "constant logic",         OP_BITWISE_AND, constant_logic },
	{ "constant logic",         OP_LOGICAL_OR,  constant_logic },
	{ "constant logic",         OP_BITWISE_OR,  constant_logic },
	{ "constant where",         OP_WHERE,       constant_where },
	{ "pointwise over expand",  OP_NONE,        pointwise_over_expand },
	{ "pointwise over reshape", OP_NONE,        pointwise_over_reshape },
	{ "rows into zeros",        OP_INDEX_PUT,   rows_into_zeros },
	{ "softmax over reshape",   OP_SOFTMAX,     along_over_reshape },
	{ "softmax over reshape",   OP_LOG_SOFTMAX, along_over_reshape },
	{ "norm over reshape",      OP_RMS_NORM,    along_over_reshape },
	{ "norm over reshape",      OP_LAYER_NORM,  along_over_reshape },
	{ "repeated keys",          OP_SDPA,        repeated_keys },
	{ "mask over expand",       OP_SDPA,        mask_over_expand },
	{ "mask of all",            OP_SDPA,        mask_of_all },
	{ "mask causal",            OP_SDPA,        mask_causal },
	{ "mask partly causal",     OP_SDPA,        mask_partly_causal },
	{ "mask of infinities",     OP_SDPA,        mask_of_infinities },
};

struct node_id canon_emit(const struct site *s)
{
	struct node_id made;
	bool elementwise = s->op == OP_CAST || op_is_pointwise(s->op);
	for (size_t i = 0; i < sizeof(rewrites) / sizeof(rewrites[0]); i++)
		if ((rewrites[i].root == s->op || (elementwise && rewrites[i].root == OP_NONE)) && rewrites[i].apply(s, &made))
			return made;
	return canon_settle(s, graph_emit(s->g, s->op, s->in, s->count, s->attrs, s->prov));
}

/* --- what rewrites use --- */

static struct prov_id marked(struct canon *c, struct prov_id prov)
{
	if (c->last.i != prov.i || c->last_marked.i == 0) {
		struct prov p = *context_prov_get(c->g->context, prov);
		p.pass = "canonicalize";
		c->last = prov;
		c->last_marked = context_prov(c->g->context, &p);
	}
	return c->last_marked;
}

struct node_id site_emit(const struct site *s, enum op op, const struct node_id *in, int count, const struct attrs *a)
{
	struct site made = { s->c, s->g, op, count, in, a, marked(s->c, s->prov), NODE_NONE };
	return canon_emit(&made);
}

struct node_id site_again(const struct site *s, const struct node_id *in)
{
	return site_emit(s, s->op, in, s->count, s->attrs);
}

struct node_id site_reshape(const struct site *s, struct node_id x, int rank, const int64_t *dim)
{
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_SHAPE, dim, rank);
	return site_emit(s, OP_RESHAPE, &x, 1, &a);
}

struct node_id site_cast(const struct site *s, struct node_id x, int64_t dtype)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DTYPE, dtype);
	return site_emit(s, OP_CAST, &x, 1, &a);
}

struct node_id site_fill(const struct site *s, double value, const struct type *t)
{
	struct attrs a = { 0 };
	attrs_float(&a, ATTR_VALUE, value);
	attrs_int(&a, ATTR_DTYPE, t->dtype);
	attrs_ints(&a, ATTR_SHAPE, t->dim, t->rank);
	return site_emit(s, OP_FILL, NULL, 0, &a);
}

struct node_id site_broadcast(const struct site *s, struct node_id x, const struct type *t)
{
	const struct type *have = graph_type(s->g, x);
	struct attrs a = { 0 };
	int64_t dim[MAX_RANK];
	int more = t->rank - have->rank;
	for (int d = 0; d < t->rank; d++)
		dim[d] = d < more ? 1 : have->dim[d - more];
	x = site_reshape(s, x, t->rank, dim);
	attrs_ints(&a, ATTR_SHAPE, t->dim, t->rank);
	return site_emit(s, OP_EXPAND, &x, 1, &a);
}

struct type site_type(const struct site *s)
{
	const struct type *in[16];
	struct type made;
	struct diag d = { 0 };
	BUG_ON(s->count > 16);
	for (int k = 0; k < s->count; k++)
		in[k] = site_in(s, k);
	if (op_infer(s->g->context, s->op, in, s->count, s->attrs, &made, &d) != FS_OK)
		BUG("%s", d.text);
	return made;
}

/* --- the pass --- */

static uint32_t *count_users(const struct graph *g, const bool *reached)
{
	uint32_t *users = calloc(g->nodes.count, sizeof(*users));
	if (users == NULL)
		BUG("out of memory");
	for (uint32_t i = 1; i < g->nodes.count; i++)
		for (int k = 0; reached[i] && k < g->nodes.items[i].count; k++)
			users[graph_operand(g, (struct node_id){ i }, k).i]++;
	for (uint32_t i = 0; i < g->outputs.count; i++)
		users[g->outputs.items[i].value.i]++;
	return users;
}

static struct node_id rewrite_node(struct canon *c, struct rebuild *r, struct node_id n)
{
	struct node_id in[MAX_OPERANDS];
	struct attrs a;
	const struct node *node = graph_node(r->from, n);
	if (op_is_source((enum op)node->op))
		return graph_copy(r->to, r->from, n, NULL);
	for (int k = 0; k < node->count; k++)
		in[k] = r->map[graph_operand(r->from, n, k).i];
	graph_attrs(r->from, n, &a);
	struct site s = { c, r->to, (enum op)node->op, node->count, in, &a, node->prov, n };
	return canon_emit(&s);
}

/* Copies what outputs reach. */
static void sweep(struct graph **g)
{
	struct node_id in[MAX_OPERANDS];
	struct rebuild r;
	rebuild_init(&r, *g, STAGE_GLOBAL, "canonicalize");
	for (uint32_t i = 1; i < (*g)->nodes.count; i++) {
		const struct node *node = &(*g)->nodes.items[i];
		for (int k = 0; r.reached[i] && k < node->count; k++)
			in[k] = r.map[graph_operand(*g, (struct node_id){ i }, k).i];
		if (r.reached[i])
			r.map[i] = graph_copy(r.to, *g, (struct node_id){ i }, in);
	}
	rebuild_finish(&r, g);
}

enum fs_status pass_canonicalize(struct graph **g, struct compile *compile, struct diag *d)
{
	(void)compile;
	(void)d;
	struct rebuild r;
	rebuild_init(&r, *g, STAGE_GLOBAL, "canonicalize");
	struct canon c = { .from = *g, .g = r.to, .map = r.map, .users = count_users(*g, r.reached) };
	for (uint32_t i = 1; i < (*g)->nodes.count; i++)
		if (r.reached[i])
			r.map[i] = rewrite_node(&c, &r, (struct node_id){ i });
	affine_release(&c.affine);
	free(c.users);
	rebuild_finish(&r, g);
	sweep(g);
	return FS_OK;
}
