/*
 * fp8 recipes, by torchao's names.  What each operand of each product of a linear layer becomes is data:
 * a new recipe is a new row of recipe.c.
 */
#ifndef FS_RECIPE_H
#define FS_RECIPE_H

#include "ir.h"

/* How far one scale reaches: the contraction of one row (whatever is not contracted), or the tensor. */
enum span { SPAN_ROW, SPAN_TENSOR };

/* An operand as fp8 codes; DT_NONE: it keeps its dtype, as does the other operand. */
struct casting { enum dtype dtype; enum span span; };

/* Operands: forward (activation, weight); grad_input (gradient, weight); grad_weight (gradient, activation). */
struct recipe {
	const char *name;
	struct casting operand[PRODUCT_ROLES][2];
	bool pow2; /* scales are powers of two: ":pow2" after the name */
};

/* "rowwise", "rowwise:pow2"; all operands of "none" keep their dtype. */
enum fs_status recipe_find(const char *text, struct recipe *out, struct diag *d);
bool recipe_casts(const struct recipe *r, enum product_role role);

/* The castings of a matmul's operands as they stand, by its attributes; false: it stays in its dtype. */
struct product_casts { struct casting operand[2]; bool pow2; };
bool matmul_casts(const struct graph *g, struct node_id n, struct product_casts *out);

#endif
