/* The document of a JSON graph: its mesh and dims, inputs, parameters, constants, outputs. */
#include "graph_json_impl.h"
#include "text.h"
#include "file.h"

#include <stdarg.h>
#include <string.h>

/* --- messages --- */

enum fs_status json_fail(struct json_reader *r, struct json_place at, const char *format, ...)
{
	char text[768];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (at.name == NULL)
		return diag_set(r->diag, FS_INVALID, "%s: %s: %s", r->file, at.kind, text);
	return diag_set(r->diag, FS_INVALID, "%s: %s '%.200s': %s", r->file, at.kind, at.name, text);
}

/* What another module said, with the place before it. */
static enum fs_status fail_with(struct json_reader *r, struct json_place at, const struct diag *said)
{
	return json_fail(r, at, "%s", said->text);
}

static bool listed(const char *keys, const char *key)
{
	size_t n = strlen(key);
	for (const char *s = keys; *s != '\0'; s += strspn(s, " ")) {
		size_t size = strcspn(s, " ");
		if (size == n && memcmp(s, key, n) == 0)
			return true;
		s += size;
	}
	return false;
}

enum fs_status json_check_keys(struct json_reader *r, struct json_place at, const json_t *object, const char *keys)
{
	const char *key;
	json_t *value;
	if (!json_is_object(object))
		return json_fail(r, at, "is no object with the keys %s", keys);
	json_object_foreach((json_t *)object, key, value)
		if (!listed(keys, key))
			return json_fail(r, at, "unknown key '%.60s'; there are: %s", key, keys);
	return FS_OK;
}

enum fs_status json_string_of(struct json_reader *r, struct json_place at, const json_t *object, const char *key,
			      const char **out)
{
	const json_t *v = json_object_get(object, key);
	*out = json_string_value(v);
	if (v != NULL && *out == NULL)
		return json_fail(r, at, "'%s' is no string", key);
	return FS_OK;
}

/* --- sizes --- */

static enum fs_status named_size(struct json_reader *r, struct json_place at, const char *name, int64_t *out)
{
	const json_t *known = json_object_get(r->dims, name);
	if (known == NULL)
		return json_fail(r, at, "the dim '%.60s' is not listed under \"dims\"", name);
	for (int i = 0; r->options != NULL && i < r->options->dim_count; i++)
		if (strcmp(r->options->dims[i].name, name) == 0) {
			*out = r->options->dims[i].size;
			return FS_OK;
		}
	if (!json_is_integer(known))
		return json_fail(r, at, "the dim '%.60s' has no size; give --dim %.60s=SIZE", name, name);
	*out = json_integer_value(known);
	return FS_OK;
}

enum fs_status json_size(struct json_reader *r, struct json_place at, const json_t *v, int64_t least, int64_t *out)
{
	if (json_is_string(v))
		TRY(named_size(r, at, json_string_value(v), out));
	else if (json_is_integer(v))
		*out = json_integer_value(v);
	else
		return json_fail(r, at, "a size is neither an integer nor the name of a dim");
	return *out >= least ? FS_OK : json_fail(r, at, "a size is %lld", (long long)*out);
}

enum fs_status json_shape(struct json_reader *r, struct json_place at, const json_t *v, int64_t least,
			  int64_t dim[MAX_RANK], int *rank)
{
	if (!json_is_array(v) || json_array_size(v) > MAX_RANK)
		return json_fail(r, at, "needs a shape: a list of at most %d sizes", MAX_RANK);
	*rank = (int)json_array_size(v);
	for (int i = 0; i < *rank; i++)
		TRY(json_size(r, at, json_array_get(v, (size_t)i), least, &dim[i]));
	return FS_OK;
}

static const char *dtype_name(int k) { return dtype_text((enum dtype)k); }

enum fs_status json_dtype(struct json_reader *r, struct json_place at, const json_t *v, enum dtype *out)
{
	const char *text = json_string_value(v);
	char word[MAX_WORD];
	if (text == NULL)
		return json_fail(r, at, "needs a dtype, as in \"dtype\": \"bf16\"");
	*out = dtype_from_text(text);
	if (*out != DT_NONE)
		return FS_OK;
	snprintf(word, sizeof(word), "%.60s", text);
	return json_fail(r, at, "unknown element type '%s'; nearest: '%s'", word, lex_nearest(word, dtype_name, DT_COUNT));
}

/* "dims": {"B": 8, "T": null}; every --dim names one of them. */
static enum fs_status check_dims(struct json_reader *r)
{
	const char *name;
	json_t *v;
	if (r->dims != NULL && !json_is_object(r->dims))
		return json_fail(r, (struct json_place){ "dims", NULL }, "is no object");
	json_object_foreach((json_t *)r->dims, name, v)
		if (!json_is_null(v) && (!json_is_integer(v) || json_integer_value(v) < 0))
			return json_fail(r, (struct json_place){ "dim", name }, "is neither a size nor null");
	for (int i = 0; r->options != NULL && i < r->options->dim_count; i++)
		if (json_object_get(r->dims, r->options->dims[i].name) == NULL)
			return diag_set(r->diag, FS_INVALID, "--dim %s: %s has no dim of that name under \"dims\"",
					r->options->dims[i].name, r->file);
	return FS_OK;
}

/* --- values by name --- */

struct name_key { const struct json_reader *r; const char *name; };

static bool same_name(const void *key, uint32_t i)
{
	const struct name_key *k = key;
	return strcmp(k->r->values.items[i].name, k->name) == 0;
}

bool json_find(const struct json_reader *r, const char *name, struct node_id *out)
{
	struct name_key key = { r, name };
	uint32_t i = hash_find(&r->table, hash_string(name), same_name, &key);
	if (i != UINT32_MAX)
		*out = r->values.items[i].node;
	return i != UINT32_MAX;
}

enum fs_status json_define(struct json_reader *r, struct json_place at, struct node_id node)
{
	struct node_id other;
	if (!name_is_printable(at.name))
		return json_fail(r, at, "a name is empty or has control characters");
	if (json_find(r, at.name, &other))
		return json_fail(r, at, "another value has this name already");
	hash_insert(&r->table, hash_string(at.name), r->values.count);
	*vec_push(&r->values) = (struct json_value){ at.name, node };
	return FS_OK;
}

/* --- placements --- */

/* Axes that a placement's text names, those that replicate among them. */
static uint32_t axes_named(const struct mesh *m, const char *text)
{
	uint32_t axes = 0;
	for (const char *s = text; *s != '\0';) {
		size_t n = strcspn(s, ":,() ");
		for (int a = 0; n > 0 && s[n] == ':' && a < m->count; a++)
			if (strlen(m->axis[a].name) == n && memcmp(m->axis[a].name, s, n) == 0)
				axes |= 1u << a;
		s += n + (s[n] != '\0');
	}
	return axes;
}

/* False where the object has none. */
static enum fs_status read_placement(struct json_reader *r, struct json_place at, const json_t *object, int rank,
				     struct placement *out, uint32_t *named)
{
	const char *text;
	struct diag d = { 0 };
	const struct mesh *mesh = context_mesh(r->context);
	*named = 0;
	TRY(json_string_of(r, at, object, "placement", &text));
	if (text == NULL)
		return FS_OK;
	if (placement_parse(out, mesh, rank, text, &d) != FS_OK)
		return fail_with(r, at, &d);
	if (placement_has_partial(out))
		return json_fail(r, at, "'%.60s': a value that is given or kept cannot be partial", text);
	*named = axes_named(mesh, text);
	return FS_OK;
}

enum fs_status json_constrain(struct json_reader *r, struct json_place at, const json_t *object, struct prov_id prov,
			      struct node_id *x)
{
	struct placement to = { 0 };
	struct attrs a = { 0 };
	uint32_t named;
	TRY(read_placement(r, at, object, graph_type(r->graph, *x)->rank, &to, &named));
	if (named == 0)
		return FS_OK;
	attrs_int(&a, ATTR_AXES, named);
	attrs_placement(&a, &to);
	*x = graph_emit(r->graph, OP_CONSTRAIN, x, 1, &a, prov);
	return FS_OK;
}

/* --- inputs, parameters, constants --- */

/* A source, its placement in its type. */
static enum fs_status source(struct json_reader *r, struct json_place at, enum op op, const json_t *v, struct attrs *a)
{
	struct diag d = { 0 };
	struct type t;
	struct prov prov = { .node = at.name };
	uint32_t named;
	if (op_infer(r->context, op, NULL, 0, a, &t, &d) != FS_OK)
		return fail_with(r, at, &d);
	if (op != OP_CONST)
		TRY(read_placement(r, at, v, t.rank, &t.place, &named));
	return json_define(r, at, graph_emit_typed(r->graph, op, NULL, 0, a, &t, context_prov(r->context, &prov)));
}

static enum fs_status given(struct json_reader *r, struct json_place at, enum op op, const json_t *v, struct attrs *a)
{
	enum dtype dtype;
	int64_t dim[MAX_RANK];
	int rank;
	TRY(json_dtype(r, at, json_object_get(v, "dtype"), &dtype));
	TRY(json_shape(r, at, json_object_get(v, "shape"), 0, dim, &rank));
	attrs_string(a, ATTR_NAME, at.name);
	attrs_int(a, ATTR_DTYPE, dtype);
	attrs_ints(a, ATTR_SHAPE, dim, rank);
	return source(r, at, op, v, a);
}

static enum fs_status read_input(struct json_reader *r, const char *name, const json_t *v)
{
	struct json_place at = { "input", name };
	struct attrs a = { 0 };
	TRY(json_check_keys(r, at, v, "dtype shape placement"));
	return given(r, at, OP_INPUT, v, &a);
}

/* "tied": other names under which the parameter is known, to plans for one. */
static enum fs_status read_tied(struct json_reader *r, struct json_place at, const json_t *v, struct attrs *a)
{
	const json_t *list = json_object_get(v, "tied"), *item;
	const char *text = NULL;
	size_t i;
	if (list != NULL && !json_is_array(list))
		return json_fail(r, at, "'tied' is no list of names");
	json_array_foreach(list, i, item) {
		const char *name = json_string_value(item);
		if (name == NULL || !name_is_printable(name) || strchr(name, ' ') != NULL)
			return json_fail(r, at, "'tied' has something that is no name");
		text = text == NULL ? name : arena_printf(&r->scratch, "%s %s", text, name);
	}
	if (text != NULL)
		attrs_string(a, ATTR_TIED, text);
	return FS_OK;
}

static enum fs_status read_parameter(struct json_reader *r, const char *name, const json_t *v)
{
	struct json_place at = { "parameter", name };
	struct attrs a = { 0 };
	TRY(json_check_keys(r, at, v, "dtype shape placement buffer tied"));
	const json_t *buffer = json_object_get(v, "buffer");
	if (buffer != NULL && !json_is_boolean(buffer))
		return json_fail(r, at, "'buffer' is neither true nor false");
	if (json_is_true(buffer))
		attrs_int(&a, ATTR_BUFFER, 1);
	TRY(read_tied(r, at, v, &a));
	return given(r, at, OP_PARAM, v, &a);
}

static enum fs_status read_constant(struct json_reader *r, const char *name, const json_t *v)
{
	struct json_place at = { "constant", name };
	struct tensor *t = arena_alloc(context_arena(r->context), sizeof(*t));
	struct attrs a = { 0 };
	TRY(json_constant(r, at, v, t));
	attrs_tensor(&a, t);
	return source(r, at, OP_CONST, v, &a);
}

/* --- outputs --- */

static enum fs_status output_kind(struct json_reader *r, struct json_place at, const char *text, enum output_kind *out)
{
	for (int k = 0; k < OUTPUT_KINDS; k++)
		if (text == NULL || strcmp(text, output_kind_text((enum output_kind)k)) == 0) {
			*out = (enum output_kind)k;
			return FS_OK;
		}
	return json_fail(r, at, "unknown kind '%.60s'; there are user, buffer, loss, grad_param and grad_input", text);
}

static enum fs_status add_output(struct json_reader *r, struct json_place at, const char *value, struct output *o,
				 const json_t *v)
{
	struct prov prov = { .node = at.name };
	if (!name_is_printable(at.name))
		return json_fail(r, at, "a name is empty or has control characters");
	if (value == NULL)
		return json_fail(r, at, "needs a value: the name of a node, input, parameter or constant");
	if (!json_find(r, value, &o->value))
		return json_fail(r, at, "nothing has the name '%.200s'", value);
	bool has_target = o->kind == OUT_BUFFER || o->kind == OUT_GRAD_PARAM || o->kind == OUT_GRAD_INPUT;
	if (has_target != (o->target != NULL))
		return json_fail(r, at, has_target ? "this kind needs a target, the tensor that it is of"
						   : "only outputs of kind buffer, grad_param and grad_input have a target");
	TRY(json_constrain(r, at, v, context_prov(r->context, &prov), &o->value));
	o->name = at.name;
	graph_output(r->graph, o);
	return FS_OK;
}

static enum fs_status read_output(struct json_reader *r, const char *name, const json_t *v)
{
	struct json_place at = { "output", name };
	struct output o = { 0 };
	const char *value, *kind;
	if (json_is_string(v))
		return add_output(r, at, json_string_value(v), &o, NULL);
	TRY(json_check_keys(r, at, v, "value placement kind target"));
	TRY(json_string_of(r, at, v, "value", &value));
	TRY(json_string_of(r, at, v, "kind", &kind));
	TRY(json_string_of(r, at, v, "target", &o.target));
	TRY(output_kind(r, at, kind, &o.kind));
	return add_output(r, at, value, &o, v);
}

/* A list of values that are written under their own names. */
static enum fs_status read_output_list(struct json_reader *r, const json_t *list)
{
	const json_t *item;
	size_t i;
	json_array_foreach(list, i, item) {
		if (!json_is_string(item))
			return json_fail(r, (struct json_place){ "outputs", NULL }, "a list of outputs has names only");
		TRY(read_output(r, json_string_value(item), item));
	}
	return FS_OK;
}

/* --- the document --- */

typedef enum fs_status read_entry(struct json_reader *r, const char *name, const json_t *v);

static enum fs_status read_section(struct json_reader *r, const json_t *document, const char *section, read_entry *read)
{
	json_t *entries = json_object_get(document, section), *v;
	const char *name;
	if (entries != NULL && !json_is_object(entries))
		return json_fail(r, (struct json_place){ section, NULL }, "is no object of names");
	json_object_foreach(entries, name, v)
		TRY(read(r, name, v));
	return FS_OK;
}

static enum fs_status read_nodes(struct json_reader *r)
{
	const json_t *v;
	size_t i;
	if (!json_is_array(r->nodes))
		return json_fail(r, (struct json_place){ "nodes", NULL }, "is no list");
	json_array_foreach(r->nodes, i, v)
		TRY(json_node_read(r, v, i));
	return FS_OK;
}

static enum fs_status read_outputs(struct json_reader *r, const json_t *document)
{
	const json_t *outputs = json_object_get(document, "outputs");
	TRY(json_is_array(outputs) ? read_output_list(r, outputs) : read_section(r, document, "outputs", read_output));
	if (r->graph->outputs.count == 0)
		return json_fail(r, (struct json_place){ "outputs", NULL }, "there are none, so nothing is to be computed");
	return FS_OK;
}

static enum fs_status read_mesh(struct json_reader *r, const json_t *document, const struct mesh *asked, struct mesh *out)
{
	struct json_place at = { "mesh", NULL };
	struct diag d = { 0 };
	const json_t *v = json_object_get(document, "mesh");
	*out = asked != NULL ? *asked : (struct mesh){ 0 };
	if (v == NULL || asked != NULL)
		return FS_OK;
	if (!json_is_string(v))
		return json_fail(r, at, "is no string, as in \"dp=2,tp=4\"");
	return mesh_parse(out, json_string_value(v), &d) == FS_OK ? FS_OK : fail_with(r, at, &d);
}

static enum fs_status check_header(struct json_reader *r, const json_t *document)
{
	struct json_place at = { "document", NULL };
	const char *kind = json_string_value(json_object_get(document, "fp8shard"));
	const json_t *version = json_object_get(document, "version");
	if (kind == NULL || strcmp(kind, "graph") != 0)
		return json_fail(r, at, "is no graph: it does not say \"fp8shard\": \"graph\"");
	if (!json_is_integer(version) || json_integer_value(version) != 1)
		return json_fail(r, at, "\"version\" is not 1, the only one that there is");
	return json_check_keys(r, at, document,
			       "fp8shard version comment mesh dims inputs parameters constants nodes outputs");
}

static enum fs_status read_document(struct json_reader *r, const json_t *document, const struct mesh *asked)
{
	struct mesh mesh;
	TRY(check_header(r, document));
	TRY(read_mesh(r, document, asked, &mesh));
	r->dims = json_object_get(document, "dims");
	r->nodes = json_object_get(document, "nodes");
	TRY(check_dims(r));
	r->context = context_create(&mesh);
	r->graph = graph_create(r->context, STAGE_GLOBAL);
	TRY(read_section(r, document, "inputs", read_input));
	TRY(read_section(r, document, "parameters", read_parameter));
	TRY(read_section(r, document, "constants", read_constant));
	TRY(read_nodes(r));
	return read_outputs(r, document);
}

static enum fs_status parse(const char *bytes, size_t size, const char *file, json_t **out, struct diag *d)
{
	json_error_t e;
	*out = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &e);
	if (*out != NULL)
		return FS_OK;
	return diag_set(d, FS_INVALID, "%s:%d:%d: %s", file, e.line, e.column, e.text);
}

enum fs_status graph_json_import(const char *bytes, size_t size, const char *file, const struct import_options *o,
				 const struct mesh *mesh, struct context **context, struct graph **out, struct diag *d)
{
	struct json_reader r = { .file = file, .options = o, .diag = d };
	json_t *document;
	TRY(parse(bytes, size, file, &document, d));
	enum fs_status status = read_document(&r, document, mesh);
	json_decref(document);
	vec_release(&r.values);
	hash_release(&r.table);
	arena_release(&r.scratch);
	if (status != FS_OK) {
		graph_destroy(r.graph);
		context_destroy(r.context);
		return status;
	}
	*context = r.context;
	*out = r.graph;
	return FS_OK;
}
