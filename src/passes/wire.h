/*
 * What a cast saves on the wire: a value that matmuls take in fp8 may be moved as codes with its scales.
 * All that placement and partition know of fp8.
 */
#ifndef FS_WIRE_H
#define FS_WIRE_H

#include "machine.h"
#include "passes.h"

/* How a value is cast; dtype DT_NONE: it is not. */
struct wire {
	enum dtype dtype;   /* of the codes */
	bool pow2;
	uint16_t spanned;   /* dims that one scale spans, a bit each: a move of these changes row scales */
	bool whole;         /* one scale for the tensor */
};

/* How operand k of a matmul is cast; dtype DT_NONE: not at all. */
struct wire wire_operand(const struct graph *g, struct node_id n, int k);
static inline bool wire_equal(const struct wire *a, const struct wire *b)
{
	return a->dtype == b->dtype && a->pow2 == b->pow2 && a->spanned == b->spanned && a->whole == b->whole;
}

/*
 * By value: how it is cast where all users that cast it do it alike (move_casts would not do it for
 * two kinds); by place in graph.operands: does this use cast it so?  Both NULL: no matmul casts, or
 * shards have tensor scales of their own (--scale-scope), which no move may change.
 */
struct wires { struct wire *value; bool *casts; };
struct wires wires_make(const struct graph *g, const struct compile *c, struct arena *arena);

/* Bytes a rank sends for the move, codes and scales; -1: the cast must come after it. Labels and shape as for move_bytes(). */
int64_t wire_bytes(const struct wire *w, const int64_t *shape, int rank, label from, label to, int32_t ranks);
/*
 * move_price() of a value that is cast by what follows: of codes where they may move (and of their scales,
 * or of the all-reduce of amaxes: one more collective).
 */
uint64_t wire_price(const struct machine *m, const struct wire *w, const int64_t *shape, int rank, int item, label from,
		    label to, int32_t ranks);

/*
 * Is one element of a dim (what the axes outside left of it) sharded further?  No pointwise op may stand on
 * such a value: no cast of a sum, no 1/scale.
 */
bool shards_a_single(const struct mesh *mesh, const struct type *t);

#endif
