/* Inside the solver of one axis: what solve_class.c makes and solve_axis.c puts together. */
#ifndef FS_SOLVE_AXIS_H
#define FS_SOLVE_AXIS_H

#include "eliminate.h"
#include "solve.h"

/* Labels as a bit mask. */
typedef uint16_t label_set;
#define PARTIALS ((label_set)(1u << LABEL_SUM | 1u << LABEL_MAX | 1u << LABEL_MIN))

struct domain {
	label_set produced, wanted;
	int count;
	label (*pair)[2];
};

/* Ops that cannot be told apart on this axis. */
struct op_class {
	struct strategies strategies;
	uint64_t *price;            /* of each strategy */
	label_set made;             /* labels of the result */
	label (*pair)[2];           /* of each strategy: its result, twice: nothing else is held of it */
	label_set *wants;           /* of each operand */
};

/* Values whose resharding on this axis costs the same, as the other axes hold them. */
struct value_class {
	const struct type *type;
	struct wire wire;
	label others[MAX_AXES];     /* by axis; this one is R */
	int64_t shape[MAX_RANK];    /* over the other axes */
	int rank, item;
	label_set uneven;           /* whose chunks are padded */
	uint64_t price[LABEL_COUNT][LABEL_COUNT]; /* of the cheapest path */
	uint64_t codes[LABEL_COUNT][LABEL_COUNT]; /* the same for users that cast: of codes where they may move */
};

/*
 * A value of one class that is wanted under another, from label to label of this axis: the other axes move it,
 * too, before this one does or after, whichever is cheaper.
 */
struct edge {
	const struct value_class *from, *to;
	const uint64_t (*before)[LABEL_COUNT], (*after)[LABEL_COUNT]; /* this axis moves before the others, or after */
	uint64_t others[LABEL_COUNT]; /* what the other axes pay where this one has the label */
};

struct work {
	struct solver *s;
	int axis;
	int32_t ranks;
	struct arena arena;
	struct factor_graph fg;
	uint16_t *uses;             /* by node, outputs counted */
	bool *inner;                /* by node: a result with one use by an op; its label is its op's */
	bool *fixed;                /* by node: R, no variable */
	bool *hard;                 /* by node: may not be gathered */
	label_set *wanted;          /* by node */
	uint32_t *op_class;         /* by node */
	uint32_t *value_class, *held_class; /* by node: as the other axes produce it, and hold it */
	uint32_t *domain;           /* by node */
	uint32_t *value_var, *op_var; /* by node */
	VEC(struct op_class) classes;
	VEC(struct value_class) value_classes;
	VEC(struct domain) domains;
	struct hash_table class_table, value_table, table_table;
	VEC(const uint64_t *) keys;   /* of class_table, value_table: length first */
	VEC(struct { uint64_t key[4]; const uint64_t *cost; }) tables;
};

static inline bool is_shard(label l)
{
	return l >= LABEL_S(0);
}

static inline bool has_op(const struct work *w, uint32_t i)
{
	return w->s->reached[i] && !w->fixed[i] && !op_is_source((enum op)w->s->g->nodes.items[i].op);
}

/* Classes, made once; the value's labels and those of the op's operands on the other axes are given. */
uint32_t value_class_of(struct work *w, struct node_id n);
uint32_t held_class_of(struct work *w, struct node_id n);
/* The value as the slot of an op, or the output, wants it. */
uint32_t wanted_class_of(struct work *w, struct node_id n, uint32_t slot);
uint32_t output_class_of(struct work *w, uint32_t output);
uint32_t op_class_of(struct work *w, struct node_id n);

/* codes: the user casts the value. */
struct edge edge_make(const struct work *w, uint32_t from_class, uint32_t to_class, bool codes);
uint64_t edge_price(const struct edge *e, label from, label to);

/* solve_minimum.c: the minimum of w->fg; where it is too wide, from the labels at hand, if they are an answer. */
enum elim_status minimize(struct work *w, uint32_t *pick, struct elim_result *r);

#endif
