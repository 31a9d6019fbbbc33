/*
 * Scaled dot-product attention, one head and one block of queries at a time: scores by sgemm,
 * softmax in f32, the weighted sum by sgemm.  `exact`: all three by f64 sums in order.  Of f64: all in f64.
 */
#include "internal.h"

#include <math.h>
#include <string.h>

#define BLOCK_T 128
#define MASK_RUN 256

/* One head. */
struct head {
	struct view q, k, v, mask, out; /* [T,D] [S,D] [S,Dv] [T,S] [T,Dv] */
	int64_t first; /* position of query 0 */
};

static int64_t least(int64_t x, int64_t y)
{
	return x < y ? x : y;
}

static int64_t aligned(int64_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static int64_t dim(const struct view *v, int from_last)
{
	return v->shape[v->rank - 1 - from_last];
}

static enum dtype score_dtype(const struct sdpa *s)
{
	return s->out.dtype == DT_F64 ? DT_F64 : DT_F32;
}

/* Bytes of the scores of a block, and of what the two products need. */
static int64_t score_bytes(const struct sdpa *s)
{
	int64_t t = least(BLOCK_T, dim(&s->q, 1));
	return aligned(t * dim(&s->k, 1) * dtype_size(score_dtype(s)));
}

static struct panel_gemm product(const struct sdpa *s, struct view a, struct view b, struct view c)
{
	bool wide = s->exact || score_dtype(s) == DT_F64;
	return (struct panel_gemm){ .in = wide ? IN_F64 : IN_F32, .ordered = s->exact, .a = a, .b = b, .c = c };
}

static struct view transposed(const struct view *m)
{
	struct view t = *m;
	t.shape[0] = m->shape[1];
	t.shape[1] = m->shape[0];
	t.stride[0] = m->stride[1];
	t.stride[1] = m->stride[0];
	return t;
}

static struct view rows_of(const struct view *m, int64_t first, int64_t count)
{
	struct view v = *m;
	v.data = v.data ? view_at(m, first * m->stride[0]) : NULL;
	v.shape[0] = count;
	return v;
}

/* Of row `row` of the mask, to the first n scores. */
static void add_mask(float *scores, const struct view *mask, int64_t row, int64_t n)
{
	const char *at = view_at(mask, row * mask->stride[0]);
	int64_t step = mask->stride[1], size = dtype_size(mask->dtype);
	float x[MASK_RUN];
	for (int64_t j = 0; j < n; j += MASK_RUN) {
		int64_t m = least(MASK_RUN, n - j);
		load_f32(mask->dtype, at + j * step * size, step, x, m);
		for (int64_t i = 0; i < m; i++)
			if (mask->dtype == DT_BOOL)
				scores[j + i] = x[i] == 0 ? -INFINITY : scores[j + i];
			else
				scores[j + i] += x[i];
	}
}

/* Probabilities of a row of n scores; a row of -inf gives zeros. */
static void probabilities(float *x, int64_t n, bool exact)
{
	float most = max_row(x, n);
	exp_row(x, most == -INFINITY ? 0 : most, n);
	float sum = sum_row(x, n, exact);
	if (sum != 0) /* else all were -inf */
		divide_row(x, sum, n);
}

static double masked(const struct view *mask, int64_t row, int64_t key, double score)
{
	double x;
	if (!mask->data)
		return score;
	load_f64(mask->dtype, view_at(mask, row * mask->stride[0] + key * mask->stride[1]), 1, &x, 1);
	return mask->dtype != DT_BOOL ? score + x : x == 0 ? -INFINITY : score;
}

/* All of this for a row of n scores of f64. */
static void softmax_row_f64(double *x, const struct view *mask, int64_t row, int64_t n, double scale)
{
	double most = -INFINITY, sum = 0;
	for (int64_t j = 0; j < n; j++) {
		x[j] = masked(mask, row, j, x[j] * scale);
		most = x[j] > most ? x[j] : most;
	}
	for (int64_t j = 0; j < n; j++)
		sum += x[j] = exp(x[j] - (most == -INFINITY ? 0 : most));
	for (int64_t j = 0; j < n && sum != 0; j++)
		x[j] /= sum;
}

static void softmax_row(const struct sdpa *s, float *x, const struct view *mask, int64_t row, int64_t n)
{
	scale_row(x, (float)s->scale, n);
	if (mask->data)
		add_mask(x, mask, row, n);
	probabilities(x, n, s->exact);
}

/* Keys that are not seen get 0: they would add exact zeros to the sum, whose order stays as it is. */
static void softmax_block(const struct sdpa *s, const struct head *h, int64_t first, const struct view *scores)
{
	int64_t n = scores->shape[1];
	for (int64_t i = 0; i < scores->shape[0]; i++) {
		char *x = view_at(scores, i * scores->stride[0]);
		int64_t size = dtype_size(scores->dtype), seen = s->causal ? least(n, first + i + h->first + 1) : n;
		seen = seen < 0 ? 0 : seen;
		if (scores->dtype == DT_F64)
			softmax_row_f64((double *)x, &h->mask, first + i, seen, s->scale);
		else
			softmax_row(s, (float *)x, &h->mask, first + i, seen);
		memset(x + seen * size, 0, (size_t)((n - seen) * size));
	}
}

static void one_head(const struct sdpa *s, const struct head *h, char *workspace)
{
	int64_t t = h->q.shape[0], keys = h->k.shape[0];
	void *panels = workspace + score_bytes(s);
	for (int64_t i = 0; i < t; i += BLOCK_T) {
		int64_t n = least(BLOCK_T, t - i);
		struct view scores = view_of(workspace, score_dtype(s), 2, (const int64_t[]){ n, keys });
		struct panel_gemm qk = product(s, rows_of(&h->q, i, n), transposed(&h->k), scores);
		struct panel_gemm pv = product(s, scores, h->v, rows_of(&h->out, i, n));
		panel_gemm(&qk, panels);
		softmax_block(s, h, i, &scores);
		panel_gemm(&pv, panels);
	}
}

/* Of one head. */
static int64_t head_workspace(const struct sdpa *s)
{
	int64_t t = least(BLOCK_T, dim(&s->q, 1)), keys = dim(&s->k, 1);
	struct view q = view_of(NULL, s->q.dtype, 2, (const int64_t[]){ t, dim(&s->q, 0) });
	struct view k = view_of(NULL, s->k.dtype, 2, (const int64_t[]){ dim(&s->q, 0), keys });
	struct view p = view_of(NULL, score_dtype(s), 2, (const int64_t[]){ t, keys });
	struct view v = view_of(NULL, s->v.dtype, 2, (const int64_t[]){ keys, dim(&s->v, 0) });
	struct view out = view_of(NULL, s->out.dtype, 2, (const int64_t[]){ t, dim(&s->v, 0) });
	struct panel_gemm qk = product(s, q, k, p), pv = product(s, p, v, out);
	int64_t first = panel_gemm_workspace(&qk), second = panel_gemm_workspace(&pv);
	return score_bytes(s) + (first > second ? first : second);
}

/* The matrix of v at position `at` of the leading dims; the last of these (heads) at `head`. */
static struct view matrix_at(const struct view *v, const int64_t *at, int64_t head)
{
	int lead = v->rank - 2;
	struct view m = view_dims(v, lead, 2);
	int64_t offset = head * v->stride[lead - 1];
	for (int d = 0; d < lead - 1; d++)
		offset += at[d] * v->stride[d];
	m.data = view_at(v, offset);
	return m;
}

static struct view wide_mask(const struct sdpa *s)
{
	int64_t shape[VIEW_MAX_RANK];
	struct view none = { .data = NULL };
	if (!s->mask.data)
		return none;
	for (int d = 0; d < s->q.rank; d++)
		shape[d] = s->q.shape[d];
	shape[s->q.rank - 1] = dim(&s->k, 1);
	return view_broadcast(&s->mask, s->q.rank, shape);
}

/* --- heads, of all leading dims, on several threads --- */

static int64_t head_count(const struct sdpa *s)
{
	int64_t n = 1;
	for (int d = 0; d < s->q.rank - 2; d++)
		n *= s->q.shape[d];
	return n;
}

static int64_t part_count(const struct sdpa *s)
{
	int64_t heads = head_count(s), parts = parallel_parts();
	double work = (double)heads * (double)(dim(&s->q, 1) * dim(&s->k, 1)) * (double)(dim(&s->q, 0) + dim(&s->v, 0));
	return work < PARALLEL_WORTH ? 1 : heads < parts ? heads : parts;
}

int64_t cpu_sdpa_workspace(const struct sdpa *s)
{
	return aligned(head_workspace(s)) * part_count(s);
}

/* Head n of all, in row-major order. */
static struct head head_at(const struct sdpa *s, const struct view *mask, int64_t n)
{
	int64_t at[VIEW_MAX_RANK] = { 0 };
	int heads = s->q.rank - 3;
	for (int d = heads; d >= 0; n /= s->q.shape[d--])
		at[d] = n % s->q.shape[d];
	int64_t kv = (s->q_head_first + at[heads]) / s->group - s->kv_head_first;
	struct head h = { .q = matrix_at(&s->q, at, at[heads]), .k = matrix_at(&s->k, at, kv),
			  .v = matrix_at(&s->v, at, kv), .out = matrix_at(&s->out, at, at[heads]),
			  .first = s->q_first };
	if (mask->data)
		h.mask = matrix_at(mask, at, at[heads]);
	return h;
}

struct heads {
	const struct sdpa *sdpa;
	struct view mask;
	char *workspace;
	int64_t count, parts;
};

static void run_heads(const void *context, int64_t part)
{
	const struct heads *all = context;
	char *workspace = all->workspace ? all->workspace + part * aligned(head_workspace(all->sdpa)) : NULL;
	for (int64_t n = part * all->count / all->parts; n < (part + 1) * all->count / all->parts; n++) {
		struct head h = head_at(all->sdpa, &all->mask, n);
		one_head(all->sdpa, &h, workspace);
	}
}

enum fs_status cpu_sdpa(const struct sdpa *s, void *workspace, struct diag *d)
{
	struct heads all = { s, wide_mask(s), workspace, head_count(s), part_count(s) };
	BUG_ON(s->q.rank < 3 || s->group < 1);
	if (!s->exact)
		TRY(cpu_blas_load(d));
	if (view_count(&s->out) > 0)
		parallel_run(all.parts, run_heads, &all);
	return FS_OK;
}
