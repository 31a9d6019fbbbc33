/* Which dims of a reshape's operand and result hold the same elements. */
#ifndef FS_CANONICALIZE_SHAPE_H
#define FS_CANONICALIZE_SHAPE_H

#include "ir.h"

/* Dims [from, from + from_count) of the operand are dims [to, to + to_count) of the result. */
struct dim_group { int from, from_count, to, to_count; };
#define MAX_GROUPS MAX_RANK

/*
 * The smallest groups, in order; together they are all dims of the result, and all of the operand's
 * unless the result has none.  A result dim of size 1 that is new has an empty `from`; operand dims
 * of size 1 that go away belong to the group after them, or to the last.  -1: there are no elements.
 */
int shape_groups(const struct type *from, const struct type *to, struct dim_group out[MAX_GROUPS]);

/* Every result dim is a product of operand dims: nothing is split, nothing new. */
bool shape_only_merges(const struct dim_group *groups, int count);

bool shape_equal(const struct type *a, const struct type *b);

#endif
