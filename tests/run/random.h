/*
 * Random programs: what check_random.c and random_*.c share.
 *
 * A program is a list of values, each a source with its elements or an op on values above it.  Of each
 * is known how far two right runs of it may differ: `err` is an absolute bound, 0 where every bit is
 * the same whatever the sharding.  Ops that would make a small difference large (round, compare, topk)
 * take values without any.
 */
#ifndef FS_RANDOM_H
#define FS_RANDOM_H

#include "fold_element.h"
#include "passes.h"

#include <stdlib.h>
#include <string.h>

/* --- numbers (random_program.c) --- */

struct rng { uint64_t state; };
uint64_t rng_next(struct rng *r);
int64_t rng_below(struct rng *r, int64_t n); /* n > 0 */
bool rng_chance(struct rng *r, int percent);

/* --- programs --- */

#define MOST_IN 8

/* DATA_SMALL: whole numbers in [-3, 3]. DATA_INDEX: in [0, index). DATA_SPECIAL: with NaN, infinities, -0. */
enum data_kind { DATA_SMALL, DATA_FRACTION, DATA_SPECIAL, DATA_INDEX };

struct value {
	enum op op;
	int count, in[MOST_IN];
	struct attrs attrs;   /* arrays in the program's arena */
	struct type type;     /* no placement */
	enum data_kind data;  /* of a source */
	void *elements;       /* of inputs and parameters: dense; in the arena */
	double most;          /* no number is larger in magnitude, nor are partial sums of it */
	double err;
	int64_t index;        /* > 0: whole numbers in [0, index) */
	bool whole;           /* all numbers are whole */
	bool special;         /* may have NaN or infinities */
	bool zeros;           /* the sign of a zero may differ */
	bool partial;         /* may be a sum over ranks that is not done yet */
};

enum recipe_kind { RECIPE_NONE, RECIPE_TENSOR, RECIPE_ROW };

struct program {
	uint64_t seed;
	struct rng rng;
	bool exact;               /* compiled with --exact */
	enum recipe_kind recipe;  /* of matmuls with a parameter */
	bool pow2;
	bool whole_scales;        /* --scale-scope global on every axis: no scales of parts of a row */
	int64_t sizes[5];         /* of dims */
	struct arena arena;
	struct context *context;  /* without a mesh; for op_infer */
	VEC(struct value) values;
	VEC(int) outputs;
};

struct program *program_create(uint64_t seed);
void program_destroy(struct program *p);
bool *program_reached(const struct program *p); /* by value; caller frees */

/* What an operand has to be. */
struct want {
	enum dtype_class class;  /* DC_NONE: any but fp8 */
	enum dtype dtype;        /* DT_NONE: any */
	int least_rank, most_rank;
	bool clean;              /* err is 0 */
	bool signs;              /* zeros have their sign */
	double most;             /* 0: any */
	int64_t index;           /* whole numbers below this; 0: any */
};
bool value_fits(const struct value *v, const struct want *w);
/* A value that fits, recent ones first; -1: there is none. */
int pick(struct program *p, const struct want *w);
struct value *value_at(const struct program *p, int v);
/* A source, or where one fits a value that is there, of exactly this shape. */
int operand_of(struct program *p, const struct want *w, int rank, const int64_t *dim);
int new_source(struct program *p, enum dtype t, int rank, const int64_t *dim, enum data_kind kind, int64_t index);
int new_param(struct program *p, enum dtype t, int rank, const int64_t *dim);
int64_t some_size(struct program *p);
enum dtype some_float(struct program *p);

/* Appends an op; what is known of it is that of operand 0 before the caller changes it. -1: it cannot be. */
int add_op(struct program *p, enum op op, int count, const int *in, const struct attrs *a);
void attrs_dims(struct program *p, struct attrs *a, enum attr_key k, const int64_t *dims, int count);
double half_ulp(enum dtype t);  /* relative; 0 for integers */
double top_whole(enum dtype t); /* whole numbers up to this one are exact */
/* After the rest is known: a whole number too large for its type, a difference that is rounded again. */
void settle(struct program *p, int v);

/* --- makers: false where the program has nothing to make it of --- */

struct maker { const char *name; bool (*make)(struct program *p); int weight; };
extern const struct maker math_makers[], move_makers[];
extern const int math_maker_count, move_maker_count;

/* --- layouts (random_place.c): a mesh, where values live on it, and how to compile for it --- */

/* By value: sources live where `place` says; others are constrained to it on `axes` (0: free). */
struct pin { struct placement place; uint32_t axes, hard; };

struct layout {
	struct mesh mesh;
	struct pin *pin;     /* in the program's arena */
	bool reduce_f32;
	const char *target;
};

void random_layout(struct program *p, struct layout *l);
/* Of stage global.  Layout NULL: node for node as the program has it, of stage local, for one rank. */
struct graph *program_graph(const struct program *p, struct context *c, const struct layout *l);

/* --- runs (random_run.c) --- */

/* Programs, by op: with the op in their plan; with a result of it that is sharded, sharded unevenly. */
struct coverage {
	uint32_t programs, uneven, empty, several_axes, exact, bits, fp8;
	uint32_t with[OP_COUNT], sharded[OP_COUNT];
};

/* Refused: it does not compile, and hard parameters may be why. */
enum verdict { RUN_GOOD, RUN_REFUSED, RUN_BAD };

struct outcome {
	enum verdict verdict;
	char text[1400]; /* where it is not good */
};

/*
 * Compiles the program for one rank and for the layout, runs both and the program as it stands, and
 * compares all outputs.  Coverage NULL: not counted; print: the plan's graph goes there.
 */
struct outcome program_check(const struct program *p, const struct layout *l, struct coverage *c, FILE *print);

#endif
