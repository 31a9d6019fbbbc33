/*
 * Judges a training run against torch's.  Prints one line; exit status 0: good, 1: not, 2: cannot say.
 *
 *     training tensors EXPECTED CASE WEIGHTS DB          every tensor CASE.NAME of EXPECTED but loss and grad_norm is NAME
 *                                                        of WEIGHTS (a file or a checkpoint's folder)
 *     training curve EXPECTED TENSOR LOG KEY WINDOW PERCENT   means over WINDOW steps of KEY in LOG (--log), of as
 *                                                        many steps as there are (TENSOR may have more)
 *     training norm EXPECTED TENSOR STEP WEIGHTS PERCENT   the L2 norm of all parameters after step STEP
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "safetensors.h"
#include "weights.h"

static _Noreturn void die(const char *what, const char *which)
{
	fprintf(stderr, "training: %s%s%s\n", what, which[0] != '\0' ? ": " : "", which);
	exit(2);
}

static void must(enum fs_status status, const struct diag *d)
{
	if (status != FS_OK)
		die(d->text, "");
}

struct numbers { double *at; int64_t count; };

/* bytes, dense */
static struct numbers numbers_of(const void *bytes, enum dtype t, int rank, const int64_t *dims)
{
	struct view from = view_of((void *)(uintptr_t)bytes, t, rank, dims);
	struct numbers n = { .count = view_count(&from) };
	n.at = malloc((size_t)n.count * sizeof(double) + 1);
	if (n.at == NULL)
		die("out of memory", "");
	struct view to = view_of(n.at, DT_F64, rank, dims);
	cpu_copy(&from, &to);
	return n;
}

static struct numbers read_expected(const struct safetensors *f, const char *name)
{
	struct diag d = { 0 };
	const struct safetensors_entry *e = safetensors_find(f, name);
	if (e == NULL)
		die("there is no tensor", name);
	void *bytes = malloc((size_t)e->bytes + 1);
	must(safetensors_read(f, e, 0, e->bytes, bytes, &d), &d);
	struct numbers n = numbers_of(bytes, e->dtype, e->rank, e->dims);
	free(bytes);
	return n;
}

static struct numbers read_weight(const struct weights *w, const char *name)
{
	struct diag d = { 0 };
	int64_t bytes = 1;
	const struct weight *t = weights_find(w, name);
	if (t == NULL)
		die("there is no weight", name);
	for (int k = 0; k < t->rank; k++)
		bytes *= t->dims[k];
	void *data = malloc((size_t)(bytes * dtype_size(t->dtype)) + 1);
	must(weights_read(t, data, &d), &d);
	struct numbers n = numbers_of(data, t->dtype, t->rank, t->dims);
	free(data);
	return n;
}

static double sqnr(const struct numbers *ref, const struct numbers *got)
{
	double signal = 0, noise = 0;
	if (ref->count != got->count)
		return -999;
	for (int64_t i = 0; i < ref->count; i++) {
		signal += ref->at[i] * ref->at[i];
		noise += (ref->at[i] - got->at[i]) * (ref->at[i] - got->at[i]);
	}
	return noise == 0 ? 300 : isfinite(noise) && signal > 0 ? 10 * log10(signal / noise) : -999;
}

static void open_both(struct safetensors *expected, const char *path, struct weights *w, const char *weights)
{
	struct diag d = { 0 };
	must(safetensors_open(expected, path, &d), &d);
	must(weights_add(w, weights, &d), &d);
}

static bool is_tensor(const char *name)
{
	return strcmp(name, "loss") != 0 && strcmp(name, "grad_norm") != 0;
}

static bool judge_tensors(char **argv)
{
	struct safetensors expected;
	struct weights w = { 0 };
	double worst = 300;
	int count = 0;
	size_t size = strlen(argv[1]);
	const char *which = "";
	open_both(&expected, argv[0], &w, argv[2]);
	for (uint32_t i = 0; i < expected.count; i++) {
		const char *name = expected.entries[i].name;
		if (strncmp(name, argv[1], size) != 0 || name[size] != '.' || !is_tensor(name + size + 1))
			continue;
		struct numbers ref = read_expected(&expected, name), got = read_weight(&w, name + size + 1);
		double db = sqnr(&ref, &got);
		which = db < worst ? name : which;
		worst = db < worst ? db : worst;
		count++;
		free(ref.at);
		free(got.at);
	}
	printf("%d tensors, worst %.1f dB %s (bar %s)\n", count, worst, which, argv[3]);
	weights_release(&w);
	safetensors_close(&expected);
	return count > 0 && worst >= strtod(argv[3], NULL);
}

/* KEY of each line. */
static struct numbers read_log(const char *path, const char *key)
{
	struct numbers n = { calloc(1 << 20, sizeof(double)), 0 };
	char line[1024];
	FILE *f = fopen(path, "r");
	if (f == NULL || n.at == NULL)
		die("cannot be read", path);
	while (n.count < 1 << 20 && fgets(line, sizeof(line), f) != NULL) {
		json_t *j = json_loads(line, 0, NULL), *x = json_object_get(j, key);
		if (!json_is_number(x) || json_integer_value(json_object_get(j, "step")) != n.count + 1)
			die("a line that is none", line);
		n.at[n.count++] = json_number_value(x);
		json_decref(j);
	}
	fclose(f);
	return n;
}

static bool judge_curve(char **argv)
{
	struct safetensors expected;
	struct diag d = { 0 };
	must(safetensors_open(&expected, argv[0], &d), &d);
	struct numbers ref = read_expected(&expected, argv[1]), got = read_log(argv[2], argv[3]);
	int64_t window = atol(argv[4]), at = 0;
	double worst = 0;
	for (int64_t i = 0; i + window <= got.count && i + window <= ref.count; i += window) {
		double a = 0, b = 0;
		for (int64_t k = i; k < i + window; k++) {
			a += ref.at[k];
			b += got.at[k];
		}
		double percent = 100 * fabs(b / a - 1);
		at = percent <= worst ? at : i;
		worst = percent <= worst ? worst : percent;
	}
	printf("%s of %lld steps: %.5f %% apart at most, at step %lld (bar %s)\n", argv[3], (long long)got.count, worst, (long long)at + 1, argv[5]);
	bool good = got.count >= window && got.count <= ref.count && worst <= strtod(argv[5], NULL);
	free(ref.at);
	free(got.at);
	safetensors_close(&expected);
	return good;
}

static bool judge_norm(char **argv)
{
	struct safetensors expected;
	struct weights w = { 0 };
	double sum = 0;
	open_both(&expected, argv[0], &w, argv[3]);
	struct numbers ref = read_expected(&expected, argv[1]);
	int64_t step = atol(argv[2]);
	if (step < 1 || step > ref.count)
		die("no such step", argv[2]);
	for (uint32_t i = 0; i < w.list.count; i++) {
		if (strncmp(w.list.items[i].name, "optimizer.", 10) == 0)
			continue;
		struct numbers n = read_weight(&w, w.list.items[i].name);
		for (int64_t k = 0; k < n.count; k++)
			sum += n.at[k] * n.at[k];
		free(n.at);
	}
	double percent = 100 * fabs(sqrt(sum) / ref.at[step - 1] - 1);
	printf("norm %.6g, torch's %.6g: %.5f %% apart (bar %s)\n", sqrt(sum), ref.at[step - 1], percent, argv[4]);
	free(ref.at);
	weights_release(&w);
	safetensors_close(&expected);
	return percent <= strtod(argv[4], NULL);
}

static const struct { const char *name; int arguments; bool (*run)(char **argv); } commands[] = {
	{ "tensors", 4, judge_tensors }, { "curve", 6, judge_curve }, { "norm", 5, judge_norm },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (argc > 1 && strcmp(argv[1], commands[i].name) == 0 && argc - 2 == commands[i].arguments)
			return commands[i].run(argv + 2) ? 0 : 1;
	die("no such command, or other arguments", argc > 1 ? argv[1] : "");
}
