/*
 * Passes: each rewrites a whole graph into a new one (or gives it back), one file a pass.
 *
 * The manager (pipeline.c) knows the table passes.def: it checks stages, verifies the graph after
 * every pass, dumps and times.  No pass does any of that itself.
 * Laws: keep what a value means; never raise its cost; terminate.
 */
#ifndef FS_PASSES_H
#define FS_PASSES_H

#include "ir.h"

/* What a user asked for, as strings with where they come from, for messages ("--plan", "tp.json"). */
struct request { const char *pattern, *value, *origin; };
typedef VEC(struct request) request_list;

/* A matmul of the source program and what became of it, for the report (recipes.c). */
struct matmul_report {
	const char *node, *module, *source, *equation, *recipe, *reason;
	const char *role; /* NULL: the graph has no backward */
	int64_t m, n, k;
};

/* What placement found, for --timing. */
struct solve_stats { uint64_t cost, cells, widest; int sweeps; uint32_t blocks; /* 0: one exact elimination an axis */ };

/* Values (of the graph that solve takes) that no user may take under a label of an axis, unless they are made so. */
#define MAX_FORBIDDEN 15
struct forbidden { int count; struct { struct node_id value; int axis; uint8_t label; } at[MAX_FORBIDDEN]; };

/* --train: what differentiate.c is to do, and optimizer.c after it. */
struct training {
	bool on;
	const char *loss;                  /* cross_entropy:LABELS[:OUTPUT], mse:TARGET[:OUTPUT], OUTPUT; NULL: none */
	VEC(const char *) cotangents;      /* outputs whose gradients are inputs "grad.OUTPUT" */
	VEC(const char *) input_gradients; /* inputs whose gradients are wanted, too */
	const char *recompute;             /* "block" or a pattern of modules; NULL: nothing is computed again */
	bool reduce_f32;                   /* gradients of parameters are summed over ranks in f32 */
	int blocks, blocks_found;          /* how many of its blocks are (0: all), and how many there are */
	const char *optimizer;             /* NAME[:OPTION=NUMBER,...]; NULL: gradients stay outputs */
	const char *clip_norm;             /* a number; NULL: gradients are not clipped */
	bool keep_gradients;               /* as outputs, beside what the optimizer makes of them */
};

struct compile {
	struct training train;
	request_list styles;    /* --plan: PATTERN=STYLE or PATTERN=PLACEMENT */
	request_list places;    /* --place: VALUE=PLACEMENT */
	request_list recipes;   /* --fp8: RECIPE (pattern NULL) or PATTERN=RECIPE; later ones win */
	request_list scopes;    /* --scale-scope: AXIS=local|global */
	const char *target;     /* machine table: NULL is h100 */
	bool exact, fp8_auto, reduce_f32;
	VEC(const char *) notes; /* said to the user on stderr: unmatched parameters and the like */
	VEC(struct matmul_report) matmuls;
	struct solve_stats solved;
	struct forbidden forbidden; /* {0}: nothing is */
	bool tag_moves;             /* reshards say whose they are: source is MOVE_TAG, the value's id and where to */
};

#define MOVE_TAG "move "

void compile_release(struct compile *c);
/* The same wishes for a compile of which no report is wanted; its notes and matmuls are its own. */
struct compile compile_trial(const struct compile *c);
void compile_trial_release(struct compile *trial);

enum numerics { NUM_EXACT, NUM_REORDERS, NUM_LOSSY };

struct pass {
	const char *name, *summary;
	enum stage from, to;
	enum numerics numerics;
	/* Takes *g and puts its successor there; on an error *g is still to be destroyed by the caller. */
	enum fs_status (*run)(struct graph **g, struct compile *c, struct diag *d);
};

extern const struct pass passes[];
extern const int pass_count;
const struct pass *pass_find(const char *name);

#define PASS(name, ...) enum fs_status pass_##name(struct graph **g, struct compile *c, struct diag *d);
#include "passes.def"
#undef PASS

/* --- pipeline.c --- */

struct pipeline_options {
	const char *only;      /* names separated by commas; NULL: all, in order */
	const char *dump;      /* after which passes to print: "all" or names; NULL: none */
	const char *dump_dir;  /* NN-pass.ir files */
	bool print_changed;
	FILE *out;             /* where dumps go */
	FILE *timing;          /* a line a pass; NULL: none */
};

enum fs_status pipeline_run(struct graph **g, struct compile *c, const struct pipeline_options *o, struct diag *d);

/* --- rebuild.c: the frame of a pass that copies a graph with changes --- */

/*
 * A rebuild copies reached nodes in order; `map` gives each old id its new one.  Passes handle the
 * nodes they change and call rebuild_copy for the rest.
 */
struct rebuild {
	const struct graph *from;
	struct graph *to;
	struct node_id *map;
	bool *reached;
	const char *pass;
};

void rebuild_init(struct rebuild *r, const struct graph *from, enum stage stage, const char *pass);
/* The copy of n on mapped operands (inferred anew and simplified in stage global). */
struct node_id rebuild_copy(struct rebuild *r, struct node_id n);
/* Provenance of n for a node that this pass makes for it: marked as such, without what pins n. */
struct prov_id rebuild_prov(struct rebuild *r, struct node_id n);
/* Outputs mapped; replaces *g by the new graph and frees the old one. */
void rebuild_finish(struct rebuild *r, struct graph **g);
/* Frees what a failed rebuild holds. */
void rebuild_abandon(struct rebuild *r);

#endif
