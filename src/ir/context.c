/* The context: one arena, and everything interned in it. */
#include "ir.h"

#include <stdlib.h>
#include <string.h>

struct attr_list { int count; const struct attr *at; };

struct context {
	struct arena arena;
	struct mesh mesh;
	VEC(const char *) strings;
	VEC(const struct type *) types;
	VEC(const struct prov *) provs;
	VEC(struct attr_list) attrs;
	struct hash_table string_table, type_table, prov_table, attr_table;
};

struct context *context_create(const struct mesh *m)
{
	struct context *c = calloc(1, sizeof(*c));
	if (c == NULL)
		BUG("out of memory");
	if (m != NULL)
		c->mesh = *m;
	static const struct prov nowhere;
	static const struct type none;
	*vec_push(&c->provs) = &nowhere;
	*vec_push(&c->types) = &none;
	*vec_push(&c->attrs) = (struct attr_list){ 0 };
	return c;
}

void context_destroy(struct context *c)
{
	if (c == NULL)
		return;
	vec_release(&c->strings);
	vec_release(&c->types);
	vec_release(&c->provs);
	vec_release(&c->attrs);
	hash_release(&c->string_table);
	hash_release(&c->type_table);
	hash_release(&c->prov_table);
	hash_release(&c->attr_table);
	arena_release(&c->arena);
	free(c);
}

struct arena *context_arena(struct context *c)
{
	return &c->arena;
}

const struct mesh *context_mesh(const struct context *c)
{
	return &c->mesh;
}

/* --- strings --- */

struct string_key { const struct context *c; const char *s; size_t size; };

static bool same_string(const void *key, uint32_t i)
{
	const struct string_key *k = key;
	const char *s = k->c->strings.items[i];
	return strncmp(s, k->s, k->size) == 0 && s[k->size] == '\0';
}

const char *context_intern_n(struct context *c, const char *s, size_t size)
{
	uint64_t hash = hash_bytes(s, size, 0);
	struct string_key key = { c, s, size };
	uint32_t i = hash_find(&c->string_table, hash, same_string, &key);
	if (i != UINT32_MAX)
		return c->strings.items[i];
	char *copy = arena_alloc(&c->arena, size + 1);
	memcpy(copy, s, size);
	hash_insert(&c->string_table, hash, c->strings.count);
	*vec_push(&c->strings) = copy;
	return copy;
}

const char *context_intern(struct context *c, const char *s)
{
	return s == NULL ? NULL : context_intern_n(c, s, strlen(s));
}

/* --- types --- */

struct type_key { const struct context *c; const struct type *t; };

static bool same_type(const void *key, uint32_t i)
{
	const struct type_key *k = key;
	return memcmp(k->c->types.items[i], k->t, sizeof(*k->t)) == 0;
}

/* All bytes that no one reads are zero, so that types compare by memcmp. */
static struct type type_clean(const struct type *t)
{
	struct type made;
	memset(&made, 0, sizeof(made));
	made.dtype = t->dtype;
	made.rank = t->rank;
	made.place.count = t->place.count;
	memcpy(made.place.at, t->place.at, sizeof(t->place.at[0]) * t->place.count);
	placement_canonical(&made.place);
	memcpy(made.dim, t->dim, sizeof(t->dim[0]) * t->rank);
	return made;
}

struct type_id context_type(struct context *c, const struct type *t)
{
	struct type clean = type_clean(t);
	uint64_t hash = hash_bytes(&clean, sizeof(clean), 1);
	struct type_key key = { c, &clean };
	uint32_t i = hash_find(&c->type_table, hash, same_type, &key);
	if (i == UINT32_MAX) {
		i = c->types.count;
		*vec_push(&c->types) = arena_copy(&c->arena, &clean, sizeof(clean));
		hash_insert(&c->type_table, hash, i);
	}
	return (struct type_id){ i };
}

const struct type *context_type_get(const struct context *c, struct type_id t)
{
	return c->types.items[t.i];
}

/* --- provenance: strings are interned first, so records compare by pointer --- */

struct prov_key { const struct context *c; const struct prov *p; };

static bool same_prov(const void *key, uint32_t i)
{
	const struct prov_key *k = key;
	return memcmp(k->c->provs.items[i], k->p, sizeof(*k->p)) == 0;
}

struct prov_id context_prov(struct context *c, const struct prov *p)
{
	struct prov made = { context_intern(c, p->node), context_intern(c, p->module),
			     context_intern(c, p->source), context_intern(c, p->pass), context_intern(c, p->rule) };
	uint64_t hash = hash_bytes(&made, sizeof(made), 2);
	struct prov_key key = { c, &made };
	uint32_t i = hash_find(&c->prov_table, hash, same_prov, &key);
	if (i == UINT32_MAX) {
		i = c->provs.count;
		*vec_push(&c->provs) = arena_copy(&c->arena, &made, sizeof(made));
		hash_insert(&c->prov_table, hash, i);
	}
	return (struct prov_id){ i };
}

const struct prov *context_prov_get(const struct context *c, struct prov_id p)
{
	return c->provs.items[p.i];
}

/* Behind "AXIS: ", at the text's start or after "; "; NULL: there is none. */
static const char *find_rule(const char *text, const char *axis)
{
	size_t n = strlen(axis);
	for (const char *s = text; s != NULL; s = strstr(s, "; ") != NULL ? strstr(s, "; ") + 2 : NULL)
		if (strncmp(s, axis, n) == 0 && s[n] == ':' && s[n + 1] == ' ')
			return s + n + 2;
	return NULL;
}

const char *prov_rule(struct context *c, const struct prov *p, uint32_t axes)
{
	if (c->mesh.count < 2)
		return p->rule;
	for (int a = 0; a < c->mesh.count; a++) {
		const char *rule = axes >> a & 1 ? find_rule(p->rule, c->mesh.axis[a].name) : NULL;
		const char *end = rule;
		for (int other = 0; rule != NULL && other < c->mesh.count; other++) {
			const char *next = find_rule(rule, c->mesh.axis[other].name);
			if (next != NULL && (end == rule || next < end))
				end = next - strlen(c->mesh.axis[other].name) - 4;
		}
		if (rule != NULL)
			return end == rule ? rule : context_intern_n(c, rule, (size_t)(end - rule));
	}
	return NULL;
}

void prov_add_rule(struct context *c, struct prov *p, int axis, const char *rule)
{
	if (c->mesh.count < 2)
		p->rule = rule;
	else
		p->rule = arena_printf(&c->arena, "%s%s%s: %s", p->rule != NULL ? p->rule : "", p->rule != NULL ? "; " : "",
				       c->mesh.axis[axis].name, rule);
}

/* --- attribute lists --- */

static bool same_attr(const struct attr *a, const struct attr *b)
{
	if (a->key != b->key || a->count != b->count)
		return false;
	switch (attr_kind((enum attr_key)a->key)) {
	case AK_INTS:
		return a->count == 0 || memcmp(a->u.ints, b->u.ints, sizeof(int64_t) * a->count) == 0;
	case AK_PLACEMENT:
		return placement_equal(a->u.place, b->u.place);
	case AK_TENSOR:
		return a->u.tensor == b->u.tensor;
	case AK_STRING:
		return a->u.s == b->u.s;
	default:
		return a->u.i == b->u.i; /* floats by their bits */
	}
}

static uint64_t attr_hash(const struct attr *a, uint64_t seed)
{
	uint64_t h = hash_bytes(&a->key, sizeof(a->key), seed);
	switch (attr_kind((enum attr_key)a->key)) {
	case AK_INTS:
		return hash_bytes(a->u.ints, sizeof(int64_t) * a->count, h);
	case AK_PLACEMENT:
		return hash_bytes(a->u.place->at, sizeof(a->u.place->at[0]) * a->u.place->count, h);
	default:
		return hash_bytes(&a->u.i, sizeof(a->u.i), h);
	}
}

struct attr_key_list { const struct context *c; const struct attrs *a; };

static bool same_attrs(const void *key, uint32_t i)
{
	const struct attr_key_list *k = key;
	const struct attr_list *l = &k->c->attrs.items[i];
	if (l->count != k->a->count)
		return false;
	for (int n = 0; n < l->count; n++)
		if (!same_attr(&l->at[n], &k->a->at[n]))
			return false;
	return true;
}

/* Sorts by key and interns strings and placements (made canonical), so that lists compare. */
static void attrs_normal(struct context *c, const struct attrs *a, struct attrs *out)
{
	*out = *a;
	for (int i = 1; i < out->count; i++)
		for (int k = i; k > 0 && out->at[k - 1].key > out->at[k].key; k--) {
			struct attr t = out->at[k];
			out->at[k] = out->at[k - 1];
			out->at[k - 1] = t;
		}
	for (int i = 0; i < out->count; i++)
		if (attr_kind((enum attr_key)out->at[i].key) == AK_STRING)
			out->at[i].u.s = context_intern(c, out->at[i].u.s);
}

/* Moves what an attribute points to into the arena. */
static void attr_own(struct context *c, struct attr *a)
{
	if (attr_kind((enum attr_key)a->key) == AK_INTS)
		a->u.ints = arena_copy(&c->arena, a->u.ints, sizeof(int64_t) * a->count);
	if (attr_kind((enum attr_key)a->key) == AK_PLACEMENT) {
		struct placement *p = arena_copy(&c->arena, a->u.place, sizeof(*p));
		placement_canonical(p);
		a->u.place = p;
	}
}

struct attrs_id context_attrs(struct context *c, const struct attrs *a)
{
	if (a == NULL || a->count == 0)
		return (struct attrs_id){ 0 };
	struct attrs normal;
	attrs_normal(c, a, &normal);
	uint64_t hash = 3;
	for (int i = 0; i < normal.count; i++)
		hash = attr_hash(&normal.at[i], hash);
	struct attr_key_list key = { c, &normal };
	uint32_t id = hash_find(&c->attr_table, hash, same_attrs, &key);
	if (id != UINT32_MAX)
		return (struct attrs_id){ id };
	for (int i = 0; i < normal.count; i++)
		attr_own(c, &normal.at[i]);
	id = c->attrs.count;
	*vec_push(&c->attrs) = (struct attr_list){
		normal.count, arena_copy(&c->arena, normal.at, sizeof(normal.at[0]) * (size_t)normal.count)
	};
	hash_insert(&c->attr_table, hash, id);
	return (struct attrs_id){ id };
}

/* --- building and reading attribute lists --- */

static struct attr *attrs_slot(struct attrs *a, enum attr_key k)
{
	for (int i = 0; i < a->count; i++)
		if (a->at[i].key == k)
			return &a->at[i];
	BUG_ON(a->count == MAX_ATTRS);
	a->at[a->count] = (struct attr){ .key = (uint16_t)k };
	return &a->at[a->count++];
}

void attrs_int(struct attrs *a, enum attr_key k, int64_t v)
{
	attrs_slot(a, k)->u.i = v;
}

void attrs_float(struct attrs *a, enum attr_key k, double v)
{
	attrs_slot(a, k)->u.f = v;
}

void attrs_string(struct attrs *a, enum attr_key k, const char *s)
{
	attrs_slot(a, k)->u.s = s;
}

void attrs_ints(struct attrs *a, enum attr_key k, const int64_t *v, int count)
{
	struct attr *slot = attrs_slot(a, k);
	slot->u.ints = v;
	slot->count = (uint16_t)count;
}

void attrs_tensor(struct attrs *a, const struct tensor *t)
{
	attrs_slot(a, ATTR_DATA)->u.tensor = t;
}

void attrs_placement(struct attrs *a, const struct placement *p)
{
	attrs_slot(a, ATTR_TO)->u.place = p;
}

static const struct attr *find(const struct graph *g, struct node_id n, enum attr_key k)
{
	const struct attr_list *l = &g->context->attrs.items[graph_node(g, n)->attrs.i];
	for (int i = 0; i < l->count; i++)
		if (l->at[i].key == k)
			return &l->at[i];
	return NULL;
}

bool graph_has(const struct graph *g, struct node_id n, enum attr_key k)
{
	return find(g, n, k) != NULL;
}

int64_t graph_int(const struct graph *g, struct node_id n, enum attr_key k, int64_t otherwise)
{
	const struct attr *a = find(g, n, k);
	return a ? a->u.i : otherwise;
}

double graph_float(const struct graph *g, struct node_id n, enum attr_key k, double otherwise)
{
	const struct attr *a = find(g, n, k);
	return a ? a->u.f : otherwise;
}

const char *graph_string(const struct graph *g, struct node_id n, enum attr_key k)
{
	const struct attr *a = find(g, n, k);
	return a ? a->u.s : NULL;
}

int graph_ints(const struct graph *g, struct node_id n, enum attr_key k, const int64_t **out)
{
	const struct attr *a = find(g, n, k);
	*out = a ? a->u.ints : NULL;
	return a ? a->count : 0;
}

const struct tensor *graph_tensor(const struct graph *g, struct node_id n)
{
	const struct attr *a = find(g, n, ATTR_DATA);
	return a ? a->u.tensor : NULL;
}

const struct placement *graph_placement(const struct graph *g, struct node_id n)
{
	const struct attr *a = find(g, n, ATTR_TO);
	return a ? a->u.place : NULL;
}

void graph_attrs(const struct graph *g, struct node_id n, struct attrs *out)
{
	const struct attr_list *l = &g->context->attrs.items[graph_node(g, n)->attrs.i];
	out->count = l->count;
	if (l->count > 0)
		memcpy(out->at, l->at, sizeof(l->at[0]) * (size_t)l->count);
}
