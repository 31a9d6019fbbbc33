/* The report of a compile. */
#include "cli.h"
#include "file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static bool swapped(const struct matmul_report *m)
{
	return m->recipe != NULL && strcmp(m->recipe, "none") != 0;
}

static const char *label(const struct matmul_report *m)
{
	if (m->module != NULL && *m->module != '\0')
		return m->module;
	return m->node != NULL ? m->node : "?";
}

/* As wide as the longest, within reason. */
static int label_width(const struct compile *c)
{
	int width = 6;
	for (uint32_t i = 0; i < c->matmuls.count; i++) {
		int n = (int)strlen(label(&c->matmuls.items[i]));
		width = n > width ? n : width;
	}
	return width < 60 ? width : 60;
}

/* All matmuls of a graph with its backward have one. */
static bool has_roles(const struct compile *c)
{
	return c->matmuls.count > 0 && c->matmuls.items[0].role != NULL;
}

void report_table(const struct compile *c, FILE *out)
{
	int width = label_width(c);
	uint32_t count = 0;
	if (c->matmuls.count > 0)
		fprintf(out, "%-*s %s%8s %8s %8s  %-18s %s\n", width, "matmul", has_roles(c) ? "role        " : "", "M", "N", "K",
			"recipe", "reason");
	for (uint32_t i = 0; i < c->matmuls.count; i++) {
		const struct matmul_report *m = &c->matmuls.items[i];
		const char *reason = m->reason != NULL ? m->reason : "";
		fprintf(out, "%-*s ", width, label(m));
		if (m->role != NULL)
			fprintf(out, "%-11s ", m->role);
		fprintf(out, "%8lld %8lld %8lld  %-*s%s%s\n", (long long)m->m, (long long)m->n, (long long)m->k,
			*reason ? 18 : 0, m->recipe != NULL ? m->recipe : "none", *reason ? " " : "", reason);
		count += swapped(m);
	}
	fprintf(out, "%u of %u matmuls in fp8\n", count, c->matmuls.count);
}

/* --- --report --- */

static void report_text(const char *input, const struct compile *c, const char *failed, FILE *out)
{
	fprintf(out, "fp8shard compile %s\n", input);
	if (failed != NULL)
		fprintf(out, "error: %s\n", failed);
	if (c == NULL)
		return;
	for (uint32_t i = 0; i < c->notes.count; i++)
		fprintf(out, "note: %s\n", c->notes.items[i]);
	report_table(c, out);
}

/* JSON has UTF-8 only: other text has ? for its bytes above ASCII. */
static json_t *text_json(const char *text)
{
	json_t *v = json_string(text);
	if (v != NULL)
		return v;
	char *copy = strdup(text);
	for (char *s = copy; s != NULL && *s != '\0'; s++)
		if ((unsigned char)*s >= 0x80)
			*s = '?';
	v = copy != NULL ? json_string(copy) : NULL;
	free(copy);
	return v != NULL ? v : json_null();
}

static void set_string(json_t *o, const char *key, const char *value)
{
	json_object_set_new(o, key, value != NULL ? text_json(value) : json_null());
}

static json_t *matmul_json(const struct matmul_report *m)
{
	json_t *o = json_object();
	set_string(o, "node", m->node);
	set_string(o, "module", m->module);
	set_string(o, "source", m->source);
	json_object_set_new(o, "m", json_integer(m->m));
	json_object_set_new(o, "n", json_integer(m->n));
	json_object_set_new(o, "k", json_integer(m->k));
	set_string(o, "role", m->role);
	set_string(o, "recipe", m->recipe != NULL ? m->recipe : "none");
	set_string(o, "reason", m->reason != NULL ? m->reason : "");
	return o;
}

static void report_json(const char *input, const struct compile *c, const char *failed, FILE *out)
{
	json_t *o = json_object(), *notes = json_array(), *matmuls = json_array();
	set_string(o, "fp8shard", "report");
	json_object_set_new(o, "version", json_integer(1));
	set_string(o, "input", input);
	set_string(o, "error", failed);
	for (uint32_t i = 0; c != NULL && i < c->notes.count; i++)
		json_array_append_new(notes, text_json(c->notes.items[i]));
	for (uint32_t i = 0; c != NULL && i < c->matmuls.count; i++)
		json_array_append_new(matmuls, matmul_json(&c->matmuls.items[i]));
	json_object_set_new(o, "notes", notes);
	json_object_set_new(o, "matmuls", matmuls);
	json_dumpf(o, out, JSON_INDENT(1));
	fputc('\n', out);
	json_decref(o);
}

enum fs_status report_write(const char *path, const char *input, const struct compile *c, const char *failed,
			    struct diag *d)
{
	char *text = NULL;
	size_t size = 0, n = strlen(path);
	FILE *f = open_memstream(&text, &size);
	if (f == NULL)
		return diag_set(d, FS_NOMEM, "%s: out of memory", path);
	bool as_json = n > 5 && strcmp(path + n - 5, ".json") == 0;
	(as_json ? report_json : report_text)(input, c, failed, f);
	fclose(f);
	enum fs_status status = file_write_whole(path, text, size, d);
	free(text);
	return status;
}
