/*
 * Classes of one axis: values whose resharding costs the same, ops that cannot be told apart.  Prices,
 * strategies and times are made once a class.
 */
#include "solve_axis.h"

#include <string.h>

/* --- local shapes over the other axes --- */

static int64_t divided(int64_t size, int32_t ranks)
{
	return size / ranks + (size % ranks != 0);
}

/* Divides the dims that the other axes shard; at(axis) gives their label. */
static void shape_over(const struct work *w, const struct type *t, const label *at, int64_t *shape)
{
	memcpy(shape, t->dim, sizeof(*shape) * t->rank);
	for (int a = 0; a < w->s->mesh->count; a++)
		if (is_shard(at[a]))
			shape[at[a] - LABEL_S(0)] = divided(shape[at[a] - LABEL_S(0)], w->s->mesh->axis[a].size);
}

enum which { PRODUCED, HELD, WANT, WANT_OUTPUT };

/* Labels of a value (by node), of an operand place or of an output on all axes but this one. */
static void others_of(const struct work *w, enum which which, uint32_t at, label others[MAX_AXES])
{
	for (int a = 0; a < w->s->mesh->count; a++) {
		const struct axis_labels *l = &w->s->axis[a];
		const label *const all[] = { l->produced, l->held, l->want, l->want_output };
		others[a] = a == w->axis ? LABEL_R : all[which][at];
	}
}

/* --- interning by a key of 64-bit words --- */

struct key_query { const struct work *w; const uint64_t *key; };

static bool same_key(const void *context, uint32_t i)
{
	const struct key_query *q = context;
	const uint64_t *have = q->w->keys.items[i];
	return have[0] == q->key[0] && memcmp(have, q->key, sizeof(*have) * (size_t)have[0]) == 0;
}

static uint64_t pack(const label *at)
{
	uint64_t packed;
	memcpy(&packed, at, sizeof(packed));
	return packed;
}
_Static_assert(MAX_AXES * sizeof(label) == sizeof(uint64_t), "labels of all axes are one word");

/* --- classes of values --- */

static void lower_to(uint64_t *price, uint64_t a, uint64_t b)
{
	if (a + b < *price)
		*price = a + b;
}

/*
 * Partition takes the cheapest path, which may go by way of another label: from a dim of few elements, whose
 * chunks are padded; to codes, once a sum is reduced.
 */
static void go_by_way(struct value_class *c)
{
	int labels = LABEL_S(c->rank);
	for (int by = 0; by < labels; by++)
		for (int p = 0; p < labels; p++)
			for (int q = 0; q < labels; q++)
				lower_to(&c->price[p][q], c->price[p][by], c->price[by][q]);
	for (int p = 0; p < labels; p++)
		for (int q = 0; q < labels; q++) {
			lower_to(&c->codes[p][q], c->price[p][q], 0);
			for (int by = 0; by < labels; by++)
				lower_to(&c->codes[p][q], c->price[p][by], c->codes[by][q]);
		}
}

/* Labels under which chunks are padded. */
static label_set uneven_labels(const int64_t *shape, int rank, int32_t ranks)
{
	label_set set = 0;
	for (int i = 0; i < rank; i++)
		if (shape[i] % ranks != 0)
			set |= (label_set)(1u << LABEL_S(i));
	return set;
}

static uint64_t moved(const struct work *w, const struct value_class *c, bool codes, const int64_t *shape, label p, label q, int32_t ranks)
{
	if (codes && c->wire.dtype != DT_NONE)
		return wire_price(w->s->machine, &c->wire, shape, c->rank, c->item, p, q, ranks);
	return move_price(w->s->machine, shape, c->rank, c->item, p, q, ranks);
}

static uint32_t make_value_class(struct work *w, const struct type *t, const struct wire *wire, const label *others)
{
	struct value_class *c = vec_push(&w->value_classes);
	c->type = t;
	c->wire = *wire;
	memcpy(c->others, others, sizeof(c->others));
	c->rank = t->rank;
	c->item = dtype_size((enum dtype)t->dtype);
	shape_over(w, t, others, c->shape);
	for (int p = 0; p < LABEL_S(t->rank); p++)
		for (int q = 0; q < LABEL_S(t->rank); q++) {
			c->price[p][q] = moved(w, c, false, c->shape, (label)p, (label)q, w->ranks);
			c->codes[p][q] = moved(w, c, true, c->shape, (label)p, (label)q, w->ranks);
		}
	go_by_way(c);
	c->uneven = uneven_labels(c->shape, c->rank, w->ranks);
	return w->value_classes.count - 1;
}

static uint32_t class_of_value(struct work *w, struct node_id n, enum which which, uint32_t at)
{
	label others[MAX_AXES] = { 0 };
	struct wire wire = w->s->wires.value == NULL ? (struct wire){ 0 } : w->s->wires.value[n.i];
	others_of(w, which, at, others);
	uint64_t key[4] = { 4, graph_node(w->s->g, n)->type.i, pack(others),
			    wire.dtype == DT_NONE ? 0 : 1u | (uint64_t)wire.whole << 1 | (uint64_t)wire.spanned << 2 };
	uint64_t hash = hash_bytes(key, sizeof(key), 0);
	struct key_query q = { w, key };
	uint32_t i = hash_find(&w->value_table, hash, same_key, &q);
	if (i == UINT32_MAX) {
		i = w->keys.count;
		uint64_t stored[5] = { key[0], key[1], key[2], key[3], make_value_class(w, graph_type(w->s->g, n), &wire, others) };
		*vec_push(&w->keys) = arena_copy(&w->arena, stored, sizeof(stored));
		hash_insert(&w->value_table, hash, i);
	}
	return (uint32_t)w->keys.items[i][4];
}

uint32_t value_class_of(struct work *w, struct node_id n)
{
	return class_of_value(w, n, PRODUCED, n.i);
}

/* The class of the value under other labels of the other axes; most often they are those it is produced under. */
static uint32_t class_as(struct work *w, struct node_id n, enum which which, uint32_t at)
{
	label produced[MAX_AXES] = { 0 }, others[MAX_AXES] = { 0 };
	others_of(w, PRODUCED, n.i, produced);
	others_of(w, which, at, others);
	return pack(produced) == pack(others) ? w->value_class[n.i] : class_of_value(w, n, which, at);
}

uint32_t held_class_of(struct work *w, struct node_id n)
{
	return class_as(w, n, HELD, n.i);
}

uint32_t wanted_class_of(struct work *w, struct node_id n, uint32_t slot)
{
	return class_as(w, n, WANT, slot);
}

uint32_t output_class_of(struct work *w, uint32_t output)
{
	return class_as(w, w->s->g->outputs.items[output].value, WANT_OUTPUT, output);
}

/* --- edges --- */

static uint64_t plus(uint64_t a, uint64_t b)
{
	return a + b < PRICE_INF ? a + b : PRICE_INF;
}

/* What the other axes pay, one after another, while this one has the value under `own`. */
static uint64_t others_price(const struct work *w, const struct edge *e, bool codes, label own)
{
	uint64_t sum = 0;
	label at[MAX_AXES];
	memcpy(at, e->from->others, sizeof(at));
	at[w->axis] = own;
	for (int a = 0; a < w->s->mesh->count; a++) {
		int64_t shape[MAX_RANK];
		if (a == w->axis || e->from->others[a] == e->to->others[a])
			continue;
		at[a] = LABEL_R;
		shape_over(w, e->from->type, at, shape);
		uint64_t price = moved(w, e->from, codes, shape, e->from->others[a], e->to->others[a], w->s->mesh->axis[a].size);
		sum = plus(sum, price);
		at[a] = e->to->others[a];
	}
	return sum;
}

struct edge edge_make(const struct work *w, uint32_t from_class, uint32_t to_class, bool codes)
{
	const struct value_class *from = &w->value_classes.items[from_class], *to = &w->value_classes.items[to_class];
	struct edge e = { .from = from, .to = to };
	e.before = (const uint64_t (*)[LABEL_COUNT])(codes ? from->codes : from->price);
	e.after = (const uint64_t (*)[LABEL_COUNT])(codes ? to->codes : to->price);
	for (int l = 0; from != to && l < LABEL_S(from->rank); l++)
		e.others[l] = others_price(w, &e, codes, (label)l);
	return e;
}

uint64_t edge_price(const struct edge *e, label from, label to)
{
	uint64_t before = plus(e->before[from][to], e->others[to]), after = plus(e->others[from], e->after[from][to]);
	return before < after ? before : after;
}

/* --- classes of ops --- */

/* Does the strategy use a source as it is pinned: sharded, on this axis? */
static bool uses_pin(const struct work *w, struct node_id n, const label *at)
{
	for (int k = 0; k < graph_node(w->s->g, n)->count; k++) {
		struct node_id x = graph_operand(w->s->g, n, k);
		if (is_shard(at[k]) && op_is_source(graph_op(w->s->g, x)) && w->s->axis[w->axis].produced[x.i] == at[k])
			return true;
	}
	return false;
}

/*
 * A dim smaller than the axis is sharded only where a source was pinned so; not where it is small because
 * another axis shards it: when that axis is solved again, nothing would be left for it.
 */
static bool strategy_allowed(const struct work *w, struct node_id n, const label *at, const int64_t (*shape)[MAX_RANK])
{
	const struct graph *g = w->s->g;
	for (int k = 0; k <= graph_node(g, n)->count; k++) {
		if (!is_shard(at[k]) || shape[k][at[k] - LABEL_S(0)] >= w->ranks)
			continue;
		const struct type *t = graph_type(g, k < graph_node(g, n)->count ? graph_operand(g, n, k) : n);
		return t->dim[at[k] - LABEL_S(0)] == shape[k][at[k] - LABEL_S(0)] && uses_pin(w, n, at);
	}
	return true;
}

/*
 * Exact plans sum over ranks only what sums without rounding: swapped matmuls (in f64), an embedding's
 * rows (all but one are -0), integers.
 */
static bool sum_is_exact(const struct graph *g, struct node_id n)
{
	const char *recipe = graph_string(g, n, ATTR_RECIPE);
	return graph_op(g, n) == OP_EMBEDDING || !dtype_is_float((enum dtype)graph_type(g, n)->dtype) ||
	       (recipe != NULL && strcmp(recipe, "none") != 0);
}

/*
 * Is it also a strategy over the undivided shapes?  Else it shards a minor factor of a dim whose major
 * factor another axis has used up, and the dim would nest in an order that nothing records.
 */
static bool stands_alone(const struct strategies *whole, const label *at)
{
	for (int i = 0; i < whole->count; i++)
		if (memcmp(&whole->at[i * whole->stride], at, (size_t)whole->stride * sizeof(label)) == 0)
			return true;
	return false;
}

/* Drops strategies that may not be; keeps order. */
static void strategies_filter(const struct work *w, struct node_id n, const int64_t (*shape)[MAX_RANK],
			      const struct strategies *whole, struct strategies *all)
{
	int kept = 0;
	if (graph_op(w->s->g, n) == OP_PROJ)
		return; /* as its operand was made */
	for (int i = 0; i < all->count; i++) {
		const label *at = &all->at[i * all->stride];
		if (!strategy_allowed(w, n, at, shape) || !stands_alone(whole, at) ||
		    (w->s->exact && at[all->stride - 1] == LABEL_SUM && !sum_is_exact(w->s->g, n)))
			continue;
		memmove(&all->at[kept * all->stride], &all->at[i * all->stride], (size_t)all->stride * sizeof(label));
		all->divided[kept++] = all->divided[i];
	}
	all->count = kept;
}

/* A constraint on this axis leaves one strategy. */
static void constrain_strategies(const struct work *w, struct node_id n, struct strategies *out)
{
	label l = label_of(graph_placement(w->s->g, n), w->axis);
	out->count = 1;
	out->at[0] = out->at[1] = l;
	out->divided[0] = false;
}

static void node_shapes(const struct work *w, struct node_id n, int64_t (*shape)[MAX_RANK])
{
	const struct node *node = graph_node(w->s->g, n);
	label at[MAX_AXES] = { 0 };
	for (int k = 0; k < node->count; k++) {
		others_of(w, WANT, node->first + (uint32_t)k, at);
		shape_over(w, graph_type(w->s->g, graph_operand(w->s->g, n, k)), at, shape[k]);
	}
	others_of(w, PRODUCED, n.i, at);
	shape_over(w, graph_type(w->s->g, n), at, shape[node->count]);
}

static void global_shapes(const struct graph *g, struct node_id n, int64_t (*shape)[MAX_RANK])
{
	const struct node *node = graph_node(g, n);
	for (int k = 0; k < node->count; k++)
		memcpy(shape[k], graph_type(g, graph_operand(g, n, k))->dim, sizeof(shape[k]));
	memcpy(shape[node->count], graph_type(g, n)->dim, sizeof(shape[0]));
}

static void class_strategies(struct work *w, struct node_id n, int64_t (*shape)[MAX_RANK], struct strategies *out)
{
	const struct graph *g = w->s->g;
	const struct node *node = graph_node(g, n);
	const int64_t (*seen)[MAX_RANK] = (const int64_t (*)[MAX_RANK])shape;
	op_strategies(g, n, seen, w->ranks, w->s->exact, &w->arena, out);
	if (node->op == OP_CONSTRAIN && (graph_int(g, n, ATTR_AXES, 0) >> w->axis & 1)) {
		constrain_strategies(w, n, out);
		return;
	}
	struct strategies whole = *out;
	int64_t (*undivided)[MAX_RANK] = arena_array(&w->arena, node->count + 1u, sizeof(*undivided));
	global_shapes(g, n, undivided);
	if (memcmp(undivided, shape, sizeof(*undivided) * (node->count + 1u)) != 0)
		op_strategies(g, n, (const int64_t (*)[MAX_RANK])undivided, w->ranks, w->s->exact, &w->arena, &whole);
	struct strategies kept = *out;
	kept.at = arena_copy(&w->arena, out->at, (size_t)(out->count * out->stride) * sizeof(label));
	strategies_filter(w, n, seen, &whole, &kept);
	*out = kept;
}

/* The time of a rank that holds the largest shards; `local` is room for their shapes. */
static uint64_t strategy_price(const struct work *w, struct node_id n, const int64_t (*shape)[MAX_RANK], const label *at,
			       int64_t (*local)[MAX_RANK])
{
	for (int k = 0; k <= graph_node(w->s->g, n)->count; k++) {
		memcpy(local[k], shape[k], sizeof(*local));
		if (is_shard(at[k]))
			local[k][at[k] - LABEL_S(0)] = divided(local[k][at[k] - LABEL_S(0)], w->ranks);
	}
	return op_price(w->s->machine, w->s->g, n, (const int64_t (*)[MAX_RANK])local);
}

static uint32_t make_op_class(struct work *w, struct node_id n)
{
	const struct graph *g = w->s->g;
	const struct node *node = graph_node(g, n);
	int64_t (*shape)[MAX_RANK] = arena_array(&w->arena, 2 * (node->count + 1u), sizeof(*shape));
	node_shapes(w, n, shape);
	struct op_class c = { 0 };
	const int64_t (*seen)[MAX_RANK] = (const int64_t (*)[MAX_RANK])shape;
	class_strategies(w, n, shape, &c.strategies);
	c.price = arena_array(&w->arena, (size_t)c.strategies.count + 1, sizeof(*c.price));
	c.wants = arena_array(&w->arena, node->count + 1u, sizeof(*c.wants));
	c.pair = arena_array(&w->arena, (size_t)c.strategies.count + 1, sizeof(*c.pair));
	for (int i = 0; i < c.strategies.count; i++) {
		const label *at = &c.strategies.at[i * c.strategies.stride];
		c.price[i] = strategy_price(w, n, seen, at, shape + node->count + 1);
		c.pair[i][0] = c.pair[i][1] = at[node->count];
		c.made |= (label_set)(1u << at[node->count]);
		for (int k = 0; k < node->count; k++)
			c.wants[k] |= (label_set)(1u << at[k]);
	}
	*vec_push(&w->classes) = c;
	return w->classes.count - 1;
}

/* The words that tell an op from others: op, attributes, types, labels on the other axes, small pins. */
static uint64_t *op_key(struct work *w, struct node_id n)
{
	const struct graph *g = w->s->g;
	const struct node *node = graph_node(g, n);
	uint64_t *key = arena_array(&w->arena, 6 + 3 * (size_t)node->count, sizeof(*key));
	label at[MAX_AXES] = { 0 };
	uint64_t *k = key + 1;
	others_of(w, PRODUCED, n.i, at);
	*k++ = (uint64_t)node->op << 32 | node->attrs.i;
	*k++ = node->type.i;
	*k++ = pack(at);
	for (int i = 0; i < node->count; i++) {
		struct node_id x = graph_operand(g, n, i);
		others_of(w, WANT, node->first + (uint32_t)i, at);
		*k++ = graph_node(g, x)->type.i;
		*k++ = pack(at);
		*k++ = op_is_source(graph_op(g, x)) ? 1u + w->s->axis[w->axis].produced[x.i] : 0;
	}
	key[0] = (uint64_t)(k - key);
	return key;
}

uint32_t op_class_of(struct work *w, struct node_id n)
{
	uint64_t *key = op_key(w, n);
	uint64_t hash = hash_bytes(key, sizeof(*key) * (size_t)key[0], 1);
	struct key_query q = { w, key };
	uint32_t i = hash_find(&w->class_table, hash, same_key, &q);
	if (i == UINT32_MAX) {
		i = w->keys.count;
		*vec_push(&w->keys) = key;
		hash_insert(&w->class_table, hash, i);
		key[key[0]] = make_op_class(w, n); /* room was left for it */
	}
	const uint64_t *found = w->keys.items[i];
	return (uint32_t)found[found[0]];
}
