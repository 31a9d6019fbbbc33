/* Graphs: emitting (infer, simplify, share, append), copying, reachability, uses. */
#include "ir.h"
#include "simplify.h"

#include <stdlib.h>
#include <string.h>

struct graph *graph_create(struct context *c, enum stage stage)
{
	struct graph *g = calloc(1, sizeof(*g));
	if (g == NULL)
		BUG("out of memory");
	g->context = c;
	g->stage = stage;
	vec_push(&g->nodes);
	return g;
}

void graph_destroy(struct graph *g)
{
	if (g == NULL)
		return;
	vec_release(&g->nodes);
	vec_release(&g->operands);
	vec_release(&g->outputs);
	hash_release(&g->cse);
	free(g);
}

const struct type *graph_type(const struct graph *g, struct node_id n)
{
	return context_type_get(g->context, graph_node(g, n)->type);
}

const struct prov *graph_prov(const struct graph *g, struct node_id n)
{
	return context_prov_get(g->context, graph_node(g, n)->prov);
}

void graph_output(struct graph *g, const struct output *o)
{
	struct output *made = vec_push(&g->outputs);
	*made = *o;
	made->name = context_intern(g->context, o->name);
	made->target = context_intern(g->context, o->target);
}

static bool is_among(const char *names, const char *name)
{
	size_t size = strlen(name);
	for (const char *s = names; s != NULL && *s != '\0'; s += strcspn(s, " "), s += *s == ' ')
		if (strncmp(s, name, size) == 0 && (s[size] == ' ' || s[size] == '\0'))
			return true;
	return false;
}

struct node_id graph_param(const struct graph *g, const char *name)
{
	for (uint32_t i = 1; i < g->nodes.count && name != NULL; i++) {
		struct node_id n = { i };
		if (graph_op(g, n) == OP_PARAM &&
		    (strcmp(graph_string(g, n, ATTR_NAME), name) == 0 || is_among(graph_string(g, n, ATTR_TIED), name)))
			return n;
	}
	return NODE_NONE;
}

/* --- appending and sharing --- */

static struct node_id append(struct graph *g, const struct node *like, const struct node_id *in)
{
	uint32_t id = g->nodes.count, first = g->operands.count;
	for (int i = 0; i < like->count; i++) {
		BUG_ON(in[i].i == 0 || in[i].i >= id);
		*vec_push(&g->operands) = in[i];
	}
	struct node *n = vec_push(&g->nodes);
	*n = *like;
	n->first = first;
	return (struct node_id){ id };
}

struct share_key { const struct graph *g; const struct node *like; const struct node_id *in; };

static bool same_node(const void *key, uint32_t i)
{
	const struct share_key *k = key;
	const struct node *n = &k->g->nodes.items[i];
	return n->op == k->like->op && n->count == k->like->count && n->type.i == k->like->type.i &&
	       n->attrs.i == k->like->attrs.i &&
	       (n->count == 0 || memcmp(&k->g->operands.items[n->first], k->in, sizeof(*k->in) * n->count) == 0);
}

/* The equal node that is there, or a new one. */
static struct node_id share(struct graph *g, const struct node *like, const struct node_id *in)
{
	uint32_t head[4] = { like->op, like->type.i, like->attrs.i, like->count };
	uint64_t hash = hash_bytes(in, sizeof(*in) * like->count, hash_bytes(head, sizeof(head), 0));
	struct share_key key = { g, like, in };
	uint32_t i = hash_find(&g->cse, hash, same_node, &key);
	if (i != UINT32_MAX)
		return (struct node_id){ i };
	struct node_id made = append(g, like, in);
	hash_insert(&g->cse, hash, made.i);
	return made;
}

static struct node node_like(struct graph *g, enum op op, int count, const struct attrs *a, const struct type *t,
			     struct prov_id prov)
{
	return (struct node){ .op = (uint16_t)op, .count = (uint16_t)count, .type = context_type(g->context, t),
			      .attrs = context_attrs(g->context, a), .prov = prov };
}

struct node_id graph_append(struct graph *g, enum op op, const struct node_id *in, int count, const struct attrs *a,
			    const struct type *t, struct prov_id prov)
{
	struct node like = node_like(g, op, count, a, t, prov);
	return append(g, &like, in);
}

struct node_id graph_emit_typed(struct graph *g, enum op op, const struct node_id *in, int count,
				const struct attrs *a, const struct type *t, struct prov_id prov)
{
	struct node like = node_like(g, op, count, a, t, prov);
	return share(g, &like, in);
}

struct node_id graph_copy(struct graph *to, const struct graph *from, struct node_id n, const struct node_id *in)
{
	BUG_ON(to->context != from->context);
	return share(to, graph_node(from, n), in);
}

/* --- emitting --- */

#define FEW_OPERANDS 16

enum fs_status graph_try_emit(struct graph *g, enum op op, const struct node_id *in, int count,
			      const struct attrs *a, struct prov_id prov, struct node_id *out, struct diag *d)
{
	static const struct attrs none;
	const struct type *few[FEW_OPERANDS] = { NULL }, **types = few;
	struct type made;
	if (count > FEW_OPERANDS)
		types = malloc(sizeof(*types) * (size_t)count);
	if (types == NULL)
		BUG("out of memory");
	for (int i = 0; i < count; i++)
		types[i] = graph_type(g, in[i]);
	a = a ? a : &none;
	enum fs_status status = op_infer(g->context, op, types, count, a, &made, d);
	if (types != few)
		free(types);
	if (status != FS_OK)
		return status;
	if (!simplify(g, op, in, count, a, &made, prov, out))
		*out = graph_emit_typed(g, op, in, count, a, &made, prov);
	return FS_OK;
}

struct node_id graph_emit(struct graph *g, enum op op, const struct node_id *in, int count, const struct attrs *a,
			  struct prov_id prov)
{
	struct diag d = { 0 };
	struct node_id made;
	if (graph_try_emit(g, op, in, count, a, prov, &made, &d) != FS_OK)
		BUG("%s: %s", op_text(op), d.text);
	return made;
}

/* --- reachability and uses --- */

bool *graph_reached(const struct graph *g)
{
	bool *reached = calloc(g->nodes.count, sizeof(*reached));
	if (reached == NULL)
		BUG("out of memory");
	for (uint32_t i = 0; i < g->outputs.count; i++)
		reached[g->outputs.items[i].value.i] = true;
	for (uint32_t i = g->nodes.count; i-- > 1;) {
		const struct node *n = &g->nodes.items[i];
		for (int k = 0; reached[i] && k < n->count; k++)
			reached[g->operands.items[n->first + (uint32_t)k].i] = true;
	}
	return reached;
}

void graph_collectives(const struct graph *g, node_list *out)
{
	bool *reached = graph_reached(g);
	for (uint32_t i = 1; i < g->nodes.count; i++)
		if (reached[i] && op_is_collective((enum op)g->nodes.items[i].op))
			*vec_push(out) = (struct node_id){ i };
	free(reached);
}

struct uses uses_make(const struct graph *g)
{
	struct uses u = { calloc(g->nodes.count + 2, sizeof(*u.first)), calloc(g->operands.count + 1, sizeof(*u.at)) };
	if (u.first == NULL || u.at == NULL)
		BUG("out of memory");
	for (uint32_t i = 0; i < g->operands.count; i++)
		u.first[g->operands.items[i].i + 2]++;
	for (uint32_t i = 2; i < g->nodes.count + 2; i++)
		u.first[i] += u.first[i - 1];
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		const struct node *n = &g->nodes.items[i];
		for (int k = 0; k < n->count; k++)
			u.at[u.first[g->operands.items[n->first + (uint32_t)k].i + 1]++] = (struct node_id){ i };
	}
	return u;
}

void uses_release(struct uses *u)
{
	free(u->first);
	free(u->at);
	*u = (struct uses){ 0 };
}
