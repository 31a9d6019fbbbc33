/* The functions of the `lower` column of ops.def on the CPU: kernels, called on an instruction's views. */
#ifndef FS_CPU_LOWERING_H
#define FS_CPU_LOWERING_H

#include "backend.h"

struct lowering {
	enum fs_status (*run)(const struct instruction *i, struct diag *d);
	int64_t (*workspace)(const struct instruction *i); /* NULL: none */
};

/* lower_none and lower_collective are not for a backend: the executor sees to them. */
extern const struct lowering lower_none, lower_collective;
/* cpu_data.c */
extern const struct lowering lower_fill, lower_iota, lower_copy, lower_cat, lower_embedding,
	lower_embedding_grad, lower_gather, lower_scatter, lower_index, lower_index_put, lower_triangle, lower_pointwise;
/* cpu_rows.c */
extern const struct lowering lower_reduce, lower_softmax, lower_cumsum, lower_topk, lower_sort,
	lower_rms_norm, lower_layer_norm, lower_amax, lower_fp8_scale, lower_fp8_cast;
/* cpu_products.c */
extern const struct lowering lower_matmul, lower_sdpa, lower_scaled_matmul, lower_post_scale;

/* Where dim `dim` of operand k (k < 0: of the result) begins on this rank. */
int64_t instruction_start(const struct instruction *i, int k, int dim);

#endif
