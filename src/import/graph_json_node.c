/* Nodes of a JSON graph: operands, attributes as keys, and defaults for those left out. */
#include "graph_json_impl.h"
#include "infer.h"
#include "text.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define NODE_KEYS "op in out module source placement"

void node_fail(struct json_node *n, const char *format, ...)
{
	char text[600];
	va_list args;
	if (n->status != FS_OK)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	n->status = json_fail(n->r, n->at, "%s", text);
}

const struct type *node_type(const struct json_node *n, struct node_id x)
{
	static const struct type none = { .dtype = DT_F32 };
	return node_is(x) ? graph_type(n->r->graph, x) : &none;
}

struct node_id node_emit(struct json_node *n, enum op op, const struct node_id *in, int count, const struct attrs *a)
{
	struct diag d = { 0 };
	struct node_id made;
	if (n->status != FS_OK)
		return NODE_NONE;
	if (graph_try_emit(n->r->graph, op, in, count, a, n->prov, &made, &d) == FS_OK)
		return made;
	node_fail(n, "%s", d.text);
	return NODE_NONE;
}

/* --- the ops that there are --- */

/* Ops that a graph says in other ways, or that only passes make. */
static bool hidden(enum op op)
{
	return op == OP_INPUT || op == OP_PARAM || op == OP_CONST || op == OP_CONSTRAIN || !op_in_stage(op, STAGE_GLOBAL);
}

/* Attributes that only passes set. */
#define BIT(key) ((uint64_t)1 << ATTR_##key)
#define HIDDEN_KEYS (BIT(RECIPE) | BIT(REASON) | BIT(EXACT) | BIT(SCOPE) | BIT(STYLE) | BIT(HARD))

static uint64_t keys_of(enum op op)
{
	return op_attrs(op).may & ~HIDDEN_KEYS;
}

static const struct json_form *form_find(const char *name)
{
	for (int k = 0; k < json_form_count; k++)
		if (strcmp(json_forms[k].name, name) == 0)
			return &json_forms[k];
	return NULL;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int visible[OP_COUNT], visible_count;

static void fill_visible(void)
{
	for (int op = 1; op < OP_COUNT; op++)
		if (!hidden((enum op)op))
			visible[visible_count++] = op;
}

/* Ops of the IR, then the forms that are no such ops. */
static void list_ops(void)
{
	pthread_once(&once, fill_visible);
}

static bool is_extra(const struct json_form *f)
{
	return op_from_text(f->name) == OP_NONE;
}

int graph_json_op_count(void)
{
	int count = 1;
	list_ops();
	for (int k = 0; k < json_form_count; k++)
		count += is_extra(&json_forms[k]);
	return count + visible_count;
}

const char *graph_json_op(int k)
{
	list_ops();
	if (k <= visible_count)
		return k == 0 ? "" : op_text((enum op)visible[k - 1]);
	k -= visible_count;
	for (int f = 0; f < json_form_count; f++)
		if (is_extra(&json_forms[f]) && --k == 0)
			return json_forms[f].name;
	BUG("no op %d", k);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void ir_keys(enum op op, char *out, size_t size)
{
	const char *key[ATTR_COUNT];
	size_t count = 0, used = 0;
	for (int k = 1; k < ATTR_COUNT; k++)
		if (keys_of(op) >> k & 1)
			key[count++] = attr_text((enum attr_key)k);
	qsort(key, count, sizeof(key[0]), by_text);
	out[0] = '\0';
	for (size_t i = 0; i < count; i++)
		used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? " " : "", key[i]);
}

static void op_keys(const char *name, char *out, size_t size)
{
	const struct json_form *form = form_find(name);
	if (form != NULL)
		snprintf(out, size, "%s", form->keys);
	else
		ir_keys(op_from_text(name), out, size);
}

void graph_json_op_keys(int k, char *out, size_t size)
{
	op_keys(graph_json_op(k), out, size);
}

/* --- attributes --- */

static int64_t wrapped(int64_t dim, int rank)
{
	return dim < 0 ? dim + rank : dim;
}

static bool is_dim(enum attr_key key)
{
	return key == ATTR_DIM || key == ATTR_DIMS;
}

static int first_rank(const struct json_node *n)
{
	return n->count > 0 ? node_type(n, n->in[0])->rank : 0;
}

static void read_int(struct json_node *n, enum attr_key key, const json_t *v, struct attrs *a)
{
	if (json_is_boolean(v))
		attrs_int(a, key, json_is_true(v));
	else if (!json_is_integer(v))
		node_fail(n, "'%s' is no integer", attr_text(key));
	else
		attrs_int(a, key, is_dim(key) ? wrapped(json_integer_value(v), first_rank(n)) : json_integer_value(v));
}

static void read_float(struct json_node *n, enum attr_key key, const json_t *v, struct attrs *a)
{
	const char *s = json_string_value(v);
	if (s != NULL && (strcmp(s, "inf") == 0 || strcmp(s, "-inf") == 0))
		attrs_float(a, key, s[0] == '-' ? -INFINITY : INFINITY);
	else if (s != NULL && strcmp(s, "nan") == 0)
		attrs_float(a, key, NAN);
	else if (json_is_number(v))
		attrs_float(a, key, json_number_value(v));
	else
		node_fail(n, "'%s' is no number (nor \"inf\", \"-inf\", \"nan\")", attr_text(key));
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static void read_ints(struct json_node *n, enum attr_key key, const json_t *v, struct attrs *a)
{
	int64_t *list = arena_array(&n->r->scratch, MAX_RANK, sizeof(*list));
	int count;
	if (key == ATTR_DIMS) {
		if (!node_dims(n, "dims", n->count > 0 ? n->in[0] : NODE_NONE, list, &count))
			return;
		if (op_from_text(n->op) != OP_PERMUTE && op_from_text(n->op) != OP_INDEX && op_from_text(n->op) != OP_INDEX_PUT)
			qsort(list, (size_t)count, sizeof(*list), by_value);
	} else if (json_shape(n->r, n->at, v, -1, list, &count) != FS_OK) {
		n->status = FS_INVALID;
		return;
	}
	attrs_ints(a, key, list, count);
}

bool node_dims(struct json_node *n, const char *key, struct node_id x, int64_t dims[MAX_RANK], int *count)
{
	const json_t *v = json_object_get(n->json, key), *item;
	size_t i;
	*count = 0;
	if (v == NULL)
		return false;
	if (!json_is_array(v) || json_array_size(v) > MAX_RANK) {
		node_fail(n, "'%s' is no list of at most %d dims", key, MAX_RANK);
		return false;
	}
	json_array_foreach(v, i, item) {
		if (!json_is_integer(item))
			node_fail(n, "'%s' has something that is no integer", key);
		dims[(*count)++] = wrapped(json_integer_value(item), node_type(n, x)->rank);
	}
	return true;
}

static void read_text(struct json_node *n, enum attr_key key, const json_t *v, struct attrs *a)
{
	if (!json_is_string(v))
		node_fail(n, "'%s' is no string", attr_text(key));
	else
		attrs_string(a, key, json_string_value(v));
}

static void read_dtype(struct json_node *n, enum attr_key key, const json_t *v, struct attrs *a)
{
	enum dtype dtype;
	if (json_dtype(n->r, n->at, v, &dtype) == FS_OK)
		attrs_int(a, key, dtype);
	else
		n->status = FS_INVALID;
}

typedef void read_attr(struct json_node *n, enum attr_key key, const json_t *v, struct attrs *a);
static read_attr *const readers[] = {
	[AK_INT] = read_int, [AK_FLOAT] = read_float, [AK_STRING] = read_text, [AK_INTS] = read_ints, [AK_DTYPE] = read_dtype,
};

void node_attrs(struct json_node *n, enum op op, struct attrs *a)
{
	for (int k = 1; k < ATTR_COUNT; k++) {
		const json_t *v = json_object_get(n->json, attr_text((enum attr_key)k));
		if (v != NULL && keys_of(op) >> k & 1 && n->status == FS_OK)
			readers[attr_kind((enum attr_key)k)](n, (enum attr_key)k, v, a);
	}
}

/* --- defaults --- */

static const struct attr *attr_of(const struct attrs *a, enum attr_key key)
{
	for (int i = 0; i < a->count; i++)
		if (a->at[i].key == key)
			return &a->at[i];
	return NULL;
}

static bool wants(enum op op, const struct attrs *a, enum attr_key key)
{
	return op_attrs(op).must >> key & 1 && attr_of(a, key) == NULL;
}

/* Reductions over all dims, norms over the last. */
static void default_dims(struct json_node *n, enum op op, struct attrs *a)
{
	bool norm = op == OP_RMS_NORM || op == OP_LAYER_NORM;
	int rank = first_rank(n), first = norm ? rank - 1 : 0;
	if (!wants(op, a, ATTR_DIMS) || !(norm || op_attrs(op).may >> ATTR_KEEPDIM & 1) || op == OP_ARGMAX || op == OP_ARGMIN ||
	    first < 0)
		return;
	int64_t *dims = arena_array(&n->r->scratch, MAX_RANK, sizeof(*dims));
	for (int i = first; i < rank; i++)
		dims[i - first] = i;
	attrs_ints(a, ATTR_DIMS, dims, rank - first);
}

static void default_slice(struct json_node *n, struct attrs *a)
{
	const struct attr *dim = attr_of(a, ATTR_DIM), *at;
	const struct type *t = node_type(n, n->count > 0 ? n->in[0] : NODE_NONE);
	if (dim == NULL || dim->u.i < 0 || dim->u.i >= t->rank)
		return;
	int64_t size = t->dim[dim->u.i];
	at = attr_of(a, ATTR_START);
	attrs_int(a, ATTR_START, at == NULL ? 0 : at->u.i < 0 ? at->u.i + size : at->u.i);
	at = attr_of(a, ATTR_END);
	attrs_int(a, ATTR_END, at == NULL ? size : at->u.i < 0 ? at->u.i + size : at->u.i);
}

/* One size of a reshape may be -1. */
static void default_reshape(struct json_node *n, struct attrs *a)
{
	const struct attr *shape = attr_of(a, ATTR_SHAPE);
	if (shape == NULL || n->count == 0)
		return;
	int64_t *dim = arena_copy(&n->r->scratch, shape->u.ints, sizeof(int64_t) * MAX_RANK), known = 1;
	int open = -1;
	for (int i = 0; i < shape->count; i++) {
		if (dim[i] >= 0 && !mul_size(known, dim[i], &known))
			return;
		if (dim[i] < 0 && open >= 0)
			node_fail(n, "'shape' has -1 more than once");
		if (dim[i] < 0)
			open = i;
	}
	int64_t all = type_count(node_type(n, n->in[0]));
	if (open >= 0 && (known == 0 || all % known != 0))
		node_fail(n, "%lld elements do not fill the -1 of 'shape'", (long long)all);
	else if (open >= 0)
		dim[open] = all / known;
	attrs_ints(a, ATTR_SHAPE, dim, shape->count);
}

static void default_scale(struct json_node *n, struct attrs *a)
{
	const struct type *q = node_type(n, n->count > 0 ? n->in[0] : NODE_NONE);
	if (q->rank > 0 && q->dim[q->rank - 1] > 0)
		attrs_float(a, ATTR_SCALE, 1 / sqrt((double)q->dim[q->rank - 1]));
}

static void add_defaults(struct json_node *n, enum op op, struct attrs *a)
{
	default_dims(n, op, a);
	if ((op == OP_SOFTMAX || op == OP_LOG_SOFTMAX) && wants(op, a, ATTR_DIM))
		attrs_int(a, ATTR_DIM, first_rank(n) - 1);
	if (wants(op, a, ATTR_EPS))
		attrs_float(a, ATTR_EPS, op == OP_RMS_NORM ? 1e-6 : 1e-5);
	if (wants(op, a, ATTR_ORD))
		attrs_float(a, ATTR_ORD, 2);
	if (op == OP_IOTA && wants(op, a, ATTR_START))
		attrs_int(a, ATTR_START, 0);
	if (op == OP_IOTA && wants(op, a, ATTR_STEP))
		attrs_int(a, ATTR_STEP, 1);
	if (op == OP_SLICE)
		default_slice(n, a);
	if (op == OP_RESHAPE)
		default_reshape(n, a);
	if (op == OP_SDPA && wants(op, a, ATTR_SCALE))
		default_scale(n, a);
}

/* --- numbers as operands of pointwise ops --- */

/* Of the widest float operand, or none; *dims: some operand has dims. */
static enum dtype operand_dtype(const struct json_node *n, enum op op, bool *dims)
{
	enum dtype widest = DT_NONE;
	*dims = false;
	for (int i = op == OP_WHERE; i < n->count; i++) {
		const struct type *t = node_type(n, n->in[i]);
		if (!node_is(n->in[i]))
			continue;
		*dims |= t->rank > 0;
		if (dtype_is_float((enum dtype)t->dtype) && (widest == DT_NONE || dtype_size((enum dtype)t->dtype) > dtype_size(widest)))
			widest = (enum dtype)t->dtype;
	}
	return widest;
}

/*
 * A number next to floats takes part in f32 (f64 next to f64) and leaves the result's type alone; next to
 * integers a whole number is one of them.
 */
static struct node_id scalar(struct json_node *n, enum op op, const json_t *v)
{
	bool dims;
	enum dtype near = operand_dtype(n, op, &dims), dtype = near;
	struct attrs a = { 0 };
	if (json_is_boolean(v))
		dtype = DT_BOOL;
	else if (near == DT_NONE)
		dtype = json_is_integer(v) ? DT_I64 : DT_F32;
	else if (dims && near != DT_F64)
		dtype = DT_F32;
	attrs_float(&a, ATTR_VALUE, json_is_boolean(v) ? json_is_true(v) : json_number_value(v));
	attrs_int(&a, ATTR_DTYPE, dtype);
	attrs_ints(&a, ATTR_SHAPE, (int64_t[1]){ 0 }, 0);
	return node_emit(n, OP_FILL, NULL, 0, &a);
}

static void fill_numbers(struct json_node *n, enum op op)
{
	for (int i = 0; i < n->count; i++)
		if (!node_is(n->in[i]) && !op_is_pointwise(op))
			node_fail(n, "operand %d is a number; %s takes values only", i, op_text(op));
	if (n->status != FS_OK)
		return;
	struct node_id *in = arena_copy(&n->r->scratch, n->in, sizeof(*in) * (size_t)n->count);
	for (int i = 0; i < n->count; i++)
		if (!node_is(in[i]))
			in[i] = scalar(n, op, n->number[i]);
	n->in = in;
}

struct node_id node_ir(struct json_node *n, enum op op)
{
	struct attrs a = { 0 };
	fill_numbers(n, op);
	node_attrs(n, op, &a);
	add_defaults(n, op, &a);
	return node_emit(n, op, n->in, n->count, &a);
}

/* --- a node --- */

static bool defined_later(const struct json_reader *r, const char *name)
{
	const json_t *v;
	size_t i;
	json_array_foreach(r->nodes, i, v) {
		const char *out = json_string_value(json_object_get(v, "out"));
		if (out != NULL && strcmp(out, name) == 0)
			return true;
	}
	return false;
}

static void read_operand(struct json_node *n, int i, const json_t *v)
{
	const char *name = json_string_value(v);
	if (json_is_number(v) || json_is_boolean(v))
		n->number[i] = v;
	else if (name == NULL)
		node_fail(n, "operand %d is neither a name nor a number", i);
	else if (!json_find(n->r, name, &n->in[i]))
		node_fail(n, defined_later(n->r, name) ? "'%.200s' is defined by a later node; put that one before"
						       : "nothing above has the name '%.200s'", name);
}

static void read_operands(struct json_node *n)
{
	const json_t *list = json_object_get(n->json, "in"), *v;
	size_t i;
	if (list != NULL && (!json_is_array(list) || json_array_size(list) > MAX_OPERANDS)) {
		node_fail(n, "'in' is no list of at most %d operands", MAX_OPERANDS);
		return;
	}
	n->count = (int)json_array_size(list);
	n->in = arena_array(&n->r->scratch, (size_t)n->count + 1, sizeof(*n->in));
	n->number = arena_array(&n->r->scratch, (size_t)n->count + 1, sizeof(*n->number));
	json_array_foreach(list, i, v)
		read_operand(n, (int)i, v);
}

static const struct json_form *read_op(struct json_node *n, enum op *op)
{
	const struct json_form *form = form_find(n->op);
	char word[MAX_WORD];
	*op = op_from_text(n->op);
	if (form == NULL && (*op == OP_NONE || hidden(*op))) {
		snprintf(word, sizeof(word), "%.60s", n->op);
		node_fail(n, "unknown op '%s'; nearest: '%s'", word, lex_nearest(word, graph_json_op, graph_json_op_count()));
	}
	return form;
}

static void check_node_keys(struct json_node *n)
{
	char keys[512] = NODE_KEYS " ";
	size_t used = strlen(keys);
	if (n->status != FS_OK)
		return;
	op_keys(n->op, keys + used, sizeof(keys) - used);
	n->status = json_check_keys(n->r, n->at, n->json, keys);
}

static struct node_id build(struct json_node *n, const struct json_form *form, enum op op)
{
	if (n->status != FS_OK)
		return NODE_NONE;
	if (form == NULL)
		return node_ir(n, op);
	if (n->count < form->least || n->count > form->most)
		node_fail(n, "%s: %d operands; %d to %d wanted", form->name, n->count, form->least, form->most);
	for (int i = 0; i < n->count; i++)
		if (!node_is(n->in[i]))
			node_fail(n, "operand %d is a number; %s takes values only", i, form->name);
	return n->status == FS_OK ? form->build(n) : NODE_NONE;
}

/* The name of result k: "out" is a name, or a list of two for values and indices. */
static const char *result_name(const json_t *v, size_t k)
{
	const json_t *out = json_object_get(v, "out");
	return json_string_value(json_is_array(out) ? json_array_get(out, k) : k == 0 ? out : NULL);
}

static enum fs_status read_prov(struct json_node *n, const char *name)
{
	struct prov p = { .node = name };
	TRY(json_string_of(n->r, n->at, n->json, "module", &p.module));
	TRY(json_string_of(n->r, n->at, n->json, "source", &p.source));
	n->prov = context_prov(n->r->context, &p);
	return FS_OK;
}

static enum fs_status define_second(struct json_node *n, enum op op, struct node_id made)
{
	const json_t *out = json_object_get(n->json, "out");
	struct attrs a = { 0 };
	if (!json_is_array(out))
		return FS_OK;
	struct json_place at = { "node", result_name(n->json, 1) };
	if ((op != OP_TOPK && op != OP_SORT) || json_array_size(out) != 2 || at.name == NULL)
		return json_fail(n->r, n->at, "only topk and sort have two results: \"out\": [values, indices]");
	attrs_int(&a, ATTR_INDEX, 1);
	TRY(read_prov(n, at.name));
	struct node_id second = node_emit(n, OP_PROJ, &made, 1, &a);
	return n->status == FS_OK ? json_define(n->r, at, second) : n->status;
}

enum fs_status json_node_read(struct json_reader *r, const json_t *v, size_t index)
{
	struct json_node n = { .r = r, .json = v, .at = { "node", result_name(v, 0) } };
	enum op op;
	n.op = json_string_value(json_object_get(v, "op"));
	if (n.at.name == NULL || n.op == NULL) {
		n.at.name = n.at.name != NULL ? n.at.name : arena_printf(&r->scratch, "%zu", index);
		return json_fail(r, n.at, "needs an \"op\" and an \"out\", both strings");
	}
	TRY(read_prov(&n, n.at.name));
	const struct json_form *form = read_op(&n, &op);
	check_node_keys(&n);
	read_operands(&n);
	struct node_id made = build(&n, form, op);
	TRY(n.status);
	struct node_id value = made;
	TRY(json_constrain(r, n.at, v, n.prov, &value));
	TRY(json_define(r, n.at, value));
	return define_second(&n, op, made);
}
