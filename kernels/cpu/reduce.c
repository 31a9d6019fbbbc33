/*
 * Reductions over a set of dims, and cumulative sums.
 *
 * The reduced elements of each result come in row-major order, in blocks of SUM_BLOCK; each op
 * says what it does with a block.
 */
#include "internal.h"

#include <math.h>

/* State of one result. */
struct state {
	struct sum_f32 f32;
	struct sum_f64 f64;
	int64_t i64;
	double best; /* max, min, product of f64; NaN once seen */
	int64_t at, seen; /* argmax: where; elements so far */
	bool started;
};

/* A run of the elements, in the type computed in; only that member is set. */
struct block {
	enum compute in;
	int64_t n;
	const float *f32;
	const double *f64;
	const int64_t *i64;
};

/* --- sums: of the elements, or of what `map` makes of them --- */

enum map { MAP_NONE, MAP_SQUARE, MAP_ABS, MAP_NONZERO, MAP_POWER };

#define MAPS(suffix, T, abs, pow)                                                     \
	static T map_##suffix(enum map map, double p, T x)                            \
	{                                                                             \
		switch (map) {                                                        \
		case MAP_SQUARE: return x * x;                                        \
		case MAP_ABS: return abs(x);                                          \
		case MAP_NONZERO: return x != 0;                                      \
		case MAP_POWER: return pow(abs(x), (T)p);                             \
		default: return x;                                                    \
		}                                                                     \
	}
MAPS(f32, float, fabsf, powf)
MAPS(f64, double, fabs, pow)

static enum map map_of(const struct reduce *r)
{
	if (r->op == REDUCE_SUMSQ)
		return MAP_SQUARE;
	if (r->op != REDUCE_NORM)
		return MAP_NONE;
	return r->p == 2 ? MAP_SQUARE : r->p == 1 ? MAP_ABS : r->p == 0 ? MAP_NONZERO : MAP_POWER;
}

static void add_f32(const struct reduce *r, struct state *s, const struct block *b)
{
	float mapped[SUM_BLOCK];
	enum map map = map_of(r);
	if (map == MAP_NONE) {
		sum_add_f32(&s->f32, block_sum_f32(b->f32, b->n));
		return;
	}
	for (int64_t i = 0; i < b->n; i++)
		mapped[i] = map_f32(map, r->p, b->f32[i]);
	sum_add_f32(&s->f32, block_sum_f32(mapped, b->n));
}

/* f64 elements, or f32 ones summed exactly: what is summed is rounded to f32 first, as without `exact`. */
static void add_f64(const struct reduce *r, struct state *s, const struct block *b)
{
	double mapped[SUM_BLOCK];
	enum map map = map_of(r);
	for (int64_t i = 0; i < b->n; i++)
		mapped[i] = b->in == IN_F64 ? map_f64(map, r->p, b->f64[i])
					    : (double)map_f32(map, r->p, b->f32[i]);
	sum_add_f64(&s->f64, block_sum_f64(mapped, b->n));
}

static void add_i64(const struct reduce *r, struct state *s, const struct block *b)
{
	uint64_t sum = (uint64_t)s->i64;
	for (int64_t i = 0; i < b->n; i++) {
		uint64_t x = (uint64_t)b->i64[i];
		sum += r->op == REDUCE_SUMSQ ? x * x : x;
	}
	s->i64 = (int64_t)sum;
}

static void do_sum(const struct reduce *r, struct state *s, const struct block *b)
{
	if (b->in == IN_I64)
		add_i64(r, s, b);
	else if (b->in == IN_F64 || r->exact)
		add_f64(r, s, b);
	else
		add_f32(r, s, b);
}

/* --- the others, an element at a time; floats as f64, where they are exact --- */

static double element(const struct block *b, int64_t i)
{
	return b->in == IN_F32 ? (double)b->f32[i] : b->f64[i];
}

/* Whether x replaces `best`; NaN beats all numbers. */
static bool better(const struct reduce *r, double x, double best)
{
	bool least = r->op == REDUCE_MIN || r->op == REDUCE_ARGMIN || (r->op == REDUCE_NORM && r->p < 0);
	if (x != x || best != best)
		return best == best;
	return least ? x < best : x > best;
}

static void do_best(const struct reduce *r, struct state *s, const struct block *b)
{
	bool least = r->op == REDUCE_MIN || r->op == REDUCE_ARGMIN;
	for (int64_t i = 0; i < b->n; i++) {
		double x = b->in == IN_I64 ? 0 : element(b, i);
		int64_t n = b->in == IN_I64 ? b->i64[i] : 0;
		if (r->op == REDUCE_NORM)
			x = fabs(x);
		bool wins = b->in != IN_I64 ? better(r, x, s->best) : least ? n < s->i64 : n > s->i64;
		if (!s->started || wins) {
			s->best = x;
			s->i64 = n;
			s->at = s->seen + i;
		}
		s->started = true;
	}
	s->seen += b->n;
}

static void do_prod(const struct reduce *r, struct state *s, const struct block *b)
{
	for (int64_t i = 0; i < b->n; i++)
		if (b->in == IN_I64)
			s->i64 = (int64_t)((uint64_t)s->i64 * (uint64_t)b->i64[i]);
		else
			s->best *= element(b, i);
	(void)r;
}

static void do_logic(const struct reduce *r, struct state *s, const struct block *b)
{
	for (int64_t i = 0; i < b->n; i++) {
		bool x = b->in == IN_I64 ? b->i64[i] != 0 : element(b, i) != 0;
		s->i64 = r->op == REDUCE_ANY ? s->i64 | x : s->i64 & x;
	}
}

/* --- results --- */

static void store_sum(const struct reduce *r, enum compute in, const struct state *s, enum dtype t, void *to)
{
	bool wide = in == IN_F64 || r->exact;
	double f64 = sum_total_f64(&s->f64);
	float f32 = sum_total_f32(&s->f32);
	if (r->op == REDUCE_MEAN) {
		f64 /= (double)r->count;
		f32 /= (float)r->count;
	} else if (r->op == REDUCE_NORM && r->p == 2) {
		f64 = sqrt(f64);
		f32 = sqrtf(f32);
	} else if (map_of(r) == MAP_POWER) {
		f64 = pow(f64, 1 / r->p);
		f32 = powf(f32, (float)(1 / r->p));
	}
	if (in == IN_I64)
		store_i64(t, to, 1, &s->i64, 1);
	else if (wide)
		store_f64(t, to, 1, &f64, 1);
	else
		store_f32(t, to, 1, &f32, 1);
}

/* The best of nothing lies outside of narrow integers: the end of their range is as good. */
static int64_t into_range(enum dtype t, int64_t x)
{
	bool no_sign = t == DT_BOOL || t == DT_U8 || t == DT_U32;
	int bits = t == DT_BOOL ? 1 : 8 * dtype_size(t);
	if (bits == 64)
		return x;
	int64_t least = no_sign ? 0 : -((int64_t)1 << (bits - 1)), most = ((int64_t)1 << (no_sign ? bits : bits - 1)) - 1;
	return x < least ? least : x > most ? most : x;
}

static void store_best(const struct reduce *r, enum compute in, const struct state *s, enum dtype t, void *to)
{
	bool index = r->op == REDUCE_ARGMAX || r->op == REDUCE_ARGMIN;
	if (index)
		store_i64(t, to, 1, &s->at, 1);
	else if (in == IN_I64)
		store_i64(t, to, 1, &(int64_t){ into_range(t, s->i64) }, 1);
	else
		store_f64(t, to, 1, &s->best, 1);
}

static void store_logic(const struct reduce *r, enum compute in, const struct state *s, enum dtype t, void *to)
{
	(void)r, (void)in;
	store_i64(t, to, 1, &s->i64, 1);
}

static const struct row {
	void (*add)(const struct reduce *r, struct state *s, const struct block *b);
	void (*store)(const struct reduce *r, enum compute in, const struct state *s, enum dtype t, void *to);
	double best; /* starts there */
	int64_t i64;
} rows[] = {
	[REDUCE_SUM] = { do_sum, store_sum, 0, 0 },
	[REDUCE_MEAN] = { do_sum, store_sum, 0, 0 },
	[REDUCE_SUMSQ] = { do_sum, store_sum, 0, 0 },
	[REDUCE_NORM] = { do_sum, store_sum, 0, 0 },
	[REDUCE_PROD] = { do_prod, store_best, 1, 1 },
	[REDUCE_MAX] = { do_best, store_best, -INFINITY, INT64_MIN },
	[REDUCE_MIN] = { do_best, store_best, INFINITY, INT64_MAX },
	[REDUCE_ARGMAX] = { do_best, store_best, 0, 0 },
	[REDUCE_ARGMIN] = { do_best, store_best, 0, 0 },
	[REDUCE_ANY] = { do_logic, store_logic, 0, 0 },
	[REDUCE_ALL] = { do_logic, store_logic, 0, 1 },
};
static const struct row norm_inf = { do_best, store_best, 0, 0 };

/* --- gathering blocks --- */

/* Fills buffers until a block is full, then hands it on. */
struct feed {
	const struct row *row;
	const struct reduce *reduce;
	struct state state;
	enum compute in;
	int64_t n;
	union {
		float f32[SUM_BLOCK];
		double f64[SUM_BLOCK];
		int64_t i64[SUM_BLOCK];
	} u;
};

static void flush(struct feed *f)
{
	struct block b = { f->in, f->n, f->u.f32, f->u.f64, f->u.i64 };
	if (f->n)
		f->row->add(f->reduce, &f->state, &b);
	f->n = 0;
}

static void load(enum compute in, enum dtype t, const void *at, int64_t step, void *to, int64_t n)
{
	if (in == IN_F32)
		load_f32(t, at, step, to, n);
	else if (in == IN_F64)
		load_f64(t, at, step, to, n);
	else
		load_i64(t, at, step, to, n);
}

static void feed_run(struct feed *f, enum dtype t, const char *at, int64_t step, int64_t n)
{
	while (n > 0) {
		int64_t m = n < SUM_BLOCK - f->n ? n : SUM_BLOCK - f->n;
		load(f->in, t, at, step, f->in == IN_F32 ? (void *)(f->u.f32 + f->n) : f->u.f64 + f->n, m);
		f->n += m;
		n -= m;
		at += m * step * dtype_size(t);
		if (f->n == SUM_BLOCK)
			flush(f);
	}
}

/* x with only the dims of the mask (or only the others). */
static struct view select_dims(const struct view *x, uint32_t dims, bool in_mask)
{
	struct view v = *x;
	for (int d = x->rank - 1; d >= 0; d--)
		if ((dims >> d & 1) != in_mask)
			v = view_drop(&v, d);
	return v;
}

static struct view result_view(const struct view *out, const struct view *x, uint32_t dims)
{
	struct view kept = select_dims(x, dims, false);
	struct view v = out->rank == x->rank ? select_dims(out, dims, false) : *out;
	return view_broadcast(&v, kept.rank, kept.shape);
}

static void feed_start(struct feed *f)
{
	f->state.f32.blocks = f->state.f64.blocks = 0;
	f->state.best = f->row->best;
	f->state.i64 = f->row->i64;
	f->state.at = f->state.seen = 0;
	f->state.started = false;
}

static void feed_finish(struct feed *f, enum dtype t, void *to)
{
	flush(f);
	f->row->store(f->reduce, f->in, &f->state, t, to);
}

static void reduce_one(struct feed *f, struct view *inner, void *from, enum dtype t, void *to)
{
	struct walk w;
	inner->data = from;
	feed_start(f);
	walk_start(&w, 1, (const struct view *[]){ inner });
	for (; w.more; walk_next(&w))
		feed_run(f, inner->dtype, w.at[0], w.step[0], w.row);
	feed_finish(f, t, to);
}

/* --- results whose operands lie side by side: a strip of them at once, so that whole cache lines are read --- */

#define STRIP 16

static void feed_strip(struct feed *f, enum dtype t, const char *at, int64_t n)
{
	union { float f32[STRIP]; double f64[STRIP]; int64_t i64[STRIP]; } x;
	load(f->in, t, at, 1, &x, n);
	for (int64_t j = 0; j < n; j++)
		if (f->in == IN_F32)
			f[j].u.f32[f[j].n++] = x.f32[j];
		else
			f[j].u.i64[f[j].n++] = x.i64[j]; /* the bits of an f64, too */
	bool full = f->n == SUM_BLOCK;
	for (int64_t j = 0; full && j < n; j++)
		flush(&f[j]);
}

static void reduce_strip(struct feed *f, struct view *inner, void *from, int64_t n, enum dtype t, char *to, int64_t step)
{
	struct walk w;
	inner->data = from;
	for (int64_t j = 0; j < n; j++)
		feed_start(&f[j]);
	walk_start(&w, 1, (const struct view *[]){ inner });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i++)
			feed_strip(f, inner->dtype, w.at[0] + i * w.step[0] * dtype_size(inner->dtype), n);
	for (int64_t j = 0; j < n; j++)
		feed_finish(&f[j], t, to + j * step * dtype_size(t));
}

/* A row of results: w has them and their first operands. */
static void reduce_row(struct feed *f, struct view *inner, const struct walk *w, enum dtype t)
{
	bool strips = w->step[1] == 1 && inner->rank > 0 && inner->stride[inner->rank - 1] != 1;
	for (int64_t i = 0, n; i < w->row; i += n) {
		char *from = w->at[1] + i * w->step[1] * dtype_size(inner->dtype);
		char *to = w->at[0] + i * w->step[0] * dtype_size(t);
		n = !strips ? 1 : w->row - i < STRIP ? w->row - i : STRIP;
		if (strips)
			reduce_strip(f, inner, from, n, t, to, w->step[0]);
		else
			reduce_one(f, inner, from, t, to);
	}
}

void cpu_reduce(const struct reduce *r, const struct view *x, const struct view *out)
{
	bool infinite = r->op == REDUCE_NORM && isinf(r->p);
	struct view outer = select_dims(x, r->dims, false), inner = select_dims(x, r->dims, true);
	struct view result = result_view(out, x, r->dims);
	enum compute in = compute_of(x->dtype);
	/* Integers have no mean or norm: as floats. */
	if (in == IN_I64 && compute_of(out->dtype) != IN_I64)
		in = compute_of(out->dtype);
	struct feed f[STRIP];
	for (int j = 0; j < STRIP; j++) {
		f[j].row = infinite ? &norm_inf : &rows[r->op];
		f[j].reduce = r;
		f[j].in = in;
		f[j].n = 0;
	}
	struct walk w;
	walk_start(&w, 2, (const struct view *[]){ &result, &outer });
	for (; w.more; walk_next(&w))
		reduce_row(f, &inner, &w, out->dtype);
}

/* Elements of one line, in order. */
static void cumsum_line(const struct view *x, const struct view *out, bool integer)
{
	double f = 0;
	uint64_t n = 0;
	for (int64_t i = 0; i < x->shape[0]; i++) {
		const void *from = view_at(x, i * x->stride[0]);
		void *to = view_at(out, i * out->stride[0]);
		double df;
		int64_t dn;
		load_f64(x->dtype, from, 1, &df, 1);
		load_i64(x->dtype, from, 1, &dn, 1);
		f += df;
		n += (uint64_t)dn;
		dn = (int64_t)n;
		if (integer)
			store_i64(out->dtype, to, 1, &dn, 1);
		else
			store_f64(out->dtype, to, 1, &f, 1);
	}
}

void cpu_cumsum(int dim, const struct view *x, const struct view *out)
{
	bool integer = compute_of(x->dtype) == IN_I64 && compute_of(out->dtype) == IN_I64;
	struct view lines_x = view_drop(x, dim), lines_out = view_drop(out, dim);
	struct view line_x = view_dims(x, dim, 1), line_out = view_dims(out, dim, 1);
	struct walk w;
	walk_start(&w, 2, (const struct view *[]){ &lines_out, &lines_x });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i++) {
			line_x.data = w.at[1] + i * w.step[1] * dtype_size(x->dtype);
			line_out.data = w.at[0] + i * w.step[0] * dtype_size(out->dtype);
			cumsum_line(&line_x, &line_out, integer);
		}
}
