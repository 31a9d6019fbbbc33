/*
 * Guards: what the export found out of its sizes and relies on, in Python's words: "L['x'].size()[0] % 2 == 0".
 * Integers, sizes of inputs, sums, products, floor division, remainders, comparisons, not, and, or.  A guard
 * that says anything else is not judged.
 */
#include "torch_impl.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NESTING 64

struct guard {
	struct import *im;
	const struct scope *scope;
	const char *at;
	int depth;
};

static bool either(struct guard *g, int64_t *out);

/* Takes a word or sign, and the blanks around it. */
static bool take(struct guard *g, const char *word)
{
	size_t size = strlen(word);
	const char *at = g->at + strspn(g->at, " ");
	if (strncmp(at, word, size) != 0)
		return false;
	g->at = at + size;
	return true;
}

static bool integer(struct guard *g, int64_t *out)
{
	char *end;
	*out = strtoll(g->at, &end, 10);
	bool found = end != g->at;
	g->at = end;
	return found;
}

/* L['x'].size()[0], after the L[' */
static bool size_of_input(struct guard *g, int64_t *out)
{
	struct type t;
	int64_t dim;
	const char *name = g->at;
	size_t size = strcspn(name, "'");
	g->at += size;
	if (!take(g, "'].size()[") || !integer(g, &dim) || !take(g, "]"))
		return false;
	const json_t *type = json_object_get(g->scope->types, context_intern_n(g->im->context, name, size));
	if (type == NULL || dims_shape(g->im, type, &t) != FS_OK || dim < 0 || dim >= t.rank)
		return false;
	*out = t.dim[dim];
	return true;
}

static bool atom(struct guard *g, int64_t *out)
{
	if (take(g, "L['"))
		return size_of_input(g, out);
	if (!take(g, "("))
		return integer(g, out);
	if (g->depth == MAX_NESTING)
		return false;
	g->depth++;
	bool fine = either(g, out) && take(g, ")");
	g->depth--;
	return fine;
}

static int64_t floor_quotient(int64_t a, int64_t b)
{
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static bool product(struct guard *g, int64_t *out)
{
	int64_t b;
	bool fine = atom(g, out);
	while (fine) {
		if (take(g, "//")) {
			fine = atom(g, &b) && b > 0;
			*out = fine ? floor_quotient(*out, b) : 0;
		} else if (take(g, "%")) {
			fine = atom(g, &b) && b > 0;
			*out = fine ? *out % b + (*out % b < 0 ? b : 0) : 0;
		} else if (take(g, "*")) {
			fine = atom(g, &b) && mul_size(*out, b, out);
		} else {
			break;
		}
	}
	return fine;
}

static bool sum(struct guard *g, int64_t *out)
{
	int64_t b;
	bool fine = product(g, out);
	while (fine) {
		if (take(g, "+"))
			fine = product(g, &b) && add_size(*out, b, out);
		else if (take(g, "-"))
			fine = product(g, &b) && b != INT64_MIN && add_size(*out, -b, out);
		else
			break;
	}
	return fine;
}

static bool comparison(struct guard *g, int64_t *out)
{
	static const struct { const char *sign; bool less, equal, greater; } signs[] = {
		{ "==", false, true, false }, { "!=", true, false, true }, { "<=", true, true, false },
		{ ">=", false, true, true },  { "<", true, false, false }, { ">", false, false, true },
	};
	int64_t a, b;
	if (!sum(g, &a))
		return false;
	*out = a;
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (!take(g, signs[i].sign))
			continue;
		if (!sum(g, &b))
			return false;
		*out = a < b ? signs[i].less : a == b ? signs[i].equal : signs[i].greater;
		break;
	}
	return true;
}

static bool negation(struct guard *g, int64_t *out)
{
	bool flip = take(g, "not ");
	if (!comparison(g, out))
		return false;
	*out = flip ? *out == 0 : *out;
	return true;
}

static bool both(struct guard *g, int64_t *out)
{
	int64_t b;
	bool fine = negation(g, out);
	while (fine && take(g, "and ")) {
		fine = negation(g, &b);
		*out = fine && *out != 0 && b != 0;
	}
	return fine;
}

static bool either(struct guard *g, int64_t *out)
{
	int64_t b;
	bool fine = both(g, out);
	while (fine && take(g, "or ")) {
		fine = both(g, &b);
		*out = *out != 0 || b != 0;
	}
	return fine;
}

enum fs_status guards_check(struct import *im, const struct scope *s, const json_t *guards)
{
	const json_t *item;
	size_t i;
	json_array_foreach((json_t *)(uintptr_t)guards, i, item) {
		const char *text = json_string_value(item);
		struct guard g = { .im = im, .scope = s, .at = text };
		int64_t truth = 1;
		if (text == NULL || !either(&g, &truth) || *g.at != '\0' || truth != 0)
			continue;
		return diag_set(im->diag, FS_INVALID, "the export does not hold for these sizes; it relies on: %.300s", text);
	}
	return FS_OK;
}
