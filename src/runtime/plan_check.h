/*
 * --check: does sharding, and does fp8, change what a plan computes?
 *
 *     A  sharded high precision against unsharded.  Plans in f32: at least 90 dB; with 16-bit floats: not
 *        more than 3 dB further than the unsharded run from one that computes them in f32.  A product
 *        may also lose what one ulp, and the rounding of its partial sums, is: where one element
 *        outweighs all others, the figure is luck
 *     B  each fp8 product, fed with what the high-precision run feeds it, against its product: at least
 *        20 dB; beside it the worst 1 % of its rows
 *     C  sharded fp8 against unsharded: bits, where the plan is exact (and no shard has scales of its
 *        own); else it is only shown
 *
 * All in this process, from the one plan: unsharded is the plan on one rank, high precision is the plan
 * with its casts left out (exec.h).
 */
#ifndef FS_PLAN_CHECK_H
#define FS_PLAN_CHECK_H

#include "session.h"

#define CHECK_A_F32 90.0
#define CHECK_A_LOSS 3.0
#define CHECK_B 20.0

/* A product of the plan, or an output. dB; NaN: does not apply. */
struct check_row {
	struct node_id value;
	const char *name, *module, *recipe; /* borrowed from the plan; module NULL: an output */
	double a, a_unsharded; /* against unsharded; or, 16-bit floats: both against f32 */
	double b, b_rows;
	double c;
	bool c_equal;          /* in every bit */
	bool failed_a, failed_b, failed_c;
	double margin;         /* dB above the nearest threshold: rows are sorted by it */
};

struct check {
	struct check_row *rows;
	uint32_t count, failed;
	bool wide;             /* A is against a run in f32 */
	double unit;           /* half an ulp, relative, of the coarsest 16-bit float */
	bool bits;             /* C is judged */
};

/* FS_OK also where a threshold fails: look at `failed`. */
enum fs_status check_plan(const struct plan *p, const struct params *params, const struct safetensors *inputs,
			  struct check *out, struct diag *d);
void check_release(struct check *c);

/* A table, worst first, `most` rows of it; or all as JSON. */
void check_print(const struct check *c, uint32_t most, FILE *out);
enum fs_status check_json(const struct check *c, char **text, struct diag *d);

#endif
