/*
 * split_vocab: log_softmax and cross-entropy over a vocabulary that is sharded.
 *
 *     %l = log_softmax %x {dim=1}             %m = max %x {dims=[1] keepdim=1}       (x in f32)
 *     %y = gather %l, %label {dim=1}    =>    %z = sub %x, %m
 *                                             %s = sum (exp %z) {dims=[1] keepdim=1}
 *                                             %l = sub %z, (log %s)
 *                                             %h = eq %label, (iota [V])
 *                                             %o = where (and (ge %label, 0), (lt %label, V)), 0, nan
 *                                             %y = sum (where %h, %l, %o) {dims=[1] keepdim=1}
 *
 * So that the logits stay where they are made, and only one number a row is reduced over ranks; and the same
 * of the gradient: scatter of a number into zeros becomes where %h.  Only along the last dim, and only
 * where the logits come from a product with a parameter whose rows of that dim are pinned sharded; not
 * in exact plans.  A label out of range gives nan, not an error: which ends a training run at label_out_of_range.
 *
 * stage global   needs place   numerics reorders (the sum over the vocabulary)
 */
#include "passes.h"

#include <math.h>
#include <stdlib.h>

struct split {
	struct rebuild r;
	bool *vocab;    /* by old id: the last dim is a sharded vocabulary */
	int64_t size;   /* of the vocabulary split last; 0: none was */
};

/* --- which values have a sharded vocabulary --- */

/* Behind casts: the parameter, else the value itself. */
static struct node_id behind_casts(const struct graph *g, struct node_id n)
{
	while (graph_op(g, n) == OP_CAST)
		n = graph_operand(g, n, 0);
	return n;
}

/* Is the last dim of a product that of a parameter, sharded there? */
static bool makes_vocab(const struct graph *g, struct node_id n)
{
	struct equation e;
	struct diag d = { 0 };
	const struct mesh *mesh = context_mesh(g->context);
	if (equation_parse(&e, graph_string(g, n, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	for (int k = 0; k < 2; k++) {
		struct node_id p = behind_casts(g, graph_operand(g, n, k));
		for (int i = 0; graph_op(g, p) == OP_PARAM && i < e.rank[k]; i++)
			if (e.letter[k][i] == e.letter[2][e.rank[2] - 1]) {
				uint32_t axes = placement_axes_of(&graph_type(g, p)->place, i);
				for (int a = 0; a < mesh->count; a++)
					if ((axes >> a & 1) && mesh->axis[a].size > 1)
						return true;
			}
	}
	return false;
}

/* Does the op keep the last dim of its first operand as it is? */
static bool keeps_last(const struct graph *g, struct node_id n)
{
	const struct type *t = graph_type(g, n), *x = graph_type(g, graph_operand(g, n, 0));
	enum op op = graph_op(g, n);
	if (op != OP_RESHAPE && op != OP_CAST && op != OP_LOG_SOFTMAX && !op_is_pointwise(op))
		return false;
	return t->rank > 0 && x->rank > 0 && t->dim[t->rank - 1] == x->dim[x->rank - 1];
}

/* A last dim of which there is a largest element. */
static bool has_last(const struct type *t)
{
	return t->rank > 0 && t->dim[t->rank - 1] > 0;
}

static void find_vocab(struct split *s)
{
	const struct graph *g = s->r.from;
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (graph_op(g, n) == OP_MATMUL)
			s->vocab[i] = has_last(graph_type(g, n)) && makes_vocab(g, n);
		else if (graph_node(g, n)->count > 0)
			s->vocab[i] = s->vocab[graph_operand(g, n, 0).i] && keeps_last(g, n);
	}
}

/* --- building --- */

static struct node_id cast_to(struct split *s, struct node_id x, enum dtype t, struct prov_id prov)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DTYPE, t);
	return graph_type(s->r.to, x)->dtype == t ? x : graph_emit(s->r.to, OP_CAST, &x, 1, &a, prov);
}

static struct node_id one(struct split *s, enum op op, struct node_id x, struct prov_id prov)
{
	return graph_emit(s->r.to, op, &x, 1, NULL, prov);
}

static struct node_id two(struct split *s, enum op op, struct node_id x, struct node_id y, struct prov_id prov)
{
	struct node_id in[2] = { x, y };
	return graph_emit(s->r.to, op, in, 2, NULL, prov);
}

static struct node_id over_last(struct split *s, enum op op, struct node_id x, struct prov_id prov)
{
	struct attrs a = { 0 };
	int64_t last = graph_type(s->r.to, x)->rank - 1;
	attrs_ints(&a, ATTR_DIMS, &last, 1);
	attrs_int(&a, ATTR_KEEPDIM, 1);
	return graph_emit(s->r.to, op, &x, 1, &a, prov);
}

/* Where the last dim's coordinate is the label: bool of the shape of the whole. */
static struct node_id one_hot(struct split *s, struct node_id label, int64_t size, struct prov_id prov)
{
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_START, 0);
	attrs_int(&a, ATTR_STEP, 1);
	attrs_int(&a, ATTR_DTYPE, graph_type(s->r.to, label)->dtype);
	attrs_ints(&a, ATTR_SHAPE, &size, 1);
	return two(s, OP_EQ, label, graph_emit(s->r.to, OP_IOTA, NULL, 0, &a, prov), prov);
}

static struct node_id number(struct split *s, double x, enum dtype t, struct prov_id prov)
{
	struct attrs a = { 0 };
	attrs_float(&a, ATTR_VALUE, x);
	attrs_int(&a, ATTR_DTYPE, t);
	attrs_ints(&a, ATTR_SHAPE, NULL, 0);
	return graph_emit(s->r.to, OP_FILL, NULL, 0, &a, prov);
}

static struct node_id where(struct split *s, struct node_id cond, struct node_id yes, struct node_id no, struct prov_id prov)
{
	struct node_id in[3] = { cond, yes, no };
	return graph_emit(s->r.to, OP_WHERE, in, 3, NULL, prov);
}

/* 0 <= label < size */
static struct node_id in_range(struct split *s, struct node_id label, int64_t size, struct prov_id prov)
{
	enum dtype t = (enum dtype)graph_type(s->r.to, label)->dtype;
	struct node_id from = two(s, OP_GE, label, number(s, 0, t, prov), prov);
	return two(s, OP_LOGICAL_AND, from, two(s, OP_LT, label, number(s, (double)size, t, prov), prov), prov);
}

/* What a message says of the value that is nan where a label is not in range. */
static struct prov_id range_prov(struct split *s, struct node_id n)
{
	struct prov p = *graph_prov(s->r.from, n);
	p.node = context_intern(s->r.from->context, "label_out_of_range");
	p.pass = s->r.pass;
	p.rule = NULL;
	return context_prov(s->r.from->context, &p);
}

/* --- the rewrites --- */

static struct node_id operand(const struct split *s, struct node_id n, int k)
{
	return s->r.map[graph_operand(s->r.from, n, k).i];
}

static struct node_id split_log_softmax(struct split *s, struct node_id n)
{
	struct prov_id prov = rebuild_prov(&s->r, n);
	struct node_id x = cast_to(s, operand(s, n, 0), DT_F32, prov);
	struct node_id z = two(s, OP_SUB, x, over_last(s, OP_REDUCE_MAX, x, prov), prov);
	struct node_id sum = over_last(s, OP_SUM, one(s, OP_EXP, z, prov), prov);
	struct node_id made = two(s, OP_SUB, z, one(s, OP_LOG, sum, prov), prov);
	return cast_to(s, made, (enum dtype)graph_type(s->r.from, n)->dtype, prov);
}

static struct node_id split_gather(struct split *s, struct node_id n)
{
	struct prov_id prov = rebuild_prov(&s->r, n);
	struct node_id x = operand(s, n, 0);
	const struct type *t = graph_type(s->r.to, x);
	enum dtype dtype = (enum dtype)t->dtype;
	int64_t size = t->dim[t->rank - 1];
	struct node_id label = operand(s, n, 1), hot = one_hot(s, label, size, prov);
	struct node_id other = where(s, in_range(s, label, size, prov), number(s, 0, dtype, prov), number(s, NAN, dtype, prov),
				     range_prov(s, n));
	return over_last(s, OP_SUM, where(s, hot, x, other, prov), prov);
}

static struct node_id split_scatter(struct split *s, struct node_id n)
{
	struct prov_id prov = rebuild_prov(&s->r, n);
	struct node_id hot = one_hot(s, operand(s, n, 1), s->size, prov);
	return where(s, hot, operand(s, n, 2), operand(s, n, 0), prov);
}

/* One label a row: the index has the shape of x but for a last dim of 1. */
static bool one_label(const struct graph *g, struct node_id n)
{
	const struct type *x = graph_type(g, graph_operand(g, n, 0)), *index = graph_type(g, graph_operand(g, n, 1));
	if (graph_int(g, n, ATTR_DIM, 0) != x->rank - 1 || index->dim[x->rank - 1] != 1)
		return false;
	for (int dim = 0; dim < x->rank - 1; dim++)
		if (x->dim[dim] != index->dim[dim])
			return false;
	return true;
}

/* A number written into one value everywhere: the gradient of the gather. */
static bool is_one_hot_scatter(const struct split *s, struct node_id n)
{
	const struct graph *g = s->r.from;
	const struct type *t = graph_type(g, n);
	return graph_op(g, n) == OP_SCATTER && s->size > 0 && t->rank > 0 && t->dim[t->rank - 1] == s->size &&
	       graph_op(g, graph_operand(g, n, 0)) == OP_FILL && graph_type(g, graph_operand(g, n, 2))->rank == 0 &&
	       graph_int(g, n, ATTR_ACCUMULATE, 0) == 0 && one_label(g, n);
}

static struct node_id split_node(struct split *s, struct node_id n)
{
	const struct graph *g = s->r.from;
	const struct type *t = graph_type(g, n);
	bool vocab = graph_node(g, n)->count > 0 && s->vocab[graph_operand(g, n, 0).i];
	if (vocab && graph_op(g, n) == OP_LOG_SOFTMAX && graph_int(g, n, ATTR_DIM, 0) == t->rank - 1 && t->dtype != DT_F64) {
		s->size = t->dim[t->rank - 1];
		return split_log_softmax(s, n);
	}
	if (vocab && graph_op(g, n) == OP_GATHER && dtype_is_float((enum dtype)t->dtype) && one_label(g, n))
		return split_gather(s, n);
	if (is_one_hot_scatter(s, n))
		return split_scatter(s, n);
	return rebuild_copy(&s->r, n);
}

static bool any_to_split(const struct graph *g)
{
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (g->nodes.items[i].op == OP_LOG_SOFTMAX || g->nodes.items[i].op == OP_GATHER)
			return true;
	return false;
}

enum fs_status pass_split_vocab(struct graph **g, struct compile *c, struct diag *d)
{
	(void)d;
	if (c->exact || mesh_size(context_mesh((*g)->context)) == 1 || !any_to_split(*g))
		return FS_OK;
	struct split s = { 0 };
	s.vocab = calloc((*g)->nodes.count, sizeof(*s.vocab));
	if (s.vocab == NULL)
		BUG("out of memory");
	rebuild_init(&s.r, *g, STAGE_GLOBAL, "split_vocab");
	find_vocab(&s);
	for (uint32_t i = 1; i < (*g)->nodes.count; i++)
		if (s.r.reached[i])
			s.r.map[i] = split_node(&s, (struct node_id){ i });
	rebuild_finish(&s.r, g);
	free(s.vocab);
	return FS_OK;
}
