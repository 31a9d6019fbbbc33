/* Graphs that quantize by themselves: codes times scales, and chains of amax, scale and cast. */
#ifndef FS_FP8_CHAIN_H
#define FS_FP8_CHAIN_H

#include "ir.h"

#define MAX_STEPS 16

/* A value that is fp8 codes times a scale. */
struct stored {
	struct node_id codes;
	struct node_id scale; /* rank 0, or the codes' rank with dims 1 or equal; none: 1 */
	bool divides;         /* codes / scale */
	/* Views and (local) collectives on the way, innermost first: of codes alone, then of both. */
	struct node_id step[MAX_STEPS];
	int inner, steps;
};

/* Is n, through casts, copies and steps, cast(codes), cast(codes) * scale or cast(codes) / scale? */
bool stored_find(const struct graph *g, struct node_id n, struct stored *out);
/* The same of operand `side` of a product; one scale may not change along what is contracted. */
bool stored_operand(const struct graph *g, struct node_id product, int side, struct stored *out);

/* What a step makes of the dims of a scale (rank 0 or as the codes before it); false: a reshape mixes dims with and without. */
bool stored_scale_step(const struct graph *g, struct node_id step, struct type *scale);
/* Is n codes in some form, scaled in any way? */
bool codes_under(const struct graph *g, struct node_id n);

/* Where codes come from that a graph computes: x times FP8_MAX over its amax. */
struct dynamic {
	struct node_id x; /* in its own dtype */
	int dim;          /* the dim over which each row has its amax; -1: one for the tensor */
	bool pow2;
	const char *why; /* it is not so */
};

/* Is `codes` x * scale, clamped and cast to e4m3, with `factor` 1/scale?  Sets out->why in any case. */
bool dynamic_find(const struct graph *g, struct node_id codes, struct node_id factor, struct dynamic *out);

/* The reason that a lifted product gives the report: why operands a and b keep their codes (NULL: they do not). */
const char *lifted_reason(struct context *c, const char *const kept[2]);
bool lifted_keeps(const char *reason, int side);

#endif
