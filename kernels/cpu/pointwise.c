/* The ops of pointwise.def over views: loaded in chunks to the type computed in, stored rounded once. */
#include "internal.h"
#include "scalar.h"

#include <string.h>

#define CHUNK 512

enum { FLOATS = 1, INTS = 2, BOTH = 3, SAME = 0, BOOL = 1 };

/* One dense loop per op and compute type. (void): not every op has three operands. */
#define LOOP(name, suffix, type, expression, target)                                                      \
	target static void name##_##suffix(const type *pa, const type *pb, const type *pc,                \
					   type *restrict y, int64_t n)                                   \
	{                                                                                                 \
		for (int64_t i = 0; i < n; i++) {                                                         \
			const type a = pa[i], b = pb[i], c = pc[i];                                       \
			(void)a, (void)b, (void)c;                                                        \
			y[i] = (type)(expression);                                                        \
		}                                                                                         \
	}

#define T float
#define F(function) function##f
#define POINTWISE(name, text, arity, types, result, float_expr, int_expr) LOOP(name, f32, float, float_expr, ANY_WIDTH)
#include "pointwise.def"
#undef POINTWISE
#undef T
#undef F

#define T double
#define F(function) function
#define POINTWISE(name, text, arity, types, result, float_expr, int_expr) LOOP(name, f64, double, float_expr, )
#include "pointwise.def"
#undef POINTWISE
#undef T
#undef F

#define POINTWISE(name, text, arity, types, result, float_expr, int_expr) LOOP(name, i64, int64_t, int_expr, )
#include "pointwise.def"
#undef POINTWISE

static const struct row {
	const char *text;
	int arity, types, result;
	void (*f32)(const float *, const float *, const float *, float *, int64_t);
	void (*f64)(const double *, const double *, const double *, double *, int64_t);
	void (*i64)(const int64_t *, const int64_t *, const int64_t *, int64_t *, int64_t);
} rows[PW_COUNT] = {
#define POINTWISE(name, text, arity, types, result, float_expr, int_expr) \
	[PW_##name] = { text, arity, types, result, name##_f32, name##_f64, name##_i64 },
#include "pointwise.def"
#undef POINTWISE
};

int pointwise_arity(enum pointwise_op op)
{
	return rows[op].arity;
}

const char *pointwise_text(enum pointwise_op op)
{
	return rows[op].text;
}

bool pointwise_is_bool(enum pointwise_op op)
{
	return rows[op].result == BOOL;
}

enum pointwise_op pointwise_from_text(const char *text)
{
	int op = 0;
	while (op < PW_COUNT && strcmp(rows[op].text, text) != 0)
		op++;
	return (enum pointwise_op)op;
}

static enum compute compute_in(enum pointwise_op op, const struct view *in, enum dtype out)
{
	bool f32 = false;
	for (int i = op == PW_WHERE; i < rows[op].arity; i++) {
		if (in[i].dtype == DT_F64)
			return IN_F64;
		f32 |= compute_of(in[i].dtype) == IN_F32;
	}
	if (f32)
		return IN_F32;
	if (out == DT_F64)
		return IN_F64;
	return compute_of(out) == IN_F32 || !(rows[op].types & INTS) ? IN_F32 : IN_I64;
}

/*
 * A run of each operand as a dense array of type T; operands that are one already stay in place.  A
 * result over its own operand goes through the buffer, because the loops are for arrays apart.
 */
#define RUNNER(suffix, T, home)                                                                        \
	static void run_##suffix(const struct row *r, const struct walk *w, const enum dtype *t,       \
				 int64_t first, int64_t n)                                             \
	{                                                                                              \
		T buffer[WALK_MAX][CHUNK];                                                             \
		const T *in[3] = { buffer[1], buffer[1], buffer[1] };                                  \
		int64_t skip = first * w->step[0] * dtype_size(t[0]);                                  \
		bool direct = t[0] == home && (w->step[0] == 1 || n == 1);                             \
		for (int i = 0; i < r->arity; i++) {                                                   \
			const char *at = w->at[i + 1] + first * w->step[i + 1] * dtype_size(t[i + 1]); \
			bool dense = t[i + 1] == home && (w->step[i + 1] == 1 || n == 1);              \
			in[i] = dense ? (const T *)(const void *)at : buffer[i + 1];                   \
			direct &= at != w->at[0] + skip;                                               \
			if (!dense)                                                                    \
				load_##suffix(t[i + 1], at, w->step[i + 1], buffer[i + 1], n);         \
		}                                                                                      \
		T *y = direct ? (T *)(void *)(w->at[0] + skip) : buffer[0];                            \
		for (int i = r->arity; i < 3; i++)                                                     \
			in[i] = in[0];                                                                 \
		r->suffix(in[0], in[1], in[2], y, n);                                                  \
		if (!direct)                                                                           \
			store_##suffix(t[0], w->at[0] + skip, w->step[0], buffer[0], n);               \
	}
RUNNER(f32, float, DT_F32)
RUNNER(f64, double, DT_F64)
RUNNER(i64, int64_t, DT_I64)

void cpu_pointwise(enum pointwise_op op, int arity, const struct view *in, const struct view *out)
{
	static void (*const run[])(const struct row *, const struct walk *, const enum dtype *, int64_t,
				   int64_t) = { run_f32, run_f64, run_i64 };
	if (op == PW_BITWISE_NOT && in[0].dtype == DT_BOOL)
		op = PW_LOGICAL_NOT;
	BUG_ON(arity != rows[op].arity);

	struct view wide[3];
	const struct view *views[WALK_MAX] = { out };
	enum dtype types[WALK_MAX] = { out->dtype };
	for (int i = 0; i < arity; i++) {
		wide[i] = view_broadcast(&in[i], out->rank, out->shape);
		views[i + 1] = &wide[i];
		types[i + 1] = in[i].dtype;
	}
	enum compute compute = compute_in(op, in, out->dtype);
	BUG_ON(!(rows[op].types & (compute == IN_I64 ? INTS : FLOATS)));

	struct walk w;
	walk_start(&w, arity + 1, views);
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i += CHUNK)
			run[compute](&rows[op], &w, types, i, w.row - i < CHUNK ? w.row - i : CHUNK);
}
