/*
 * Small random graphs of stage global for tests of placement: every op that has a sharding rule, values with
 * several users, uneven dims and dims smaller than an axis, pins on parameters, inputs and values.
 */
#ifndef FS_TEST_RANDOM_GRAPH_H
#define FS_TEST_RANDOM_GRAPH_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ir.h"

struct random_graph {
	struct graph *g;
	uint64_t seed;
	int names;
	bool hard; /* parameters may be hard */
};

static inline uint32_t draw(struct random_graph *r, uint32_t below)
{
	r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(r->seed >> 33) % below;
}

static inline int64_t draw_size(struct random_graph *r)
{
	static const int64_t sizes[] = { 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 64, 96, 256, 1000, 4096 };
	return sizes[draw(r, sizeof(sizes) / sizeof(sizes[0]))];
}

/* Any, a few, or no axes: each shards a dim. */
static inline struct placement draw_place(struct random_graph *r, int rank)
{
	const struct mesh *m = context_mesh(r->g->context);
	struct placement p = { 0 };
	for (int k = 0; k < m->count && rank > 0; k++)
		if (draw(r, 3) == 0) {
			uint8_t axis = (uint8_t)draw(r, (uint32_t)m->count);
			placement_set(&p, axis, &(struct part){ axis, PART_SHARD, (uint8_t)draw(r, (uint32_t)rank) });
		}
	return p;
}

static inline struct node_id fresh(struct random_graph *r, enum dtype dtype, int rank, const int64_t *dim)
{
	struct type t = type_make(dtype, rank, dim);
	struct attrs a = { 0 };
	char name[16];
	bool param = dtype_is_float(dtype) && draw(r, 2);
	snprintf(name, sizeof(name), "%s%d", param ? "w" : "x", r->names++);
	attrs_string(&a, ATTR_NAME, context_intern(r->g->context, name));
	attrs_int(&a, ATTR_DTYPE, dtype);
	attrs_ints(&a, ATTR_SHAPE, dim, rank);
	t.place = draw_place(r, rank);
	uint32_t sharded = 0;
	for (int i = 0; i < t.place.count; i++)
		sharded |= 1u << t.place.at[i].axis;
	if (param && r->hard && sharded != 0 && draw(r, 3) == 0)
		attrs_int(&a, ATTR_HARD, sharded);
	return graph_emit_typed(r->g, param ? OP_PARAM : OP_INPUT, NULL, 0, &a, &t, (struct prov_id){ 0 });
}

static inline const struct type *type_at(const struct random_graph *r, struct node_id n)
{
	return graph_type(r->g, n);
}

/* A float value of so many dims that is there, the last ones more often; or a new one. */
static inline struct node_id some(struct random_graph *r, int least, int most)
{
	for (int tries = 0; tries < 8 && r->g->nodes.count > 1; tries++) {
		uint32_t n = r->g->nodes.count - 1, a = draw(r, n), b = draw(r, n);
		struct node_id x = { 1 + (a > b ? a : b) };
		const struct type *t = type_at(r, x);
		if (dtype_is_float((enum dtype)t->dtype) && t->rank >= least && t->rank <= most)
			return x;
	}
	int rank = least + (int)draw(r, (uint32_t)(most - least + 1));
	int64_t dim[MAX_RANK];
	for (int i = 0; i < rank; i++)
		dim[i] = draw_size(r);
	return fresh(r, draw(r, 2) ? DT_F32 : DT_BF16, rank, dim);
}

/* A value of just this type: now and then one that is there. */
static inline struct node_id just(struct random_graph *r, enum dtype dtype, int rank, const int64_t *dim)
{
	for (uint32_t i = r->g->nodes.count - 1; i > 0 && draw(r, 4) > 0; i--) {
		const struct type *t = type_at(r, (struct node_id){ i });
		if (t->dtype == dtype && t->rank == rank && memcmp(t->dim, dim, sizeof(*dim) * (size_t)rank) == 0)
			return (struct node_id){ i };
	}
	return fresh(r, dtype, rank, dim);
}

static inline struct node_id made(struct random_graph *r, enum op op, int count, const struct node_id *in, const struct attrs *a)
{
	struct node_id n = NODE_NONE;
	struct diag d = { 0 };
	struct attrs none = { 0 };
	enum fs_status s = graph_try_emit(r->g, op, in, count, a != NULL ? a : &none, (struct prov_id){ 0 }, &n, &d);
	ck_assert_msg(s == FS_OK, "%s: %s", op_text(op), d.text);
	return n;
}

/* --- one maker a family of ops --- */

static inline void make_unary(struct random_graph *r)
{
	static const enum op ops[] = { OP_RELU, OP_NEG, OP_EXP, OP_COPY, OP_SILU, OP_CAST };
	struct node_id x = some(r, 0, 4);
	struct attrs a = { 0 };
	enum op op = ops[draw(r, 6)];
	if (op == OP_CAST)
		attrs_int(&a, ATTR_DTYPE, draw(r, 2) ? DT_BF16 : DT_F32);
	made(r, op, 1, &x, &a);
}

/* Leading dims left out, dims made 1. */
static inline int broadcast_shape(struct random_graph *r, const struct type *t, int64_t *dim)
{
	int skip = t->rank > 0 && draw(r, 3) == 0 ? (int)draw(r, t->rank) : 0;
	for (int i = skip; i < t->rank; i++)
		dim[i - skip] = draw(r, 5) == 0 ? 1 : t->dim[i];
	return t->rank - skip;
}

static inline void make_binary(struct random_graph *r)
{
	static const enum op ops[] = { OP_ADD, OP_SUB, OP_MUL, OP_MAXIMUM, OP_DIV, OP_ADD };
	struct node_id in[2] = { some(r, 0, 4) };
	struct type t = *type_at(r, in[0]);
	int64_t dim[MAX_RANK] = { 0 };
	int rank = broadcast_shape(r, &t, dim);
	in[1] = draw(r, 8) == 0 ? in[0] : just(r, (enum dtype)t.dtype, rank, dim);
	made(r, ops[draw(r, 6)], 2, in, NULL);
}

static inline void make_where(struct random_graph *r)
{
	struct node_id in[3] = { NODE_NONE, some(r, 1, 3) };
	struct type t = *type_at(r, in[1]);
	in[0] = just(r, DT_BOOL, t.rank, t.dim);
	in[2] = just(r, (enum dtype)t.dtype, t.rank, t.dim);
	made(r, OP_WHERE, 3, in, NULL);
}

static inline void make_matmul(struct random_graph *r)
{
	static const struct { const char *eq; int ranks[2]; int8_t same[3]; } forms[] = { /* same: dim of b that is dim i of a */
		{ "mk,nk->mn", { 2, 2 }, { -1, 1 } },	 { "mk,kn->mn", { 2, 2 }, { -1, 0 } },
		{ "km,kn->mn", { 2, 2 }, { 0, -1 } },	 { "bmk,nk->bmn", { 3, 2 }, { -1, -1, 1 } },
		{ "bmk,bnk->bmn", { 3, 3 }, { 0, -1, 2 } }, { "bmk,bmn->kn", { 3, 3 }, { 0, 1, -1 } },
	};
	int f = (int)draw(r, 6);
	struct node_id in[2] = { some(r, forms[f].ranks[0], forms[f].ranks[0]) };
	struct type t = *type_at(r, in[0]);
	int64_t dim[MAX_RANK];
	for (int i = 0; i < forms[f].ranks[1]; i++)
		dim[i] = draw(r, 3) ? 16 : draw_size(r);
	for (int i = 0; i < forms[f].ranks[0]; i++)
		if (forms[f].same[i] >= 0)
			dim[forms[f].same[i]] = t.dim[i];
	in[1] = just(r, (enum dtype)t.dtype, forms[f].ranks[1], dim);
	struct attrs a = { 0 };
	attrs_string(&a, ATTR_EQ, context_intern(r->g->context, forms[f].eq));
	made(r, OP_MATMUL, 2, in, &a);
}

static inline void make_reshape(struct random_graph *r)
{
	struct node_id x = some(r, 1, 4);
	struct type t = *type_at(r, x);
	int64_t dim[MAX_RANK], least = 2;
	int at = (int)draw(r, t.rank), rank = 0;
	bool merge = at + 1 < t.rank && draw(r, 2);
	while (!merge && least < 40 && (t.dim[at] % least != 0 || draw(r, 3) == 0))
		least++;
	for (int i = 0; i < t.rank; i++) {
		dim[rank++] = t.dim[i];
		if (i == at && merge)
			dim[rank - 1] *= t.dim[++i];
		else if (i == at && t.dim[at] % least == 0) {
			dim[rank - 1] /= least;
			dim[rank++] = least;
		}
	}
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_SHAPE, dim, rank);
	made(r, OP_RESHAPE, 1, &x, &a);
}

static inline void make_view(struct random_graph *r)
{
	struct node_id x = some(r, 1, 4);
	struct type t = *type_at(r, x);
	int64_t v[MAX_RANK], at = draw(r, t.rank);
	struct attrs a = { 0 };
	switch (draw(r, 3)) {
	case 0:
		for (int i = 0; i < t.rank; i++)
			v[i] = (i + at) % t.rank;
		attrs_ints(&a, ATTR_DIMS, v, t.rank);
		made(r, OP_PERMUTE, 1, &x, &a);
		return;
	case 1:
		for (int i = 0; i < t.rank; i++)
			v[i] = t.dim[i] == 1 ? 1 + draw(r, 6) : t.dim[i];
		attrs_ints(&a, ATTR_SHAPE, v, t.rank);
		made(r, OP_EXPAND, 1, &x, &a);
		return;
	default:
		attrs_int(&a, ATTR_DIM, at);
		attrs_int(&a, ATTR_START, draw(r, 2) * (t.dim[at] / 2));
		attrs_int(&a, ATTR_END, t.dim[at]);
		made(r, OP_SLICE, 1, &x, &a);
	}
}

static inline void make_cat(struct random_graph *r)
{
	struct node_id in[3] = { some(r, 1, 3) };
	struct type t = *type_at(r, in[0]);
	int64_t at = draw(r, t.rank);
	int count = 2 + (int)draw(r, 2);
	for (int k = 1; k < count; k++) {
		t.dim[at] = draw(r, 2) ? t.dim[at] : draw_size(r);
		in[k] = just(r, (enum dtype)t.dtype, t.rank, t.dim);
	}
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DIM, at);
	made(r, OP_CAT, count, in, &a);
}

static inline void make_reduce(struct random_graph *r)
{
	static const enum op ops[] = { OP_SUM, OP_MEAN, OP_REDUCE_MAX, OP_REDUCE_MIN, OP_NORM, OP_ARGMAX, OP_PROD };
	enum op op = ops[draw(r, 7)];
	struct node_id x = some(r, 1, 4);
	struct type t = *type_at(r, x);
	int64_t dims[MAX_RANK];
	int count = 0;
	for (int i = 0; i < t.rank; i++)
		if (draw(r, 2))
			dims[count++] = i;
	if (count == 0 || op == OP_ARGMAX) {
		count = 1;
		dims[0] = draw(r, t.rank);
	}
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_DIMS, dims, count);
	attrs_int(&a, ATTR_KEEPDIM, draw(r, 2));
	if (op == OP_NORM)
		attrs_float(&a, ATTR_ORD, 2);
	made(r, op, 1, &x, &a);
}

/* Of what is wider than 0: any and all. */
static inline void make_truth(struct random_graph *r)
{
	struct node_id x = some(r, 1, 3);
	struct type t = *type_at(r, x);
	struct node_id in[2] = { x, just(r, (enum dtype)t.dtype, t.rank, t.dim) };
	struct node_id c = made(r, OP_GT, 2, in, NULL);
	int64_t dim = draw(r, t.rank);
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_DIMS, &dim, 1);
	made(r, draw(r, 2) ? OP_ANY : OP_ALL, 1, &c, &a);
}

static inline void make_along(struct random_graph *r)
{
	static const enum op ops[] = { OP_SOFTMAX, OP_LOG_SOFTMAX, OP_CUMSUM, OP_TOPK, OP_SORT };
	enum op op = ops[draw(r, 5)];
	struct node_id x = some(r, 1, 4);
	struct type t = *type_at(r, x);
	int64_t at = draw(r, t.rank);
	struct attrs a = { 0 }, second = { 0 };
	attrs_int(&a, ATTR_DIM, at);
	if (op == OP_TOPK)
		attrs_int(&a, ATTR_K, t.dim[at] > 2 ? 2 : t.dim[at]);
	struct node_id n = made(r, op, 1, &x, &a);
	if (op == OP_CUMSUM || op == OP_SOFTMAX || op == OP_LOG_SOFTMAX)
		return;
	attrs_int(&second, ATTR_INDEX, 1);
	made(r, OP_PROJ, 1, &n, &second);
}

static inline void make_norm(struct random_graph *r)
{
	struct node_id in[3] = { some(r, 2, 4) };
	struct type t = *type_at(r, in[0]);
	int64_t last = t.rank - 1;
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_DIMS, &last, 1);
	attrs_float(&a, ATTR_EPS, 1e-5);
	if (draw(r, 2)) {
		made(r, OP_RMS_NORM, 1, in, &a);
		return;
	}
	for (int k = 1; k < 3; k++)
		in[k] = just(r, (enum dtype)t.dtype, 1, &t.dim[last]);
	made(r, OP_LAYER_NORM, 1 + (int)draw(r, 3), in, &a);
}

static inline void make_triangle(struct random_graph *r)
{
	struct node_id x = some(r, 2, 4);
	made(r, draw(r, 2) ? OP_TRIU : OP_TRIL, 1, &x, NULL);
}

static inline void make_lookup(struct random_graph *r)
{
	struct node_id in[2] = { some(r, 2, 3) };
	struct type t = *type_at(r, in[0]);
	int64_t ids[2] = { draw_size(r), draw_size(r) }, at = draw(r, t.rank);
	struct attrs a = { 0 };
	if (draw(r, 2)) {
		in[1] = just(r, DT_I64, 1 + (int)draw(r, 2), ids);
		made(r, OP_EMBEDDING, 2, in, NULL);
		return;
	}
	t.dim[at] = draw_size(r);
	attrs_int(&a, ATTR_DIM, at);
	in[1] = just(r, DT_I64, t.rank, t.dim);
	made(r, OP_GATHER, 2, in, &a);
}

static inline void make_index(struct random_graph *r)
{
	struct node_id in[4] = { some(r, 2, 3) };
	struct type t = *type_at(r, in[0]);
	int64_t many = draw_size(r), dims[2] = { 0, t.rank - 1 };
	int count = 1 + (int)draw(r, 2);
	dims[0] = count == 1 ? draw(r, t.rank) : 0;
	for (int k = 0; k < count; k++)
		in[1 + k] = just(r, DT_I64, 1, &many);
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_DIMS, dims, count);
	struct node_id n = made(r, OP_INDEX, 1 + count, in, &a);
	if (draw(r, 2))
		return;
	struct type v = *type_at(r, n);
	in[1 + count] = just(r, (enum dtype)v.dtype, v.rank, v.dim);
	made(r, OP_INDEX_PUT, 2 + count, in, &a);
}

static inline void make_scatter(struct random_graph *r)
{
	struct node_id in[3] = { some(r, 1, 3) };
	struct type t = *type_at(r, in[0]);
	int64_t at = draw(r, t.rank);
	t.dim[at] = draw_size(r);
	in[1] = just(r, DT_I64, t.rank, t.dim);
	in[2] = just(r, (enum dtype)t.dtype, t.rank, t.dim);
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_DIM, at);
	attrs_int(&a, ATTR_ACCUMULATE, 1);
	made(r, OP_SCATTER, 3, in, &a);
}

static inline void make_sdpa(struct random_graph *r)
{
	int64_t batch = 1 + draw(r, 4), heads = 1 + draw(r, 4), group = 1 + draw(r, 3), rows = draw_size(r), keys = draw_size(r);
	int64_t q[4] = { batch, heads * group, rows, 8 }, k[4] = { batch, heads, keys, 8 }, mask[2] = { rows, keys };
	struct node_id in[4] = { just(r, DT_F32, 4, q), just(r, DT_F32, 4, k), just(r, DT_F32, 4, k), just(r, DT_BOOL, 2, mask) };
	struct attrs a = { 0 };
	attrs_float(&a, ATTR_SCALE, 0.5);
	bool masked = draw(r, 2);
	if (!masked && rows == keys)
		attrs_int(&a, ATTR_CAUSAL, 1);
	made(r, OP_SDPA, masked ? 4 : 3, in, &a);
}

static inline void make_constraint(struct random_graph *r)
{
	struct node_id x = some(r, 1, 4);
	struct placement p = draw_place(r, type_at(r, x)->rank);
	struct attrs a = { 0 };
	attrs_int(&a, ATTR_AXES, 1 + (int64_t)draw(r, (1u << context_mesh(r->g->context)->count) - 1));
	struct placement kept = { 0 };
	for (int i = 0; i < p.count; i++)
		if (graph_type(r->g, x)->rank > 0 && a.at[0].u.i >> p.at[i].axis & 1)
			placement_set(&kept, p.at[i].axis, &p.at[i]);
	attrs_placement(&a, &kept);
	made(r, OP_CONSTRAIN, 1, &x, &a);
}

typedef void graph_maker(struct random_graph *r);
static graph_maker *const graph_makers[] = {
	make_matmul, make_matmul, make_matmul, make_binary,   make_binary, make_unary,  make_where,  make_reshape,
	make_view,   make_view,   make_cat,    make_reduce,   make_truth,  make_along,  make_norm,   make_triangle,
	make_lookup, make_index,  make_scatter, make_sdpa,    make_constraint,
};

/* Some values are outputs: all that nothing uses, and a few others. */
static inline void random_outputs(struct random_graph *r)
{
	struct uses u = uses_make(r->g);
	for (uint32_t i = 1; i < r->g->nodes.count; i++) {
		char name[16];
		bool source = op_is_source((enum op)r->g->nodes.items[i].op), used = u.first[i + 1] > u.first[i];
		if (used ? draw(r, 6) > 0 : source)
			continue;
		snprintf(name, sizeof(name), "y%u", i);
		graph_output(r->g, &(struct output){ { i }, context_intern(r->g->context, name), NULL, OUT_USER });
	}
	uses_release(&u);
}

/* A graph of so many makers' ops, whatever the seed is. */
static inline struct graph *random_graph(struct context *c, uint64_t seed, int ops, bool hard)
{
	struct random_graph r = { graph_create(c, STAGE_GLOBAL), seed * 7919 + 1, 0, hard };
	for (int i = 0; i < ops; i++)
		graph_makers[draw(&r, sizeof(graph_makers) / sizeof(graph_makers[0]))](&r);
	random_outputs(&r);
	return r.g;
}

#endif
