/*
 * The text form, read.  Nodes are appended as they are written: nothing is simplified or shared.
 * The type written must be the one that the op gives; whether a node may stand where it stands is
 * the verifier's business.
 */
#include "text.h"

#include <ctype.h>
#include <string.h>

#define MAX_LIST 64 /* numbers of an attribute */
#define MAX_PLACEMENT_TEXT 512

struct value_name { struct span text; struct node_id node; };

struct parser {
	struct lex lex;
	struct context *context;
	struct graph *graph;
	struct arena scratch;
	VEC(struct value_name) names;
	struct hash_table table;
	VEC(struct node_id) in;          /* operands of the statement at hand */
	VEC(const struct type *) types;  /* and their types */
};

struct statement {
	const char *start;
	struct span name;
	enum op op;
	struct attrs attrs;
	struct lex data; /* where the elements of a constant stand; .at NULL: none */
	const char *type_at;
	struct type type;
	struct prov prov;
};

static const struct mesh *mesh_of(const struct parser *p)
{
	return context_mesh(p->context);
}

/* For messages. */
static const char *op_name(int k) { return op_text((enum op)k); }
static const char *key_name(int k) { return attr_text((enum attr_key)k); }
static const char *dtype_name(int k) { return dtype_text((enum dtype)k); }

/* --- values --- */

struct name_key { const struct parser *p; struct span text; };

static bool same_name(const void *key, uint32_t i)
{
	const struct name_key *k = key;
	struct span s = k->p->names.items[i].text;
	return s.size == k->text.size && memcmp(s.at, k->text.at, s.size) == 0;
}

static uint32_t find_name(const struct parser *p, struct span text)
{
	struct name_key key = { p, text };
	return hash_find(&p->table, hash_bytes(text.at, text.size, 0), same_name, &key);
}

/* As much of a name as a message has room for. */
static int shown(struct span name)
{
	return name.size < 200 ? (int)name.size : 200;
}

static enum fs_status parse_value_name(struct parser *p, struct span *out)
{
	TRY(lex_expect(&p->lex, '%', "a value (%name)"));
	return lex_name(&p->lex, "the name of a value", out);
}

static enum fs_status parse_use(struct parser *p, struct node_id *out)
{
	struct span name;
	TRY(parse_value_name(p, &name));
	uint32_t i = find_name(p, name);
	if (i == UINT32_MAX)
		return lex_error(&p->lex, name.at - 1, "%%%.*s is not defined above", shown(name), name.at);
	*out = p->names.items[i].node;
	return FS_OK;
}

static void define(struct parser *p, struct span name, struct node_id node)
{
	hash_insert(&p->table, hash_bytes(name.at, name.size, 0), p->names.count);
	*vec_push(&p->names) = (struct value_name){ name, node };
}

/* --- types --- */

static enum fs_status parse_dtype(struct parser *p, enum dtype *out)
{
	char word[MAX_WORD];
	TRY(lex_word(&p->lex, "an element type", word));
	*out = dtype_from_text(word);
	if (*out == DT_NONE)
		return lex_error(&p->lex, p->lex.at - strlen(word), "unknown element type '%s'; nearest: '%s'", word,
				 lex_nearest(word, dtype_name, DT_COUNT));
	return FS_OK;
}

static enum fs_status parse_shape(struct parser *p, struct type *t)
{
	TRY(lex_expect(&p->lex, '[', "'[' and the dims"));
	if (lex_take(&p->lex, ']'))
		return FS_OK;
	do {
		if (t->rank == MAX_RANK)
			return lex_error(&p->lex, p->lex.at, "more than %d dims", MAX_RANK);
		TRY(lex_int(&p->lex, &t->dim[t->rank]));
		if (t->dim[t->rank++] < 0)
			return lex_error(&p->lex, p->lex.at, "a dim of negative size");
	} while (lex_take(&p->lex, ','));
	return lex_expect(&p->lex, ']', "',' or ']'");
}

static enum fs_status parse_placement(struct parser *p, int rank, struct placement *out)
{
	char text[MAX_PLACEMENT_TEXT];
	lex_peek(&p->lex);
	const char *at = p->lex.at;
	TRY(lex_parenthesis(&p->lex, "a placement in parentheses", text, sizeof(text)));
	if (placement_parse(out, mesh_of(p), rank, text, p->lex.diag) != FS_OK)
		return lex_at(&p->lex, at);
	return FS_OK;
}

static enum fs_status parse_type(struct parser *p, struct statement *s)
{
	enum dtype dtype;
	TRY(lex_expect(&p->lex, ':', "':' and the type"));
	lex_peek(&p->lex);
	s->type_at = p->lex.at;
	TRY(parse_dtype(p, &dtype));
	s->type.dtype = (uint8_t)dtype;
	TRY(parse_shape(p, &s->type));
	if (lex_peek(&p->lex) != '(')
		return FS_OK;
	return parse_placement(p, s->type.rank, &s->type.place);
}

/* --- attributes --- */

/* Negative dims count from the end of operand 0. */
static int64_t dim_value(const struct parser *p, enum attr_key key, int64_t v)
{
	bool is_dim = key == ATTR_DIM || key == ATTR_DIMS || key == ATTR_FROM || key == ATTR_TO_DIM;
	return is_dim && v < 0 && p->types.count > 0 ? v + p->types.items[0]->rank : v;
}

static enum fs_status parse_int(struct parser *p, struct statement *s, enum attr_key key)
{
	int64_t v;
	TRY(lex_int(&p->lex, &v));
	attrs_int(&s->attrs, key, dim_value(p, key, v));
	return FS_OK;
}

static enum fs_status parse_float(struct parser *p, struct statement *s, enum attr_key key)
{
	double v;
	TRY(lex_float(&p->lex, &v));
	attrs_float(&s->attrs, key, v);
	return FS_OK;
}

static enum fs_status parse_string(struct parser *p, struct statement *s, enum attr_key key)
{
	const char *v;
	TRY(lex_string(&p->lex, "a quoted string", &p->scratch, &v));
	attrs_string(&s->attrs, key, v);
	return FS_OK;
}

static enum fs_status parse_ints(struct parser *p, struct statement *s, enum attr_key key)
{
	int64_t list[MAX_LIST];
	int count = 0;
	TRY(lex_expect(&p->lex, '[', "'[' and numbers"));
	if (!lex_take(&p->lex, ']')) {
		do {
			if (count == MAX_LIST)
				return lex_error(&p->lex, p->lex.at, "more than %d numbers", MAX_LIST);
			TRY(lex_int(&p->lex, &list[count]));
			list[count] = dim_value(p, key, list[count]);
			count++;
		} while (lex_take(&p->lex, ','));
		TRY(lex_expect(&p->lex, ']', "',' or ']'"));
	}
	attrs_ints(&s->attrs, key, arena_copy(&p->scratch, list, sizeof(list[0]) * (size_t)count), count);
	return FS_OK;
}

static enum fs_status parse_dtype_value(struct parser *p, struct statement *s, enum attr_key key)
{
	enum dtype dtype;
	TRY(parse_dtype(p, &dtype));
	attrs_int(&s->attrs, key, dtype);
	return FS_OK;
}

static enum fs_status parse_axes(struct parser *p, struct statement *s, enum attr_key key)
{
	char word[MAX_WORD];
	int64_t axes = 0;
	do {
		TRY(lex_word(&p->lex, "a mesh axis", word));
		const char *at = p->lex.at - strlen(word);
		int axis = mesh_find(mesh_of(p), word);
		if (axis < 0)
			return lex_error(&p->lex, at, "the mesh has no axis '%s'", word);
		if (axes >> axis & 1)
			return lex_error(&p->lex, at, "the axis '%s' stands twice", word);
		axes |= (int64_t)1 << axis;
	} while (lex_take(&p->lex, '+'));
	attrs_int(&s->attrs, key, axes);
	return FS_OK;
}

static enum fs_status parse_placement_value(struct parser *p, struct statement *s, enum attr_key key)
{
	struct placement place;
	(void)key; /* ATTR_TO alone */
	TRY(parse_placement(p, p->types.count > 0 ? p->types.items[0]->rank : 0, &place));
	attrs_placement(&s->attrs, arena_copy(&p->scratch, &place, sizeof(place)));
	return FS_OK;
}

/* Elements need the type, which is still to come: notes where they stand and skips them. */
static enum fs_status skip_data(struct parser *p, struct statement *s, enum attr_key key)
{
	char c = lex_peek(&p->lex);
	struct span quoted;
	(void)key; /* ATTR_DATA alone */
	s->data = p->lex;
	if (c == '"')
		return lex_quoted(&p->lex, "elements", &quoted);
	if (c != '[')
		return lex_expected(&p->lex, "[elements] or \"b64:...\"");
	while (p->lex.at < p->lex.end && *p->lex.at != ']' && *p->lex.at != '\n')
		p->lex.at++;
	return lex_expect(&p->lex, ']', "']' after the elements");
}

typedef enum fs_status parse_attr_value(struct parser *p, struct statement *s, enum attr_key key);
static parse_attr_value *const value_parsers[] = {
	[AK_INT] = parse_int,
	[AK_FLOAT] = parse_float,
	[AK_STRING] = parse_string,
	[AK_INTS] = parse_ints,
	[AK_DTYPE] = parse_dtype_value,
	[AK_AXES] = parse_axes,
	[AK_PLACEMENT] = parse_placement_value,
	[AK_TENSOR] = skip_data,
};

static bool has_attr(const struct statement *s, enum attr_key key)
{
	for (int i = 0; i < s->attrs.count; i++)
		if (s->attrs.at[i].key == key)
			return true;
	return key == ATTR_DATA && s->data.at != NULL;
}

static enum fs_status parse_attr(struct parser *p, struct statement *s)
{
	char word[MAX_WORD];
	TRY(lex_word(&p->lex, "an attribute (key=value)", word));
	const char *at = p->lex.at - strlen(word);
	enum attr_key key = attr_from_text(word);
	if (key == ATTR_NONE)
		return lex_error(&p->lex, at, "unknown attribute '%s'; nearest: '%s'", word, lex_nearest(word, key_name, ATTR_COUNT));
	if (has_attr(s, key))
		return lex_error(&p->lex, at, "attribute '%s' stands twice", word);
	if (key == ATTR_NAME)
		return lex_error(&p->lex, at, "the name stands as a string after the op, not as an attribute");
	if (attr_is_written_elsewhere(s->op, key))
		return lex_error(&p->lex, at, "'%s' of this op is said by its type", word);
	if (s->attrs.count >= MAX_ATTRS - 4) /* room for name, data, dtype, shape */
		return lex_error(&p->lex, at, "too many attributes");
	TRY(lex_expect(&p->lex, '=', "'=' and a value"));
	return value_parsers[attr_kind(key)](p, s, key);
}

static enum fs_status parse_attrs(struct parser *p, struct statement *s)
{
	if (!lex_take(&p->lex, '{'))
		return FS_OK;
	while (!lex_take(&p->lex, '}'))
		TRY(parse_attr(p, s));
	return FS_OK;
}

/* --- elements of a constant --- */

static enum fs_status parse_base64(struct lex *l, struct tensor *t, int64_t bytes, struct arena *arena)
{
	struct span text;
	TRY(lex_quoted(l, "elements", &text));
	if (text.size < 4 || memcmp(text.at, "b64:", 4) != 0)
		return lex_error(l, text.at, "expected b64: and base64");
	size_t length = text.size - 4;
	if ((uint64_t)bytes > length) /* base64 is longer than what it holds */
		return lex_error(l, text.at, "%lld bytes of elements wanted, %zu letters of base64 found", (long long)bytes, length);
	void *data = arena_alloc(arena, (size_t)bytes);
	if (!base64_parse(text.at + 4, length, data, (size_t)bytes))
		return lex_error(l, text.at, "not base64 of %lld bytes", (long long)bytes);
	t->data = data;
	return FS_OK;
}

static enum fs_status parse_list(struct lex *l, struct tensor *t, int64_t count, struct arena *arena)
{
	enum dtype dtype = (enum dtype)t->dtype;
	char word[MAX_WORD];
	TRY(lex_expect(l, '[', "'['"));
	if (count > l->end - l->at)
		return lex_error(l, l->at, "%lld elements wanted", (long long)count);
	char *data = arena_alloc(arena, (size_t)(count * dtype_size(dtype)));
	for (int64_t i = 0; i < count; i++) {
		if (i > 0)
			TRY(lex_expect(l, ',', "',' and another element"));
		TRY(lex_number(l, word));
		if (!element_parse(dtype, word, data + i * dtype_size(dtype)))
			return lex_error(l, l->at - strlen(word), "'%s' is no element of type %s", word, dtype_text(dtype));
	}
	t->data = data;
	return lex_expect(l, ']', "']' after the last element");
}

static enum fs_status parse_data(struct parser *p, struct statement *s)
{
	if (s->data.at == NULL)
		return FS_OK;
	struct arena *arena = context_arena(p->context);
	struct tensor *t = arena_alloc(arena, sizeof(*t));
	int64_t count = 1, bytes;
	t->dtype = s->type.dtype;
	t->rank = s->type.rank;
	for (int i = 0; i < t->rank; i++) {
		t->dim[i] = s->type.dim[i];
		if (!mul_size(count, t->dim[i], &count))
			return lex_error(&p->lex, s->type_at, "too many elements");
	}
	if (!mul_size(count, dtype_size((enum dtype)t->dtype), &bytes))
		return lex_error(&p->lex, s->type_at, "too many elements");
	if (lex_peek(&s->data) == '"')
		TRY(parse_base64(&s->data, t, bytes, arena));
	else
		TRY(parse_list(&s->data, t, count, arena));
	attrs_tensor(&s->attrs, t);
	return FS_OK;
}

/* --- provenance: node @ module (source) [pass] {rule}, each may be left out --- */

static enum fs_status parse_field(struct parser *p, char open, char close, const char **out)
{
	if (!lex_take(&p->lex, open))
		return FS_OK;
	TRY(lex_atom(&p->lex, "provenance", &p->scratch, out));
	if (close == '\0')
		return FS_OK;
	return lex_expect(&p->lex, close, close == ')' ? "')'" : close == ']' ? "']'" : "'}'");
}

static bool all_digits(struct span s)
{
	for (size_t i = 0; i < s.size; i++)
		if (!isdigit((unsigned char)s.at[i]))
			return false;
	return true;
}

/* A node without a name in its provenance came by the name that it has here. */
static void imply_node(struct parser *p, struct statement *s)
{
	if (s->prov.node == NULL && !has_attr(s, ATTR_NAME) && !all_digits(s->name))
		s->prov.node = context_intern_n(p->context, s->name.at, s->name.size);
}

static enum fs_status parse_prov(struct parser *p, struct statement *s)
{
	char c = lex_peek(&p->lex);
	if (c != ';')
		return c == '\n' || c == '\0' ? FS_OK : lex_expected(&p->lex, "';' or the end of the line");
	p->lex.at++;
	c = lex_peek(&p->lex);
	if (c == '"' || provenance_bare(c))
		TRY(lex_atom(&p->lex, "provenance", &p->scratch, &s->prov.node));
	TRY(parse_field(p, '@', '\0', &s->prov.module));
	TRY(parse_field(p, '(', ')', &s->prov.source));
	TRY(parse_field(p, '[', ']', &s->prov.pass));
	TRY(parse_field(p, '{', '}', &s->prov.rule));
	c = lex_peek(&p->lex);
	return c == '\n' || c == '\0' ? FS_OK : lex_expected(&p->lex, "provenance: node @ module (source) [pass] {rule}");
}

/* --- statements --- */

static enum fs_status parse_op(struct parser *p, struct statement *s)
{
	char word[MAX_WORD];
	TRY(lex_word(&p->lex, "an op", word));
	s->start = p->lex.at - strlen(word);
	s->op = op_from_text(word);
	if (s->op == OP_NONE)
		return lex_error(&p->lex, s->start, "unknown op '%s'; nearest: '%s'", word, lex_nearest(word, op_name, OP_COUNT));
	if (lex_peek(&p->lex) == '"')
		return parse_string(p, s, ATTR_NAME);
	return FS_OK;
}

static enum fs_status parse_operands(struct parser *p)
{
	p->in.count = p->types.count = 0;
	if (lex_peek(&p->lex) != '%')
		return FS_OK;
	do {
		if (p->in.count == MAX_OPERANDS)
			return lex_error(&p->lex, p->lex.at, "more than %d operands", MAX_OPERANDS);
		struct node_id n;
		TRY(parse_use(p, &n));
		*vec_push(&p->in) = n;
		*vec_push(&p->types) = graph_type(p->graph, n);
	} while (lex_take(&p->lex, ','));
	return FS_OK;
}

/* Of ops that take their type from attributes, those of the type written. */
static void imply_type(struct statement *s)
{
	if (attr_is_written_elsewhere(s->op, ATTR_DTYPE))
		attrs_int(&s->attrs, ATTR_DTYPE, s->type.dtype);
	if (attr_is_written_elsewhere(s->op, ATTR_SHAPE))
		attrs_ints(&s->attrs, ATTR_SHAPE, s->type.dim, s->type.rank);
}

static enum fs_status check_type(struct parser *p, const struct statement *s)
{
	struct type made = { 0 };
	if (op_infer(p->context, s->op, p->types.items, (int)p->types.count, &s->attrs, &made, p->lex.diag) != FS_OK)
		return lex_at(&p->lex, s->start);
	if (made.dtype == s->type.dtype && made.rank == s->type.rank &&
	    memcmp(made.dim, s->type.dim, sizeof(made.dim[0]) * made.rank) == 0)
		return FS_OK;
	char written[256], inferred[256];
	type_text(&s->type, NULL, written, sizeof(written));
	type_text(&made, NULL, inferred, sizeof(inferred));
	return lex_error(&p->lex, s->type_at, "the type is written %s; %s gives %s", written, op_text(s->op), inferred);
}

static enum fs_status parse_node(struct parser *p)
{
	struct statement s = { 0 };
	TRY(parse_value_name(p, &s.name));
	if (find_name(p, s.name) != UINT32_MAX)
		return lex_error(&p->lex, s.name.at - 1, "%%%.*s is defined twice", shown(s.name), s.name.at);
	TRY(lex_expect(&p->lex, '=', "'=' and an op"));
	TRY(parse_op(p, &s));
	TRY(parse_operands(p));
	TRY(parse_attrs(p, &s));
	TRY(parse_type(p, &s));
	TRY(parse_prov(p, &s));
	TRY(parse_data(p, &s));
	imply_type(&s);
	imply_node(p, &s);
	TRY(check_type(p, &s));
	define(p, s.name, graph_append(p->graph, s.op, p->in.items, (int)p->in.count, &s.attrs, &s.type,
				       context_prov(p->context, &s.prov)));
	return lex_line_end(&p->lex);
}

static enum fs_status parse_output_kind(struct parser *p, struct output *o)
{
	for (int k = 0; k < OUTPUT_KINDS; k++)
		if (lex_take_word(&p->lex, output_kind_text((enum output_kind)k))) {
			o->kind = (enum output_kind)k;
			return FS_OK;
		}
	return lex_expected(&p->lex, "a name in quotes, or user, buffer, loss, grad_param or grad_input");
}

static enum fs_status parse_output(struct parser *p)
{
	struct output o = { 0 };
	bool plain = lex_peek(&p->lex) == '"';
	if (!plain)
		TRY(parse_output_kind(p, &o));
	TRY(lex_string(&p->lex, "the name of the output", &p->scratch, &o.name));
	if (!plain && lex_peek(&p->lex) == '"') {
		o.target = o.name;
		TRY(lex_string(&p->lex, "the name of the output", &p->scratch, &o.name));
	}
	TRY(lex_expect(&p->lex, '=', "'=' and a value"));
	TRY(parse_use(p, &o.value));
	graph_output(p->graph, &o);
	return lex_line_end(&p->lex);
}

/* --- the file --- */

static enum fs_status parse_mesh(struct parser *p, struct mesh *m)
{
	char text[512];
	size_t n = 0;
	lex_peek(&p->lex);
	const char *at = p->lex.at;
	for (char c; (c = lex_peek(&p->lex)) != '\n' && c != '\0' && n + 1 < sizeof(text); p->lex.at++)
		text[n++] = c;
	text[n] = '\0';
	if (mesh_parse(m, text, p->lex.diag) != FS_OK)
		return lex_at(&p->lex, at);
	return lex_line_end(&p->lex);
}

static enum fs_status parse_stage(struct parser *p, enum stage *out)
{
	for (int s = 0; s < STAGE_COUNT; s++)
		if (lex_take_word(&p->lex, stage_text((enum stage)s))) {
			*out = (enum stage)s;
			return lex_line_end(&p->lex);
		}
	return lex_expected(&p->lex, "a stage: global, placed, local or fp8");
}

static enum fs_status parse_header(struct parser *p)
{
	struct mesh mesh = { 0 };
	enum stage stage = STAGE_GLOBAL;
	lex_skip_lines(&p->lex);
	if (lex_take_word(&p->lex, "mesh"))
		TRY(parse_mesh(p, &mesh));
	lex_skip_lines(&p->lex);
	if (lex_take_word(&p->lex, "stage"))
		TRY(parse_stage(p, &stage));
	lex_skip_lines(&p->lex);
	if (!lex_take_word(&p->lex, "graph"))
		return lex_expected(&p->lex, "'mesh', 'stage' or 'graph {'");
	p->context = context_create(&mesh);
	p->graph = graph_create(p->context, stage);
	return lex_expect(&p->lex, '{', "'{'");
}

static enum fs_status parse_body(struct parser *p)
{
	for (;;) {
		lex_skip_lines(&p->lex);
		if (lex_take(&p->lex, '}'))
			break;
		if (lex_peek(&p->lex) == '%')
			TRY(parse_node(p));
		else if (lex_take_word(&p->lex, "output"))
			TRY(parse_output(p));
		else
			return lex_expected(&p->lex, "'%name = ...', 'output' or '}'");
	}
	lex_skip_lines(&p->lex);
	return lex_peek(&p->lex) == '\0' ? FS_OK : lex_expected(&p->lex, "the end of the file");
}

enum fs_status graph_parse(const char *text, size_t size, const char *file, struct context **context,
			   struct graph **out, struct diag *d)
{
	struct parser p = { .lex = { file, text, text, text + size, d } };
	enum fs_status status = parse_header(&p);
	if (status == FS_OK)
		status = parse_body(&p);
	vec_release(&p.names);
	hash_release(&p.table);
	vec_release(&p.in);
	vec_release(&p.types);
	arena_release(&p.scratch);
	if (status != FS_OK) {
		graph_destroy(p.graph);
		context_destroy(p.context);
		return status;
	}
	*context = p.context;
	*out = p.graph;
	return FS_OK;
}
