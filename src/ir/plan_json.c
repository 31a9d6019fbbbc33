/* The JSON writer and the words of plan_json.h. */
#include "plan_json.h"
#include "text.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *room_for(struct json_out *o, size_t more)
{
	if (o->room - o->size < more) {
		o->room = 2 * o->room + more + 1024;
		o->text = realloc(o->text, o->room);
		if (o->text == NULL)
			BUG("out of memory");
	}
	return o->text + o->size;
}

void out_raw(struct json_out *o, const char *s, size_t size)
{
	memcpy(room_for(o, size), s, size);
	o->size += size;
}

static void put(struct json_out *o, char c)
{
	*room_for(o, 1) = c;
	o->size++;
}

/* What follows an opening bracket or a colon is the first; a line end says nothing. */
static void comma(struct json_out *o)
{
	size_t at = o->size;
	bool line = at > 0 && o->text[at - 1] == '\n';
	at -= line;
	char before = at > 0 ? o->text[at - 1] : '{';
	if (before == '{' || before == '[' || before == ':' || before == ',')
		return;
	o->size = at;
	put(o, ',');
	if (line)
		put(o, '\n');
}

void out_open(struct json_out *o, char bracket)
{
	comma(o);
	put(o, bracket);
}

void out_close(struct json_out *o, char bracket)
{
	put(o, bracket);
}

void out_line(struct json_out *o)
{
	put(o, '\n');
}

void out_key(struct json_out *o, const char *key)
{
	comma(o);
	put(o, '"');
	out_raw(o, key, strlen(key));
	out_raw(o, "\":", 2);
}

void out_int(struct json_out *o, int64_t v)
{
	char digits[24], *at = digits + sizeof(digits);
	uint64_t left = v < 0 ? -(uint64_t)v : (uint64_t)v;
	comma(o);
	do
		*--at = (char)('0' + left % 10);
	while ((left /= 10) != 0);
	if (v < 0)
		*--at = '-';
	out_raw(o, at, (size_t)(digits + sizeof(digits) - at));
}

void out_bool(struct json_out *o, bool v)
{
	comma(o);
	out_raw(o, v ? "true" : "false", v ? 4 : 5);
}

void out_double(struct json_out *o, double v)
{
	char text[40];
	if (!isfinite(v)) {
		out_text(o, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
		return;
	}
	float_text(v, text);
	if (strpbrk(text, ".e") == NULL)
		strcat(text, ".0"); /* a real in JSON: -0 stays -0 */
	comma(o);
	out_raw(o, text, strlen(text));
}

static bool is_utf8(const char *s)
{
	const char *at = s;
	while ((signed char)*at > 0)
		at++;
	if (*at == '\0')
		return true;
	json_t *value = json_string(s);
	json_decref(value);
	return value != NULL;
}

static void put_escaped(struct json_out *o, unsigned char c)
{
	char text[8];
	if (c == '"' || c == '\\')
		out_raw(o, text, (size_t)snprintf(text, sizeof(text), "\\%c", c));
	else
		out_raw(o, text, (size_t)snprintf(text, sizeof(text), "\\u%04x", c));
}

bool out_text(struct json_out *o, const char *s)
{
	if (!is_utf8(s))
		return false;
	comma(o);
	put(o, '"');
	for (const char *from = s;; s++) {
		unsigned char c = (unsigned char)*s;
		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		out_raw(o, from, (size_t)(s - from));
		if (c == '\0')
			break;
		put_escaped(o, c);
		from = s + 1;
	}
	put(o, '"');
	return true;
}

void out_base64(struct json_out *o, const void *bytes, size_t size)
{
	char *text = NULL;
	size_t length = 0;
	FILE *stream = open_memstream(&text, &length);
	if (stream == NULL)
		BUG("out of memory");
	base64_print(bytes, size, stream);
	fclose(stream);
	comma(o);
	put(o, '"');
	out_raw(o, text, length);
	put(o, '"');
	free(text);
}

/* --- words --- */

const char *const plan_section_words[SECTIONS] = {
	[SECTION_SOURCE] = "source", [SECTION_SETUP] = "setup", [SECTION_STEP] = "step",
};

const char *const plan_memory_words[MEMORIES] = {
	[MEM_NONE] = "none",   [MEM_INPUT] = "input", [MEM_PARAM] = "param", [MEM_CONST] = "const",
	[MEM_STATE] = "state", [MEM_ARENA] = "arena", [MEM_VIEW] = "view",
};

int plan_word(const char *const *words, int count, const char *s)
{
	for (int i = 0; i < count; i++)
		if (strcmp(words[i], s) == 0)
			return i;
	return -1;
}

size_t plan_header(char out[PLAN_HEADER + 4], uint64_t hash)
{
	return (size_t)snprintf(out, PLAN_HEADER + 4, "{\"fp8shard\":\"plan\",\"version\":%d,\"hash\":\"%016llx\",\n",
				PLAN_VERSION, (unsigned long long)hash);
}
