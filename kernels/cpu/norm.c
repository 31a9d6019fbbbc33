/* RMSNorm and LayerNorm: a row at a time in f32 (f64 for f64), rounded once. */
#include "internal.h"

#include <math.h>
#include <string.h>

static int64_t trailing(const struct view *x, int dims)
{
	int64_t n = 1;
	for (int d = x->rank - dims; d < x->rank; d++)
		n *= x->shape[d];
	return n;
}

int64_t cpu_norm_workspace(const struct view *x, int dims)
{
	return trailing(x, dims) * (int64_t)(x->dtype == DT_F64 ? sizeof(double) : sizeof(float)) * 3;
}

/* The trailing dims of v at `at`, into a dense row, or back. */
static void row_move(const struct view *v, int dims, void *at, void *row, enum dtype row_type, bool store)
{
	struct view inner = view_dims(v, v->rank - dims, dims);
	struct view dense = view_of(row, row_type, dims, inner.shape);
	inner.data = at;
	if (dims == 1 && row_type == DT_F32 && store)
		store_f32(v->dtype, at, inner.stride[0], row, inner.shape[0]);
	else if (dims == 1 && row_type == DT_F32)
		load_f32(v->dtype, at, inner.stride[0], row, inner.shape[0]);
	else if (store)
		cpu_copy(&dense, &inner);
	else
		cpu_copy(&inner, &dense);
}

static void rms_row_f32(float *x, int64_t n, double eps, bool exact)
{
	float r = 1 / sqrtf(mean_row(x, n, n, true, exact) + (float)eps);
	for (int64_t i = 0; i < n; i++)
		x[i] *= r;
}

static double sum_row_f64(const double *x, int64_t n, double center, bool square)
{
	struct sum_f64 s = { 0 };
	double block[SUM_BLOCK];
	for (int64_t i = 0; i < n; i += SUM_BLOCK) {
		int64_t m = n - i < SUM_BLOCK ? n - i : SUM_BLOCK;
		for (int64_t j = 0; j < m; j++)
			block[j] = square ? (x[i + j] - center) * (x[i + j] - center) : x[i + j];
		sum_add_f64(&s, block_sum_f64(block, m));
	}
	return sum_total_f64(&s);
}

static void rms_row_f64(double *x, int64_t n, double eps)
{
	double r = 1 / sqrt(sum_row_f64(x, n, 0, true) / (double)n + eps);
	for (int64_t i = 0; i < n; i++)
		x[i] *= r;
}

/* The leading dims of both, to be walked together. */
static void walk_leading(struct walk *w, struct view lead[2], const struct view *x, const struct view *out, int dims)
{
	lead[0] = view_dims(out, 0, out->rank - dims);
	lead[1] = view_dims(x, 0, x->rank - dims);
	walk_start(w, 2, (const struct view *[]){ &lead[0], &lead[1] });
}

void cpu_rms_norm(const struct view *x, int dims, double eps, bool exact, const struct view *out, void *workspace)
{
	enum dtype t = x->dtype == DT_F64 ? DT_F64 : DT_F32;
	int64_t n = trailing(x, dims);
	struct view lead[2];
	struct walk w;
	if (view_count(x) == 0)
		return;
	walk_leading(&w, lead, x, out, dims);
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i++) {
			row_move(x, dims, w.at[1] + i * w.step[1] * dtype_size(x->dtype), workspace, t, false);
			if (t == DT_F64)
				rms_row_f64(workspace, n, eps);
			else
				rms_row_f32(workspace, n, eps, exact);
			row_move(out, dims, w.at[0] + i * w.step[0] * dtype_size(out->dtype), workspace, t, true);
		}
}

static void layer_row_f32(float *x, const float *w, const float *b, int64_t n, double eps, bool exact)
{
	float mean = mean_row(x, n, n, false, exact);
	for (int64_t i = 0; i < n; i++)
		x[i] -= mean;
	float r = 1 / sqrtf(mean_row(x, n, n, true, exact) + (float)eps);
	for (int64_t i = 0; i < n; i++) {
		float y = x[i] * r;
		y = w ? y * w[i] : y;
		x[i] = b ? y + b[i] : y;
	}
}

static void layer_row_f64(double *x, const double *w, const double *b, int64_t n, double eps)
{
	double mean = sum_row_f64(x, n, 0, false) / (double)n;
	double r = 1 / sqrt(sum_row_f64(x, n, mean, true) / (double)n + eps);
	for (int64_t i = 0; i < n; i++) {
		double y = (x[i] - mean) * r;
		y = w ? y * w[i] : y;
		x[i] = b ? y + b[i] : y;
	}
}

/* The affine parameter as a dense row at `to`, or NULL. */
static void *affine(const struct view *v, int dims, enum dtype t, void *to)
{
	if (!v)
		return NULL;
	BUG_ON(v->rank != dims);
	row_move(v, dims, v->data, to, t, false);
	return to;
}

void cpu_layer_norm(const struct view *x, const struct view *w, const struct view *b, int dims, double eps,
		    bool exact, const struct view *out, void *workspace)
{
	enum dtype t = x->dtype == DT_F64 ? DT_F64 : DT_F32;
	int64_t n = trailing(x, dims), size = n * dtype_size(t);
	char *row = workspace;
	struct view lead[2];
	struct walk walk;
	if (view_count(x) == 0)
		return;
	void *weight = affine(w, dims, t, row + size), *bias = affine(b, dims, t, row + 2 * size);
	walk_leading(&walk, lead, x, out, dims);
	for (; walk.more; walk_next(&walk))
		for (int64_t i = 0; i < walk.row; i++) {
			row_move(x, dims, walk.at[1] + i * walk.step[1] * dtype_size(x->dtype), row, t, false);
			if (t == DT_F64)
				layer_row_f64((double *)workspace, weight, bias, n, eps);
			else
				layer_row_f32((float *)workspace, weight, bias, n, eps, exact);
			row_move(out, dims, walk.at[0] + i * walk.step[0] * dtype_size(out->dtype), row, t, true);
		}
}
