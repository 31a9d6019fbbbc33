/* What each matmul is to the loss, and to which linear layer it belongs. */
#ifndef FS_ROLES_H
#define FS_ROLES_H

#include "recipe.h"

struct product {
	enum product_role role;
	bool flipped;           /* operand 0 is the weight (of grad_weight: the activation), operand 1 the other */
	struct node_id forward; /* the layer's forward product, that with a 2-D parameter; none: of no layer */
};

/* By node id; of other nodes than matmuls zero. */
struct roles { bool backward; struct product *of; };

/*
 * One sweep each from the outputs up and from the sources down.  A graph has its backward where it has gradient
 * outputs; then backward is what they hang on and the loss (without one: the user's outputs) does not.
 */
struct roles roles_make(const struct graph *g);
void roles_release(struct roles *r);

/* The operand that is the weight: a 2-D parameter, under casts and copies or as codes times a scale; -1: none is. */
int weight_operand(const struct graph *g, struct node_id matmul);
/* The parameter that operand k is, as above; or none. */
struct node_id parameter_of(const struct graph *g, struct node_id matmul, int k);

#endif
