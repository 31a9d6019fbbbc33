/* Inner loops of the solver (eliminate.c) on dense tables of costs; nothing here allocates. */
#ifndef FS_COST_TABLE_H
#define FS_COST_TABLE_H

#include "base.h"

/* More dims of two labels than ELIM_CELLS_MAX cells can have. */
#define TABLE_RANK 48

/* What to read along each dim of a dense table: `size` labels, `stride` cells apart (0: the same). */
struct table_dims {
	uint32_t rank;
	size_t size[TABLE_RANK];
	size_t stride[TABLE_RANK];
};

/* to[dense] = from[strides], or to[dense] += from[strides], saturated. */
void table_copy(uint64_t *to, const uint64_t *from, const struct table_dims *dims);
void table_add(uint64_t *to, const uint64_t *from, const struct table_dims *dims);

/* out[r] = min over v of a[v][r].  False where all of it is ELIM_INF. */
bool table_min(uint64_t *out, const uint64_t *a, size_t labels, size_t rest);
/* out[x][y][z] = min over v of a[v][x][y] + b[v][y][z], saturated.  False where all is ELIM_INF. */
bool table_min_sum(uint64_t *out, const uint64_t *a, const uint64_t *b, size_t labels,
		   size_t nx, size_t ny, size_t nz);

#endif
