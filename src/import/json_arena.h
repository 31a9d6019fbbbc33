/*
 * jansson values in one piece of memory, given back in one go: for files of which the whole tree is
 * read and dropped.  Building such a tree is faster, and freeing it value by value is what takes as
 * long as reading it.
 *
 *     struct json_arena a;
 *     bool have = json_arena_begin(&a, size);   what this thread parses now lies in `a`
 *     ...                                       json_decref() may be called or not
 *     json_arena_end(&a);
 *
 * Other threads, and values made before, are not concerned: memory outside of the arena is freed as ever.
 */
#ifndef FS_JSON_ARENA_H
#define FS_JSON_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct json_arena { char *base; size_t size, used; };

/* For text of that size.  False: no memory can be had this way; values are as usual, and must be freed. */
bool json_arena_begin(struct json_arena *a, size_t text_size);
void json_arena_end(struct json_arena *a); /* also where begin said false */

#endif
