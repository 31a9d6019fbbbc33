/* Blocks of the forward that the backward computes once more (recompute.h). */
#include "recompute.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with_number(const char *name)
{
	const char *dot = strrchr(name, '.'), *atom = dot == NULL ? name : dot + 1;
	for (const char *s = atom; *s != '\0'; s++)
		if (!isdigit((unsigned char)*s))
			return false;
	return *atom != '\0';
}

/* The outermost module around `module` that matches; NULL: none does. */
static const char *block_of(struct context *c, const char *module, const char *pattern)
{
	bool numbered = strcmp(pattern, RECOMPUTE_BLOCKS) == 0;
	for (size_t n = strcspn(module, ".");; n += 1 + strcspn(module + n + 1, ".")) {
		const char *outer = context_intern_n(c, module, n);
		if (numbered ? ends_with_number(outer) : pattern_match(pattern, outer))
			return outer;
		if (module[n] == '\0')
			return NULL;
	}
}

typedef VEC(const char *) name_vec;

/* From 1, in the order of the graph, in which the nodes of a block mostly stand together. */
static uint32_t number_of(name_vec *names, const char *name)
{
	for (uint32_t i = names->count; i > 0; i--)
		if (names->items[i - 1] == name)
			return i;
	*vec_push(names) = name;
	return names->count;
}

/* r->nodes, r->first from r->block: a counting sort. */
static void list_nodes(struct recompute *r, uint32_t forward, uint32_t blocks)
{
	for (uint32_t b = 0; b <= blocks + 1; b++)
		*vec_push(&r->first) = 0;
	for (uint32_t i = 1; i < forward; i++)
		r->first.items[r->block[i] + 1]++;
	for (uint32_t b = 1; b <= blocks + 1; b++)
		r->first.items[b] += r->first.items[b - 1];
	for (uint32_t i = 1; i < forward; i++)
		*vec_push(&r->nodes) = 0;
	uint32_t *next = calloc(blocks + 1, sizeof(*next));
	if (next == NULL)
		BUG("out of memory");
	for (uint32_t i = 1; i < forward; i++)
		r->nodes.items[r->first.items[r->block[i]] + next[r->block[i]]++] = i;
	free(next);
}

enum fs_status recompute_init(struct recompute *r, struct graph *g, uint32_t forward, const char *pattern, int most,
			      int *found, struct diag *d)
{
	name_vec names = { 0 };
	*r = (struct recompute){ .g = g, .block = calloc(forward, sizeof(*r->block)), .again = calloc(forward, sizeof(*r->again)) };
	if (r->block == NULL || r->again == NULL)
		BUG("out of memory");
	for (uint32_t i = 1; i < forward; i++) {
		const char *module = graph_prov(g, (struct node_id){ i })->module;
		const char *name = module == NULL ? NULL : block_of(g->context, module, pattern);
		uint32_t number = name == NULL ? 0 : number_of(&names, name);
		r->block[i] = most < 0 || number <= (uint32_t)most ? number : 0;
	}
	*found = (int)names.count;
	vec_release(&names);
	list_nodes(r, forward, (uint32_t)*found);
	r->done = calloc((size_t)*found + 1, sizeof(*r->done));
	if (r->done == NULL)
		BUG("out of memory");
	if (*found > 0)
		return FS_OK;
	return diag_set(d, FS_INVALID, "--recompute %s: no module of the graph %s", pattern,
			strcmp(pattern, RECOMPUTE_BLOCKS) == 0 ? "has a name that ends with a number" : "matches");
}

/* What comes into a block from outside, kept apart so that what follows is not the same as before. */
static struct node_id from_outside(struct vjp *v, struct node_id n)
{
	return op_is_source(graph_op(v->g, n)) ? n : build_emit(v, OP_BARRIER, &n, 1, NULL);
}

static void emit_again(struct recompute *r, struct vjp *v, struct node_id n)
{
	const struct node *node = graph_node(r->g, n);
	int count = node->count;
	struct node_id *in = malloc(sizeof(*in) * (size_t)(count + 1));
	struct attrs a;
	if (in == NULL)
		BUG("out of memory");
	for (int k = 0; k < count; k++) {
		struct node_id x = graph_operand(r->g, n, k);
		in[k] = r->block[x.i] == r->block[n.i] ? r->again[x.i] : from_outside(v, x);
	}
	graph_attrs(r->g, n, &a);
	r->again[n.i] = graph_emit(r->g, graph_op(r->g, n), in, count, &a, v->prov);
	free(in);
}

void recompute_for(struct recompute *r, struct vjp *v)
{
	uint32_t b = r->block[v->n.i];
	struct prov_id prov = v->prov;
	v->again = b == 0 ? NULL : r->again;
	v->block = r->block;
	if (b == 0 || r->done[b])
		return;
	r->done[b] = true;
	for (uint32_t i = r->first.items[b]; i < r->first.items[b + 1]; i++) {
		struct node_id n = { r->nodes.items[i] };
		struct prov p = *graph_prov(r->g, n);
		p.pass = "differentiate";
		v->prov = context_prov(r->g->context, &p);
		emit_again(r, v, n);
	}
	v->prov = prov;
}

void recompute_release(struct recompute *r)
{
	vec_release(&r->nodes);
	vec_release(&r->first);
	free(r->block);
	free(r->again);
	free(r->done);
}
