/* Higher-order ops: graphs inside of nodes are inlined. */
#include "torch_impl.h"

#include <string.h>

/* --- binding inputs --- */

/* What the caller passes: its arguments from `first` on, lists laid flat. */
struct passed { enum tag tag; const json_t *value; };

static int flatten(struct call *c, int first, struct passed *out, int room)
{
	int n = 0;
	for (int i = first; i < c->args; i++) {
		c->arg[i].used = true;
		bool list = c->arg[i].tag == TAG_TENSORS;
		size_t count = list ? json_array_size(c->arg[i].value) : 1;
		for (size_t k = 0; k < count && n < room; k++)
			out[n++] = list ? (struct passed){ TAG_TENSOR, json_array_get(c->arg[i].value, k) }
					: (struct passed){ c->arg[i].tag, c->arg[i].value };
	}
	return n;
}

static void bind_tensor(struct call *c, struct scope *inner, const char *name, const json_t *outer)
{
	const char *from = text_of(outer, "name");
	uint32_t value = from == NULL ? 0 : scope_find(c->im, c->scope, from);
	if (name == NULL || value == 0)
		call_fail(c, FS_INVALID, "graph input '%s' gets nothing", name == NULL ? "?" : name);
	else if (!scope_bind(inner, name, value))
		call_fail(c, FS_INVALID, "graph input '%s' is given twice", name);
}

/* Numbers that the inner graph takes by name have their values in its own sym_int_values. */
static void bind_inputs(struct call *c, struct scope *inner, const json_t *graph, int first)
{
	const json_t *inputs = json_object_get(graph, "inputs"), *v;
	size_t room = json_array_size(inputs);
	struct passed *given = arena_array(context_arena(c->im->context), room + 1, sizeof(*given));
	size_t count = (size_t)flatten(c, first, given, (int)room);
	enum tag tag;
	if (!json_is_array(inputs) || count != room)
		call_fail(c, FS_INVALID, "a graph of %zu inputs gets %zu", room, count);
	for (size_t i = 0; i < count && !failed(c); i++) {
		if (!union_get(json_array_get(inputs, i), &tag, &v))
			call_fail(c, FS_INVALID, "graph input %zu is malformed", i);
		else if (tag == TAG_TENSOR && given[i].tag == TAG_TENSOR)
			bind_tensor(c, inner, text_of(v, "name"), given[i].value);
	}
}

static void give_outputs(struct call *c, const struct scope *inner, const json_t *graph)
{
	const json_t *outputs = json_object_get(graph, "outputs"), *v, *item;
	enum tag tag;
	size_t i;
	if (!json_is_array(outputs))
		call_fail(c, FS_INVALID, "a graph without 'outputs'");
	json_array_foreach((json_t *)(uintptr_t)outputs, i, item) {
		if (!union_get(item, &tag, &v) || failed(c))
			break;
		const char *name = tag == TAG_TENSOR ? text_of(v, "name") : NULL;
		uint32_t value = name == NULL ? 0 : scope_find(c->im, inner, name);
		if (tag == TAG_TENSOR && value == 0)
			call_fail(c, FS_INVALID, "graph output '%s' is not known", name == NULL ? "?" : name);
		else if (tag == TAG_TENSOR || tag == TAG_NONE)
			*vec_push(&c->im->results) = (struct result){ .value = value };
	}
}

static void inline_graph(struct call *c, const json_t *graph, int first, enum dtype autocast, bool cuda)
{
	struct scope inner = { .graph = graph, .autocast = autocast, .autocast_cuda = cuda, .depth = c->scope->depth + 1 };
	if (inner.depth > MAX_DEPTH)
		call_fail(c, FS_INVALID, "graphs nest more than %d deep", MAX_DEPTH);
	if (failed(c))
		return;
	bind_inputs(c, &inner, graph, first);
	enum fs_status status = failed(c) ? c->status : import_nodes(c->im, &inner);
	c->status = failed(c) ? c->status : status;
	if (!failed(c))
		give_outputs(c, &inner, graph);
	scope_release(&inner);
}

/* Argument number i as a graph. */
static const json_t *graph_at(struct call *c, int i)
{
	const json_t *graph = i < c->args && c->arg[i].tag == TAG_GRAPH ? json_object_get(c->arg[i].value, "graph") : NULL;
	if (graph == NULL)
		call_fail(c, FS_INVALID, "argument %d is no graph", i);
	else
		c->arg[i].used = true;
	return graph;
}

static int first_graph(const struct call *c)
{
	for (int i = 0; i < c->args; i++)
		if (c->arg[i].tag == TAG_GRAPH)
			return i;
	return c->args;
}

/* --- the ops --- */

/* (settings.., graph, operands..): set_grad_enabled, checkpoints, hints. */
void hop_inline(struct call *c)
{
	int at = first_graph(c);
	for (int i = 0; i < at; i++)
		c->arg[i].used = true;
	const json_t *graph = graph_at(c, at);
	inline_graph(c, graph, at + 1, c->scope->autocast, c->scope->autocast_cuda);
}

/* (graph, name, operands..) */
void hop_invoke(struct call *c)
{
	const json_t *graph = graph_at(c, 0);
	if (c->args > 1)
		c->arg[1].used = true;
	inline_graph(c, graph, 2, c->scope->autocast, c->scope->autocast_cuda);
}

/* (device, dtype, enabled, cache, graph, operands..) */
void hop_autocast(struct call *c)
{
	const json_t *graph = graph_at(c, 4);
	if (failed(c))
		return;
	for (int i = 0; i < 4; i++)
		c->arg[i].used = true;
	const char *device = json_string_value(c->arg[0].value);
	bool cuda = device != NULL && strcmp(device, "cuda") == 0, on = json_is_true(c->arg[2].value);
	enum dtype t = cuda ? DT_F16 : DT_BF16;
	if (c->arg[1].tag == TAG_SCALAR_TYPE)
		t = dtype_from_torch(json_integer_value(c->arg[1].value));
	if (!json_is_boolean(c->arg[2].value) || (on && !dtype_is_float(t)))
		call_fail(c, FS_INVALID, "settings that are not understood");
	inline_graph(c, graph, 5, on ? t : DT_NONE, on && cuda);
}

/* The elements of a constant node, or of a buffer that the file has. */
static const struct tensor *constant_of(const struct import *im, struct node_id n)
{
	const struct import_options *o = im->options;
	if (graph_op(im->graph, n) == OP_CONST)
		return graph_tensor(im->graph, n);
	if (graph_op(im->graph, n) != OP_PARAM || o == NULL || o->constant == NULL)
		return NULL;
	return o->constant(o->constant_context, graph_string(im->graph, n, ATTR_NAME));
}

static bool known_tensor(const struct import *im, struct node_id n, bool *out)
{
	if (graph_op(im->graph, n) == OP_FILL) {
		*out = graph_float(im->graph, n, ATTR_VALUE, 0) != 0;
		return true;
	}
	const struct tensor *t = constant_of(im, n);
	if (t == NULL || t->dtype != DT_BOOL || t->rank != 0)
		return false;
	*out = *(const unsigned char *)t->data != 0;
	return true;
}

/* A predicate known at import: a number, or a constant tensor. */
static bool known_predicate(struct call *c, const struct argument *a, bool *out)
{
	struct import *im = c->im;
	if (a->tag != TAG_TENSOR) {
		*out = number_real(arg_number(c, a->name)) != 0;
		return true;
	}
	const char *name = text_of(a->value, "name");
	const struct value *v = &im->values.items[name == NULL ? 0 : scope_find(im, c->scope, name)];
	return v->kind == VALUE_TENSOR && known_tensor(im, v->node, out);
}

/* (predicate, graph, graph, operands..) */
void hop_cond(struct call *c)
{
	bool yes = false;
	const json_t *then = graph_at(c, 1), *otherwise = graph_at(c, 2);
	if (failed(c))
		return;
	c->arg[0].used = true;
	if (!known_predicate(c, &c->arg[0], &yes))
		call_lacks(c, "%s on a value that is not known at compile time", c->text);
	inline_graph(c, yes ? then : otherwise, 3, c->scope->autocast, c->scope->autocast_cuda);
}
