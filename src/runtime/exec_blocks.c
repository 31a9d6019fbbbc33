/*
 * Scales by shard on one rank.
 *
 * Where each shard of K (or of any dim) scales its own part, the scales of the whole tensor are an
 * array with an entry a shard.  A rank of the mesh sees one entry; one rank that stands for all of
 * them (plan_on_one_rank) sees n, and which part an entry speaks of follows from the placements of
 * tensor and scales on the mesh that was.  Such a node becomes a few instructions on parts.
 *
 * Only checks run this way; it is right for uneven shards, not fast.
 */
#include "exec_internal.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PARTS 4096 /* of one dim: ranks */

struct part_of_dim { int64_t entry, start, size; };
struct parts { int count; struct part_of_dim at[MAX_PARTS]; };

/* A tensor with scales: blocked[d] says that dim d of the scales has entries for parts. */
struct blocks {
	const struct exec *e;
	const struct type *x, *scale;
	bool blocked[MAX_RANK], any;
	struct parts *parts; /* by dim */
};

/* Operands that are scales, and of what: -1 is the node itself as the scales (amax). */
struct scaling { int scale, of; };

static int scalings(enum op op, struct scaling out[2])
{
	switch (op) {
	case OP_AMAX: out[0] = (struct scaling){ -1, 0 }; return 1;
	case OP_FP8_CAST: out[0] = (struct scaling){ 1, 0 }; return 1;
	case OP_SCALED_MATMUL: out[0] = (struct scaling){ 2, 0 }, out[1] = (struct scaling){ 3, 1 }; return 2;
	default: return 0;
	}
}

static bool is_blocked(const struct type *x, const struct type *scale, int d)
{
	return scale->rank == x->rank && scale->dim[d] > 1 && scale->dim[d] != x->dim[d];
}

static bool any_blocked(const struct type *x, const struct type *scale)
{
	for (int d = 0; d < x->rank; d++)
		if (is_blocked(x, scale, d))
			return true;
	return false;
}

static const struct type *operand_type(const struct exec *e, struct node_id n, int k)
{
	return graph_type(e->graph, k < 0 ? n : graph_operand(e->graph, n, k));
}

/* The scaled product that makes the accumulator of a post_scale; none where something lies between. */
static struct node_id product_behind(const struct exec *e, struct node_id post)
{
	struct node_id n = graph_operand(e->graph, post, 0);
	return graph_op(e->graph, n) == OP_SCALED_MATMUL ? n : NODE_NONE;
}

static bool post_scale_has_blocks(const struct exec *e, struct node_id n)
{
	struct node_id product = product_behind(e, n);
	return node_is(product) && (any_blocked(operand_type(e, product, 0), operand_type(e, n, 1)) ||
				    any_blocked(operand_type(e, product, 1), operand_type(e, n, 2)));
}

bool exec_has_blocks(const struct exec *e, struct node_id n)
{
	struct scaling s[2];
	enum op op = graph_op(e->graph, n);
	int count = scalings(op, s);
	if (e->o.blocks == NULL || (op == OP_SCALED_MATMUL && graph_node(e->graph, n)->count < 4))
		return false;
	if (op == OP_POST_SCALE)
		return post_scale_has_blocks(e, n);
	for (int k = 0; k < count; k++)
		if (any_blocked(operand_type(e, n, s[k].of), operand_type(e, n, s[k].scale)))
			return true;
	return false;
}

/* --- parts --- */

/* The parts of dim d: one for each setting of the axes that shard it on the mesh that was. */
static void find_parts(const struct blocks *b, int d, struct parts *out)
{
	const struct mesh *m = b->e->o.blocks;
	uint32_t axes = placement_axes_of(&b->x->place, d) | placement_axes_of(&b->scale->place, d);
	int32_t coord[MAX_AXES] = { 0 };
	int a;
	out->count = 0;
	do {
		struct extent x = placement_extent(&b->x->place, m, d, b->x->dim[d], coord);
		struct extent s = placement_extent(&b->scale->place, m, d, b->scale->dim[d], coord);
		if (out->count < MAX_PARTS && s.size == 1)
			out->at[out->count++] = (struct part_of_dim){ s.start, x.start, x.size };
		for (a = m->count - 1; a >= 0; a--) {
			if (!(axes >> a & 1))
				continue;
			if (++coord[a] < m->axis[a].size)
				break;
			coord[a] = 0;
		}
	} while (a >= 0);
}

static enum fs_status blocks_init(struct blocks *b, const struct exec *e, const struct type *x,
				  const struct type *scale, struct diag *d)
{
	*b = (struct blocks){ .e = e, .x = x, .scale = scale };
	b->parts = calloc((size_t)x->rank + 1, sizeof(*b->parts));
	if (b->parts == NULL)
		return exec_nomem(d);
	for (int k = 0; k < x->rank; k++) {
		b->blocked[k] = is_blocked(x, scale, k);
		b->any |= b->blocked[k];
		if (b->blocked[k])
			find_parts(b, k, &b->parts[k]);
		else
			b->parts[k] = (struct parts){ .count = 1 };
	}
	return FS_OK;
}

static void blocks_release(struct blocks *b)
{
	free(b->parts);
}

/* The next choice of a part in each dim; false after the last. */
static bool next_choice(const struct blocks *b, int at[MAX_RANK])
{
	for (int d = b->x->rank - 1; d >= 0; d--) {
		if (++at[d] < b->parts[d].count)
			return true;
		at[d] = 0;
	}
	return false;
}

/* The part of the tensor, in units of `unit` elements of a blocked dim. */
static struct view tensor_part(const struct blocks *b, const struct view *x, const int at[MAX_RANK],
			       const int64_t unit[MAX_RANK])
{
	struct view v = *x;
	for (int d = 0; d < v.rank; d++) {
		const struct part_of_dim *p = &b->parts[d].at[at[d]];
		if (b->blocked[d])
			v = exec_part(&v, d, p->size == 0 ? 0 : p->start / unit[d], p->size / unit[d]);
	}
	return v;
}

static struct view scale_part(const struct blocks *b, const struct view *scale, const int at[MAX_RANK])
{
	struct view v = *scale;
	for (int d = 0; d < v.rank; d++)
		if (b->blocked[d])
			v = exec_part(&v, d, b->parts[d].at[at[d]].entry, 1);
	return v;
}

static const int64_t single[MAX_RANK] = { 1, 1, 1, 1, 1, 1, 1, 1 };

/* --- amax: an entry is the largest of its parts --- */

static enum fs_status emit_amax_part(struct exec *e, struct node_id n, const struct view *x, const struct view *entry,
				     bool first, struct diag *d)
{
	struct view part = *entry;
	if (first)
		return exec_emit(e, n, OP_AMAX, 1, x, entry, d);
	TRY(exec_extra(e, DT_F32, entry->rank, entry->shape, &part, d));
	TRY(exec_emit(e, n, OP_AMAX, 1, x, &part, d));
	struct view both[2] = { *entry, part };
	return exec_emit(e, n, OP_MAXIMUM, 2, both, entry, d);
}

/* No part before this one, in any dim, has the entry. */
static bool is_first(const struct blocks *b, const int at[MAX_RANK])
{
	for (int d = 0; d < b->x->rank; d++)
		for (int k = 0; b->blocked[d] && k < at[d]; k++)
			if (b->parts[d].at[k].entry == b->parts[d].at[at[d]].entry)
				return false;
	return true;
}

static enum fs_status emit_amax(struct exec *e, struct node_id n, struct diag *d)
{
	struct blocks b;
	int at[MAX_RANK] = { 0 };
	enum fs_status status;
	TRY(blocks_init(&b, e, operand_type(e, n, 0), graph_type(e->graph, n), d));
	do {
		struct view x = tensor_part(&b, &e->views[graph_operand(e->graph, n, 0).i], at, single);
		struct view entry = scale_part(&b, &e->views[n.i], at);
		status = emit_amax_part(e, n, &x, &entry, is_first(&b, at), d);
	} while (status == FS_OK && next_choice(&b, at));
	blocks_release(&b);
	return status;
}

/* --- casts and products: scales spread over the tensor --- */

static int64_t gcd(int64_t a, int64_t b)
{
	while (b != 0) {
		int64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

/* The largest size that all parts of dim d begin and end at a multiple of. */
static int64_t common_unit(const struct blocks *b, int d)
{
	int64_t unit = b->x->dim[d];
	for (int k = 0; k < b->parts[d].count; k++)
		unit = gcd(unit, gcd(b->parts[d].at[k].start, b->parts[d].at[k].size));
	return unit == 0 ? 1 : unit;
}

/*
 * Scales repeated over the blocked dims of the tensor: an entry for each element, or (dim == `grouped`)
 * for each group of equal size.
 */
static enum fs_status spread(struct exec *e, struct node_id n, const struct blocks *b, const struct view *scale,
			     int grouped, struct view *out, struct diag *d)
{
	int64_t unit[MAX_RANK], shape[MAX_RANK];
	int at[MAX_RANK] = { 0 };
	for (int k = 0; k < b->x->rank; k++) {
		unit[k] = k == grouped && b->blocked[k] ? common_unit(b, k) : 1;
		shape[k] = b->blocked[k] ? b->x->dim[k] / unit[k] : scale->shape[k];
	}
	TRY(exec_extra(e, DT_F32, b->x->rank, shape, out, d));
	do {
		struct view from = scale_part(b, scale, at), to = tensor_part(b, out, at, unit);
		TRY(exec_emit(e, n, OP_COPY, 1, &from, &to, d));
	} while (next_choice(b, at));
	return FS_OK;
}

enum fs_status exec_spread_scale(struct exec *e, struct node_id n, struct node_id x, struct node_id scale, int grouped,
				 struct view *out, struct diag *d)
{
	struct blocks b;
	*out = e->views[scale.i];
	if (e->o.blocks == NULL || !any_blocked(graph_type(e->graph, x), graph_type(e->graph, scale)))
		return FS_OK;
	TRY(blocks_init(&b, e, graph_type(e->graph, x), graph_type(e->graph, scale), d));
	enum fs_status status = spread(e, n, &b, &e->views[scale.i], grouped, out, d);
	blocks_release(&b);
	return status;
}

static enum fs_status emit_cast(struct exec *e, struct node_id n, struct diag *d)
{
	struct node_id x = graph_operand(e->graph, n, 0);
	struct view in[2] = { e->views[x.i] };
	TRY(exec_spread_scale(e, n, x, graph_operand(e->graph, n, 1), -1, &in[1], d));
	return exec_emit(e, n, OP_FP8_CAST, 2, in, &e->views[n.i], d);
}

/* The dim of operand k's letter of K; -1 where K is several letters, or none. */
static int k_dim(const struct exec *e, struct node_id product, int k)
{
	struct equation eq;
	struct diag d = { 0 };
	int found = -1, count = 0;
	if (equation_parse(&eq, graph_string(e->graph, product, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	for (int i = 0; i < eq.rank[k]; i++)
		if (equation_role(&eq, eq.letter[k][i]) == ROLE_K) {
			found = i;
			count++;
		}
	return count == 1 ? found : -1;
}

/* Groups of K can be along one letter alone. */
static bool groups_fit(const struct exec *e, struct node_id product, int k, struct node_id scale)
{
	const struct type *x = operand_type(e, product, k), *s = graph_type(e->graph, scale);
	struct equation eq;
	struct diag d = { 0 };
	if (k_dim(e, product, k) >= 0 || equation_parse(&eq, graph_string(e->graph, product, ATTR_EQ), &d) != FS_OK)
		return true;
	for (int i = 0; i < x->rank; i++)
		if (is_blocked(x, s, i) && equation_role(&eq, eq.letter[k][i]) == ROLE_K)
			return false;
	return true;
}

/* `n` is the product, or the post_scale that scales its result: then the two are done as one. */
static enum fs_status emit_product(struct exec *e, struct node_id n, struct node_id product,
				   const struct node_id scale[2], struct diag *d)
{
	struct view in[4];
	for (int k = 0; k < 2; k++) {
		struct node_id x = graph_operand(e->graph, product, k);
		if (!groups_fit(e, product, k, scale[k]))
			return diag_set(d, FS_UNSUPPORTED, "on one rank: scales by shard of several contracted dims");
		in[k] = e->views[x.i];
		TRY(exec_spread_scale(e, n, x, scale[k], k_dim(e, product, k), &in[2 + k], d));
	}
	TRY(exec_emit(e, n, OP_SCALED_MATMUL, 4, in, &e->views[n.i], d));
	e->work.items[e->work.count - 1].run.node = product;
	return FS_OK;
}

static enum fs_status emit_product_of(struct exec *e, struct node_id n, struct diag *d)
{
	bool post = graph_op(e->graph, n) == OP_POST_SCALE;
	struct node_id product = post ? product_behind(e, n) : n;
	int first = post ? 1 : 2;
	struct node_id scale[2] = { graph_operand(e->graph, n, first), graph_operand(e->graph, n, first + 1) };
	return emit_product(e, n, product, scale, d);
}

enum fs_status exec_emit_blocks(struct exec *e, struct node_id n, struct diag *d)
{
	switch (graph_op(e->graph, n)) {
	case OP_AMAX: return emit_amax(e, n, d);
	case OP_FP8_CAST: return emit_cast(e, n, d);
	default: return emit_product_of(e, n, d);
	}
}
