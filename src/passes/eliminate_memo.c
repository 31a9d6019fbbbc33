/*
 * Messages that were made before: the layers of a model ask for the same ones, again and again.  Cells are
 * less their smallest, so that along a chain of equal layers messages soon repeat, and equal cells are one
 * table, so that what is made of them is found, too.
 */
#include "eliminate_impl.h"

#include <string.h>

struct words_query { const struct memo *memo; const uint64_t *words; size_t count; };

static bool same_key(const void *context, uint32_t i)
{
	const struct words_query *q = context;
	const struct message *m = &q->memo->messages.items[i];
	return m->count == q->count && memcmp(q->memo->words.items + m->first, q->words, q->count * sizeof(*q->words)) == 0;
}

struct message *memo_message(struct memo *memo, uint32_t first)
{
	struct words_query q = { memo, memo->words.items + first, memo->words.count - first };
	uint64_t hash = hash_bytes(q.words, q.count * sizeof(*q.words), 0);
	uint32_t i = hash_find(&memo->by_key, hash, same_key, &q);
	if (i != UINT32_MAX) {
		memo->words.count = first;
		return &memo->messages.items[i];
	}
	hash_insert(&memo->by_key, hash, memo->messages.count);
	*vec_push(&memo->messages) = (struct message){ .first = first, .count = (uint32_t)q.count };
	return &memo->messages.items[memo->messages.count - 1];
}

static bool same_cells(const void *context, uint32_t i)
{
	const struct words_query *q = context;
	const struct memo_cells *c = &q->memo->cells.items[i];
	return c->count == q->count && memcmp(c->at, q->words, q->count * sizeof(*q->words)) == 0;
}

static const uint64_t *intern_cells(struct memo *memo, const uint64_t *cells, size_t count)
{
	struct words_query q = { memo, cells, count };
	uint64_t hash = hash_bytes(cells, count * sizeof(*cells), 0);
	uint32_t i = hash_find(&memo->by_cells, hash, same_cells, &q);
	if (i != UINT32_MAX)
		return memo->cells.items[i].at;
	hash_insert(&memo->by_cells, hash, memo->cells.count);
	const uint64_t *kept = arena_copy(&memo->arena, cells, count * sizeof(*cells));
	*vec_push(&memo->cells) = (struct memo_cells){ kept, count };
	return kept;
}

void memo_fill(struct memo *memo, struct message *m, uint64_t *cells, size_t count)
{
	m->least = ELIM_INF;
	for (size_t i = 0; i < count; i++)
		m->least = cells[i] < m->least ? cells[i] : m->least;
	for (size_t i = 0; i < count; i++)
		cells[i] = cells[i] < ELIM_INF ? cells[i] - m->least : ELIM_INF;
	m->cells = intern_cells(memo, cells, count);
}

void memo_release(struct memo *memo)
{
	arena_release(&memo->arena);
	vec_release(&memo->messages);
	vec_release(&memo->cells);
	vec_release(&memo->words);
	hash_release(&memo->by_key);
	hash_release(&memo->by_cells);
}
