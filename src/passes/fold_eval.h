/* Inside fold: values of nodes that hang on constants alone. */
#ifndef FS_FOLD_EVAL_H
#define FS_FOLD_EVAL_H

#include "ir.h"

/* Elements known at compile time: those of the type, by strides, in the scratch arena or in a constant. */
struct folded {
	const struct type *type;
	int64_t stride[MAX_RANK]; /* in elements; 0 repeats */
	const char *data;
};

struct fold {
	const struct graph *g;
	struct arena scratch;
	const struct folded **value; /* by id; NULL: not known */
	int64_t work;                /* elements that may still be computed */
};

/* One element, for coordinates of a result of `rank` dims with which x broadcasts. */
static inline const char *folded_at(const struct folded *x, const int64_t *at, int rank)
{
	int64_t offset = 0;
	at += rank - x->type->rank;
	for (int d = 0; d < x->type->rank; d++)
		offset += x->type->dim[d] == 1 ? 0 : at[d] * x->stride[d];
	return x->data + offset * dtype_size((enum dtype)x->type->dtype);
}

/* The next coordinates of t in row-major order; false after the last. */
static inline bool folded_next(const struct type *t, int64_t *at)
{
	for (int d = t->rank - 1; d >= 0; d--) {
		if (++at[d] < t->dim[d])
			return true;
		at[d] = 0;
	}
	return false;
}

static inline const struct folded *folded_in(const struct fold *f, struct node_id n, int k)
{
	return f->value[graph_operand(f->g, n, k).i];
}

void folded_dense_strides(const struct type *t, int64_t stride[MAX_RANK]);
/* Room for a result's elements; out->type is set. */
char *folded_room(struct fold *f, struct folded *out);

/* The value of n, whose operands are known; NULL: not folded (fold_eval.c). */
const struct folded *fold_node(struct fold *f, struct node_id n);
/* Element by element, with the kernels' expressions (fold_pointwise.c); false: no such op. */
bool fold_pointwise(struct fold *f, struct node_id n, struct folded *out);

#endif
