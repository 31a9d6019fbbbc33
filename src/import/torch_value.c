/* Names, values, and what an in-place op does to values that share storage. */
#include "torch_impl.h"

#include <string.h>

/* --- scopes --- */

struct name_key { const struct scope *s; const char *name; };

static bool same_name(const void *key, uint32_t i)
{
	const struct name_key *k = key;
	return strcmp(k->s->bindings.items[i].name, k->name) == 0;
}

static uint32_t find(const struct scope *s, uint64_t hash, const char *name)
{
	struct name_key key = { s, name };
	return hash_find(&s->table, hash, same_name, &key);
}

uint32_t scope_find(const struct import *im, const struct scope *s, const char *name)
{
	uint32_t i = find(s, hash_string(name), name);
	(void)im;
	return i == UINT32_MAX ? 0 : s->bindings.items[i].value;
}

bool scope_bind(struct scope *s, const char *name, uint32_t value)
{
	uint64_t hash = hash_string(name);
	if (find(s, hash, name) != UINT32_MAX)
		return false;
	hash_insert(&s->table, hash, s->bindings.count);
	*vec_push(&s->bindings) = (struct binding){ name, value };
	return true;
}

void scope_release(struct scope *s)
{
	hash_release(&s->table);
	vec_release(&s->bindings);
}

/* --- values --- */

uint32_t value_new(struct import *im, const char *name)
{
	uint32_t i = im->values.count;
	struct value *v = vec_push(&im->values);
	v->name = name;
	v->root = i;
	return i;
}

void value_share(struct import *im, uint32_t value, uint32_t with, enum alias how)
{
	struct value *v = &im->values.items[value], *w = &im->values.items[with];
	struct value *root = &im->values.items[w->root];
	v->root = w->root;
	v->next = root->next;
	root->next = value;
	v->parent = with;
	v->view = w->view || how == VIEW;
	v->perhaps = w->perhaps || how == PERHAPS;
	if (how == SAME) {
		v->parent = w->parent;
		v->steps = w->steps;
		v->step_count = w->step_count;
	}
}

/* Takes a value out of the list of its storage: it has its own from now on. */
static void value_part(struct import *im, uint32_t value)
{
	struct value *v = &im->values.items[value];
	uint32_t i = v->root;
	while (im->values.items[i].next != value)
		i = im->values.items[i].next;
	im->values.items[i].next = v->next;
	v->next = 0;
	v->root = value;
	v->parent = 0;
	v->view = v->perhaps = false;
}

/* --- writing through views --- */

static struct node_id undo_permute(struct call *c, const struct step *s, struct node_id n)
{
	int64_t back[MAX_RANK];
	for (int i = 0; i < rank_of(c, n); i++)
		back[s->dims[i]] = i;
	return emit_permute(c, n, back);
}

static struct node_id undo_slice(struct call *c, const struct step *s, struct node_id n)
{
	struct node_id part[3];
	int count = 0;
	if (s->stride != 1) {
		call_lacks(c, "%s through a view with a step", c->text);
		return NODE_NONE;
	}
	if (s->start > 0)
		part[count++] = emit_slice(c, s->x, s->dim, 0, s->start, 1);
	part[count++] = n;
	if (s->end < size_of(c, s->x, s->dim))
		part[count++] = emit_slice(c, s->x, s->dim, s->end, size_of(c, s->x, s->dim), 1);
	return emit_cat(c, part, count, s->dim);
}

/* The tensor before a view step, with the view changed to n. */
static struct node_id undo(struct call *c, const struct step *s, struct node_id n)
{
	const struct type *t = type_of(c, s->x);
	switch (s->op) {
	case OP_RESHAPE:
		return emit_reshape(c, n, t->rank, t->dim);
	case OP_PERMUTE:
		return undo_permute(c, s, n);
	case OP_SLICE:
		return undo_slice(c, s, n);
	default:
		call_lacks(c, "%s through an expanded view", c->text);
		return NODE_NONE;
	}
}

/* The whole storage of a view that has become n. */
static struct node_id write_back(struct call *c, uint32_t value, struct node_id n)
{
	const struct value *v = &c->im->values.items[value];
	while (v->view && !failed(c)) {
		for (int i = v->step_count; i-- > 0;)
			n = undo(c, &v->steps[i], n);
		v = &c->im->values.items[v->parent];
	}
	return n;
}

/* All values of the storage, after it has become `whole`, changed through `by`, which is now n. */
static void spread(struct import *im, uint32_t by, struct node_id n, struct node_id whole)
{
	for (uint32_t i = im->values.items[by].root; i != 0; i = im->values.items[i].next) {
		struct value *v = &im->values.items[i];
		if (i == by)
			v->node = n;
		else if (!v->view && !v->perhaps)
			v->node = whole;
		else
			v->stale = true;
	}
}

/* A view or a copy, torch's strides decide: it goes its own way, what it may share is not to be read again. */
static void store_perhaps(struct call *c, uint32_t value, struct node_id n)
{
	struct import *im = c->im;
	uint32_t root = im->values.items[value].root;
	if (im->values.items[root].source != FROM_NODE) {
		call_lacks(c, "%s on what may be a view of '%s'", c->text, im->values.items[root].name);
		return;
	}
	for (uint32_t i = root; i != 0; i = im->values.items[i].next)
		im->values.items[i].stale = i != value;
	value_part(im, value);
	im->values.items[value].node = n;
}

void value_store(struct call *c, uint32_t value, struct node_id n)
{
	struct import *im = c->im;
	if (im->values.items[value].stale)
		call_lacks(c, "%s on a view whose tensor was changed in place before", c->text);
	const struct type *t = type_of(c, im->values.items[value].node);
	n = emit_broadcast(c, emit_cast(c, n, (enum dtype)t->dtype), t->rank, t->dim);
	if (failed(c))
		return;
	if (im->values.items[value].perhaps) {
		store_perhaps(c, value, n);
		return;
	}
	struct node_id whole = write_back(c, value, n);
	if (failed(c))
		return;
	im->values.items[im->values.items[value].root].mutated = true;
	spread(im, value, n, whole);
}
