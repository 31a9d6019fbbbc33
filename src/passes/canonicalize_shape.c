/* Which dims of a reshape's operand and result hold the same elements. */
#include "canonicalize_shape.h"

#include <string.h>

bool shape_equal(const struct type *a, const struct type *b)
{
	return a->rank == b->rank && memcmp(a->dim, b->dim, sizeof(a->dim[0]) * a->rank) == 0;
}

/* Takes dims of both sides, from the group's first ones on, until their products agree. */
static void close_group(struct dim_group *g, const struct type *from, const struct type *to)
{
	int64_t have = 1, want = to->dim[g->to];
	while (have != want)
		if (have < want)
			have *= from->dim[g->from + g->from_count++];
		else
			want *= to->dim[g->to + g->to_count++];
}

static struct dim_group next_group(const struct type *from, int at, const struct type *to, int to_at)
{
	struct dim_group g = { at, 0, to_at, 1 };
	if (at < from->rank && from->dim[at] == to->dim[to_at])
		g.from_count = 1;
	else
		close_group(&g, from, to);
	return g;
}

int shape_groups(const struct type *from, const struct type *to, struct dim_group out[MAX_GROUPS])
{
	int at = 0, to_at = 0, count = 0;
	if (type_count(from) == 0)
		return -1;
	while (to_at < to->rank) {
		struct dim_group g = next_group(from, at, to, to_at);
		at = g.from + g.from_count;
		to_at = g.to + g.to_count;
		out[count++] = g;
	}
	if (count > 0)
		out[count - 1].from_count += from->rank - at;
	return count;
}

bool shape_only_merges(const struct dim_group *groups, int count)
{
	for (int i = 0; i < count; i++)
		if (groups[i].to_count != 1 || groups[i].from_count == 0)
			return false;
	return count > 0;
}
