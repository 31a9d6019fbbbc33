/* Types and attributes of tests as short text: "bf16[2,3] i64[]", "dim=1 shape=[2,3] dtype=f32 eq=mk,nk->mn". */
#ifndef FS_TEST_SPELL_H
#define FS_TEST_SPELL_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ir.h"

/* Numbers up to ']'; `at` stands after '['. */
static inline const char *spell_list(const char *at, int64_t *out, int *count)
{
	*count = 0;
	while (*at != ']') {
		char *end;
		out[(*count)++] = strtoll(at, &end, 10);
		at = *end == ',' ? end + 1 : end;
	}
	return at + 1;
}

static inline int spell_types(const char *at, struct type *out)
{
	int count = 0;
	while (*at != '\0') {
		char name[16] = { 0 };
		int64_t dim[16];
		int rank;
		size_t size = strcspn(at, "[");
		memcpy(name, at, size);
		at = spell_list(at + size + 1, dim, &rank);
		out[count++] = type_make(dtype_from_text(name), rank, dim);
		at += *at == ' ';
	}
	return count;
}

struct spelled_attrs {
	struct attrs attrs;
	char text[4][64];
	int64_t ints[4][16];
};

static inline void spell_attr(struct spelled_attrs *s, enum attr_key k, const char *value, int n)
{
	int count;
	switch (attr_kind(k)) {
	case AK_INTS:
		spell_list(value + 1, s->ints[n], &count);
		attrs_ints(&s->attrs, k, s->ints[n], count);
		break;
	case AK_STRING:
		attrs_string(&s->attrs, k, strcpy(s->text[n], value));
		break;
	case AK_FLOAT:
		attrs_float(&s->attrs, k, strtod(value, NULL));
		break;
	case AK_DTYPE:
		attrs_int(&s->attrs, k, dtype_from_text(value));
		break;
	default:
		attrs_int(&s->attrs, k, strtoll(value, NULL, 10));
	}
}

static inline void spell_attrs(struct spelled_attrs *s, const char *text)
{
	char copy[256], *save = NULL;
	int n = 0;
	memset(s, 0, sizeof(*s));
	strcpy(copy, text);
	for (char *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
		char *is = strchr(word, '=');
		*is = '\0';
		enum attr_key k = attr_from_text(word);
		ck_assert_msg(k != ATTR_NONE, "no attribute %s", word);
		spell_attr(s, k, is + 1, n++);
	}
}

static inline void spell_type(const struct type *t, char *out)
{
	out += sprintf(out, "%s[", dtype_text((enum dtype)t->dtype));
	for (int i = 0; i < t->rank; i++)
		out += sprintf(out, i == 0 ? "%lld" : ",%lld", (long long)t->dim[i]);
	strcpy(out, "]");
}

#endif
