/* amax, scales, casts to fp8 and the scaling of accumulators; formulas in docs/numerics.md. */
#include "internal.h"
#include "scalar.h"

#include <math.h>

#define CHUNK 512

static void raise(float *to, uint32_t bits)
{
	if (bits > f32_bits(*to))
		*to = f32_from_bits(bits);
}

/* Magnitudes order as integers do, NaN above all: `to` are the largest so far, one or one per element. */
static void amax_run(const float *x, int64_t n, float *to, int64_t step)
{
	if (step == 0) {
		raise(to, amax_bits_f32(x, n));
		return;
	}
	for (int64_t i = 0; i < n; i++)
		raise(&to[i * step], f32_bits(x[i]) & 0x7fffffff);
}

/* out with the reduced dims repeated, so that it is walked along with x. */
static struct view repeated(const struct view *out, const struct view *x, uint32_t dims)
{
	struct view v = { .data = out->data, .dtype = out->dtype, .rank = x->rank };
	for (int d = 0, kept = 0; d < x->rank; d++) {
		bool reduced = dims >> d & 1;
		int from = out->rank == x->rank ? d : kept;
		v.shape[d] = x->shape[d];
		v.stride[d] = reduced ? 0 : out->stride[from];
		BUG_ON(!reduced && out->shape[from] != x->shape[d]);
		kept += !reduced;
	}
	return v;
}

void cpu_amax(uint32_t dims, const struct view *x, const struct view *out)
{
	float buffer[CHUNK];
	struct view most = repeated(out, x, dims);
	struct walk w;
	BUG_ON(out->dtype != DT_F32);
	cpu_fill((struct scalar){ 0 }, out);
	walk_start(&w, 2, (const struct view *[]){ &most, x });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i += CHUNK) {
			int64_t n = w.row - i < CHUNK ? w.row - i : CHUNK;
			const char *at = w.at[1] + i * w.step[1] * dtype_size(x->dtype);
			amax_run(borrow_f32(x->dtype, at, w.step[1], buffer, n), n,
				 (float *)(void *)w.at[0] + i * w.step[0], w.step[0]);
		}
}

static float fp8_scale(float amax, float most, bool pow2)
{
	float scale = most / (amax < 1e-12f ? 1e-12f : amax);
	return pow2 ? exp2f(floorf(log2f(scale))) : scale;
}

void cpu_fp8_scale(const struct view *amax, enum dtype fp8, bool pow2, const struct view *out)
{
	float most = fp8 == DT_E4M3 ? 448 : 57344;
	struct view in = view_broadcast(amax, out->rank, out->shape);
	struct walk w;
	BUG_ON((fp8 != DT_E4M3 && fp8 != DT_E5M2) || amax->dtype != DT_F32 || out->dtype != DT_F32);
	walk_start(&w, 2, (const struct view *[]){ out, &in });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i++)
			((float *)(void *)w.at[0])[i * w.step[0]] =
				fp8_scale(((float *)(void *)w.at[1])[i * w.step[1]], most, pow2);
}

static void multiply(const float *x, const float *scale, int64_t step, float *y, int64_t n)
{
	if (step == 0)
		for (int64_t i = 0; i < n; i++)
			y[i] = x[i] * *scale;
	else
		for (int64_t i = 0; i < n; i++)
			y[i] = x[i] * scale[i * step];
}

void cpu_fp8_cast(const struct view *x, const struct view *scale, const struct view *out)
{
	float buffer[CHUNK], scaled[CHUNK];
	struct view s = view_broadcast(scale, x->rank, x->shape);
	struct walk w;
	BUG_ON(scale->dtype != DT_F32 || dtype_class(out->dtype) != DC_FP8);
	walk_start(&w, 3, (const struct view *[]){ out, x, &s });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i += CHUNK) {
			int64_t n = w.row - i < CHUNK ? w.row - i : CHUNK;
			const char *at = w.at[1] + i * w.step[1] * dtype_size(x->dtype);
			multiply(borrow_f32(x->dtype, at, w.step[1], buffer, n),
				 (float *)(void *)w.at[2] + i * w.step[2], w.step[2], scaled, n);
			store_f32(out->dtype, w.at[0] + i * w.step[0], w.step[0], scaled, n);
		}
}

/* One run of post_scale in f32 or f64; acc is overwritten. */
#define POST_SCALE(suffix, T)                                                                              \
	static void post_scale_##suffix(const struct walk *w, const enum dtype *t, int64_t first, int64_t n, \
					bool low)                                                          \
	{                                                                                                  \
		T x[4][CHUNK];                                                                             \
		for (int v = 0; v < 4; v++)                                                                \
			if (v > 0 || low)                                                                  \
				load_##suffix(t[v], w->at[v] + first * w->step[v] * dtype_size(t[v]), w->step[v], \
					      x[v], n);                                                    \
		for (int64_t i = 0; i < n; i++)                                                            \
			x[1][i] = (low ? x[1][i] + x[0][i] : x[1][i]) * x[2][i] * x[3][i];                 \
		store_##suffix(t[4], w->at[4] + first * w->step[4] * dtype_size(t[4]), w->step[4], x[1], n); \
	}
POST_SCALE(f32, float)
POST_SCALE(f64, double)

void cpu_post_scale(const struct view *acc, const struct view *low, const struct view *sa,
		    const struct view *sb, const struct view *out)
{
	const struct view *in[4] = { low ? low : acc, acc, sa, sb };
	enum dtype types[5] = { in[0]->dtype, acc->dtype, sa->dtype, sb->dtype, out->dtype };
	struct view wide[4];
	struct walk w;
	for (int v = 0; v < 4; v++)
		wide[v] = view_broadcast(in[v], out->rank, out->shape);
	walk_start(&w, 5, (const struct view *[]){ &wide[0], &wide[1], &wide[2], &wide[3], out });
	for (; w.more; walk_next(&w))
		for (int64_t i = 0; i < w.row; i += CHUNK) {
			int64_t n = w.row - i < CHUNK ? w.row - i : CHUNK;
			if (acc->dtype == DT_F64)
				post_scale_f64(&w, types, i, n, low != NULL);
			else
				post_scale_f32(&w, types, i, n, low != NULL);
		}
}
