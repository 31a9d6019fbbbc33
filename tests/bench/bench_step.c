/*
 * A step of a Megatron MLP with sequence parallelism, y = gelu(x w1^T) w2^T, T=1024 H=1024 F=4096 in f32 on
 * two ranks of one thread, forward alone and with its backward: against its bare sgemms (both ranks at once,
 * same BLAS) and against peers/step_torch.py of the shared folder where torch and torchao are installed.
 *
 *     bench_step            a table: ms, step / sgemms, torch / step
 *     bench_step --strict   exit 1 where step / sgemms > 1.25, or torch is not as much slower as the table `jobs` says
 *
 * Plans come from the fp8shard in the folder above this program's.  Contenders take turns; the best of
 * as many steps of each counts.  FP8SHARD_SHARED: the shared folder (../shared).
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels.h"
#include "plan_file.h"
#include "session.h"

enum { T = 1024, H = 1024, F = 4096, RANKS = 2, TURNS = 7, STEPS = 3 };

static const char program[] =
	"mesh tp=2\n"
	"graph {\n"
	"  %x = input \"x\" : f32[1024,1024] (tp:S(0))\n"
	"  %w1 = param \"w1\" {hard=tp} : f32[4096,1024] (tp:S(0))\n"
	"  %w2 = param \"w2\" {hard=tp} : f32[1024,4096] (tp:S(1))\n"
	"  %h = matmul %x, %w1 {eq=\"mk,nk->mn\"} : f32[1024,4096]\n"
	"  %a = gelu %h : f32[1024,4096]\n"
	"  %y = matmul %a, %w2 {eq=\"mk,nk->mn\"} : f32[1024,1024]\n"
	"  %c = constrain %y {axis=tp to=(tp:S(0))} : f32[1024,1024]\n"
	"  output \"y\" = %c\n"
	"}\n";

/* bar: torch's time / ours; 0: only shown. */
static const struct job { const char *name, *recipe; bool train; double bar; } jobs[] = {
	{ "none", "none", false, 0 },
	{ "tensorwise", "tensorwise", false, 1.8 },
	{ "rowwise", "rowwise", false, 1.7 },
	{ "none, backward too", "none", true, 0 },
	{ "tensorwise, backward too", "tensorwise", true, 1.7 },
	{ "rowwise, backward too", "rowwise", true, 1.25 },
};
#define JOBS ((int)(sizeof jobs / sizeof *jobs))

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
	fprintf(stderr, "bench_step: %s\n", d->text);
	exit(1);
}

static void give_up(const char *what)
{
	fprintf(stderr, "bench_step: %s\n", what);
	exit(1);
}

/* About normal: the sum of four uniform numbers, times `scale`. */
static float *random_floats(int64_t n, double scale)
{
	static uint64_t state = 1;
	float *x = aligned_alloc(64, (size_t)n * sizeof(*x));
	for (int64_t i = 0; i < n; i++) {
		double sum = 0;
		for (int k = 0; k < 4; k++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			sum += (double)(state >> 11) * 0x1p-53 - 0.5;
		}
		x[i] = (float)(sum * scale * 1.7320508);
	}
	return x;
}

/* --- files, in a folder that goes away --- */

static char folder[] = "/tmp/bench_step.XXXXXX";

static const char *path_of(const char *name)
{
	static char path[4][256];
	static int next;
	char *p = path[next++ % 4];
	snprintf(p, sizeof path[0], "%s/%s", folder, name);
	return p;
}

static void remove_files(void)
{
	static const char *const names[] = { "step.ir", "w.safetensors", "x.safetensors", "both.safetensors" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unlink(path_of(names[i]));
	for (int i = 0; i < JOBS; i++)
		unlink(path_of(jobs[i].name));
	rmdir(folder);
}

static void write_tensors(const char *name, const struct safetensors_item *items, uint32_t count)
{
	struct diag d = { .status = FS_OK };
	must(safetensors_write(path_of(name), items, count, NULL, 0, &d), &d);
}

static void write_files(void)
{
	static const int64_t x[] = { T, H }, w1[] = { F, H }, w2[] = { H, F };
	struct safetensors_item weights[] = {
		{ .name = "w1", .dtype = DT_F32, .rank = 2, .dims = w1, .data = random_floats(F * H, 1 / 32.) },
		{ .name = "w2", .dtype = DT_F32, .rank = 2, .dims = w2, .data = random_floats(H * F, 1 / 64.) },
	};
	struct safetensors_item inputs[] = {
		{ .name = "x", .dtype = DT_F32, .rank = 2, .dims = x, .data = random_floats(T * H, 1) },
		{ .name = "grad.y", .dtype = DT_F32, .rank = 2, .dims = x, .data = random_floats(T * H, 1) },
	};
	if (!mkdtemp(folder) || atexit(remove_files) != 0)
		give_up("no folder for files in /tmp");
	write_tensors("w.safetensors", weights, 2);
	write_tensors("x.safetensors", inputs, 1);
	write_tensors("both.safetensors", inputs, 2);
	FILE *f = fopen(path_of("step.ir"), "w");
	if (!f || fputs(program, f) < 0 || fclose(f) != 0)
		give_up("cannot write step.ir");
	free((void *)(uintptr_t)weights[0].data), free((void *)(uintptr_t)weights[1].data);
	free((void *)(uintptr_t)inputs[0].data), free((void *)(uintptr_t)inputs[1].data);
}

/* --- ours --- */

struct step {
	struct plan *plan;
	struct weights weights;
	struct params params;
	struct safetensors input;
	struct session session;
	double best, torch; /* seconds; torch's INFINITY: not there */
};

static void compile(const char *self, const struct job *j)
{
	char command[4096];
	const char *slash = strrchr(self, '/');
	int length = slash ? (int)(slash - self) : 1;
	snprintf(command, sizeof command, "'%.*s/../fp8shard' compile %s --fp8 %s %s -o '%s' >%s/log 2>&1; s=$?; "
		 "[ $s = 0 ] || cat %s/log >&2; rm -f %s/log; exit $s",
		 length, slash ? self : ".", path_of("step.ir"), j->recipe,
		 j->train ? "--train --cotangent y --input-gradient x --place 'grad.y=tp:S(0)'" : "", path_of(j->name), folder, folder, folder);
	if (system(command) != 0)
		give_up("fp8shard compile failed");
}

static void step_init(struct step *s, const struct job *j)
{
	struct diag d = { .status = FS_OK };
	*s = (struct step){ .best = INFINITY, .torch = INFINITY };
	must(plan_open(path_of(j->name), &s->plan, &d), &d);
	must(weights_add(&s->weights, path_of("w.safetensors"), &d), &d);
	must(params_find(s->plan, &s->weights, "w", &s->params, &d), &d);
	must(safetensors_open(&s->input, path_of(j->train ? "both.safetensors" : "x.safetensors"), &d), &d);
	struct session_options o = { .params = &s->params, .inputs = &s->input };
	must(session_create(&s->session, s->plan, &o, &d), &d);
}

static void step_release(struct step *s)
{
	session_destroy(&s->session);
	params_release(&s->params);
	weights_release(&s->weights);
	safetensors_close(&s->input);
	plan_destroy(s->plan);
}

static void step_turn(struct step *s)
{
	struct diag d = { .status = FS_OK };
	double seconds[STEPS];
	must(session_steps(&s->session, STEPS, seconds, &d), &d);
	for (int i = 0; i < STEPS; i++)
		s->best = fmin(s->best, seconds[i]);
}

/* --- the bare sgemms --- */

/* Products of a rank: of the forward, then with what each costs its weight and its operand. */
enum { FORWARD = 2, BOTH = 6 };

struct bare {
	pthread_t thread;
	pthread_barrier_t *barrier;
	struct gemm product[BOTH];
	double best[2]; /* of the forward, of all */
};

static struct gemm sgemm_of(int64_t m, int64_t n, int64_t k)
{
	struct gemm g = { .a = view_of(random_floats(m * k, 1), DT_F32, 2, (const int64_t[]){ m, k }),
			  .b = view_of(random_floats(n * k, 1), DT_F32, 2, (const int64_t[]){ k, n }),
			  .c = view_of(random_floats(m * n, 1), DT_F32, 2, (const int64_t[]){ m, n }) };
	g.b.stride[0] = 1; /* weights are stored [n, k] */
	g.b.stride[1] = k;
	return g;
}

static void products_init(struct bare *b)
{
	static const int64_t sizes[BOTH][3] = { { T, F / RANKS, H }, { T, H, F / RANKS },	  /* up, down */
						{ T, F / RANKS, H }, { H, F / RANKS, T },	  /* down's operand and weight */
						{ T, H, F / RANKS }, { F / RANKS, H, T } };	  /* up's */
	*b = (struct bare){ .best = { INFINITY, INFINITY } };
	for (int i = 0; i < BOTH; i++)
		b->product[i] = sgemm_of(sizes[i][0], sizes[i][1], sizes[i][2]);
}

static void *bare_run(void *arg)
{
	struct bare *b = arg;
	struct diag d = { .status = FS_OK };
	int64_t room = 0;
	for (int i = 0; i < BOTH; i++)
		room = cpu_gemm_workspace(&b->product[i]) > room ? cpu_gemm_workspace(&b->product[i]) : room;
	void *space = aligned_alloc(64, (size_t)(room + 63) / 64 * 64);
	for (int i = 0; i < 2 * STEPS; i++) {
		pthread_barrier_wait(b->barrier);
		double start = now();
		for (int k = 0; k < (i % 2 == 0 ? FORWARD : BOTH); k++)
			must(cpu_gemm(&b->product[k], space, &d), &d);
		pthread_barrier_wait(b->barrier);
		b->best[i % 2] = fmin(b->best[i % 2], now() - start);
	}
	free(space);
	return NULL;
}

static void bare_turn(struct bare *ranks)
{
	pthread_barrier_t barrier;
	pthread_barrier_init(&barrier, NULL, RANKS);
	for (int r = 0; r < RANKS; r++) {
		ranks[r].barrier = &barrier;
		if (pthread_create(&ranks[r].thread, NULL, bare_run, &ranks[r]) != 0)
			give_up("no thread");
	}
	for (int r = 0; r < RANKS; r++)
		pthread_join(ranks[r].thread, NULL);
	pthread_barrier_destroy(&barrier);
}

/* --- torch --- */

static const char *shared(void)
{
	const char *s = getenv("FP8SHARD_SHARED");
	return s ? s : "../shared";
}

/* NULL: there. */
static const char *why_no_torch(void)
{
	char script[1024];
	snprintf(script, sizeof script, "%s/peers/step_torch.py", shared());
	if (access(script, R_OK) != 0)
		return "no peers/step_torch.py in the shared folder";
	if (system("python3 -c 'import torch, torchao' >/dev/null 2>&1") != 0)
		return "torch not installed";
	return NULL;
}

static double read_ms(const char *line, const char *key)
{
	const char *at = strstr(line, key);
	return at ? atof(at + strlen(key)) : INFINITY;
}

/* Seconds of torch's best step, forward and with its backward; INFINITY where it fails. */
static void torch_turn(const char *recipe, double out[2])
{
	char command[1200], line[4096];
	snprintf(command, sizeof command, "python3 '%s/peers/step_torch.py' --np %d --T %d --H %d --F %d --reps %d "
		 "--recipe %s 2>/dev/null", shared(), RANKS, T, H, F, TURNS * STEPS, recipe);
	FILE *f = popen(command, "r");
	while (f && fgets(line, sizeof line, f)) {
		out[0] = fmin(out[0], 1e-3 * read_ms(line, "\"forward_ms\": {\"min\": "));
		out[1] = fmin(out[1], 1e-3 * read_ms(line, "\"forward_backward_ms\": {\"min\": "));
	}
	if (f)
		pclose(f);
}

/* Of all jobs; a recipe is run once, and again if it fails: its port may be taken. */
static void torch_turns(struct step *steps)
{
	for (int i = 0; i < JOBS && !jobs[i].train; i++) {
		double ms[2] = { INFINITY, INFINITY };
		for (int turn = 0; turn < 2 && isinf(ms[1]); turn++)
			torch_turn(jobs[i].recipe, ms);
		for (int k = 0; k < JOBS; k++)
			if (strcmp(jobs[k].recipe, jobs[i].recipe) == 0)
				steps[k].torch = ms[jobs[k].train];
	}
}

/* --- the table --- */

static bool show(const struct job *j, const struct step *s, double bare, const char *no_torch)
{
	double over = s->best / bare, faster = s->torch / s->best;
	printf("%-24s  %7.1f  %9.1f  %13.2f  ", j->name, s->best * 1e3, bare * 1e3, over);
	if (no_torch)
		printf("skipped: %s\n", no_torch);
	else if (isinf(s->torch))
		printf("step_torch.py failed\n");
	else
		printf("%8.1f  %12.2f\n", s->torch * 1e3, faster);
	return j->bar == 0 || (over <= 1.25 && (no_torch || (faster >= j->bar && !isinf(s->torch))));
}

int main(int argc, char **argv)
{
	bool strict = argc == 2 && strcmp(argv[1], "--strict") == 0, good = true;
	struct bare ranks[RANKS];
	struct step steps[JOBS];
	const char *no_torch = why_no_torch();
	write_files();
	for (int r = 0; r < RANKS; r++)
		products_init(&ranks[r]);
	for (int i = 0; i < JOBS; i++) {
		compile(argv[0], &jobs[i]);
		step_init(&steps[i], &jobs[i]);
	}
	for (int turn = 0; turn < TURNS; turn++) {
		bare_turn(ranks);
		for (int i = 0; i < JOBS; i++)
			step_turn(&steps[i]);
	}
	if (!no_torch)
		torch_turns(steps);
	if (getenv("OPENBLAS_CORETYPE"))
		printf("OPENBLAS_CORETYPE=%s: ours and the bare sgemms run its kernels\n", getenv("OPENBLAS_CORETYPE"));
	printf("%-24s  step ms  sgemms ms  step / sgemms  torch ms  torch / step\n", "");
	for (int i = 0; i < JOBS; i++) {
		good = show(&jobs[i], &steps[i], ranks[0].best[jobs[i].train], no_torch) && good;
		step_release(&steps[i]);
	}
	return strict && !good;
}
