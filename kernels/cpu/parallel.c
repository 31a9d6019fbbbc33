/*
 * Parts of a job on several threads, and a product as such a job: cut along the longer of M and N, each
 * part a product of its own.
 *
 * Every calling thread has helpers of its own, made when it first needs them and gone with it.  They
 * wait a little while awake before they sleep, because a product of 256^3 takes less than 200 us.
 */
#include "internal.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define MAX_PARTS 64
#define GRAIN 16     /* parts begin at multiples of this */
#define AWAKE 4000   /* looks at the next job before sleeping: some 50 us */

struct job {
	part_fn *run;
	const void *context;
	int64_t part;
};

struct helper {
	pthread_t thread;
	pthread_mutex_t lock; /* held to post a job, and to sleep */
	pthread_cond_t posted_one;
	atomic_uint posted, done; /* jobs so far */
	bool quit;
	struct job job;
};

/* The helpers of one calling thread. */
struct team {
	int count;
	struct helper *helpers[MAX_PARTS];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t team_key;

static void rest(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

static void await_job(struct helper *h, unsigned seen)
{
	for (int i = 0; i < AWAKE; i++) {
		if (atomic_load(&h->posted) != seen)
			return;
		rest();
	}
	pthread_mutex_lock(&h->lock);
	while (atomic_load(&h->posted) == seen)
		pthread_cond_wait(&h->posted_one, &h->lock);
	pthread_mutex_unlock(&h->lock);
}

static void *help(void *arg)
{
	struct helper *h = arg;
	for (unsigned seen = 0;; atomic_store(&h->done, seen)) {
		await_job(h, seen++);
		if (h->quit)
			return NULL;
		h->job.run(h->job.context, h->job.part);
	}
}

static void post(struct helper *h)
{
	pthread_mutex_lock(&h->lock);
	atomic_fetch_add(&h->posted, 1);
	pthread_cond_signal(&h->posted_one);
	pthread_mutex_unlock(&h->lock);
}

static void await_done(struct helper *h)
{
	for (int i = 0; atomic_load(&h->done) != atomic_load(&h->posted); i++)
		if (i < AWAKE)
			rest();
		else
			sched_yield();
}

static struct helper *helper_create(void)
{
	struct helper *h = calloc(1, sizeof *h);
	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->posted_one, NULL);
	if (pthread_create(&h->thread, NULL, help, h) == 0)
		return h;
	free(h);
	return NULL;
}

static void team_release(void *arg)
{
	struct team *t = arg;
	for (int i = 0; i < t->count; i++) {
		struct helper *h = t->helpers[i];
		h->quit = true;
		post(h);
		pthread_join(h->thread, NULL);
		pthread_cond_destroy(&h->posted_one);
		pthread_mutex_destroy(&h->lock);
		free(h);
	}
	free(t);
}

static void make_key(void)
{
	if (pthread_key_create(&team_key, team_release) != 0)
		BUG("no thread-specific data left");
}

/* This thread's helpers, at least `count` if the system allows; NULL: none. */
static struct team *team_of(int64_t count)
{
	pthread_once(&once, make_key);
	struct team *t = pthread_getspecific(team_key);
	if (!t) {
		t = calloc(1, sizeof *t);
		if (!t || pthread_setspecific(team_key, t) != 0) {
			free(t);
			return NULL;
		}
	}
	while (t->count < count && (t->helpers[t->count] = helper_create()) != NULL)
		t->count++;
	return t;
}

void parallel_run(int64_t count, part_fn *run, const void *context)
{
	struct team *team = count > 1 ? team_of(count - 1) : NULL;
	int64_t helpers = team ? (team->count < count - 1 ? team->count : count - 1) : 0;
	for (int64_t i = 0; i < helpers; i++) {
		team->helpers[i]->job = (struct job){ run, context, i };
		post(team->helpers[i]);
	}
	for (int64_t i = helpers; i < count; i++)
		run(context, i);
	for (int64_t i = 0; i < helpers; i++)
		await_done(team->helpers[i]);
}

int parallel_parts(void)
{
	return blas_threads() < MAX_PARTS ? blas_threads() : MAX_PARTS;
}

/* --- cutting --- */

static double work(const struct panel_gemm *g)
{
	return (double)g->c.shape[0] * (double)g->c.shape[1] * (double)g->a.shape[1];
}

static bool by_rows(const struct panel_gemm *g)
{
	return g->c.shape[0] >= g->c.shape[1];
}

static int64_t longest(const struct panel_gemm *g)
{
	return g->c.shape[!by_rows(g)];
}

/* Rows or columns of each part; all of them where it is not worth it. */
static int64_t part_size(const struct panel_gemm *g)
{
	int64_t n = longest(g), threads = parallel_parts();
	if (threads == 1 || work(g) < PARALLEL_WORTH)
		return n;
	return ((n + threads - 1) / threads + GRAIN - 1) / GRAIN * GRAIN;
}

static int64_t part_count(const struct panel_gemm *g)
{
	int64_t size = part_size(g);
	return size ? (longest(g) + size - 1) / size : 1;
}

static void cut(struct view *v, int d, int64_t first, int64_t count)
{
	if (!v->data)
		return;
	v->data = view_at(v, first * v->stride[d]);
	v->shape[d] = count;
}

static struct panel_gemm part_at(const struct panel_gemm *g, int64_t first, int64_t size)
{
	struct panel_gemm p = *g;
	int64_t left = longest(g) - first, count = left < size ? left : size;
	bool rows = by_rows(g);
	cut(&p.c, !rows, first, count);
	cut(rows ? &p.a : &p.b, !rows, first, count);
	cut(rows ? &p.sa : &p.sb, !rows, first, count);
	return p;
}

static int64_t part_bytes(const struct panel_gemm *g)
{
	struct panel_gemm p = *g;
	p.c.shape[!by_rows(g)] = part_size(g);
	return panel_gemm_workspace(&p);
}

int64_t parallel_gemm_workspace(const struct panel_gemm *g)
{
	return part_bytes(g) * part_count(g);
}

struct cut {
	const struct panel_gemm *gemm;
	char *workspace;
	int64_t size, bytes; /* of a part: lines of the longer side; workspace */
};

static void run_part(const void *context, int64_t i)
{
	const struct cut *c = context;
	struct panel_gemm p = part_at(c->gemm, i * c->size, c->size);
	panel_gemm(&p, c->workspace + i * c->bytes);
}

void parallel_gemm(const struct panel_gemm *g, void *workspace)
{
	struct cut c = { g, workspace, part_size(g), part_bytes(g) };
	parallel_run(part_count(g), run_part, &c);
}
