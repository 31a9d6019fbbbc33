/* One node of the file after another: bind arguments, run the handler, name and check the results. */
#include "torch_impl.h"

#include <string.h>

static enum fs_status malformed(struct import *im, const char *where, const char *what)
{
	return diag_set(im->diag, FS_INVALID, "%s: %s", where == NULL ? "a node" : where, what);
}

/* --- arguments and outputs --- */

static enum fs_status read_arguments(struct call *c)
{
	const json_t *inputs = json_object_get(c->json, "inputs"), *item;
	size_t i, count = json_array_size(inputs);
	if (!json_is_array(inputs) || count > MAX_ARGS)
		return malformed(c->im, c->name, "'inputs' is no list, or too long");
	c->args = (int)count;
	if (count > 32)
		c->arg = arena_array(context_arena(c->im->context), count, sizeof(*c->arg));
	json_array_foreach((json_t *)(uintptr_t)inputs, i, item) {
		struct argument *a = &c->arg[i];
		a->name = text_of(item, "name");
		a->used = false;
		if (a->name == NULL || !union_get(json_object_get(item, "arg"), &a->tag, &a->value))
			return malformed(c->im, c->name, "an input without 'name' or 'arg'");
	}
	return FS_OK;
}

static bool is_number_tag(enum tag t)
{
	return t == TAG_SYM_INT || t == TAG_SYM_BOOL || t == TAG_SYM_FLOAT || t == TAG_INT || t == TAG_BOOL ||
	       t == TAG_FLOAT;
}

/* A node that computes sizes: its results have values under sym_int_values. */
static bool only_numbers(const json_t *outputs)
{
	size_t i;
	const json_t *item, *v;
	enum tag tag;
	json_array_foreach((json_t *)(uintptr_t)outputs, i, item)
		if (!union_get(item, &tag, &v) || !is_number_tag(tag))
			return false;
	return json_array_size(outputs) > 0;
}

/* The name of the first tensor among the outputs. */
static const char *first_name(const json_t *outputs)
{
	enum tag tag;
	const json_t *v;
	if (!union_get(json_array_get(outputs, 0), &tag, &v))
		return NULL;
	return text_of(tag == TAG_TENSORS ? json_array_get(v, 0) : v, "name");
}

/* --- results --- */

static void check_type(struct call *c, const char *name, struct node_id n, bool complex)
{
	struct type given;
	const struct type *made = type_of(c, n);
	const json_t *meta = json_object_get(c->scope->types, name);
	char is[128], said[128];
	if (meta == NULL || failed(c))
		return;
	if (dims_shape(c->im, meta, &given) != FS_OK) {
		c->status = FS_INVALID;
		diag_prefix(c->im->diag, "%s", name);
		return;
	}
	if (dims_complex(meta) == complex && given.dtype == made->dtype && given.rank == made->rank &&
	    memcmp(given.dim, made->dim, sizeof(given.dim[0]) * given.rank) == 0)
		return;
	type_text(made, context_mesh(c->im->context), is, sizeof(is));
	type_text(&given, context_mesh(c->im->context), said, sizeof(said));
	call_fail(c, FS_INVALID, "result '%s' is %s, but the file says %s", name, is, said);
}

enum dtype output_dtype(struct call *c, int k, enum dtype otherwise)
{
	const json_t *v;
	enum tag tag;
	struct type t;
	const json_t *output = json_array_get(json_object_get(c->json, "outputs"), (size_t)k);
	if (failed(c) || !union_get(output, &tag, &v) || tag != TAG_TENSOR || text_of(v, "name") == NULL)
		return otherwise;
	const json_t *meta = json_object_get(c->scope->types, text_of(v, "name"));
	if (meta == NULL)
		return otherwise;
	c->status = dims_shape(c->im, meta, &t);
	return failed(c) ? otherwise : (enum dtype)t.dtype;
}

/* The value that the first operand names, of which results may be views. */
static uint32_t first_operand(const struct call *c)
{
	const char *name = c->args > 0 && c->arg[0].tag == TAG_TENSOR ? text_of(c->arg[0].value, "name") : NULL;
	return name == NULL ? 0 : scope_find(c->im, c->scope, name);
}

static void share_result(struct call *c, uint32_t made, const struct result *r)
{
	struct import *im = c->im;
	enum alias how = r->value ? SAME : c->in_place ? SAME : c->target->alias;
	if (how != FRESH && node_is(im->values.items[made].imaginary))
		how = PERHAPS; /* what is written to a part is not followed */
	uint32_t with = r->value ? r->value : how == FRESH ? 0 : first_operand(c);
	if (with == 0 || im->values.items[with].kind != VALUE_TENSOR)
		return;
	if (dtype_of(c, im->values.items[with].node) != dtype_of(c, r->node))
		return;
	value_share(im, made, with, how);
	if (how == VIEW) {
		im->values.items[made].steps = r->steps;
		im->values.items[made].step_count = r->step_count;
	}
}

static void name_result(struct call *c, const char *name, const struct result *r)
{
	struct import *im = c->im;
	if (name == NULL) {
		call_fail(c, FS_INVALID, "an output has no name");
		return;
	}
	uint32_t made = value_new(im, name);
	if (!scope_bind(c->scope, name, made)) {
		call_fail(c, FS_INVALID, "the name '%s' is given twice", name);
		return;
	}
	struct value *v = &im->values.items[made];
	bool lost = r == NULL || (r->value ? im->values.items[r->value].kind == VALUE_LOST : !node_is(r->node));
	v->kind = lost ? VALUE_LOST : VALUE_TENSOR;
	if (lost)
		return;
	v->node = r->value ? im->values.items[r->value].node : r->node;
	v->imaginary = r->value ? im->values.items[r->value].imaginary : r->imaginary;
	check_type(c, name, v->node, node_is(v->imaginary));
	share_result(c, made, r);
}

/* Result number *k, by value: naming one grows no list of results. */
static void name_next(struct call *c, const char *name, uint32_t *k, bool lost)
{
	struct import *im = c->im;
	if (failed(c) && !lost)
		return;
	if (!lost && *k >= im->results.count) {
		call_fail(c, FS_INVALID, "more outputs than the op has results");
		return;
	}
	struct result r = lost ? (struct result){ 0 } : im->results.items[(*k)++];
	name_result(c, name, lost ? NULL : &r);
}

static void name_output(struct call *c, const json_t *output, uint32_t *k, bool lost)
{
	enum tag tag;
	const json_t *v, *item;
	size_t i;
	if (!union_get(output, &tag, &v)) {
		call_fail(c, FS_INVALID, "'outputs' is malformed");
	} else if (tag == TAG_TENSOR) {
		name_next(c, text_of(v, "name"), k, lost);
	} else if (tag == TAG_OPTIONAL_TENSOR) {
		name_output(c, v, k, lost);
	} else if (tag == TAG_TENSORS) {
		json_array_foreach((json_t *)(uintptr_t)v, i, item)
			name_next(c, text_of(item, "name"), k, lost);
	} else if (tag == TAG_NONE) {
		(*k)++;
	} else if (!is_number_tag(tag)) {
		call_fail(c, FS_INVALID, "an output of a kind that is not known");
	}
}

static enum fs_status name_results(struct call *c)
{
	const json_t *outputs = json_object_get(c->json, "outputs"), *item;
	bool lost = c->status == FS_UNSUPPORTED;
	uint32_t k = c->first_result;
	size_t i;
	if (lost)
		c->status = FS_OK;
	json_array_foreach((json_t *)(uintptr_t)outputs, i, item)
		name_output(c, item, &k, lost);
	c->im->results.count = c->first_result;
	return c->status == FS_UNSUPPORTED ? FS_OK : c->status;
}

/* --- running a handler --- */

/* What changes no number: where and how a tensor lies. */
static bool is_idle(const char *name)
{
	static const char *const idle[] = {
		"device", "layout", "pin_memory", "memory_format", "non_blocking", "copy", "implicit", "cudnn_enable", "cudnn_enabled",
		"scale_grad_by_freq", "sparse", "sparse_grad", "padding_idx", "sorted", "stable", "generator", "path",
		"use_fast_accum", "unsafe", "physical_layout",
	};
	for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
		if (strcmp(idle[i], name) == 0)
			return true;
	return false;
}

/* An argument that the handler did not read may change the meaning. */
static void check_arguments(struct call *c)
{
	for (int i = 0; i < c->args && !failed(c); i++)
		if (!c->arg[i].used && c->arg[i].tag != TAG_NONE && !is_idle(c->arg[i].name))
			call_lacks(c, "%s with argument '%s'", c->text, c->arg[i].name);
}

static void store_in_place(struct call *c)
{
	struct import *im = c->im;
	uint32_t self = first_operand(c);
	if (failed(c))
		return;
	if (self == 0 || im->values.items[self].kind != VALUE_TENSOR || im->results.count <= c->first_result) {
		call_fail(c, FS_INVALID, "an in-place op without a tensor");
		return;
	}
	value_store(c, self, im->results.items[c->first_result].node);
	im->results.items[c->first_result].node = im->values.items[self].node;
}

/* Without ".default" at its end. */
static size_t plain_size(const char *text)
{
	static const char end[] = ".default";
	size_t size = strlen(text), n = sizeof(end) - 1;
	return size > n && strcmp(text + size - n, end) == 0 ? size - n : size;
}

/* "aten.add_.Tensor" without namespace and overload, or all of "higher_order.cond". */
static const struct target *target_of(const struct import *im, const char *text, bool *in_place)
{
	static const char aten[] = "aten.";
	*in_place = false;
	if (strncmp(text, aten, sizeof(aten) - 1) != 0)
		return target_find(im, text, plain_size(text));
	const char *name = text + sizeof(aten) - 1;
	size_t size = strcspn(name, ".");
	const struct target *t = target_find(im, name, size);
	if (t == NULL && size > 2 && name[size - 1] == '_' && name[0] != '_') {
		t = target_find(im, name, size - 1);
		*in_place = t != NULL;
	}
	return t;
}

static enum fs_status run(struct call *c)
{
	c->target = target_of(c->im, c->text, &c->in_place);
	if (c->target == NULL) {
		call_lacks(c, "%.*s", (int)plain_size(c->text), c->text);
		return name_results(c);
	}
	c->im->steps.count = 0;
	import_call(c);
	check_arguments(c);
	if (c->in_place)
		store_in_place(c);
	return name_results(c);
}

static enum fs_status import_node(struct import *im, struct scope *s, const json_t *node)
{
	struct argument few[32];
	const json_t *outputs = json_object_get(node, "outputs");
	static const char prefix[] = "torch.ops.";
	struct call c = { .im = im, .scope = s, .json = node, .arg = few, .first_result = im->results.count };
	c.name = text_of(node, "name");
	c.name = c.name != NULL ? c.name : first_name(outputs);
	c.text = text_of(node, "target");
	if (c.text == NULL || !json_is_array(outputs))
		return malformed(im, c.name, "no 'target' or no 'outputs'");
	if (strncmp(c.text, prefix, sizeof(prefix) - 1) == 0)
		c.text += sizeof(prefix) - 1;
	if (only_numbers(outputs))
		return FS_OK;
	c.prov = prov_read(im, c.name != NULL ? c.name : c.text, json_object_get(node, "metadata"));
	TRY(read_arguments(&c));
	return run(&c);
}

enum fs_status import_nodes(struct import *im, struct scope *s)
{
	const json_t *nodes = json_object_get(s->graph, "nodes"), *node;
	size_t i;
	s->types = json_object_get(s->graph, "tensor_values");
	if (!json_is_array(nodes) || !json_is_object(s->types))
		return malformed(im, "graph", "no 'nodes' or no 'tensor_values'");
	json_array_foreach((json_t *)(uintptr_t)nodes, i, node)
		TRY(import_node(im, s, node));
	return FS_OK;
}
