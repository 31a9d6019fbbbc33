/* Copies, casts, fills, and the triangles of a matrix. */
#include "internal.h"

#include <string.h>

#define CHUNK 512

#define COPY_ROW(bits)                                                                                    \
	static void copy_row_##bits(const void *from, int64_t from_step, void *to, int64_t to_step, int64_t n) \
	{                                                                                                 \
		const uint##bits##_t *x = from;                                                           \
		uint##bits##_t *y = to;                                                                   \
		for (int64_t i = 0; i < n; i++)                                                           \
			y[i * to_step] = x[i * from_step];                                                \
	}
COPY_ROW(8)
COPY_ROW(16)
COPY_ROW(32)
COPY_ROW(64)

/* Elements of one size, as they are. */
static void move_row(int size, const void *from, int64_t from_step, void *to, int64_t to_step, int64_t n)
{
	if (from_step == 1 && to_step == 1 && n > 0)
		memmove(to, from, (size_t)(n * size));
	else if (size == 8)
		copy_row_64(from, from_step, to, to_step, n);
	else if (size == 4)
		copy_row_32(from, from_step, to, to_step, n);
	else if (size == 2)
		copy_row_16(from, from_step, to, to_step, n);
	else
		copy_row_8(from, from_step, to, to_step, n);
}

#define CONVERT_ROW(suffix, T)                                                                         \
	static void convert_row_##suffix(enum dtype from_type, const void *from, int64_t from_step,   \
					 enum dtype to_type, void *to, int64_t to_step, int64_t n)    \
	{                                                                                             \
		T buffer[CHUNK];                                                                      \
		const char *x = from;                                                                 \
		char *y = to;                                                                         \
		for (int64_t i = 0; i < n; i += CHUNK) {                                              \
			int64_t m = n - i < CHUNK ? n - i : CHUNK;                                    \
			load_##suffix(from_type, x + i * from_step * dtype_size(from_type), from_step, buffer, m); \
			store_##suffix(to_type, y + i * to_step * dtype_size(to_type), to_step, buffer, m); \
		}                                                                                     \
	}
CONVERT_ROW(f32, float)
CONVERT_ROW(f64, double)
CONVERT_ROW(i64, int64_t)

static void convert(const struct walk *w, enum dtype from, enum dtype to)
{
	static void (*const run[])(enum dtype, const void *, int64_t, enum dtype, void *, int64_t,
				   int64_t) = { convert_row_f32, convert_row_f64, convert_row_i64 };
	run[compute_of(from)](from, w->at[1], w->step[1], to, w->at[0], w->step[0], w->row);
}

/*
 * A transpose would read one element of each cache line at a time.  Where in's dense dim is another
 * than out's, both are walked in squares of TILE.  Elements as they are go through a buffer, so that
 * in and out are both touched in whole runs: lines 4 KiB apart, as in matrices of 1024 columns, would
 * push each other out of the cache.
 */
#define TILE 32
#define LINE (TILE + 1) /* of the buffer */

static int dense_dim(const struct view *v)
{
	for (int d = v->rank - 1; d >= 0; d--)
		if (v->stride[d] == 1 && v->shape[d] >= TILE)
			return d;
	return -1;
}

static void copy_tile(const struct view *in, const struct view *out)
{
	struct walk w;
	walk_start(&w, 2, (const struct view *[]){ out, in });
	for (; w.more; walk_next(&w))
		if (in->dtype == out->dtype)
			move_row(dtype_size(in->dtype), w.at[1], w.step[1], w.at[0], w.step[0], w.row);
		else
			convert(&w, in->dtype, out->dtype);
}

static struct view slice(const struct view *v, int d, int64_t first, int64_t count)
{
	struct view w = *v;
	w.data = view_at(v, first * v->stride[d]);
	w.shape[d] = v->shape[d] - first < count ? v->shape[d] - first : count;
	return w;
}

/* in is dense along d, out along e; n_d and n_e: of a tile that begins at `from` and `to`. */
static void turn_tile(const struct view *in, const char *from, int d, int64_t n_d, const struct view *out, char *to,
		      int e, int64_t n_e)
{
	uint64_t buffer[TILE * LINE];
	int size = dtype_size(in->dtype);
	for (int64_t j = 0; j < n_e; j++)
		memcpy((char *)buffer + j * LINE * size, from + j * in->stride[e] * size, (size_t)(n_d * size));
	for (int64_t i = 0; i < n_d; i++)
		move_row(size, (char *)buffer + i * size, LINE, to + i * out->stride[d] * size, 1, n_e);
}

static void turn_matrix(const struct view *in, const char *from, int d, const struct view *out, char *to, int e)
{
	int64_t n_d = out->shape[d], n_e = out->shape[e], size = dtype_size(in->dtype);
	for (int64_t i = 0; i < n_d; i += TILE)
		for (int64_t j = 0; j < n_e; j += TILE)
			turn_tile(in, from + (i + j * in->stride[e]) * size, d, n_d - i < TILE ? n_d - i : TILE, out,
				  to + (i * out->stride[d] + j) * size, e, n_e - j < TILE ? n_e - j : TILE);
}

/* The matrices of dims d and e, one after the other. */
static void copy_turned(const struct view *in, const struct view *out, int d, int e)
{
	int first = d > e ? d : e, second = d > e ? e : d;
	struct view others_in = view_drop(in, first), others_out = view_drop(out, first);
	struct walk w;
	others_in = view_drop(&others_in, second);
	others_out = view_drop(&others_out, second);
	walk_start(&w, 2, (const struct view *[]){ &others_out, &others_in });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i++)
			turn_matrix(in, w.at[1] + i * w.step[1] * dtype_size(in->dtype), d, out,
				    w.at[0] + i * w.step[0] * dtype_size(out->dtype), e);
}

static void copy_tiled(const struct view *in, const struct view *out, int d, int e)
{
	for (int64_t i = 0; i < out->shape[d]; i += TILE) {
		struct view in_rows = slice(in, d, i, TILE), out_rows = slice(out, d, i, TILE);
		for (int64_t j = 0; j < out->shape[e]; j += TILE) {
			struct view x = slice(&in_rows, e, j, TILE), y = slice(&out_rows, e, j, TILE);
			copy_tile(&x, &y);
		}
	}
}

void cpu_copy(const struct view *in, const struct view *out)
{
	struct view wide = view_broadcast(in, out->rank, out->shape);
	int d = dense_dim(&wide), e = dense_dim(out);
	bool turned = d >= 0 && e >= 0 && d != e && view_count(out) > 0;
	if (turned && in->dtype == out->dtype)
		copy_turned(&wide, out, d, e);
	else if (turned)
		copy_tiled(&wide, out, d, e);
	else
		copy_tile(&wide, out);
}

void cpu_fill(struct scalar value, const struct view *out)
{
	union { double f; int64_t i; } number;
	struct view one = { .data = &number, .dtype = value.is_float ? DT_F64 : DT_I64 };
	if (value.is_float)
		number.f = value.f;
	else
		number.i = value.i;
	cpu_copy(&one, out);
}

static double as_f64(struct scalar s)
{
	return s.is_float ? s.f : (double)s.i;
}

void cpu_iota(struct scalar start, struct scalar step, const struct view *out)
{
	BUG_ON(out->rank != 1);
	bool integer = !start.is_float && !step.is_float && compute_of(out->dtype) == IN_I64;
	for (int64_t i = 0; i < out->shape[0]; i++) {
		void *at = view_at(out, i * out->stride[0]);
		double f = as_f64(start) + (double)i * as_f64(step);
		int64_t n = (int64_t)((uint64_t)start.i + (uint64_t)i * (uint64_t)step.i);
		if (integer)
			store_i64(out->dtype, at, 1, &n, 1);
		else
			store_f64(out->dtype, at, 1, &f, 1);
	}
}

static int64_t clamp(int64_t x, int64_t most)
{
	return x < 0 ? 0 : x < most ? x : most;
}

/* Row i of a matrix keeps columns [first, last). */
static void tri_row(const struct view *in, const struct view *out, int64_t first, int64_t last)
{
	struct view x = slice(in, in->rank - 1, first, last - first);
	struct view y = slice(out, out->rank - 1, first, last - first);
	struct view before = slice(out, out->rank - 1, 0, first);
	struct view after = slice(out, out->rank - 1, last, out->shape[out->rank - 1]);
	struct scalar zero = { 0 };
	cpu_copy(&x, &y);
	cpu_fill(zero, &before);
	cpu_fill(zero, &after);
}

void cpu_tri(bool upper, int64_t diagonal, const struct view *in, const struct view *out)
{
	struct view x = view_broadcast(in, out->rank, out->shape);
	int64_t rows = out->shape[out->rank - 2], columns = out->shape[out->rank - 1];
	BUG_ON(out->rank < 2);
	for (int64_t i = 0; i < rows; i++) {
		struct view xi = slice(&x, x.rank - 2, i, 1), yi = slice(out, out->rank - 2, i, 1);
		int64_t edge = upper ? clamp(i + diagonal, columns) : clamp(i + diagonal + 1, columns);
		tri_row(&xi, &yi, upper ? edge : 0, upper ? columns : edge);
	}
}
