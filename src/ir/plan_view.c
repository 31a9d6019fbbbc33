/*
 * Views: a value in the memory of another, for one rank.
 *
 * A rule for each view op turns the strides of its operand into its own.  What resolves for the largest
 * shard resolves for every rank: a permuted, sliced or sharded dense value stays dense, or not, whatever
 * the sizes of its dims above 1, and the reshape of something not dense is only taken where all ranks
 * hold the same shape.
 */
#include "plan.h"

#include <string.h>

#define MAX_CHAIN 64 /* views of views; a longer chain is copied */

struct step {
	const struct graph *g;
	struct node_id node, operand;
	const struct type *from, *to;
	const struct mesh *mesh;
	const int32_t *coord;
	bool even; /* every rank holds the same shape of all values so far */
	int64_t shape[MAX_RANK]; /* of the result */
};

typedef bool view_rule(const struct step *s, struct strided *v);

void strided_dense(int rank, const int64_t *shape, struct strided *out)
{
	int64_t stride = 1;
	memset(out, 0, sizeof(*out));
	for (int i = rank - 1; i >= 0; i--) {
		out->shape[i] = shape[i];
		out->stride[i] = stride;
		stride *= shape[i] > 0 ? shape[i] : 1;
	}
}

bool strided_is_dense(int rank, const struct strided *v)
{
	int64_t stride = 1;
	for (int i = 0; i < rank; i++)
		if (v->shape[i] == 0)
			return true;
	for (int i = rank - 1; i >= 0; i--) {
		if (v->shape[i] != 1 && v->stride[i] != stride)
			return false;
		stride *= v->shape[i];
	}
	return true;
}

static struct extent extent_of(const struct step *s, const struct type *t, int dim)
{
	if (s->coord == NULL)
		return (struct extent){ 0, placement_chunk(&t->place, s->mesh, dim, t->dim[dim]) };
	return placement_extent(&t->place, s->mesh, dim, t->dim[dim], s->coord);
}

/* --- reshape --- */

/*
 * Splits v (no dims of size 1) into the dims of the result: runs of old dims and runs of new dims with
 * the same number of elements, where the old run lies in memory like one dim.
 */
static bool split_runs(const int64_t *old_shape, const int64_t *old_stride, int olds, const int64_t *shape, int news,
		       int64_t *stride)
{
	int o = 0, n = 0;
	while (o < olds && n < news) {
		int o_end = o + 1, n_end = n + 1;
		int64_t have = old_shape[o], want = shape[n];
		while (have != want) {
			if (want < have && n_end < news)
				want *= shape[n_end++];
			else if (have < want && o_end < olds)
				have *= old_shape[o_end++];
			else
				return false;
		}
		for (int i = o; i + 1 < o_end; i++)
			if (old_stride[i] != old_stride[i + 1] * old_shape[i + 1])
				return false;
		int64_t step = old_stride[o_end - 1];
		for (int i = n_end - 1; i >= n; i--) {
			stride[i] = step;
			step *= shape[i];
		}
		o = o_end;
		n = n_end;
	}
	for (; n < news; n++) {
		if (shape[n] != 1)
			return false;
		stride[n] = 1;
	}
	return o == olds;
}

static int64_t count_of(int rank, const int64_t *shape)
{
	int64_t count = 1;
	for (int i = 0; i < rank; i++)
		count *= shape[i];
	return count;
}

static bool view_reshape(const struct step *s, struct strided *v)
{
	int64_t old_shape[MAX_RANK], old_stride[MAX_RANK], stride[MAX_RANK] = { 0 }, offset = v->offset;
	int olds = 0;
	if (count_of(s->from->rank, v->shape) != count_of(s->to->rank, s->shape))
		return false;
	if (strided_is_dense(s->from->rank, v)) {
		strided_dense(s->to->rank, s->shape, v);
		v->offset = offset;
		return true;
	}
	for (int i = 0; i < s->from->rank; i++)
		if (v->shape[i] != 1) {
			old_shape[olds] = v->shape[i];
			old_stride[olds++] = v->stride[i];
		}
	if (!s->even || !split_runs(old_shape, old_stride, olds, s->shape, s->to->rank, stride))
		return false;
	memcpy(v->shape, s->shape, sizeof(v->shape));
	memcpy(v->stride, stride, sizeof(v->stride));
	return true;
}

/* --- the others --- */

static bool view_permute(const struct step *s, struct strided *v)
{
	struct strided old = *v;
	const int64_t *dims;
	int rank = graph_ints(s->g, s->node, ATTR_DIMS, &dims);
	for (int i = 0; i < rank; i++) {
		v->shape[i] = old.shape[dims[i]];
		v->stride[i] = old.stride[dims[i]];
	}
	return true;
}

static bool view_expand(const struct step *s, struct strided *v)
{
	for (int i = 0; i < s->to->rank; i++) {
		if (s->from->dim[i] == s->to->dim[i])
			continue;
		if (placement_axes_of(&s->from->place, i) != 0)
			return false; /* the one element is on one rank alone */
		v->shape[i] = s->shape[i];
		v->stride[i] = 0;
	}
	return true;
}

/* A sharded dim can only be taken whole: start and end are global. */
static bool view_slice(const struct step *s, struct strided *v)
{
	int64_t dim = graph_int(s->g, s->node, ATTR_DIM, 0), start = graph_int(s->g, s->node, ATTR_START, 0);
	if (s->from->dim[dim] == s->to->dim[dim])
		return true;
	if (placement_axes_of(&s->from->place, (int)dim) != 0)
		return false;
	v->offset += start * v->stride[dim];
	v->shape[dim] = s->to->dim[dim];
	v->stride[dim] *= graph_int(s->g, s->node, ATTR_STEP, 1);
	return true;
}

static bool view_shard(const struct step *s, struct strided *v)
{
	int dim = (int)graph_int(s->g, s->node, ATTR_DIM, 0);
	struct extent from = extent_of(s, s->from, dim), to = extent_of(s, s->to, dim);
	if (to.size == 0)
		to.start = from.start;
	if (to.start < from.start || to.start + to.size > from.start + from.size)
		return false;
	v->offset += (to.start - from.start) * v->stride[dim];
	v->shape[dim] = to.size;
	return true;
}

static bool view_same(const struct step *s, struct strided *v)
{
	(void)s;
	(void)v;
	return true;
}

static view_rule *const rules[OP_COUNT] = {
	[OP_RESHAPE] = view_reshape, [OP_PERMUTE] = view_permute, [OP_EXPAND] = view_expand,
	[OP_SLICE] = view_slice,     [OP_SHARD] = view_shard,     [OP_BARRIER] = view_same,
};

/* --- chains --- */

static bool is_even(const struct type *t, const struct mesh *m)
{
	for (int i = 0; i < t->rank; i++) {
		int64_t ranks = 1;
		for (int k = 0; k < t->place.count; k++)
			if (t->place.at[k].kind == PART_SHARD && t->place.at[k].dim == i)
				ranks *= m->axis[t->place.at[k].axis].size;
		if (t->dim[i] % ranks != 0)
			return false;
	}
	return true;
}

/* From the operand's strides to the node's; what comes out is the shape that the type says. */
static bool apply(struct step *s, struct strided *v)
{
	view_rule *rule = rules[graph_op(s->g, s->node)];
	s->from = graph_type(s->g, s->operand);
	s->to = graph_type(s->g, s->node);
	s->even = s->even && is_even(s->to, s->mesh);
	type_local_shape(s->to, s->mesh, s->coord, s->shape);
	return rule(s, v) && memcmp(v->shape, s->shape, sizeof(v->shape[0]) * s->to->rank) == 0;
}

/* The views between base and view, nearest to the base last; -1 where there is no such way. */
static int chain_of(const struct graph *g, struct node_id view, struct node_id base, struct node_id chain[MAX_CHAIN])
{
	int count = 0;
	for (struct node_id n = view; n.i != base.i; n = graph_operand(g, n, 0)) {
		if (n.i < base.i || count == MAX_CHAIN || rules[graph_op(g, n)] == NULL || graph_node(g, n)->count != 1)
			return -1;
		chain[count++] = n;
	}
	return count;
}

bool view_resolve(const struct graph *g, struct node_id view, struct node_id base, const int32_t *coord,
		  struct strided *out)
{
	struct node_id chain[MAX_CHAIN];
	int count = chain_of(g, view, base, chain);
	if (count < 0)
		return false;
	struct step s = { .g = g, .operand = base, .mesh = context_mesh(g->context), .coord = coord };
	const struct type *t = graph_type(g, base);
	s.even = is_even(t, s.mesh);
	type_local_shape(t, s.mesh, coord, s.shape);
	strided_dense(t->rank, s.shape, out);
	while (count-- > 0) {
		s.node = chain[count];
		if (!apply(&s, out))
			return false;
		s.operand = s.node;
	}
	return true;
}

bool plan_strided(const struct plan *p, struct node_id n, const int32_t *coord, struct strided *out)
{
	return view_resolve(p->graph, n, plan_root(p, n), coord, out);
}
