/* The open-addressing table and the hash function (FNV-1a over words, then mixed) of base.h. */
#include "base.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t h)
{
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	return h ^ h >> 32;
}

uint64_t hash_bytes(const void *bytes, size_t size, uint64_t seed)
{
	const unsigned char *p = bytes;
	uint64_t h = seed ^ 0xcbf29ce484222325u ^ size;
	for (; size >= 8; p += 8, size -= 8) {
		uint64_t word;
		memcpy(&word, p, 8);
		h = mix(h ^ word);
	}
	uint64_t tail = 0;
	if (size > 0)
		memcpy(&tail, p, size);
	return mix(h ^ tail);
}

uint64_t hash_string(const char *s)
{
	return hash_bytes(s, strlen(s), 0);
}

uint32_t hash_find(const struct hash_table *t, uint64_t hash,
		   bool (*same)(const void *context, uint32_t index), const void *context)
{
	if (t->slots == NULL)
		return UINT32_MAX;
	for (uint32_t i = (uint32_t)hash & t->mask; t->slots[i].index != 0; i = (i + 1) & t->mask)
		if (t->slots[i].hash == hash && same(context, t->slots[i].index - 1))
			return t->slots[i].index - 1;
	return UINT32_MAX;
}

static void hash_put(struct hash_table *t, uint64_t hash, uint32_t stored)
{
	uint32_t i = (uint32_t)hash & t->mask;
	while (t->slots[i].index != 0)
		i = (i + 1) & t->mask;
	t->slots[i].hash = hash;
	t->slots[i].index = stored;
}

static void hash_grow(struct hash_table *t)
{
	struct hash_table grown = { .count = t->count };
	uint32_t room = t->slots == NULL ? 64 : 2 * (t->mask + 1);
	grown.mask = room - 1;
	grown.slots = calloc(room, sizeof(*grown.slots));
	if (grown.slots == NULL)
		BUG("out of memory: hash table of %u", room);
	for (uint32_t i = 0; t->slots != NULL && i <= t->mask; i++)
		if (t->slots[i].index != 0)
			hash_put(&grown, t->slots[i].hash, t->slots[i].index);
	free(t->slots);
	*t = grown;
}

void hash_insert(struct hash_table *t, uint64_t hash, uint32_t index)
{
	if (t->slots == NULL || 2 * t->count > t->mask)
		hash_grow(t);
	hash_put(t, hash, index + 1);
	t->count++;
}

void hash_release(struct hash_table *t)
{
	free(t->slots);
	*t = (struct hash_table){ 0 };
}
