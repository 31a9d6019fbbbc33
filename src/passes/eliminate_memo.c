/* Messages that were made before: the layers of a model ask for the same ones, again and again. */
#include "eliminate_impl.h"

#include <string.h>

struct query { const struct memo *memo; const uint64_t *words; uint32_t count; };

static bool same_words(const void *context, uint32_t i)
{
	const struct query *q = context;
	const struct message *m = &q->memo->messages.items[i];
	return m->count == q->count &&
	       memcmp(q->memo->words.items + m->first, q->words, q->count * sizeof(*q->words)) == 0;
}

uint64_t *memo_cells(struct memo *memo, struct arena *arena, uint32_t first, size_t cells, bool *fresh)
{
	struct query q = { memo, memo->words.items + first, memo->words.count - first };
	uint64_t hash = hash_bytes(q.words, q.count * sizeof(*q.words), 0);
	uint32_t i = hash_find(&memo->table, hash, same_words, &q);
	*fresh = i == UINT32_MAX;
	if (*fresh) {
		i = memo->messages.count;
		*vec_push(&memo->messages) = (struct message){ arena_array(arena, cells, sizeof(uint64_t)), first, q.count };
		hash_insert(&memo->table, hash, i);
	} else {
		memo->words.count = first;
	}
	return memo->messages.items[i].cells;
}

void memo_release(struct memo *memo)
{
	vec_release(&memo->messages);
	vec_release(&memo->words);
	hash_release(&memo->table);
}
