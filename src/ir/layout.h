/*
 * Products of strided operands as plain matrix products: what a BLAS can take without a copy.
 *
 * The letters of an equation fall in four groups (batch, M, N, K).  A product is a matrix product where
 * M, N and K each are one dim in memory for every operand that has them, and every matrix has a unit
 * stride in one direction.  Batch dims merge where they can; those left are loops.
 */
#ifndef FS_LAYOUT_H
#define FS_LAYOUT_H

#include "plan.h"

struct matrix_strides { int64_t row, col; }; /* strides, in elements */
struct matrix_loop { int64_t size, a, b, c; }; /* and what a step adds to each matrix, in elements */

/* c[m,n] = a[m,k] b[k,n] for every step of the loops, outermost first. */
struct matrix_product {
	bool swapped;     /* a is the second operand of the node and b the first: c was stored by columns */
	int64_t m, n, k;  /* any may be 0 */
	struct matrix_strides a, b; /* one stride is 1, the other at least the extent of that direction */
	struct matrix_strides c;    /* c.col is 1 */
	int loops;
	struct matrix_loop loop[MAX_RANK];
};

#define LAYOUT_A 1u
#define LAYOUT_B 2u
#define LAYOUT_C 4u

/*
 * 0: *out is right.  Else a mask of what stands in the way: operands that have to be copied, or a result
 * that has to be stored, in the order that layout_order gives.
 */
unsigned matmul_layout(const struct equation *e, const struct strided *a, const struct strided *b,
		       const struct strided *c, struct matrix_product *out);

/*
 * The dims of value `v` (0 a, 1 b, 2 c) as batch, M, K of a; batch, N, K of b; batch, M, N of c, each group
 * in the order of c, or of a for K.  Dense values in this order always fit.  Not for scalars.
 */
void layout_order(const struct equation *e, int v, int64_t dims[MAX_RANK]);

#endif
