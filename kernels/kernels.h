/*
 * CPU kernels: functions on arrays, which know nothing of graphs or plans.
 *
 * Every operand is a view: a pointer, an element type, a shape and strides.  Any strides are
 * taken, 0 broadcasts; a view may be empty (a dim of 0).  Only `out` is written.  An output may
 * be the very view of an input for pointwise ops and copies, else outputs overlap nothing.
 *
 * Numerics: each kernel computes in f32 (f64 where an operand is f64, int64 for integers and
 * bools, wrapping) and rounds once to the element type of its result: ties to even for floats,
 * truncation from float to integer, saturation to fp8 (NaN stays NaN).  Bits depend on operands,
 * shapes and, for the fast matmuls, on which BLAS is there and its thread count; on nothing else.
 * `exact` sums in f64, in an order that depends on the length of the sum alone.
 *
 * Kernels are called from several threads at once and keep no state between calls; BLAS is loaded
 * once.  Scratch memory is the caller's: cpu_X_workspace() says how many bytes cpu_X() needs,
 * aligned to 64; 0 bytes may be NULL.
 */
#ifndef FS_KERNELS_H
#define FS_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "base.h"
#include "dtype.h"

#define VIEW_MAX_RANK 8

struct view {
	void *data;
	enum dtype dtype;
	int rank;
	int64_t shape[VIEW_MAX_RANK];
	int64_t stride[VIEW_MAX_RANK]; /* in elements; 0 broadcasts */
};

/* A contiguous, row-major view. */
struct view view_of(void *data, enum dtype dtype, int rank, const int64_t *shape);
int64_t view_count(const struct view *v); /* elements, broadcast ones counted as often as they appear */

/* A number that an attribute gives: integers stay exact. */
struct scalar {
	bool is_float;
	double f;
	int64_t i;
};

/* --- pointwise.c: the ops of pointwise.def --- */

enum pointwise_op {
#define POINTWISE(name, text, arity, types, result, float_expr, int_expr) PW_##name,
#include "pointwise.def"
#undef POINTWISE
	PW_COUNT
};

int pointwise_arity(enum pointwise_op op);
const char *pointwise_text(enum pointwise_op op);
bool pointwise_is_bool(enum pointwise_op op);           /* the result is a bool: comparisons, logic */
enum pointwise_op pointwise_from_text(const char *text); /* PW_COUNT where there is no such op */

/*
 * Inputs broadcast to out's shape, aligned at the right.  Computes in f64 if an input is f64, else
 * in f32 if an input is a float; all-integer inputs compute in int64, or in f32 (f64 for an f64
 * result) where the result is a float or the op has no integer form.  The condition of `where`
 * does not count.  Integer division by zero gives 0.
 */
void cpu_pointwise(enum pointwise_op op, int arity, const struct view *in, const struct view *out);

/* --- copy.c --- */

/* out = in, converted; `in` broadcasts. This is also `cast`. */
void cpu_copy(const struct view *in, const struct view *out);
void cpu_fill(struct scalar value, const struct view *out);
/* out[i] = start + i * step for a rank-1 out; in f64, or in int64 where out and both are integers. */
void cpu_iota(struct scalar start, struct scalar step, const struct view *out);
/* Keeps j - i >= diagonal (upper) or j - i <= diagonal of the last two dims, zeros the rest. */
void cpu_tri(bool upper, int64_t diagonal, const struct view *in, const struct view *out);

/* --- reduce.c --- */

enum reduce_op {
	REDUCE_SUM,
	REDUCE_MEAN, /* sum / count */
	REDUCE_PROD,
	REDUCE_MAX,
	REDUCE_MIN,
	REDUCE_ANY,
	REDUCE_ALL,
	REDUCE_ARGMAX, /* index in the flattened reduced dims; NaN is largest (and smallest), ties: first */
	REDUCE_ARGMIN,
	REDUCE_SUMSQ,
	REDUCE_NORM, /* of order p: 0, 1, 2, +-inf or any other */
};

struct reduce {
	enum reduce_op op;
	uint32_t dims; /* bit d: dim d is reduced */
	int64_t count; /* MEAN: what to divide by: the global count where x is a shard */
	double p;      /* NORM */
	bool exact;
};

/* out keeps the reduced dims as 1, or leaves them out. Empty sums are 0, empty max is -inf or INT64_MIN. */
void cpu_reduce(const struct reduce *r, const struct view *x, const struct view *out);
void cpu_cumsum(int dim, const struct view *x, const struct view *out);

/* --- sort.c: stable, so that of equal elements the lowest index comes first; NaN counts as largest --- */

int64_t cpu_sort_workspace(const struct view *x, int dim);
/* The first out->shape[dim] elements in order (k of them for topk); values or indices (i64) may be NULL. */
void cpu_sort(int dim, bool descending, const struct view *x, const struct view *values,
	      const struct view *indices, void *workspace);

/* --- softmax.c, norm.c --- */

int64_t cpu_softmax_workspace(const struct view *x, int dim);
void cpu_softmax(int dim, bool log, bool exact, const struct view *x, const struct view *out, void *workspace);

int64_t cpu_norm_workspace(const struct view *x, int dims);
/*
 * y = x * rsqrt(mean(x * x) + eps) over the last `dims` dims, without a weight.
 * The mean has the bits of cpu_reduce(MEAN) over f32(x) * f32(x).
 */
void cpu_rms_norm(const struct view *x, int dims, double eps, bool exact, const struct view *out, void *workspace);
/* Over the last `dims` dims; w and b have their shape, or are NULL. */
void cpu_layer_norm(const struct view *x, const struct view *w, const struct view *b, int dims, double eps,
		    bool exact, const struct view *out, void *workspace);

/* --- index.c: an index out of range is FS_INVALID and named in the diag; out is then undefined --- */

/*
 * out[i..., :] = weight[ids[i...] - first, :], zeros (of floats -0) for ids outside of this shard's rows
 * [first, first + rows of weight).  Ids must be in [0, total).
 */
enum fs_status cpu_embedding(const struct view *weight, const struct view *ids, int64_t first, int64_t total,
			     const struct view *out, struct diag *d);
/*
 * out[v - first, :] = sum of grad[i..., :] where ids[i...] is v, in the order of i, each sum rounded, for the rows
 * [first, first + rows of out).  Ids must be in [-total, total); negative ones count from the end.
 */
enum fs_status cpu_embedding_grad(const struct view *grad, const struct view *ids, int64_t first, int64_t total,
				  const struct view *out, struct diag *d);
/* out[i][j][k] = x[i][ids[i][j][k]][k] for dim 1, as torch.gather. */
enum fs_status cpu_gather(int dim, const struct view *x, const struct view *ids, const struct view *out,
			  struct diag *d);
/* out (which holds the input) [..ids..] = src, or += src; src may broadcast. */
enum fs_status cpu_scatter(int dim, const struct view *ids, const struct view *src, bool add,
			   const struct view *out, struct diag *d);

/* x[:, i, j, :]: one optional index (data NULL: the whole dim) per leading dim of x. */
struct indices {
	int count;
	struct view at[VIEW_MAX_RANK];
};
/*
 * Torch's advanced indexing: indices broadcast together; their dims stand where the indices stood,
 * or first if whole dims lie between them.  Negative indices count from the end.
 */
enum fs_status cpu_index(const struct view *x, const struct indices *ix, const struct view *out, struct diag *d);
/* out (which holds the input) [ix] = src, or += src; src broadcasts to the indexed shape. */
enum fs_status cpu_index_put(const struct indices *ix, const struct view *src, bool accumulate,
			     const struct view *out, struct diag *d);

/* --- blas.c --- */

/* Loads OpenBLAS and BLIS, whichever are there; FS_UNSUPPORTED where there is neither. Optional: the
 * matmuls do it on first use. */
enum fs_status cpu_blas_load(struct diag *d);
/*
 * Threads that each caller's matmuls run on, for the whole process; 1 unless called.  Set it before
 * the first workspace is asked for.  The BLAS itself always runs with one.
 */
void cpu_blas_threads(int n);
/* How many threads may be in a matmul or sdpa at once: callers times cpu_blas_threads. */
int cpu_blas_max_callers(void);

/* --- gemm.c --- */

/*
 * c[..., M, N] = round(a[..., M, K] b[..., K, N]); leading dims equal, or of stride 0 in a or b.
 * Floats of any type with a float c, or integers and bools with an integer c.
 * Sums in f32 by sgemm (f64 by dgemm where an operand is f64); exact: in f64 in the order of K.
 */
struct gemm {
	struct view a, b, c;
	bool exact;
};
int64_t cpu_gemm_workspace(const struct gemm *g);
enum fs_status cpu_gemm(const struct gemm *g, void *workspace, struct diag *d);

/* --- fp8.c --- */

/* Largest |x| over the dims of the mask, f32; NaN wins. out as for cpu_reduce; empty gives 0. */
void cpu_amax(uint32_t dims, const struct view *x, const struct view *out);
/* out = FP8_MAX / max(amax, 1e-12) in f32 for code type fp8; pow2: rounded down to a power of two. */
void cpu_fp8_scale(const struct view *amax, enum dtype fp8, bool pow2, const struct view *out);
/* out = saturate(rne(f32(x) * scale)): out is e4m3 or e5m2, scale (f32) broadcasts to x. */
void cpu_fp8_cast(const struct view *x, const struct view *scale, const struct view *out);
/*
 * out = acc * sa * sb, with sa and sb f32, broadcast.  In f32, or f64 where acc is; rounded once.
 * low: NULL, or the other half of an e5m2 accumulator, added first.
 */
void cpu_post_scale(const struct view *acc, const struct view *low, const struct view *sa,
		    const struct view *sb, const struct view *out);

/* --- scaled_gemm.c --- */

/*
 * c[..., M, N] = round(sum over k of a[..., M, K] b[..., K, N] * sa * sb), a and b fp8 codes.
 *
 * sa: f32 *dequantization* factors [..., M or 1, n], sb: [..., n, N or 1]: K falls into n equal
 * groups (n = 1: one scale for all of K), each scaled before it is added.  NULL data: unit scales.
 * Leading dims as for cpu_gemm.
 *
 * exact: codes are summed in f64 without rounding (K <= 2^17), acc * sa * sb is in f64 too; so are
 * e4m3 products of fewer than 2^24 terms in all.
 * With an e5m2 operand, products of its codes of magnitude >= 1 and < 1 are summed apart and added
 * once: `low` (data NULL if not wanted; f64, with unit scales) takes the second sum instead, c the first.
 */
struct scaled_gemm {
	struct view a, b, sa, sb, c, low;
	bool exact;
};
int64_t cpu_scaled_gemm_workspace(const struct scaled_gemm *g);
enum fs_status cpu_scaled_gemm(const struct scaled_gemm *g, void *workspace, struct diag *d);

/* --- sdpa.c --- */

/*
 * out[..., H, T, Dv] = softmax(q k^T * scale + mask) v, with q [..., H, T, D], k [..., Hk, S, D],
 * v [..., Hk, S, Dv].  Probabilities stay f32 (of f64: f64); rows that see no key give 0.
 */
struct sdpa {
	struct view q, k, v, out;
	struct view mask; /* data NULL: none; bool: true attends; float: is added. Broadcasts to [..., H, T, S] */
	double scale;
	bool causal;      /* key j is seen by query i where j <= i + q_first */
	int64_t q_first;  /* position of the first query of this shard */
	/* Query head h reads KV head (q_head_first + h) / group - kv_head_first. */
	int64_t q_head_first, kv_head_first, group;
	bool exact;
};
int64_t cpu_sdpa_workspace(const struct sdpa *s);
enum fs_status cpu_sdpa(const struct sdpa *s, void *workspace, struct diag *d);

#endif
