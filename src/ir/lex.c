/* The cursor of the text form's reader. */
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- errors --- */

static void position(const struct lex *l, const char *at, int *line, int *column)
{
	*line = 1;
	const char *start = l->text;
	for (const char *s = l->text; s < at; s++)
		if (*s == '\n') {
			++*line;
			start = s + 1;
		}
	*column = (int)(at - start) + 1;
}

enum fs_status lex_at(const struct lex *l, const char *at)
{
	int line, column;
	position(l, at, &line, &column);
	return diag_prefix(l->diag, "%s:%d:%d", l->file, line, column);
}

enum fs_status lex_error(const struct lex *l, const char *at, const char *format, ...)
{
	char message[768];
	va_list args;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	diag_set(l->diag, FS_INVALID, "%s", message);
	return lex_at(l, at);
}

/* A piece of the text that can stand in a message. */
static void found_text(struct lex *l, char out[48])
{
	if (lex_peek(l) == '\0') {
		snprintf(out, 48, "the end of the file");
		return;
	}
	if (lex_peek(l) == '\n') {
		snprintf(out, 48, "the end of the line");
		return;
	}
	int n = 0;
	while (n < 24 && l->at + n < l->end && isgraph((unsigned char)l->at[n]))
		n++;
	if (n > 0)
		snprintf(out, 48, "'%.*s'", n, l->at);
	else
		snprintf(out, 48, "byte 0x%02x", (unsigned char)*l->at);
}

enum fs_status lex_expected(struct lex *l, const char *what)
{
	char found[48];
	found_text(l, found);
	return lex_error(l, l->at, "expected %s, found %s", what, found);
}

/* --- blanks, comments, lines --- */

static void skip_comment(struct lex *l)
{
	while (l->at < l->end && *l->at != '\n')
		l->at++;
}

char lex_peek(struct lex *l)
{
	while (l->at < l->end && (*l->at == ' ' || *l->at == '\t' || *l->at == '\r'))
		l->at++;
	if (l->at < l->end && *l->at == '#')
		skip_comment(l);
	if (l->at == l->end)
		return '\0';
	return *l->at == '\0' ? '\1' : *l->at; /* a NUL in the text is not its end */
}

bool lex_take(struct lex *l, char c)
{
	if (lex_peek(l) != c || l->at == l->end)
		return false;
	l->at++;
	return true;
}

enum fs_status lex_expect(struct lex *l, char c, const char *what)
{
	return lex_take(l, c) ? FS_OK : lex_expected(l, what);
}

void lex_skip_lines(struct lex *l)
{
	while (lex_take(l, '\n'))
		;
}

enum fs_status lex_line_end(struct lex *l)
{
	if (lex_peek(l) == '\0' || lex_take(l, '\n'))
		return FS_OK;
	return lex_expected(l, "the end of the line");
}

/* --- words and numbers --- */

static bool name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '.';
}

static bool number_char(char c)
{
	return isalnum((unsigned char)c) || c == '.' || c == '+' || c == '-';
}

bool provenance_bare(char c)
{
	return isalnum((unsigned char)c) || (c != '\0' && strchr("_./:+*-$<>~=", c) != NULL);
}

static struct span take_run(struct lex *l, bool (*belongs)(char c))
{
	lex_peek(l);
	struct span s = { l->at, 0 };
	while (l->at < l->end && belongs(*l->at))
		l->at++;
	s.size = (size_t)(l->at - s.at);
	return s;
}

enum fs_status lex_name(struct lex *l, const char *what, struct span *out)
{
	*out = take_run(l, name_char);
	return out->size > 0 ? FS_OK : lex_expected(l, what);
}

static enum fs_status copy_word(struct lex *l, struct span s, const char *what, char out[MAX_WORD])
{
	if (s.size == 0)
		return lex_expected(l, what);
	if (s.size >= MAX_WORD)
		return lex_error(l, s.at, "expected %s, found a word of %zu letters", what, s.size);
	memcpy(out, s.at, s.size);
	out[s.size] = '\0';
	return FS_OK;
}

enum fs_status lex_word(struct lex *l, const char *what, char out[MAX_WORD])
{
	return copy_word(l, take_run(l, name_char), what, out);
}

bool lex_take_word(struct lex *l, const char *word)
{
	struct lex before = *l;
	struct span s = take_run(l, name_char);
	if (s.size == strlen(word) && memcmp(s.at, word, s.size) == 0)
		return true;
	*l = before;
	return false;
}

enum fs_status lex_number(struct lex *l, char out[MAX_WORD])
{
	return copy_word(l, take_run(l, number_char), "a number", out);
}

enum fs_status lex_int(struct lex *l, int64_t *out)
{
	char word[MAX_WORD], *end;
	TRY(lex_number(l, word));
	errno = 0;
	long long v = strtoll(word, &end, 10);
	if (*end != '\0' || errno != 0)
		return lex_error(l, l->at - strlen(word), "expected an integer of 64 bits, found '%s'", word);
	*out = v;
	return FS_OK;
}

enum fs_status lex_float(struct lex *l, double *out)
{
	char word[MAX_WORD], *end;
	TRY(lex_number(l, word));
	*out = strtod(word, &end);
	if (*end != '\0')
		return lex_error(l, l->at - strlen(word), "expected a number, found '%s'", word);
	return FS_OK;
}

/* --- strings --- */

enum fs_status lex_quoted(struct lex *l, const char *what, struct span *out)
{
	if (lex_peek(l) != '"')
		return lex_expected(l, what);
	const char *open = l->at++;
	while (l->at < l->end && *l->at != '"' && *l->at != '\n')
		l->at += *l->at == '\\' && l->at + 1 < l->end && l->at[1] != '\n' ? 2 : 1;
	if (l->at == l->end || *l->at != '"')
		return lex_error(l, open, "the string has no closing '\"' on its line");
	*out = (struct span){ open + 1, (size_t)(l->at - open) - 1 };
	l->at++;
	return FS_OK;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* One character or escape at *s; its value, or -1: no such escape, -2: a NUL. */
static int unescape(const char **s, const char *end)
{
	static const char names[] = "ntr\"\\", values[] = "\n\t\r\"\\";
	char c = *(*s)++;
	if (c != '\\')
		return c == '\0' ? -2 : (unsigned char)c;
	if (*s == end)
		return -1;
	c = *(*s)++;
	if (c == 'x' && end - *s >= 2) {
		int high = hex_digit((*s)[0]), low = hex_digit((*s)[1]);
		*s += 2;
		return high < 0 || low < 0 ? -1 : high + low == 0 ? -2 : high * 16 + low;
	}
	const char *known = c == '\0' ? NULL : strchr(names, c);
	return known == NULL ? -1 : (unsigned char)values[known - names];
}

enum fs_status lex_string(struct lex *l, const char *what, struct arena *arena, const char **out)
{
	struct span raw;
	TRY(lex_quoted(l, what, &raw));
	char *made = arena_alloc(arena, raw.size + 1), *to = made;
	for (const char *s = raw.at, *end = raw.at + raw.size; s < end;) {
		const char *start = s;
		int c = unescape(&s, end);
		if (c == -2)
			return lex_error(l, start, "a string cannot hold a NUL");
		if (c < 0)
			return lex_error(l, start, "unknown escape; there are \\n \\t \\r \\\" \\\\ and \\x followed by two of 0-9a-f");
		*to++ = (char)c;
	}
	*out = made;
	return FS_OK;
}

enum fs_status lex_atom(struct lex *l, const char *what, struct arena *arena, const char **out)
{
	if (lex_peek(l) == '"')
		return lex_string(l, what, arena, out);
	struct span s = take_run(l, provenance_bare);
	if (s.size == 0)
		return lex_expected(l, what);
	char *made = arena_alloc(arena, s.size + 1);
	memcpy(made, s.at, s.size);
	*out = made;
	return FS_OK;
}

enum fs_status lex_parenthesis(struct lex *l, const char *what, char *out, size_t size)
{
	if (lex_peek(l) != '(')
		return lex_expected(l, what);
	const char *start = l->at;
	int depth = 0;
	do {
		if (l->at == l->end || *l->at == '\n' || *l->at == '\0')
			return lex_error(l, start, "'(' is not closed on its line");
		depth += (*l->at == '(') - (*l->at == ')');
		l->at++;
	} while (depth > 0);
	size_t length = (size_t)(l->at - start);
	if (length >= size)
		return lex_error(l, start, "expected %s, found %zu characters", what, length);
	memcpy(out, start, length);
	out[length] = '\0';
	return FS_OK;
}

/* --- the nearest word --- */

static int edit_distance(const char *a, const char *b)
{
	int row[MAX_WORD], m = (int)strlen(b);
	for (int j = 0; j <= m; j++)
		row[j] = j;
	for (int i = 0; a[i] != '\0'; i++) {
		int diagonal = row[0];
		row[0] = i + 1;
		for (int j = 1; j <= m; j++) {
			int change = diagonal + (a[i] != b[j - 1]);
			int least = row[j - 1] < row[j] ? row[j - 1] + 1 : row[j] + 1;
			diagonal = row[j];
			row[j] = change < least ? change : least;
		}
	}
	return row[m];
}

const char *lex_nearest(const char *word, const char *(*text)(int k), int count)
{
	int best = 1, least = MAX_WORD;
	for (int k = 1; k < count; k++) {
		int distance = edit_distance(word, text(k));
		if (distance < least) {
			least = distance;
			best = k;
		}
	}
	return text(best);
}
