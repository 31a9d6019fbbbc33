/* canonicalize: values that follow from positions alone become fills and iotas, indexing by them slices. */
#include "canonicalize.h"

#include <string.h>

#define EXACT_IN_DOUBLE (INT64_C(1) << 53)

/* The one coordinate on which a depends; -1: on none, -2: on several. */
static int sole_coordinate(const struct affine *a)
{
	int found = -1;
	for (int d = 0; d < MAX_RANK; d++)
		if (a->step[d] != 0)
			found = found == -1 ? d : -2;
	return found;
}

/* base + step * coordinate d, as views of an iota. */
static struct node_id positions(const struct site *s, const struct affine *a, int d, const struct type *t)
{
	struct attrs attrs = { 0 };
	int64_t dim[MAX_RANK];
	attrs_int(&attrs, ATTR_START, a->base);
	attrs_int(&attrs, ATTR_STEP, a->step[d]);
	attrs_int(&attrs, ATTR_DTYPE, t->dtype);
	attrs_ints(&attrs, ATTR_SHAPE, &t->dim[d], 1);
	for (int i = 0; i < t->rank; i++)
		dim[i] = i == d ? t->dim[d] : 1;
	struct node_id n = site_emit(s, OP_IOTA, NULL, 0, &attrs);
	return site_broadcast(s, site_reshape(s, n, t->rank, dim), t);
}

static bool settle_number(const struct site *s, struct node_id made, struct node_id *out)
{
	const struct form *f = site_form(s, made);
	const struct type *t = graph_type(s->g, made);
	int64_t v;
	if (f == NULL)
		return false;
	if (form_constant(f, &v)) {
		*out = site_fill(s, (double)v, t);
		return v > -EXACT_IN_DOUBLE && v < EXACT_IN_DOUBLE;
	}
	int d = f->boolean ? -2 : sole_coordinate(&f->value);
	if (d < 0 || op_is_view(graph_op(s->g, made)))
		return false;
	*out = positions(s, &f->value, d, t);
	return true;
}

/* --- index and gather by positions --- */

struct picked { struct affine map[MAX_RANK]; int coordinate[MAX_RANK]; };

/* Each coordinate of x steps forward along a coordinate of the result that no other one has, or stands still. */
static bool is_picked(const struct site *s, struct node_id made, int rank, struct picked *p)
{
	uint32_t seen = 0;
	if (!affine_index_map(&s->c->affine, s->g, made, p->map))
		return false;
	for (int d = 0; d < rank; d++) {
		int c = p->coordinate[d] = sole_coordinate(&p->map[d]);
		if (c == -2 || (c >= 0 && (p->map[d].step[c] < 0 || (seen >> c & 1))))
			return false;
		seen |= c >= 0 ? (uint32_t)1 << c : 0;
	}
	return true;
}

static struct node_id slice_of(const struct site *s, struct node_id x, int d, int64_t start, int64_t step, int64_t count)
{
	struct attrs a = { 0 };
	if (start == 0 && step <= 1 && count == graph_type(s->g, x)->dim[d])
		return x;
	attrs_int(&a, ATTR_DIM, d);
	attrs_int(&a, ATTR_START, start);
	attrs_int(&a, ATTR_END, start + step * (count - 1) + 1);
	if (step > 1)
		attrs_int(&a, ATTR_STEP, step);
	return site_emit(s, OP_SLICE, &x, 1, &a);
}

/* Dims in the order of the result's coordinates, those that stand still first. */
static struct node_id in_order(const struct site *s, struct node_id x, int rank, const int *coordinate)
{
	struct attrs a = { 0 };
	int64_t dims[MAX_RANK];
	int n = 0;
	for (int c = -1; c < MAX_RANK; c++)
		for (int d = 0; d < rank; d++)
			if (coordinate[d] == c)
				dims[n++] = d;
	attrs_ints(&a, ATTR_DIMS, dims, rank);
	return site_emit(s, OP_PERMUTE, &x, 1, &a);
}

/* x[iota, ..] is a slice of x, permuted, reshaped and repeated. */
static bool settle_index(const struct site *s, struct node_id made, struct node_id *out)
{
	struct node_id x = graph_operand(s->g, made, 0);
	const struct type *t = graph_type(s->g, made);
	struct picked p;
	int rank = graph_type(s->g, x)->rank;
	int64_t dim[MAX_RANK];
	if (!is_picked(s, made, rank, &p))
		return false;
	for (int i = 0; i < t->rank; i++)
		dim[i] = 1;
	for (int d = 0; d < rank; d++) {
		int c = p.coordinate[d];
		x = slice_of(s, x, d, p.map[d].base, c < 0 ? 1 : p.map[d].step[c], c < 0 ? 1 : t->dim[c]);
		if (c >= 0)
			dim[c] = t->dim[c];
	}
	x = site_reshape(s, in_order(s, x, rank, p.coordinate), t->rank, dim);
	*out = site_broadcast(s, x, t);
	return true;
}

/* --- rewrites --- */

/* index_put(zeros [V, ..], ids, x {dims=[0] accumulate}) => embedding_grad x, ids */
bool rows_into_zeros(const struct site *s, struct node_id *out)
{
	const int64_t *dims;
	struct attrs a = { 0 };
	struct node_id made = s->source;
	const struct type *zeros = site_in(s, 0), *ids = site_in(s, 1), *rows = site_in(s, s->count - 1);
	if (s->count != 3 || !node_is(made) || graph_ints(s->c->from, made, ATTR_DIMS, &dims) != 1 || dims[0] != 0 ||
	    graph_int(s->c->from, made, ATTR_ACCUMULATE, 0) == 0)
		return false;
	if (site_op(s, 0) != OP_FILL || graph_float(s->g, s->in[0], ATTR_VALUE, 1) != 0 || rows->dtype != zeros->dtype ||
	    rows->rank != ids->rank + zeros->rank - 1 ||
	    memcmp(rows->dim, ids->dim, sizeof(ids->dim[0]) * ids->rank) != 0 ||
	    memcmp(rows->dim + ids->rank, zeros->dim + 1, sizeof(ids->dim[0]) * (size_t)(zeros->rank - 1)) != 0)
		return false;
	attrs_ints(&a, ATTR_SHAPE, zeros->dim, zeros->rank);
	*out = site_emit(s, OP_EMBEDDING_GRAD, (struct node_id[]){ s->in[2], s->in[1] }, 2, &a);
	return true;
}

struct node_id canon_settle(const struct site *s, struct node_id made)
{
	struct node_id simpler;
	enum dtype_class class = dtype_class((enum dtype)graph_type(s->g, made)->dtype);
	enum op op = graph_op(s->g, made);
	if (op_is_source(op))
		return made;
	if ((class == DC_INT || class == DC_BOOLEAN) && settle_number(s, made, &simpler))
		return simpler;
	if ((op == OP_INDEX || op == OP_GATHER) && settle_index(s, made, &simpler))
		return simpler;
	return made;
}
