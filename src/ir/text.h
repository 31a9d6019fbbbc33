/*
 * Private to the text form: the cursor over the text (lex.c) and the elements of constants (element.c).
 * The grammar is in docs/ir.md.
 */
#ifndef FS_TEXT_H
#define FS_TEXT_H

#include "ir.h"

#define MAX_WORD 64         /* of an op, a key, a dtype, a number, with its NUL */
#define MAX_LISTED_DATA 16  /* a constant with more elements is printed in base64 */

/* --- lex.c: reading on from `at`; blanks and, where a line may end, comments are skipped --- */

struct lex {
	const char *file, *text, *at, *end;
	struct diag *diag;
};

/* "FILE:LINE:COLUMN: ..." of the place `at`; always FS_INVALID. */
enum fs_status lex_error(const struct lex *l, const char *at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* "... expected WHAT, found 'xyz'". */
enum fs_status lex_expected(struct lex *l, const char *what);
/* Puts the place before a message that another module wrote. */
enum fs_status lex_at(const struct lex *l, const char *at);

char lex_peek(struct lex *l); /* the next character on this line; '\n' at its end, '\0' at the text's end */
bool lex_take(struct lex *l, char c);
enum fs_status lex_expect(struct lex *l, char c, const char *what);
void lex_skip_lines(struct lex *l); /* to the first character that is neither blank nor comment */
enum fs_status lex_line_end(struct lex *l);

/* A run of letters, digits, '_' and '.' of the text itself. */
struct span { const char *at; size_t size; };
enum fs_status lex_name(struct lex *l, const char *what, struct span *out);
/* The same, no longer than MAX_WORD. */
enum fs_status lex_word(struct lex *l, const char *what, char out[MAX_WORD]);
/* Takes the word if it stands here, whole. */
bool lex_take_word(struct lex *l, const char *word);
enum fs_status lex_int(struct lex *l, int64_t *out);
enum fs_status lex_float(struct lex *l, double *out);
/* The characters of a number or of true and false. */
enum fs_status lex_number(struct lex *l, char out[MAX_WORD]);
/* A quoted string, unescaped into the arena. */
enum fs_status lex_string(struct lex *l, const char *what, struct arena *arena, const char **out);
/* What stands between quotes, as it stands. */
enum fs_status lex_quoted(struct lex *l, const char *what, struct span *out);
/* A string, or a bare run of the characters that provenance_bare() allows. */
enum fs_status lex_atom(struct lex *l, const char *what, struct arena *arena, const char **out);
/* From a '(' to the ')' that closes it, both included. */
enum fs_status lex_parenthesis(struct lex *l, const char *what, char *out, size_t size);

/* Of the words text(1) to text(count - 1), the one that `word` (shorter than MAX_WORD) is nearest to. */
const char *lex_nearest(const char *word, const char *(*text)(int k), int count);

/* Whether provenance may stand without quotes. */
bool provenance_bare(char c);

/* --- print.c --- */

/* "user", "buffer", ... */
const char *output_kind_text(enum output_kind k);
#define OUTPUT_KINDS 5
/* A name stands as a string after the op; dtype and shape of sources are those of the type. */
bool attr_is_written_elsewhere(enum op op, enum attr_key key);

/* --- element.c --- */

/* The shortest text that strtod reads back as the same value. */
void float_text(double v, char out[32]);
/* The text of element i; false where it would not read back as the same bits. */
bool element_text(const struct tensor *t, int64_t i, char out[32]);
/* Rounds to nearest even; false where the text is no element of this type. */
bool element_parse(enum dtype dtype, const char *text, void *out);
void base64_print(const void *bytes, size_t size, FILE *out);
/* Decodes exactly `size` bytes; false where the text does not hold them. */
bool base64_parse(const char *text, size_t length, void *out, size_t size);

#endif
