/* The tables of show.h. */
#include "show.h"
#include "plan_json.h"
#include "table.h"

#include <stdlib.h>
#include <string.h>

/* --- what both forms say --- */

static int64_t add(int64_t a, int64_t b)
{
	int64_t sum;
	return add_size(a, b, &sum) ? sum : INT64_MAX;
}

static int64_t total_bytes(const struct plan *p)
{
	return add(add(p->param_bytes, p->state_bytes), p->arena_bytes);
}

static int64_t sent_bytes(const struct plan *p, enum section section)
{
	int64_t bytes = 0;
	for (uint32_t i = 1; i < p->graph->nodes.count; i++)
		if (op_is_collective(graph_op(p->graph, (struct node_id){ i })) && p->storage[i].section == section)
			bytes = add(bytes, collective_bytes(p->graph, (struct node_id){ i }));
	return bytes;
}

static bool is_swapped(const struct plan_matmul *m)
{
	return m->recipe != NULL && strcmp(m->recipe, "none") != 0;
}

static const char *or_empty(const char *s)
{
	return s != NULL ? s : "";
}

/* The larger side of a collective on a rank: what is gathered, or what is reduced or exchanged. */
static const struct type *moved_type(const struct plan *p, struct node_id n)
{
	return graph_type(p->graph, graph_op(p->graph, n) == OP_ALL_GATHER ? n : graph_operand(p->graph, n, 0));
}

/* --- JSON --- */

static void text_field(struct json_out *o, const char *key, const char *s)
{
	out_key(o, key);
	if (!out_text(o, or_empty(s)))
		out_text(o, "?");
}

static void int_field(struct json_out *o, const char *key, int64_t v)
{
	out_key(o, key);
	out_int(o, v);
}

static void json_mesh(struct json_out *o, const struct mesh *m)
{
	out_key(o, "mesh");
	out_open(o, '{');
	for (int i = 0; i < m->count; i++)
		int_field(o, m->axis[i].name, m->axis[i].size);
	out_close(o, '}');
	int_field(o, "ranks", mesh_size(m));
}

static void json_memory(struct json_out *o, const struct plan *p)
{
	out_key(o, "memory");
	out_open(o, '{');
	int_field(o, "params", p->param_bytes);
	int_field(o, "state", p->state_bytes);
	int_field(o, "arena", p->arena_bytes);
	int_field(o, "total", total_bytes(p));
	out_close(o, '}');
}

static void json_axes(struct json_out *o, const struct mesh *m, int64_t axes)
{
	out_key(o, "axis");
	out_open(o, '[');
	for (int i = 0; i < m->count; i++)
		if (axes >> i & 1)
			out_text(o, m->axis[i].name);
	out_close(o, ']');
}

static void json_shape(struct json_out *o, const struct type *t, const struct mesh *m)
{
	int64_t shape[MAX_RANK];
	type_local_shape(t, m, NULL, shape);
	out_key(o, "shape");
	out_open(o, '[');
	for (int i = 0; i < t->rank; i++)
		out_int(o, shape[i]);
	out_close(o, ']');
}

static void json_collective(struct json_out *o, const struct plan *p, struct node_id n)
{
	const struct mesh *m = context_mesh(p->context);
	const struct type *t = moved_type(p, n);
	out_open(o, '{');
	text_field(o, "op", op_text(graph_op(p->graph, n)));
	json_axes(o, m, graph_int(p->graph, n, ATTR_AXES, 0));
	int_field(o, "ranks", collective_ranks(p->graph, n));
	text_field(o, "dtype", dtype_text((enum dtype)t->dtype));
	json_shape(o, t, m);
	int_field(o, "bytes", collective_bytes(p->graph, n));
	text_field(o, "section", plan_section_words[p->storage[n.i].section]);
	text_field(o, "module", graph_prov(p->graph, n)->module);
	text_field(o, "node", graph_prov(p->graph, n)->node);
	out_close(o, '}');
}

static void json_collectives(struct json_out *o, const struct plan *p)
{
	out_key(o, "collectives");
	out_open(o, '[');
	for (uint32_t i = 1; i < p->graph->nodes.count; i++) {
		struct node_id n = { i };
		if (!op_is_collective(graph_op(p->graph, n)))
			continue;
		out_line(o);
		json_collective(o, p, n);
	}
	out_close(o, ']');
	out_line(o);
}

static void json_matmul(struct json_out *o, const struct plan_matmul *m)
{
	out_line(o);
	out_open(o, '{');
	text_field(o, "node", m->node);
	text_field(o, "module", m->module);
	int_field(o, "m", m->m);
	int_field(o, "n", m->n);
	int_field(o, "k", m->k);
	text_field(o, "role", m->role);
	text_field(o, "recipe", m->recipe);
	text_field(o, "reason", m->reason);
	out_key(o, "swapped");
	out_bool(o, is_swapped(m));
	out_close(o, '}');
}

static void show_json(const struct plan *p, FILE *out)
{
	struct json_out o = { 0 };
	out_open(&o, '{');
	json_mesh(&o, context_mesh(p->context));
	text_field(&o, "recipe", p->recipe);
	json_memory(&o, p);
	json_collectives(&o, p);
	int_field(&o, "bytes", sent_bytes(p, SECTION_STEP));
	int_field(&o, "setup_bytes", sent_bytes(p, SECTION_SETUP));
	out_key(&o, "matmuls");
	out_open(&o, '[');
	for (uint32_t i = 0; i < p->matmuls.count; i++)
		json_matmul(&o, &p->matmuls.items[i]);
	out_close(&o, ']');
	out_close(&o, '}');
	out_line(&o);
	fwrite(o.text, 1, o.size, out);
	free(o.text);
}

/* --- the tables of a plan --- */

static void show_memory(const struct plan *p, FILE *out)
{
	const struct mesh *m = context_mesh(p->context);
	const struct { const char *what; int64_t bytes; } line[] = {
		{ "parameters", p->param_bytes }, { "state", p->state_bytes },
		{ "arena", p->arena_bytes }, { "total", total_bytes(p) },
	};
	fputs("mesh", out);
	for (int i = 0; i < m->count; i++)
		fprintf(out, "%s %s=%d", i ? "," : "", m->axis[i].name, m->axis[i].size);
	fprintf(out, "%s%lld rank%s, fp8 %s%s%s%s\n\nmemory of a rank\n", m->count ? ": " : " of ", (long long)mesh_size(m),
		mesh_size(m) == 1 ? "" : "s", p->recipe ? p->recipe : "none", p->exact ? ", exact" : "",
		p->target ? ", placed for " : "", or_empty(p->target));
	for (int i = 0; i < 4; i++)
		fprintf(out, "  %-10s %12.3f MB\n", line[i].what, (double)line[i].bytes / 1e6);
}

/* "layers.12.mlp" to "layers.*.mlp": atoms that are numbers. */
static const char *module_pattern(struct arena *a, const char *module)
{
	char *text = arena_strdup(a, or_empty(module)), *to = text;
	for (const char *s = text; *s != '\0';) {
		size_t atom = strcspn(s, "."), digits = strspn(s, "0123456789");
		if (digits > 0 && digits == atom) {
			*to++ = '*';
		} else {
			memmove(to, s, atom);
			to += atom;
		}
		s += atom;
		if (*s == '.')
			*to++ = *s++;
	}
	*to = '\0';
	return text;
}

/* Collectives that differ in their layer alone. */
struct kind {
	struct node_id first;
	const struct type *type;
	int64_t bytes, count;
	const char *module;
};

struct kinds { const struct plan *plan; VEC(struct kind) list; struct arena arena; };

static bool same_kind(const struct plan *p, const struct kind *a, const struct kind *b)
{
	const struct node *x = graph_node(p->graph, a->first), *y = graph_node(p->graph, b->first);
	return x->op == y->op && x->attrs.i == y->attrs.i && a->type == b->type && a->bytes == b->bytes &&
	       p->storage[a->first.i].section == p->storage[b->first.i].section && strcmp(a->module, b->module) == 0;
}

static void count_collective(struct kinds *k, struct node_id n)
{
	const struct plan *p = k->plan;
	struct kind kind = { n, moved_type(p, n), collective_bytes(p->graph, n), 1,
			     module_pattern(&k->arena, graph_prov(p->graph, n)->module) };
	for (uint32_t i = 0; i < k->list.count; i++)
		if (same_kind(p, &k->list.items[i], &kind)) {
			k->list.items[i].count++;
			return;
		}
	*vec_push(&k->list) = kind;
}

static void add_collective(struct table *t, const struct plan *p, const struct kind *k)
{
	const struct mesh *m = context_mesh(p->context);
	char text[256];
	struct type local = type_make((enum dtype)k->type->dtype, k->type->rank, k->type->dim);
	type_local_shape(k->type, m, NULL, local.dim);
	table_cell(t, op_text(graph_op(p->graph, k->first)));
	mesh_axes_text(m, (uint32_t)graph_int(p->graph, k->first, ATTR_AXES, 0), text, sizeof(text));
	table_cell(t, text);
	table_number(t, collective_ranks(p->graph, k->first));
	type_text(&local, NULL, text, sizeof(text));
	table_cell(t, text);
	table_number(t, k->bytes);
	table_number(t, k->count);
	table_cell(t, plan_section_words[p->storage[k->first.i].section]);
	table_cell(t, k->module);
}

static void show_collectives(const struct plan *p, FILE *out)
{
	static const char *const titles[] = { "collective", "axes", ">ranks", "local type", ">bytes", ">count",
					      "section", "module", NULL };
	struct kinds kinds = { .plan = p };
	struct table t;
	for (uint32_t i = 1; i < p->graph->nodes.count; i++)
		if (op_is_collective(graph_op(p->graph, (struct node_id){ i })))
			count_collective(&kinds, (struct node_id){ i });
	fprintf(out, "\ncollectives: a rank sends %lld bytes in a step\n", (long long)sent_bytes(p, SECTION_STEP));
	if (kinds.list.count > 0) {
		table_start(&t, titles);
		for (uint32_t i = 0; i < kinds.list.count; i++)
			add_collective(&t, p, &kinds.list.items[i]);
		table_end(&t, out);
	}
	vec_release(&kinds.list);
	arena_release(&kinds.arena);
}

static void show_matmuls(const struct plan *p, FILE *out)
{
	static const char *const forward[] = { "module", ">M", ">N", ">K", "recipe", "reason", NULL };
	static const char *const training[] = { "module", "role", ">M", ">N", ">K", "recipe", "reason", NULL };
	uint32_t swapped = 0;
	bool roles = false;
	struct table t;
	for (uint32_t i = 0; i < p->matmuls.count; i++) {
		swapped += is_swapped(&p->matmuls.items[i]);
		roles |= p->matmuls.items[i].role != NULL;
	}
	fprintf(out, "\nmatmuls: %u, of them %u in fp8\n", p->matmuls.count, swapped);
	if (p->matmuls.count == 0)
		return;
	table_start(&t, roles ? training : forward);
	for (uint32_t i = 0; i < p->matmuls.count; i++) {
		const struct plan_matmul *m = &p->matmuls.items[i];
		table_cell(&t, m->module != NULL ? m->module : or_empty(m->node));
		if (roles)
			table_cell(&t, or_empty(m->role));
		table_number(&t, m->m);
		table_number(&t, m->n);
		table_number(&t, m->k);
		table_cell(&t, or_empty(m->recipe));
		table_cell(&t, or_empty(m->reason));
	}
	table_end(&t, out);
}

enum fs_status plan_show(const struct plan *p, bool json, FILE *out)
{
	if (json) {
		show_json(p, out);
	} else {
		show_memory(p, out);
		show_collectives(p, out);
		show_matmuls(p, out);
	}
	return ferror(out) ? FS_IO : FS_OK;
}
