/*
 * bench_compile PROGRAM GRAPH [COMPILE ARGS...]: a whole compile (process start to plan on disk) and its
 * passes (without import, lowering and writing) against jansson's own json_load_file of the same file, where
 * that is JSON; best of five of each, taken in turns.  The graph may be gzipped.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define TURNS 5
#define FAILED 1e9

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int unpack(const char *from, const char *to)
{
	gzFile in = gzopen(from, "rb");
	FILE *out = fopen(to, "wb");
	char buffer[1 << 16];
	int n = 0;
	if (in == NULL || out == NULL)
		return 1;
	while ((n = gzread(in, buffer, sizeof(buffer))) > 0)
		if (fwrite(buffer, 1, (size_t)n, out) != (size_t)n)
			return 1;
	gzclose(in);
	return fclose(out) != 0 || n < 0;
}

/* In a process of its own, as a compile is: the memory is new to both. */
static double parse_once(const char *graph)
{
	double start = now();
	int status = 1;
	pid_t child = fork();
	if (child == 0)
		_exit(json_load_file(graph, 0, NULL) == NULL);
	if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
		return FAILED;
	return now() - start;
}

/* Sums the rows of --timing that end in a pass's nodes: the pass and its verification, in seconds. */
static double sum_passes(FILE *timing)
{
	char line[1024];
	double sum = 0, pass, verify;
	while (fgets(line, sizeof(line), timing) != NULL)
		if (sscanf(line, "%*s %lf ms verify %lf ms", &pass, &verify) == 2)
			sum += 1e-3 * (pass + verify);
	return sum;
}

/* Seconds from start to plan; *passes: of all passes together. */
static double compile_once(char **argv, double *passes)
{
	double start = now();
	int status = 1, timing[2];
	if (pipe(timing) != 0)
		return FAILED;
	pid_t child = fork();
	if (child == 0) {
		if (freopen("/dev/null", "w", stdout) == NULL || dup2(timing[1], 2) < 0)
			_exit(127);
		close(timing[0]);
		close(timing[1]);
		execv(argv[0], argv);
		_exit(127);
	}
	close(timing[1]);
	FILE *rows = fdopen(timing[0], "r");
	*passes = sum_passes(rows);
	fclose(rows);
	if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
		return FAILED;
	return now() - start;
}

static void keep_least(double *least, double value)
{
	*least = value < *least ? value : *least;
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/bench_compile.XXXXXX", graph[64], plan[64], *args[64] = { 0 };
	double parse = FAILED, compile = FAILED, passes = FAILED, spent = 0;
	if (argc < 3 || argc > 50 || mkdtemp(folder) == NULL)
		return 2;
	snprintf(graph, sizeof(graph), "%s/graph.json", folder);
	snprintf(plan, sizeof(plan), "%s/plan.json", folder);
	if (unpack(argv[2], graph) != 0)
		return 1;
	char *first[] = { argv[1], "compile", graph, "--timing", "-o", plan };
	memcpy(args, first, sizeof(first));
	memcpy(args + 6, argv + 3, sizeof(char *) * (size_t)(argc - 3));
	for (int i = 0; i < TURNS; i++) {
		keep_least(&parse, parse_once(graph));
		keep_least(&compile, compile_once(args, &spent));
		keep_least(&passes, spent);
	}
	remove(graph);
	remove(plan);
	rmdir(folder);
	if (compile >= FAILED)
		return 1;
	printf("compile %6.1f ms, its passes %5.1f ms", 1e3 * compile, 1e3 * passes);
	if (parse < FAILED)
		printf("; jansson's parse %.1f ms: ratios %.2f (bar 2) and %.2f (bar 0.35)", 1e3 * parse, compile / parse, passes / parse);
	printf("\n");
	return 0;
}
