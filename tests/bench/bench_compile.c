/*
 * bench_compile PROGRAM GRAPH.json.gz [COMPILE ARGS...]: a whole compile (process start to plan on disk)
 * against jansson's own json_load_file of the same file, best of five of each, taken in turns.
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

static double parse_once(const char *graph)
{
	double start = now();
	json_t *j = json_load_file(graph, 0, NULL);
	double seconds = now() - start;
	json_decref(j);
	return j == NULL ? 1e9 : seconds;
}

static double compile_once(char **argv)
{
	double start = now();
	int status = 1;
	pid_t child = fork();
	if (child == 0) {
		if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL)
			_exit(127);
		execv(argv[0], argv);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
		return 1e9;
	return now() - start;
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/bench_compile.XXXXXX", graph[64], plan[64], *args[64] = { 0 };
	double parse = 1e9, compile = 1e9;
	if (argc < 3 || argc > 50 || mkdtemp(folder) == NULL)
		return 2;
	snprintf(graph, sizeof(graph), "%s/graph.json", folder);
	snprintf(plan, sizeof(plan), "%s/plan.json", folder);
	if (unpack(argv[2], graph) != 0)
		return 1;
	char *first[] = { argv[1], "compile", graph, "-o", plan };
	memcpy(args, first, sizeof(first));
	memcpy(args + 5, argv + 3, sizeof(char *) * (size_t)(argc - 3));
	for (int i = 0; i < TURNS; i++) {
		double p = parse_once(graph), c = compile_once(args);
		parse = p < parse ? p : parse;
		compile = c < compile ? c : compile;
	}
	remove(graph);
	remove(plan);
	rmdir(folder);
	printf("compile %.1f ms, jansson's parse %.1f ms, ratio %.2f (bar 2)\n", 1e3 * compile, 1e3 * parse, compile / parse);
	return compile >= 1e9;
}
