/* Meshes, placements, and the slices that they give a rank. */
#include "ir.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

bool part_joins(enum part_kind kind, enum dtype t)
{
	enum dtype_class class = dtype_class(t);
	return class == DC_FLOAT || class == DC_INT || (class == DC_BOOLEAN && kind != PART_SUM);
}

/* --- mesh --- */

static const char *skip_space(const char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	return s;
}

/* Length of the axis name that starts at s. */
static size_t name_length(const char *s)
{
	size_t n = 0;
	while (isalnum((unsigned char)s[n]) || s[n] == '_')
		n++;
	return n;
}

static enum fs_status parse_axis(struct mesh *m, const char **at, const char *text, struct diag *d)
{
	const char *s = skip_space(*at);
	size_t n = name_length(s);
	if (n == 0 || n >= sizeof(m->axis[0].name) || isdigit((unsigned char)*s))
		return diag_set(d, FS_INVALID, "mesh '%s': an axis is NAME=SIZE, as in dp=2,tp=4 (names up to 15 letters)", text);
	if (m->count == MAX_AXES)
		return diag_set(d, FS_INVALID, "mesh '%s' has more than %d axes", text, MAX_AXES);
	struct mesh_axis *a = &m->axis[m->count];
	memset(a, 0, sizeof(*a));
	memcpy(a->name, s, n);
	if (mesh_find(m, a->name) >= 0)
		return diag_set(d, FS_INVALID, "mesh '%s' names the axis '%s' twice", text, a->name);
	s = skip_space(s + n);
	if (*s != '=')
		return diag_set(d, FS_INVALID, "mesh '%s': '=' expected after '%s', as in dp=2,tp=4", text, a->name);
	char *end;
	long size = strtol(s + 1, &end, 10);
	if (end == s + 1 || size < 1 || size > 1 << 20)
		return diag_set(d, FS_INVALID, "mesh '%s': the size of '%s' must be a number from 1 to %d", text, a->name, 1 << 20);
	a->size = (int32_t)size;
	m->count++;
	*at = skip_space(end);
	return FS_OK;
}

enum fs_status mesh_parse(struct mesh *m, const char *text, struct diag *d)
{
	struct mesh made = { 0 };
	const char *s = text;
	for (;;) {
		TRY(parse_axis(&made, &s, text, d));
		if (*s == '\0')
			break;
		if (*s != ',')
			return diag_set(d, FS_INVALID, "mesh '%s': ',' expected before '%s'", text, s);
		s++;
	}
	if (mesh_size(&made) > INT32_MAX)
		return diag_set(d, FS_INVALID, "mesh '%s' has more than %d ranks", text, INT32_MAX);
	*m = made;
	return FS_OK;
}

int mesh_find(const struct mesh *m, const char *axis)
{
	for (int i = 0; i < m->count; i++)
		if (strcmp(m->axis[i].name, axis) == 0)
			return i;
	return -1;
}

void mesh_axes_text(const struct mesh *m, uint32_t axes, char *out, size_t size)
{
	size_t used = 0;
	out[0] = '\0';
	for (int i = 0; i < m->count && used < size; i++)
		if (axes >> i & 1)
			used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "," : "", m->axis[i].name);
}

int64_t mesh_size(const struct mesh *m)
{
	int64_t n = 1;
	for (int i = 0; i < m->count; i++)
		if (!mul_size(n, m->axis[i].size, &n))
			return INT64_MAX;
	return n;
}

void mesh_coords(const struct mesh *m, int64_t rank, int32_t coord[MAX_AXES])
{
	for (int i = m->count - 1; i >= 0; i--) {
		coord[i] = (int32_t)(rank % m->axis[i].size);
		rank /= m->axis[i].size;
	}
}

/* --- placement --- */

/* Puts the parts that shard `dim`, in nesting order, on the places they hold together. */
static void settle_dim(struct placement *sorted, const struct placement *nesting, int dim)
{
	int to = 0;
	for (int i = 0; i < nesting->count; i++) {
		if (nesting->at[i].kind != PART_SHARD || nesting->at[i].dim != dim)
			continue;
		while (sorted->at[to].kind != PART_SHARD || sorted->at[to].dim != dim)
			to++;
		sorted->at[to++].axis = nesting->at[i].axis;
	}
}

void placement_canonical(struct placement *p)
{
	struct placement nesting = *p;
	for (int i = 1; i < p->count; i++)
		for (int k = i; k > 0 && p->at[k - 1].axis > p->at[k].axis; k--) {
			struct part t = p->at[k];
			p->at[k] = p->at[k - 1];
			p->at[k - 1] = t;
		}
	for (int i = 0; i < p->count; i++) {
		if (p->at[i].kind != PART_SHARD)
			p->at[i].dim = 0;
		else if (nesting.count > 1)
			settle_dim(p, &nesting, p->at[i].dim);
	}
	memset(&p->at[p->count], 0, sizeof(p->at[0]) * (size_t)(MAX_AXES - p->count));
}

bool placement_equal(const struct placement *a, const struct placement *b)
{
	struct placement x = *a, y = *b;
	placement_canonical(&x);
	placement_canonical(&y);
	return x.count == y.count && memcmp(x.at, y.at, sizeof(x.at[0]) * x.count) == 0;
}

int placement_find(const struct placement *p, int axis)
{
	for (int i = 0; i < p->count; i++)
		if (p->at[i].axis == axis)
			return i;
	return -1;
}

void placement_set(struct placement *p, int axis, const struct part *part)
{
	int i = placement_find(p, axis);
	if (i >= 0) {
		p->count--;
		memmove(&p->at[i], &p->at[i + 1], sizeof(p->at[0]) * (size_t)(p->count - i));
	}
	if (part != NULL)
		p->at[p->count++] = *part;
}

bool placement_has_partial(const struct placement *p)
{
	for (int i = 0; i < p->count; i++)
		if (p->at[i].kind != PART_SHARD)
			return true;
	return false;
}

uint32_t placement_axes_of(const struct placement *p, int dim)
{
	uint32_t axes = 0;
	for (int i = 0; i < p->count; i++)
		if (p->at[i].kind == PART_SHARD && p->at[i].dim == dim)
			axes |= 1u << p->at[i].axis;
	return axes;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
	return a / b + (a % b != 0);
}

struct extent placement_extent(const struct placement *p, const struct mesh *m, int dim, int64_t size,
			       const int32_t coord[MAX_AXES])
{
	struct extent e = { 0, size };
	for (int i = 0; i < p->count; i++) {
		if (p->at[i].kind != PART_SHARD || p->at[i].dim != dim)
			continue;
		int axis = p->at[i].axis;
		int64_t chunk = ceil_div(e.size, m->axis[axis].size);
		int64_t skip = chunk * coord[axis];
		if (skip > e.size)
			skip = e.size;
		e.start += skip;
		e.size = e.size - skip < chunk ? e.size - skip : chunk;
	}
	return e;
}

int64_t placement_chunk(const struct placement *p, const struct mesh *m, int dim, int64_t size)
{
	for (int i = 0; i < p->count; i++)
		if (p->at[i].kind == PART_SHARD && p->at[i].dim == dim)
			size = ceil_div(size, m->axis[p->at[i].axis].size);
	return size;
}

/* --- parsing "dp:S(0), tp:P(sum)" --- */

static const char *const part_names[] = { [PART_SUM] = "sum", [PART_MAX] = "max", [PART_MIN] = "min" };

#define PLACEMENT_HELP "write AXIS:S(dim), AXIS:R or AXIS:P(sum|max|min), as in dp:S(0), tp:R"

/* The part after "axis:": false where it is none. R has kind 255. */
static bool parse_part(struct part *part, const char **at)
{
	const char *s = *at;
	part->kind = 255;
	part->dim = 0;
	if (*s == 'R') {
		*at = s + 1;
		return true;
	}
	if (*s == 'S' && s[1] == '(') {
		char *end;
		long dim = strtol(s + 2, &end, 10);
		if (end == s + 2 || *end != ')' || dim < -MAX_RANK || dim >= MAX_RANK)
			return false;
		part->kind = PART_SHARD;
		part->dim = (uint8_t)(int8_t)dim;
		*at = end + 1;
		return true;
	}
	if (*s != 'P')
		return false;
	*at = s + 1;
	part->kind = PART_SUM;
	if (s[1] != '(')
		return true;
	for (int k = PART_SUM; k <= PART_MIN; k++) {
		size_t n = strlen(part_names[k]);
		if (strncmp(s + 2, part_names[k], n) == 0 && s[2 + n] == ')') {
			part->kind = (uint8_t)k;
			*at = s + 3 + n;
			return true;
		}
	}
	return false;
}

static enum fs_status no_axis(const struct mesh *m, const char *text, const char *axis, struct diag *d)
{
	char has[MAX_AXES * 32] = "";
	for (int i = 0; i < m->count; i++)
		snprintf(has + strlen(has), sizeof(has) - strlen(has), "%s%s=%d", i ? "," : "", m->axis[i].name, m->axis[i].size);
	if (m->count == 0)
		return diag_set(d, FS_INVALID, "'%s': there is no mesh, so no axis '%s'; give --mesh", text, axis);
	return diag_set(d, FS_INVALID, "'%s': the mesh has no axis '%s' (it has %s)", text, axis, has);
}

/* `named`: the axes that have been placed, as a mask. */
static enum fs_status add_part(struct placement *p, const struct mesh *m, int rank, const char *text,
			       const char **at, uint32_t *named, struct diag *d)
{
	const char *s = *at;
	size_t n = name_length(s);
	char axis[16];
	if (n == 0 || n >= sizeof(axis) || s[n] != ':')
		return diag_set(d, FS_INVALID, "'%s' is no placement: " PLACEMENT_HELP, text);
	memcpy(axis, s, n);
	axis[n] = '\0';
	int i = mesh_find(m, axis);
	if (i < 0)
		return no_axis(m, text, axis, d);
	struct part part = { .axis = (uint8_t)i };
	*at = skip_space(s + n + 1);
	if (!parse_part(&part, at))
		return diag_set(d, FS_INVALID, "'%s' is no placement: " PLACEMENT_HELP, text);
	if (*named >> i & 1)
		return diag_set(d, FS_INVALID, "'%s' places the axis '%s' twice", text, axis);
	*named |= 1u << i;
	if (part.kind == 255)
		return FS_OK;
	int dim = (int8_t)part.dim;
	if (part.kind == PART_SHARD && rank >= 0 && (dim < -rank || dim >= rank))
		return diag_set(d, FS_INVALID, "'%s': dim %d of a value with %d dims", text, dim, rank);
	part.dim = (uint8_t)(dim < 0 && rank >= 0 ? dim + rank : dim);
	p->at[p->count++] = part;
	return FS_OK;
}

enum fs_status placement_parse(struct placement *p, const struct mesh *m, int rank, const char *text, struct diag *d)
{
	struct placement made = { 0 };
	const char *s = skip_space(text);
	uint32_t named = 0;
	bool open = *s == '(';
	s = skip_space(s + open);
	while (*s != '\0' && *s != ')') {
		TRY(add_part(&made, m, rank, text, &s, &named, d));
		s = skip_space(s);
		if (*s == ',')
			s = skip_space(s + 1);
		else if (*s != '\0' && *s != ')')
			return diag_set(d, FS_INVALID, "'%s' is no placement: ',' expected before '%s'", text, s);
	}
	if (open != (*s == ')') || (open && *skip_space(s + 1) != '\0'))
		return diag_set(d, FS_INVALID, "'%s' is no placement: unbalanced parentheses", text);
	*p = made;
	placement_canonical(p);
	return FS_OK;
}

/* --- types --- */

int64_t type_count(const struct type *t)
{
	int64_t n = 1;
	for (int i = 0; i < t->rank; i++)
		n *= t->dim[i];
	return n;
}

int64_t type_bytes(const struct type *t)
{
	return type_count(t) * dtype_size((enum dtype)t->dtype);
}

void type_local_shape(const struct type *t, const struct mesh *m, const int32_t *coord, int64_t out[MAX_RANK])
{
	for (int i = 0; i < t->rank; i++)
		out[i] = coord == NULL ? placement_chunk(&t->place, m, i, t->dim[i])
				       : placement_extent(&t->place, m, i, t->dim[i], coord).size;
}

int64_t type_local_count(const struct type *t, const struct mesh *m, const int32_t *coord)
{
	int64_t shape[MAX_RANK], n = 1;
	type_local_shape(t, m, coord, shape);
	for (int i = 0; i < t->rank; i++)
		n *= shape[i];
	return n;
}

struct type type_make(enum dtype dtype, int rank, const int64_t *dim)
{
	struct type t = { .dtype = (uint8_t)dtype, .rank = (uint8_t)rank };
	if (rank > 0)
		memcpy(t.dim, dim, sizeof(*dim) * (size_t)rank);
	return t;
}
