/*
 * Symbolic sizes: sympy's srepr text, "Add(Integer(1), Mul(Integer(2), Symbol('s77', integer=True)))",
 * evaluated.  Symbols get their values from --dim, else from the export's hints.
 */
#include "quantity.h"
#include "torch_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EXPR_DEPTH 64
#define MAX_EXPR_ARGS 64
#define MAX_SYMBOL 64

struct reader {
	struct import *im;
	const char *at;
	int depth;
	bool bound; /* some symbol in it was bound by the user */
	char why[128];
};

static bool refuse(struct reader *r, const char *format, const char *what)
{
	if (r->why[0] == '\0')
		snprintf(r->why, sizeof(r->why), format, what);
	return false;
}

/* --- symbols --- */

static struct symbol *symbol_find(struct import *im, const char *name)
{
	for (uint32_t i = 0; i < im->symbols.count; i++)
		if (strcmp(im->symbols.items[i].name, name) == 0)
			return &im->symbols.items[i];
	return NULL;
}

static struct symbol *symbol_add(struct import *im, const char *name)
{
	struct symbol *s = vec_push(&im->symbols);
	s->name = name;
	for (int i = 0; im->options != NULL && i < im->options->dim_count; i++)
		if (strcmp(im->options->dims[i].name, name) == 0) {
			s->value = im->options->dims[i].size;
			s->known = s->bound = true;
		}
	return s;
}

static void note_hint(struct import *im, struct symbol *s)
{
	char text[256];
	if (s->noted || s->bound || im->options == NULL || im->options->notes == NULL)
		return;
	s->noted = true;
	snprintf(text, sizeof(text), "dim %s = %lld, as in the export's example inputs; --dim %s=SIZE sets it", s->name,
		 (long long)s->value, s->name);
	*vec_push(&im->options->notes->line) = context_intern(im->context, text);
}

/* A limit of the range, where it is a number. */
static bool limit(const json_t *range, const char *key, int64_t *out)
{
	const json_t *v = json_object_get(range, key);
	*out = json_integer_value(v);
	return json_is_integer(v);
}

static enum fs_status check_range(struct import *im, const char *name, int64_t value)
{
	const json_t *range = json_object_get(im->ranges, name);
	int64_t low, high;
	bool has_low = limit(range, "min_val", &low), has_high = limit(range, "max_val", &high);
	if ((!has_low || value >= low) && (!has_high || value <= high))
		return FS_OK;
	char most[32] = "no limit";
	if (has_high)
		snprintf(most, sizeof(most), "%lld", (long long)high);
	return diag_set(im->diag, FS_INVALID, "dim %s = %lld is outside the range that the export declares: %lld to %s",
			name, (long long)value, (long long)(has_low ? low : 0), most);
}

/* --- reading srepr --- */

static bool expression(struct reader *r, struct quantity *out);

static void blank(struct reader *r)
{
	r->at += strspn(r->at, " \t\n");
}

static bool expect(struct reader *r, char c)
{
	blank(r);
	if (*r->at != c)
		return refuse(r, "'%s' is not understood", r->at);
	r->at++;
	return true;
}

static bool integer(struct reader *r, int64_t *out)
{
	char *end;
	blank(r);
	*out = strtoll(r->at, &end, 10);
	if (end == r->at)
		return refuse(r, "'%s' is not understood", r->at);
	r->at = end;
	return true;
}

/* Symbol('s0', positive=True): the assumptions are skipped. */
static bool symbol(struct reader *r, struct quantity *out)
{
	blank(r);
	const char *name = r->at + 1;
	size_t size = *r->at == '\'' ? strcspn(name, "'") : 0;
	if (size == 0 || size > MAX_SYMBOL || name[size] == '\0')
		return refuse(r, "'%s' is not understood", r->at);
	r->at = name + size;
	r->at += strcspn(r->at, ")");
	const char *text = context_intern_n(r->im->context, name, size);
	struct symbol *s = symbol_find(r->im, text);
	s = s ? s : symbol_add(r->im, text);
	if (!s->known)
		return refuse(r, "the size of dim %s is not known", text);
	r->bound |= s->bound;
	*out = quantity_of(s->value);
	return expect(r, ')');
}

static bool arguments(struct reader *r, const char *name, const struct quantity_function *f, struct quantity *out)
{
	struct quantity arg[MAX_EXPR_ARGS];
	int count = 0;
	do {
		if (count == MAX_EXPR_ARGS)
			return refuse(r, "%s has too many arguments", name);
		if (!expression(r, &arg[count++]))
			return false;
		blank(r);
	} while (*r->at == ',' && r->at++);
	return expect(r, ')') && (quantity_apply(f, arg, count, out) || refuse(r, "%s has no value here, or one too large", name));
}

static bool number(struct reader *r, bool pair, struct quantity *out)
{
	int64_t num, den = 1;
	if (!integer(r, &num) || (pair && (!expect(r, ',') || !integer(r, &den))))
		return false;
	return expect(r, ')') && (quantity_of_quotient(num, den, out) || refuse(r, "%s", "a number is out of range"));
}

/* Float('0.5', precision=53) */
static bool decimal(struct reader *r, struct quantity *out)
{
	char *end;
	if (!expect(r, '\''))
		return false;
	double v = strtod(r->at, &end);
	if (end == r->at || *end != '\'' || !isfinite(v))
		return refuse(r, "'%s' is not understood", r->at);
	r->at = end + strcspn(end, ")");
	*out = quantity_of_real(v);
	return expect(r, ')');
}

static bool call(struct reader *r, const char *name, struct quantity *out)
{
	if (strcmp(name, "Symbol") == 0)
		return symbol(r, out);
	if (strcmp(name, "Integer") == 0 || strcmp(name, "Rational") == 0)
		return number(r, *name == 'R', out);
	if (strcmp(name, "Float") == 0)
		return decimal(r, out);
	const struct quantity_function *f = quantity_function(name, strlen(name));
	return f != NULL ? arguments(r, name, f, out) : refuse(r, "%s is not known", name);
}

static bool expression(struct reader *r, struct quantity *out)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.";
	blank(r);
	if (r->depth == MAX_EXPR_DEPTH)
		return refuse(r, "%s", "it nests too deep");
	const char *name = r->at;
	size_t size = strspn(name, letters);
	if (size == 0) {
		int64_t n;
		return integer(r, &n) && (quantity_of_quotient(n, 1, out) || refuse(r, "%s", "a number is out of range"));
	}
	r->at += size;
	if (*r->at != '(') {
		bool yes = size == 4 && memcmp(name, "true", 4) == 0;
		*out = quantity_of(yes);
		return yes || (size == 5 && memcmp(name, "false", 5) == 0) || refuse(r, "'%s' is not understood", name);
	}
	r->at++;
	r->depth++;
	char text[64];
	snprintf(text, sizeof(text), "%.*s", (int)size, name);
	bool fine = call(r, text, out);
	r->depth--;
	return fine;
}

/* --- SymInts of the file --- */

/* The hint of a plain symbol is the symbol's value. */
static void learn(struct import *im, const char *text, int64_t hint)
{
	static const char open[] = "Symbol('";
	const char *name = text + sizeof(open) - 1;
	if (strncmp(text, open, sizeof(open) - 1) != 0 || strchr(name, ')') != text + strlen(text) - 1)
		return;
	size_t size = strcspn(name, "'");
	if (size == 0 || size > MAX_SYMBOL || name[size] == '\0')
		return;
	const char *own = context_intern_n(im->context, name, size);
	struct symbol *s = symbol_find(im, own);
	s = s ? s : symbol_add(im, own);
	if (s->known)
		return;
	s->value = hint;
	s->known = true;
	note_hint(im, s);
}

/* Of a number, or of a truth value: 1 or 0. */
static struct quantity number_of(const json_t *v)
{
	return json_is_real(v) ? quantity_of_real(json_real_value(v))
			       : quantity_of(json_is_boolean(v) ? json_is_true(v) : json_integer_value(v));
}

static bool hint_of(const json_t *expr, struct quantity *out)
{
	const json_t *v;
	enum tag tag;
	if (!union_get(json_object_get(expr, "hint"), &tag, &v) || (!json_is_number(v) && !json_is_boolean(v)))
		return false;
	*out = number_of(v);
	return true;
}

/* The hint stands in where an expression is not understood and nothing in it was bound by the user. */
static enum fs_status read_expression(struct import *im, const json_t *expr, bool whole, struct quantity *out)
{
	const char *text = text_of(expr, "expr_str");
	int64_t n;
	struct quantity hint;
	bool hinted = hint_of(expr, &hint);
	if (text == NULL)
		return diag_set(im->diag, FS_INVALID, "a symbolic size without 'expr_str'");
	if (hinted && quantity_integer(hint, &n))
		learn(im, text, n);
	struct reader r = { .im = im, .at = text };
	if (expression(&r, out) && (!whole || quantity_integer(*out, &n)))
		return FS_OK;
	if (!hinted || r.bound)
		return diag_set(im->diag, FS_INVALID, "size '%.200s': %s", text, r.why[0] ? r.why : "it is no integer");
	*out = hint;
	return FS_OK;
}

/* A number of the file, or an expression over the symbols. */
static enum fs_status read_number(struct import *im, const json_t *sym, bool whole, struct quantity *out)
{
	enum tag tag;
	const json_t *v;
	if (union_get(sym, &tag, &v)) {
		if (tag == TAG_EXPR)
			return read_expression(im, v, whole, out);
		*out = number_of(v);
		if (tag == TAG_BOOL ? json_is_boolean(v) : json_is_integer(v) || (!whole && json_is_real(v)))
			return FS_OK;
	}
	return diag_set(im->diag, FS_INVALID, "a size is neither a number nor an expression");
}

enum fs_status dims_read(struct import *im, const json_t *symint, int64_t *out)
{
	struct quantity q;
	TRY(read_number(im, symint, true, &q));
	return quantity_integer(q, out) ? FS_OK : diag_set(im->diag, FS_INVALID, "a size is no integer");
}

bool dims_named(struct import *im, const json_t *graph, const char *name, struct value *out)
{
	static const struct { const char *key; enum value_kind kind; } lists[] = {
		{ "sym_int_values", VALUE_INT }, { "sym_bool_values", VALUE_BOOL }, { "sym_float_values", VALUE_FLOAT },
	};
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		const json_t *v = json_object_get(json_object_get(graph, lists[i].key), name);
		struct quantity q;
		if (v == NULL)
			continue;
		*out = (struct value){ .kind = lists[i].kind };
		if (read_number(im, v, out->kind != VALUE_FLOAT, &q) != FS_OK)
			return false;
		out->f = quantity_real(q);
		return out->kind == VALUE_FLOAT || quantity_integer(q, &out->i);
	}
	return false;
}

bool dims_complex(const json_t *meta)
{
	const json_t *inner = json_object_get(meta, "meta");
	return json_integer_value(json_object_get(inner != NULL ? inner : meta, "dtype")) == COMPLEX64;
}

enum fs_status dims_shape(struct import *im, const json_t *meta, struct type *out)
{
	const json_t *inner = json_object_get(meta, "meta"), *size;
	meta = inner != NULL ? inner : meta; /* of 2023 */
	const json_t *dtype = json_object_get(meta, "dtype"), *sizes = json_object_get(meta, "sizes");
	size_t i;
	*out = (struct type){ .dtype = DT_NONE };
	if (!json_is_integer(dtype) || !json_is_array(sizes))
		return diag_set(im->diag, FS_INVALID, "a tensor without 'dtype' or 'sizes'");
	out->dtype = dims_complex(meta) ? DT_F32 : (uint8_t)dtype_from_torch(json_integer_value(dtype));
	if (out->dtype == DT_NONE)
		return diag_set(im->diag, FS_UNSUPPORTED, "element type %lld of torch.export is not supported",
				(long long)json_integer_value(dtype));
	if (json_array_size(sizes) > MAX_RANK)
		return diag_set(im->diag, FS_UNSUPPORTED, "a tensor of more than %d dims", MAX_RANK);
	out->rank = (uint8_t)json_array_size(sizes);
	json_array_foreach((json_t *)(uintptr_t)sizes, i, size) {
		TRY(dims_read(im, size, &out->dim[i]));
		if (out->dim[i] < 0)
			return diag_set(im->diag, FS_INVALID, "a tensor of negative size");
	}
	return FS_OK;
}

/* " (ids.shape[0])", the first place of a symbol in the inputs; nothing where it stands alone nowhere. */
static void place_of(const struct scope *s, const char *symbol, char *out, size_t size)
{
	char open[MAX_SYMBOL + 16];
	const json_t *input, *dim;
	size_t i, j;
	int length = snprintf(open, sizeof(open), "Symbol('%.*s'", MAX_SYMBOL, symbol);
	*out = '\0';
	json_array_foreach(json_object_get(s->graph, "inputs"), i, input) {
		const char *name = text_of(json_object_get(input, "as_tensor"), "name");
		const json_t *type = name == NULL ? NULL : json_object_get(s->types, name);
		json_array_foreach(json_object_get(type, "sizes"), j, dim) {
			const char *text = text_of(json_object_get(dim, "as_expr"), "expr_str");
			if (text != NULL && strncmp(text, open, (size_t)length) == 0) {
				snprintf(out, size, " (%.60s.shape[%zu])", name, j);
				return;
			}
		}
	}
}

static void list_symbols(const struct import *im, const struct scope *s, char *out, size_t size)
{
	char place[96];
	snprintf(out, size, "none");
	for (uint32_t i = 0, used = 0; i < im->symbols.count && used < size; i++) {
		const char *name = im->symbols.items[i].name;
		place_of(s, name, place, sizeof(place));
		used += (uint32_t)snprintf(out + used, size - used, "%s%s%s", i > 0 ? ", " : "", name, place);
	}
}

enum fs_status dims_start(struct import *im)
{
	const struct import_options *o = im->options;
	for (int i = 0; o != NULL && i < o->dim_count; i++)
		TRY(check_range(im, o->dims[i].name, o->dims[i].size));
	return FS_OK;
}

enum fs_status dims_finish(struct import *im, const struct scope *s)
{
	char names[256];
	const struct import_options *o = im->options;
	for (uint32_t i = 0; i < im->symbols.count; i++)
		if (im->symbols.items[i].known)
			TRY(check_range(im, im->symbols.items[i].name, im->symbols.items[i].value));
	list_symbols(im, s, names, sizeof(names));
	for (int i = 0; o != NULL && i < o->dim_count; i++)
		if (symbol_find(im, o->dims[i].name) == NULL)
			return diag_set(im->diag, FS_INVALID, "--dim %s=%lld: the graph has no such dim; it has %s",
					o->dims[i].name, (long long)o->dims[i].size, names);
	return FS_OK;
}
