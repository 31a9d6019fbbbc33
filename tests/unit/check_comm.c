/* Conformance of a communicator: every collective against a plain loop; ends of the world; groups. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "scalar.h"
#include "suite.h"
#define MOST_RANKS 64

/* --- ranks as threads; a rank must not leave through Check's longjmp, so it counts failures --- */

static atomic_int failures;

#define EXPECT(condition)                                                                     \
	do {                                                                                  \
		if (!(condition) && atomic_fetch_add(&failures, 1) < 5)                       \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);       \
	} while (0)

typedef void rank_fn(struct comm *c, const void *what);

struct rank_thread {
	pthread_t thread;
	struct comm *comm;
	rank_fn *fn;
	const void *what;
};

static void *rank_main(void *arg)
{
	struct rank_thread *t = arg;
	t->fn(t->comm, t->what);
	comm_destroy(t->comm);
	return NULL;
}

static void on_ranks(int ranks, rank_fn *fn, const void *what)
{
	struct rank_thread threads[MOST_RANKS];
	struct comm *ends[MOST_RANKS];
	struct diag d = {0};
	ck_assert_int_eq(comm_world_threads_create(ranks, ends, &d), FS_OK);
	for (int r = 0; r < ranks; r++) {
		threads[r] = (struct rank_thread){.comm = ends[r], .fn = fn, .what = what};
		ck_assert_int_eq(pthread_create(&threads[r].thread, NULL, rank_main, &threads[r]), 0);
	}
	for (int r = 0; r < ranks; r++)
		pthread_join(threads[r].thread, NULL);
	ck_assert_int_eq(atomic_load(&failures), 0);
}

static const int rank_counts[] = {1, 2, 3, 4, 8, 16};
#define EACH(i, array) (size_t i = 0; i < sizeof(array) / sizeof((array)[0]); i++)

/* --- data: what rank r has at element i --- */

static uint32_t mix(uint32_t r, size_t i)
{
	uint64_t x = (r + 1) * 0x9e3779b97f4a7c15u + i * 0xc2b2ae3d27d4eb4fu;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9u;
	return (uint32_t)(x >> 32);
}

static void put(enum dtype t, void *array, size_t i, uint32_t r)
{
	uint32_t x = mix(r, i);
	float f = (float)(int32_t)x * 0x1p-24f;
	switch (t) {
	case DT_F64: ((double *)array)[i] = (double)(int32_t)x * 1.1; break;
	case DT_F32: ((float *)array)[i] = f; break;
	case DT_F16: ((uint16_t *)array)[i] = f16_encode(f); break;
	case DT_BF16: ((uint16_t *)array)[i] = bf16_encode(f); break;
	case DT_I64: ((int64_t *)array)[i] = (int64_t)((uint64_t)x << 32 | x); break;
	case DT_I32: case DT_U32: ((uint32_t *)array)[i] = x; break;
	case DT_I16: ((uint16_t *)array)[i] = (uint16_t)x; break;
	case DT_BOOL: ((uint8_t *)array)[i] = x % 5 == 0; break;
	default: ((uint8_t *)array)[i] = (uint8_t)x; break;
	}
}

static void *filled(enum dtype t, size_t count, uint32_t r)
{
	void *p = malloc(count * (size_t)dtype_size(t) + 1);
	for (size_t i = 0; i < count; i++)
		put(t, p, i, r);
	return p;
}

static double float_of(enum dtype t, const void *array, size_t i)
{
	switch (t) {
	case DT_F64: return ((const double *)array)[i];
	case DT_F32: return ((const float *)array)[i];
	case DT_F16: return f16_decode(((const uint16_t *)array)[i]);
	case DT_BF16: return bf16_decode(((const uint16_t *)array)[i]);
	default: return 0;
	}
}

static int64_t int_of(enum dtype t, const void *array, size_t i)
{
	switch (t) {
	case DT_I64: return ((const int64_t *)array)[i];
	case DT_I32: return ((const int32_t *)array)[i];
	case DT_U32: return ((const uint32_t *)array)[i];
	case DT_I16: return ((const int16_t *)array)[i];
	case DT_I8: return ((const int8_t *)array)[i];
	default: return ((const uint8_t *)array)[i];
	}
}

static void set_float(enum dtype t, void *array, size_t i, double x)
{
	switch (t) {
	case DT_F64: ((double *)array)[i] = x; break;
	case DT_F32: ((float *)array)[i] = (float)x; break;
	case DT_F16: ((uint16_t *)array)[i] = f16_encode((float)x); break;
	default: ((uint16_t *)array)[i] = bf16_encode((float)x); break;
	}
}

static void set_int(enum dtype t, void *array, size_t i, int64_t x)
{
	if (t == DT_BOOL)
		x = x != 0;
	memcpy((char *)array + i * (size_t)dtype_size(t), &x, (size_t)dtype_size(t)); /* little-endian */
}

static double combine_float(enum comm_reduce op, bool wide, double a, double b)
{
	if (op == COMM_SUM)
		return wide ? a + b : (double)((float)a + (float)b);
	if (isnan(a) || isnan(b))
		return NAN;
	return op == COMM_MAX ? (b > a ? b : a) : (b < a ? b : a);
}

static int64_t combine_int(enum comm_reduce op, int64_t a, int64_t b)
{
	if (op == COMM_SUM)
		return (int64_t)((uint64_t)a + (uint64_t)b);
	return op == COMM_MAX ? (b > a ? b : a) : (b < a ? b : a);
}

/* The reduction of element i of all ranks' arrays, by the definition in comm.h. */
static void expected_element(enum comm_reduce op, enum dtype t, int ranks, void *const *arrays, size_t i,
			     void *out, size_t at)
{
	double f = float_of(t, arrays[0], i);
	int64_t n = int_of(t, arrays[0], i);
	for (int r = 1; r < ranks; r++) {
		f = combine_float(op, t == DT_F64, f, float_of(t, arrays[r], i));
		n = combine_int(op, n, int_of(t, arrays[r], i));
	}
	if (dtype_is_float(t))
		set_float(t, out, at, f);
	else
		set_int(t, out, at, n);
}

/* --- collectives --- */

struct shape {
	size_t count;
	enum dtype dtype;
	enum comm_reduce reduce;
};

static void run_ok(struct comm *c, struct collective call)
{
	struct diag d = {0};
	EXPECT(comm_run(c, &call, &d) == FS_OK);
	EXPECT(d.status == FS_OK);
}

static void reduce_on_rank(struct comm *c, const void *what)
{
	const struct shape *s = what;
	size_t n = (size_t)c->size, size = (size_t)dtype_size(s->dtype);
	void *arrays[MOST_RANKS] = {0}, *want = malloc(n * s->count * size + 1), *got = malloc(n * s->count * size + 1);
	for (size_t r = 0; r < n; r++)
		arrays[r] = filled(s->dtype, n * s->count, (uint32_t)r);
	for (size_t i = 0; i < n * s->count; i++)
		expected_element(s->reduce, s->dtype, c->size, arrays, i, want, i);
	void *own = arrays[c->rank];
	struct collective call = {COMM_ALL_REDUCE, own, got, n * s->count, s->dtype, s->reduce, 0};
	run_ok(c, call);
	EXPECT(memcmp(got, want, n * s->count * size) == 0);
	call = (struct collective){COMM_REDUCE_SCATTER, own, got, s->count, s->dtype, s->reduce, 0};
	run_ok(c, call);
	EXPECT(memcmp(got, (char *)want + (size_t)c->rank * s->count * size, s->count * size) == 0);
	call.recv = (char *)own + (size_t)c->rank * s->count * size; /* in place */
	run_ok(c, call);
	EXPECT(memcmp(call.recv, (char *)want + (size_t)c->rank * s->count * size, s->count * size) == 0);
	free(own);
	arrays[c->rank] = own = filled(s->dtype, n * s->count, (uint32_t)c->rank);
	call = (struct collective){COMM_ALL_REDUCE, own, own, n * s->count, s->dtype, s->reduce, 0};
	run_ok(c, call);
	EXPECT(memcmp(own, want, n * s->count * size) == 0);
	for (size_t r = 0; r < n; r++)
		free(arrays[r]);
	free(want);
	free(got);
}

START_TEST(reductions)
{
	static const enum dtype dtypes[] = {DT_F32, DT_BF16, DT_F16, DT_F64, DT_I64, DT_I32,
					    DT_I16, DT_I8,   DT_U8,  DT_U32, DT_BOOL};
	static const size_t counts[] = {0, 1, 7, 130, 2500};
	for EACH(k, rank_counts)
		for EACH(i, counts)
			for EACH(j, dtypes) {
				struct shape s = {counts[i], dtypes[j], (enum comm_reduce)((i + j + k) % 3)};
				on_ranks(rank_counts[k], reduce_on_rank, &s);
				s.reduce = COMM_SUM;
				on_ranks(rank_counts[k], reduce_on_rank, &s);
			}
}
END_TEST

static void gather_on_rank(struct comm *c, const void *what)
{
	const struct shape *s = what;
	size_t n = (size_t)c->size, bytes = s->count * (size_t)dtype_size(s->dtype);
	char *own = filled(s->dtype, s->count, (uint32_t)c->rank), *got = malloc(n * bytes + 1);
	struct collective call = {COMM_ALL_GATHER, own, got, s->count, s->dtype, COMM_SUM, 0};
	for (int in_place = 0; in_place < 2; in_place++) {
		run_ok(c, call);
		for (size_t r = 0; r < n; r++) {
			void *want = filled(s->dtype, s->count, (uint32_t)r);
			EXPECT(memcmp(got + r * bytes, want, bytes) == 0);
			free(want);
		}
		memset(got, 0xee, n * bytes);
		memcpy(got + (size_t)c->rank * bytes, own, bytes);
		call.send = got + (size_t)c->rank * bytes;
	}
	EXPECT(c->bytes_sent == 2 * (n - 1) * bytes);
	free(own);
	free(got);
}

static void exchange_on_rank(struct comm *c, const void *what)
{
	const struct shape *s = what;
	size_t n = (size_t)c->size, bytes = s->count * (size_t)dtype_size(s->dtype);
	char *own = filled(s->dtype, n * s->count, (uint32_t)c->rank), *got = malloc(n * bytes + 1);
	run_ok(c, (struct collective){COMM_ALL_TO_ALL, own, got, s->count, s->dtype, COMM_SUM, 0});
	for (size_t r = 0; r < n; r++) {
		char *theirs = filled(s->dtype, n * s->count, (uint32_t)r);
		EXPECT(memcmp(got + r * bytes, theirs + (size_t)c->rank * bytes, bytes) == 0);
		free(theirs);
	}
	EXPECT(c->bytes_sent == (n - 1) * bytes);
	free(own);
	free(got);
}

static void broadcast_on_rank(struct comm *c, const void *what)
{
	const struct shape *s = what;
	size_t bytes = s->count * (size_t)dtype_size(s->dtype);
	for (int root = 0; root < c->size; root++) {
		void *own = filled(s->dtype, s->count, (uint32_t)c->rank);
		void *want = filled(s->dtype, s->count, (uint32_t)root);
		void *got = root % 2 ? own : malloc(bytes + 1);
		const void *send = c->rank == root ? own : NULL;
		run_ok(c, (struct collective){COMM_BROADCAST, send, got, s->count, s->dtype, COMM_SUM, root});
		EXPECT(memcmp(got, want, bytes) == 0);
		if (got != own)
			free(got);
		free(own);
		free(want);
	}
}

START_TEST(moves)
{
	static const struct shape shapes[] = {
		{0, DT_F32, 0}, {1, DT_U8, 0}, {13, DT_BF16, 0}, {333, DT_E4M3, 0}, {1024, DT_U8, 0},
		{1025, DT_U8, 0}, {777, DT_F64, 0}, {20000, DT_F32, 0},
	};
	for EACH(k, rank_counts)
		for EACH(i, shapes) {
			on_ranks(rank_counts[k], gather_on_rank, &shapes[i]);
			on_ranks(rank_counts[k], exchange_on_rank, &shapes[i]);
			on_ranks(rank_counts[k], broadcast_on_rank, &shapes[i]);
		}
}
END_TEST

static void nan_on_rank(struct comm *c, const void *what)
{
	size_t count = *(const size_t *)what;
	uint32_t *amax = calloc(count, sizeof(*amax));
	float *x = calloc(count, sizeof(*x));
	for (size_t i = 0; i < count; i++) {
		x[i] = (float)((c->rank + (int)i) % c->size);
		amax[i] = f32_bits(x[i]);
	}
	uint16_t *h = calloc(count, sizeof(*h));
	if (c->rank == 1) {
		amax[count / 2] = 0x7fc00000;
		x[count / 2] = NAN;
		h[count / 2] = 0xff81;
	}
	run_ok(c, (struct collective){COMM_ALL_REDUCE, amax, amax, count, DT_U32, COMM_MAX, 0});
	run_ok(c, (struct collective){COMM_ALL_REDUCE, x, x, count, DT_F32, COMM_MAX, 0});
	for (size_t i = 0; i < count; i++) {
		EXPECT(i == count / 2 ? isnan(f32_from_bits(amax[i])) : f32_from_bits(amax[i]) == (float)(c->size - 1));
		EXPECT(i == count / 2 ? isnan(x[i]) : x[i] == (float)(c->size - 1));
	}
	run_ok(c, (struct collective){COMM_ALL_REDUCE, h, h, count, DT_BF16, COMM_SUM, 0});
	for (size_t i = 0; i < count; i++)
		EXPECT(h[i] == (i == count / 2 ? 0x7fc0 : 0));
	free(amax);
	free(x);
	free(h);
}

START_TEST(nan_wins)
{
	static const size_t counts[] = {1, 5, 3001};
	for EACH(k, rank_counts)
		for EACH(i, counts)
			if (rank_counts[k] > 1)
				on_ranks(rank_counts[k], nan_on_rank, &counts[i]);
}
END_TEST

static void count_on_rank(struct comm *c, const void *what)
{
	float x[4000] = {0}, y[4000];
	(void)what;
	run_ok(c, (struct collective){COMM_ALL_REDUCE, x, y, 1000, DT_F32, COMM_SUM, 0});
	EXPECT(c->bytes_sent == 6000); /* 2 * 3/4 of 4000 bytes */
	run_ok(c, (struct collective){COMM_REDUCE_SCATTER, x, y, 1000, DT_F32, COMM_SUM, 0});
	EXPECT(c->bytes_sent == 6000 + 12000);
	run_ok(c, (struct collective){COMM_BROADCAST, x, y, 1000, DT_F32, COMM_SUM, 2});
	run_ok(c, (struct collective){.kind = COMM_BARRIER});
	struct diag d = {0};
	struct collective huge = {COMM_ALL_GATHER, x, y, SIZE_MAX / 4, DT_F32, COMM_SUM, 0};
	EXPECT(comm_run(c, &huge, &d) == FS_INVALID);
	EXPECT(c->bytes_sent == 6000 + 12000 + 3000);
}

START_TEST(bytes_are_those_of_a_ring_or_too_many)
{
	on_ranks(4, count_on_rank, NULL);
}
END_TEST

/* --- many collectives, of all sizes, one after another --- */

static void small_on_rank(struct comm *c, const void *what)
{
	int rounds = *(const int *)what;
	for (int i = 0; i < rounds; i++) {
		int32_t x[3] = {c->rank, i, 1}, sum[3];
		run_ok(c, (struct collective){COMM_ALL_REDUCE, x, sum, 3, DT_I32, COMM_SUM, 0});
		EXPECT(sum[0] == c->size * (c->size - 1) / 2 && sum[1] == i * c->size && sum[2] == c->size);
	}
}

START_TEST(ten_thousand_small)
{
	on_ranks(2, small_on_rank, &(int){10000});
	on_ranks(16, small_on_rank, &(int){10000});
	on_ranks(64, small_on_rank, &(int){1000});
}
END_TEST

/* Buffers are reused at once, sizes cross the limit between posts by value and by pointer. */
static void mixed_on_rank(struct comm *c, const void *what)
{
	int32_t *x = calloc(3000, sizeof(*x)), *y = calloc(3000 * (size_t)c->size, sizeof(*y));
	(void)what;
	for (int i = 0; i < 3000; i++) {
		size_t count = mix(77, (size_t)i) % (i % 3 == 0 ? 3000 : 300);
		for (size_t k = 0; k < count; k++)
			x[k] = (int32_t)mix((uint32_t)c->rank, k + (size_t)i);
		if (mix(78, (size_t)i) % 2) {
			run_ok(c, (struct collective){COMM_ALL_GATHER, x, y, count, DT_I32, COMM_SUM, 0});
			for (size_t k = 0; k < count * (size_t)c->size; k++)
				EXPECT(y[k] == (int32_t)mix((uint32_t)(k / count), k % count + (size_t)i));
		} else {
			run_ok(c, (struct collective){COMM_ALL_REDUCE, x, x, count, DT_I32, COMM_MAX, 0});
			for (size_t k = 0; k < count; k++)
				EXPECT(x[k] >= (int32_t)mix((uint32_t)c->rank, k + (size_t)i));
		}
	}
	free(x);
	free(y);
}

START_TEST(mixed_sizes)
{
	on_ranks(2, mixed_on_rank, NULL);
	on_ranks(5, mixed_on_rank, NULL);
}
END_TEST

/* --- groups --- */

static void mesh_on_rank(struct comm *world, const void *what)
{
	static const int32_t sizes[3] = {2, 2, 2};
	static const int sets[][3] = {{0}, {1}, {2}, {0, 1}, {1, 0}, {0, 2}, {2, 1}, {0, 1, 2}, {2, 0, 1}};
	static const int set_sizes[] = {1, 1, 1, 2, 2, 2, 2, 3, 3};
	(void)what;
	for EACH(i, sets) {
		struct comm *c;
		struct diag d = {0};
		int32_t got[8], n = 1 << set_sizes[i];
		EXPECT(comm_split_axes(world, 3, sizes, set_sizes[i], sets[i], &c, &d) == FS_OK);
		EXPECT(c->size == n && c->world_rank == world->rank);
		run_ok(c, (struct collective){COMM_ALL_GATHER, &world->rank, got, 1, DT_I32, COMM_SUM, 0});
		for (int32_t k = 0; k < n; k++) {
			int want = world->rank; /* with its coordinates on the axes replaced by those of k */
			for (int a = 0; a < set_sizes[i]; a++) {
				int bit = 4 >> sets[i][a];
				want = (want & ~bit) | (k >> (set_sizes[i] - 1 - a) & 1 ? bit : 0);
			}
			EXPECT(got[k] == want);
		}
		EXPECT(got[c->rank] == world->rank);
		comm_destroy(c);
	}
	EXPECT(world->bytes_sent == 0);
}

START_TEST(groups_of_a_mesh)
{
	for (int i = 0; i < 20; i++)
		on_ranks(8, mesh_on_rank, NULL);
}
END_TEST

static void split_on_rank(struct comm *world, const void *what)
{
	struct comm *odd, *alone;
	struct diag d = {0};
	int32_t got[16];
	(void)what;
	EXPECT(comm_split(world, world->rank % 3, -world->rank, &odd, &d) == FS_OK); /* last one first */
	EXPECT(comm_split(odd, odd->rank, 0, &alone, &d) == FS_OK);
	EXPECT(alone->size == 1 && alone->world_rank == world->rank);
	run_ok(odd, (struct collective){COMM_ALL_GATHER, &world->rank, got, 1, DT_I32, COMM_SUM, 0});
	for (int k = 0; k < odd->size; k++)
		EXPECT(got[k] % 3 == world->rank % 3 && (k == 0 || got[k] < got[k - 1]));
	comm_destroy(odd);
	run_ok(alone, (struct collective){COMM_ALL_REDUCE, got, got, 1, DT_I32, COMM_SUM, 0});
	comm_destroy(alone);
}

START_TEST(groups_of_groups)
{
	on_ranks(8, split_on_rank, NULL);
	on_ranks(1, split_on_rank, NULL);
}
END_TEST

/* --- the end of the world --- */

static enum fs_status gather_fresh(struct comm *c, size_t count, struct diag *d)
{
	float *send = calloc(count, sizeof(*send)), *recv = malloc(count * (size_t)c->size * sizeof(*recv));
	struct collective call = {COMM_ALL_GATHER, send, recv, count, DT_F32, COMM_SUM, 0};
	enum fs_status status = comm_run(c, &call, d);
	free(send); /* at once: nobody may read it any more */
	free(recv);
	return status;
}

static void abort_on_rank(struct comm *world, const void *what)
{
	int quits = *(const int *)what;
	struct comm *pair;
	struct diag d = {0};
	EXPECT(comm_split(world, world->rank / 2, 0, &pair, &d) == FS_OK);
	EXPECT(gather_fresh(world, 2000, &d) == FS_OK);
	if (world->rank == quits) {
		comm_abort(pair, "no more memory");
	} else if (world->rank / 2 == quits / 2) {
		EXPECT(gather_fresh(pair, 2000, &d) == FS_PEER);
	} else if (gather_fresh(pair, 2000, &d) == FS_OK) {
		EXPECT(gather_fresh(world, 10, &d) == FS_PEER);
	}
	char want[64];
	snprintf(want, sizeof(want), "rank %d stopped: no more memory", quits);
	EXPECT(world->rank == quits || strcmp(d.text, want) == 0);
	d = (struct diag){0};
	comm_abort(world, "too late"); /* the first one counts */
	EXPECT(gather_fresh(world, 1, &d) == FS_PEER && strcmp(d.text, want) == 0);
	comm_destroy(pair);
}

START_TEST(abort_wakes_all)
{
	for (int i = 0; i < 100; i++)
		on_ranks(6, abort_on_rank, &(int){i % 6});
}
END_TEST

/* One rank gives up after some collectives; everybody else must hear of it, at the same one. */
static void random_abort_on_rank(struct comm *c, const void *what)
{
	unsigned seed = *(const unsigned *)what;
	int quits = (int)(mix(seed, 1) % (uint32_t)c->size), after = (int)(mix(seed, 2) % 20);
	struct diag d = {0};
	for (int i = 0; i < 40; i++) {
		if (c->rank == quits && i == after) {
			comm_abort(c, "test");
			return;
		}
		size_t count = mix(seed, (size_t)i + 3) % 600; /* by value or by pointer */
		enum fs_status status = gather_fresh(c, count, &d);
		EXPECT(status == (i < after ? FS_OK : FS_PEER));
		if (status != FS_OK)
			return;
	}
}

START_TEST(abort_at_random_moments)
{
	for (unsigned i = 0; i < 300; i++)
		on_ranks(2 + (int)(i % 7), random_abort_on_rank, &i);
}
END_TEST

struct mismatch {
	struct collective usual, odd;
	const char *text;
};

static void mismatch_on_rank(struct comm *c, const void *what)
{
	const struct mismatch *m = what;
	float x[64] = {0}, y[64];
	struct diag d = {0};
	struct collective call = c->rank == 2 ? m->odd : m->usual;
	run_ok(c, (struct collective){.kind = COMM_BARRIER});
	call.send = x;
	call.recv = y;
	EXPECT(comm_run(c, &call, &d) == FS_PEER);
	char want[256];
	snprintf(want, sizeof(want), "ranks disagree: rank 0 calls %s (collective 1 of their group of 4)", m->text);
	EXPECT(strcmp(d.text, want) == 0);
	EXPECT(comm_run(c, &call, &d) == FS_PEER);
}

START_TEST(disagreement_names_both)
{
	static const struct mismatch cases[] = {
		{{.kind = COMM_ALL_REDUCE, .count = 8, .dtype = DT_F32}, {.kind = COMM_BARRIER},
		 "all_reduce(sum) of 8 f32, rank 2 calls barrier"},
		{{.kind = COMM_ALL_REDUCE, .count = 8, .dtype = DT_F32},
		 {.kind = COMM_ALL_REDUCE, .count = 8, .dtype = DT_F32, .reduce = COMM_MAX},
		 "all_reduce(sum) of 8 f32, rank 2 calls all_reduce(max) of 8 f32"},
		{{.kind = COMM_ALL_GATHER, .count = 8, .dtype = DT_F32}, {.kind = COMM_ALL_GATHER, .count = 9, .dtype = DT_F32},
		 "all_gather of 8 f32, rank 2 calls all_gather of 9 f32"},
		{{.kind = COMM_ALL_GATHER, .count = 8, .dtype = DT_BF16}, {.kind = COMM_ALL_GATHER, .count = 8, .dtype = DT_F16},
		 "all_gather of 8 bf16, rank 2 calls all_gather of 8 f16"},
		{{.kind = COMM_BROADCAST, .count = 8, .dtype = DT_F32, .root = 1}, {.kind = COMM_BROADCAST, .count = 8, .dtype = DT_F32},
		 "broadcast of 8 f32 from rank 1, rank 2 calls broadcast of 8 f32 from rank 0"},
	};
	for (int i = 0; i < 20; i++)
		for EACH(k, cases)
			on_ranks(4, mismatch_on_rank, &cases[k]);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("threads");
	tcase_set_timeout(t, 300);
	tcase_add_test(t, reductions);
	tcase_add_test(t, moves);
	tcase_add_test(t, nan_wins);
	tcase_add_test(t, bytes_are_those_of_a_ring_or_too_many);
	tcase_add_test(t, ten_thousand_small);
	tcase_add_test(t, mixed_sizes);
	tcase_add_test(t, groups_of_a_mesh);
	tcase_add_test(t, groups_of_groups);
	tcase_add_test(t, abort_wakes_all);
	tcase_add_test(t, abort_at_random_moments);
	tcase_add_test(t, disagreement_names_both);
	Suite *s = suite_create("comm");
	suite_add_tcase(s, t);
	return suite_run(s);
}
