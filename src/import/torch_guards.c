/*
 * What tracing took for granted of sizes: "guards_code", Python conditions such as
 * "(L['x'].size()[0] % 2) == 0".  Where they do not hold the graph is of another branch, so a size that
 * --dim binds must keep them.  Read: or, and, not, chained comparisons, arithmetic, a few functions,
 * sizes of inputs.
 */
#include "quantity.h"
#include "torch_impl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GUARD_DEPTH 64
#define MAX_GUARD_ARGS 16

struct guard {
	struct import *im;
	const json_t *specs, *types;
	const char *at;
	int depth;
};

static bool any(struct guard *g, struct quantity *out);

/* --- words --- */

/* Whether `text` comes next; a word must end there. */
static bool take(struct guard *g, const char *text)
{
	size_t n = strlen(text);
	g->at += strspn(g->at, " ");
	if (strncmp(g->at, text, n) != 0 || (isalpha((unsigned char)text[n - 1]) && isalnum((unsigned char)g->at[n])))
		return false;
	g->at += n;
	return true;
}

static bool index_of(struct guard *g, int64_t *out)
{
	char *end;
	if (!take(g, "["))
		return false;
	*out = strtoll(g->at, &end, 10);
	bool fine = end > g->at && *out >= 0;
	g->at = end;
	return take(g, "]") && fine;
}

/* --- inputs --- */

/* Number n of the user's inputs; NULL: there is none, or it is no tensor. */
static const char *input_at(const struct guard *g, int64_t n)
{
	const json_t *spec, *arg;
	enum tag tag;
	size_t i;
	json_array_foreach((json_t *)(uintptr_t)g->specs, i, spec) {
		const json_t *user = json_object_get(spec, "user_input");
		if (user == NULL && json_object_get(spec, "constant_input") == NULL)
			continue;
		if (n-- == 0)
			return union_get(json_object_get(user, "arg"), &tag, &arg) ? text_of(arg, "name") : NULL;
	}
	return NULL;
}

/* ['batch']['ids'] is the input batch_ids, ['xs'][0] is xs_0; false: another form, or too long. */
static bool read_path(struct guard *g, char *name, size_t room)
{
	size_t used = 0;
	do {
		bool quoted = take(g, "['");
		if (!quoted && !take(g, "["))
			return used > 0;
		size_t n = strcspn(g->at, quoted ? "'" : "]");
		if (used + n + 2 > room || g->at[n] == '\0')
			return false;
		used += (size_t)snprintf(name + used, room - used, "%s%.*s", used > 0 ? "_" : "", (int)n, g->at);
		g->at += n + (quoted ? 1 : 0);
	} while (take(g, "]") && strncmp(g->at, "[", 1) == 0);
	return true;
}

/* L['x'].size()[0] */
static bool size_of_input(struct guard *g, struct quantity *out)
{
	static const char flat[] = "flat_args_";
	char name[256];
	int64_t k, size;
	if (!read_path(g, name, sizeof(name)))
		return false;
	const char *input = strncmp(name, flat, sizeof(flat) - 1) == 0 ? input_at(g, atoll(name + sizeof(flat) - 1)) : name;
	const json_t *meta = input == NULL ? NULL : json_object_get(g->types, input);
	if (meta == NULL || !take(g, ".size()") || !index_of(g, &k))
		return false;
	const json_t *dim = json_array_get(json_object_get(meta, "sizes"), (size_t)k);
	if (dim == NULL || dims_read(g->im, dim, &size) != FS_OK)
		return false;
	*out = quantity_of(size);
	return true;
}

/* --- expressions; each gives false where it does not understand --- */

static bool deeper(struct guard *g, bool (*read)(struct guard *g, struct quantity *out), struct quantity *out)
{
	if (g->depth == MAX_GUARD_DEPTH)
		return false;
	g->depth++;
	bool fine = read(g, out);
	g->depth--;
	return fine;
}

static bool apply(const char *function, const struct quantity *arg, int count, struct quantity *out)
{
	return quantity_apply(quantity_function(function, strlen(function)), arg, count, out);
}

static bool arguments(struct guard *g, const char *function, struct quantity *out)
{
	struct quantity arg[MAX_GUARD_ARGS];
	int count = 0;
	do {
		if (count == MAX_GUARD_ARGS || !any(g, &arg[count++]))
			return false;
	} while (take(g, ","));
	return take(g, ")") && apply(function, arg, count, out);
}

static bool number(struct guard *g, struct quantity *out)
{
	char *end;
	size_t digits = strspn(g->at, "0123456789");
	if (digits == 0)
		return false;
	bool real = g->at[digits] == '.' || g->at[digits] == 'e';
	*out = real ? quantity_of_real(strtod(g->at, &end)) : quantity_of(strtoll(g->at, &end, 10));
	g->at = end;
	return true;
}

static bool atom(struct guard *g, struct quantity *out)
{
	static const struct { const char *text, *function; } calls[] = {
		{ "math.trunc(", "TruncToInt" }, { "math.floor(", "FloorToInt" }, { "math.ceil(", "CeilToInt" },
		{ "math.sqrt(", "OpaqueUnaryFn_sqrt" }, { "torch._sym_sqrt(", "OpaqueUnaryFn_sqrt" },
		{ "torch.sym_float(", "ToFloat" }, { "float(", "ToFloat" },
		{ "max(", "Max" }, { "min(", "Min" },
	};
	if (take(g, "("))
		return any(g, out) && take(g, ")");
	if (take(g, "L"))
		return size_of_input(g, out);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (take(g, calls[i].text))
			return arguments(g, calls[i].function, out);
	return number(g, out);
}

static bool signed_power(struct guard *g, struct quantity *out)
{
	struct quantity pair[2] = { quantity_of(-1) };
	if (take(g, "-"))
		return deeper(g, signed_power, &pair[1]) && apply("Mul", pair, 2, out);
	if (!atom(g, out))
		return false;
	pair[0] = *out;
	return !take(g, "**") || (deeper(g, signed_power, &pair[1]) && apply("Pow", pair, 2, out));
}

struct infix { const char *text, *function; };

static const char *infix_next(struct guard *g, const struct infix *table, int count)
{
	for (int i = 0; i < count; i++)
		if (take(g, table[i].text))
			return table[i].function;
	return NULL;
}

static bool product(struct guard *g, struct quantity *out)
{
	static const struct infix table[] = {
		{ "*", "Mul" }, { "//", "FloorDiv" }, { "/", "IntTrueDiv" }, { "%", "PythonMod" },
	};
	const char *f;
	struct quantity pair[2];
	if (!signed_power(g, &pair[0]))
		return false;
	while ((f = infix_next(g, table, 4)) != NULL)
		if (!signed_power(g, &pair[1]) || !apply(f, pair, 2, &pair[0]))
			return false;
	*out = pair[0];
	return true;
}

static bool sum(struct guard *g, struct quantity *out)
{
	struct quantity pair[2], negative[2] = { quantity_of(-1) };
	bool minus = false;
	if (!product(g, &pair[0]))
		return false;
	while (take(g, "+") || (minus = take(g, "-"))) {
		if (!product(g, &pair[1]))
			return false;
		negative[1] = pair[1];
		if ((minus && !apply("Mul", negative, 2, &pair[1])) || !apply("Add", pair, 2, &pair[0]))
			return false;
		minus = false;
	}
	*out = pair[0];
	return true;
}

/* a < b <= c */
static bool comparison(struct guard *g, struct quantity *out)
{
	static const struct infix table[] = {
		{ "==", "Equality" }, { "!=", "Unequality" }, { "<=", "LessThan" }, { ">=", "GreaterThan" },
		{ "<", "StrictLessThan" }, { ">", "StrictGreaterThan" },
	};
	const char *f;
	struct quantity pair[2], truth, all = quantity_of(1);
	bool compared = false;
	if (!sum(g, &pair[0]))
		return false;
	while ((f = infix_next(g, table, 6)) != NULL) {
		if (!sum(g, &pair[1]) || !apply(f, pair, 2, &truth))
			return false;
		pair[0] = pair[1];
		all = truth.num == 0 ? truth : all;
		compared = true;
	}
	*out = compared ? all : pair[0];
	return true;
}

static bool negation(struct guard *g, struct quantity *out)
{
	if (!take(g, "not"))
		return comparison(g, out);
	return deeper(g, negation, out) && apply("Not", out, 1, out);
}

static bool all(struct guard *g, struct quantity *out)
{
	struct quantity pair[2];
	if (!negation(g, &pair[0]))
		return false;
	while (take(g, "and"))
		if (!negation(g, &pair[1]) || !apply("And", pair, 2, &pair[0]))
			return false;
	*out = pair[0];
	return true;
}

static bool any_of(struct guard *g, struct quantity *out)
{
	struct quantity pair[2];
	if (!all(g, &pair[0]))
		return false;
	while (take(g, "or"))
		if (!all(g, &pair[1]) || !apply("Or", pair, 2, &pair[0]))
			return false;
	*out = pair[0];
	return true;
}

static bool any(struct guard *g, struct quantity *out)
{
	return deeper(g, any_of, out);
}

/* --- all of them --- */

static enum fs_status check(struct guard *g, const char *text)
{
	struct quantity truth;
	g->at = text;
	bool understood = any(g, &truth) && g->at[strspn(g->at, " ")] == '\0';
	if (understood && quantity_real(truth) != 0)
		return FS_OK;
	if (understood)
		return diag_set(g->im->diag, FS_INVALID, "the export does not hold for these sizes; it relies on: %.300s", text);
	return diag_set(g->im->diag, FS_UNSUPPORTED,
			"whether the export holds for other sizes than its own is not known; it relies on: %.300s", text);
}

enum fs_status guards_check(struct import *im, const json_t *program)
{
	const json_t *module = json_object_get(program, "graph_module"), *guard;
	struct guard g = { .im = im };
	bool bound = false; /* else they hold: they were found with these sizes */
	size_t i;
	g.specs = json_object_get(json_object_get(module, "signature"), "input_specs");
	g.types = json_object_get(json_object_get(module, "graph"), "tensor_values");
	for (uint32_t k = 0; k < im->symbols.count; k++)
		bound = bound || im->symbols.items[k].bound;
	json_array_foreach(bound ? json_object_get(program, "guards_code") : NULL, i, guard)
		if (json_is_string(guard))
			TRY(check(&g, json_string_value(guard)));
	return FS_OK;
}
