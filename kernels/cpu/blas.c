/*
 * The BLAS libraries: OpenBLAS and BLIS, loaded by name so that both can serve one process.
 *
 * Which one does a product is a fixed rule on its shape and the CPU, so that bits do not depend on
 * timing: OpenBLAS; but on AMD's family 17h (Zen 1 and 2) BLIS where m, n and k are all at most
 * SMALL, because OpenBLAS was seen to reach a third of its speed there on Zen 1, and not on Zen 5
 * with the same kernels.  Where only one is installed it does all.
 *
 * Both always run with one thread: panels.c cuts products for more.  OpenBLAS has one setting for
 * the whole process, and its callers wait for each other when it is above one.
 */
#include "internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#define SMALL 320

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
		      const float *b, int ldb, float beta, float *c, int ldc);
typedef void dgemm_fn(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
		      const double *b, int ldb, double beta, double *c, int ldc);

struct blas {
	sgemm_fn *sgemm;
	dgemm_fn *dgemm;
	void (*set_threads_int)(int n);      /* OpenBLAS */
	void (*set_threads_long)(int64_t n); /* BLIS */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct blas openblas, blis;
static atomic_int threads = 1;

/* dlsym gives a void *, which C does not convert to a function. */
static void find(void *library, const char *name, void *function)
{
	*(void **)function = dlsym(library, name);
}

static void load(struct blas *b, const char *const *names)
{
	void *library = NULL;
	for (int i = 0; names[i] && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	find(library, "cblas_sgemm", &b->sgemm);
	find(library, "cblas_dgemm", &b->dgemm);
	find(library, "openblas_set_num_threads", &b->set_threads_int);
	find(library, "bli_thread_set_num_threads", &b->set_threads_long);
	if (!b->sgemm || !b->dgemm)
		*b = (struct blas){ .sgemm = NULL };
}

static void load_all(void)
{
	load(&openblas, (const char *const[]){ "libopenblas.so.0", "libopenblas.so", NULL });
	load(&blis, (const char *const[]){ "/usr/lib/x86_64-linux-gnu/blis-pthread/libblis.so.4", "libblis.so.4",
					   "libblis.so", NULL });
	if (openblas.set_threads_int)
		openblas.set_threads_int(1);
	if (blis.set_threads_long)
		blis.set_threads_long(1);
}

enum fs_status cpu_blas_load(struct diag *d)
{
	pthread_once(&once, load_all);
	if (!openblas.sgemm && !blis.sgemm)
		return diag_set(d, FS_UNSUPPORTED,
				"no BLAS found: install libopenblas0-pthread or libblis4-pthread");
	return FS_OK;
}

void cpu_blas_threads(int n)
{
	BUG_ON(n < 1);
	atomic_store(&threads, n);
}

int blas_threads(void)
{
	return atomic_load(&threads);
}

/* OpenBLAS of Debian has buffers for 128 threads; 200 callers crashed it, 128 did not. */
int cpu_blas_max_callers(void)
{
	return 100;
}

static bool slow_when_small(void)
{
#ifdef __x86_64__
	return __builtin_cpu_is("amdfam17h");
#else
	return false;
#endif
}

static const struct blas *choose(const struct blas_call *s)
{
	bool small = s->m <= SMALL && s->n <= SMALL && s->k <= SMALL;
	if (!openblas.sgemm || (small && blis.sgemm && slow_when_small()))
		return &blis;
	return &openblas;
}

void blas_sgemm(const struct blas_call *s)
{
	choose(s)->sgemm(ROW_MAJOR, s->ta ? TRANS : NO_TRANS, s->tb ? TRANS : NO_TRANS, (int)s->m, (int)s->n,
			 (int)s->k, 1, s->a, (int)s->lda, s->b, (int)s->ldb, s->add, s->c, (int)s->ldc);
}

void blas_dgemm(const struct blas_call *s)
{
	choose(s)->dgemm(ROW_MAJOR, s->ta ? TRANS : NO_TRANS, s->tb ? TRANS : NO_TRANS, (int)s->m, (int)s->n,
			 (int)s->k, 1, s->a, (int)s->lda, s->b, (int)s->ldb, s->add, s->c, (int)s->ldc);
}
