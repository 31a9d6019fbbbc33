/* Softmax and its logarithm over one dim: a line at a time, in f32. */
#include "internal.h"

#include <math.h>

int64_t cpu_softmax_workspace(const struct view *x, int dim)
{
	return x->shape[dim] * (int64_t)sizeof(float) * 2;
}

/* x becomes the result; e is scratch. A NaN reaches the whole line through the sum. */
static void softmax_line(float *x, float *e, int64_t n, bool log, bool exact)
{
	float most = max_row(x, n);
	if (!log) {
		exp_row(x, most, n);
		divide_row(x, sum_row(x, n, exact), n);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		e[i] = x[i] -= most;
	exp_row(e, 0, n);
	float log_sum = logf(sum_row(e, n, exact));
	for (int64_t i = 0; i < n; i++)
		x[i] -= log_sum;
}

static void softmax_line_f64(const struct view *x, const struct view *out, bool take_log)
{
	double most = -INFINITY, sum = 0;
	int64_t n = x->shape[0];
	for (int64_t i = 0; i < n; i++) {
		double v = *(double *)view_at(x, i * x->stride[0]);
		most = v > most || v != v ? v : most;
	}
	for (int64_t i = 0; i < n; i++)
		sum += exp(*(double *)view_at(x, i * x->stride[0]) - most);
	for (int64_t i = 0; i < n; i++) {
		double v = *(double *)view_at(x, i * x->stride[0]) - most;
		v = take_log ? v - log(sum) : exp(v) / sum;
		store_f64(out->dtype, view_at(out, i * out->stride[0]), 1, &v, 1);
	}
}

void cpu_softmax(int dim, bool log, bool exact, const struct view *x, const struct view *out, void *workspace)
{
	struct view lines_x = view_drop(x, dim), lines_out = view_drop(out, dim);
	struct view line_x = view_dims(x, dim, 1), line_out = view_dims(out, dim, 1);
	int64_t n = x->shape[dim];
	float *line = workspace;
	struct walk w;
	walk_start(&w, 2, (const struct view *[]){ &lines_out, &lines_x });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i++) {
			line_x.data = w.at[1] + i * w.step[1] * dtype_size(x->dtype);
			line_out.data = w.at[0] + i * w.step[0] * dtype_size(out->dtype);
			if (x->dtype == DT_F64) {
				softmax_line_f64(&line_x, &line_out, log);
				continue;
			}
			load_f32(x->dtype, line_x.data, line_x.stride[0], line, n);
			softmax_line(line, line + n, n, log, exact);
			store_f32(out->dtype, line_out.data, line_out.stride[0], line, n);
		}
}
