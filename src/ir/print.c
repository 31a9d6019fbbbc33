/*
 * The text form, printed: one node a line, every attribute, the full type, provenance.
 *
 * A node is called by its `name` attribute or the name in its provenance, reduced to letters, digits,
 * '_' and '.'; a node without either by its id.  Of nodes that would have one name the last has it, so
 * that what a pass puts before a node does not rename it; the others get .1, .2 … after it.  Where the
 * name in the provenance is the name printed, the provenance leaves it out.
 */
#include "text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define TYPE_TEXT 512 /* room for any type */

/* --- types: into a buffer of the caller's, cut off where it is full --- */

struct buffer { char *at; size_t size, used; };

__attribute__((format(printf, 2, 3))) static void put(struct buffer *b, const char *format, ...)
{
	if (b->used >= b->size)
		return;
	va_list args;
	va_start(args, format);
	int n = vsnprintf(b->at + b->used, b->size - b->used, format, args);
	va_end(args);
	if (n > 0)
		b->used += (size_t)n;
}

static void put_part(struct buffer *b, const struct mesh *m, const struct part *p)
{
	static const char *const partial[] = { [PART_SUM] = "sum", [PART_MAX] = "max", [PART_MIN] = "min" };
	const char *axis = p->axis < m->count ? m->axis[p->axis].name : "?";
	if (p->kind == PART_SHARD)
		put(b, "%s:S(%d)", axis, p->dim);
	else
		put(b, "%s:P(%s)", axis, p->kind <= PART_MIN ? partial[p->kind] : "?");
}

/* Axes that replicate stand in mesh order; the parts take, in their order, the places between. */
static void put_placement(struct buffer *b, const struct mesh *m, const struct placement *p)
{
	int next = 0;
	put(b, "(");
	for (int axis = 0; axis < m->count; axis++) {
		put(b, "%s", axis ? ", " : "");
		if (placement_find(p, axis) < 0)
			put(b, "%s:R", m->axis[axis].name);
		else
			put_part(b, m, &p->at[next++]);
	}
	put(b, ")");
}

void placement_text(const struct placement *p, const struct mesh *m, char *out, size_t size)
{
	struct placement canonical = *p;
	placement_canonical(&canonical);
	struct buffer b = { out, size, 0 };
	put_placement(&b, m, &canonical);
}

/* Without a mesh (or one of no axes), without placement. */
void type_text(const struct type *t, const struct mesh *m, char *out, size_t size)
{
	struct buffer b = { out, size, 0 };
	put(&b, "%s[", dtype_text((enum dtype)t->dtype));
	for (int i = 0; i < t->rank; i++)
		put(&b, "%s%lld", i ? "," : "", (long long)t->dim[i]);
	put(&b, "]");
	if (m == NULL || m->count == 0)
		return;
	put(&b, " ");
	put_placement(&b, m, &t->place);
}

void type_print(const struct type *t, const struct mesh *m, FILE *out)
{
	char text[TYPE_TEXT];
	type_text(t, m, text, sizeof(text));
	fputs(text, out);
}

void node_describe(const struct graph *g, struct node_id n, char *out, size_t size)
{
	const struct prov *p = graph_prov(g, n);
	const char *name = p->node ? p->node : graph_string(g, n, ATTR_NAME);
	const char *where[3] = { p->module, p->source, p->pass };
	struct buffer b = { out, size, 0 };
	if (name != NULL)
		put(&b, "%s", name);
	else
		put(&b, "%s %%%u", op_text(graph_op(g, n)), n.i);
	const char *before = " (";
	for (int i = 0; i < 3; i++)
		if (where[i] != NULL && where[i][0] != '\0') {
			put(&b, "%s%s%s", before, i == 2 ? "made by " : "", where[i]);
			before = ", ";
		}
	if (before[0] == ',')
		put(&b, ")");
	for (char *c = out; *c != '\0'; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
}

/* --- names of values --- */

struct name {
	const char *text;
	struct node_id owner; /* has the name as it is */
	uint32_t suffix;      /* the last one given to another node */
};

struct printer {
	const struct graph *graph;
	const struct mesh *mesh;
	FILE *out;
	struct arena arena;
	VEC(struct name) names;
	struct hash_table table;
	const char **of; /* name of each node */
};

struct name_key { const struct printer *p; const char *text; };

static bool same_name(const void *key, uint32_t i)
{
	const struct name_key *k = key;
	return strcmp(k->p->names.items[i].text, k->text) == 0;
}

static uint32_t find_name(const struct printer *p, const char *text)
{
	struct name_key key = { p, text };
	return hash_find(&p->table, hash_string(text), same_name, &key);
}

static void add_name(struct printer *p, const char *text, struct node_id owner)
{
	hash_insert(&p->table, hash_string(text), p->names.count);
	*vec_push(&p->names) = (struct name){ text, owner, 0 };
}

/* A digit cannot come first: that would be a node's id. */
static char *clean_name(struct printer *p, const char *from)
{
	bool prefix = from[0] == '\0' || isdigit((unsigned char)from[0]);
	char *name = arena_printf(&p->arena, "%s%s", prefix ? "_" : "", from);
	for (char *s = name; *s != '\0'; s++)
		if (!isalnum((unsigned char)*s) && *s != '_' && *s != '.')
			*s = '_';
	return name;
}

/* What node n would like to be called; the last to like a name owns it, but not against a `name` attribute. */
static void claim_name(struct printer *p, struct node_id n)
{
	const char *from = graph_string(p->graph, n, ATTR_NAME);
	if (from == NULL)
		from = graph_prov(p->graph, n)->node;
	if (from == NULL)
		return;
	p->of[n.i] = clean_name(p, from);
	uint32_t i = find_name(p, p->of[n.i]);
	if (i == UINT32_MAX)
		add_name(p, p->of[n.i], n);
	else if (!graph_has(p->graph, p->names.items[i].owner, ATTR_NAME))
		p->names.items[i].owner = n;
}

static void settle_name(struct printer *p, struct node_id n)
{
	const char *wanted = p->of[n.i], *name = wanted;
	if (wanted == NULL) {
		p->of[n.i] = arena_printf(&p->arena, "%u", n.i);
		return;
	}
	uint32_t i = find_name(p, wanted);
	if (node_same(p->names.items[i].owner, n))
		return;
	while (find_name(p, name) != UINT32_MAX)
		name = arena_printf(&p->arena, "%s.%u", wanted, ++p->names.items[i].suffix);
	add_name(p, name, n);
	p->of[n.i] = name;
}

static void name_nodes(struct printer *p)
{
	p->of = arena_array(&p->arena, p->graph->nodes.count, sizeof(*p->of));
	for (uint32_t i = 1; i < p->graph->nodes.count; i++)
		claim_name(p, (struct node_id){ i });
	for (uint32_t i = 1; i < p->graph->nodes.count; i++)
		settle_name(p, (struct node_id){ i });
}

/* --- attributes --- */

bool attr_is_written_elsewhere(enum op op, enum attr_key key)
{
	bool given = op_is_source(op) && op != OP_CONST;
	return key == ATTR_NAME || (given && (key == ATTR_DTYPE || key == ATTR_SHAPE));
}

static void print_char(unsigned char c, FILE *out)
{
	static const char from[] = "\n\t\r\"\\", to[] = "ntr\"\\";
	const char *known = c == '\0' ? NULL : strchr(from, c);
	if (known != NULL)
		fprintf(out, "\\%c", to[known - from]);
	else if (c < 0x20 || c == 0x7f)
		fprintf(out, "\\x%02x", c);
	else
		fputc(c, out);
}

static void print_string(const char *s, FILE *out)
{
	fputc('"', out);
	for (; *s != '\0'; s++)
		print_char((unsigned char)*s, out);
	fputc('"', out);
}

static void print_float(double v, FILE *out)
{
	char text[32];
	float_text(v, text);
	fputs(text, out);
}

static void print_ints(const struct attr *a, FILE *out)
{
	fputc('[', out);
	for (int i = 0; i < a->count; i++)
		fprintf(out, "%s%lld", i ? "," : "", (long long)a->u.ints[i]);
	fputc(']', out);
}

static void print_axes(const struct mesh *m, uint64_t axes, FILE *out)
{
	const char *before = "";
	for (int i = 0; i < m->count; i++)
		if (axes >> i & 1) {
			fprintf(out, "%s%s", before, m->axis[i].name);
			before = "+";
		}
	if (before[0] == '\0')
		fputs("none", out);
}

/* False, with nothing printed, where the elements need base64. */
static bool print_elements(const struct tensor *t, int64_t count, FILE *out)
{
	char text[MAX_LISTED_DATA][32];
	if (count > MAX_LISTED_DATA)
		return false;
	for (int64_t i = 0; i < count; i++)
		if (!element_text(t, i, text[i]))
			return false;
	fputc('[', out);
	for (int64_t i = 0; i < count; i++)
		fprintf(out, "%s%s", i ? ", " : "", text[i]);
	fputc(']', out);
	return true;
}

static void print_tensor(const struct tensor *t, FILE *out)
{
	int64_t count = 1;
	for (int i = 0; i < t->rank; i++)
		count *= t->dim[i];
	if (print_elements(t, count, out))
		return;
	fputs("\"b64:", out);
	base64_print(t->data, (size_t)(count * dtype_size((enum dtype)t->dtype)), out);
	fputc('"', out);
}

static void print_placement(const struct placement *place, const struct mesh *m, FILE *out)
{
	char text[TYPE_TEXT];
	placement_text(place, m, text, sizeof(text));
	fputs(text, out);
}

static void print_value(const struct attr *a, const struct mesh *m, FILE *out)
{
	switch (attr_kind((enum attr_key)a->key)) {
	case AK_INT:
		fprintf(out, "%lld", (long long)a->u.i);
		break;
	case AK_FLOAT:
		print_float(a->u.f, out);
		break;
	case AK_STRING:
		print_string(a->u.s, out);
		break;
	case AK_INTS:
		print_ints(a, out);
		break;
	case AK_DTYPE:
		fputs(dtype_text((enum dtype)a->u.i), out);
		break;
	case AK_AXES:
		print_axes(m, (uint64_t)a->u.i, out);
		break;
	case AK_PLACEMENT:
		print_placement(a->u.place, m, out);
		break;
	case AK_TENSOR:
		print_tensor(a->u.tensor, out);
		break;
	}
}

static void print_attrs(const struct printer *p, struct node_id n)
{
	struct attrs a; /* sorted by key */
	graph_attrs(p->graph, n, &a);
	const char *before = " {";
	for (int i = 0; i < a.count; i++) {
		enum attr_key key = (enum attr_key)a.at[i].key;
		if (attr_is_written_elsewhere(graph_op(p->graph, n), key))
			continue;
		fprintf(p->out, "%s%s=", before, attr_text(key));
		print_value(&a.at[i], p->mesh, p->out);
		before = " ";
	}
	if (before[1] == '\0')
		fputc('}', p->out);
}

/* --- provenance --- */

static bool is_bare(const char *s)
{
	bool bare = *s != '\0';
	for (; *s != '\0'; s++)
		bare = bare && provenance_bare(*s);
	return bare;
}

static void print_atom(const char *s, FILE *out)
{
	if (is_bare(s))
		fputs(s, out);
	else
		print_string(s, out);
}

static void print_prov(const struct printer *p, struct node_id n)
{
	const struct prov *prov = graph_prov(p->graph, n);
	bool implied = prov->node != NULL && !graph_has(p->graph, n, ATTR_NAME) && strcmp(prov->node, p->of[n.i]) == 0;
	const struct { const char *text, *open, *close; } field[] = {
		{ implied ? NULL : prov->node, "", "" },
		{ prov->module, "@ ", "" },
		{ prov->source, "(", ")" },
		{ prov->pass, "[", "]" },
		{ prov->rule, "{", "}" },
	};
	const char *before = " ; ";
	for (int i = 0; i < 5; i++) {
		if (field[i].text == NULL)
			continue;
		fprintf(p->out, "%s%s", before, field[i].open);
		print_atom(field[i].text, p->out);
		fputs(field[i].close, p->out);
		before = " ";
	}
}

/* --- nodes and outputs --- */

const char *output_kind_text(enum output_kind k)
{
	static const char *const text[OUTPUT_KINDS] = {
		[OUT_USER] = "user", [OUT_BUFFER] = "buffer", [OUT_LOSS] = "loss",
		[OUT_GRAD_PARAM] = "grad_param", [OUT_GRAD_INPUT] = "grad_input",
	};
	return text[k];
}

static void print_node(const struct printer *p, struct node_id n)
{
	const struct node *node = graph_node(p->graph, n);
	fprintf(p->out, "  %%%s = %s", p->of[n.i], op_text((enum op)node->op));
	const char *name = graph_string(p->graph, n, ATTR_NAME);
	if (name != NULL) {
		fputc(' ', p->out);
		print_string(name, p->out);
	}
	for (int k = 0; k < node->count; k++)
		fprintf(p->out, "%s%%%s", k ? ", " : " ", p->of[graph_operand(p->graph, n, k).i]);
	print_attrs(p, n);
	fputs(" : ", p->out);
	const struct type *t = graph_type(p->graph, n);
	type_print(t, p->graph->stage == STAGE_GLOBAL && t->place.count == 0 ? NULL : p->mesh, p->out);
	print_prov(p, n);
	fputc('\n', p->out);
}

static void print_output(const struct printer *p, const struct output *o)
{
	fputs("  output ", p->out);
	if (o->kind != OUT_USER || o->target != NULL)
		fprintf(p->out, "%s ", output_kind_text(o->kind));
	if (o->target != NULL) {
		print_string(o->target, p->out);
		fputc(' ', p->out);
	}
	print_string(o->name ? o->name : "", p->out);
	fprintf(p->out, " = %%%s\n", p->of[o->value.i]);
}

static void print_header(const struct printer *p)
{
	for (int i = 0; i < p->mesh->count; i++)
		fprintf(p->out, "%s%s=%d", i ? ", " : "mesh ", p->mesh->axis[i].name, p->mesh->axis[i].size);
	if (p->mesh->count > 0)
		fputc('\n', p->out);
	if (p->graph->stage != STAGE_GLOBAL)
		fprintf(p->out, "stage %s\n", stage_text(p->graph->stage));
}

void graph_print(const struct graph *g, FILE *out)
{
	struct printer p = { .graph = g, .mesh = context_mesh(g->context), .out = out };
	name_nodes(&p);
	print_header(&p);
	fputs("graph {\n", out);
	for (uint32_t i = 1; i < g->nodes.count; i++)
		print_node(&p, (struct node_id){ i });
	for (uint32_t i = 0; i < g->outputs.count; i++)
		print_output(&p, &g->outputs.items[i]);
	fputs("}\n", out);
	vec_release(&p.names);
	hash_release(&p.table);
	arena_release(&p.arena);
}
