/* A product in f64 whose sums run in the order of k: the same bits however M and N are cut. */
#include "internal.h"

#define ROWS 4
#define COLUMNS 8
#define DEPTH 256

typedef double lanes __attribute__((vector_size(32)));

/* Up to DEPTH of k, and as many rows or columns as the kernel takes, zeros beyond the edge. */
static void pack(const double *x, int64_t across, int64_t along, int64_t n, int64_t depth, int width, double *to)
{
	for (int64_t k = 0; k < depth; k++)
		for (int64_t i = 0; i < width; i++)
			to[k * width + i] = i < n ? x[i * across + k * along] : 0;
}

static inline __attribute__((always_inline)) void
kernel_body(const double *a, const double *b, int64_t depth, double c[ROWS][COLUMNS])
{
	lanes sum[ROWS][2], left, right;
	__builtin_memcpy(sum, c, sizeof sum);
	for (int64_t k = 0; k < depth; k++) {
		__builtin_memcpy(&left, b + k * COLUMNS, sizeof left);
		__builtin_memcpy(&right, b + k * COLUMNS + 4, sizeof right);
		for (int i = 0; i < ROWS; i++) {
			double x = a[k * ROWS + i];
			sum[i][0] += x * left;
			sum[i][1] += x * right;
		}
	}
	__builtin_memcpy(c, sum, sizeof sum);
}

static void kernel(const double *a, const double *b, int64_t depth, double c[ROWS][COLUMNS])
{
	kernel_body(a, b, depth, c);
}

#ifdef HAVE_AVX2
TARGET_AVX2 static void kernel_avx2(const double *a, const double *b, int64_t depth, double c[ROWS][COLUMNS])
{
	kernel_body(a, b, depth, c);
}
#endif

static void run_kernel(const double *a, const double *b, int64_t depth, double c[ROWS][COLUMNS])
{
#ifdef HAVE_AVX2
	if (HAVE_AVX2()) {
		kernel_avx2(a, b, depth, c);
		return;
	}
#endif
	kernel(a, b, depth, c);
}

/* ROWS x COLUMNS of c, fewer at the edge. */
static void one_tile(double *c, int64_t ldc, int64_t rows, int64_t columns, const double *a, const double *b,
		     int64_t depth, bool add)
{
	double tile[ROWS][COLUMNS] = { { 0 } };
	for (int64_t i = 0; add && i < rows; i++)
		for (int64_t j = 0; j < columns; j++)
			tile[i][j] = c[i * ldc + j];
	run_kernel(a, b, depth, tile);
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++)
			c[i * ldc + j] = tile[i][j];
}

static int64_t least(int64_t x, int64_t y)
{
	return x < y ? x : y;
}

/* All rows of c against one strip of COLUMNS columns, for k in [first, first + depth). */
static void strip(const struct blas_call *s, int64_t j, int64_t first, int64_t depth)
{
	int64_t a_row = s->ta ? 1 : s->lda, a_k = s->ta ? s->lda : 1;
	int64_t b_column = s->tb ? s->ldb : 1, b_k = s->tb ? 1 : s->ldb;
	int64_t columns = least(COLUMNS, s->n - j);
	const double *a = (const double *)s->a + first * a_k, *b = (const double *)s->b + first * b_k;
	double packed_a[ROWS * DEPTH], packed_b[COLUMNS * DEPTH];
	pack(b + j * b_column, b_column, b_k, columns, depth, COLUMNS, packed_b);
	for (int64_t i = 0; i < s->m; i += ROWS) {
		int64_t rows = least(ROWS, s->m - i);
		pack(a + i * a_row, a_row, a_k, rows, depth, ROWS, packed_a);
		one_tile((double *)s->c + i * s->ldc + j, s->ldc, rows, columns, packed_a, packed_b, depth,
			 s->add || first > 0);
	}
}

void ordered_dgemm(const struct blas_call *s)
{
	for (int64_t k = 0; k < s->k; k += DEPTH)
		for (int64_t j = 0; j < s->n; j += COLUMNS)
			strip(s, j, k, least(DEPTH, s->k - k));
}
