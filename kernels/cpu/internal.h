/* What the CPU kernels share: walking views, converting runs of elements, summing. */
#ifndef FS_CPU_INTERNAL_H
#define FS_CPU_INTERNAL_H

#include "kernels.h"

/*
 * Loops over runs of known type are worth vectorizing; gcc does not at -O2, nor where a choice between
 * two floats might trap.  No effect on bits.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("tree-vectorize", "vect-cost-model=dynamic", "no-trapping-math")
#endif

#if defined(__x86_64__)
#define HAVE_AVX2() __builtin_cpu_supports("avx2") /* f16c is older: what has avx2 has it */
#define TARGET_AVX2 __attribute__((target("avx2,f16c")))
#endif

/*
 * A loop that compilers vectorize is written once and made for each width of vectors; the loader takes the
 * widest that the CPU has, too early for the thread sanitizer.  For static functions: clang renames others.
 */
#if defined(__has_feature)
#define THREAD_SANITIZER __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#else
#define THREAD_SANITIZER 0
#endif
#if defined(__x86_64__) && defined(__GLIBC__) && !THREAD_SANITIZER
#define ANY_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ANY_WIDTH
#endif

/* --- walk.c --- */

/* `v` seen as shape[rank]: dims aligned at the right, missing and 1-sized ones repeated. BUG if it cannot. */
struct view view_broadcast(const struct view *v, int rank, const int64_t *shape);
/* Without dim d, at the position 0 of it. */
struct view view_drop(const struct view *v, int d);
/* Dims d .. d+count-1 only, others at position 0. */
struct view view_dims(const struct view *v, int d, int count);
void *view_at(const struct view *v, int64_t offset); /* in elements */

#define WALK_MAX 5

/*
 * Runs through views of one shape, a row at a time; dims that can be merged are:
 *
 *     struct walk w;
 *     walk_start(&w, count, views);
 *     for (; w.more; walk_next(&w))
 *             ... w.row elements of each view at w.at[v], w.step[v] elements apart ...
 *
 * Row-major order. Never starts for empty views.
 */
struct walk {
	bool more;
	int count, outer; /* views; dims outside of the row */
	int64_t row;
	char *at[WALK_MAX];
	int64_t step[WALK_MAX];
	int64_t shape[VIEW_MAX_RANK], index[VIEW_MAX_RANK];
	int64_t stride[WALK_MAX][VIEW_MAX_RANK]; /* bytes */
};
void walk_start(struct walk *w, int count, const struct view *const *views);
/* The same, but the row is always exactly the last dim. */
void walk_rows(struct walk *w, int count, const struct view *const *views);
void walk_next(struct walk *w);

/* --- convert.c: n elements, `step` apart (elements) in memory, from or to a dense array --- */

void load_f32(enum dtype t, const void *from, int64_t step, float *to, int64_t n);
void load_f64(enum dtype t, const void *from, int64_t step, double *to, int64_t n);
void load_i64(enum dtype t, const void *from, int64_t step, int64_t *to, int64_t n);
void store_f32(enum dtype t, void *to, int64_t step, const float *from, int64_t n);
void store_f64(enum dtype t, void *to, int64_t step, const double *from, int64_t n);
void store_i64(enum dtype t, void *to, int64_t step, const int64_t *from, int64_t n);

/* The array itself where it is dense f32, else `buffer` with the converted elements. */
static inline const float *borrow_f32(enum dtype t, const void *from, int64_t step, float *buffer, int64_t n)
{
	if (t == DT_F32 && (step == 1 || n <= 1))
		return from;
	load_f32(t, from, step, buffer, n);
	return buffer;
}

/* What an op computes in. */
enum compute { IN_F32, IN_F64, IN_I64 };
enum compute compute_of(enum dtype t);

/* --- convert_avx2.c: false where the CPU or the type has no fast way --- */

bool load_f32_avx2(enum dtype t, const void *from, float *to, int64_t n);
bool store_f32_avx2(enum dtype t, void *to, const float *from, int64_t n);
uint32_t amax_bits_f32(const float *x, int64_t n);

/*
 * --- sum.c: sums of a sequence given in blocks of SUM_BLOCK (the last may be shorter) ---
 *
 * Within a block element i goes to lane i % 16, the lanes are added as a tree; blocks are added in
 * pairs, pairs of pairs and so on.  The order depends on the number of elements alone.
 */
#define SUM_BLOCK 256

struct sum_f32 { uint64_t blocks; float level[48]; };
struct sum_f64 { uint64_t blocks; double level[48]; };
float block_sum_f32(const float *x, int64_t n);
double block_sum_f64(const double *x, int64_t n);
void sum_add_f32(struct sum_f32 *s, float block);
void sum_add_f64(struct sum_f64 *s, double block);
float sum_total_f32(const struct sum_f32 *s);
double sum_total_f64(const struct sum_f64 *s);
/* All at once. exact: in f64. mean_row: the sum of x, or of x * x, divided by `count`. */
float sum_row(const float *x, int64_t n, bool exact);
float mean_row(const float *x, int64_t n, int64_t count, bool square, bool exact);

/* --- row.c --- */

float max_row(const float *x, int64_t n); /* NaN is passed over; -inf where there is nothing */
void exp_row(float *x, float less, int64_t n); /* x = exp(x - less) */
void scale_row(float *x, float by, int64_t n);
void divide_row(float *x, float by, int64_t n);

/* --- blas.c --- */

/* Row-major c[m,n] = op(a)[m,k] op(b)[k,n], or += where `add`; ta: a is stored [k,m]. */
struct blas_call {
	int64_t m, n, k;
	const void *a, *b;
	void *c;
	bool ta, tb, add;
	int64_t lda, ldb, ldc;
};
void blas_sgemm(const struct blas_call *s);
void blas_dgemm(const struct blas_call *s);
int blas_threads(void); /* what cpu_blas_threads() set */

/* --- panels.c: a matrix product by blocks that are converted to f32 or f64 --- */

/*
 * Which codes of the e5m2 operand take part: all, those of magnitude >= 1, those below; or both of
 * these, summed apart and then added.
 */
enum part { PART_ALL, PART_LARGE, PART_SMALL, PART_BOTH };

/*
 * c[M,N] = round(sum over g of a[M,Kg] b[Kg,N] * sa[M,g] * sb[g,N]), K in equal groups.
 * All views have rank 2 (the scales are broadcast ones; data NULL: none, one group).
 */
struct panel_gemm {
	enum compute in;  /* IN_F32: sgemm, IN_F64: dgemm */
	bool ordered;     /* IN_F64: an own loop in the order of k instead of dgemm */
	enum part part;   /* IN_F64 */
	struct view a, b, sa, sb, c;
};
int64_t panel_gemm_workspace(const struct panel_gemm *g);
void panel_gemm(const struct panel_gemm *g, void *workspace);

/* --- parallel.c --- */

#define PARALLEL_WORTH 0x1p23 /* multiply-adds of a job that is worth more than one thread */

/* Calls run(context, 0) to run(context, count - 1): the last here, the others each on a thread of its own. */
typedef void part_fn(const void *context, int64_t part);
void parallel_run(int64_t count, part_fn *run, const void *context);
int parallel_parts(void); /* how many parts are wanted: blas_threads(), within limits */

/* panel_gemm, cut along M or N where it is large enough. */
int64_t parallel_gemm_workspace(const struct panel_gemm *g);
void parallel_gemm(const struct panel_gemm *g, void *workspace);

/* c[m,n] += a b in the order of k, each product and sum rounded to f64; a row or column major, c dense. */
void ordered_dgemm(const struct blas_call *s);

/*
 * Walks the leading dims of a batched product: `count` views of equal rank, whose last two dims are
 * a matrix.  They are a, b, c and, for scaled products, sa, sb, low (data NULL: not there).  A leading
 * dim becomes part of M where b and sb lack it, so that as much as possible is one product.
 */
struct batch {
	int count;
	struct view matrix[6];
	struct view lead[6];
};
void batch_init(struct batch *b, int count, const struct view *views);
bool batch_next(struct batch *b, int64_t *at); /* at: VIEW_MAX_RANK zeros to begin with */

#endif
