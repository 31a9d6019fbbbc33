/*
 * fp8 recipes, by torchao's names.  Granularity is data: a new recipe is a new row of recipe.c.
 */
#ifndef FS_RECIPE_H
#define FS_RECIPE_H

#include "ir.h"

/* How far one scale reaches along rows or columns (columns: the contraction). */
enum span { SPAN_ONE, SPAN_ALL };

struct granularity { enum span rows, columns; };

struct recipe {
	const char *name;
	enum dtype forward;           /* of both operands of the forward product */
	struct granularity left, right;
	bool pow2;                    /* scales are powers of two: ":pow2" after the name */
};

/* "rowwise", "rowwise:pow2"; "none" gives a recipe whose forward is DT_NONE. */
enum fs_status recipe_find(const char *text, struct recipe *out, struct diag *d);

#endif
