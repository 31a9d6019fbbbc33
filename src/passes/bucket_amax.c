/*
 * bucket_amax: reduce all amaxes that are ready together in one all-reduce.
 *
 *     %a = all_reduce %x {max}                  %c = cat %x, %y          (each reshaped to one dim)
 *     %b = all_reduce %y {max}         =>       %r = all_reduce %c {max}
 *                                               %a = slice %r …          %b = slice %r …
 *
 * Ready together: the same axes, as many amax reductions before them on their longest path, and both
 * hang on what changes from step to step or both do not (weights that are not trained: those run once, in setup).
 * Amaxes sharded over other axes stay alone.  Nodes are put in the order of that count, so that a
 * bucket stands before all its users.
 *
 * stage fp8   needs swap_fp8   numerics exact
 */
#include "passes.h"
#include "plan.h"

#include <stdlib.h>

struct bucket {
	uint32_t level;
	bool varies;
	int64_t axes;
	VEC(struct node_id) members;
	bool emitted;
};

struct bucketing {
	const struct graph *g;
	struct rebuild r;
	uint32_t *level;  /* by node: amax reductions before it */
	bool *varies;     /* by node: hangs on an input, or on a parameter or buffer that changes */
	uint32_t *bucket; /* by node, all_reduces of amaxes: 1 + index */
	VEC(struct bucket) buckets;
};

/* An all_reduce of maxima with no shards: its members may be laid one after another. */
static bool is_bucketable(const struct graph *g, struct node_id n)
{
	if (graph_op(g, n) != OP_ALL_REDUCE || graph_op(g, graph_operand(g, n, 0)) != OP_AMAX)
		return false;
	return graph_type(g, n)->place.count == 0;
}

static bool find_levels(struct bucketing *b)
{
	const struct graph *g = b->g;
	bool any = false;
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		b->varies[i] |= graph_op(g, n) == OP_INPUT;
		for (int k = 0; k < graph_node(g, n)->count; k++) {
			uint32_t before = b->level[graph_operand(g, n, k).i];
			b->level[i] = before > b->level[i] ? before : b->level[i];
			b->varies[i] |= b->varies[graph_operand(g, n, k).i];
		}
		if (is_bucketable(g, n)) {
			b->level[i]++;
			any = true;
		}
	}
	return any;
}

static uint32_t bucket_of(struct bucketing *b, struct node_id n)
{
	uint32_t level = b->level[n.i];
	int64_t axes = graph_int(b->g, n, ATTR_AXES, 0);
	for (uint32_t i = b->buckets.count; i-- > 0 && b->buckets.items[i].level == level;)
		if (b->buckets.items[i].varies == b->varies[n.i] && b->buckets.items[i].axes == axes)
			return i;
	struct bucket *made = vec_push(&b->buckets);
	made->level = level;
	made->varies = b->varies[n.i];
	made->axes = axes;
	return b->buckets.count - 1;
}

/* Nodes by level, then id: a counting sort. */
static uint32_t *order_by_level(const struct bucketing *b)
{
	uint32_t n = b->g->nodes.count, levels = 0;
	for (uint32_t i = 1; i < n; i++)
		levels = b->level[i] > levels ? b->level[i] : levels;
	uint32_t *start = calloc(levels + 2u, sizeof(*start)), *order = calloc(n, sizeof(*order));
	if (start == NULL || order == NULL)
		BUG("out of memory");
	for (uint32_t i = 1; i < n; i++)
		start[b->level[i] + 1]++;
	for (uint32_t l = 1; l <= levels; l++)
		start[l] += start[l - 1];
	for (uint32_t i = 1; i < n; i++)
		order[start[b->level[i]]++] = i;
	free(start);
	return order;
}

static void collect(struct bucketing *b, const uint32_t *order)
{
	for (uint32_t k = 0; k + 1 < b->g->nodes.count; k++) {
		struct node_id n = { order[k] };
		if (!b->r.reached[n.i] || !is_bucketable(b->g, n))
			continue;
		uint32_t i = bucket_of(b, n);
		*vec_push(&b->buckets.items[i].members) = n;
		b->bucket[n.i] = i + 1;
	}
}

static struct node_id emit_typed(struct bucketing *b, enum op op, struct node_id x, const struct attrs *a,
				 const struct type *t, struct prov_id prov)
{
	return graph_emit_typed(b->r.to, op, &x, 1, a, t, prov);
}

static struct node_id flat(struct bucketing *b, struct node_id x, struct prov_id prov)
{
	const struct type *t = graph_type(b->r.to, x);
	int64_t count = type_count(t);
	struct type made = type_make(DT_F32, 1, &count);
	made.place = t->place;
	struct attrs a = { 0 };
	attrs_ints(&a, ATTR_SHAPE, made.dim, 1);
	return emit_typed(b, OP_RESHAPE, x, &a, &made, prov);
}

static struct node_id unflat(struct bucketing *b, struct node_id all, int64_t start, const struct type *t, struct prov_id prov)
{
	int64_t count = type_count(t);
	struct type piece = type_make(DT_F32, 1, &count);
	struct attrs a = { 0 }, s = { 0 };
	attrs_int(&a, ATTR_DIM, 0);
	attrs_int(&a, ATTR_START, start);
	attrs_int(&a, ATTR_END, start + count);
	struct node_id x = emit_typed(b, OP_SLICE, all, &a, &piece, prov);
	attrs_ints(&s, ATTR_SHAPE, t->dim, t->rank);
	return emit_typed(b, OP_RESHAPE, x, &s, t, prov);
}

static struct node_id reduce_all(struct bucketing *b, const struct bucket *bucket, struct prov_id prov)
{
	struct node_id *in = calloc(bucket->members.count, sizeof(*in));
	if (in == NULL)
		BUG("out of memory");
	int64_t total = 0;
	struct attrs dim = { 0 }, a;
	attrs_int(&dim, ATTR_DIM, 0);
	for (uint32_t i = 0; i < bucket->members.count; i++) {
		struct node_id n = bucket->members.items[i];
		in[i] = flat(b, b->r.map[graph_operand(b->g, n, 0).i], graph_node(b->g, n)->prov);
		total += type_count(graph_type(b->r.to, in[i]));
	}
	struct type t = type_make(DT_F32, 1, &total);
	t.place = graph_type(b->r.to, in[0])->place;
	struct node_id all = graph_emit_typed(b->r.to, OP_CAT, in, (int)bucket->members.count, &dim, &t, prov);
	free(in);
	t.place = (struct placement){ 0 };
	graph_attrs(b->g, bucket->members.items[0], &a);
	return emit_typed(b, OP_ALL_REDUCE, all, &a, &t, prov);
}

/* At its first member, all of whose companions' operands are of a lower level and so are there. */
static void emit_bucket(struct bucketing *b, struct bucket *bucket)
{
	struct node_id first = bucket->members.items[0];
	bucket->emitted = true;
	if (bucket->members.count == 1) {
		b->r.map[first.i] = rebuild_copy(&b->r, first);
		return;
	}
	struct node_id all = reduce_all(b, bucket, rebuild_prov(&b->r, first));
	int64_t start = 0;
	for (uint32_t i = 0; i < bucket->members.count; i++) {
		struct node_id n = bucket->members.items[i];
		const struct type *t = graph_type(b->g, n);
		b->r.map[n.i] = unflat(b, all, start, t, graph_node(b->g, n)->prov);
		start += type_count(t);
	}
}

static void rebuild_in_order(struct bucketing *b, const uint32_t *order)
{
	for (uint32_t k = 0; k + 1 < b->g->nodes.count; k++) {
		struct node_id n = { order[k] };
		if (!b->r.reached[n.i])
			continue;
		if (b->bucket[n.i] == 0)
			b->r.map[n.i] = rebuild_copy(&b->r, n);
		else if (!b->buckets.items[b->bucket[n.i] - 1].emitted)
			emit_bucket(b, &b->buckets.items[b->bucket[n.i] - 1]);
	}
}

enum fs_status pass_bucket_amax(struct graph **g, struct compile *c, struct diag *d)
{
	(void)c;
	(void)d;
	struct bucketing b = { .g = *g };
	b.level = calloc((*g)->nodes.count, sizeof(*b.level));
	b.bucket = calloc((*g)->nodes.count, sizeof(*b.bucket));
	b.varies = plan_mutated(*g);
	if (b.level == NULL || b.bucket == NULL)
		BUG("out of memory");
	if (find_levels(&b)) {
		uint32_t *order = order_by_level(&b);
		rebuild_init(&b.r, *g, (*g)->stage, "bucket_amax");
		collect(&b, order);
		rebuild_in_order(&b, order);
		rebuild_finish(&b.r, g);
		free(order);
	}
	for (uint32_t i = 0; i < b.buckets.count; i++)
		vec_release(&b.buckets.items[i].members);
	vec_release(&b.buckets);
	free(b.level);
	free(b.varies);
	free(b.bucket);
	return FS_OK;
}
