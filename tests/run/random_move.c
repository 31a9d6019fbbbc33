/* Makers of ops that move elements: views, cat, casts, what works by index, order. */
#include "random.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static double largest(double a, double b)
{
	return a > b ? a : b;
}

static int any_value(struct program *p, int least_rank)
{
	struct want w = { .least_rank = least_rank, .most_rank = 5 };
	return pick(p, &w);
}

/* --- views --- */

/* Merges neighbours and splits dims at random. */
static int nested_shape(struct program *p, const struct type *t, int64_t *dim)
{
	int rank = 0;
	for (int i = 0; i < t->rank && rank < 5; i++) {
		int64_t size = t->dim[i], by = 2 + rng_below(&p->rng, 3);
		if (rank > 0 && rng_chance(&p->rng, 45)) {
			dim[rank - 1] *= size;
		} else if (size > by && size % by == 0 && rank < 4 && rng_chance(&p->rng, 60)) {
			dim[rank++] = by;
			dim[rank++] = size / by;
		} else {
			dim[rank++] = size;
		}
		if (rank < 5 && rng_chance(&p->rng, 12))
			dim[rank++] = 1;
	}
	return rank;
}

/* Some other factors of the number of elements. */
static int other_shape(struct program *p, int64_t count, int64_t *dim)
{
	int rank = 0;
	while (rank < 4 && count > 1) {
		int64_t by = 1 + rng_below(&p->rng, 8);
		if (by > 1 && count % by == 0) {
			dim[rank++] = by;
			count /= by;
		} else if (rng_chance(&p->rng, 10)) {
			break;
		}
	}
	dim[rank++] = count;
	return rank;
}

static bool make_reshape(struct program *p)
{
	struct attrs a = { 0 };
	int64_t dim[MAX_RANK], count = 1;
	int x = any_value(p, 0);
	if (x < 0)
		return false;
	struct type t = value_at(p, x)->type;
	int rank = rng_chance(&p->rng, 70) ? nested_shape(p, &t, dim) : other_shape(p, type_count(&t), dim);
	for (int i = 0; i < rank; i++)
		count *= dim[i];
	if (count != type_count(&t))
		return false;
	attrs_dims(p, &a, ATTR_SHAPE, dim, rank);
	return add_op(p, OP_RESHAPE, 1, &x, &a) >= 0;
}

static bool make_permute(struct program *p)
{
	struct attrs a = { 0 };
	int64_t dims[MAX_RANK];
	int x = any_value(p, 2);
	if (x < 0)
		return false;
	int rank = value_at(p, x)->type.rank;
	for (int i = 0; i < rank; i++)
		dims[i] = i;
	for (int i = rank - 1; i > 0; i--) {
		int64_t j = rng_below(&p->rng, i + 1), d = dims[i];
		dims[i] = dims[j];
		dims[j] = d;
	}
	attrs_dims(p, &a, ATTR_DIMS, dims, rank);
	return add_op(p, OP_PERMUTE, 1, &x, &a) >= 0;
}

/* Where no dim is 1, one is put in first. */
static bool make_expand(struct program *p)
{
	struct attrs a = { 0 }, b = { 0 };
	int64_t dim[MAX_RANK];
	int x = any_value(p, 0);
	if (x < 0 || value_at(p, x)->type.rank > 4)
		return false;
	struct type t = value_at(p, x)->type;
	int at = (int)rng_below(&p->rng, t.rank + 1);
	for (int i = 0; i <= t.rank; i++)
		dim[i] = i < at ? t.dim[i] : i == at ? 1 : t.dim[i - 1];
	attrs_dims(p, &a, ATTR_SHAPE, dim, t.rank + 1);
	x = add_op(p, OP_RESHAPE, 1, &x, &a);
	for (int i = 0; i <= t.rank; i++)
		if (dim[i] == 1 && (i == at || rng_chance(&p->rng, 50)))
			dim[i] = some_size(p);
	attrs_dims(p, &b, ATTR_SHAPE, dim, t.rank + 1);
	return x >= 0 && add_op(p, OP_EXPAND, 1, &x, &b) >= 0;
}

static bool make_slice(struct program *p)
{
	struct attrs a = { 0 };
	int x = any_value(p, 1);
	if (x < 0)
		return false;
	const struct type *t = &value_at(p, x)->type;
	int dim = (int)rng_below(&p->rng, t->rank);
	int64_t start = rng_chance(&p->rng, 30) ? 0 : rng_below(&p->rng, t->dim[dim] + 1);
	int64_t end = rng_chance(&p->rng, 30) ? t->dim[dim] : start + rng_below(&p->rng, t->dim[dim] - start + 1);
	attrs_int(&a, ATTR_DIM, dim);
	attrs_int(&a, ATTR_START, start);
	attrs_int(&a, ATTR_END, end);
	if (rng_chance(&p->rng, 35))
		attrs_int(&a, ATTR_STEP, 1 + rng_below(&p->rng, 3));
	return add_op(p, OP_SLICE, 1, &x, &a) >= 0;
}

/* --- movement --- */

static void join_facts(struct program *p, int at, int first)
{
	struct value *v = value_at(p, at);
	for (int k = first; k < v->count; k++) {
		const struct value *x = value_at(p, v->in[k]);
		v->most = largest(v->most, x->most);
		v->err = largest(v->err, x->err);
		v->whole &= x->whole;
		v->special |= x->special;
		v->zeros |= x->zeros;
		v->partial |= x->partial;
		v->index = v->index > 0 && x->index > 0 ? (v->index > x->index ? v->index : x->index) : 0;
	}
}

static bool make_cat(struct program *p)
{
	struct attrs a = { 0 };
	int64_t dim[MAX_RANK];
	int count = 1 + (int)rng_below(&p->rng, 3), in[MOST_IN] = { any_value(p, 1) };
	if (in[0] < 0)
		return false;
	struct type t = value_at(p, in[0])->type;
	int along = (int)rng_below(&p->rng, t.rank);
	struct want w = { .dtype = (enum dtype)t.dtype, .most_rank = 5 };
	memcpy(dim, t.dim, sizeof(dim));
	for (int k = 1; k < count; k++) {
		dim[along] = rng_chance(&p->rng, 50) ? t.dim[along] : rng_below(&p->rng, 4);
		if ((in[k] = operand_of(p, &w, t.rank, dim)) < 0)
			return false;
	}
	attrs_int(&a, ATTR_DIM, along);
	int at = add_op(p, OP_CAT, count, in, &a);
	if (at >= 0)
		join_facts(p, at, 1);
	return at >= 0;
}

static bool make_copy(struct program *p)
{
	int x = any_value(p, 0);
	return x >= 0 && add_op(p, OP_COPY, 1, &x, NULL) >= 0;
}

static bool make_cast(struct program *p)
{
	static const enum dtype to[] = { DT_F32, DT_F32, DT_BF16, DT_F16, DT_F64, DT_I64, DT_I32, DT_I8, DT_U8, DT_BOOL, DT_U32 };
	enum dtype t = to[rng_below(&p->rng, COUNT(to))];
	struct want w = { .most_rank = 5, .clean = !dtype_is_float(t) };
	struct attrs a = { 0 };
	int x = pick(p, &w);
	if (x < 0)
		return false;
	attrs_int(&a, ATTR_DTYPE, t);
	int at = add_op(p, OP_CAST, 1, &x, &a);
	if (at < 0)
		return false;
	struct value *v = value_at(p, at);
	v->partial = false;
	v->index = t == DT_BOOL ? 2 : v->whole && v->most <= top_whole(t) ? v->index : 0;
	settle(p, at);
	return true;
}

/* To fp8, moved there, and back. */
static bool make_codes(struct program *p)
{
	struct want w = { .class = DC_FLOAT, .least_rank = 2, .most_rank = 5, .clean = true, .most = 440 };
	struct attrs a = { 0 }, b = { 0 }, c = { 0 };
	int64_t dims[MAX_RANK];
	int x = pick(p, &w);
	if (x < 0)
		return false;
	int rank = value_at(p, x)->type.rank;
	for (int i = 0; i < rank; i++)
		dims[i] = rank - 1 - i;
	attrs_int(&a, ATTR_DTYPE, rng_chance(&p->rng, 50) ? DT_E4M3 : DT_E5M2);
	x = add_op(p, OP_CAST, 1, &x, &a);
	attrs_dims(p, &b, ATTR_DIMS, dims, rank);
	x = x < 0 ? -1 : add_op(p, OP_PERMUTE, 1, &x, &b);
	attrs_int(&c, ATTR_DTYPE, DT_F32);
	x = x < 0 ? -1 : add_op(p, OP_CAST, 1, &x, &c);
	if (x < 0)
		return false;
	value_at(p, x)->most = value_at(p, x)->special ? 57344 : 1.2 * value_at(p, x)->most; /* infinities saturate */
	value_at(p, x)->index = 0;
	value_at(p, x)->partial = false;
	settle(p, x);
	return true;
}

/* --- by index --- */

static bool make_embedding(struct program *p)
{
	struct want w = { .least_rank = 1, .most_rank = 3 };
	int in[2] = { pick(p, &w) };
	if (in[0] < 0 || value_at(p, in[0])->type.dim[0] == 0)
		return false;
	struct want ids = { .class = DC_INT, .dtype = rng_chance(&p->rng, 70) ? DT_I64 : DT_I32, .most_rank = 3,
			    .index = value_at(p, in[0])->type.dim[0] };
	int64_t dim[2] = { some_size(p), some_size(p) };
	in[1] = pick(p, &ids);
	if (in[1] < 0 || rng_chance(&p->rng, 40))
		in[1] = operand_of(p, &ids, (int)rng_below(&p->rng, 3), dim);
	int at = in[1] < 0 ? -1 : add_op(p, OP_EMBEDDING, 2, in, NULL);
	if (at < 0)
		return false;
	value_at(p, at)->partial = !p->exact;
	return true;
}

/* Indices along `dim` of x, of its rank, no larger than it elsewhere. */
static int index_along(struct program *p, const struct type *t, int dim)
{
	int64_t shape[MAX_RANK];
	struct want ids = { .class = DC_INT, .dtype = rng_chance(&p->rng, 70) ? DT_I64 : DT_I32, .most_rank = 5, .index = t->dim[dim] };
	for (int i = 0; i < t->rank; i++)
		shape[i] = i == dim ? some_size(p) : rng_chance(&p->rng, 80) ? t->dim[i] : rng_below(&p->rng, t->dim[i] + 1);
	return t->dim[dim] == 0 ? -1 : operand_of(p, &ids, t->rank, shape);
}

static bool make_gather(struct program *p)
{
	struct attrs a = { 0 };
	int in[2] = { any_value(p, 1) };
	if (in[0] < 0)
		return false;
	struct type t = value_at(p, in[0])->type;
	int dim = (int)rng_below(&p->rng, t.rank);
	in[1] = index_along(p, &t, dim);
	attrs_int(&a, ATTR_DIM, dim);
	int at = in[1] < 0 ? -1 : add_op(p, OP_GATHER, 2, in, &a);
	if (at < 0)
		return false;
	value_at(p, at)->partial = false;
	return true;
}

/* What is put into operand 0, perhaps added. */
static void put_facts(struct program *p, int at, int last, bool add)
{
	struct value *v = value_at(p, at);
	const struct value src = *value_at(p, v->in[last]);
	double times = (double)type_count(&value_at(p, v->in[1])->type);
	v->partial = false;
	v->special |= src.special;
	v->zeros |= src.zeros;
	v->whole &= src.whole;
	v->index = 0;
	v->most = add ? v->most + times * src.most : largest(v->most, src.most);
	v->err = add ? v->err + times * src.err : largest(v->err, src.err);
	if (add && v->err > 0)
		v->err += times * half_ulp((enum dtype)v->type.dtype) * v->most;
	settle(p, at);
}

static bool make_scatter(struct program *p)
{
	struct want w = { .least_rank = 1, .most_rank = 4, .most = 1e5 };
	struct attrs a = { 0 };
	int in[3] = { pick(p, &w) };
	if (in[0] < 0)
		return false;
	struct type t = value_at(p, in[0])->type;
	int dim = (int)rng_below(&p->rng, t.rank);
	bool add = rng_chance(&p->rng, 50);
	in[1] = index_along(p, &t, dim);
	if (in[1] < 0)
		return false;
	struct type ids = value_at(p, in[1])->type;
	w.dtype = (enum dtype)t.dtype;
	w.least_rank = 0;
	in[2] = operand_of(p, &w, rng_chance(&p->rng, 20) ? 0 : ids.rank, ids.dim);
	attrs_int(&a, ATTR_DIM, dim);
	if (add)
		attrs_int(&a, ATTR_ACCUMULATE, 1);
	int at = in[2] < 0 ? -1 : add_op(p, OP_SCATTER, 3, in, &a);
	if (at >= 0)
		put_facts(p, at, 2, add);
	return at >= 0;
}

/* Some dims and an index for each; the indices broadcast. Gives how many. */
static int some_indices(struct program *p, const struct type *t, int64_t *dims, int *in)
{
	int count = 0, rank = (int)rng_below(&p->rng, 3);
	int64_t shape[2] = { some_size(p), some_size(p) };
	for (int i = 0; i < t->rank && count < 3; i++) {
		if (!rng_chance(&p->rng, 50))
			continue;
		struct want ids = { .class = DC_INT, .dtype = rng_chance(&p->rng, 70) ? DT_I64 : DT_I32, .most_rank = 3, .index = t->dim[i] };
		int64_t dim[2] = { shape[0], shape[1] };
		for (int d = 0; d < rank; d++)
			dim[d] = count > 0 && rng_chance(&p->rng, 20) ? 1 : dim[d];
		int skip = count > 0 && rank > 0 && rng_chance(&p->rng, 20);
		int ids_at = t->dim[i] == 0 ? -1 : operand_of(p, &ids, rank - skip, dim + skip);
		if (ids_at < 0)
			return 0;
		dims[count] = i;
		in[count++] = ids_at;
	}
	return count;
}

static bool make_index(struct program *p)
{
	struct attrs a = { 0 };
	int64_t dims[MAX_RANK];
	int in[MOST_IN] = { any_value(p, 1) };
	if (in[0] < 0)
		return false;
	struct type t = value_at(p, in[0])->type;
	int count = some_indices(p, &t, dims, in + 1);
	attrs_dims(p, &a, ATTR_DIMS, dims, count);
	int at = count == 0 ? -1 : add_op(p, OP_INDEX, count + 1, in, &a);
	if (at < 0)
		return false;
	value_at(p, at)->partial = false;
	return true;
}

static bool make_index_put(struct program *p)
{
	struct want w = { .least_rank = 1, .most_rank = 4, .most = 1e5 };
	struct attrs a = { 0 }, of = { 0 };
	int64_t dims[MAX_RANK];
	int in[MOST_IN] = { pick(p, &w) };
	if (in[0] < 0)
		return false;
	struct type t = value_at(p, in[0])->type;
	int count = some_indices(p, &t, dims, in + 1);
	bool add = rng_chance(&p->rng, 50);
	attrs_dims(p, &of, ATTR_DIMS, dims, count);
	int read = count == 0 ? -1 : add_op(p, OP_INDEX, count + 1, in, &of);
	if (read < 0)
		return false;
	value_at(p, read)->partial = false;
	struct type places = value_at(p, read)->type;
	int skip = rng_chance(&p->rng, 30) ? (int)rng_below(&p->rng, places.rank + 1) : 0;
	w.dtype = (enum dtype)t.dtype;
	w.least_rank = 0;
	in[count + 1] = operand_of(p, &w, places.rank - skip, places.dim + skip);
	a = of;
	if (add)
		attrs_int(&a, ATTR_ACCUMULATE, 1);
	int at = in[count + 1] < 0 ? -1 : add_op(p, OP_INDEX_PUT, count + 2, in, &a);
	if (at < 0)
		return false;
	put_facts(p, at, count + 1, add);
	double times = (double)type_count(&places);
	struct value *v = value_at(p, at);
	const struct value *src = value_at(p, in[count + 1]);
	if (add) {
		v->most += times * src->most;
		v->err += times * (src->err + (src->err > 0 ? half_ulp((enum dtype)t.dtype) * v->most : 0));
		settle(p, at);
	}
	return true;
}

/* --- order --- */

static bool make_sort(struct program *p)
{
	bool top = rng_chance(&p->rng, 50), indices = rng_chance(&p->rng, 60);
	struct want w = { .least_rank = 1, .most_rank = 5, .clean = indices };
	struct attrs a = { 0 };
	int x = pick(p, &w);
	if (x < 0)
		return false;
	struct type t = value_at(p, x)->type;
	int dim = (int)rng_below(&p->rng, t.rank);
	attrs_int(&a, ATTR_DIM, dim);
	if (top)
		attrs_int(&a, ATTR_K, rng_below(&p->rng, t.dim[dim] + 1));
	if (rng_chance(&p->rng, 50))
		attrs_int(&a, ATTR_LARGEST, rng_below(&p->rng, 2));
	int at = add_op(p, top ? OP_TOPK : OP_SORT, 1, &x, &a);
	if (at < 0)
		return false;
	value_at(p, at)->partial = false;
	if (!indices)
		return true;
	struct attrs second = { 0 };
	attrs_int(&second, ATTR_INDEX, 1);
	at = add_op(p, OP_PROJ, 1, &at, &second);
	struct value *v = value_at(p, at);
	v->index = t.dim[dim];
	v->most = (double)t.dim[dim];
	settle(p, at);
	return true;
}

static bool make_triangle(struct program *p)
{
	struct attrs a = { 0 };
	int x = any_value(p, 2);
	if (x < 0)
		return false;
	if (rng_chance(&p->rng, 60))
		attrs_int(&a, ATTR_DIAGONAL, rng_below(&p->rng, 5) - 2);
	int at = add_op(p, rng_chance(&p->rng, 50) ? OP_TRIU : OP_TRIL, 1, &x, &a);
	if (at < 0)
		return false;
	value_at(p, at)->partial = false;
	return true;
}

const struct maker move_makers[] = {
	{ "reshape", make_reshape, 18 },   { "permute", make_permute, 9 }, { "expand", make_expand, 6 },  { "slice", make_slice, 8 },
	{ "cat", make_cat, 8 },		   { "copy", make_copy, 2 },	   { "cast", make_cast, 7 },	  { "codes", make_codes, 3 },
	{ "embedding", make_embedding, 7 }, { "gather", make_gather, 5 },  { "scatter", make_scatter, 5 }, { "index", make_index, 5 },
	{ "index_put", make_index_put, 4 }, { "sort", make_sort, 6 },	   { "triangle", make_triangle, 3 },
};
const int move_maker_count = COUNT(move_makers);
