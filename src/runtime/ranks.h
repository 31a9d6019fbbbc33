/* Ranks as threads of this process: one call on each, the first error of them all. */
#ifndef FS_RANKS_H
#define FS_RANKS_H

#include "base.h"
#include "comm.h"

typedef enum fs_status rank_fn(void *context, int rank, struct diag *d);

/*
 * Runs fn on every rank and waits for all.  A rank that fails aborts its end (ends[rank]; NULL: there is
 * one rank), so that nobody waits for it.  The error is the one that began it; with more than one rank
 * it says which rank's it is.
 */
enum fs_status ranks_run(int ranks, struct comm *const *ends, rank_fn *fn, void *context, struct diag *d);

#endif
