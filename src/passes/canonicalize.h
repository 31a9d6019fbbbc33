/* Inside canonicalize: the frame that its rewrites share. */
#ifndef FS_CANONICALIZE_H
#define FS_CANONICALIZE_H

#include "affine.h"
#include "canonicalize_shape.h"
#include "passes.h"

/* The pass at work: `g` grows node by node from what `from` has. */
struct canon {
	const struct graph *from;
	struct graph *g;
	const struct node_id *map; /* ids of from to ids of g */
	uint32_t *users;           /* of each node of from: reached operands and outputs that name it */
	struct affine_table affine;
	struct prov_id last, last_marked;
};

/* A node that is about to be made. */
struct site {
	struct canon *c;
	struct graph *g;
	enum op op;
	int count;
	const struct node_id *in;
	const struct attrs *attrs;
	struct prov_id prov;
	struct node_id source; /* the node of c->from that it copies; none where a rewrite made it */
};

/* Gives the node that is to stand there instead, made through site_*; false: does not fit. */
typedef bool rewrite_fn(const struct site *s, struct node_id *out);

/* A node with its rewrites tried. */
struct node_id canon_emit(const struct site *s);

/* The same for a rewrite: provenance is s's, marked as made by this pass. */
struct node_id site_emit(const struct site *s, enum op op, const struct node_id *in, int count, const struct attrs *a);
/* s's op and attributes on other operands. */
struct node_id site_again(const struct site *s, const struct node_id *in);
struct node_id site_reshape(const struct site *s, struct node_id x, int rank, const int64_t *dim);
struct node_id site_cast(const struct site *s, struct node_id x, int64_t dtype);
struct node_id site_fill(const struct site *s, double value, const struct type *t);
/* x with dims of size 1 put before and repeated to the shape of t. */
struct node_id site_broadcast(const struct site *s, struct node_id x, const struct type *t);
struct type site_type(const struct site *s);

static inline enum op site_op(const struct site *s, int k) { return graph_op(s->g, s->in[k]); }
static inline const struct type *site_in(const struct site *s, int k) { return graph_type(s->g, s->in[k]); }
static inline const struct form *site_form(const struct site *s, struct node_id n)
{
	return affine_form(&s->c->affine, s->g, n);
}

/* What was made, or something simpler of the same value (canonicalize_index.c). */
struct node_id canon_settle(const struct site *s, struct node_id made);

/* canonicalize_index.c */
rewrite_fn rows_into_zeros;
/* canonicalize_matmul.c */
rewrite_fn matmul_over_permute, matmul_over_broadcast, matmul_over_reshape;
/* canonicalize_pointwise.c */
rewrite_fn copy_to_operand, expand_twice, cast_of_cast, cast_of_iota, power_of_one, constant_logic, constant_where,
	pointwise_over_expand, pointwise_over_reshape, along_over_reshape;
/* canonicalize_norm.c */
rewrite_fn root_mean_square, narrow_rms_norm;
/* canonicalize_attention.c */
rewrite_fn repeated_keys, mask_over_expand, mask_of_all, mask_causal, mask_partly_causal, mask_of_infinities;

#endif
