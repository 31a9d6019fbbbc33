/*
 * Packing by several simple methods, the best of which is taken; each is only tried where those before
 * it are not near the bound already.  In program order, best fit among the holes, which suits values that
 * die in the order of their making; the same backwards in time; and in an order of its own, each value at the
 * lowest place that is free as long as it lives: the largest first, then again and again with the value
 * that came out highest placed earlier, or from another start, as long as a budget of comparisons lasts.
 */
#include "pack.h"

#include <stdlib.h>
#include <string.h>

#define BUDGET 4000000 /* comparisons of placing in an order: some milliseconds */
#define NEAR 128       /* a packing this part above the bound is good enough */

struct hole { int64_t offset, bytes; };

struct heap {
	VEC(struct hole) holes; /* by offset, none next to another */
	int64_t end;
};

static int64_t round_up(int64_t n, int64_t align)
{
	return (n + align - 1) / align * align;
}

/* --- holes --- */

static void remove_hole(struct heap *h, uint32_t i)
{
	h->holes.count--;
	memmove(&h->holes.items[i], &h->holes.items[i + 1], sizeof(struct hole) * (h->holes.count - i));
}

static void insert_hole(struct heap *h, uint32_t i, struct hole hole)
{
	vec_push(&h->holes);
	memmove(&h->holes.items[i + 1], &h->holes.items[i], sizeof(struct hole) * (h->holes.count - 1 - i));
	h->holes.items[i] = hole;
}

/* The smallest hole that is large enough, the lowest of equals; UINT32_MAX where there is none. */
static uint32_t best_hole(const struct heap *h, int64_t bytes)
{
	uint32_t best = UINT32_MAX;
	for (uint32_t i = 0; i < h->holes.count; i++) {
		int64_t has = h->holes.items[i].bytes;
		if (has >= bytes && (best == UINT32_MAX || has < h->holes.items[best].bytes))
			best = i;
	}
	return best;
}

/* From the end, which a last hole may reach. */
static int64_t grow(struct heap *h, int64_t bytes)
{
	uint32_t last = h->holes.count - 1;
	int64_t offset = h->end;
	if (h->holes.count > 0 && h->holes.items[last].offset + h->holes.items[last].bytes == h->end) {
		offset = h->holes.items[last].offset;
		remove_hole(h, last);
	}
	h->end = offset + bytes;
	return offset;
}

static int64_t take(struct heap *h, int64_t bytes)
{
	uint32_t i = best_hole(h, bytes);
	if (i == UINT32_MAX)
		return grow(h, bytes);
	struct hole *hole = &h->holes.items[i];
	int64_t offset = hole->offset;
	hole->offset += bytes;
	hole->bytes -= bytes;
	if (hole->bytes == 0)
		remove_hole(h, i);
	return offset;
}

static void give(struct heap *h, int64_t offset, int64_t bytes)
{
	uint32_t i = 0, high = h->holes.count;
	while (i < high) {
		uint32_t middle = (i + high) / 2;
		if (h->holes.items[middle].offset < offset)
			i = middle + 1;
		else
			high = middle;
	}
	struct hole made = { offset, bytes };
	if (i < h->holes.count && offset + bytes == h->holes.items[i].offset) {
		made.bytes += h->holes.items[i].bytes;
		remove_hole(h, i);
	}
	if (i > 0 && h->holes.items[i - 1].offset + h->holes.items[i - 1].bytes == offset)
		h->holes.items[i - 1].bytes += made.bytes;
	else
		insert_hole(h, i, made);
}

/* --- orders; `key` sorts up, equal keys by place --- */

struct sorted { uint64_t key; uint32_t i; };

static int by_key(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;
	return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->i > y->i) - (x->i < y->i);
}

static uint64_t key_from(const struct packed *p) { return p->from; }
static uint64_t key_to(const struct packed *p) { return p->to; }
static uint64_t key_from_back(const struct packed *p) { return UINT32_MAX - p->from; }
static uint64_t key_to_back(const struct packed *p) { return UINT32_MAX - p->to; }
static uint64_t key_largest(const struct packed *p) { return UINT64_MAX - (uint64_t)p->bytes; }

static struct sorted *sorted_by(const struct packed *at, uint32_t count, uint64_t (*key)(const struct packed *p))
{
	struct sorted *order = malloc(sizeof(*order) * ((size_t)count + 1));
	if (order == NULL)
		BUG("out of memory");
	for (uint32_t i = 0; i < count; i++)
		order[i] = (struct sorted){ key(&at[i]), i };
	qsort(order, count, sizeof(*order), by_key);
	return order;
}

/* --- program order, forwards or backwards --- */

static int64_t sweep(struct packed *at, uint32_t count, bool back)
{
	struct sorted *begin = sorted_by(at, count, back ? key_to_back : key_from);
	struct sorted *end = sorted_by(at, count, back ? key_from_back : key_to);
	struct heap h = { .end = 0 };
	for (uint32_t i = 0, gone = 0; i < count; i++) {
		for (; end[gone].key < begin[i].key; gone++)
			give(&h, at[end[gone].i].offset, at[end[gone].i].bytes);
		at[begin[i].i].offset = take(&h, at[begin[i].i].bytes);
	}
	free(begin);
	free(end);
	vec_release(&h.holes);
	return h.end;
}

static int64_t sweep_forward(struct packed *at, uint32_t count, int64_t good)
{
	(void)good;
	return sweep(at, count, false);
}

static int64_t sweep_back(struct packed *at, uint32_t count, int64_t good)
{
	(void)good;
	return sweep(at, count, true);
}

/* --- in an order of its own --- */

struct placing {
	struct packed *at;
	uint32_t count;
	struct sorted *order;
	uint32_t *placed; /* by offset */
	int64_t budget;
	uint64_t random;
};

static bool meet(const struct packed *a, const struct packed *b)
{
	return a->from <= b->to && b->from <= a->to;
}

/* The lowest place that is free as long as p lives. */
static int64_t lowest_place(struct placing *l, uint32_t count, const struct packed *p)
{
	int64_t offset = 0;
	uint32_t i = 0;
	for (; i < count; i++) {
		const struct packed *other = &l->at[l->placed[i]];
		if (other->offset >= offset + p->bytes)
			break;
		if (meet(other, p) && other->offset + other->bytes > offset)
			offset = other->offset + other->bytes;
	}
	l->budget -= i;
	return offset;
}

/* Puts value v, which has its offset, among the first `count` placed. */
static void insert_placed(struct placing *l, uint32_t count, uint32_t v)
{
	uint32_t low = 0, high = count;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (l->at[l->placed[middle]].offset <= l->at[v].offset)
			low = middle + 1;
		else
			high = middle;
	}
	memmove(&l->placed[low + 1], &l->placed[low], sizeof(*l->placed) * (count - low));
	l->placed[low] = v;
}

/* Places all in their order; INT64_MAX where the budget ends. *highest: place in the order of what ends last. */
static int64_t place_all(struct placing *l, uint32_t *highest)
{
	int64_t end = 0;
	*highest = 0;
	for (uint32_t i = 0; i < l->count; i++) {
		struct packed *p = &l->at[l->order[i].i];
		p->offset = lowest_place(l, i, p);
		insert_placed(l, i, l->order[i].i);
		if (p->offset + p->bytes > end) {
			end = p->offset + p->bytes;
			*highest = i;
		}
		if (l->budget < 0)
			return INT64_MAX;
	}
	return end;
}

static void move_up(struct sorted *order, uint32_t from, uint32_t to)
{
	struct sorted moved = order[from];
	memmove(&order[to + 1], &order[to], sizeof(*order) * (from - to));
	order[to] = moved;
}

/* The same on every machine. */
static void shuffle(struct placing *l)
{
	for (uint32_t i = l->count - 1; i > 0; i--) {
		l->random = l->random * 6364136223846793005u + 1442695040888963407u;
		uint32_t k = (uint32_t)(l->random >> 33) % (i + 1);
		struct sorted moved = l->order[i];
		l->order[i] = l->order[k];
		l->order[k] = moved;
	}
}

/* Offsets of the best of many orders are left in `best`; after as many without success as values, another start. */
static int64_t improve(struct placing *l, int64_t good, struct packed *best)
{
	int64_t least = INT64_MAX;
	uint32_t highest;
	for (uint32_t idle = 0; least > good && l->budget > 0; idle++) {
		int64_t end = place_all(l, &highest);
		if (end < least) {
			least = end;
			memcpy(best, l->at, sizeof(*best) * l->count);
			idle = 0;
		}
		if (idle < l->count)
			move_up(l->order, highest, highest / 2);
		else
			shuffle(l);
		idle = idle < l->count ? idle : 0;
	}
	return least;
}

static int64_t place_in_order(struct packed *at, uint32_t count, int64_t good)
{
	struct placing l = { .at = at, .count = count, .budget = BUDGET };
	struct packed *best = malloc(sizeof(*best) * ((size_t)count + 1));
	l.order = sorted_by(at, count, key_largest);
	l.placed = malloc(sizeof(*l.placed) * ((size_t)count + 1));
	if (l.placed == NULL || best == NULL)
		BUG("out of memory");
	int64_t least = improve(&l, good, best);
	if (least != INT64_MAX)
		memcpy(at, best, sizeof(*at) * count);
	free(l.order);
	free(l.placed);
	free(best);
	return least;
}

/* --- the best of them --- */

int64_t pack_peak(const struct packed *at, uint32_t count, int64_t align)
{
	struct sorted *begin = sorted_by(at, count, key_from), *end = sorted_by(at, count, key_to);
	int64_t live = 0, peak = 0;
	for (uint32_t i = 0, gone = 0; i < count; i++) {
		for (; end[gone].key < begin[i].key; gone++)
			live -= round_up(at[end[gone].i].bytes, align);
		live += round_up(at[begin[i].i].bytes, align);
		peak = live > peak ? live : peak;
	}
	free(begin);
	free(end);
	return peak;
}

static void copy_offsets(struct packed *to, const struct packed *from, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		to[i].offset = from[i].offset;
}

int64_t pack_values(struct packed *at, uint32_t count, int64_t align)
{
	static int64_t (*const methods[])(struct packed *, uint32_t, int64_t good) = {
		sweep_forward, sweep_back, place_in_order,
	};
	int64_t peak = pack_peak(at, count, align), good = peak + peak / NEAR, best = INT64_MAX;
	struct packed *trial = malloc(sizeof(*trial) * ((size_t)count + 1));
	if (trial == NULL)
		BUG("out of memory");
	if (count > 0)
		memcpy(trial, at, sizeof(*trial) * count);
	for (uint32_t i = 0; i < count; i++)
		trial[i].bytes = round_up(trial[i].bytes, align);
	for (int i = 0; i < 3 && best > good; i++) {
		int64_t bytes = methods[i](trial, count, good);
		if (bytes < best) {
			best = bytes;
			copy_offsets(at, trial, count);
		}
	}
	free(trial);
	return best;
}
