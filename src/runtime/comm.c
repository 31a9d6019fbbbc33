/* What all communicators share: checks, counting, groups along mesh axes. */
#include "comm.h"

static const char *const kind_text[] = {
	[COMM_BARRIER] = "barrier",       [COMM_ALL_GATHER] = "all_gather",
	[COMM_REDUCE_SCATTER] = "reduce_scatter", [COMM_ALL_REDUCE] = "all_reduce",
	[COMM_ALL_TO_ALL] = "all_to_all", [COMM_BROADCAST] = "broadcast",
};

static const char *const reduce_text[] = {"sum", "max", "min"};

const char *comm_kind_text(enum comm_kind kind)
{
	return kind_text[kind];
}

const char *comm_reduce_text(enum comm_reduce reduce)
{
	return reduce_text[reduce];
}

/* Bytes that one rank sends, in a ring of n. */
static uint64_t ring_bytes(const struct collective *call, uint64_t n)
{
	uint64_t bytes = call->count * (uint64_t)dtype_size(call->dtype);
	switch (call->kind) {
	case COMM_BARRIER:
		return 0;
	case COMM_ALL_GATHER:
	case COMM_REDUCE_SCATTER:
	case COMM_ALL_TO_ALL:
		return (n - 1) * bytes;
	case COMM_ALL_REDUCE:
		return 2 * (n - 1) * bytes / n;
	case COMM_BROADCAST:
		return (n - 1) * bytes / n;
	}
	BUG("collective of kind %d", (int)call->kind);
}

static enum fs_status check_call(const struct comm *c, const struct collective *call, struct diag *d)
{
	int64_t bytes, all;
	BUG_ON(call->kind > COMM_BROADCAST || call->reduce > COMM_MIN);
	BUG_ON(call->kind == COMM_BROADCAST && (call->root < 0 || call->root >= c->size));
	if (call->kind == COMM_BARRIER)
		return FS_OK;
	BUG_ON(call->dtype == DT_NONE || call->dtype >= DT_COUNT);
	if (call->count > INT64_MAX || !mul_size((int64_t)call->count, dtype_size(call->dtype), &bytes) ||
	    !mul_size(bytes, 2 * (int64_t)c->size, &all))
		return diag_set(d, FS_INVALID, "%s of %zu %s over %d ranks is too large",
				comm_kind_text(call->kind), call->count, dtype_text(call->dtype), c->size);
	return FS_OK;
}

enum fs_status comm_start(struct comm *c, const struct collective *call, struct diag *d)
{
	BUG_ON(c->in_flight);
	TRY(check_call(c, call, d));
	TRY(c->ops->start(c, call, d));
	c->in_flight = true;
	c->bytes_sent += ring_bytes(call, (uint64_t)c->size);
	return FS_OK;
}

enum fs_status comm_wait(struct comm *c, struct diag *d)
{
	BUG_ON(!c->in_flight);
	c->in_flight = false;
	return c->ops->wait(c, d);
}

enum fs_status comm_run(struct comm *c, const struct collective *call, struct diag *d)
{
	TRY(comm_start(c, call, d));
	return comm_wait(c, d);
}

enum fs_status comm_split(struct comm *c, int color, int key, struct comm **out, struct diag *d)
{
	BUG_ON(c->in_flight);
	return c->ops->split(c, color, key, out, d);
}

enum fs_status comm_split_axes(struct comm *world, int axes, const int32_t *sizes, int set_size,
			       const int *set, struct comm **out, struct diag *d)
{
	int coord[16], rest = world->rank, key = 0, color = 0;
	BUG_ON(axes > 16);
	for (int a = axes - 1; a >= 0; a--) {
		coord[a] = rest % sizes[a];
		rest /= sizes[a];
	}
	for (int k = 0; k < set_size; k++) {
		key = key * sizes[set[k]] + coord[set[k]];
		coord[set[k]] = 0; /* what is left tells the groups apart */
	}
	for (int a = 0; a < axes; a++)
		color = color * sizes[a] + coord[a];
	return comm_split(world, color, key, out, d);
}

void comm_abort(struct comm *c, const char *reason)
{
	BUG_ON(c->in_flight);
	c->ops->abort(c, reason);
}

void comm_destroy(struct comm *c)
{
	if (c == NULL)
		return;
	BUG_ON(c->in_flight);
	c->ops->destroy(c);
}
