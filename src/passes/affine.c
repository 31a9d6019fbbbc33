/*
 * Forms of integer and bool values: arithmetic on them, and the table.
 *
 * Every form is checked: each of its integers, at every coordinate, fits the element type (so that the
 * kernels, which wrap, compute the same), and no sum of ours overflows; else nothing is known.
 * Conditions that always hold are dropped, one that never holds decides.
 */
#include "affine_impl.h"

#include <string.h>

/* --- arithmetic on affine functions; false: overflow --- */

/* out += k * a */
bool affine_add_times(struct affine *out, const struct affine *a, int64_t k)
{
	int64_t t;
	if (!mul_size(a->base, k, &t) || !add_size(out->base, t, &out->base))
		return false;
	for (int d = 0; d < MAX_RANK; d++)
		if (!mul_size(a->step[d], k, &t) || !add_size(out->step[d], t, &out->step[d]))
			return false;
	return true;
}

/* Least and largest value over the coordinates of t. */
bool affine_range(const struct affine *a, const struct type *t, int64_t *least, int64_t *most)
{
	*least = *most = a->base;
	for (int d = 0; d < t->rank; d++) {
		int64_t span;
		if (!mul_size(a->step[d], t->dim[d] - 1, &span))
			return false;
		int64_t *end = span < 0 ? least : most;
		if (!add_size(*end, span, end))
			return false;
	}
	return true;
}

bool affine_is_constant(const struct affine *a)
{
	for (int d = 0; d < MAX_RANK; d++)
		if (a->step[d] != 0)
			return false;
	return true;
}

/* a at the coordinates that `map` gives for each of its dims. */
bool affine_substitute(const struct affine *a, int rank, const struct affine *map, struct affine *out)
{
	*out = (struct affine){ .base = a->base };
	for (int d = 0; d < rank; d++)
		if (a->step[d] != 0 && !affine_add_times(out, &map[d], a->step[d]))
			return false;
	return true;
}

bool form_substitute(const struct form *x, int rank, const struct affine *map, struct form *out)
{
	*out = *x;
	for (int i = 0; i < x->count; i++)
		if (!affine_substitute(&x->at[i].of, rank, map, &out->at[i].of))
			return false;
	return x->boolean || affine_substitute(&x->value, rank, map, &out->value);
}

/* --- finishing a form --- */

void affine_drop_unit_dims(struct affine *a, const struct type *t)
{
	for (int d = 0; d < MAX_RANK; d++)
		if (d >= t->rank || t->dim[d] == 1)
			a->step[d] = 0;
}

/* 1: always holds, 0: never, -1: it depends, or is not known. */
static int decide(const struct condition *c, const struct type *t)
{
	int64_t least, most;
	if (!affine_range(&c->of, t, &least, &most))
		return -1;
	if (c->is == AT_MOST_0)
		return most <= 0 ? 1 : least > 0 ? 0 : -1;
	bool never_0 = least > 0 || most < 0, always_0 = least == 0 && most == 0;
	if (!never_0 && !always_0)
		return -1;
	return always_0 == (c->is == EQUALS_0);
}

static bool holds_already(const struct form *f, int count, const struct condition *c)
{
	for (int i = 0; i < count; i++)
		if (f->at[i].is == c->is && memcmp(&f->at[i].of, &c->of, sizeof(c->of)) == 0)
			return true;
	return false;
}

static void finish_conditions(struct form *f, const struct type *t)
{
	int kept = 0;
	for (int i = 0; i < f->count; i++) {
		struct condition c = f->at[i];
		affine_drop_unit_dims(&c.of, t);
		int holds = decide(&c, t);
		f->never |= holds == 0;
		if (holds < 0 && !holds_already(f, kept, &c))
			f->at[kept++] = c;
	}
	f->count = f->never ? 0 : kept;
}

static bool fits(enum dtype t, int64_t least, int64_t most)
{
	int bits = 8 * dtype_size(t);
	if (t == DT_I64)
		return true;
	if (t == DT_U8 || t == DT_U32)
		return least >= 0 && most < INT64_C(1) << bits;
	return least >= -(INT64_C(1) << (bits - 1)) && most < INT64_C(1) << (bits - 1);
}

static bool finish(struct form *f, const struct type *t)
{
	int64_t least, most;
	f->boolean = t->dtype == DT_BOOL;
	if (f->boolean) {
		finish_conditions(f, t);
		return true;
	}
	affine_drop_unit_dims(&f->value, t);
	return affine_range(&f->value, t, &least, &most) && fits((enum dtype)t->dtype, least, most);
}

/* --- what others ask of a form --- */

bool form_constant(const struct form *f, int64_t *out)
{
	*out = f->boolean ? !f->never : f->value.base;
	return f->boolean ? f->count == 0 : affine_is_constant(&f->value);
}

bool form_not(const struct form *f, struct form *out)
{
	*out = *f;
	out->never = !f->never && f->count == 0;
	if (f->count != 1)
		return f->count == 0;
	struct condition *c = &out->at[0];
	if (c->is != AT_MOST_0) {
		c->is = c->is == EQUALS_0 ? DIFFERS_0 : EQUALS_0;
		return true;
	}
	c->of = (struct affine){ .base = 1 }; /* a > 0: 1 - a <= 0 */
	return affine_add_times(&c->of, &f->at[0].of, -1);
}

/* --- indexing --- */

/* Coordinates from operand k, whose dims stand at `first` in the result; all of them in [0, size). */
static bool index_coordinate(const struct flow *f, int k, int first, int64_t size, struct affine *out)
{
	const struct form *x = form_of(f, k);
	struct affine map[MAX_RANK] = { 0 };
	int64_t least, most;
	int rank = type_of(f, k)->rank;
	for (int d = 0; d < rank; d++)
		map[d].step[first + d] = 1;
	return x != NULL && !x->boolean && affine_substitute(&x->value, rank, map, out) &&
	       affine_range(out, f->type, &least, &most) && least >= 0 && most < size;
}

static bool index_map(const struct flow *f, struct affine map[MAX_RANK])
{
	const int64_t *dims;
	const struct type *x = type_of(f, 0);
	int count = graph_ints(f->g, f->n, ATTR_DIMS, &dims), wide = f->type->rank - (x->rank - count);
	int first = dims[count - 1] - dims[0] == count - 1 ? (int)dims[0] : 0, next = 0, k = 0;
	memset(map, 0, sizeof(*map) * MAX_RANK);
	for (int d = 0; d < x->rank; d++) {
		if (k < count && dims[k] == d) {
			k++;
			if (!index_coordinate(f, k, first + wide - type_of(f, k)->rank, x->dim[d], &map[d]))
				return false;
			continue;
		}
		if (next == first)
			next += wide;
		map[d].step[next++] = 1;
	}
	return true;
}

static bool gather_map(const struct flow *f, struct affine map[MAX_RANK])
{
	int64_t dim = graph_int(f->g, f->n, ATTR_DIM, 0);
	memset(map, 0, sizeof(*map) * MAX_RANK);
	for (int d = 0; d < f->type->rank; d++)
		map[d].step[d] = 1;
	return index_coordinate(f, 1, 0, type_of(f, 0)->dim[dim], &map[dim]);
}

bool index_coordinates(const struct flow *f, struct affine map[MAX_RANK])
{
	return graph_op(f->g, f->n) == OP_INDEX ? index_map(f, map) : gather_map(f, map);
}

/* --- the table --- */

static struct flow flow_at(struct affine_table *t, const struct graph *g, struct node_id n)
{
	return (struct flow){ t, g, n, graph_type(g, n), graph_node(g, n)->count };
}

static const struct form *find_form(struct affine_table *t, const struct graph *g, struct node_id n)
{
	struct flow f = flow_at(t, g, n);
	struct form made = { 0 };
	enum dtype_class class = dtype_class((enum dtype)f.type->dtype);
	affine_transfer *apply = affine_transfers[graph_op(g, n)];
	if (apply == NULL || (class != DC_INT && class != DC_BOOLEAN) || type_count(f.type) == 0)
		return NULL;
	if (!apply(&f, &made) || !finish(&made, f.type))
		return NULL;
	return arena_copy(&t->arena, &made, sizeof(made));
}

const struct form *affine_form(struct affine_table *t, const struct graph *g, struct node_id n)
{
	while (t->forms.count <= n.i) {
		uint32_t i = t->forms.count;
		vec_push(&t->forms);
		t->forms.items[i] = i == 0 ? NULL : find_form(t, g, (struct node_id){ i });
	}
	return t->forms.items[n.i];
}

bool affine_index_map(struct affine_table *t, const struct graph *g, struct node_id n, struct affine map[MAX_RANK])
{
	affine_form(t, g, n);
	struct flow f = flow_at(t, g, n);
	if (type_count(f.type) == 0 || !index_coordinates(&f, map))
		return false;
	for (int d = 0; d < type_of(&f, 0)->rank; d++)
		affine_drop_unit_dims(&map[d], f.type);
	return true;
}

bool form_is_causal(const struct form *f, int rank)
{
	if (rank < 2 || !f->boolean || f->count != 1 || f->at[0].is != AT_MOST_0)
		return false;
	struct affine want = { 0 };
	want.step[rank - 1] = 1;
	want.step[rank - 2] = -1;
	return memcmp(&want, &f->at[0].of, sizeof(want)) == 0;
}

void affine_release(struct affine_table *t)
{
	vec_release(&t->forms);
	arena_release(&t->arena);
}
