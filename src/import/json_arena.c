#include "json_arena.h"

#include <jansson.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Bytes of tree a byte of text can make: "{}," is an object with its table. Only what is used is backed. */
#define TREE_PER_BYTE 256
#define LEAST ((size_t)1 << 20)

static _Thread_local struct json_arena *current;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static void *allocate(size_t size)
{
	struct json_arena *a = current;
	if (a == NULL)
		return malloc(size);
	size_t need = (size + 7) & ~(size_t)7;
	if (need < size || need > a->size - a->used)
		return NULL;
	void *made = a->base + a->used;
	a->used += need;
	return made;
}

static void release(void *p)
{
	const struct json_arena *a = current;
	if (a == NULL || (uintptr_t)p - (uintptr_t)a->base >= a->size)
		free(p);
}

static void install(void)
{
	json_set_alloc_funcs(allocate, release);
}

bool json_arena_begin(struct json_arena *a, size_t text_size)
{
	*a = (struct json_arena){ 0 };
	if (text_size > SIZE_MAX / TREE_PER_BYTE - LEAST)
		return false;
	size_t size = text_size * TREE_PER_BYTE + LEAST;
	void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return false;
	madvise(base, size, MADV_HUGEPAGE);
	*a = (struct json_arena){ base, size, 0 };
	pthread_once(&installed, install);
	current = a;
	return true;
}

void json_arena_end(struct json_arena *a)
{
	if (a->base == NULL)
		return;
	current = NULL;
	munmap(a->base, a->size);
	*a = (struct json_arena){ 0 };
}
