/* What --check found: a table for people, JSON for programs. */
#include "plan_check.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* "  93.1", "  same" where nothing differs, "     -" where it does not apply. */
static void print_decibel(double x, FILE *out)
{
	if (isnan(x))
		fprintf(out, " %6s", "-");
	else if (isinf(x))
		fprintf(out, " %6s", x > 0 ? "same" : "-inf");
	else
		fprintf(out, " %6.1f", x);
}

static char mark(bool failed)
{
	return failed ? '!' : ' ';
}

static void print_row(const struct check *c, const struct check_row *r, FILE *out)
{
	print_decibel(r->a, out);
	if (c->wide)
		print_decibel(r->a_unsharded, out);
	fputc(mark(r->failed_a), out);
	print_decibel(r->b, out);
	print_decibel(r->b_rows, out);
	fputc(mark(r->failed_b), out);
	if (r->c_equal)
		fprintf(out, " %6s", "bits");
	else
		print_decibel(r->c, out);
	fprintf(out, "%c %-10s ", mark(r->failed_c), r->module == NULL ? "output" : r->recipe);
	if (r->module == NULL)
		fprintf(out, "%s\n", r->name);
	else
		fprintf(out, "%s%s%s%s\n", r->module, r->module[0] != '\0' ? " (" : "", r->name,
			r->module[0] != '\0' ? ")" : "");
}

static uint32_t count_failed(const struct check *c, size_t field)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < c->count; i++)
		n += *(const bool *)((const char *)&c->rows[i] + field);
	return n;
}

static void print_summary(const struct check *c, FILE *out)
{
	uint32_t a = count_failed(c, offsetof(struct check_row, failed_a));
	uint32_t b = count_failed(c, offsetof(struct check_row, failed_b));
	uint32_t e = count_failed(c, offsetof(struct check_row, failed_c));
	if (c->wide)
		fprintf(out, "A  sharded against unsharded, both against f32: at most %g dB lost: %u failed\n", CHECK_A_LOSS, a);
	else
		fprintf(out, "A  sharded against unsharded, high precision: at least %g dB: %u failed\n", CHECK_A_F32, a);
	fprintf(out, "B  each fp8 product against high precision: at least %g dB: %u failed\n", CHECK_B, b);
	if (c->bits)
		fprintf(out, "C  sharded fp8 against unsharded: equal bits: %u failed\n", e);
	else
		fprintf(out, "C  sharded fp8 against unsharded: shown, not judged\n");
	fprintf(out, "check: %s\n", c->failed == 0 ? "passed" : "FAILED");
}

void check_print(const struct check *c, uint32_t most, FILE *out)
{
	uint32_t shown = c->count < most ? c->count : most;
	if (c->wide)
		fprintf(out, "%7s%7s %7s%7s %7s  %-10s value\n", "A", "1 rank", "B", "rows", "C", "recipe");
	else
		fprintf(out, "%7s %7s%7s %7s  %-10s value\n", "A", "B", "rows", "C", "recipe");
	for (uint32_t i = 0; i < shown; i++)
		print_row(c, &c->rows[i], out);
	if (shown < c->count)
		fprintf(out, "... and %u better ones\n", c->count - shown);
	print_summary(c, out);
}

/* --- JSON: an infinite figure (all equal) is null, as one that does not apply --- */

static json_t *decibel_json(double x)
{
	return isfinite(x) ? json_real(x) : json_null();
}

static json_t *row_json(const struct check_row *r)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:b}",
			 "kind", r->module == NULL ? "output" : "matmul", "name", r->name,
			 "module", r->module == NULL ? "" : r->module, "recipe", r->recipe,
			 "a", decibel_json(r->a), "a_unsharded", decibel_json(r->a_unsharded),
			 "b", decibel_json(r->b), "b_rows", decibel_json(r->b_rows), "c", decibel_json(r->c),
			 "a_equal", r->a == INFINITY, "c_equal", r->c_equal,
			 "failed_a", r->failed_a, "failed_b", r->failed_b, "failed_c", r->failed_c);
}

enum fs_status check_json(const struct check *c, char **text, struct diag *d)
{
	json_t *rows = json_array();
	for (uint32_t i = 0; i < c->count; i++)
		json_array_append_new(rows, row_json(&c->rows[i]));
	json_t *all = json_pack("{s:b, s:I, s:b, s:b, s:o}", "passed", c->failed == 0, "failed", (json_int_t)c->failed,
				"a_against_f32", c->wide, "c_judged", c->bits, "rows", rows);
	*text = all == NULL ? NULL : json_dumps(all, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	json_decref(all);
	return *text == NULL ? diag_set(d, FS_NOMEM, "out of memory") : FS_OK;
}
