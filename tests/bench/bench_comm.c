/*
 * Collectives between thread ranks against memcpy of the same bytes by all ranks at once: those
 * that a ring algorithm sends, and for all_to_all and broadcast, which copy more, those that a rank
 * receives into another buffer.  In place where the contract allows it.
 *
 *     bench_comm [ranks] (default 2)
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm.h"

enum { MOST_RANKS = 64, MOST_SIZED = 8, RUNS = 9, SMALL_RUNS = 2000 };

struct bench {
	const char *name;
	struct collective call; /* count: bytes of the whole buffer, until it is run */
	bool chunks;            /* count is that of a chunk */
};

static const struct bench benches[] = {
	{"all_gather u8", {.kind = COMM_ALL_GATHER, .dtype = DT_U8}, true},
	{"all_to_all u8", {.kind = COMM_ALL_TO_ALL, .dtype = DT_U8}, true},
	{"reduce_scatter f32", {.kind = COMM_REDUCE_SCATTER, .dtype = DT_F32}, true},
	{"reduce_scatter bf16", {.kind = COMM_REDUCE_SCATTER, .dtype = DT_BF16}, true},
	{"all_reduce f32", {.kind = COMM_ALL_REDUCE, .dtype = DT_F32}, false},
	{"all_reduce bf16", {.kind = COMM_ALL_REDUCE, .dtype = DT_BF16}, false},
	{"broadcast u8", {.kind = COMM_BROADCAST, .dtype = DT_U8}, false},
};
#define BENCHES (sizeof(benches) / sizeof(benches[0]))

struct rank_thread {
	pthread_t thread;
	struct comm *comm;
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(enum fs_status status, const struct diag *d)
{
	if (status == FS_OK)
		return;
	fprintf(stderr, "bench_comm: %s\n", d->text);
	exit(1);
}

static void barrier(struct comm *c)
{
	struct diag d = {0};
	must(comm_run(c, &(struct collective){.kind = COMM_BARRIER}, &d), &d);
}

static struct collective sized(const struct comm *c, const struct bench *b, size_t bytes, char *x, char *y)
{
	struct collective call = b->call;
	size_t size = (size_t)dtype_size(call.dtype), chunk = bytes / (size_t)c->size;
	call.count = (b->chunks ? chunk : bytes) / size;
	call.send = x;
	call.recv = y;
	if (call.kind == COMM_ALL_GATHER)
		call.send = y + (size_t)c->rank * chunk;
	if (call.kind == COMM_ALL_REDUCE || call.kind == COMM_BROADCAST)
		call.send = y;
	return call;
}

/* One collective, or where `call` is NULL one copy. */
struct work {
	const struct collective *call;
	char *to;
	const char *from;
	size_t bytes;
};

static void work_run(struct comm *c, const struct work *w)
{
	struct diag d = {0};
	if (w->call != NULL)
		must(comm_run(c, w->call, &d), &d);
	else
		memcpy(w->to, w->from, w->bytes);
}

/* Seconds of one, from the best of some batches between two barriers. */
static double time_work(struct comm *c, const struct work *w, int batch)
{
	double best = 1e30;
	for (int i = 0; i < RUNS; i++) {
		barrier(c);
		double start = now();
		for (int k = 0; k < batch; k++)
			work_run(c, w);
		barrier(c);
		double took = (now() - start) / batch;
		best = took < best ? took : best;
	}
	return best;
}

static size_t copied_bytes(const struct comm *c, const struct collective *call, size_t sent)
{
	size_t bytes = call->count * (size_t)dtype_size(call->dtype);
	if (call->kind == COMM_ALL_TO_ALL)
		return bytes * (size_t)c->size;
	return call->kind == COMM_BROADCAST ? bytes : sent;
}

static void bench_size(struct comm *c, size_t bytes, char *x, char *y)
{
	struct diag d = {0};
	for (size_t i = 0; i < BENCHES; i++) {
		struct collective call = sized(c, &benches[i], bytes, x, y);
		uint64_t before = c->bytes_sent;
		must(comm_run(c, &call, &d), &d);
		size_t sent = copied_bytes(c, &call, c->bytes_sent - before);
		int batch = 1 + (int)(((size_t)32 << 20) / bytes);
		double copy = time_work(c, &(struct work){NULL, y, x, sent}, batch);
		double took = time_work(c, &(struct work){.call = &call}, batch);
		if (c->rank == 0)
			printf("%3zu MiB  %-20s %9.3f ms   memcpy of %9zu B %9.3f ms   %.2f\n", bytes >> 20,
			       benches[i].name, took * 1e3, sent, copy * 1e3, took / copy);
	}
}

static void bench_latency(struct comm *c)
{
	uint32_t x[64] = {0};
	struct collective call = {COMM_ALL_REDUCE, x, x, 64, DT_U32, COMM_MAX, 0};
	struct diag d = {0};
	barrier(c);
	double start = now();
	for (int i = 0; i < SMALL_RUNS; i++)
		must(comm_run(c, &call, &d), &d);
	if (c->rank == 0)
		printf("all_reduce of 64 u32, %d ranks: %.2f us\n", c->size, (now() - start) / SMALL_RUNS * 1e6);
}

static void bench_sizes(struct comm *c)
{
	size_t most = (size_t)64 << 20, room = 2 * most; /* an all_reduce sends almost twice its buffer */
	char *x = aligned_alloc(64, room), *y = aligned_alloc(64, room);
	memset(x, 0, room);
	memset(y, 0, room);
	for (size_t bytes = (size_t)1 << 20; bytes <= most; bytes *= 4)
		bench_size(c, bytes, x, y);
	free(x);
	free(y);
}

static void *rank_main(void *arg)
{
	struct comm *c = ((struct rank_thread *)arg)->comm;
	bench_latency(c);
	if (c->size <= MOST_SIZED)
		bench_sizes(c);
	comm_destroy(c);
	return NULL;
}

int main(int argc, char **argv)
{
	int ranks = argc > 1 ? atoi(argv[1]) : 2;
	struct rank_thread threads[MOST_RANKS];
	struct comm *ends[MOST_RANKS];
	struct diag d = {0};
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (ranks < 1 || ranks > MOST_RANKS)
		return 2;
	must(comm_world_threads_create(ranks, ends, &d), &d);
	for (int r = 0; r < ranks; r++) {
		threads[r].comm = ends[r];
		if (pthread_create(&threads[r].thread, NULL, rank_main, &threads[r]) != 0)
			return 1;
	}
	for (int r = 0; r < ranks; r++)
		pthread_join(threads[r].thread, NULL);
	return 0;
}
