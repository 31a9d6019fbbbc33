/*
 * Vector-Jacobian products: from the gradient of a result, those of the operands.
 *
 * The column `vjp` of ops.def names one function an op.  It emits plain ops behind the forward graph and
 * gives (vjp_give) each operand its part.  Gradients have the dtype of what they are the gradient of;
 * inside, all is computed in the wide type, f32, or f64 where the op has something of f64, and is
 * rounded once.  Formulas are torch's (tools/autograd/derivatives.yaml), also where there is a choice:
 * equals share the gradient of a maximum, 0 is the slope of relu and abs at 0.
 */
#ifndef FS_VJP_H
#define FS_VJP_H

#include "ir.h"

struct vjp {
	struct graph *g;
	struct prov_id prov;   /* of what is emitted */
	const bool *wanted;    /* by node: some wanted gradient hangs on its own */
	struct node_id *sums;  /* by node: what it was given so far; none: zeros */
	const struct node_id *again; /* by node: its value computed once more, for ops of its block; NULL: nothing is */
	const uint32_t *block;       /* by node */
	/* the op at hand: */
	struct node_id n, grad;
	enum dtype wide;
	const char *lack; /* set by a function that cannot do it: why */
};

typedef void vjp_function(struct vjp *v);
#define OP(name, text, least, most, stages, infer, rule, linear, cost, lower, vjp, attrs) vjp_function vjp_##vjp;
#include "ops.def"
#undef OP

/* --- operands (vjp_build.c) --- */

/* Is the gradient of operand k wanted? A function may leave out those that are not. */
bool vjp_wants(const struct vjp *v, int k);
struct node_id vjp_operand(const struct vjp *v, int k);
struct type vjp_type(const struct vjp *v, struct node_id n);
/* The values of operand k and of the result, to compute with. */
struct node_id vjp_value(const struct vjp *v, int k);
struct node_id vjp_result(const struct vjp *v);
/* The same in the wide type, and the result's gradient. */
struct node_id vjp_x(struct vjp *v, int k);
struct node_id vjp_y(struct vjp *v);
struct node_id vjp_grad(struct vjp *v);
/* Adds d to the gradient of operand k, if it is wanted: summed over what was broadcast, in the operand's dtype. */
void vjp_give(struct vjp *v, int k, struct node_id d);

/* --- what is emitted: types promote as ops do --- */

struct node_id build_emit(struct vjp *v, enum op op, const struct node_id *in, int count, const struct attrs *a);
struct node_id build_1(struct vjp *v, enum op op, struct node_id a);
struct node_id build_2(struct vjp *v, enum op op, struct node_id a, struct node_id b);
struct node_id build_where(struct vjp *v, struct node_id cond, struct node_id a, struct node_id b);
struct node_id build_scalar(struct vjp *v, double x); /* of rank 0, in the wide type */
struct node_id build_with(struct vjp *v, enum op op, struct node_id a, double x);
struct node_id build_fill(struct vjp *v, double x, enum dtype t, int rank, const int64_t *dim);
struct node_id build_cast(struct vjp *v, struct node_id a, enum dtype t);
struct node_id build_reshape(struct vjp *v, struct node_id a, int rank, const int64_t *dim);
struct node_id build_expand(struct vjp *v, struct node_id a, int rank, const int64_t *dim);
struct node_id build_reduce(struct vjp *v, enum op op, struct node_id a, const int64_t *dims, int count);
struct node_id build_iota(struct vjp *v, int64_t count);
/* The equation a, b -> result of letters that end with 0, renamed; dtype of the result. */
struct node_id build_product(struct vjp *v, const char *a_letters, struct node_id a, const char *b_letters,
			   struct node_id b, const char *letters, enum dtype t);

#endif
