/* fold: pointwise ops and casts, by the expressions of kernels/pointwise.def in the kernels' types. */
#include "fold_element.h"
#include "fold_eval.h"

#include <string.h>

enum { FLOATS = 1, INTS = 2, BOTH = 3 };

#define ONE(name, suffix, type, expression)                           \
	static type name##_##suffix(type a, type b, type c)           \
	{                                                             \
		(void)a, (void)b, (void)c;                            \
		return (type)(expression);                            \
	}

#define T float
#define F(function) function##f
#define POINTWISE(name, text, arity, types, result, float_expr, int_expr) ONE(name, f32, float, float_expr)
#include "pointwise.def"
#undef POINTWISE
#undef T
#undef F

#define T double
#define F(function) function
#define POINTWISE(name, text, arity, types, result, float_expr, int_expr) ONE(name, f64, double, float_expr)
#include "pointwise.def"
#undef POINTWISE
#undef T
#undef F

#define POINTWISE(name, text, arity, types, result, float_expr, int_expr) ONE(name, i64, int64_t, int_expr)
#include "pointwise.def"
#undef POINTWISE

static const struct row {
	const char *text;
	int arity, types;
	float (*f32)(float, float, float);
	double (*f64)(double, double, double);
	int64_t (*i64)(int64_t, int64_t, int64_t);
} rows[] = {
#define POINTWISE(name, text, arity, types, result, float_expr, int_expr) \
	{ text, arity, types, name##_f32, name##_f64, name##_i64 },
#include "pointwise.def"
#undef POINTWISE
};

static const struct row *row_of(const char *text)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(rows[i].text, text) == 0)
			return &rows[i];
	return NULL;
}

/* --- the type computed in: as cpu_pointwise() has it --- */

enum compute { IN_F32, IN_F64, IN_I64 };

static enum compute compute_of(enum dtype t)
{
	return t == DT_F64 ? IN_F64 : dtype_is_float(t) ? IN_F32 : IN_I64;
}

static enum compute compute_in(const struct row *r, const struct folded *const *in, enum dtype out)
{
	bool f32 = false;
	for (int k = r->arity == 3; k < r->arity; k++) { /* the condition of where does not count */
		if (in[k]->type->dtype == DT_F64)
			return IN_F64;
		f32 |= compute_of((enum dtype)in[k]->type->dtype) == IN_F32;
	}
	if (f32)
		return IN_F32;
	if (out == DT_F64)
		return IN_F64;
	return compute_of(out) == IN_F32 || !(r->types & INTS) ? IN_F32 : IN_I64;
}

/* --- elements --- */

struct job {
	const struct row *row;
	const struct folded *in[3];
	const struct type *type;
	enum compute compute;
};

#define RUN(suffix, C, load, store)                                                           \
	static void run_##suffix(const struct job *j, const int64_t *at, char *to)            \
	{                                                                                     \
		C x[3] = { 0, 0, 0 };                                                         \
		for (int k = 0; k < j->row->arity; k++)                                       \
			x[k] = load((enum dtype)j->in[k]->type->dtype,                        \
				    folded_at(j->in[k], at, j->type->rank));                  \
		store((enum dtype)j->type->dtype, j->row->suffix(x[0], x[1], x[2]), to);      \
	}
RUN(f32, float, load_float, store_float)
RUN(f64, double, load_double, store_double)
RUN(i64, int64_t, load_integer, store_integer)

static void run(struct fold *f, const struct job *j, struct folded *out)
{
	static void (*const runs[])(const struct job *, const int64_t *, char *) = { run_f32, run_f64, run_i64 };
	int64_t at[MAX_RANK] = { 0 };
	char *to = folded_room(f, out);
	do {
		runs[j->compute](j, at, to);
		to += dtype_size((enum dtype)j->type->dtype);
	} while (folded_next(j->type, at));
}

static float same_f32(float a, float b, float c) { return (void)b, (void)c, a; }
static double same_f64(double a, double b, double c) { return (void)b, (void)c, a; }
static int64_t same_i64(int64_t a, int64_t b, int64_t c) { return (void)b, (void)c, a; }
static const struct row cast_row = { "cast", 1, BOTH, same_f32, same_f64, same_i64 };

bool fold_pointwise(struct fold *f, struct node_id n, struct folded *out)
{
	enum op op = graph_op(f->g, n);
	struct job j = { .type = out->type };
	for (int k = 0; k < graph_node(f->g, n)->count; k++)
		j.in[k] = folded_in(f, n, k);
	if (op == OP_CAST) {
		j.row = &cast_row;
		j.compute = compute_of((enum dtype)j.in[0]->type->dtype);
	} else {
		bool flip = op == OP_BITWISE_NOT && out->type->dtype == DT_BOOL;
		j.row = row_of(flip ? "logical_not" : op_text(op));
		if (j.row == NULL)
			return false;
		j.compute = compute_in(j.row, j.in, (enum dtype)out->type->dtype);
		if (!(j.row->types & (j.compute == IN_I64 ? INTS : FLOATS)))
			return false;
	}
	run(f, &j, out);
	return true;
}
