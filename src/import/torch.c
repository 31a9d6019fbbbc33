/* An exported program: version, inputs by the signature, nodes, outputs by the signature. */
#include "json_arena.h"
#include "torch_impl.h"

#include <string.h>

#define SCHEMA_MAJOR 8

static enum fs_status bad(struct import *im, const char *what, const char *name)
{
	return diag_set(im->diag, FS_INVALID, "%s '%s'", what, name == NULL ? "?" : name);
}

/* The key of a spec, {"parameter": {..}}, and what it holds. */
static const char *spec_kind(const json_t *spec, const json_t **body)
{
	json_t *object = (json_t *)(uintptr_t)spec;
	for (void *i = json_object_iter(object); i != NULL; i = json_object_iter_next(object, i)) {
		*body = json_object_iter_value(i);
		if (!json_is_null(*body))
			return json_object_iter_key(i);
	}
	return "";
}

/* --- parameters: what shares storage is one --- */

struct stored { const char *name, *others; uint32_t value; };
struct store { VEC(struct stored) all; struct hash_table table; };

struct stored_key { const struct store *s; const char *name; };

static bool same_stored(const void *key, uint32_t i)
{
	const struct stored_key *k = key;
	return strcmp(k->s->all.items[i].name, k->name) == 0;
}

static struct stored *stored_find(struct store *s, const char *name)
{
	struct stored_key key = { s, name };
	uint32_t i = hash_find(&s->table, hash_string(name), same_stored, &key);
	return i == UINT32_MAX ? NULL : &s->all.items[i];
}

static const char *canonical(const struct import *im, const char *fqn)
{
	const struct import_options *o = im->options;
	const char *name = o != NULL && o->tied != NULL ? o->tied(o->tied_context, fqn) : NULL;
	return name == NULL ? fqn : name;
}

static void store_name(struct import *im, struct store *s, const char *fqn)
{
	const char *name = canonical(im, fqn);
	struct stored *made = stored_find(s, name);
	if (made == NULL) {
		hash_insert(&s->table, hash_string(name), s->all.count);
		made = vec_push(&s->all);
		made->name = context_intern(im->context, name);
	}
	if (strcmp(fqn, name) != 0)
		made->others = made->others == NULL ? context_intern(im->context, fqn)
						    : arena_printf(context_arena(im->context), "%s %s", made->others, fqn);
}

/* --- inputs --- */

static const struct input_kind {
	const char *key, *target; /* target: the field that has the name in the model */
	enum value_source source;
} input_kinds[] = {
	{ "parameter", "parameter_name", FROM_PARAM },
	{ "buffer", "buffer_name", FROM_BUFFER },
	{ "tensor_constant", "tensor_constant_name", FROM_BUFFER },
	{ "user_input", NULL, FROM_INPUT },
};

static const struct input_kind *input_kind(const char *key)
{
	for (size_t i = 0; i < sizeof(input_kinds) / sizeof(input_kinds[0]); i++)
		if (strcmp(input_kinds[i].key, key) == 0)
			return &input_kinds[i];
	return NULL;
}

static enum fs_status emit_source(struct import *im, const struct input_kind *k, const char *name, const char *target,
				  const char *tied, const struct type *t, struct node_id *out)
{
	struct attrs a = { 0 };
	struct prov p = { .node = name };
	attrs_string(&a, ATTR_NAME, target);
	attrs_int(&a, ATTR_DTYPE, t->dtype);
	attrs_ints(&a, ATTR_SHAPE, t->dim, t->rank);
	if (k->source == FROM_BUFFER)
		attrs_int(&a, ATTR_BUFFER, 1);
	if (tied != NULL)
		attrs_string(&a, ATTR_TIED, tied);
	return graph_try_emit(im->graph, k->source == FROM_INPUT ? OP_INPUT : OP_PARAM, NULL, 0, &a,
			      context_prov(im->context, &p), out, im->diag);
}

static enum fs_status same_shape(struct import *im, const struct type *t, uint32_t value, const char *name)
{
	const struct type *first = graph_type(im->graph, im->values.items[value].node);
	if (first->dtype == t->dtype && first->rank == t->rank && memcmp(first->dim, t->dim, sizeof(t->dim[0]) * t->rank) == 0)
		return FS_OK;
	return bad(im, "tensors that share storage differ in shape or type:", name);
}

static enum fs_status bind_tensor(struct import *im, struct scope *s, struct store *store, const struct input_kind *k,
				  const char *name, const char *target)
{
	struct type t;
	const json_t *meta = name == NULL ? NULL : json_object_get(s->types, name);
	if (meta == NULL || target == NULL || *target == '\0')
		return bad(im, "an input without a name or a type:", name);
	if (dims_shape(im, meta, &t) != FS_OK)
		return diag_prefix(im->diag, "input '%s'", name);
	if (dims_complex(meta))
		return diag_set(im->diag, FS_UNSUPPORTED, "input '%s' is complex: give its parts (torch.view_as_real)", name);
	struct stored *stored = k->source == FROM_INPUT ? NULL : stored_find(store, canonical(im, target));
	uint32_t value = stored == NULL ? 0 : stored->value;
	if (value != 0) {
		TRY(same_shape(im, &t, value, target));
	} else {
		value = value_new(im, name);
		struct value *v = &im->values.items[value];
		v->kind = VALUE_TENSOR;
		v->source = k->source;
		v->target = stored == NULL ? target : stored->name;
		if (emit_source(im, k, name, v->target, stored == NULL ? NULL : stored->others, &t, &v->node) != FS_OK)
			return diag_prefix(im->diag, "'%s'", name);
		if (stored != NULL)
			stored->value = value;
	}
	return scope_bind(s, name, value) ? FS_OK : bad(im, "an input is given twice:", name);
}

/* {"name": "k", "value": {"as_int": 3}}: graphs may name it. */
static enum fs_status bind_constant(struct import *im, struct scope *s, const json_t *body)
{
	const char *name = text_of(body, "name");
	const json_t *v;
	enum tag tag;
	if (name == NULL || !union_get(json_object_get(body, "value"), &tag, &v))
		return bad(im, "a constant input is malformed:", name);
	uint32_t value = value_new(im, name);
	struct value *made = &im->values.items[value];
	made->kind = tag == TAG_INT ? VALUE_INT : tag == TAG_BOOL ? VALUE_BOOL : tag == TAG_FLOAT ? VALUE_FLOAT : VALUE_UNSET;
	made->i = tag == TAG_BOOL ? json_is_true(v) : json_integer_value(v);
	real_of(v, &made->f);
	return scope_bind(s, name, value) ? FS_OK : bad(im, "an input is given twice:", name);
}

static enum fs_status bind_input(struct import *im, struct scope *s, struct store *store, const json_t *spec)
{
	const json_t *body = NULL, *arg;
	const char *key = spec_kind(spec, &body);
	const struct input_kind *k = input_kind(key);
	enum tag tag = TAG_TENSOR;
	if (strcmp(key, "constant_input") == 0)
		return bind_constant(im, s, body);
	if (k == NULL)
		return diag_set(im->diag, FS_UNSUPPORTED, "an input of kind '%s' is not supported", key);
	arg = json_object_get(body, "arg");
	if (k->target == NULL && !union_get(arg, &tag, &arg))
		return bad(im, "an input spec is malformed:", key);
	if (tag != TAG_TENSOR)
		return FS_OK; /* a number: its name has a value in sym_int_values */
	const char *name = text_of(arg, "name");
	return bind_tensor(im, s, store, k, name, k->target == NULL ? name : text_of(body, k->target));
}

static enum fs_status bind_inputs(struct import *im, struct scope *s, const json_t *specs)
{
	struct store store = { 0 };
	enum fs_status status = FS_OK;
	const json_t *spec, *body = NULL;
	size_t i;
	if (!json_is_array(specs))
		return bad(im, "the signature has no", "input_specs");
	json_array_foreach((json_t *)(uintptr_t)specs, i, spec) {
		const struct input_kind *k = input_kind(spec_kind(spec, &body));
		const char *fqn = k == NULL || k->target == NULL ? NULL : text_of(body, k->target);
		if (fqn != NULL)
			store_name(im, &store, fqn);
	}
	json_array_foreach((json_t *)(uintptr_t)specs, i, spec)
		if (status == FS_OK)
			status = bind_input(im, s, &store, spec);
	vec_release(&store.all);
	hash_release(&store.table);
	return status == FS_OK ? dims_finish(im, s) : status;
}

/* --- outputs --- */

static const struct output_kind_row {
	const char *key, *target;
	enum output_kind kind;
	bool stored; /* the target is a parameter or buffer */
} output_kinds[] = {
	{ "user_output", NULL, OUT_USER, false },
	{ "loss_output", NULL, OUT_LOSS, false },
	{ "buffer_mutation", "buffer_name", OUT_BUFFER, true },
	{ "parameter_mutation", "parameter_name", OUT_BUFFER, true },
	{ "gradient_to_parameter", "parameter_name", OUT_GRAD_PARAM, true },
	{ "gradient_to_user_input", "user_input_name", OUT_GRAD_INPUT, false },
	{ "user_input_mutation", "user_input_name", OUT_USER, false },
};

static const struct output_kind_row *output_kind(const char *key)
{
	for (size_t i = 0; i < sizeof(output_kinds) / sizeof(output_kinds[0]); i++)
		if (strcmp(output_kinds[i].key, key) == 0)
			return &output_kinds[i];
	return NULL;
}

static bool is_there(const struct graph *g, const struct output *o)
{
	for (uint32_t i = 0; i < g->outputs.count; i++) {
		const struct output *p = &g->outputs.items[i];
		if (p->kind == o->kind && node_same(p->value, o->value) && strcmp(p->name, o->name) == 0)
			return true;
	}
	return false;
}

/* A tensor returned twice is written once. */
static void add_output(struct graph *g, const struct output *o)
{
	if (o->kind != OUT_USER || !is_there(g, o))
		graph_output(g, o);
}

static enum fs_status output_named(struct import *im, const struct scope *s, const struct output_kind_row *k,
				   const char *name, const char *target)
{
	uint32_t value = name == NULL ? 0 : scope_find(im, s, name);
	struct value *v = &im->values.items[value];
	if (value == 0 || (k->target != NULL && target == NULL))
		return bad(im, "an output is not known:", name);
	if (v->kind == VALUE_LOST)
		return diag_set(im->diag, FS_UNSUPPORTED, "output '%s' is not supported", name);
	if (v->kind != VALUE_TENSOR)
		return FS_OK;
	if (node_is(v->imaginary))
		return diag_set(im->diag, FS_UNSUPPORTED, "output '%s' is complex: give its parts (torch.view_as_real)", name);
	if (v->stale)
		return diag_set(im->diag, FS_UNSUPPORTED,
				"output '%s', a view whose tensor was changed in place, is not supported", name);
	target = target != NULL && k->stored ? canonical(im, target) : target;
	add_output(im->graph, &(struct output){ v->node, name, target, k->kind });
	return FS_OK;
}

static enum fs_status read_output(struct import *im, const struct scope *s, const json_t *spec)
{
	const json_t *body = NULL, *arg;
	const char *key = spec_kind(spec, &body);
	const struct output_kind_row *k = output_kind(key);
	enum tag tag = TAG_TENSOR;
	if (k == NULL)
		return diag_set(im->diag, FS_UNSUPPORTED, "an output of kind '%s' is not supported", key);
	arg = json_object_get(body, "arg");
	if (k->kind == OUT_USER && k->target == NULL && !union_get(arg, &tag, &arg))
		return bad(im, "an output spec is malformed:", key);
	if (tag != TAG_TENSOR)
		return FS_OK; /* a number or None: not written */
	return output_named(im, s, k, text_of(arg, "name"), k->target == NULL ? NULL : text_of(body, k->target));
}

static bool has_state_output(const struct graph *g, const char *target)
{
	for (uint32_t i = 0; i < g->outputs.count; i++)
		if (g->outputs.items[i].kind == OUT_BUFFER && strcmp(g->outputs.items[i].target, target) == 0)
			return true;
	return false;
}

/* Training graphs change buffers in place, without a word in the signature. */
static void add_mutations(struct import *im)
{
	for (uint32_t i = 1; i < im->values.count; i++) {
		const struct value *v = &im->values.items[i];
		if (v->mutated && (v->source == FROM_BUFFER || v->source == FROM_PARAM) &&
		    !has_state_output(im->graph, v->target))
			graph_output(im->graph, &(struct output){ v->node, v->name, v->target, OUT_BUFFER });
	}
}

static enum fs_status read_outputs(struct import *im, const struct scope *s, const json_t *specs)
{
	const json_t *spec;
	size_t i;
	if (!json_is_array(specs))
		return bad(im, "the signature has no", "output_specs");
	json_array_foreach((json_t *)(uintptr_t)specs, i, spec)
		TRY(read_output(im, s, spec));
	add_mutations(im);
	return FS_OK;
}

/* --- the program --- */

/* {"major": 8, "minor": 20}; in 2023 one number. */
static enum fs_status check_version(struct import *im, const json_t *program)
{
	const json_t *v = json_object_get(program, "schema_version"), *major = json_object_get(v, "major");
	if (v == NULL)
		return diag_set(im->diag, FS_INVALID, "no exported program: it has no 'schema_version'");
	if (json_is_integer(v))
		return FS_OK;
	if (!json_is_integer(major))
		return bad(im, "no number in", "schema_version");
	if (json_integer_value(major) > SCHEMA_MAJOR)
		return diag_set(im->diag, FS_UNSUPPORTED, "schema version %lld of torch.export; %d and older are known",
				(long long)json_integer_value(major), SCHEMA_MAJOR);
	return FS_OK;
}

static enum fs_status import_scope(struct import *im, struct scope *s, const json_t *program)
{
	const json_t *signature = json_object_get(json_object_get(program, "graph_module"), "signature");
	TRY(bind_inputs(im, s, json_object_get(signature, "input_specs")));
	TRY(guards_check(im, program));
	TRY(import_nodes(im, s));
	TRY(lacks_report(im));
	return read_outputs(im, s, json_object_get(signature, "output_specs"));
}

static enum fs_status import_program(struct import *im, const json_t *program)
{
	const json_t *module = json_object_get(program, "graph_module"), *graph = json_object_get(module, "graph");
	TRY(check_version(im, program));
	if (graph == NULL)
		return diag_set(im->diag, FS_INVALID, "no exported program: it has no 'graph_module' with a 'graph'");
	im->ranges = json_object_get(program, "range_constraints");
	TRY(dims_start(im));
	struct scope s = { .graph = graph, .types = json_object_get(graph, "tensor_values") };
	enum fs_status status = import_scope(im, &s, program);
	scope_release(&s);
	return status;
}

static enum fs_status import_text(struct import *im, const char *bytes, size_t size)
{
	json_error_t error;
	struct json_arena arena;
	bool in_arena = json_arena_begin(&arena, size);
	json_t *program = json_loadb(bytes, size, JSON_DECODE_ANY, &error);
	enum fs_status status = program == NULL
		? diag_set(im->diag, FS_INVALID, "line %d: %s", error.line, error.text) : import_program(im, program);
	if (!in_arena)
		json_decref(program);
	json_arena_end(&arena);
	return status;
}

static void import_release(struct import *im)
{
	vec_release(&im->values);
	vec_release(&im->results);
	vec_release(&im->steps);
	vec_release(&im->lacks);
	vec_release(&im->symbols);
	hash_release(&im->targets);
}

enum fs_status torch_import(const char *bytes, size_t size, const char *file, const struct import_options *o,
			    struct context *c, struct graph **out, struct diag *d)
{
	struct import im = { .context = c, .options = o, .diag = d, .graph = graph_create(c, STAGE_GLOBAL) };
	*out = NULL;
	vec_push(&im.values);
	targets_init(&im);
	enum fs_status status = import_text(&im, bytes, size);
	import_release(&im);
	if (status != FS_OK) {
		graph_destroy(im.graph);
		return diag_prefix(d, "%s", file);
	}
	*out = im.graph;
	return FS_OK;
}
