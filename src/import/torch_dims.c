/*
 * Symbolic sizes: sympy's srepr text, "Add(Integer(1), Mul(Integer(2), Symbol('s77', integer=True)))",
 * evaluated in exact rational numbers.  Symbols get their values from --dim, else from the export's hints.
 */
#include "torch_impl.h"

#include <stdlib.h>
#include <string.h>

#define MAX_EXPR_DEPTH 64
#define MAX_EXPR_ARGS 64
#define MAX_SYMBOL 64

struct rational { int64_t num, den; }; /* den > 0, lowest terms */

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

/* --- rational arithmetic; false on overflow --- */

static int64_t gcd(int64_t a, int64_t b)
{
	while (b != 0) {
		int64_t t = a % b;
		a = b;
		b = t;
	}
	return a < 0 ? -a : a;
}

static bool rational(int64_t num, int64_t den, struct rational *out)
{
	if (den == 0 || num == INT64_MIN || den == INT64_MIN)
		return false;
	int64_t g = gcd(num, den);
	g = den < 0 ? -g : g;
	*out = (struct rational){ num / g, den / g };
	return true;
}

static bool add(struct rational a, struct rational b, struct rational *out)
{
	int64_t x, y, n, d;
	return mul_size(a.num, b.den, &x) && mul_size(b.num, a.den, &y) && add_size(x, y, &n) &&
	       mul_size(a.den, b.den, &d) && rational(n, d, out);
}

static bool multiply(struct rational a, struct rational b, struct rational *out)
{
	int64_t n, d;
	return mul_size(a.num, b.num, &n) && mul_size(a.den, b.den, &d) && rational(n, d, out);
}

static bool divide(struct rational a, struct rational b, struct rational *out)
{
	struct rational inverse;
	return rational(b.den, b.num, &inverse) && multiply(a, inverse, out);
}

static int64_t floor_of(struct rational a)
{
	int64_t q = a.num / a.den;
	return a.num % a.den < 0 ? q - 1 : q;
}

static bool floor_divide(struct rational a, struct rational b, struct rational *out)
{
	struct rational q;
	if (!divide(a, b, &q))
		return false;
	*out = (struct rational){ floor_of(q), 1 };
	return true;
}

static bool ceil_divide(struct rational a, struct rational b, struct rational *out)
{
	if (!floor_divide((struct rational){ -a.num, a.den }, b, out))
		return false;
	out->num = -out->num;
	return true;
}

static bool modulo(struct rational a, struct rational b, struct rational *out)
{
	struct rational q, p;
	return floor_divide(a, b, &q) && multiply(q, b, &p) && add(a, (struct rational){ -p.num, p.den }, out);
}

static bool power(struct rational a, struct rational b, struct rational *out)
{
	int64_t n = b.num < 0 ? -b.num : b.num;
	struct rational base = a;
	if (b.den != 1 || n > 64 || (b.num < 0 && !rational(a.den, a.num, &base)))
		return false;
	*out = (struct rational){ 1, 1 };
	for (; n > 0; n--)
		if (!multiply(*out, base, out))
			return false;
	return true;
}

static int compare(struct rational a, struct rational b)
{
	__extension__ __int128 x = (__int128)a.num * b.den, y = (__int128)b.num * a.den;
	return x < y ? -1 : x > y;
}

static bool maximum(struct rational a, struct rational b, struct rational *out)
{
	*out = compare(a, b) < 0 ? b : a;
	return true;
}

static bool minimum(struct rational a, struct rational b, struct rational *out)
{
	*out = compare(a, b) > 0 ? b : a;
	return true;
}

#define TRUTH(name, expression)                                                             \
	static bool name(struct rational a, struct rational b, struct rational *out)        \
	{                                                                                   \
		*out = (struct rational){ (expression), 1 };                                \
		return true;                                                                \
	}
TRUTH(equal, compare(a, b) == 0)
TRUTH(unequal, compare(a, b) != 0)
TRUTH(less, compare(a, b) < 0)
TRUTH(at_most, compare(a, b) <= 0)
TRUTH(greater, compare(a, b) > 0)
TRUTH(at_least, compare(a, b) >= 0)
TRUTH(both, a.num != 0 && b.num != 0)
TRUTH(either, a.num != 0 || b.num != 0)
#undef TRUTH

/* Of one argument; of two, or folded over more from the left. */
static bool same(struct rational a, struct rational *out)
{
	*out = a;
	return true;
}

static bool floored(struct rational a, struct rational *out)
{
	*out = (struct rational){ floor_of(a), 1 };
	return true;
}

static bool ceiled(struct rational a, struct rational *out)
{
	*out = (struct rational){ -floor_of((struct rational){ -a.num, a.den }), 1 };
	return true;
}

static bool truncated(struct rational a, struct rational *out)
{
	return a.num < 0 ? ceiled(a, out) : floored(a, out);
}

static bool negated(struct rational a, struct rational *out)
{
	*out = (struct rational){ a.num == 0, 1 };
	return true;
}

static const struct function {
	const char *name;
	bool (*one)(struct rational a, struct rational *out);
	bool (*two)(struct rational a, struct rational b, struct rational *out);
} functions[] = {
	{ "Add", same, add },
	{ "Mul", same, multiply },
	{ "Max", same, maximum },
	{ "Min", same, minimum },
	{ "Pow", NULL, power },
	{ "PowByNatural", NULL, power },
	{ "FloorDiv", NULL, floor_divide },
	{ "CleanDiv", NULL, floor_divide },
	{ "CeilDiv", NULL, ceil_divide },
	{ "IntTrueDiv", NULL, divide },
	{ "FloatTrueDiv", NULL, divide },
	{ "Mod", NULL, modulo },
	{ "PythonMod", NULL, modulo },
	{ "floor", floored, NULL },
	{ "FloorToInt", floored, NULL },
	{ "ceiling", ceiled, NULL },
	{ "CeilToInt", ceiled, NULL },
	{ "TruncToInt", truncated, NULL },
	{ "TruncToFloat", truncated, NULL },
	{ "ToFloat", same, NULL },
	{ "Identity", same, NULL },
	{ "Equality", NULL, equal },
	{ "Unequality", NULL, unequal },
	{ "StrictLessThan", NULL, less },
	{ "LessThan", NULL, at_most },
	{ "StrictGreaterThan", NULL, greater },
	{ "GreaterThan", NULL, at_least },
	{ "And", same, both },
	{ "Or", same, either },
	{ "Not", negated, NULL },
};

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

static enum fs_status check_range(struct import *im, const struct symbol *s)
{
	const json_t *range = json_object_get(im->ranges, s->name);
	int64_t low, high;
	bool has_low = limit(range, "min_val", &low), has_high = limit(range, "max_val", &high);
	if ((!has_low || s->value >= low) && (!has_high || s->value <= high))
		return FS_OK;
	char most[32] = "no limit";
	if (has_high)
		snprintf(most, sizeof(most), "%lld", (long long)high);
	return diag_set(im->diag, FS_INVALID, "dim %s = %lld is outside the range that the export declares: %lld to %s",
			s->name, (long long)s->value, (long long)(has_low ? low : 0), most);
}

/* --- reading srepr --- */

static bool expression(struct reader *r, struct rational *out);

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
static bool symbol(struct reader *r, struct rational *out)
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
	*out = (struct rational){ s->value, 1 };
	return expect(r, ')');
}

static bool apply(struct reader *r, const struct function *f, const struct rational *arg, int count,
		  struct rational *out)
{
	bool fine = count == 1 ? f->one != NULL && f->one(arg[0], out) : f->two != NULL;
	if (count > 1 && fine) {
		*out = arg[0];
		for (int i = 1; i < count && fine; i++)
			fine = f->two(*out, arg[i], out);
	}
	return fine || refuse(r, "%s has no value here, or one too large", f->name);
}

static bool arguments(struct reader *r, const struct function *f, struct rational *out)
{
	struct rational arg[MAX_EXPR_ARGS];
	int count = 0;
	do {
		if (count == MAX_EXPR_ARGS)
			return refuse(r, "%s has too many arguments", f->name);
		if (!expression(r, &arg[count++]))
			return false;
		blank(r);
	} while (*r->at == ',' && r->at++);
	return expect(r, ')') && apply(r, f, arg, count, out);
}

static bool number(struct reader *r, bool pair, struct rational *out)
{
	int64_t num, den = 1;
	if (!integer(r, &num) || (pair && (!expect(r, ',') || !integer(r, &den))))
		return false;
	return expect(r, ')') && (rational(num, den, out) || refuse(r, "%s", "a number is out of range"));
}

static bool call(struct reader *r, const char *name, size_t size, struct rational *out)
{
	if (size == 6 && memcmp(name, "Symbol", 6) == 0)
		return symbol(r, out);
	if (size == 7 && memcmp(name, "Integer", 7) == 0)
		return number(r, false, out);
	if (size == 8 && memcmp(name, "Rational", 8) == 0)
		return number(r, true, out);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (strlen(functions[i].name) == size && memcmp(functions[i].name, name, size) == 0)
			return arguments(r, &functions[i], out);
	char text[64];
	snprintf(text, sizeof(text), "%.*s", (int)size, name);
	return refuse(r, "%s is not known", text);
}

static bool expression(struct reader *r, struct rational *out)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.";
	blank(r);
	if (r->depth == MAX_EXPR_DEPTH)
		return refuse(r, "%s", "it nests too deep");
	const char *name = r->at;
	size_t size = strspn(name, letters);
	if (size == 0) {
		int64_t n;
		return integer(r, &n) && (rational(n, 1, out) || refuse(r, "%s", "a number is out of range"));
	}
	r->at += size;
	if (*r->at != '(') {
		bool yes = size == 4 && memcmp(name, "true", 4) == 0;
		*out = (struct rational){ yes, 1 };
		return yes || (size == 5 && memcmp(name, "false", 5) == 0) || refuse(r, "'%s' is not understood", name);
	}
	r->at++;
	r->depth++;
	bool fine = call(r, name, size, out);
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

static enum fs_status read_expression(struct import *im, const json_t *expr, int64_t *out)
{
	const char *text = text_of(expr, "expr_str");
	const json_t *value;
	enum tag tag = TAG_NONE;
	bool hinted = union_get(json_object_get(expr, "hint"), &tag, &value) && json_is_integer(value);
	int64_t hint = hinted ? json_integer_value(value) : 0;
	struct rational result;
	if (text == NULL)
		return diag_set(im->diag, FS_INVALID, "a symbolic size without 'expr_str'");
	if (hinted)
		learn(im, text, hint);
	struct reader r = { .im = im, .at = text };
	if (expression(&r, &result) && result.den == 1) {
		*out = result.num;
		return FS_OK;
	}
	if (!hinted || r.bound)
		return diag_set(im->diag, FS_INVALID, "size '%.200s': %s", text, r.why[0] ? r.why : "it is no integer");
	*out = hint;
	return FS_OK;
}

enum fs_status dims_read(struct import *im, const json_t *symint, int64_t *out)
{
	enum tag tag;
	const json_t *v;
	if (union_get(symint, &tag, &v)) {
		if ((tag == TAG_INT && json_is_integer(v)) || (tag == TAG_BOOL && json_is_boolean(v))) {
			*out = tag == TAG_INT ? json_integer_value(v) : json_is_true(v);
			return FS_OK;
		}
		if (tag == TAG_EXPR)
			return read_expression(im, v, out);
	}
	return diag_set(im->diag, FS_INVALID, "a size is neither a number nor an expression");
}

bool dims_named(struct import *im, const json_t *graph, const char *name, struct value *out)
{
	const json_t *v = json_object_get(json_object_get(graph, "sym_int_values"), name);
	const json_t *b = json_object_get(json_object_get(graph, "sym_bool_values"), name);
	*out = (struct value){ .kind = v != NULL ? VALUE_INT : VALUE_BOOL };
	return (v != NULL || b != NULL) && dims_read(im, v != NULL ? v : b, &out->i) == FS_OK;
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
	out->dtype = (uint8_t)dtype_from_torch(json_integer_value(dtype));
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

enum fs_status dims_finish(struct import *im, const struct scope *s)
{
	char names[256];
	const struct import_options *o = im->options;
	for (uint32_t i = 0; i < im->symbols.count; i++)
		if (im->symbols.items[i].known)
			TRY(check_range(im, &im->symbols.items[i]));
	list_symbols(im, s, names, sizeof(names));
	for (int i = 0; o != NULL && i < o->dim_count; i++)
		if (symbol_find(im, o->dims[i].name) == NULL)
			return diag_set(im->diag, FS_INVALID, "--dim %s=%lld: the graph has no such dim; it has %s",
					o->dims[i].name, (long long)o->dims[i].size, names);
	return guards_check(im, s, im->guards);
}
