/* The arena, growing arrays and diagnostics of base.h. */
#include "base.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BLOCK ((size_t)64 << 10)

struct arena_block {
	struct arena_block *before;
	size_t used, size;
	_Alignas(16) unsigned char bytes[];
};

static void *must_alloc(size_t size)
{
	void *p = calloc(1, size);
	if (p == NULL)
		BUG("out of memory: %zu bytes", size);
	return p;
}

static struct arena_block *arena_grow(struct arena *a, size_t size)
{
	size_t room = size > ARENA_BLOCK ? size : ARENA_BLOCK;
	struct arena_block *b = must_alloc(sizeof(*b) + room);
	b->size = room;
	b->before = a->last;
	a->last = b;
	return b;
}

void *arena_alloc(struct arena *a, size_t size)
{
	BUG_ON(size > SIZE_MAX / 2);
	size_t need = (size + 15) & ~(size_t)15;
	struct arena_block *b = a->last;
	if (b == NULL || b->size - b->used < need)
		b = arena_grow(a, need);
	void *p = b->bytes + b->used;
	b->used += need;
	a->total += need;
	return p;
}

void *arena_array(struct arena *a, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes))
		BUG("array of %zu elements of %zu bytes", count, size);
	return arena_alloc(a, bytes);
}

void *arena_copy(struct arena *a, const void *from, size_t size)
{
	void *p = arena_alloc(a, size);
	if (size > 0)
		memcpy(p, from, size);
	return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_copy(a, s, strlen(s) + 1);
}

char *arena_printf(struct arena *a, const char *format, ...)
{
	va_list args, again;
	va_start(args, format);
	va_copy(again, args);
	int n = vsnprintf(NULL, 0, format, args);
	BUG_ON(n < 0);
	char *s = arena_alloc(a, (size_t)n + 1);
	vsnprintf(s, (size_t)n + 1, format, again);
	va_end(again);
	va_end(args);
	return s;
}

void arena_release(struct arena *a)
{
	while (a->last != NULL) {
		struct arena_block *before = a->last->before;
		free(a->last);
		a->last = before;
	}
	a->total = 0;
}

void vec_reserve(void **items, uint32_t *room, uint32_t need, size_t size)
{
	if (need <= *room)
		return;
	uint32_t grown = *room < 8 ? 8 : *room + *room / 2;
	if (grown < need)
		grown = need;
	void *p = realloc(*items, (size_t)grown * size);
	if (p == NULL)
		BUG("out of memory: %u elements of %zu bytes", grown, size);
	*items = p;
	*room = grown;
}

void vec_clear(void *item, size_t size)
{
	memset(item, 0, size);
}

void vec_free(void **items, uint32_t *count, uint32_t *room)
{
	free(*items);
	*items = NULL;
	*count = *room = 0;
}

/* Control characters, which names from files and command lines may hold, as \x0a: one line, no escapes for a terminal. */
static void escape_text(char *to, size_t room, const char *from)
{
	for (; *from != '\0' && room > 4; from++) {
		unsigned char c = (unsigned char)*from;
		int n = c < 0x20 || c == 0x7f ? snprintf(to, room, "\\x%02x", c) : (*to = (char)c, 1);
		to += n;
		room -= (size_t)n;
	}
	*to = '\0';
}

enum fs_status diag_set(struct diag *d, enum fs_status status, const char *format, ...)
{
	char text[sizeof(d->text)];
	if (d->status != FS_OK)
		return status;
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	escape_text(d->text, sizeof(d->text), text);
	d->status = status;
	return status;
}

enum fs_status diag_prefix(struct diag *d, const char *format, ...)
{
	char text[sizeof(d->text)];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	size_t at = n < 0 ? 0 : (size_t)n < sizeof(text) - 3 ? (size_t)n : sizeof(text) - 3;
	memcpy(text + at, ": ", 2);
	size_t room = sizeof(text) - at - 3, size = strnlen(d->text, room);
	memcpy(text + at + 2, d->text, size);
	text[at + 2 + size] = '\0';
	escape_text(d->text, sizeof(d->text), text);
	return d->status;
}

void fs_bug(const char *file, int line, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fprintf(stderr, "BUG at %s:%d: ", file, line);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}
