/* Random numbers, sources, and what every maker of ops needs. */
#include "random.h"

/* --- numbers --- */

uint64_t rng_next(struct rng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

int64_t rng_below(struct rng *r, int64_t n)
{
	return (int64_t)(rng_next(r) % (uint64_t)n);
}

bool rng_chance(struct rng *r, int percent)
{
	return rng_below(r, 100) < percent;
}

/* --- types --- */

double half_ulp(enum dtype t)
{
	switch (t) {
	case DT_F64: return 0x1p-53;
	case DT_F32: return 0x1p-24;
	case DT_F16: return 0x1p-11;
	case DT_BF16: return 0x1p-8;
	default: return 0;
	}
}

double top_whole(enum dtype t)
{
	if (dtype_is_float(t))
		return 1 / half_ulp(t);
	if (t == DT_BOOL)
		return 1;
	return ldexp(1, 8 * dtype_size(t) - (t == DT_U8 || t == DT_U32 ? 0 : 1));
}

int64_t some_size(struct program *p)
{
	return p->sizes[rng_below(&p->rng, 5)];
}

enum dtype some_float(struct program *p)
{
	static const enum dtype of[] = { DT_F32, DT_F32, DT_F32, DT_F32, DT_BF16, DT_BF16, DT_F16, DT_F64 };
	return of[rng_below(&p->rng, 8)];
}

/* --- elements --- */

static double some_element(struct rng *r, enum data_kind kind, int64_t index)
{
	static const double special[] = { NAN, INFINITY, -INFINITY, -0.0, 0.0, 1, -1, 3 };
	double fraction = (double)rng_below(r, 1 << 20) / (1 << 18) - 2;
	switch (kind) {
	case DATA_SMALL: return (double)(rng_below(r, 7) - 3);
	case DATA_INDEX: return (double)rng_below(r, index);
	case DATA_SPECIAL: return rng_chance(r, 12) ? special[rng_below(r, 8)] : fraction;
	default: return fraction;
	}
}

static void *some_elements(struct program *p, const struct value *v)
{
	struct rng r = { p->seed * 1000003 + p->values.count };
	enum dtype t = (enum dtype)v->type.dtype;
	int64_t count = type_count(&v->type);
	char *out = arena_array(&p->arena, (size_t)count + 1, (size_t)dtype_size(t));
	for (int64_t i = 0; i < count; i++) {
		double x = some_element(&r, v->data, v->index);
		store_double(t, (t == DT_U8 || t == DT_U32) ? fabs(x) : x, out + i * dtype_size(t));
	}
	return out;
}

/* --- values --- */

struct value *value_at(const struct program *p, int v)
{
	return &p->values.items[v];
}

void attrs_dims(struct program *p, struct attrs *a, enum attr_key k, const int64_t *dims, int count)
{
	int64_t *kept = arena_array(&p->arena, (size_t)count + 1, sizeof(*kept));
	if (count > 0)
		memcpy(kept, dims, sizeof(*kept) * (size_t)count);
	attrs_ints(a, k, kept, count);
}

#define MOST_ELEMENTS 6000

int add_op(struct program *p, enum op op, int count, const int *in, const struct attrs *a)
{
	const struct type *types[MOST_IN];
	struct value v = { .op = op, .count = count };
	struct diag d = { 0 };
	if (count > 0)
		v = *value_at(p, in[0]);
	v.op = op;
	v.count = count;
	v.elements = NULL;
	v.attrs = a != NULL ? *a : (struct attrs){ 0 };
	for (int k = 0; k < count; k++) {
		v.in[k] = in[k];
		types[k] = &value_at(p, in[k])->type;
	}
	if (op_infer(p->context, op, types, count, &v.attrs, &v.type, &d) != FS_OK || type_count(&v.type) > MOST_ELEMENTS)
		return -1;
	*vec_push(&p->values) = v;
	return (int)p->values.count - 1;
}

void settle(struct program *p, int at)
{
	struct value *v = value_at(p, at);
	enum dtype t = (enum dtype)v->type.dtype;
	bool number = dtype_class(t) == DC_INT || dtype_class(t) == DC_BOOLEAN;
	if (number) {
		v->most = v->most > top_whole(t) ? top_whole(t) : v->most;
		v->err = 0;
		v->whole = true;
		v->special = v->zeros = false;
		return;
	}
	v->whole &= v->most <= top_whole(t);
	if (t == DT_F16 && v->most > 60000)
		v->special = true;
	v->index = v->whole && v->err == 0 && v->most < 1000 ? v->index : 0;
	if (v->err > 0)
		v->err += 2 * half_ulp(t) * v->most;
}

/* --- sources --- */

static void source_facts(struct value *v, enum data_kind kind, int64_t index)
{
	enum dtype_class class = dtype_class((enum dtype)v->type.dtype);
	if (class != DC_FLOAT && kind != DATA_INDEX)
		kind = DATA_SMALL;
	v->data = kind;
	v->index = kind == DATA_INDEX ? index : class == DC_BOOLEAN ? 2 : 0;
	v->most = kind == DATA_INDEX ? (double)index : 3;
	v->whole = kind == DATA_SMALL || kind == DATA_INDEX;
	v->special = kind == DATA_SPECIAL;
}

static int source(struct program *p, enum op op, enum dtype t, int rank, const int64_t *dim, enum data_kind kind,
		  int64_t index)
{
	struct attrs a = { 0 };
	attrs_string(&a, ATTR_NAME, arena_printf(&p->arena, "%c%u", op == OP_PARAM ? 'w' : 'x', p->values.count));
	attrs_int(&a, ATTR_DTYPE, t);
	attrs_dims(p, &a, ATTR_SHAPE, dim, rank);
	int at = add_op(p, op, 0, NULL, &a);
	if (at < 0)
		return -1;
	source_facts(value_at(p, at), kind, index);
	value_at(p, at)->elements = some_elements(p, value_at(p, at));
	return at;
}

/* The same elements, in the file. */
static int constant(struct program *p, enum dtype t, int rank, const int64_t *dim, enum data_kind kind, int64_t index)
{
	struct value v = { .type = type_make(t, rank, dim) };
	struct tensor tensor = { .dtype = (uint8_t)t, .rank = (uint8_t)rank };
	struct attrs a = { 0 };
	source_facts(&v, kind, index);
	for (int i = 0; i < rank; i++)
		tensor.dim[i] = dim[i];
	tensor.data = some_elements(p, &v);
	attrs_tensor(&a, arena_copy(&p->arena, &tensor, sizeof(tensor)));
	int at = add_op(p, OP_CONST, 0, NULL, &a);
	if (at >= 0)
		source_facts(value_at(p, at), kind, index);
	return at;
}

static int fill(struct program *p, enum dtype t, int rank, const int64_t *dim)
{
	struct attrs a = { 0 };
	double x = (double)rng_below(&p->rng, dtype_class(t) == DC_BOOLEAN ? 2 : 4);
	attrs_float(&a, ATTR_VALUE, x);
	attrs_int(&a, ATTR_DTYPE, t);
	attrs_dims(p, &a, ATTR_SHAPE, dim, rank);
	int at = add_op(p, OP_FILL, 0, NULL, &a);
	if (at >= 0)
		source_facts(value_at(p, at), DATA_INDEX, (int64_t)x + 1);
	return at;
}

static int iota(struct program *p, enum dtype t, const int64_t *dim)
{
	struct attrs a = { 0 };
	int64_t start = rng_below(&p->rng, 3), step = 1 + rng_below(&p->rng, 2);
	attrs_int(&a, ATTR_START, start);
	attrs_int(&a, ATTR_STEP, step);
	attrs_int(&a, ATTR_DTYPE, t);
	attrs_dims(p, &a, ATTR_SHAPE, dim, 1);
	int at = add_op(p, OP_IOTA, 0, NULL, &a);
	if (at >= 0)
		source_facts(value_at(p, at), DATA_INDEX, start + step * dim[0] + 1);
	return at;
}

int new_source(struct program *p, enum dtype t, int rank, const int64_t *dim, enum data_kind kind, int64_t index)
{
	int64_t how = rng_below(&p->rng, 20);
	if (how < 2)
		return constant(p, t, rank, dim, kind, index);
	if (how < 3 && (kind == DATA_SMALL || kind == DATA_FRACTION))
		return fill(p, t, rank, dim);
	if (how < 5 && rank == 1 && kind != DATA_INDEX && dtype_class(t) != DC_BOOLEAN)
		return iota(p, t, dim);
	return source(p, how < 12 ? OP_INPUT : OP_PARAM, t, rank, dim, kind, index);
}

int new_param(struct program *p, enum dtype t, int rank, const int64_t *dim)
{
	return source(p, OP_PARAM, t, rank, dim, rng_chance(&p->rng, 60) ? DATA_SMALL : DATA_FRACTION, 0);
}

/* --- operands --- */

bool value_fits(const struct value *v, const struct want *w)
{
	enum dtype t = (enum dtype)v->type.dtype;
	if (dtype_class(t) == DC_FP8 || (w->class != DC_NONE && dtype_class(t) != w->class))
		return false;
	if ((w->dtype != DT_NONE && t != w->dtype) || v->type.rank < w->least_rank || v->type.rank > w->most_rank)
		return false;
	if ((w->clean && v->err > 0) || (w->signs && v->zeros) || (w->most > 0 && v->most > w->most))
		return false;
	if (w->index > 0 && (v->index == 0 || v->index > w->index))
		return false;
	return v->err <= v->most * 0.02;
}

int pick(struct program *p, const struct want *w)
{
	int n = (int)p->values.count;
	for (int try = 0; try < 24 && n > 0; try++) {
		int back = (int)rng_below(&p->rng, rng_chance(&p->rng, 60) && n > 6 ? 6 : n);
		if (value_fits(value_at(p, n - 1 - back), w))
			return n - 1 - back;
	}
	return -1;
}

int operand_of(struct program *p, const struct want *w, int rank, const int64_t *dim)
{
	enum dtype t = w->dtype != DT_NONE ? w->dtype : w->class == DC_BOOLEAN ? DT_BOOL :
		       w->class == DC_INT ? DT_I64 : some_float(p);
	static const enum data_kind kinds[] = { DATA_SMALL, DATA_SMALL, DATA_SMALL, DATA_FRACTION };
	for (int v = (int)p->values.count - 1; v >= 0 && rng_chance(&p->rng, 97); v--) {
		const struct value *x = value_at(p, v);
		if (value_fits(x, w) && x->type.rank == rank &&
		    memcmp(x->type.dim, dim, sizeof(*dim) * (size_t)rank) == 0 && rng_chance(&p->rng, 50))
			return v;
	}
	return new_source(p, t, rank, dim, w->index > 0 ? DATA_INDEX : kinds[rng_below(&p->rng, 4)], w->index);
}

/* --- programs --- */

static void some_sizes(struct program *p)
{
	static const int64_t usual[] = { 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12 };
	static const int64_t with_fp8[] = { 16, 16, 16, 32, 32, 48, 5, 8 };
	bool empty = rng_chance(&p->rng, 4);
	for (int i = 0; i < 5; i++)
		p->sizes[i] = p->recipe != RECIPE_NONE ? with_fp8[rng_below(&p->rng, 8)] : usual[rng_below(&p->rng, 15)];
	if (empty)
		p->sizes[rng_below(&p->rng, 5)] = 0;
	if (p->recipe != RECIPE_NONE)
		p->sizes[0] = 16;
}

static void first_source(struct program *p)
{
	int64_t dim[4];
	int rank = 1 + (int)rng_below(&p->rng, 4);
	static const enum dtype of[] = { DT_I64, DT_I32, DT_BOOL, DT_I8, DT_U8, DT_I16 };
	static const enum data_kind kinds[] = { DATA_SMALL, DATA_SMALL, DATA_SMALL, DATA_FRACTION, DATA_FRACTION, DATA_SPECIAL };
	enum dtype t = rng_chance(&p->rng, 70) ? some_float(p) : of[rng_below(&p->rng, 6)];
	for (int i = 0; i < rank; i++)
		dim[i] = some_size(p);
	while (rank > 1 && type_count(&(struct type){ .rank = (uint8_t)rank, .dim = { dim[0], dim[1], rank > 2 ? dim[2] : 1,
				rank > 3 ? dim[3] : 1 } }) > 3000)
		rank--;
	new_source(p, t, rank, dim, kinds[rng_below(&p->rng, 6)], 0);
}

static void make_some(struct program *p)
{
	bool moves = rng_chance(&p->rng, 50);
	const struct maker *of = moves ? move_makers : math_makers;
	int count = moves ? move_maker_count : math_maker_count, sum = 0;
	for (int i = 0; i < count; i++)
		sum += of[i].weight;
	int64_t at = rng_below(&p->rng, sum);
	while (at >= of->weight)
		at -= of++->weight;
	of->make(p);
}

static void some_outputs(struct program *p)
{
	VEC(int) used = { 0 };
	for (uint32_t i = 0; i < p->values.count; i++)
		vec_push(&used);
	for (uint32_t i = 0; i < p->values.count; i++)
		for (int k = 0; k < p->values.items[i].count; k++)
			used.items[p->values.items[i].in[k]] = 1;
	for (uint32_t i = 0; i < p->values.count; i++)
		if (p->values.items[i].count > 0 && (!used.items[i] || rng_chance(&p->rng, 15)))
			*vec_push(&p->outputs) = (int)i;
	if (p->outputs.count == 0)
		*vec_push(&p->outputs) = (int)p->values.count - 1;
	vec_release(&used);
}

struct program *program_create(uint64_t seed)
{
	struct program *p = calloc(1, sizeof(*p));
	static const struct mesh none;
	if (p == NULL)
		abort();
	p->seed = seed;
	p->rng.state = seed * 0x2545f4914f6cdd1du;
	p->context = context_create(&none);
	p->exact = rng_chance(&p->rng, 30);
	int64_t recipe = rng_below(&p->rng, 10);
	p->recipe = recipe < 7 ? RECIPE_NONE : recipe < 8 ? RECIPE_TENSOR : RECIPE_ROW;
	p->pow2 = rng_chance(&p->rng, 25);
	p->whole_scales = rng_chance(&p->rng, 60);
	some_sizes(p);
	int sources = 1 + (int)rng_below(&p->rng, 3), steps = 3 + (int)rng_below(&p->rng, 12);
	for (int i = 0; i < sources; i++)
		first_source(p);
	for (int i = 0; i < steps; i++)
		make_some(p);
	some_outputs(p);
	return p;
}

void program_destroy(struct program *p)
{
	vec_release(&p->values);
	vec_release(&p->outputs);
	context_destroy(p->context);
	arena_release(&p->arena);
	free(p);
}

bool *program_reached(const struct program *p)
{
	bool *reached = calloc(p->values.count + 1u, sizeof(*reached));
	if (reached == NULL)
		abort();
	for (uint32_t i = 0; i < p->outputs.count; i++)
		reached[p->outputs.items[i]] = true;
	for (uint32_t i = p->values.count; i-- > 0;)
		for (int k = 0; reached[i] && k < p->values.items[i].count; k++)
			reached[p->values.items[i].in[k]] = true;
	return reached;
}
