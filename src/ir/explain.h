/*
 * Why the collectives of a plan are there: what each moves, the ops on both sides, and what pins them.
 *
 * All of it is read off the plan: placements are in its types, and what a user pinned carries the rule
 * that said so in its provenance (`rule`).  Nothing is solved here.
 */
#ifndef FS_EXPLAIN_H
#define FS_EXPLAIN_H

#include "ir.h"

enum moved_as {
	MOVED_VALUE,  /* as it is */
	MOVED_CODES,  /* its fp8 codes */
	MOVED_SCALES, /* the scales of its codes */
	MOVED_AMAX,   /* its largest element, for a scale */
};
const char *moved_as_text(enum moved_as as); /* "" of MOVED_VALUE */

/* What a collective moves: `value` as an op made it, behind other moves, casts to fp8 and copies. */
struct moved {
	struct node_id value;
	enum moved_as as;
	uint32_t axes;          /* bit mask */
	struct placement from, to;
	uint32_t more;          /* of a bucket of amaxes: the members besides the first */
};
void explain_moved(const struct graph *g, struct node_id collective, struct moved *out);

/* Is it a collective, or a slice by rank? */
bool is_move(const struct graph *g, struct node_id n);
/* The name people know a value by: of the source graph, else "%12". In the arena. */
const char *value_name(const struct graph *g, struct node_id n, struct arena *a);
/* What the axes of the mask do: "(tp:S(0))", R written out. In the arena. */
const char *placement_on(const struct graph *g, const struct placement *p, uint32_t axes, struct arena *a);

/* Something that holds a placement as it is: a value, its placement there, and who says so. */
struct pin {
	const char *value, *placement, *rule;
	bool solvers; /* no one asked for it: another move, which is told of itself */
};
#define MAX_PINS 4
#define MAX_SOLVERS 2 /* of them at most */

/* An op beside a collective: how it runs on the collective's axes, and what pins it; no pins: the solver's choice. */
struct side {
	struct node_id op;    /* NODE_NONE: an output of the program */
	const char *name, *module;
	const char *how;      /* "matmul mk,nk->mn splits k: x (tp:S(1)), w (tp:S(1)) -> (tp:P(sum))" */
	const char *needs;    /* where the op's rule leaves no choice: "takes no (tp:S(1)) there"; else NULL */
	int pins;
	struct pin pin[MAX_PINS];
};
#define MAX_SIDES 4

struct explanation {
	struct moved moved;
	const char *name, *module, *from, *to, *type; /* of the value; type without placement */
	const char *rule;      /* of a constraint that the move itself serves; else NULL */
	struct side made;
	int users, more_users; /* those listed; those left out */
	struct side user[MAX_SIDES];
	/*
	 * What to look at first: an output's rule or that rule; of partial sums a pin of what makes them; a user's
	 * pin, or its need; a pin of what is made.
	 */
	struct pin cause;
};
void explain_collective(const struct graph *g, const struct uses *uses, struct node_id collective, struct arena *a,
			struct explanation *out);

#endif
