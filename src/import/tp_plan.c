/* Reading plan files. */
#include "tp_plan.h"
#include "file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *kind_of(const json_t *v)
{
	static const char *const kinds[] = {
		[JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "a string", [JSON_INTEGER] = "a number",
		[JSON_REAL] = "a number", [JSON_TRUE] = "true", [JSON_FALSE] = "false", [JSON_NULL] = "null",
	};
	return kinds[json_typeof(v)];
}

static enum fs_status add_rule(const char *file, const char *pattern, const json_t *v, struct arena *strings,
			       tp_rules *out, struct diag *d)
{
	const char *value = json_string_value(v);
	if (!name_is_printable(pattern))
		return diag_set(d, FS_INVALID, "%s: a pattern is empty or has control characters", file);
	if (value == NULL)
		return diag_set(d, FS_INVALID, "%s: '%.200s' is %s; a style or a placement wanted, as in \"%.200s\": \"colwise\"",
				file, pattern, kind_of(v), pattern);
	if (!name_is_printable(value))
		return diag_set(d, FS_INVALID, "%s: '%.200s' is empty or has control characters", file, pattern);
	*vec_push(out) = (struct tp_rule){ arena_strdup(strings, pattern), arena_strdup(strings, value), file };
	return FS_OK;
}

static enum fs_status add_rules(const char *file, json_t *plan, struct arena *strings, tp_rules *out, struct diag *d)
{
	const char *pattern;
	json_t *v;
	file = arena_strdup(strings, file);
	if (!json_is_object(plan))
		return diag_set(d, FS_INVALID, "%s: is %s; an object {\"PATTERN\": \"STYLE\", ...} wanted", file, kind_of(plan));
	if (json_object_get(plan, "fp8shard") != NULL)
		return diag_set(d, FS_INVALID, "%s: is a file that fp8shard compiles or wrote, not a plan of styles", file);
	json_object_foreach(plan, pattern, v)
		TRY(add_rule(file, pattern, v, strings, out, d));
	return FS_OK;
}

enum fs_status tp_plan_parse(const char *text, size_t size, const char *file, struct arena *strings, tp_rules *out,
			     struct diag *d)
{
	json_error_t e;
	json_t *plan = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
	if (plan == NULL) {
		return diag_set(d, FS_INVALID, "%s:%d:%d: %s", file, e.line, e.column, e.text);
	}
	enum fs_status status = add_rules(file, plan, strings, out, d);
	json_decref(plan);
	return status;
}

enum fs_status tp_plan_read(const char *path, struct arena *strings, tp_rules *out, struct diag *d)
{
	struct file f;
	char *text;
	TRY(file_open(&f, path, d));
	enum fs_status status = file_read_text(&f, 0, f.size, &text, d);
	if (status == FS_OK)
		status = tp_plan_parse(text, (size_t)f.size, path, strings, out, d);
	free(text);
	file_close(&f);
	return status;
}
