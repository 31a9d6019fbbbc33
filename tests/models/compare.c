/*
 * Judges what a run wrote against what torch made of the same model.  Prints one line; exit status 0:
 * good, 1: not, 2: cannot say.
 *
 *     compare outputs DIR OUT RECIPE     outputs against the reference, with the bars below
 *     compare gradients DIR OUT          loss and gradients as --train --loss names them, with the same bars
 *     compare oracle DIR OUT RECIPE DB   against torch's own fp8 run, where it has one
 *     compare swapped DIR SHOW RECIPE    the matmuls in fp8 (of `show --json`) are those of torch's fp8 run
 *     compare rows DIR OUT FIRST COUNT   writes inputs: rows of the `all.` tensors of expected.safetensors
 *     compare neighbours NAME OUT OUT    rows 2i and 2i + 1 of both together are nearest to each other
 *     compare loss DIR OUT PERCENT       cross-entropy of the labels against that of torch's bf16
 *     compare field DIR KEY              a string or truth value of case.json
 *     compare name DIR KIND              of the first output of that kind
 *
 * DIR has case.json, expected.safetensors and mostly fp8.json and fp8_expected.safetensors.  Bars: without
 * fp8, 90 dB; of a bf16 output, 3 dB below torch's own bf16, both against NAME.fp32.  In fp8 of outputs of
 * 256 elements or more, half a dB below torch's fp8.  What is no float is equal.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "safetensors.h"

#define LARGE 256 /* smaller outputs are not judged in fp8 */

static _Noreturn void die(const char *what, const char *which)
{
	fprintf(stderr, "compare: %s%s%s\n", what, which[0] != '\0' ? ": " : "", which);
	exit(2);
}

static void must(enum fs_status status, const struct diag *d)
{
	if (status != FS_OK)
		die(d->text, "");
}

static void path_in(char out[4096], const char *dir, const char *file)
{
	if (snprintf(out, 4096, "%s/%s", dir, file) >= 4096)
		die("too long a path", dir);
}

static json_t *load_json(const char *path)
{
	json_error_t e;
	json_t *j = json_load_file(path, 0, &e);
	if (j == NULL)
		die(path, e.text);
	return j;
}

static json_t *case_of(const char *dir)
{
	char path[4096];
	path_in(path, dir, "case.json");
	return load_json(path);
}

/* --- tensors --- */

struct numbers { double *at; int64_t count; int rank; int64_t dims[8]; enum dtype dtype; };

static void open_file(struct safetensors *f, const char *path)
{
	struct diag d = { 0 };
	must(safetensors_open(f, path, &d), &d);
}

static void open_in(struct safetensors *f, const char *dir, const char *file)
{
	char path[4096];
	path_in(path, dir, file);
	open_file(f, path);
}

static bool read_numbers(const struct safetensors *f, const char *name, struct numbers *out)
{
	struct diag d = { 0 };
	const struct safetensors_entry *e = safetensors_find(f, name);
	if (e == NULL || e->rank > 8)
		return false;
	void *bytes = malloc((size_t)e->bytes + 1);
	struct view from = view_of(bytes, e->dtype, e->rank, e->dims);
	*out = (struct numbers){ .count = view_count(&from), .rank = e->rank, .dtype = e->dtype };
	memcpy(out->dims, e->dims, (size_t)e->rank * sizeof(*e->dims));
	out->at = malloc((size_t)out->count * sizeof(double) + 1);
	if (bytes == NULL || out->at == NULL)
		die("out of memory", "");
	must(safetensors_read(f, e, 0, e->bytes, bytes, &d), &d);
	struct view to = view_of(out->at, DT_F64, e->rank, e->dims);
	cpu_copy(&from, &to);
	free(bytes);
	return true;
}

static struct numbers need_numbers(const struct safetensors *f, const char *name)
{
	struct numbers n;
	if (!read_numbers(f, name, &n))
		die("there is no tensor", name);
	return n;
}

/* Signal to noise in dB; -999 where they are not finite in the same places. */
static double sqnr(const struct numbers *ref, const struct numbers *got)
{
	double signal = 0, noise = 0;
	if (ref->count != got->count)
		return -999;
	for (int64_t i = 0; i < ref->count; i++) {
		double a = ref->at[i], b = got->at[i];
		if (isfinite(a) != isfinite(b))
			return -999;
		if (!isfinite(a))
			continue;
		signal += a * a;
		noise += (a - b) * (a - b);
	}
	return noise == 0 ? 300 : 10 * log10(signal / noise);
}

static bool equal(const struct numbers *a, const struct numbers *b)
{
	return a->count == b->count && memcmp(a->at, b->at, (size_t)a->count * sizeof(double)) == 0;
}

static bool is_float(const struct numbers *n)
{
	return n->dtype == DT_F32 || n->dtype == DT_F64 || n->dtype == DT_BF16 || n->dtype == DT_F16;
}

/* --- bars --- */

static json_t *oracle_in(const char *dir, const char *recipe)
{
	char path[4096], base[64];
	FILE *f;
	path_in(path, dir, "fp8.json");
	f = fopen(path, "r");
	if (f == NULL)
		return NULL;
	fclose(f);
	snprintf(base, sizeof base, "%.*s", (int)strcspn(recipe, ":"), recipe);
	json_t *all = load_json(path), *one = json_incref(json_object_get(all, base));
	json_decref(all);
	return one;
}

/* The folder at inference level: it sees matmuls that a core export or a wrapped region hides. */
static void sibling_of(char out[4096], const char *dir)
{
	static const char *const from[] = { "-core", "hops-training" }, *const to[] = { "-inference", "hops-inference" };
	path_in(out, dir, "");
	out[strlen(out) - 1] = '\0';
	for (int i = 0; i < 2; i++) {
		char *at = strstr(out, from[i]), rest[4096];
		if (at == NULL)
			continue;
		snprintf(rest, sizeof rest, "%s", at + strlen(from[i]));
		snprintf(at, 4096 - (size_t)(at - out), "%s%s", to[i], rest);
	}
}

static json_t *oracle_of(const char *dir, const char *recipe)
{
	char sibling[4096];
	sibling_of(sibling, dir);
	json_t *o = oracle_in(sibling, recipe);
	return o != NULL ? o : oracle_in(dir, recipe);
}

static bool is_small(const json_t *output)
{
	const json_t *shape = json_object_get(output, "shape");
	json_int_t count = 1;
	for (size_t i = 0; i < json_array_size(shape); i++)
		count *= json_integer_value(json_array_get(shape, i));
	return count < LARGE;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s != NULL ? s : "";
}

static bool named_small(const json_t *outputs, const char *name)
{
	for (size_t i = 0; i < json_array_size(outputs); i++)
		if (strcmp(text_of(json_array_get(outputs, i), "name"), name) == 0)
			return is_small(json_array_get(outputs, i));
	return false;
}

/* The loss of a 16-bit model is one number, right to 0.1 %; few numbers of it may be off by twice as much. */
static double high_precision_bar(const json_t *output)
{
	const json_t *own = json_object_get(output, "sqnr_db_vs_fp32");
	if (json_is_number(own) && strcmp(text_of(output, "kind"), "loss_output") == 0)
		return 60;
	if (!json_is_number(own) || strcmp(text_of(output, "dtype"), "bfloat16") != 0)
		return 90;
	return json_number_value(own) - (is_small(output) ? 6 : 3);
}

/* Of this output where the oracle names it, else of its worst. */
static double fp8_bar(json_t *oracle, const json_t *outputs, const char *name)
{
	json_t *figures = json_object_get(oracle, "sqnr_db"), *own = json_object_get(figures, name), *one;
	const char *key;
	double least = 300;
	if (json_is_number(own))
		return json_number_value(own) - 0.5;
	json_object_foreach(figures, key, one)
		if (json_is_number(one) && !named_small(outputs, key))
			least = fmin(least, json_number_value(one));
	return least - 0.5;
}

struct job { const char *dir, *recipe; json_t *outputs, *oracle; struct safetensors expected, got; };

/* -1: not judged. */
static double bar_of(const struct job *j, const json_t *output)
{
	if (strcmp(j->recipe, "none") == 0)
		return high_precision_bar(output);
	if (is_small(output))
		return -1;
	if (j->oracle == NULL)
		return 20;
	if (json_array_size(json_object_get(j->oracle, "swapped")) == 0)
		return high_precision_bar(output);
	return fp8_bar(j->oracle, j->outputs, text_of(output, "name"));
}

static struct numbers reference(const struct safetensors *f, const char *name)
{
	char wide[512];
	struct numbers n;
	snprintf(wide, sizeof wide, "%s.fp32", name);
	return read_numbers(f, wide, &n) ? n : need_numbers(f, name);
}

/* The output is called `got_as` in OUT. */
static bool judge_as(const struct job *j, const json_t *output, const char *got_as)
{
	const char *name = text_of(output, "name");
	struct numbers ref = reference(&j->expected, name), got;
	double bar = bar_of(j, output);
	if (!read_numbers(&j->got, got_as, &got)) {
		printf("%s: no such output; ", name);
		free(ref.at);
		return false;
	}
	bool good = true;
	if (!is_float(&ref)) {
		good = equal(&ref, &got);
		printf("%s: %s; ", name, good ? "equal" : "not equal");
	} else if (bar >= 0) {
		double db = sqnr(&ref, &got);
		good = db >= bar;
		printf("%s: %.2f dB (bar %.2f); ", name, db, bar);
	}
	free(ref.at);
	free(got.at);
	return good;
}

static bool judge(const struct job *j, const json_t *output)
{
	return judge_as(j, output, text_of(output, "name"));
}

static bool judge_gradient(const struct job *j, const json_t *output)
{
	char name[512];
	const char *kind = text_of(output, "kind");
	if (strcmp(kind, "loss_output") == 0)
		return judge_as(j, output, "loss");
	snprintf(name, sizeof(name), "grad.%s", text_of(output, "target"));
	return strncmp(kind, "gradient_to_", strlen("gradient_to_")) != 0 || judge_as(j, output, name);
}

static bool compare_each(const char *dir, const char *out, const char *recipe, bool (*one)(const struct job *j, const json_t *output))
{
	struct job j = { .dir = dir, .recipe = recipe };
	json_t *c = case_of(j.dir);
	bool good = true;
	j.outputs = json_object_get(c, "outputs");
	j.oracle = strcmp(j.recipe, "none") != 0 ? oracle_of(j.dir, j.recipe) : NULL;
	open_in(&j.expected, j.dir, "expected.safetensors");
	open_file(&j.got, out);
	for (size_t i = 0; i < json_array_size(j.outputs); i++)
		good = one(&j, json_array_get(j.outputs, i)) && good;
	safetensors_close(&j.expected);
	safetensors_close(&j.got);
	json_decref(j.oracle);
	json_decref(c);
	return good;
}

static bool compare_outputs(char **argv)
{
	return compare_each(argv[0], argv[1], argv[2], judge);
}

static bool compare_gradients(char **argv)
{
	return compare_each(argv[0], argv[1], "none", judge_gradient);
}

static bool compare_oracle(char **argv)
{
	struct safetensors expected, got;
	double bar = strtod(argv[3], NULL), worst = 300;
	size_t skip = strlen(argv[2]) + 1;
	open_in(&expected, argv[0], "fp8_expected.safetensors");
	open_file(&got, argv[1]);
	for (uint32_t i = 0; i < expected.count; i++) {
		const char *name = expected.entries[i].name;
		if (strncmp(name, argv[2], skip - 1) != 0 || name[skip - 1] != '.')
			continue;
		struct numbers ref = need_numbers(&expected, name), x = need_numbers(&got, name + skip);
		if (is_float(&ref))
			worst = fmin(worst, sqnr(&ref, &x));
		free(ref.at);
		free(x.at);
	}
	printf("%.2f dB from torch's fp8 (bar %.0f); ", worst, bar);
	safetensors_close(&expected);
	safetensors_close(&got);
	return worst >= bar;
}

/* --- which matmuls --- */

static bool list_has(const json_t *list, const char *name)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (strcmp(json_string_value(json_array_get(list, i)), name) == 0)
			return true;
	return false;
}

static bool same_names(const json_t *a, const json_t *b)
{
	bool same = json_array_size(a) == json_array_size(b);
	for (size_t i = 0; same && i < json_array_size(a); i++)
		same = list_has(b, json_string_value(json_array_get(a, i)));
	return same;
}

/* Names as in this folder; or, where it hides matmuls, as many as in the one at inference level. */
static bool compare_swapped(char **argv)
{
	json_t *show = load_json(argv[1]), *got = json_array(), *m;
	json_t *own = oracle_in(argv[0], argv[2]), *other = oracle_of(argv[0], argv[2]);
	json_t *names = json_object_get(own, "swapped"), *more = json_object_get(other, "swapped");
	size_t i;
	json_array_foreach(json_object_get(show, "matmuls"), i, m)
		if (json_is_true(json_object_get(m, "swapped")))
			json_array_append_new(got, json_string(text_of(m, "node")));
	bool good = own == NULL || same_names(got, names) ||
		    (json_array_size(more) > json_array_size(names) && json_array_size(got) == json_array_size(more));
	printf("%zu matmuls in fp8, torch %zu", json_array_size(got), json_array_size(names));
	for (i = 0; !good && i < json_array_size(got); i++)
		printf(" %s", json_string_value(json_array_get(got, i)));
	printf("; ");
	json_decref(show);
	json_decref(got);
	json_decref(own);
	json_decref(other);
	return good;
}

/* --- MiniLM --- */

static bool write_rows(char **argv)
{
	struct safetensors expected;
	struct diag d = { 0 };
	json_t *c = case_of(argv[0]), *inputs = json_object_get(c, "inputs");
	int64_t first = atol(argv[2]), count = atol(argv[3]), dims[8][8];
	struct safetensors_item items[8] = { 0 };
	uint32_t n = (uint32_t)json_array_size(inputs);
	open_in(&expected, argv[0], "expected.safetensors");
	for (uint32_t i = 0; i < n && i < 8; i++) {
		char name[512];
		snprintf(name, sizeof name, "all.%s", text_of(json_array_get(inputs, i), "name"));
		const struct safetensors_entry *e = safetensors_find(&expected, name);
		if (e == NULL || e->rank < 1 || e->rank > 8 || e->dims[0] < first + count)
			die("there is no tensor with so many rows", name);
		int64_t row = e->bytes / e->dims[0];
		void *bytes = malloc((size_t)(row * count));
		must(safetensors_read(&expected, e, row * first, row * count, bytes, &d), &d);
		memcpy(dims[i], e->dims, (size_t)e->rank * sizeof(int64_t));
		dims[i][0] = count;
		items[i] = (struct safetensors_item){ name + 4, e->dtype, e->rank, dims[i], bytes };
		items[i].name = text_of(json_array_get(inputs, i), "name");
	}
	must(safetensors_write(argv[1], items, n, NULL, 0, &d), &d);
	for (uint32_t i = 0; i < n && i < 8; i++)
		free((void *)items[i].data);
	safetensors_close(&expected);
	json_decref(c);
	return true;
}

static double dot(const double *a, const double *b, int64_t n)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++)
		sum += a[i] * b[i];
	return sum;
}

static bool compare_neighbours(char **argv)
{
	struct safetensors f[2];
	struct numbers half[2];
	const double *row[64];
	int64_t count = 0, width = 0;
	int good = 0;
	for (int h = 0; h < 2; h++) {
		open_file(&f[h], argv[h + 1]);
		half[h] = need_numbers(&f[h], argv[0]);
		width = half[h].dims[1];
		for (int64_t i = 0; i < half[h].dims[0] && count < 64; i++)
			row[count++] = half[h].at + i * width;
	}
	for (int64_t i = 0; i < count; i++) {
		int64_t best = i == 0;
		for (int64_t k = 0; k < count; k++)
			if (k != i && dot(row[i], row[k], width) > dot(row[i], row[best], width))
				best = k;
		good += best == (i ^ 1);
	}
	printf("%d of %d have their partner as nearest neighbour; ", good, (int)count);
	for (int h = 0; h < 2; h++) {
		free(half[h].at);
		safetensors_close(&f[h]);
	}
	return good == count;
}

/* --- loss --- */

static double cross_entropy(const struct numbers *logits, const struct numbers *labels)
{
	int64_t width = logits->dims[logits->rank - 1], n = logits->count / width;
	double sum = 0;
	for (int64_t i = 0; i < n; i++) {
		const double *x = logits->at + i * width;
		double most = x[0], total = 0;
		for (int64_t k = 1; k < width; k++)
			most = fmax(most, x[k]);
		for (int64_t k = 0; k < width; k++)
			total += exp(x[k] - most);
		sum += log(total) + most - x[(int64_t)labels->at[i]];
	}
	return sum / (double)n;
}

static bool compare_loss(char **argv)
{
	struct safetensors expected, got;
	open_in(&expected, argv[0], "expected.safetensors");
	open_file(&got, argv[1]);
	struct numbers labels = need_numbers(&expected, "labels"), bar = need_numbers(&expected, "loss_bf16");
	struct numbers logits = need_numbers(&got, got.entries[0].name);
	double loss = cross_entropy(&logits, &labels), percent = 100 * fabs(loss / bar.at[0] - 1);
	printf("loss %.4f, torch's bf16 %.4f: %.2f %% apart (bar %s); ", loss, bar.at[0], percent, argv[2]);
	free(labels.at);
	free(bar.at);
	free(logits.at);
	safetensors_close(&expected);
	safetensors_close(&got);
	return percent <= strtod(argv[2], NULL);
}

static bool print_field(char **argv)
{
	json_t *c = case_of(argv[0]), *v = json_object_get(c, argv[1]);
	printf("%s", json_is_string(v) ? json_string_value(v) : json_is_true(v) ? "true" : "false");
	json_decref(c);
	return true;
}

static bool print_name(char **argv)
{
	json_t *c = case_of(argv[0]), *outputs = json_object_get(c, "outputs");
	for (size_t i = 0; i < json_array_size(outputs); i++)
		if (strcmp(text_of(json_array_get(outputs, i), "kind"), argv[1]) == 0) {
			printf("%s", text_of(json_array_get(outputs, i), "name"));
			break;
		}
	json_decref(c);
	return true;
}

static const struct { const char *name; int arguments; bool (*run)(char **argv); } commands[] = {
	{ "outputs", 3, compare_outputs }, { "oracle", 4, compare_oracle }, { "swapped", 3, compare_swapped },
	{ "rows", 4, write_rows }, { "neighbours", 3, compare_neighbours }, { "loss", 3, compare_loss },
	{ "field", 2, print_field }, { "name", 2, print_name }, { "gradients", 2, compare_gradients },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (argc > 1 && strcmp(argv[1], commands[i].name) == 0 && argc - 2 == commands[i].arguments) {
			bool good = commands[i].run(argv + 2);
			putchar('\n');
			return good ? 0 : 1;
		}
	die("no such command, or other arguments", argc > 1 ? argv[1] : "");
}
