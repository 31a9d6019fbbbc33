/* A plan as JSON text (docs/plan.md). */
#include "plan_json.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

#define TYPE_TEXT 512

struct writer {
	const struct plan *plan;
	const struct graph *graph;
	const struct mesh *mesh;
	struct json_out out;
	uint32_t *type_index; /* of the context's types: place in the table, + 1 */
	uint32_t types;
	VEC(const char *) rules; /* interned, in the order of their first use */
	struct hash_table rule_table;
	const char *bad;      /* a string that is not UTF-8 */
};

/* --- fields --- */

static void put_string(struct writer *w, const char *s)
{
	if (!out_text(&w->out, s)) {
		out_text(&w->out, "");
		w->bad = s;
	}
}

/* NULL: left out. */
static void string_field(struct writer *w, const char *key, const char *s)
{
	if (s == NULL)
		return;
	out_key(&w->out, key);
	put_string(w, s);
}

static void int_field(struct writer *w, const char *key, int64_t v)
{
	out_key(&w->out, key);
	out_int(&w->out, v);
}

static void list(struct writer *w, const char *key)
{
	out_key(&w->out, key);
	out_open(&w->out, '[');
	out_line(&w->out);
}

static void list_end(struct writer *w)
{
	out_line(&w->out);
	out_close(&w->out, ']');
}

static void put_ints(struct writer *w, const int64_t *v, int count)
{
	out_open(&w->out, '[');
	for (int i = 0; i < count; i++)
		out_int(&w->out, v[i]);
	out_close(&w->out, ']');
}

/* --- head --- */

static void put_mesh(struct writer *w)
{
	char text[MAX_AXES * 32] = "";
	size_t used = 0;
	for (int i = 0; i < w->mesh->count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s=%d", i ? "," : "",
					 w->mesh->axis[i].name, w->mesh->axis[i].size);
	string_field(w, "mesh", text);
}

static void put_head(struct writer *w)
{
	const struct plan *p = w->plan;
	put_mesh(w);
	string_field(w, "recipe", p->recipe);
	out_key(&w->out, "exact");
	out_bool(&w->out, p->exact);
	string_field(w, "target", p->target);
	out_line(&w->out);
	out_key(&w->out, "memory");
	out_open(&w->out, '{');
	int_field(w, "params", p->param_bytes);
	int_field(w, "state", p->state_bytes);
	int_field(w, "arena", p->arena_bytes);
	out_close(&w->out, '}');
	out_line(&w->out);
}

static void put_command(struct writer *w)
{
	if (w->plan->command.count == 0)
		return;
	out_key(&w->out, "command");
	out_open(&w->out, '[');
	for (uint32_t i = 0; i < w->plan->command.count; i++)
		if (!out_text(&w->out, w->plan->command.items[i]))
			out_text(&w->out, "?"); /* a file's name in other bytes */
	out_close(&w->out, ']');
	out_line(&w->out);
}

/* --- rules, in the order of their first use --- */

struct rule_key { const struct writer *w; const char *rule; };

static bool same_rule(const void *context, uint32_t i)
{
	const struct rule_key *k = context;
	return k->w->rules.items[i] == k->rule;
}

static uint64_t rule_hash(const char *rule)
{
	return hash_bytes(&rule, sizeof(rule), 0);
}

/* UINT32_MAX: not there yet. */
static uint32_t rule_index(const struct writer *w, const char *rule)
{
	struct rule_key key = { w, rule };
	return hash_find(&w->rule_table, rule_hash(rule), same_rule, &key);
}

static void put_rules(struct writer *w)
{
	for (uint32_t i = 1; i < w->graph->nodes.count; i++) {
		const char *rule = graph_prov(w->graph, (struct node_id){ i })->rule;
		if (rule == NULL || rule_index(w, rule) != UINT32_MAX)
			continue;
		hash_insert(&w->rule_table, rule_hash(rule), w->rules.count);
		*vec_push(&w->rules) = rule;
	}
	if (w->rules.count == 0)
		return;
	list(w, "rules");
	for (uint32_t i = 0; i < w->rules.count; i++) {
		if (i > 0)
			out_line(&w->out);
		put_string(w, w->rules.items[i]);
	}
	list_end(w);
	out_line(&w->out);
}

/* --- types, in the order of their first use --- */

static void number_types(struct writer *w)
{
	const struct graph *g = w->graph;
	uint32_t most = 0;
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (g->nodes.items[i].type.i > most)
			most = g->nodes.items[i].type.i;
	w->type_index = calloc((size_t)most + 1, sizeof(*w->type_index));
	if (w->type_index == NULL)
		BUG("out of memory");
}

static void put_types(struct writer *w)
{
	const struct graph *g = w->graph;
	char text[TYPE_TEXT];
	list(w, "types");
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct type_id t = g->nodes.items[i].type;
		if (w->type_index[t.i] != 0)
			continue;
		w->type_index[t.i] = ++w->types;
		type_text(context_type_get(g->context, t), w->mesh, text, sizeof(text));
		if (w->types > 1)
			out_line(&w->out);
		put_string(w, text);
	}
	list_end(w);
	out_line(&w->out);
}

/* --- attributes --- */

static void put_axes(struct writer *w, int64_t axes)
{
	out_open(&w->out, '[');
	for (int i = 0; i < w->mesh->count; i++)
		if (axes >> i & 1)
			put_string(w, w->mesh->axis[i].name);
	out_close(&w->out, ']');
}

static void put_placement(struct writer *w, const struct placement *p)
{
	char text[TYPE_TEXT];
	placement_text(p, w->mesh, text, sizeof(text));
	put_string(w, text);
}

static void put_tensor(struct writer *w, const struct tensor *t)
{
	int64_t bytes = dtype_size((enum dtype)t->dtype);
	for (int i = 0; i < t->rank; i++)
		bytes *= t->dim[i];
	out_open(&w->out, '{');
	string_field(w, "dtype", dtype_text((enum dtype)t->dtype));
	out_key(&w->out, "shape");
	put_ints(w, t->dim, t->rank);
	out_key(&w->out, "data");
	out_base64(&w->out, t->data, (size_t)bytes);
	out_close(&w->out, '}');
}

static void put_value(struct writer *w, const struct attr *a)
{
	switch (attr_kind((enum attr_key)a->key)) {
	case AK_INT:
		out_int(&w->out, a->u.i);
		break;
	case AK_FLOAT:
		out_double(&w->out, a->u.f);
		break;
	case AK_STRING:
		put_string(w, a->u.s);
		break;
	case AK_INTS:
		put_ints(w, a->u.ints, a->count);
		break;
	case AK_DTYPE:
		put_string(w, dtype_text((enum dtype)a->u.i));
		break;
	case AK_AXES:
		put_axes(w, a->u.i);
		break;
	case AK_PLACEMENT:
		put_placement(w, a->u.place);
		break;
	case AK_TENSOR:
		put_tensor(w, a->u.tensor);
		break;
	}
}

static void put_attrs(struct writer *w, struct node_id n)
{
	struct attrs a;
	graph_attrs(w->graph, n, &a);
	if (a.count == 0)
		return;
	out_key(&w->out, "attrs");
	out_open(&w->out, '{');
	for (int i = 0; i < a.count; i++) {
		out_key(&w->out, attr_text((enum attr_key)a.at[i].key));
		put_value(w, &a.at[i]);
	}
	out_close(&w->out, '}');
}

/* --- nodes --- */

static void put_operands(struct writer *w, struct node_id n)
{
	int count = graph_node(w->graph, n)->count;
	if (count == 0)
		return;
	out_key(&w->out, "in");
	out_open(&w->out, '[');
	for (int k = 0; k < count; k++)
		out_int(&w->out, graph_operand(w->graph, n, k).i);
	out_close(&w->out, ']');
}

/* One list: keys are what makes reading slow. */
static void put_storage(struct writer *w, const struct storage *s)
{
	out_key(&w->out, "at");
	out_open(&w->out, '[');
	put_string(w, plan_section_words[s->section]);
	put_string(w, plan_memory_words[s->memory]);
	out_int(&w->out, s->memory == MEM_VIEW ? s->base.i : s->offset);
	out_int(&w->out, s->bytes);
	out_close(&w->out, ']');
}

static void put_prov(struct writer *w, const struct prov *p)
{
	if (p->node == NULL && p->module == NULL && p->source == NULL && p->pass == NULL && p->rule == NULL)
		return;
	out_key(&w->out, "from");
	out_open(&w->out, '{');
	string_field(w, "node", p->node);
	string_field(w, "module", p->module);
	string_field(w, "source", p->source);
	string_field(w, "pass", p->pass);
	if (p->rule != NULL)
		int_field(w, "rule", rule_index(w, p->rule));
	out_close(&w->out, '}');
}

static void put_node(struct writer *w, struct node_id n)
{
	out_open(&w->out, '{');
	int_field(w, "id", n.i);
	string_field(w, "op", op_text(graph_op(w->graph, n)));
	put_operands(w, n);
	int_field(w, "type", w->type_index[graph_node(w->graph, n)->type.i] - 1);
	put_attrs(w, n);
	put_storage(w, &w->plan->storage[n.i]);
	put_prov(w, graph_prov(w->graph, n));
	out_close(&w->out, '}');
}

static void put_nodes(struct writer *w)
{
	list(w, "nodes");
	for (uint32_t i = 1; i < w->graph->nodes.count; i++) {
		if (i > 1)
			out_line(&w->out);
		put_node(w, (struct node_id){ i });
	}
	list_end(w);
	out_line(&w->out);
}

/* --- outputs and the report --- */

static void put_output(struct writer *w, const struct output *o)
{
	out_open(&w->out, '{');
	string_field(w, "name", o->name);
	string_field(w, "kind", output_kind_text(o->kind));
	string_field(w, "target", o->target);
	int_field(w, "value", o->value.i);
	out_close(&w->out, '}');
}

static void put_outputs(struct writer *w)
{
	list(w, "outputs");
	for (uint32_t i = 0; i < w->graph->outputs.count; i++) {
		if (i > 0)
			out_line(&w->out);
		put_output(w, &w->graph->outputs.items[i]);
	}
	list_end(w);
	out_line(&w->out);
}

static void put_matmul(struct writer *w, const struct plan_matmul *m)
{
	out_open(&w->out, '{');
	string_field(w, "node", m->node);
	string_field(w, "module", m->module);
	string_field(w, "source", m->source);
	string_field(w, "eq", m->equation);
	int_field(w, "m", m->m);
	int_field(w, "n", m->n);
	int_field(w, "k", m->k);
	string_field(w, "role", m->role);
	string_field(w, "recipe", m->recipe);
	string_field(w, "reason", m->reason);
	int_field(w, "value", m->value.i);
	out_close(&w->out, '}');
}

static void put_matmuls(struct writer *w)
{
	list(w, "matmuls");
	for (uint32_t i = 0; i < w->plan->matmuls.count; i++) {
		if (i > 0)
			out_line(&w->out);
		put_matmul(w, &w->plan->matmuls.items[i]);
	}
	list_end(w);
}

/* --- the file --- */

enum fs_status plan_write(struct plan *p, char **text, size_t *size, struct diag *d)
{
	struct writer w = { .plan = p, .graph = p->graph, .mesh = context_mesh(p->context) };
	char header[PLAN_HEADER + 4];
	size_t length = plan_header(header, 0);
	out_raw(&w.out, header, length);
	number_types(&w);
	put_head(&w);
	put_command(&w);
	put_rules(&w);
	put_types(&w);
	put_nodes(&w);
	put_outputs(&w);
	put_matmuls(&w);
	out_close(&w.out, '}');
	out_raw(&w.out, "\n", 2); /* a line end and a NUL */
	w.out.size--;
	free(w.type_index);
	vec_release(&w.rules);
	hash_release(&w.rule_table);
	if (w.bad != NULL) {
		free(w.out.text);
		return diag_set(d, FS_INVALID, "the name '%.200s' is not UTF-8: a plan cannot say it", w.bad);
	}
	p->hash = hash_bytes(w.out.text + length, w.out.size - length, 0);
	plan_header(header, p->hash);
	memcpy(w.out.text, header, length);
	*text = w.out.text;
	*size = w.out.size;
	return FS_OK;
}
