#include "pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The next atom of a dotted name; NULL after the last one. */
static const char *next_atom(const char *s)
{
	const char *dot = strchr(s, '.');
	return dot != NULL ? dot + 1 : NULL;
}

/* Is the atom at p `what`? */
static bool atom_is(const char *p, const char *what)
{
	size_t n = strlen(what);
	return strncmp(p, what, n) == 0 && (p[n] == '.' || p[n] == '\0');
}

static bool same_atom(const char *p, const char *s)
{
	if (atom_is(p, "*"))
		return true;
	for (; *p == *s && *p != '.' && *p != '\0'; p++)
		s++;
	return (*p == '.' || *p == '\0') && (*s == '.' || *s == '\0');
}

/* Where it fails, the last "**" takes one atom more. */
static bool match_atoms(const char *p, const char *s)
{
	const char *after = NULL, *taken = NULL;
	bool many = false;
	while (p != NULL || s != NULL) {
		if (p != NULL && atom_is(p, "**")) {
			many = true;
			after = p = next_atom(p);
			taken = s;
		} else if (p != NULL && s != NULL && same_atom(p, s)) {
			p = next_atom(p);
			s = next_atom(s);
		} else if (many && taken != NULL) {
			s = taken = next_atom(taken);
			p = after;
		} else {
			return false;
		}
	}
	return true;
}

#define PREFIX "model."

/* Base models of Hugging Face: their plans name modules from there. */
static const char *const prefixes[] = { PREFIX, "transformer.", "gpt_neox.", "bert.", "roberta.", "vit.", "decoder.", "backbone." };

/* The name from its base model on; NULL where it has none. */
static const char *without_base(const char *name)
{
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t n = strlen(prefixes[i]);
		if (name[0] == prefixes[i][0] && strncmp(name, prefixes[i], n) == 0)
			return name + n;
	}
	return NULL;
}

static bool match_from_base(const char *pattern, const char *name)
{
	const char *bare_name = without_base(name), *bare_pattern = without_base(pattern);
	return match_atoms(pattern, name) || (bare_name != NULL && match_atoms(pattern, bare_name)) ||
	       (bare_pattern != NULL && match_atoms(bare_pattern, name));
}

/* "fc1.parametrizations.weight.original0" is "fc1.weight"; without the last atom it is "fc1". Empty: nothing else. */
static void without_parametrization(const char *name, char *plain, size_t size)
{
	static const char parametrized[] = ".parametrizations.";
	const char *at = strstr(name, parametrized);
	plain[0] = '\0';
	if (at == NULL || (size_t)(at - name) + strlen(at) >= size)
		return;
	const char *tensor = at + sizeof(parametrized) - 1, *last = strstr(tensor, ".original");
	if (last == NULL)
		snprintf(plain, size, "%.*s", (int)(at - name), name);
	else
		snprintf(plain, size, "%.*s.%.*s", (int)(at - name), name, (int)(last - tensor), tensor);
}

bool pattern_match(const char *pattern, const char *name)
{
	char plain[256];
	if (match_from_base(pattern, name))
		return true;
	without_parametrization(name, plain, sizeof(plain));
	return plain[0] != '\0' && match_from_base(pattern, plain);
}

/* --- the index --- */

struct key_query { const struct name_index *index; const char *key; };

static bool same_key(const void *context, uint32_t i)
{
	const struct key_query *q = context;
	return strcmp(q->index->entries.items[i].key, q->key) == 0;
}

/* The first entry of a key, or UINT32_MAX. */
static uint32_t index_first(const struct name_index *x, const char *key)
{
	struct key_query q = { x, key };
	return key == NULL ? UINT32_MAX : hash_find(&x->table, hash_string(key), same_key, &q);
}

static void index_key(struct name_index *x, const char *key, const char *name, uint32_t what)
{
	if (key == NULL)
		return;
	uint32_t first = index_first(x, key);
	struct name_entry *e = vec_push(&x->entries);
	*e = (struct name_entry){ key, name, what, UINT32_MAX };
	if (first == UINT32_MAX) {
		hash_insert(&x->table, hash_string(key), x->entries.count - 1);
		return;
	}
	e->next = x->entries.items[first].next;
	x->entries.items[first].next = x->entries.count - 1;
}

void name_index_add(struct name_index *x, const char *name, uint32_t what)
{
	char plain[256];
	index_key(x, name, name, what);
	index_key(x, without_base(name), name, what);
	without_parametrization(name, plain, sizeof(plain));
	if (plain[0] == '\0')
		return;
	const char *kept = arena_strdup(&x->arena, plain);
	index_key(x, kept, name, what);
	index_key(x, without_base(kept), name, what);
}

static void find_key(const struct name_index *x, const char *key, const char *pattern, found_list *out)
{
	for (uint32_t i = index_first(x, key); i != UINT32_MAX; i = x->entries.items[i].next)
		if (pattern_match(pattern, x->entries.items[i].name))
			*vec_push(out) = x->entries.items[i].what;
}

static void find_all(const struct name_index *x, const char *pattern, found_list *out)
{
	for (uint32_t i = 0; i < x->entries.count; i++) {
		const struct name_entry *e = &x->entries.items[i];
		if (e->key == e->name && pattern_match(pattern, e->name))
			*vec_push(out) = e->what;
	}
}

static int compare_found(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

void name_index_find(const struct name_index *x, const char *pattern, found_list *out)
{
	uint32_t kept = 0;
	out->count = 0;
	if (strchr(pattern, '*') != NULL) {
		find_all(x, pattern, out);
	} else {
		find_key(x, pattern, pattern, out);
		find_key(x, without_base(pattern), pattern, out);
	}
	if (out->count > 0)
		qsort(out->items, out->count, sizeof(*out->items), compare_found);
	for (uint32_t i = 0; i < out->count; i++)
		if (kept == 0 || out->items[i] != out->items[kept - 1])
			out->items[kept++] = out->items[i];
	out->count = kept;
}

void name_index_release(struct name_index *x)
{
	arena_release(&x->arena);
	vec_release(&x->entries);
	hash_release(&x->table);
}

enum fs_status axis_named(const struct mesh *m, const char *name, int *axis, struct diag *d)
{
	char has[MAX_AXES * 32] = "";
	*axis = mesh_find(m, name);
	if (*axis >= 0)
		return FS_OK;
	for (int i = 0; i < m->count; i++)
		snprintf(has + strlen(has), sizeof(has) - strlen(has), "%s%s=%d", i ? "," : "", m->axis[i].name, m->axis[i].size);
	if (m->count == 0)
		return diag_set(d, FS_INVALID, "there is no mesh, so no axis '%s'; give --mesh", name);
	return diag_set(d, FS_INVALID, "the mesh has no axis '%s' (it has %s)", name, has);
}

/* --- nearest names --- */

#define LONGEST 128

/* Edit distance; names longer than LONGEST are cut. */
static int distance(const char *a, const char *b)
{
	int row[LONGEST + 1], na = (int)strnlen(a, LONGEST), nb = (int)strnlen(b, LONGEST);
	for (int j = 0; j <= nb; j++)
		row[j] = j;
	for (int i = 1; i <= na; i++) {
		int diagonal = row[0];
		row[0] = i;
		for (int j = 1; j <= nb; j++) {
			int change = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			int add = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
			row[j] = change < add ? change : add;
		}
	}
	return row[nb];
}

/* Atoms that are numbers become '*'. */
static void starred(const char *name, char out[LONGEST + 1])
{
	size_t n = 0;
	for (const char *s = name; *s != '\0' && n < LONGEST;) {
		size_t atom = strcspn(s, "."), digits = strspn(s, "0123456789");
		if (atom > 0 && digits == atom) {
			out[n++] = '*';
		} else {
			size_t room = LONGEST - n, take = atom < room ? atom : room;
			memcpy(out + n, s, take);
			n += take;
		}
		s += atom;
		if (*s == '.' && n < LONGEST) {
			out[n++] = '.';
			s++;
		}
	}
	out[n] = '\0';
}

#define SHOWN 3

struct nearest { char name[LONGEST + 1]; int distance, count; };

/* Inserts or counts a candidate among the nearest few, sorted by distance. */
static void consider(struct nearest best[SHOWN], const char *pattern, const char *name)
{
	struct nearest c = { .count = 1 };
	starred(name, c.name);
	const char *bare = strncmp(c.name, PREFIX, strlen(PREFIX)) == 0 ? c.name + strlen(PREFIX) : c.name;
	int whole = distance(pattern, c.name), part = distance(pattern, bare);
	c.distance = whole < part ? whole : part;
	for (int i = 0; i < SHOWN; i++)
		if (best[i].count > 0 && strcmp(best[i].name, c.name) == 0) {
			best[i].count++;
			return;
		}
	for (int i = 0; i < SHOWN; i++)
		if (best[i].count == 0 || c.distance < best[i].distance) {
			struct nearest t = best[i];
			best[i] = c;
			c = t;
		}
}

void names_nearest(const struct name_list *l, const char *pattern, char *out, size_t size)
{
	struct nearest best[SHOWN] = { 0 };
	for (uint32_t i = 0; i < l->names.count; i++)
		consider(best, pattern, l->names.items[i]);
	out[0] = '\0';
	for (int i = 0; i < SHOWN && best[i].count > 0; i++) {
		size_t n = strlen(out);
		const char *comma = i > 0 ? ", " : "";
		if (best[i].count > 1)
			snprintf(out + n, size - n, "%s'%s' (%d)", comma, best[i].name, best[i].count);
		else
			snprintf(out + n, size - n, "%s'%s'", comma, best[i].name);
	}
}
