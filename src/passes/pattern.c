#include "pattern.h"

#include <stdio.h>
#include <string.h>

static bool match_atoms(const char *p, const char *s)
{
	while (*p != '\0' && *s != '\0') {
		size_t np = strcspn(p, "."), ns = strcspn(s, ".");
		bool any = np == 1 && *p == '*';
		if (!any && (np != ns || memcmp(p, s, np) != 0))
			return false;
		p += np + (p[np] == '.');
		s += ns + (s[ns] == '.');
	}
	return *p == '\0' && *s == '\0';
}

#define PREFIX "model."

/* Base models of Hugging Face: their plans name modules from there. */
static const char *const prefixes[] = { PREFIX, "transformer.", "gpt_neox.", "bert.", "roberta.", "vit.", "decoder.", "backbone." };

static bool match_from_base(const char *pattern, const char *name)
{
	if (match_atoms(pattern, name))
		return true;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t n = strlen(prefixes[i]);
		if ((strncmp(name, prefixes[i], n) == 0 && match_atoms(pattern, name + n)) ||
		    (strncmp(pattern, prefixes[i], n) == 0 && match_atoms(pattern + n, name)))
			return true;
	}
	return false;
}

/* "fc1.parametrizations.weight.original0" is "fc1.weight"; without the last atom it is "fc1". */
bool pattern_match(const char *pattern, const char *name)
{
	static const char parametrized[] = ".parametrizations.";
	const char *at = strstr(name, parametrized);
	char plain[256];
	if (match_from_base(pattern, name))
		return true;
	if (at == NULL || (size_t)(at - name) + strlen(at) >= sizeof(plain))
		return false;
	const char *tensor = at + sizeof(parametrized) - 1, *last = strstr(tensor, ".original");
	if (last == NULL)
		snprintf(plain, sizeof(plain), "%.*s", (int)(at - name), name);
	else
		snprintf(plain, sizeof(plain), "%.*s.%.*s", (int)(at - name), name, (int)(last - tensor), tensor);
	return match_from_base(pattern, plain);
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
