/*
 * Packing by several simple methods, the best of which is taken; each is only tried where those before
 * it are not at the bound already.  In program order, best fit among the holes, which is what frees
 * itself in the order of its making wants; the same backwards in time; and, where there are not too many
 * values, the largest first, each at the lowest place that is free as long as it lives.
 */
#include "pack.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LARGEST_FIRST 4096 /* its time is quadratic */

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

static int64_t sweep_forward(struct packed *at, uint32_t count)
{
	return sweep(at, count, false);
}

static int64_t sweep_back(struct packed *at, uint32_t count)
{
	return sweep(at, count, true);
}

/* --- the largest first --- */

static bool meet(const struct packed *a, const struct packed *b)
{
	return a->from <= b->to && b->from <= a->to;
}

/* The lowest place that is free as long as p lives; *slot is where it goes among those placed, by offset. */
static int64_t lowest_place(const struct packed *at, const uint32_t *placed, uint32_t count, const struct packed *p,
			    uint32_t *slot)
{
	int64_t offset = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct packed *other = &at[placed[i]];
		if (!meet(other, p))
			continue;
		if (other->offset >= offset + p->bytes)
			break;
		if (other->offset + other->bytes > offset)
			offset = other->offset + other->bytes;
	}
	for (*slot = count; *slot > 0 && at[placed[*slot - 1]].offset > offset; --*slot)
		;
	return offset;
}

static int64_t largest_first(struct packed *at, uint32_t count)
{
	if (count > MAX_LARGEST_FIRST)
		return INT64_MAX;
	struct sorted *order = sorted_by(at, count, key_largest);
	uint32_t *placed = malloc(sizeof(*placed) * ((size_t)count + 1)), slot;
	int64_t end = 0;
	if (placed == NULL)
		BUG("out of memory");
	for (uint32_t i = 0; i < count; i++) {
		struct packed *p = &at[order[i].i];
		p->offset = lowest_place(at, placed, i, p, &slot);
		memmove(&placed[slot + 1], &placed[slot], sizeof(*placed) * (i - slot));
		placed[slot] = order[i].i;
		end = p->offset + p->bytes > end ? p->offset + p->bytes : end;
	}
	free(order);
	free(placed);
	return end;
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
	static int64_t (*const methods[])(struct packed *, uint32_t) = { sweep_forward, sweep_back, largest_first };
	int64_t peak = pack_peak(at, count, align), best = INT64_MAX;
	struct packed *trial = malloc(sizeof(*trial) * ((size_t)count + 1));
	if (trial == NULL)
		BUG("out of memory");
	if (count > 0)
		memcpy(trial, at, sizeof(*trial) * count);
	for (uint32_t i = 0; i < count; i++)
		trial[i].bytes = round_up(trial[i].bytes, align);
	for (int i = 0; i < 3 && best > peak; i++) {
		int64_t bytes = methods[i](trial, count);
		if (bytes < best) {
			best = bytes;
			copy_offsets(at, trial, count);
		}
	}
	free(trial);
	return best;
}
