/*
 * Communicators between threads of one process.
 *
 * A collective: each rank posts its call and enters a barrier; when all are in, everyone compares
 * the posts, takes its part straight out of the others' buffers, and leaves through a second
 * barrier, after which buffers may change.  An all_reduce has one barrier more: each rank reduces
 * its slice, then copies the others'.  Small payloads are posted by value: then nobody reads a
 * buffer of another rank and the second barrier is not needed.  Posts are kept twice, by parity of
 * the sequence number, because a rank may be one collective ahead of another, never two.
 *
 * The end of the world closes the `enter` barriers.  `leave` never closes: once all are in, all get
 * through, so nobody frees a buffer that another rank still reads.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "barrier.h"
#include "comm.h"
#include "rank_reduce.h"

#define EAGER 1024         /* bytes of a post by value */
#define SPINS 300          /* some microseconds, where each rank has a core */
#define SLICE_ALIGN 64     /* elements: slices of an all_reduce begin on cache lines */

struct post {
	_Alignas(64) struct collective call;
	uint64_t sequence;
	const void *data; /* the payload: `eager` or call.send */
	_Alignas(16) unsigned char eager[EAGER];
};

struct world {
	pthread_mutex_t lock; /* for all below */
	struct group *groups;
	bool over;
	char reason[512];
	uint32_t spins;
};

struct group {
	struct barrier enter, leave;
	struct world *world;
	struct group *next;
	int size, ends; /* ends that are not destroyed; under the world's lock */
	int *world_rank;
	struct post *posts; /* [2][size] */
};

struct thread_comm {
	struct comm base;
	struct group *group;
	uint64_t sequence; /* of the next collective */
	uint32_t round;    /* of `enter`, of the one in flight */
	const void **in;   /* [size], for reductions */
};

/* --- the world and its end --- */

static void world_end(struct world *w, const char *reason)
{
	pthread_mutex_lock(&w->lock);
	if (!w->over) {
		w->over = true;
		snprintf(w->reason, sizeof(w->reason), "%s", reason);
		for (struct group *g = w->groups; g != NULL; g = g->next)
			barrier_close(&g->enter);
	}
	pthread_mutex_unlock(&w->lock);
}

static enum fs_status world_over(struct world *w, struct diag *d)
{
	pthread_mutex_lock(&w->lock);
	diag_set(d, FS_PEER, "%s", w->reason);
	pthread_mutex_unlock(&w->lock);
	return FS_PEER;
}

static struct world *world_create(int ranks)
{
	cpu_set_t cpus;
	struct world *w = calloc(1, sizeof(*w));
	if (w == NULL)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	bool known = sched_getaffinity(0, sizeof(cpus), &cpus) == 0;
	w->spins = known && ranks <= CPU_COUNT(&cpus) ? SPINS : 0;
	return w;
}

static void world_destroy(struct world *w)
{
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void group_free(struct group *g)
{
	free(g->world_rank);
	free(g->posts);
	free(g);
}

static void group_enlist(struct group *g)
{
	struct world *w = g->world;
	pthread_mutex_lock(&w->lock);
	g->next = w->groups;
	w->groups = g;
	if (w->over)
		barrier_close(&g->enter);
	pthread_mutex_unlock(&w->lock);
}

/* A group of so many ends, without world_rank's values; NULL when out of memory. */
static struct group *group_create(struct world *w, int size)
{
	struct group *g = aligned_alloc(64, sizeof(*g));
	if (g == NULL)
		return NULL;
	*g = (struct group){.world = w, .size = size, .ends = size};
	g->world_rank = calloc((size_t)size, sizeof(*g->world_rank));
	g->posts = aligned_alloc(64, 2 * (size_t)size * sizeof(*g->posts));
	if (g->world_rank == NULL || g->posts == NULL) {
		group_free(g);
		return NULL;
	}
	barrier_init(&g->enter, (uint32_t)size, w->spins);
	barrier_init(&g->leave, (uint32_t)size, w->spins);
	group_enlist(g);
	return g;
}

/* Gives back so many ends; the last one frees the group, the last group the world. */
static void group_drop(struct group *g, int ends)
{
	struct world *w = g->world;
	pthread_mutex_lock(&w->lock);
	bool last = (g->ends -= ends) == 0;
	if (last) {
		struct group **at = &w->groups;
		while (*at != g)
			at = &(*at)->next;
		*at = g->next;
	}
	bool empty = w->groups == NULL;
	pthread_mutex_unlock(&w->lock);
	if (last)
		group_free(g);
	if (last && empty)
		world_destroy(w);
}

/* --- posts --- */

static struct post *posts_of(const struct thread_comm *t, uint64_t sequence)
{
	return t->group->posts + (sequence & 1) * (size_t)t->group->size;
}

static size_t chunk_bytes(const struct collective *call)
{
	return call->count * (size_t)dtype_size(call->dtype);
}

/* What one rank sends: whole send buffer. */
static size_t payload_bytes(const struct collective *call, int size)
{
	bool chunks = call->kind == COMM_ALL_TO_ALL || call->kind == COMM_REDUCE_SCATTER;
	return call->kind == COMM_BARRIER ? 0 : chunk_bytes(call) * (chunks ? (size_t)size : 1);
}

static bool is_eager(const struct collective *call, int size)
{
	return payload_bytes(call, size) <= EAGER;
}

static enum fs_status threads_start(struct comm *c, const struct collective *call, struct diag *d)
{
	struct thread_comm *t = (struct thread_comm *)c;
	struct post *post = &posts_of(t, t->sequence)[c->rank];
	bool sends = call->kind != COMM_BROADCAST || call->root == c->rank;
	size_t bytes = payload_bytes(call, c->size);
	if (barrier_is_closed(&t->group->enter)) /* others may still read the last posts */
		return world_over(t->group->world, d);
	post->call = *call;
	post->sequence = t->sequence;
	post->data = call->send;
	if (bytes <= EAGER) {
		post->data = post->eager;
		if (sends && bytes > 0)
			memcpy(post->eager, call->send, bytes);
	}
	t->round = barrier_arrive(&t->group->enter);
	return FS_OK;
}

static bool same_call(const struct post *a, const struct post *b)
{
	bool reduces = a->call.kind == COMM_REDUCE_SCATTER || a->call.kind == COMM_ALL_REDUCE;
	if (a->call.kind != b->call.kind || a->sequence != b->sequence)
		return false;
	if (a->call.kind == COMM_BARRIER)
		return true;
	return a->call.count == b->call.count && a->call.dtype == b->call.dtype &&
	       (!reduces || a->call.reduce == b->call.reduce) &&
	       (a->call.kind != COMM_BROADCAST || a->call.root == b->call.root);
}

/* "all_reduce(sum) of 8 f32", "broadcast of 8 f32 from 1" */
static void call_text(char *text, size_t room, const struct group *g, const struct collective *call)
{
	const char *kind = comm_kind_text(call->kind), *dtype = dtype_text(call->dtype);
	if (call->kind == COMM_BARRIER)
		snprintf(text, room, "barrier");
	else if (call->kind == COMM_ALL_REDUCE || call->kind == COMM_REDUCE_SCATTER)
		snprintf(text, room, "%s(%s) of %zu %s", kind, comm_reduce_text(call->reduce), call->count, dtype);
	else if (call->kind == COMM_BROADCAST)
		snprintf(text, room, "%s of %zu %s from rank %d", kind, call->count, dtype,
			 g->world_rank[call->root]);
	else
		snprintf(text, room, "%s of %zu %s", kind, call->count, dtype);
}

static enum fs_status disagree(struct thread_comm *t, const struct post *posts, int other, struct diag *d)
{
	struct group *g = t->group;
	char reason[512], a[128], b[128];
	call_text(a, sizeof(a), g, &posts[0].call);
	call_text(b, sizeof(b), g, &posts[other].call);
	snprintf(reason, sizeof(reason), "ranks disagree: rank %d calls %s, rank %d calls %s (collective %llu of their group of %d)",
		 g->world_rank[0], a, g->world_rank[other], b, (unsigned long long)posts[0].sequence, g->size);
	world_end(g->world, reason);
	return diag_set(d, FS_PEER, "%s", reason);
}

/* All ranks find the same: the posts stay as they are until everyone has entered once more. */
static enum fs_status compare_posts(struct thread_comm *t, const struct post *posts, struct diag *d)
{
	for (int r = 1; r < t->group->size; r++)
		if (!same_call(&posts[0], &posts[r]))
			return disagree(t, posts, r, d);
	return FS_OK;
}

/* --- moving --- */

static void copy_bytes(void *to, const void *from, size_t bytes)
{
	if (bytes > 0 && to != from)
		memcpy(to, from, bytes);
}

static void leave(struct thread_comm *t)
{
	barrier_wait(&t->group->leave, barrier_arrive(&t->group->leave));
}

/* Everyone begins with the chunk after its own, so that they do not all read one rank at once. */
static int peer_at(const struct comm *c, int step)
{
	return (c->rank + 1 + step) % c->size;
}

static void gather_chunks(struct comm *c, const struct post *posts, const struct collective *call)
{
	size_t bytes = chunk_bytes(call);
	for (int i = 0; i < c->size; i++) {
		int r = peer_at(c, i);
		copy_bytes((char *)call->recv + (size_t)r * bytes, posts[r].data, bytes);
	}
}

static void exchange_chunks(struct comm *c, const struct post *posts, const struct collective *call)
{
	size_t bytes = chunk_bytes(call);
	for (int i = 0; i < c->size; i++) {
		int r = peer_at(c, i);
		const char *from = (const char *)posts[r].data + (size_t)c->rank * bytes;
		copy_bytes((char *)call->recv + (size_t)r * bytes, from, bytes);
	}
}

/* Reduces elements [first, first + count) of everyone's payload. */
static void reduce_part(struct thread_comm *t, const struct post *posts, const struct collective *call,
			void *out, size_t first, size_t count)
{
	size_t offset = first * (size_t)dtype_size(call->dtype);
	for (int r = 0; r < t->base.size; r++)
		t->in[r] = (const char *)posts[r].data + offset;
	rank_reduce(call->reduce, call->dtype, t->base.size, t->in, out, count);
}

struct slice {
	size_t first, count; /* elements */
};

static struct slice slice_of(const struct collective *call, int size, int rank)
{
	size_t each = (call->count + (size_t)size - 1) / (size_t)size;
	each = (each + SLICE_ALIGN - 1) / SLICE_ALIGN * SLICE_ALIGN;
	size_t first = (size_t)rank * each < call->count ? (size_t)rank * each : call->count;
	return (struct slice){first, call->count - first < each ? call->count - first : each};
}

static void all_reduce_slices(struct thread_comm *t, const struct post *posts, const struct collective *call)
{
	struct comm *c = &t->base;
	size_t size = (size_t)dtype_size(call->dtype);
	struct slice own = slice_of(call, c->size, c->rank);
	reduce_part(t, posts, call, (char *)call->recv + own.first * size, own.first, own.count);
	leave(t);
	for (int i = 0; i < c->size - 1; i++) {
		int r = peer_at(c, i);
		struct slice s = slice_of(call, c->size, r);
		copy_bytes((char *)call->recv + s.first * size,
			   (const char *)posts[r].call.recv + s.first * size, s.count * size);
	}
}

static void move(struct thread_comm *t, const struct post *posts, const struct collective *call)
{
	struct comm *c = &t->base;
	switch (call->kind) {
	case COMM_BARRIER:
		break;
	case COMM_ALL_GATHER:
		gather_chunks(c, posts, call);
		break;
	case COMM_ALL_TO_ALL:
		exchange_chunks(c, posts, call);
		break;
	case COMM_BROADCAST:
		copy_bytes(call->recv, posts[call->root].data, chunk_bytes(call));
		break;
	case COMM_REDUCE_SCATTER:
		reduce_part(t, posts, call, call->recv, (size_t)c->rank * call->count, call->count);
		break;
	case COMM_ALL_REDUCE:
		if (is_eager(call, c->size))
			reduce_part(t, posts, call, call->recv, 0, call->count);
		else
			all_reduce_slices(t, posts, call);
		break;
	}
}

static enum fs_status threads_wait(struct comm *c, struct diag *d)
{
	struct thread_comm *t = (struct thread_comm *)c;
	const struct post *posts = posts_of(t, t->sequence++);
	const struct collective *call = &posts[c->rank].call;
	if (!barrier_wait(&t->group->enter, t->round))
		return world_over(t->group->world, d);
	TRY(compare_posts(t, posts, d));
	move(t, posts, call);
	if (!is_eager(call, c->size))
		leave(t);
	return FS_OK;
}

/* --- ends --- */

static void threads_destroy(struct comm *c)
{
	struct thread_comm *t = (struct thread_comm *)c;
	group_drop(t->group, 1);
	free(t->in);
	free(t);
}

static void threads_abort(struct comm *c, const char *reason)
{
	char text[512];
	snprintf(text, sizeof(text), "rank %d stopped: %s", c->world_rank, reason);
	world_end(((struct thread_comm *)c)->group->world, text);
}

static enum fs_status threads_split(struct comm *c, int color, int key, struct comm **out, struct diag *d);

static const struct comm_ops threads_ops = {
	.name = "threads",
	.start = threads_start,
	.wait = threads_wait,
	.split = threads_split,
	.abort = threads_abort,
	.destroy = threads_destroy,
};

/* Takes over one end of the group; drops it when out of memory. */
static struct comm *end_create(struct group *g, int rank)
{
	struct thread_comm *t = calloc(1, sizeof(*t));
	const void **in = calloc((size_t)g->size, sizeof(*in));
	if (t == NULL || in == NULL) {
		free(t);
		free(in);
		group_drop(g, 1);
		return NULL;
	}
	t->base = (struct comm){.ops = &threads_ops, .rank = rank, .size = g->size,
				.world_rank = g->world_rank[rank]};
	t->group = g;
	t->in = in;
	return &t->base;
}

struct wish {
	int32_t color, key, world_rank;
};

/* A rank's place in its new group; leader: the rank of the old group that will be the first. */
struct membership {
	int rank, size, leader;
};

static bool earlier(const struct wish *w, int a, int b)
{
	return w[a].key != w[b].key ? w[a].key < w[b].key : a < b;
}

static struct membership membership_of(const struct wish *w, int size, int self)
{
	struct membership m = {.leader = self};
	for (int r = 0; r < size; r++) {
		if (w[r].color != w[self].color)
			continue;
		m.size++;
		m.rank += earlier(w, r, self);
		if (earlier(w, r, m.leader))
			m.leader = r;
	}
	return m;
}

/* Only the leader makes the group; the others learn of it. */
static struct group *found_group(struct world *world, const struct wish *w, int size, int self, int members)
{
	struct group *g = group_create(world, members);
	for (int r = 0; g != NULL && r < size; r++)
		if (w[r].color == w[self].color)
			g->world_rank[membership_of(w, size, r).rank] = w[r].world_rank;
	return g;
}

static enum fs_status gather_bytes(struct comm *c, const void *send, void *recv, size_t bytes, struct diag *d)
{
	struct collective call = {.kind = COMM_ALL_GATHER, .send = send, .recv = recv, .count = bytes,
				  .dtype = DT_U8};
	return comm_run(c, &call, d);
}

static enum fs_status join_group(struct comm *c, const struct wish *wishes, struct group **groups,
				 struct comm **out, struct diag *d)
{
	struct membership m = membership_of(wishes, c->size, c->rank);
	struct world *world = ((struct thread_comm *)c)->group->world;
	struct group *g = NULL;
	if (m.leader == c->rank)
		g = found_group(world, wishes, c->size, c->rank, m.size);
	enum fs_status status = gather_bytes(c, &g, groups, sizeof(g), d);
	if (status != FS_OK) {
		if (g != NULL)
			group_drop(g, m.size); /* nobody has learnt of it */
		return status;
	}
	if (groups[m.leader] != NULL)
		*out = end_create(groups[m.leader], m.rank);
	return *out != NULL ? FS_OK : diag_set(d, FS_NOMEM, "out of memory: a group of %d ranks", m.size);
}

static enum fs_status threads_split(struct comm *c, int color, int key, struct comm **out, struct diag *d)
{
	enum fs_status status = FS_NOMEM;
	struct wish own = {color, key, c->world_rank};
	uint64_t sent = c->bytes_sent;
	struct wish *wishes = calloc((size_t)c->size, sizeof(*wishes));
	struct group **groups = calloc((size_t)c->size, sizeof(*groups));
	*out = NULL;
	if (wishes == NULL || groups == NULL) {
		diag_set(d, FS_NOMEM, "out of memory: splitting a group of %d ranks", c->size);
		goto out_free;
	}
	status = gather_bytes(c, &own, wishes, sizeof(own), d);
	if (status == FS_OK)
		status = join_group(c, wishes, groups, out, d);
	c->bytes_sent = sent;
out_free:
	free(groups);
	free(wishes);
	return status;
}

enum fs_status comm_world_threads_create(int ranks, struct comm **ends, struct diag *d)
{
	BUG_ON(ranks < 1);
	struct world *w = world_create(ranks);
	struct group *g = w != NULL ? group_create(w, ranks) : NULL;
	int made = 0;
	if (g == NULL)
		goto out_free_world;
	for (int r = 0; r < ranks; r++)
		g->world_rank[r] = r;
	for (; made < ranks && (ends[made] = end_create(g, made)) != NULL; made++)
		;
	if (made == ranks)
		return FS_OK;
	if (made < ranks - 1)
		group_drop(g, ranks - 1 - made); /* end_create() has dropped one */
	while (made-- > 0)
		comm_destroy(ends[made]);
	return diag_set(d, FS_NOMEM, "out of memory: %d ranks", ranks);
out_free_world:
	if (w != NULL)
		world_destroy(w);
	return diag_set(d, FS_NOMEM, "out of memory: %d ranks", ranks);
}
