/*
 * Matrix products of any element types: blocks of both operands are converted to dense f32 or f64
 * panels, multiplied by a BLAS into a tile of accumulators, scaled and rounded once.
 * An operand that has the type already stays where it is.
 */
#include "internal.h"

#include <math.h>
#include <string.h>

#define BLOCK_M 1024
#define BLOCK_N 1024
#define BLOCK_K 1024
#define PAD 16 /* elements after each line of a panel: lines 4 KiB apart would share cache sets */

/* Part of an operand, in the type computed in. */
struct panel {
	const void *data;
	int64_t line; /* elements from line to line */
	bool transposed;
	int64_t row, column; /* of the operand: what is in there */
};

struct work {
	const struct panel_gemm *g;
	int64_t size; /* of an element of the panels */
	void *a_buffer, *b_buffer, *c_buffer, *other, *total;
	void *tile;   /* c_buffer, or a place in c */
	int64_t line; /* of the tile: elements from row to row */
	enum part part; /* of what is summed now */
	struct panel a, b;
};

static int64_t least(int64_t x, int64_t y)
{
	return x < y ? x : y;
}

static enum dtype panel_type(enum compute in)
{
	return in == IN_F64 ? DT_F64 : DT_F32;
}

static int64_t groups(const struct panel_gemm *g)
{
	return g->sa.data ? g->sa.shape[1] : 1;
}

/* BLAS takes a matrix where it is if one stride is 1 and the other at least a line. */
static bool in_place(const struct view *m, enum compute in, enum part part, bool transposed)
{
	int64_t line = m->stride[transposed], length = m->shape[!transposed];
	return m->dtype == panel_type(in) && part == PART_ALL && m->stride[!transposed] == 1 && line >= length &&
	       line <= INT32_MAX;
}

static void keep_part(double *x, int64_t n, enum part part)
{
	for (int64_t i = 0; i < n; i++)
		if ((fabs(x[i]) < 1) == (part == PART_LARGE))
			x[i] = 0;
}

static void load_line(const struct view *m, enum compute in, enum part part, const void *from, int64_t step,
		      void *to, int64_t n)
{
	if (in == IN_F32)
		load_f32(m->dtype, from, step, to, n);
	else
		load_f64(m->dtype, from, step, to, n);
	if (part != PART_ALL && m->dtype == DT_E5M2)
		keep_part(to, n, part);
}

static void fill(const struct work *w, const struct view *m, struct panel *p, void *buffer)
{
	int across = p->transposed, along = !p->transposed;
	int64_t n = m->shape[along];
	p->data = buffer;
	p->line = n + PAD;
	for (int64_t i = 0; i < m->shape[across]; i++)
		load_line(m, w->g->in, w->part, view_at(m, i * m->stride[across]), m->stride[along],
			  (char *)buffer + i * p->line * w->size, n);
}

/* Block [row, row + rows) x [column, column + columns) of m; p may hold it from the last time. */
static void take(const struct work *w, const struct view *m, int64_t row, int64_t rows, int64_t column,
		 int64_t columns, void *buffer, struct panel *p)
{
	struct view block = *m;
	if (p->data && p->row == row && p->column == column)
		return;
	block.data = view_at(m, row * m->stride[0] + column * m->stride[1]);
	block.shape[0] = rows;
	block.shape[1] = columns;
	p->row = row;
	p->column = column;
	p->transposed = m->stride[1] != 1 && m->stride[0] == 1;
	if (in_place(&block, w->g->in, w->part, p->transposed)) {
		p->data = block.data;
		p->line = m->stride[p->transposed];
	} else {
		fill(w, &block, p, buffer);
	}
}

static void multiply(const struct work *w, int64_t m, int64_t n, int64_t k, bool add, void *c, int64_t ldc)
{
	struct blas_call call = { m, n, k, w->a.data, w->b.data, c, w->a.transposed, w->b.transposed, add,
				  w->a.line, w->b.line, ldc };
	if (w->g->ordered)
		ordered_dgemm(&call);
	else if (w->g->in == IN_F64)
		blas_dgemm(&call);
	else
		blas_sgemm(&call);
}

/* A rectangle of c and the k that are summed into it. */
struct area { int64_t m, rows, n, columns, k, depth; };

static void sum_products(struct work *w, const struct area *r, void *c, int64_t ldc)
{
	const struct panel_gemm *g = w->g;
	for (int64_t k = 0; k < r->depth; k += BLOCK_K) {
		int64_t depth = least(BLOCK_K, r->depth - k);
		take(w, &g->a, r->m, r->rows, r->k + k, depth, w->a_buffer, &w->a);
		take(w, &g->b, r->k + k, depth, r->n, r->columns, w->b_buffer, &w->b);
		multiply(w, r->rows, r->columns, depth, k > 0, c, ldc);
	}
	if (r->depth == 0)
		for (int64_t i = 0; i < r->rows; i++)
			memset((char *)c + i * ldc * w->size, 0, (size_t)(r->columns * w->size));
}

/* Into the tile; PART_BOTH: the two sums are exact, their addition rounds. */
static void sum_tile(struct work *w, const struct area *r)
{
	static const enum part parts[] = { PART_SMALL, PART_LARGE };
	if (w->g->part != PART_BOTH) {
		sum_products(w, r, w->tile, w->line);
		return;
	}
	for (int i = 0; i < 2; i++) {
		w->part = parts[i];
		w->a.data = w->b.data = NULL;
		sum_products(w, r, i ? w->tile : w->other, r->columns);
	}
	double *sum = w->tile;
	const double *small = w->other;
	for (int64_t i = 0; i < r->rows * r->columns; i++)
		sum[i] += small[i];
}

/* y = x * sa * sb along a row of the tile, or y += that. */
#define SCALE_ROW(name, T)                                                                               \
	ANY_WIDTH static void name(const T *x, float sa, const float *sb, T *y, int64_t n, bool add)     \
	{                                                                                                \
		for (int64_t i = 0; i < n && !add; i++)                                                  \
			y[i] = x[i] * (T)sa * (T)sb[i];                                                  \
		for (int64_t i = 0; i < n && add; i++)                                                   \
			y[i] += x[i] * (T)sa * (T)sb[i];                                                 \
	}
SCALE_ROW(scale_row_f64, double)
SCALE_ROW(scale_row_f32, float)

static void store_row(const struct work *w, const struct area *r, int64_t row, const void *from)
{
	const struct view *c = &w->g->c;
	void *to = view_at(c, (r->m + row) * c->stride[0] + r->n * c->stride[1]);
	if (w->g->in == IN_F64)
		store_f64(c->dtype, to, c->stride[1], from, r->columns);
	else
		store_f32(c->dtype, to, c->stride[1], from, r->columns);
}

/* The tile by group's factors: added up in `total` from group to group, stored after the last. */
static void scale_tile(const struct work *w, const struct area *r, int64_t group, int64_t count)
{
	const struct view *sa = &w->g->sa, *sb = &w->g->sb;
	float columns[BLOCK_N];
	load_f32(DT_F32, view_at(sb, group * sb->stride[0] + r->n * sb->stride[1]), sb->stride[1], columns,
		 r->columns);
	for (int64_t i = 0; i < r->rows; i++) {
		float factor = *(float *)view_at(sa, (r->m + i) * sa->stride[0] + group * sa->stride[1]);
		void *from = (char *)w->tile + i * w->line * w->size;
		void *to = (char *)w->total + (count > 1 ? i * r->columns * w->size : 0);
		if (w->g->in == IN_F64)
			scale_row_f64(from, factor, columns, to, r->columns, group > 0);
		else
			scale_row_f32(from, factor, columns, to, r->columns, group > 0);
		if (group == count - 1)
			store_row(w, r, i, to);
	}
}

static void store_tile(const struct work *w, const struct area *r)
{
	for (int64_t i = 0; i < r->rows; i++)
		store_row(w, r, i, (char *)w->tile + i * w->line * w->size);
}

/* A tile of one group may be summed right in c. */
static bool direct(const struct panel_gemm *g)
{
	return in_place(&g->c, g->in, PART_ALL, false) && groups(g) == 1 && g->part != PART_BOTH;
}

static void one_tile(struct work *w, const struct area *all)
{
	const struct panel_gemm *g = w->g;
	const struct view *c = &g->c;
	struct area r = *all;
	int64_t count = groups(g);
	w->tile = direct(g) ? view_at(c, r.m * c->stride[0] + r.n) : w->c_buffer;
	w->line = direct(g) ? c->stride[0] : r.columns;
	r.depth = all->depth / count;
	for (int64_t i = 0; i < count; i++) {
		r.k = i * r.depth;
		sum_tile(w, &r);
		if (g->sa.data)
			scale_tile(w, &r, i, count);
	}
	if (!g->sa.data && !direct(g))
		store_tile(w, &r);
}

static int64_t aligned(int64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

/* Bytes of: a panel of a, one of b, a tile, the sum of scaled tiles (or one row of them). */
static void buffer_sizes(const struct panel_gemm *g, int64_t bytes[4])
{
	int64_t size = dtype_size(panel_type(g->in));
	int64_t m = least(g->c.shape[0], BLOCK_M), n = least(g->c.shape[1], BLOCK_N);
	int64_t k = least(g->a.shape[1], BLOCK_K);
	bytes[0] = aligned((m + PAD) * (k + PAD) * size);
	bytes[1] = aligned((k + PAD) * (n + PAD) * size);
	bytes[2] = direct(g) ? 0 : aligned(m * n * size);
	bytes[3] = groups(g) > 1 ? bytes[2] : aligned(n * size);
}

int64_t panel_gemm_workspace(const struct panel_gemm *g)
{
	int64_t bytes[4];
	buffer_sizes(g, bytes);
	return bytes[0] + bytes[1] + bytes[2] * (1 + (g->part == PART_BOTH)) + bytes[3];
}

/* Everything in place: one call, which the BLAS blocks better than we do. */
static bool whole(struct work *w, int64_t m, int64_t n, int64_t k)
{
	const struct panel_gemm *g = w->g;
	bool ta = g->a.stride[1] != 1, tb = g->b.stride[1] != 1;
	if (!direct(g) || g->sa.data || g->ordered || k == 0 || !in_place(&g->a, g->in, g->part, ta) ||
	    !in_place(&g->b, g->in, g->part, tb))
		return false;
	w->a = (struct panel){ g->a.data, g->a.stride[ta], ta, 0, 0 };
	w->b = (struct panel){ g->b.data, g->b.stride[tb], tb, 0, 0 };
	multiply(w, m, n, k, false, g->c.data, g->c.stride[0]);
	return true;
}

void panel_gemm(const struct panel_gemm *g, void *workspace)
{
	int64_t m = g->c.shape[0], n = g->c.shape[1], k = g->a.shape[1], bytes[4];
	struct work w = { .g = g, .size = dtype_size(panel_type(g->in)), .a_buffer = workspace, .part = g->part };
	if (m == 0 || n == 0 || whole(&w, m, n, k))
		return;
	buffer_sizes(g, bytes);
	w.b_buffer = (char *)workspace + bytes[0];
	w.c_buffer = (char *)w.b_buffer + bytes[1];
	w.other = (char *)w.c_buffer + bytes[2];
	w.total = (char *)w.other + (g->part == PART_BOTH ? bytes[2] : 0);
	for (int64_t j = 0; j < n; j += BLOCK_N)
		for (int64_t i = 0; i < m; i += BLOCK_M)
			one_tile(&w, &(struct area){ i, least(BLOCK_M, m - i), j, least(BLOCK_N, n - j), 0, k });
}
