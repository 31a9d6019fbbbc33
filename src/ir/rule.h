/*
 * Sharding rules: what an op's dims have in common, as factors (as the letters of an einsum).
 *
 * Each dim of each operand and of the result is a product of factors, major to minor.  One mesh axis
 * may shard one factor of an op: operands (and a result) whose dim has it are S(dim), operands without
 * it are R, and a result without it is P(reduce).  A factor may be sharded only where, in every dim
 * that has it, it is the major-most factor of size > 1 and chunk boundaries fall on it:
 *     ceil(|dim| / n) = ceil(|factor| / n) * |minor factors|.
 * Factors are larger than 1, so a dim of size 1 has none.  Part of a dim that nothing else shares and
 * that must not be sharded has none either; it is always the minor part.
 * All shapes are those of the largest shard over the axes placed before.
 */
#ifndef FS_RULE_H
#define FS_RULE_H

#include "ir.h"

#define MAX_FACTORS 32

struct rule_factor {
	int64_t size;
	bool whole;      /* must not be sharded */
	uint8_t reduce;  /* PART_SUM, PART_MAX or PART_MIN where the result lacks it; else unused */
};

struct rule_dim { uint8_t count, factor[MAX_RANK]; }; /* major to minor; what they leave of the dim is whole */
struct rule_value { uint8_t rank; struct rule_dim dim[MAX_RANK]; };

struct rule {
	int factors;
	struct rule_factor factor[MAX_FACTORS];
	int values; /* operands, then the result */
	struct rule_value *value; /* in the caller's arena */
};

/*
 * The rule of node n over operand and result shapes `shape` (operands first, then the result; local
 * shapes of the axes placed so far).  alternative 0 always exists; sdpa has a second (heads of q
 * alone, k and v replicated).  False: no such alternative.
 */
bool op_rule(const struct graph *g, struct node_id n, const int64_t (*shape)[MAX_RANK], int alternative,
	     struct arena *scratch, struct rule *out);

/* What one axis does with a value: a label. */
typedef uint8_t label;
#define LABEL_R 0
#define LABEL_SUM 1
#define LABEL_MAX 2
#define LABEL_MIN 3
#define LABEL_S(dim) ((label)(4 + (dim)))
#define LABEL_COUNT (4 + MAX_RANK)
/* What axis `axis` does with a placement. */
label label_of(const struct placement *p, int axis);

/* One way to run an op on an axis: labels of operands, then of the result; the share of the work of a rank. */
struct strategies {
	int count, stride; /* labels a strategy: operands + result */
	label *at;         /* count * stride */
	bool *divided;     /* a rank does 1/n of the work (else all of it) */
};

/*
 * All strategies of node n for an axis of `size` ranks: all replicated, one per factor that may be
 * sharded, and those that let P pass: P(sum) through linear ops (not where `exact`), P(max) and P(min) through ops
 * that only move elements.  No strategy twice.
 */
void op_strategies(const struct graph *g, struct node_id n, const int64_t (*shape)[MAX_RANK], int32_t size,
		   bool exact, struct arena *scratch, struct strategies *out);

#endif
