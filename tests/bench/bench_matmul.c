/*
 * fp8 local matmul, decode and scaling included, against the sgemm of OpenBLAS and of BLIS.
 *
 *     bench_matmul            a table: GFLOP/s of each, and ours / the better of the two
 *     bench_matmul --strict   exit 1 where the ratio is below 0.9
 *
 * Each measurement is a process of its own (this program again, with --one), because both
 * libraries export cblas; the contenders take turns, and the best of all turns counts.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels.h"

#define TURNS 5
#define SECONDS 0.25 /* of each turn, at least 3 runs */

struct shape { int64_t m, n, k; };
static const struct shape shapes[] = { { 1024, 1024, 1024 }, { 4096, 512, 4096 }, { 256, 256, 256 } };

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
		      const float *b, int ldb, float beta, float *c, int ldc);

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One product, whatever the contender: its operands are made once. */
struct contender {
	sgemm_fn *sgemm;
	struct shape s;
	void *a, *b, *c, *space;
	struct scaled_gemm g;
};

static void run(struct contender *x)
{
	struct diag d = { .status = FS_OK };
	if (x->sgemm)
		x->sgemm(101, 111, 112, (int)x->s.m, (int)x->s.n, (int)x->s.k, 1, x->a, (int)x->s.k, x->b,
			 (int)x->s.k, 0, x->c, (int)x->s.n);
	else if (cpu_scaled_gemm(&x->g, x->space, &d) != FS_OK)
		BUG("%s", d.text);
}

static void *operand(int64_t n, bool codes)
{
	float *f = aligned_alloc(64, (size_t)(n * 4 + 63) / 64 * 64);
	for (int64_t i = 0; i < n; i++)
		if (codes)
			((uint8_t *)f)[i] = (uint8_t)(i * 2654435761u >> 16 & 0xbf);
		else
			f[i] = (float)(i * 2654435761u >> 16 & 0xff) / 256;
	return f;
}

/* The library itself, with its own thread setting. */
static sgemm_fn *load_peer(const char *name, int threads)
{
	bool blis = strcmp(name, "blis") == 0;
	void *library = dlopen(blis ? "libblis.so.4" : "libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
	sgemm_fn *sgemm = NULL;
	void (*set_int)(int) = NULL;
	void (*set_long)(int64_t) = NULL;
	if (!library)
		return NULL;
	*(void **)&sgemm = dlsym(library, "cblas_sgemm");
	*(void **)&set_int = dlsym(library, "openblas_set_num_threads");
	*(void **)&set_long = dlsym(library, "bli_thread_set_num_threads");
	if (set_int)
		set_int(threads);
	if (set_long)
		set_long(threads);
	return sgemm;
}

static void prepare_ours(struct contender *x, int threads)
{
	const struct shape *s = &x->s;
	cpu_blas_threads(threads);
	x->g.a = view_of(x->a, DT_E4M3, 2, (const int64_t[]){ s->m, s->k });
	x->g.b = view_of(x->b, DT_E4M3, 2, (const int64_t[]){ s->n, s->k });
	x->g.c = view_of(x->c, DT_BF16, 2, (const int64_t[]){ s->m, s->n });
	x->g.sa = view_of(operand(s->m, false), DT_F32, 2, (const int64_t[]){ s->m, 1 });
	x->g.sb = view_of(operand(s->n, false), DT_F32, 2, (const int64_t[]){ 1, s->n });
	/* weights are stored [N, K] */
	x->g.b.shape[0] = s->k;
	x->g.b.shape[1] = s->n;
	x->g.b.stride[0] = 1;
	x->g.b.stride[1] = s->k;
	x->space = aligned_alloc(64, (size_t)(cpu_scaled_gemm_workspace(&x->g) + 63) / 64 * 64);
}

/* Prints the best time of one run, in seconds. */
static int measure(const char *name, const struct shape *s, int threads)
{
	bool ours = strcmp(name, "ours") == 0;
	struct contender x = { .s = *s };
	if (!ours && !(x.sgemm = load_peer(name, threads)))
		return 1;
	x.a = operand(s->m * s->k, ours);
	x.b = operand(s->n * s->k, ours);
	x.c = operand(s->m * s->n, false);
	if (ours)
		prepare_ours(&x, threads);
	run(&x);
	double best = INFINITY, start = now();
	for (int i = 0; i < 3 || now() - start < SECONDS; i++) {
		double t = now();
		run(&x);
		t = now() - t;
		best = t < best ? t : best;
	}
	printf("%.9f\n", best);
	return 0;
}

static double in_child(const char *self, const char *name, const struct shape *s, int threads)
{
	char command[4200];
	double seconds = INFINITY;
	snprintf(command, sizeof command, "'%s' --one %s %lld %lld %lld %d", self, name, (long long)s->m,
		 (long long)s->n, (long long)s->k, threads);
	FILE *f = popen(command, "r");
	if (f && fscanf(f, "%lf", &seconds) != 1)
		seconds = INFINITY;
	if (f)
		pclose(f);
	return seconds;
}

static double compare(const char *self, const struct shape *s, int threads)
{
	static const char *const names[] = { "ours", "openblas", "blis" };
	double best[3] = { INFINITY, INFINITY, INFINITY };
	for (int turn = 0; turn < TURNS; turn++)
		for (int i = 0; i < 3; i++)
			best[i] = fmin(best[i], in_child(self, names[i], s, threads));
	double flops = 2e-9 * (double)(s->m * s->n * s->k), ratio = fmin(best[1], best[2]) / best[0];
	printf("%5lld x %4lld x %4lld  %7d  %8.1f  %8.1f  %8.1f  %6.2f\n", (long long)s->m, (long long)s->n,
	       (long long)s->k, threads, flops / best[0], flops / best[1], flops / best[2], ratio);
	fflush(stdout);
	return ratio;
}

int main(int argc, char **argv)
{
	bool strict = argc == 2 && strcmp(argv[1], "--strict") == 0, good = true;
	if (argc == 7 && strcmp(argv[1], "--one") == 0)
		return measure(argv[2], &(struct shape){ atoll(argv[3]), atoll(argv[4]), atoll(argv[5]) },
			       atoi(argv[6]));
	printf("    M x    N x    K  threads  fp8 ours  OpenBLAS      BLIS   ratio   (GFLOP/s)\n");
	for (int threads = 1; threads <= 2; threads++)
		for (int i = 0; i < 3; i++)
			good = compare(argv[0], &shapes[i], threads) >= 0.9 && good;
	return strict && !good;
}
