#include "ranks.h"

#include <pthread.h>
#include <stdlib.h>

struct rank {
	pthread_t thread;
	int rank;
	rank_fn *fn;
	void *context;
	struct comm *end;
	enum fs_status status;
	struct diag diag;
};

static void *rank_main(void *arg)
{
	struct rank *r = arg;
	r->status = r->fn(r->context, r->rank, &r->diag);
	if (r->status != FS_OK && r->end != NULL)
		comm_abort(r->end, r->diag.text);
	return NULL;
}

/* The first rank that failed by itself; FS_PEER is what others did to it. */
static const struct rank *first_failed(const struct rank *all, int ranks)
{
	const struct rank *peer = NULL;
	for (int k = 0; k < ranks; k++) {
		if (all[k].status != FS_OK && all[k].status != FS_PEER)
			return &all[k];
		if (all[k].status == FS_PEER && peer == NULL)
			peer = &all[k];
	}
	return peer;
}

static enum fs_status report(const struct rank *all, int ranks, struct diag *d)
{
	const struct rank *r = first_failed(all, ranks);
	if (r == NULL)
		return FS_OK;
	if (ranks > 1 && r->status != FS_PEER)
		return diag_set(d, r->status, "rank %d: %s", r->rank, r->diag.text);
	return diag_set(d, r->status, "%s", r->diag.text);
}

/* Starts threads until one cannot be; that one fails, and with it the world. */
static int start(struct rank *all, int ranks)
{
	for (int k = 0; k < ranks; k++) {
		if (pthread_create(&all[k].thread, NULL, rank_main, &all[k]) == 0)
			continue;
		all[k].status = diag_set(&all[k].diag, FS_NOMEM, "no more threads can be started");
		if (all[k].end != NULL)
			comm_abort(all[k].end, all[k].diag.text);
		return k;
	}
	return ranks;
}

enum fs_status ranks_run(int ranks, struct comm *const *ends, rank_fn *fn, void *context, struct diag *d)
{
	struct rank *all = calloc((size_t)ranks, sizeof(*all));
	if (all == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	for (int k = 0; k < ranks; k++) {
		all[k] = (struct rank){ .rank = k, .fn = fn, .context = context };
		all[k].end = ends == NULL ? NULL : ends[k];
	}
	int started = ranks;
	if (ranks == 1)
		rank_main(&all[0]);
	else
		started = start(all, ranks);
	for (int k = 0; k < started && ranks > 1; k++)
		pthread_join(all[k].thread, NULL);
	enum fs_status status = report(all, ranks, d);
	free(all);
	return status;
}
