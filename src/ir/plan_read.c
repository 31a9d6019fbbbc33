/*
 * A plan from JSON text (docs/plan.md).  The file is hostile: every field is checked for its kind and
 * range here, and what the fields mean together by plan_verify.
 */
#include "plan_read.h"
#include "text.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* --- errors --- */

enum fs_status plan_error(struct reader *r, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (r->entry[0] == '\0')
		return diag_set(r->diag, FS_INVALID, "%s: not a plan: %s", r->file, text);
	return diag_set(r->diag, FS_INVALID, "%s: %s %u: %s", r->file, r->entry, r->number, text);
}

static enum fs_status wrong(struct reader *r, const char *key, const char *what)
{
	return plan_error(r, "'%.40s' must be %s", key, what);
}

/* --- fields --- */

enum fs_status plan_string(struct reader *r, json_t *from, const char *key, const char **out)
{
	*out = json_string_value(json_object_get(from, key));
	return *out != NULL ? FS_OK : wrong(r, key, "a string");
}

/* NULL where it is missing; in the context's arena. */
enum fs_status plan_optional(struct reader *r, json_t *from, const char *key, const char **out)
{
	json_t *value = json_object_get(from, key);
	if (value != NULL && !json_is_string(value))
		return wrong(r, key, "a string");
	*out = context_intern(r->context, json_string_value(value));
	return FS_OK;
}

enum fs_status plan_int(struct reader *r, json_t *from, const char *key, int64_t least, int64_t most, int64_t *out)
{
	json_t *value = json_object_get(from, key);
	*out = json_integer_value(value);
	if (!json_is_integer(value))
		return wrong(r, key, "a whole number");
	if (*out < least || *out > most)
		return plan_error(r, "'%.40s' is %" PRId64 ", not %" PRId64 " to %" PRId64, key, *out, least, most);
	return FS_OK;
}

static enum fs_status read_array(struct reader *r, json_t *from, const char *key, json_t **out)
{
	*out = json_object_get(from, key);
	return json_is_array(*out) ? FS_OK : wrong(r, key, "a list");
}

static enum fs_status read_word(struct reader *r, json_t *from, const char *key, const char *const *words, int count,
				int *out)
{
	const char *s;
	TRY(plan_string(r, from, key, &s));
	*out = plan_word(words, count, s);
	return *out >= 0 ? FS_OK : plan_error(r, "'%s' is '%.40s', which is none of its words", key, s);
}

/* --- head: format, version, hash --- */

static enum fs_status check_version(struct reader *r)
{
	int64_t version;
	const char *s = json_string_value(json_object_get(r->root, "fp8shard"));
	if (s == NULL || strcmp(s, "plan") != 0)
		return plan_error(r, "it has no \"fp8shard\": \"plan\"; fp8shard compile writes plans");
	TRY(plan_int(r, r->root, "version", 0, INT_MAX, &version));
	if (version != PLAN_VERSION)
		return diag_set(r->diag, FS_UNSUPPORTED, "%s: a plan of version %d; this program reads version %d: compile again",
				r->file, (int)version, PLAN_VERSION);
	return FS_OK;
}

/* Whether the text starts as plans start; *hash is what it says. */
static bool parse_header(const char *text, size_t size, uint64_t *hash)
{
	char header[PLAN_HEADER + 4], digits[17];
	size_t length = plan_header(header, 0);
	const char *zeros = strstr(header, "0000000000000000");
	size_t before = (size_t)(zeros - header);
	if (size < length || memcmp(text, header, before) != 0)
		return false;
	memcpy(digits, text + before, 16);
	digits[16] = '\0';
	char *end;
	*hash = strtoull(digits, &end, 16);
	plan_header(header, *hash);
	return memcmp(text, header, length) == 0;
}

static uint64_t hash_of(const char *text, size_t size)
{
	char header[PLAN_HEADER + 4];
	size_t length = plan_header(header, 0);
	return hash_bytes(text + length, size - length, 0);
}

static enum fs_status check_hash(struct reader *r, const char *text, size_t size)
{
	uint64_t hash;
	if (parse_header(text, size, &hash) && hash_of(text, size) == hash) {
		r->plan->hash = hash;
		return FS_OK;
	}
	const char *says = json_string_value(json_object_get(r->root, "hash"));
	return diag_set(r->diag, FS_INVALID, "%s was changed after it was written (hash %.16s): compile again", r->file,
			says != NULL && strspn(says, "0123456789abcdef") == 16 ? says : "missing");
}

bool plan_rehash(char *text, size_t size)
{
	uint64_t hash;
	char header[PLAN_HEADER + 4];
	if (!parse_header(text, size, &hash))
		return false;
	size_t length = plan_header(header, hash_of(text, size));
	memcpy(text, header, length);
	return true;
}

static enum fs_status read_mesh(struct reader *r)
{
	struct mesh mesh = { 0 };
	const char *text;
	TRY(plan_string(r, r->root, "mesh", &text));
	if (text[0] != '\0' && mesh_parse(&mesh, text, r->diag) != FS_OK)
		return diag_prefix(r->diag, "%s", r->file);
	r->context = r->plan->context = context_create(&mesh);
	r->graph = r->plan->graph = graph_create(r->context, STAGE_FP8);
	return FS_OK;
}

static enum fs_status read_head(struct reader *r)
{
	struct plan *p = r->plan;
	json_t *exact = json_object_get(r->root, "exact"), *memory = json_object_get(r->root, "memory");
	TRY(plan_optional(r, r->root, "recipe", &p->recipe));
	TRY(plan_optional(r, r->root, "target", &p->target));
	if (!json_is_boolean(exact))
		return wrong(r, "exact", "true or false");
	p->exact = json_is_true(exact);
	TRY(plan_int(r, memory, "params", 0, INT64_MAX, &p->param_bytes));
	TRY(plan_int(r, memory, "state", 0, INT64_MAX, &p->state_bytes));
	return plan_int(r, memory, "arena", 0, INT64_MAX, &p->arena_bytes);
}

/* The arguments of the compile; left out where a plan was made without one. */
static enum fs_status read_command(struct reader *r)
{
	json_t *list = json_object_get(r->root, "command"), *item;
	size_t i;
	if (list != NULL && !json_is_array(list))
		return wrong(r, "command", "a list of strings");
	json_array_foreach(list, i, item) {
		if (!json_is_string(item))
			return wrong(r, "command", "a list of strings");
		*vec_push(&r->plan->command) = context_intern(r->context, json_string_value(item));
	}
	return FS_OK;
}

/* --- types --- */

/* "[4096,4096] ..." to dims; NULL where it is none. */
static const char *parse_dims(const char *s, struct type *t)
{
	if (*s++ != '[')
		return NULL;
	if (*s == ']')
		return s + 1;
	for (;; s++) {
		char *end;
		if (t->rank == MAX_RANK || *s < '0' || *s > '9')
			return NULL;
		t->dim[t->rank] = strtoll(s, &end, 10);
		if (t->dim[t->rank++] > (int64_t)1 << 48)
			return NULL;
		s = end;
		if (*s == ']')
			return s + 1;
		if (*s != ',')
			return NULL;
	}
}

static enum fs_status parse_type(struct reader *r, const char *s, struct type *t)
{
	char name[16] = "";
	const char *bracket = strchr(s, '[');
	if (bracket != NULL && (size_t)(bracket - s) < sizeof(name))
		memcpy(name, s, (size_t)(bracket - s));
	*t = (struct type){ .dtype = (uint8_t)dtype_from_text(name) };
	const char *place = t->dtype == DT_NONE ? NULL : parse_dims(bracket, t);
	if (place == NULL)
		return plan_error(r, "'%.100s' is no type", s);
	if (placement_parse(&t->place, context_mesh(r->context), t->rank, place, r->diag) != FS_OK)
		return diag_prefix(r->diag, "%s: type %u", r->file, r->number);
	return FS_OK;
}

/* Sets what messages call the entry at hand. */
static void at_entry(struct reader *r, const char *entry, size_t number)
{
	r->entry = entry;
	r->number = (unsigned)number;
}

static enum fs_status read_types(struct reader *r)
{
	json_t *types;
	TRY(read_array(r, r->root, "types", &types));
	r->type_count = (uint32_t)json_array_size(types);
	r->types = arena_array(&r->scratch, r->type_count + 1, sizeof(*r->types));
	for (uint32_t i = 0; i < r->type_count; i++) {
		at_entry(r, "type", i);
		const char *text = json_string_value(json_array_get(types, i));
		if (text == NULL)
			return plan_error(r, "is not a string");
		TRY(parse_type(r, text, &r->types[i]));
	}
	return FS_OK;
}

/* --- nodes --- */

static enum fs_status read_operands(struct reader *r, json_t *node, struct node_id **out, int *count)
{
	json_t *in = json_object_get(node, "in"), *value;
	size_t i;
	*count = (int)json_array_size(in);
	if (in != NULL && !json_is_array(in))
		return wrong(r, "in", "a list");
	if (json_array_size(in) > MAX_OPERANDS)
		return plan_error(r, "more than %d operands", MAX_OPERANDS);
	json_array_foreach(in, i, value) {
		json_int_t id = json_integer_value(value);
		if (!json_is_integer(value) || id < 1 || id >= r->number)
			return plan_error(r, "operand %zu is no node before it", i);
		r->operands[i].i = (uint32_t)id;
	}
	*out = r->operands;
	return FS_OK;
}

/* Item i of the list "at" of a node: a word, or a number. */
static enum fs_status read_at_word(struct reader *r, json_t *at, size_t i, const char *const *words, int count, int *out)
{
	const char *s = json_string_value(json_array_get(at, i));
	*out = s == NULL ? -1 : plan_word(words, count, s);
	return *out >= 0 ? FS_OK : plan_error(r, "'at' says '%.40s', which is none of its words", s ? s : "");
}

static enum fs_status read_at_number(struct reader *r, json_t *at, size_t i, int64_t most, int64_t *out)
{
	json_t *value = json_array_get(at, i);
	*out = json_integer_value(value);
	if (json_is_integer(value) && *out >= 0 && *out <= most)
		return FS_OK;
	return plan_error(r, "'at' says %" PRId64 " where 0 to %" PRId64 " is wanted", *out, most);
}

static enum fs_status read_storage(struct reader *r, json_t *node, struct storage *out)
{
	int section, memory;
	int64_t where;
	json_t *at = json_object_get(node, "at");
	*out = (struct storage){ 0 };
	if (!json_is_array(at) || json_array_size(at) != 4)
		return wrong(r, "at", "a list of section, memory, offset (of a view: its base) and bytes");
	TRY(read_at_word(r, at, 0, plan_section_words, SECTIONS, &section));
	TRY(read_at_word(r, at, 1, plan_memory_words, MEMORIES, &memory));
	TRY(read_at_number(r, at, 2, memory == MEM_VIEW ? (int64_t)r->number - 1 : INT64_MAX, &where));
	TRY(read_at_number(r, at, 3, INT64_MAX, &out->bytes));
	out->section = (uint8_t)section;
	out->memory = (uint8_t)memory;
	if (memory == MEM_VIEW)
		out->base.i = (uint32_t)where;
	else
		out->offset = where;
	return FS_OK;
}

static enum fs_status read_rule(struct reader *r, json_t *from, const char **out)
{
	json_t *rules = json_object_get(r->root, "rules");
	int64_t i;
	if (json_object_get(from, "rule") == NULL)
		return FS_OK;
	TRY(plan_int(r, from, "rule", 0, (int64_t)json_array_size(rules) - 1, &i));
	*out = json_string_value(json_array_get(rules, (size_t)i));
	return *out != NULL ? FS_OK : wrong(r, "rules", "a list of strings");
}

static enum fs_status read_prov(struct reader *r, json_t *node, struct prov_id *out)
{
	json_t *from = json_object_get(node, "from");
	struct prov p = { 0 };
	*out = (struct prov_id){ 0 };
	if (from == NULL)
		return FS_OK;
	if (!json_is_object(from))
		return wrong(r, "from", "an object");
	TRY(plan_optional(r, from, "node", &p.node));
	TRY(plan_optional(r, from, "module", &p.module));
	TRY(plan_optional(r, from, "source", &p.source));
	TRY(plan_optional(r, from, "pass", &p.pass));
	TRY(read_rule(r, from, &p.rule));
	*out = context_prov(r->context, &p);
	return FS_OK;
}

static enum fs_status read_op(struct reader *r, json_t *node, enum op *out)
{
	const char *text;
	TRY(plan_string(r, node, "op", &text));
	*out = op_from_text(text);
	return *out != OP_NONE ? FS_OK : plan_error(r, "'%.40s' is no op", text);
}

static enum fs_status read_node(struct reader *r, json_t *node)
{
	enum op op;
	struct node_id *in;
	int count;
	int64_t id, type;
	struct attrs attrs = { 0 };
	struct prov_id prov;
	TRY(plan_int(r, node, "id", r->number, r->number, &id));
	TRY(read_op(r, node, &op));
	TRY(read_operands(r, node, &in, &count));
	TRY(plan_int(r, node, "type", 0, (int64_t)r->type_count - 1, &type));
	TRY(plan_attrs(r, json_object_get(node, "attrs"), &attrs));
	TRY(read_storage(r, node, &r->plan->storage[id]));
	TRY(read_prov(r, node, &prov));
	graph_append(r->graph, op, in, count, &attrs, &r->types[type], prov);
	return FS_OK;
}

static enum fs_status read_nodes(struct reader *r)
{
	json_t *nodes, *node;
	size_t i;
	TRY(read_array(r, r->root, "nodes", &nodes));
	r->plan->storage = calloc(json_array_size(nodes) + 1, sizeof(*r->plan->storage));
	if (r->plan->storage == NULL)
		return diag_set(r->diag, FS_NOMEM, "%s: out of memory", r->file);
	json_array_foreach(nodes, i, node) {
		at_entry(r, "node", i + 1);
		TRY(read_node(r, node));
	}
	return FS_OK;
}

/* --- outputs and the report --- */

static enum fs_status read_output(struct reader *r, json_t *from)
{
	const char *kinds[OUTPUT_KINDS];
	struct output o = { 0 };
	int kind;
	int64_t value;
	for (int i = 0; i < OUTPUT_KINDS; i++)
		kinds[i] = output_kind_text((enum output_kind)i);
	TRY(plan_string(r, from, "name", &o.name));
	TRY(plan_optional(r, from, "target", &o.target));
	TRY(read_word(r, from, "kind", kinds, OUTPUT_KINDS, &kind));
	TRY(plan_int(r, from, "value", 1, (int64_t)r->graph->nodes.count - 1, &value));
	o.kind = (enum output_kind)kind;
	o.value.i = (uint32_t)value;
	graph_output(r->graph, &o);
	return FS_OK;
}

static enum fs_status read_matmul(struct reader *r, json_t *from)
{
	struct plan_matmul *m = vec_push(&r->plan->matmuls);
	int64_t value;
	TRY(plan_optional(r, from, "node", &m->node));
	TRY(plan_optional(r, from, "module", &m->module));
	TRY(plan_optional(r, from, "source", &m->source));
	TRY(plan_optional(r, from, "eq", &m->equation));
	TRY(plan_optional(r, from, "role", &m->role));
	TRY(plan_optional(r, from, "recipe", &m->recipe));
	TRY(plan_optional(r, from, "reason", &m->reason));
	TRY(plan_int(r, from, "m", 0, INT64_MAX, &m->m));
	TRY(plan_int(r, from, "n", 0, INT64_MAX, &m->n));
	TRY(plan_int(r, from, "k", 0, INT64_MAX, &m->k));
	TRY(plan_int(r, from, "value", 0, (int64_t)r->graph->nodes.count - 1, &value));
	m->value.i = (uint32_t)value;
	return FS_OK;
}

typedef enum fs_status read_entry(struct reader *r, json_t *from);

static enum fs_status read_list(struct reader *r, const char *key, const char *entry, read_entry *read)
{
	json_t *list, *from;
	size_t i;
	r->entry = "";
	TRY(read_array(r, r->root, key, &list));
	json_array_foreach(list, i, from) {
		at_entry(r, entry, i);
		TRY(read(r, from));
	}
	return FS_OK;
}

/* --- the file --- */

static enum fs_status read_root(struct reader *r, const char *text, size_t size)
{
	json_error_t error;
	r->root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	if (r->root == NULL)
		return plan_error(r, "line %d: %.200s", error.line, error.text);
	return check_version(r);
}

static enum fs_status read_all(struct reader *r, const char *text, size_t size)
{
	TRY(read_root(r, text, size));
	TRY(check_hash(r, text, size));
	TRY(read_mesh(r));
	TRY(read_head(r));
	TRY(read_command(r));
	TRY(read_types(r));
	r->entry = "";
	TRY(read_nodes(r));
	TRY(read_list(r, "outputs", "output", read_output));
	TRY(read_list(r, "matmuls", "matmul", read_matmul));
	if (plan_verify(r->plan, r->diag) != FS_OK)
		return diag_prefix(r->diag, "%s", r->file);
	return FS_OK;
}

enum fs_status plan_read(const char *text, size_t size, const char *file, struct plan **out, struct diag *d)
{
	struct reader r = { .file = file, .diag = d, .entry = "" };
	r.plan = calloc(1, sizeof(*r.plan));
	if (r.plan == NULL)
		return diag_set(d, FS_NOMEM, "%s: out of memory", file);
	enum fs_status status = read_all(&r, text, size);
	json_decref(r.root);
	arena_release(&r.scratch);
	if (status == FS_OK) {
		*out = r.plan;
		return FS_OK;
	}
	plan_destroy(r.plan);
	return status;
}
