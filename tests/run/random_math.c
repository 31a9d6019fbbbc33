/* Makers of ops that compute: pointwise ops, products, reductions, rows. */
#include "random.h"

#include <math.h>

#define ANY { .most_rank = 5 }
#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define HUGE_NUMBER 3.4e38

static double largest(double a, double b)
{
	return a > b ? a : b;
}

/* --- pointwise, one operand --- */

/* slope: how much it can enlarge a difference (0: it takes none); same: integers stay what they are. */
struct unary { enum op op; double slope; bool same, wild; double most; };

static const struct unary unaries[] = {
	{ OP_NEG, 1, true, false, 0 },	      { OP_ABS, 1, true, false, 0 },	  { OP_RELU, 1, true, false, 0 },
	{ OP_SIGN, 0, true, false, 1 },	      { OP_FLOOR, 0, true, false, 0 },	  { OP_CEIL, 0, true, false, 0 },
	{ OP_ROUND, 0, true, false, 0 },      { OP_TRUNC, 0, true, false, 0 },	  { OP_EXP, 0, false, true, 0 },
	{ OP_EXP2, 0, false, true, 0 },	      { OP_EXPM1, 0, false, true, 0 },	  { OP_LOG, 0, false, true, 0 },
	{ OP_LOG2, 0, false, true, 0 },	      { OP_LOG1P, 0, false, true, 0 },	  { OP_SQRT, 0, false, true, 0 },
	{ OP_RSQRT, 0, false, true, 0 },      { OP_RECIPROCAL, 0, false, true, 0 }, { OP_SIN, 1, false, false, 1 },
	{ OP_COS, 1, false, false, 1 },	      { OP_TAN, 0, false, true, 0 },	  { OP_SINH, 0, false, true, 0 },
	{ OP_COSH, 0, false, true, 0 },	      { OP_TANH, 1, false, false, 1 },	  { OP_ASIN, 0, false, true, 2 },
	{ OP_ACOS, 0, false, true, 4 },	      { OP_ATAN, 1, false, false, 2 },	  { OP_ERF, 1.2, false, false, 1 },
	{ OP_SIGMOID, 1, false, false, 1 },   { OP_SILU, 1.2, false, false, 0 },  { OP_GELU, 1.2, false, false, 0 },
	{ OP_GELU_TANH, 1.2, false, false, 0 }, { OP_SOFTPLUS, 1, false, false, 0 }, { OP_MISH, 1.2, false, false, 0 },
};

static bool make_unary(struct program *p)
{
	const struct unary *u = &unaries[rng_below(&p->rng, COUNT(unaries))];
	struct want w = ANY;
	w.clean = u->slope == 0;
	w.signs = u->wild;
	int x = pick(p, &w);
	int at = x < 0 ? -1 : add_op(p, u->op, 1, &x, NULL);
	if (at < 0)
		return false;
	struct value *v = value_at(p, at);
	v->most = u->most > 0 ? u->most : u->wild ? HUGE_NUMBER : u->same ? v->most : v->most + 1;
	v->err *= u->slope;
	v->whole = u->same && (v->whole || u->op != OP_NEG) && (v->whole || (u->op != OP_ABS && u->op != OP_RELU));
	v->special |= u->wild || isinf(v->most);
	v->zeros |= v->partial && u->op == OP_NEG;
	v->partial &= u->op == OP_NEG;
	v->index = u->op == OP_ABS || u->op == OP_RELU ? v->index : 0;
	settle(p, at);
	return true;
}

static bool make_test(struct program *p)
{
	static const enum op ops[] = { OP_LOGICAL_NOT, OP_ISNAN, OP_ISINF, OP_BITWISE_NOT };
	enum op op = ops[rng_below(&p->rng, 4)];
	struct want w = ANY;
	w.clean = true;
	w.class = op != OP_BITWISE_NOT ? DC_NONE : rng_chance(&p->rng, 50) ? DC_INT : DC_BOOLEAN;
	int x = pick(p, &w);
	int at = x < 0 ? -1 : add_op(p, op, 1, &x, NULL);
	if (at < 0)
		return false;
	struct value *v = value_at(p, at);
	v->most = v->most + 1;
	v->partial = false;
	v->index = v->type.dtype == DT_BOOL ? 2 : 0;
	settle(p, at);
	return true;
}

/* --- pointwise, two operands --- */

enum kind { LINEAR, PRODUCT, SELECT, ROUGH, BITS, TEST };
struct binary { enum op op; enum kind kind; };

static const struct binary binaries[] = {
	{ OP_ADD, LINEAR },	    { OP_ADD, LINEAR },		{ OP_ADD, LINEAR },	   { OP_SUB, LINEAR },
	{ OP_MUL, PRODUCT },	    { OP_MUL, PRODUCT },	{ OP_MAXIMUM, SELECT },	   { OP_MINIMUM, SELECT },
	{ OP_DIV, ROUGH },	    { OP_POW, ROUGH },		{ OP_ATAN2, ROUGH },	   { OP_REMAINDER, ROUGH },
	{ OP_FMOD, ROUGH },	    { OP_FLOOR_DIVIDE, ROUGH }, { OP_BITWISE_AND, BITS },  { OP_BITWISE_OR, BITS },
	{ OP_BITWISE_XOR, BITS },   { OP_SHIFT_LEFT, BITS },	{ OP_SHIFT_RIGHT, BITS },  { OP_EQ, TEST },
	{ OP_NE, TEST },	    { OP_LT, TEST },		{ OP_LE, TEST },	   { OP_GT, TEST },
	{ OP_GE, TEST },	    { OP_LOGICAL_AND, TEST },	{ OP_LOGICAL_OR, TEST },   { OP_LOGICAL_XOR, TEST },
};

/* The shape of x with some dims left out in front or of size 1. */
static int broadcast_shape(struct program *p, const struct type *x, int64_t *dim)
{
	bool same = rng_chance(&p->rng, 55);
	int skip = same ? 0 : (int)rng_below(&p->rng, x->rank + 1);
	for (int i = skip; i < x->rank; i++)
		dim[i - skip] = !same && rng_chance(&p->rng, 35) ? 1 : x->dim[i];
	return x->rank - skip;
}

/* Another operand of any type that broadcasts with x. */
static int partner(struct program *p, int x, const struct want *like)
{
	int64_t dim[MAX_RANK];
	struct want w = *like;
	struct type t = value_at(p, x)->type;
	int rank = broadcast_shape(p, &t, dim);
	w.least_rank = 0;
	if (rng_chance(&p->rng, 75))
		w.dtype = (enum dtype)t.dtype;
	if (w.class == DC_NONE && w.dtype == DT_NONE && rng_chance(&p->rng, 30))
		w.class = rng_chance(&p->rng, 70) ? DC_INT : DC_BOOLEAN;
	return operand_of(p, &w, rank, dim);
}

static void binary_facts(struct program *p, int at, enum kind kind)
{
	struct value *v = value_at(p, at);
	const struct value a = *value_at(p, v->in[0]), b = *value_at(p, v->in[1]);
	v->special = a.special || b.special || kind == ROUGH;
	v->zeros = a.zeros || b.zeros || (kind == LINEAR && (a.partial || b.partial));
	v->partial = kind == LINEAR && (a.partial || b.partial);
	v->whole = a.whole && b.whole && kind != ROUGH;
	v->index = kind == TEST ? 2 : 0;
	if (kind == LINEAR || kind == BITS) {
		v->most = a.most + b.most;
		v->err = a.err + b.err;
		if (v->partial && !(v->whole && v->most <= top_whole((enum dtype)v->type.dtype)))
			v->err += 2 * half_ulp((enum dtype)v->type.dtype) * v->most;
	} else if (kind == PRODUCT) {
		v->most = a.most * b.most;
		v->err = a.err * b.most + b.err * a.most + a.err * b.err;
	} else {
		v->most = kind == ROUGH ? HUGE_NUMBER : largest(a.most, b.most);
		v->err = largest(a.err, b.err);
	}
	if (kind == BITS)
		v->most = HUGE_NUMBER;
	settle(p, at);
}

static bool make_binary(struct program *p)
{
	const struct binary *b = &binaries[rng_below(&p->rng, COUNT(binaries))];
	struct want w = ANY;
	w.clean = b->kind >= ROUGH;
	w.signs = b->kind == ROUGH;
	w.class = b->kind != BITS ? DC_NONE : rng_chance(&p->rng, 60) ? DC_INT : DC_BOOLEAN;
	int in[2] = { pick(p, &w) };
	if (in[0] < 0)
		return false;
	if (value_at(p, in[0])->most > 1e6 && b->kind < ROUGH)
		return false;
	w.most = b->kind < ROUGH ? 1e6 : 0;
	in[1] = partner(p, in[0], &w);
	if (in[1] < 0)
		return false;
	if (rng_chance(&p->rng, 50)) {
		int swap = in[0];
		in[0] = in[1];
		in[1] = swap;
	}
	int at = add_op(p, b->op, 2, in, NULL);
	if (at >= 0)
		binary_facts(p, at, b->kind);
	return at >= 0;
}

static bool make_where(struct program *p)
{
	struct want w = ANY, cond = { .class = DC_BOOLEAN, .most_rank = 5, .clean = true };
	int in[3] = { -1, pick(p, &w), -1 };
	if (in[1] < 0)
		return false;
	in[2] = partner(p, in[1], &w);
	int64_t dim[MAX_RANK];
	struct type t = value_at(p, in[1])->type;
	int rank = broadcast_shape(p, &t, dim);
	in[0] = operand_of(p, &cond, rank, dim);
	if (in[0] < 0 || in[2] < 0)
		return false;
	int at = add_op(p, OP_WHERE, 3, in, NULL);
	if (at < 0)
		return false;
	struct value *v = value_at(p, at);
	const struct value *a = value_at(p, in[1]), *b = value_at(p, in[2]);
	v->most = largest(a->most, b->most);
	v->err = largest(a->err, b->err);
	v->whole = a->whole && b->whole;
	v->special = a->special || b->special;
	v->zeros = a->zeros || b->zeros;
	v->partial = false;
	v->index = 0;
	settle(p, at);
	return true;
}

/* --- sums --- */

/* A sum of `count` products, each at most `most`, with `err` of the operands: in any order, over ranks too. */
static void sum_facts(struct program *p, int at, int64_t count, double most, double err)
{
	struct value *v = value_at(p, at);
	enum dtype t = (enum dtype)v->type.dtype;
	double inside = half_ulp(t == DT_F64 ? DT_F64 : DT_F32);
	v->most = most * (double)(count > 0 ? count : 1);
	v->err = err * (double)count;
	v->partial = !p->exact;
	v->index = 0;
	bool number = !dtype_is_float(t), exact_whole = v->whole && v->most * inside <= 1 && v->most <= top_whole(t);
	if (!p->exact && !number && !exact_whole)
		v->err += inside * (double)(count + 8) * v->most + 2 * half_ulp(t) * v->most;
	v->zeros |= !p->exact;
	settle(p, at);
}

static int some_dims(struct program *p, int rank, int64_t *dims)
{
	int count = 0;
	for (int i = 0; i < rank; i++)
		if (rng_chance(&p->rng, 45))
			dims[count++] = i;
	if (count == 0 && rank > 0)
		dims[count++] = rng_below(&p->rng, rank);
	return count;
}

static bool make_sum(struct program *p)
{
	static const enum op ops[] = { OP_SUM, OP_SUM, OP_MEAN };
	enum op op = ops[rng_below(&p->rng, 3)];
	struct want w = { .least_rank = 1, .most_rank = 5, .most = 1e5 };
	struct attrs a = { 0 };
	int64_t dims[MAX_RANK], size = 1;
	int x = pick(p, &w);
	if (x < 0)
		return false;
	struct value from = *value_at(p, x);
	int count = some_dims(p, from.type.rank, dims);
	for (int i = 0; i < count; i++)
		size *= from.type.dim[dims[i]];
	attrs_dims(p, &a, ATTR_DIMS, dims, count);
	if (rng_chance(&p->rng, 50))
		attrs_int(&a, ATTR_KEEPDIM, rng_below(&p->rng, 2));
	int at = add_op(p, op, 1, &x, &a);
	if (at < 0)
		return false;
	value_at(p, at)->whole &= op == OP_SUM;
	value_at(p, at)->special |= op == OP_MEAN && size == 0;
	sum_facts(p, at, size, from.most, from.err);
	return true;
}

static bool make_reduce(struct program *p)
{
	static const enum op ops[] = { OP_REDUCE_MAX, OP_REDUCE_MIN, OP_PROD, OP_ANY, OP_ALL, OP_ARGMAX, OP_ARGMIN, OP_NORM };
	enum op op = ops[rng_below(&p->rng, 8)];
	bool choice = op == OP_REDUCE_MAX || op == OP_REDUCE_MIN, index = op == OP_ARGMAX || op == OP_ARGMIN;
	struct want w = { .least_rank = 1, .most_rank = 5, .clean = !choice, .class = op == OP_NORM ? DC_FLOAT : DC_NONE };
	struct attrs a = { 0 };
	int64_t dims[MAX_RANK];
	int x = pick(p, &w);
	if (x < 0)
		return false;
	struct value from = *value_at(p, x);
	int count = some_dims(p, from.type.rank, dims);
	static const double orders[] = { 1, 2, 2, INFINITY, 0, 3, -INFINITY };
	attrs_dims(p, &a, ATTR_DIMS, dims, index ? 1 : count);
	if (rng_chance(&p->rng, 50))
		attrs_int(&a, ATTR_KEEPDIM, rng_below(&p->rng, 2));
	if (op == OP_NORM)
		attrs_float(&a, ATTR_ORD, orders[rng_below(&p->rng, 7)]);
	int at = add_op(p, op, 1, &x, &a);
	if (at < 0)
		return false;
	struct value *v = value_at(p, at);
	v->most = choice ? from.most : index ? (double)from.type.dim[dims[0]] : op == OP_ANY || op == OP_ALL ? 1 : HUGE_NUMBER;
	v->index = index ? from.type.dim[dims[0]] : v->type.dtype == DT_BOOL ? 2 : choice ? from.index : 0;
	v->whole &= choice;
	v->special |= op == OP_PROD || op == OP_NORM;
	v->partial = false;
	settle(p, at);
	return true;
}

static bool make_cumsum(struct program *p)
{
	struct want w = { .least_rank = 1, .most_rank = 5, .most = 1e5 };
	struct attrs a = { 0 };
	int x = pick(p, &w);
	if (x < 0)
		return false;
	int dim = (int)rng_below(&p->rng, value_at(p, x)->type.rank);
	attrs_int(&a, ATTR_DIM, dim);
	int at = add_op(p, OP_CUMSUM, 1, &x, &a);
	if (at < 0)
		return false;
	struct value *v = value_at(p, at);
	double n = (double)v->type.dim[dim] + 1;
	v->most *= n;
	v->err *= 2 * n;
	v->partial = false;
	v->index = 0;
	settle(p, at);
	return true;
}

/* --- products --- */

/* Letters of a get roles; b gets new dims of its own; the result in some order. */
struct letters {
	char a[MAX_RANK], b[MAX_RANK], out[MAX_RANK];
	int na, nb, nout;
	int64_t size[26], k;
};

static void put(char *to, int *count, char letter)
{
	to[(*count)++] = letter;
}

static void shuffle(struct rng *r, char *at, int count)
{
	for (int i = count - 1; i > 0; i--) {
		int j = (int)rng_below(r, i + 1);
		char c = at[i];
		at[i] = at[j];
		at[j] = c;
	}
}

static void choose_letters(struct program *p, const struct type *a, struct letters *l)
{
	int free = 5 - a->rank > 0 ? 5 - a->rank : 0, own = (int)rng_below(&p->rng, 3);
	*l = (struct letters){ .k = 1 };
	for (int i = 0; i < a->rank; i++) {
		char letter = (char)('a' + i);
		int64_t role = rng_below(&p->rng, 4);
		put(l->a, &l->na, letter);
		l->size[i] = a->dim[i];
		if (role == 0 || role == 3) /* contracted */
			put(l->b, &l->nb, letter);
		if (role == 1) { /* batch */
			put(l->b, &l->nb, letter);
			put(l->out, &l->nout, letter);
		}
		if (role == 2)
			put(l->out, &l->nout, letter);
		l->k *= role == 0 || role == 3 ? a->dim[i] : 1;
	}
	for (int i = 0; i < own && i <= free; i++) {
		char letter = (char)('a' + a->rank + i);
		l->size[letter - 'a'] = some_size(p);
		put(l->b, &l->nb, letter);
		put(l->out, &l->nout, letter);
	}
	if (rng_chance(&p->rng, 60))
		shuffle(&p->rng, l->b, l->nb);
	if (rng_chance(&p->rng, 50))
		shuffle(&p->rng, l->out, l->nout);
}

/* Codes differ by up to an eighth where what is cast differs, or the scales do. */
static double cast_err(const struct program *p, const struct value *x)
{
	bool same = x->err == 0 && (p->recipe == RECIPE_TENSOR || p->whole_scales);
	return p->recipe == RECIPE_NONE || same ? 0 : x->most / 8;
}

/* A product, perhaps of codes, with k terms a sum. */
static void product_facts(struct program *p, int at, int64_t k)
{
	struct value *v = value_at(p, at);
	const struct value x = *value_at(p, v->in[0]), y = *value_at(p, v->in[1]);
	double xe = x.err + cast_err(p, &x), ye = y.err + cast_err(p, &y);
	v->whole = x.whole && y.whole && p->recipe == RECIPE_NONE;
	v->special |= y.special;
	v->zeros |= y.zeros;
	sum_facts(p, at, k, x.most * y.most * (p->recipe == RECIPE_NONE ? 1 : 1.2), xe * y.most + ye * x.most + xe * ye);
}

static bool make_matmul(struct program *p)
{
	struct want w = { .class = DC_FLOAT, .most_rank = 4, .most = 300 };
	struct letters l;
	struct attrs attrs = { 0 };
	int64_t dim[MAX_RANK];
	int in[2] = { pick(p, &w) };
	if (in[0] < 0)
		return false;
	struct type a = value_at(p, in[0])->type;
	choose_letters(p, &a, &l);
	for (int i = 0; i < l.nb; i++)
		dim[i] = l.size[l.b[i] - 'a'];
	w.dtype = (enum dtype)a.dtype;
	in[1] = operand_of(p, &w, l.nb, dim);
	if (in[1] < 0)
		return false;
	attrs_string(&attrs, ATTR_EQ, arena_printf(&p->arena, "%.*s,%.*s->%.*s", l.na, l.a, l.nb, l.b, l.nout, l.out));
	if (rng_chance(&p->rng, 10))
		attrs_int(&attrs, ATTR_DTYPE, a.dtype == DT_BF16 ? DT_F32 : DT_BF16);
	int at = add_op(p, OP_MATMUL, 2, in, &attrs);
	if (at < 0)
		return false;
	product_facts(p, at, l.k);
	return true;
}

/* Over a dim so long that sums of parts cost less to move than the operands. */
static bool make_long_product(struct program *p)
{
	struct attrs attrs = { 0 };
	enum dtype t = some_float(p);
	int64_t k = 64 << rng_below(&p->rng, 3), a[2] = { some_size(p), k }, b[2] = { k, some_size(p) };
	enum data_kind kind = rng_chance(&p->rng, 70) ? DATA_SMALL : DATA_FRACTION;
	int in[2] = { new_source(p, t, 2, a, kind, 0), new_source(p, t, 2, b, kind, 0) };
	attrs_string(&attrs, ATTR_EQ, "ab,bc->ac");
	int at = in[0] < 0 || in[1] < 0 ? -1 : add_op(p, OP_MATMUL, 2, in, &attrs);
	if (at >= 0)
		product_facts(p, at, k);
	return at >= 0;
}

/* x [.., K] times a parameter [N, K] or [K, N]: what fp8 recipes take. */
static bool make_linear(struct program *p)
{
	struct want w = { .class = DC_FLOAT, .least_rank = 1, .most_rank = 4, .most = 300 };
	char text[3 * MAX_RANK + 4];
	struct attrs attrs = { 0 };
	int in[2] = { pick(p, &w) };
	if (in[0] < 0)
		return false;
	struct type a = value_at(p, in[0])->type;
	bool transposed = rng_chance(&p->rng, 60);
	int64_t n = some_size(p), k = a.dim[a.rank - 1], dim[2] = { transposed ? n : k, transposed ? k : n };
	in[1] = new_param(p, (enum dtype)a.dtype, 2, dim);
	if (in[1] < 0)
		return false;
	equation_linear(a.rank, transposed, text);
	attrs_string(&attrs, ATTR_EQ, arena_strdup(&p->arena, text));
	int at = add_op(p, OP_MATMUL, 2, in, &attrs);
	if (at < 0)
		return false;
	product_facts(p, at, k);
	return true;
}

static int sdpa_operand(struct program *p, enum dtype t, int rank, int64_t *dim, int64_t heads, int64_t rows, int64_t wide)
{
	struct want w = { .class = DC_FLOAT, .dtype = t, .most_rank = 5, .most = 20 };
	dim[rank - 3] = heads;
	dim[rank - 2] = rows;
	dim[rank - 1] = wide;
	return operand_of(p, &w, rank, dim);
}

static int sdpa_mask(struct program *p, enum dtype t, const int64_t *lead, int rank, int64_t heads, int64_t rows, int64_t keys)
{
	int64_t dim[MAX_RANK];
	memcpy(dim, lead, sizeof(dim));
	dim[rank - 3] = heads;
	dim[rank - 2] = rows;
	dim[rank - 1] = keys;
	struct type whole = type_make(t, rank, dim);
	int count = broadcast_shape(p, &whole, dim);
	struct want w = { .class = DC_BOOLEAN, .most_rank = 5, .clean = true };
	if (rng_chance(&p->rng, 40))
		w = (struct want){ .class = DC_FLOAT, .dtype = t, .most_rank = 5, .most = 4 };
	return operand_of(p, &w, count, dim);
}

static void sdpa_facts(struct program *p, int at, double scale)
{
	struct value *v = value_at(p, at);
	const struct value q = *value_at(p, v->in[0]), k = *value_at(p, v->in[1]), x = *value_at(p, v->in[2]);
	double wide = (double)q.type.dim[q.type.rank - 1], keys = (double)k.type.dim[k.type.rank - 2];
	double err = scale * wide * (q.err * k.most + k.err * q.most + q.err * k.err);
	if (v->count == 4)
		err += value_at(p, v->in[3])->err;
	if (!p->exact)
		err += 0x1p-20 * (wide * scale * q.most * k.most + keys + 8);
	v->most = x.most;
	v->err = 4 * err * x.most + x.err + (p->exact ? 0 : 2 * half_ulp((enum dtype)v->type.dtype) * x.most);
	v->whole = v->partial = false;
	v->index = 0;
	for (int i = 1; i < v->count; i++)
		v->special |= value_at(p, v->in[i])->special;
	v->zeros = true;
	settle(p, at);
}

static bool make_sdpa(struct program *p)
{
	struct attrs a = { 0 };
	int64_t dim[MAX_RANK] = { 0 }, groups = 1 + rng_below(&p->rng, 4), group = rng_chance(&p->rng, 50) ? 1 : 1 + rng_below(&p->rng, 3);
	int rank = 3 + (int)rng_below(&p->rng, 3), count = 3, in[4];
	enum dtype t = some_float(p);
	for (int i = 0; i < rank - 3; i++)
		dim[i] = 1 + rng_below(&p->rng, 3);
	int64_t rows = some_size(p), wide = 1 + rng_below(&p->rng, 4);
	int64_t keys = rng_chance(&p->rng, 60) ? rows : some_size(p);
	double scale = 0.25 + 0.25 * (double)rng_below(&p->rng, 3);
	in[0] = sdpa_operand(p, t, rank, dim, groups * group, rows, wide);
	in[1] = sdpa_operand(p, t, rank, dim, groups, keys, wide);
	in[2] = sdpa_operand(p, t, rank, dim, groups, keys, 1 + rng_below(&p->rng, 4));
	if (rng_chance(&p->rng, 50))
		in[count++] = sdpa_mask(p, t, dim, rank, groups * group, rows, keys);
	attrs_float(&a, ATTR_SCALE, scale);
	if (rng_chance(&p->rng, 35))
		attrs_int(&a, ATTR_CAUSAL, 1);
	for (int i = 0; i < count; i++)
		if (in[i] < 0)
			return false;
	int at = add_op(p, OP_SDPA, count, in, &a);
	if (at >= 0)
		sdpa_facts(p, at, scale);
	return at >= 0;
}

/* --- rows --- */

static bool make_softmax(struct program *p)
{
	struct want w = { .class = DC_FLOAT, .least_rank = 1, .most_rank = 5 };
	struct attrs a = { 0 };
	int x = pick(p, &w);
	if (x < 0)
		return false;
	bool log = rng_chance(&p->rng, 40);
	struct value from = *value_at(p, x);
	int dim = (int)rng_below(&p->rng, from.type.rank);
	attrs_int(&a, ATTR_DIM, dim);
	int at = add_op(p, log ? OP_LOG_SOFTMAX : OP_SOFTMAX, 1, &x, &a);
	if (at < 0)
		return false;
	struct value *v = value_at(p, at);
	v->most = log ? 2 * from.most + 10 : 1;
	v->err *= 3;
	if (from.err > 0)
		v->err += 0x1p-21 * (double)(from.type.dim[dim] + 8) * v->most;
	v->whole = v->partial = false;
	v->index = 0;
	settle(p, at);
	return true;
}

/* Over the last one or two dims; eps so large that a small difference stays small. */
static bool make_norm(struct program *p)
{
	struct want w = { .class = DC_FLOAT, .least_rank = 1, .most_rank = 5, .most = 1e4 };
	struct attrs a = { 0 };
	int in[3] = { pick(p, &w) }, count = 1;
	if (in[0] < 0)
		return false;
	bool layer = rng_chance(&p->rng, 50);
	struct value from = *value_at(p, in[0]);
	int wide = from.type.rank > 1 && rng_chance(&p->rng, 30) ? 2 : 1, first = from.type.rank - wide;
	int64_t dims[2] = { first, first + 1 }, n = 1;
	for (int i = first; i < from.type.rank; i++)
		n *= from.type.dim[i];
	struct want affine = { .class = DC_FLOAT, .dtype = (enum dtype)from.type.dtype, .most_rank = 2, .most = 8 };
	for (int i = 0; layer && i < 2 && rng_chance(&p->rng, 60); i++)
		if ((in[count++] = operand_of(p, &affine, wide, from.type.dim + first)) < 0)
			return false;
	attrs_dims(p, &a, ATTR_DIMS, dims, wide);
	attrs_float(&a, ATTR_EPS, 0.25);
	int at = add_op(p, layer ? OP_LAYER_NORM : OP_RMS_NORM, count, in, &a);
	if (at < 0)
		return false;
	struct value *v = value_at(p, at);
	v->most = (double)(n + 1);
	v->err *= 12;
	for (int i = 1; i < count; i++) {
		const struct value *y = value_at(p, in[i]);
		v->err = i == 1 ? v->err * y->most + y->err * v->most : v->err + y->err;
		v->most = i == 1 ? v->most * y->most : v->most + y->most;
		v->special |= y->special;
		v->zeros |= y->zeros;
	}
	if (from.err > 0)
		v->err += 0x1p-20 * v->most;
	v->whole = v->partial = false;
	v->index = 0;
	settle(p, at);
	return true;
}

const struct maker math_makers[] = {
	{ "unary", make_unary, 14 },	 { "test", make_test, 3 },   { "binary", make_binary, 22 }, { "where", make_where, 4 },
	{ "sum", make_sum, 8 },		 { "reduce", make_reduce, 9 }, { "cumsum", make_cumsum, 3 }, { "matmul", make_matmul, 16 },
	{ "long_product", make_long_product, 8 },
	{ "linear", make_linear, 14 },	 { "sdpa", make_sdpa, 5 },   { "softmax", make_softmax, 4 }, { "norm", make_norm, 5 },
};
const int math_maker_count = COUNT(math_makers);
