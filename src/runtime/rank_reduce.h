/* Sum, max or min over ranks, in rank order: the one place that says how ranks are added. */
#ifndef FS_RANK_REDUCE_H
#define FS_RANK_REDUCE_H

#include "comm.h"

/*
 * out[i] = in[0][i] op in[1][i] op ... in[ranks-1][i], as comm.h says.  `out` may be one of the
 * inputs; otherwise nothing overlaps.
 */
void rank_reduce(enum comm_reduce op, enum dtype dtype, int ranks, const void *const *in, void *out,
		 size_t count);

/* rank_sum_avx2.c: sums the first elements; how many of them, 0 where there is no fast way. */
size_t rank_sum_avx2(enum dtype dtype, int ranks, const void *const *in, void *out, size_t count);

#endif
