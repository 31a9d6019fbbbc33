/* Reading the arguments of a call by name. */
#include "torch_impl.h"

#include <string.h>

static struct argument *find(struct call *c, const char *name)
{
	for (int i = 0; i < c->args; i++)
		if (strcmp(c->arg[i].name, name) == 0) {
			c->arg[i].used = true;
			return &c->arg[i];
		}
	return NULL;
}

/* The argument, or NULL where it is missing or None. */
static struct argument *given(struct call *c, const char *name)
{
	struct argument *a = find(c, name);
	return a != NULL && a->tag != TAG_NONE ? a : NULL;
}

static struct argument *required(struct call *c, const char *name)
{
	struct argument *a = given(c, name);
	if (a == NULL)
		call_fail(c, FS_INVALID, "argument '%s' is missing", name);
	return a;
}

static void wrong(struct call *c, const char *name)
{
	call_fail(c, FS_INVALID, "argument '%s' is of the wrong kind", name);
}

bool arg_has(struct call *c, const char *name)
{
	return given(c, name) != NULL;
}

/* --- tensors --- */

/* What a float operand of this op becomes in an autocast region. */
static struct node_id autocast(struct call *c, struct node_id n)
{
	enum dtype t = dtype_of(c, n), to = DT_NONE;
	if (c->target->autocast == LOWER)
		to = c->scope->autocast;
	else if (c->target->autocast == WIDER && c->scope->autocast_cuda)
		to = DT_F32;
	return to == DT_NONE || !dtype_is_float(t) || t == DT_F64 ? n : emit_cast(c, n, to);
}

static struct node_id named(struct call *c, const char *name)
{
	uint32_t i = name == NULL ? 0 : scope_find(c->im, c->scope, name);
	const struct value *v = &c->im->values.items[i];
	if (i == 0) {
		call_fail(c, FS_INVALID, "operand '%s' is not known here", name == NULL ? "?" : name);
	} else if (v->kind == VALUE_LOST) {
		c->status = c->status ? c->status : FS_UNSUPPORTED;
	} else if (v->kind != VALUE_TENSOR) {
		call_fail(c, FS_INVALID, "operand '%s' is no tensor", name);
	} else if (v->stale) {
		call_lacks(c, "%s of a view or copy whose tensor was changed in place before ('%s')", c->text, name);
	} else {
		struct node_id n = c->imaginary && node_is(v->imaginary) ? v->imaginary : v->node;
		return c->scope->autocast == DT_NONE ? n : autocast(c, n);
	}
	return NODE_NONE;
}

/* A tensor where a union or a {name} says so. */
static struct node_id from_union(struct call *c, enum tag tag, const json_t *v, const char *arg)
{
	if (tag == TAG_OPTIONAL_TENSOR && !union_get(v, &tag, &v))
		wrong(c, arg);
	if (tag == TAG_TENSOR)
		return named(c, text_of(v, "name"));
	if (tag != TAG_NONE)
		wrong(c, arg);
	return NODE_NONE;
}

struct node_id arg_tensor_or_none(struct call *c, const char *name)
{
	struct argument *a = given(c, name);
	return a == NULL || failed(c) ? NODE_NONE : from_union(c, a->tag, a->value, name);
}

struct node_id arg_tensor(struct call *c, const char *name)
{
	struct node_id n = arg_tensor_or_none(c, name);
	if (!node_is(n) && !failed(c))
		call_fail(c, FS_INVALID, "argument '%s' is missing", name);
	return n;
}

int arg_tensors(struct call *c, const char *name, struct node_id **out)
{
	struct argument *a = required(c, name);
	*out = NULL;
	if (failed(c))
		return 0;
	if (!json_is_array(a->value) || (a->tag != TAG_TENSORS && a->tag != TAG_OPTIONAL_TENSORS)) {
		wrong(c, name);
		return 0;
	}
	size_t count = json_array_size(a->value);
	if (count > MAX_OPERANDS) {
		call_lacks(c, "%s of more than %d tensors", c->text, MAX_OPERANDS);
		return 0;
	}
	*out = arena_array(context_arena(c->im->context), count + 1, sizeof(**out));
	for (size_t i = 0; i < count; i++) {
		const json_t *v = json_array_get(a->value, i);
		enum tag tag = TAG_TENSOR;
		if (a->tag == TAG_OPTIONAL_TENSORS && !union_get(v, &tag, &v))
			wrong(c, name);
		(*out)[i] = from_union(c, tag, v, name);
	}
	return failed(c) ? 0 : (int)count;
}

/* --- numbers --- */

/* A number that stands for a name of the graph. */
static bool symbolic(struct call *c, const json_t *name, struct number *out)
{
	const char *s = json_string_value(name);
	uint32_t i = s == NULL ? 0 : scope_find(c->im, c->scope, s);
	struct value v = c->im->values.items[i];
	if (i == 0 && (s == NULL || !dims_named(c->im, c->scope->graph, s, &v))) {
		call_fail(c, FS_INVALID, "'%s' has no value", s == NULL ? "?" : s);
		return false;
	}
	if (v.kind == VALUE_LOST)
		c->status = c->status ? c->status : FS_UNSUPPORTED;
	*out = (struct number){ v.kind, v.i, v.f };
	return v.kind == VALUE_INT || v.kind == VALUE_FLOAT || v.kind == VALUE_BOOL;
}

static bool plain_number(enum tag tag, const json_t *v, struct number *out)
{
	switch (tag) {
	case TAG_INT:
		*out = (struct number){ VALUE_INT, json_integer_value(v), 0 };
		return json_is_integer(v);
	case TAG_BOOL:
		*out = (struct number){ VALUE_BOOL, json_is_true(v), 0 };
		return json_is_boolean(v);
	case TAG_FLOAT:
		*out = (struct number){ .kind = VALUE_FLOAT };
		return real_of(v, &out->f);
	default:
		return false;
	}
}

static bool is_symbolic(enum tag t)
{
	return t == TAG_SYM_INT || t == TAG_SYM_BOOL || t == TAG_SYM_FLOAT;
}

static bool read_number(struct call *c, enum tag tag, const json_t *v, struct number *out)
{
	if (is_symbolic(tag) && !union_get(v, &tag, &v))
		return false;
	if (tag == TAG_NAME)
		return symbolic(c, v, out);
	return plain_number(tag, v, out);
}

struct number arg_number(struct call *c, const char *name)
{
	struct number n = { .kind = VALUE_INT };
	struct argument *a = required(c, name);
	if (!failed(c) && !read_number(c, a->tag, a->value, &n))
		wrong(c, name);
	return n;
}

double number_real(struct number n)
{
	return n.kind == VALUE_FLOAT ? n.f : (double)n.i;
}

struct operand as_operand(struct node_id n)
{
	return (struct operand){ .node = n };
}

struct operand arg_operand(struct call *c, const char *name)
{
	struct argument *a = required(c, name);
	if (failed(c) || a->tag == TAG_TENSOR || a->tag == TAG_OPTIONAL_TENSOR)
		return as_operand(arg_tensor(c, name));
	return (struct operand){ .number = arg_number(c, name) };
}

int64_t arg_int_required(struct call *c, const char *name)
{
	struct number n = arg_number(c, name);
	if (!failed(c) && n.kind == VALUE_FLOAT)
		wrong(c, name);
	return n.i;
}

int64_t arg_int(struct call *c, const char *name, int64_t otherwise)
{
	return given(c, name) == NULL ? otherwise : arg_int_required(c, name);
}

double arg_real(struct call *c, const char *name, double otherwise)
{
	return given(c, name) == NULL ? otherwise : number_real(arg_number(c, name));
}

bool arg_bool(struct call *c, const char *name, bool otherwise)
{
	return arg_int(c, name, otherwise) != 0;
}

const char *arg_string(struct call *c, const char *name, const char *otherwise)
{
	struct argument *a = given(c, name);
	if (a == NULL)
		return otherwise;
	const char *s = json_string_value(a->value);
	if (s == NULL)
		wrong(c, name);
	return s == NULL ? "" : s;
}

enum dtype arg_dtype(struct call *c, const char *name, enum dtype otherwise)
{
	struct argument *a = given(c, name);
	if (a == NULL)
		return otherwise;
	if (a->tag != TAG_SCALAR_TYPE || !json_is_integer(a->value)) {
		wrong(c, name);
		return DT_F32;
	}
	enum dtype t = dtype_from_torch(json_integer_value(a->value));
	if (t == DT_NONE)
		call_lacks(c, "%s with element type %lld of torch.export", c->text,
			   (long long)json_integer_value(a->value));
	return t == DT_NONE ? DT_F32 : t;
}

/* --- lists of integers --- */

static bool read_item(struct call *c, const struct argument *a, const json_t *v, int64_t *out)
{
	enum tag tag = a->tag == TAG_BOOLS ? TAG_BOOL : TAG_INT;
	if (a->tag == TAG_SYM_INTS && !union_get(v, &tag, &v))
		return false;
	struct number n;
	if (!read_number(c, tag, v, &n) || n.kind == VALUE_FLOAT)
		return false;
	*out = n.i;
	return true;
}

int arg_ints(struct call *c, const char *name, int64_t *out, int room)
{
	struct argument *a = given(c, name);
	if (a == NULL)
		return -1;
	if (a->tag == TAG_INT || a->tag == TAG_SYM_INT) {
		out[0] = arg_int_required(c, name);
		return 1;
	}
	size_t count = json_array_size(a->value);
	if (count > (size_t)room) {
		call_lacks(c, "%s with '%s' of more than %d numbers", c->text, name, room);
		return 0;
	}
	if (!json_is_array(a->value))
		wrong(c, name);
	for (size_t i = 0; i < count && !failed(c); i++)
		if (!read_item(c, a, json_array_get(a->value, i), &out[i]))
			wrong(c, name);
	return failed(c) ? 0 : (int)count;
}

/* --- dims --- */

int wrap_dim(struct call *c, int64_t dim, int rank)
{
	int span = rank > 0 ? rank : 1;
	if (failed(c))
		return 0;
	if (dim < -span || dim >= span) {
		call_fail(c, FS_INVALID, "dim %lld of a tensor of rank %d", (long long)dim, rank);
		return 0;
	}
	return (int)(dim < 0 ? dim + span : dim);
}

int arg_dim(struct call *c, const char *name, int64_t otherwise, int rank)
{
	return wrap_dim(c, arg_int(c, name, otherwise), rank);
}

int arg_dims(struct call *c, const char *name, int rank, int64_t out[MAX_RANK])
{
	int count = arg_ints(c, name, out, MAX_RANK);
	for (int i = 0; i < count; i++)
		out[i] = wrap_dim(c, out[i], rank);
	return failed(c) ? -1 : count;
}
