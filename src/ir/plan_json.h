/*
 * Private to plan files: JSON text as it is written (plan_json.c) and the words of enums.
 *
 * The writer keeps track of commas: a key or an item that follows another gets one before it.
 */
#ifndef FS_PLAN_JSON_H
#define FS_PLAN_JSON_H

#include "plan.h"

struct json_out {
	char *text; /* malloc'ed */
	size_t size, room;
};

void out_raw(struct json_out *o, const char *s, size_t size);
void out_open(struct json_out *o, char bracket); /* '{' or '[', as an item or a value */
void out_close(struct json_out *o, char bracket);
void out_line(struct json_out *o);               /* the next item starts on a line of its own */
void out_key(struct json_out *o, const char *key);
void out_int(struct json_out *o, int64_t v);
void out_bool(struct json_out *o, bool v);
void out_double(struct json_out *o, double v);   /* "inf", "-inf" and "nan" as strings */
/* Only UTF-8 can be said in JSON: false, with nothing written, for other bytes. */
bool out_text(struct json_out *o, const char *s);
/* The base64 of some bytes, quoted. */
void out_base64(struct json_out *o, const void *bytes, size_t size);

/* --- the words of a plan file --- */

#define PLAN_VERSION 1
#define SECTIONS 3
#define MEMORIES 7
extern const char *const plan_section_words[SECTIONS];
extern const char *const plan_memory_words[MEMORIES];
/* -1: none of them. */
int plan_word(const char *const *words, int count, const char *s);

/* Length of the line before the hashed text. */
#define PLAN_HEADER 60
/* {"fp8shard":"plan","version":1,"hash":"0123456789abcdef",\n and a NUL; returns its length. */
size_t plan_header(char out[PLAN_HEADER + 4], uint64_t hash);

#endif
