/*
 * Small things that every folder uses: status and diagnostics, an arena, growing arrays, hashing.
 *
 * Errors are of three kinds.  A broken invariant of ours is BUG(): it aborts with file and line.
 * Everything a user or a file can cause is an enum fs_status with a struct diag, written once,
 * where it is found.  Library code neither prints nor exits.
 * Memory: the compiler allocates from arenas and aborts when there is none; the runtime uses
 * malloc and returns FS_NOMEM.
 */
#ifndef FS_BASE_H
#define FS_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum fs_status {
	FS_OK = 0,
	FS_INVALID,     /* wrong input: a file, an option, a graph */
	FS_UNSUPPORTED, /* right input that we cannot take */
	FS_IO,          /* the system said no: open, read, write, rename */
	FS_NOMEM,
	FS_PEER,        /* another rank failed, or did not answer */
};

/* The first error of a call: one line, without "fp8shard:" before and newline after. */
struct diag {
	enum fs_status status;
	char text[1024];
};

/* Writes the message unless one is there already; returns `status`. */
enum fs_status diag_set(struct diag *d, enum fs_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Puts "<text>: " before the message that is there: a file name, a pattern. Returns d->status. */
enum fs_status diag_prefix(struct diag *d, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#define BUG(...) fs_bug(__FILE__, __LINE__, __VA_ARGS__)
#define BUG_ON(condition) ((condition) ? BUG("%s", #condition) : (void)0)
_Noreturn void fs_bug(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4), nonnull(3)));

/* Returns the status of a call that failed. Only where nothing is owned. */
#define TRY(call)                                  \
	do {                                       \
		enum fs_status try_status = (call); \
		if (try_status != FS_OK)           \
			return try_status;         \
	} while (0)

/* --- arena.c: memory that is freed all at once; {0} is an empty arena --- */

struct arena_block;
struct arena {
	struct arena_block *last;
	size_t total; /* bytes handed out */
};

void *arena_alloc(struct arena *a, size_t size);  /* zeroed, aligned to 16; aborts when out of memory */
void *arena_array(struct arena *a, size_t count, size_t size); /* the same, count * size checked */
void *arena_copy(struct arena *a, const void *from, size_t size);
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3), nonnull(2)));
void arena_release(struct arena *a);

/* --- growing arrays: T *items; uint32_t count, room; items come from malloc --- */

#define VEC(T)                  \
	struct {                \
		T *items;       \
		uint32_t count; \
		uint32_t room;  \
	}
/* Appends and gives the new element, zeroed: *vec_push(&v) = x; */
#define vec_push(v)                                                                       \
	(vec_reserve((void **)&(v)->items, &(v)->room, (v)->count + 1, sizeof(*(v)->items)), \
	 vec_clear(&(v)->items[(v)->count], sizeof(*(v)->items)), &(v)->items[(v)->count++])
#define vec_release(v) vec_free((void **)&(v)->items, &(v)->count, &(v)->room)
void vec_reserve(void **items, uint32_t *room, uint32_t need, size_t size); /* aborts without memory */
void vec_clear(void *item, size_t size);
void vec_free(void **items, uint32_t *count, uint32_t *room);

/* --- hash.c: from a 64-bit hash to a dense index; the caller compares the candidates --- */

struct hash_table {
	struct hash_slot { uint64_t hash; uint32_t index; } *slots; /* index 0: free, else index + 1 */
	uint32_t count, mask;
};

uint64_t hash_bytes(const void *bytes, size_t size, uint64_t seed);
uint64_t hash_string(const char *s);
/* The index found by `same(context, index)` among those with this hash, or UINT32_MAX. */
uint32_t hash_find(const struct hash_table *t, uint64_t hash,
		   bool (*same)(const void *context, uint32_t index), const void *context);
void hash_insert(struct hash_table *t, uint64_t hash, uint32_t index);
void hash_release(struct hash_table *t);

/* --- checked arithmetic for sizes that come from files: false on overflow --- */

static inline bool mul_size(int64_t a, int64_t b, int64_t *out)
{
	return !__builtin_mul_overflow(a, b, out);
}

static inline bool add_size(int64_t a, int64_t b, int64_t *out)
{
	return !__builtin_add_overflow(a, b, out);
}

#endif
