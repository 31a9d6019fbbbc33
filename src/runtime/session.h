/*
 * A session: a plan loaded and ready on all ranks of this process, a thread a rank.
 * What fp8shard-run and --check are made of.
 */
#ifndef FS_SESSION_H
#define FS_SESSION_H

#include "exec.h"
#include "params.h"
#include "safetensors.h"

struct session_options {
	const struct params *params;        /* of this plan, or of the one that it is the one-rank form of */
	const struct safetensors *inputs;   /* NULL: the plan has none, or they are stored before each step */
	struct exec_options exec;           /* `world` is the session's */
};

struct session {
	const struct plan *plan;
	int ranks;
	struct comm **ends;  /* NULL: one rank */
	struct exec **execs;
};

/* Ranks of the plan; an error where this process cannot hold them. */
enum fs_status session_ranks(const struct plan *p, int *ranks, struct diag *d);

/* Creates the ranks, loads parameters and inputs, runs setup. The plan is borrowed. */
enum fs_status session_create(struct session *s, const struct plan *p, const struct session_options *o, struct diag *d);
/* Runs `count` steps; seconds[i]: how long step i took, on the slowest rank (NULL: not wanted). */
enum fs_status session_steps(struct session *s, int count, double *seconds, struct diag *d);
void session_destroy(struct session *s); /* {0} is fine */

#endif
