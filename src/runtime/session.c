#include "session.h"
#include "host.h"
#include "ranks.h"

#include <stdlib.h>
#include <time.h>

enum fs_status session_ranks(const struct plan *p, int *ranks, struct diag *d)
{
	int64_t n = mesh_size(context_mesh(p->context));
	if (n > cpu_blas_max_callers())
		return diag_set(d, FS_UNSUPPORTED, "the plan has %lld ranks, but the BLAS takes %d threads at once: compile for a smaller mesh",
				(long long)n, cpu_blas_max_callers());
	*ranks = (int)n;
	return FS_OK;
}

/* --- create --- */

struct creation {
	struct session *session;
	const struct session_options *options;
};

static enum fs_status create_rank(void *context, int rank, struct diag *d)
{
	struct creation *c = context;
	struct session *s = c->session;
	struct exec_options o = c->options->exec;
	o.world = s->ends == NULL ? NULL : s->ends[rank];
	TRY(exec_create(s->plan, &o, &s->execs[rank], d));
	TRY(params_store(c->options->params, s->execs[rank], s->plan, d));
	TRY(inputs_store(c->options->inputs, s->execs[rank], s->plan, d));
	return exec_setup(s->execs[rank], d);
}

static enum fs_status make_world(struct session *s, struct diag *d)
{
	s->execs = calloc((size_t)s->ranks, sizeof(*s->execs));
	if (s->execs == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	if (s->ranks == 1)
		return FS_OK;
	s->ends = calloc((size_t)s->ranks, sizeof(*s->ends));
	if (s->ends == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	enum fs_status status = comm_world_threads_create(s->ranks, s->ends, d);
	if (status != FS_OK) { /* there are no ends to destroy */
		free(s->ends);
		s->ends = NULL;
	}
	return status;
}

enum fs_status session_create(struct session *s, const struct plan *p, const struct session_options *o, struct diag *d)
{
	struct creation c = { s, o };
	*s = (struct session){ .plan = p };
	TRY(session_ranks(p, &s->ranks, d));
	enum fs_status status = make_world(s, d);
	if (status == FS_OK)
		status = ranks_run(s->ranks, s->ends, create_rank, &c, d);
	if (status != FS_OK)
		session_destroy(s);
	return status;
}

void session_destroy(struct session *s)
{
	for (int k = 0; k < s->ranks && s->execs != NULL; k++)
		exec_destroy(s->execs[k]);
	for (int k = 0; k < s->ranks && s->ends != NULL; k++)
		comm_destroy(s->ends[k]);
	free(s->execs);
	free(s->ends);
	*s = (struct session){ 0 };
}

/* --- steps --- */

struct steps {
	struct session *session;
	int count;
	double *seconds; /* [rank][step] */
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum fs_status step_rank(void *context, int rank, struct diag *d)
{
	struct steps *t = context;
	struct session *s = t->session;
	const struct collective barrier = { .kind = COMM_BARRIER };
	for (int i = 0; i < t->count; i++) {
		if (s->ends != NULL)
			TRY(comm_run(s->ends[rank], &barrier, d));
		double start = now();
		TRY(exec_step(s->execs[rank], d));
		t->seconds[rank * t->count + i] = now() - start;
	}
	return FS_OK;
}

enum fs_status session_steps(struct session *s, int count, double *seconds, struct diag *d)
{
	struct steps t = { s, count, calloc((size_t)s->ranks * (size_t)count + 1, sizeof(double)) };
	if (t.seconds == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	enum fs_status status = ranks_run(s->ranks, s->ends, step_rank, &t, d);
	for (int i = 0; i < count && seconds != NULL; i++) {
		seconds[i] = 0;
		for (int r = 0; r < s->ranks; r++)
			if (t.seconds[r * count + i] > seconds[i])
				seconds[i] = t.seconds[r * count + i];
	}
	free(t.seconds);
	return status;
}
