/* Equations of matmuls, "bmk,nk->bmn": a letter a dim, as in einsum. */
#include "ir.h"

#include <string.h>

#define TEXT_ROOM (3 * MAX_RANK + 4)

/* Canonical letters of each role, in the order in which they are given out. */
static const char alphabet[4][MAX_RANK + 1] = {
	[ROLE_BATCH] = "bcdefgha",
	[ROLE_M] = "mijuvwxy",
	[ROLE_N] = "nopqrstz",
	[ROLE_K] = "klKLMNOP",
};

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool stands_in(const struct equation *e, int value, char letter)
{
	return e->rank[value] > 0 && memchr(e->letter[value], letter, (size_t)e->rank[value]) != NULL;
}

/* Reads the letters of one value up to `end`. */
static enum fs_status parse_value(struct equation *e, int value, const char *from, const char *end,
				  const char *text, struct diag *d)
{
	for (; from < end; from++) {
		if (!is_letter(*from))
			return diag_set(d, FS_INVALID, "equation '%s': '%c' is not a letter", text, *from);
		if (e->rank[value] == MAX_RANK)
			return diag_set(d, FS_INVALID, "equation '%s': more than %d dims", text, MAX_RANK);
		if (stands_in(e, value, *from))
			return diag_set(d, FS_INVALID, "equation '%s': '%c' stands twice in one tensor", text, *from);
		e->letter[value][e->rank[value]++] = *from;
	}
	return FS_OK;
}

/* Each letter of an operand stands in the other operand, in the result, or in both. */
static enum fs_status check_letters(const struct equation *e, const char *text, struct diag *d)
{
	for (int value = 0; value < 2; value++)
		for (int i = 0; i < e->rank[value]; i++) {
			char c = e->letter[value][i];
			if (!stands_in(e, 1 - value, c) && !stands_in(e, 2, c))
				return diag_set(d, FS_INVALID, "equation '%s': '%c' stands in one operand only", text, c);
		}
	for (int i = 0; i < e->rank[2]; i++) {
		char c = e->letter[2][i];
		if (!stands_in(e, 0, c) && !stands_in(e, 1, c))
			return diag_set(d, FS_INVALID, "equation '%s': '%c' stands in no operand", text, c);
	}
	return FS_OK;
}

enum fs_status equation_parse(struct equation *e, const char *text, struct diag *d)
{
	memset(e, 0, sizeof(*e));
	size_t size = strnlen(text, TEXT_ROOM);
	if (size >= TEXT_ROOM)
		return diag_set(d, FS_INVALID, "equation '%.*s...' is too long", TEXT_ROOM, text);
	const char *comma = strchr(text, ','), *arrow = strstr(text, "->");
	if (comma == NULL || arrow == NULL || arrow < comma)
		return diag_set(d, FS_INVALID, "equation '%s' is not of the form 'mk,nk->mn'", text);
	TRY(parse_value(e, 0, text, comma, text, d));
	TRY(parse_value(e, 1, comma + 1, arrow, text, d));
	TRY(parse_value(e, 2, arrow + 2, text + size, text, d));
	return check_letters(e, text, d);
}

enum letter_role equation_role(const struct equation *e, char letter)
{
	bool in_a = stands_in(e, 0, letter), in_b = stands_in(e, 1, letter);
	if (in_a && in_b)
		return stands_in(e, 2, letter) ? ROLE_BATCH : ROLE_K;
	return in_a ? ROLE_M : ROLE_N;
}

static void equation_text(const struct equation *e, char *text)
{
	static const char *const after[3] = { ",", "->", "" };
	for (int value = 0; value < 3; value++) {
		memcpy(text, e->letter[value], (size_t)e->rank[value]);
		text += e->rank[value];
		strcpy(text, after[value]);
		text += strlen(after[value]);
	}
}

/* Letters are named in the order in which they first stand in a, then b. */
void equation_canonical(struct equation *e, char text[3 * MAX_RANK + 4])
{
	char name[128] = { 0 };
	int used[4] = { 0 };
	for (int value = 0; value < 2; value++)
		for (int i = 0; i < e->rank[value]; i++) {
			unsigned char c = (unsigned char)e->letter[value][i];
			enum letter_role role = equation_role(e, (char)c);
			if (name[c] == 0)
				name[c] = alphabet[role][used[role]++];
		}
	for (int value = 0; value < 3; value++)
		for (int i = 0; i < e->rank[value]; i++)
			e->letter[value][i] = name[(unsigned char)e->letter[value][i]];
	equation_text(e, text);
}

static const char *const role_names[PRODUCT_ROLES] = { "forward", "grad_input", "grad_weight" };

const char *product_role_text(enum product_role role)
{
	return role_names[role];
}

bool product_role_read(const char *text, enum product_role *out)
{
	for (int i = 0; i < PRODUCT_ROLES; i++)
		if (strcmp(role_names[i], text) == 0) {
			*out = (enum product_role)i;
			return true;
		}
	return false;
}

void equation_linear(int rank, bool transposed, char text[3 * MAX_RANK + 4])
{
	BUG_ON(rank < 1 || rank > MAX_RANK);
	struct equation e = { .rank = { rank, 2, rank } };
	memcpy(e.letter[0], alphabet[ROLE_M], (size_t)rank - 1);
	memcpy(e.letter[2], alphabet[ROLE_M], (size_t)rank - 1);
	e.letter[0][rank - 1] = 'k';
	e.letter[2][rank - 1] = 'n';
	memcpy(e.letter[1], transposed ? "nk" : "kn", 2);
	equation_text(&e, text);
}
