/* fp8shard-run: runs a plan on CPU ranks, threads of this process. */
#include "plan_check.h"
#include "host.h"
#include "output.h"
#include "plan_file.h"
#include "run_train.h"
#include "session.h"

#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USER = 1 };

#define ROWS_SHOWN 20

struct options {
	const char *plan, *inputs, *output, *check_json;
	const char **weights; /* as many as argv is long */
	int weight_count, repeat, threads;
	bool check, json, verbose;
	struct train_options train;
};

static const char help[] =
	"usage: fp8shard-run PLAN [options]\n"
	"\n"
	"Runs a plan that fp8shard compiled: all ranks are threads of this process.\n"
	"\n"
	"  --weights FILE     parameters: .safetensors, .safetensors.index.json, .pt2, or a folder with\n"
	"                     one of them; may be given several times\n"
	"  --inputs FILE      inputs by name (.safetensors)\n"
	"  -o, --output FILE  writes whole outputs by name (.safetensors); without it they are summed up\n"
	"  --repeat N         runs the step N times (1); buffers keep what a step wrote\n"
	"  --threads N        BLAS threads of each rank (1)\n"
	"  --check            instead of a run: compares sharded with unsharded and fp8 with high\n"
	"                     precision, per matmul; exit status 1 where a threshold fails.\n"
	"                     With -o, runs too\n"
	"  --check-json FILE  as --check, and writes all figures to FILE\n"
	"  --json             prints the summary as JSON\n"
	"  -v, --verbose      says more: the plan, each step's time, all rows of --check\n"
	"  -h, --help         this text\n"
	"\n"
	"%s"
	"\n"
	"exit status: 0 done, 1 wrong input or a failed check\n"
	"\n"
	"example:\n"
	"  fp8shard compile model.pt2 -o plan.json --mesh tp=2 --fp8 rowwise\n"
	"  fp8shard-run plan.json --weights model.safetensors --inputs inputs.safetensors -o out.safetensors\n"
	"  fp8shard-run step.json --weights model.safetensors --train --data tokens.bin --tokens u16 --steps 1000 \\\n"
	"           --lr 3e-4 --checkpoint run\n";

static int usage(const char *what, const char *which)
{
	fprintf(stderr, "fp8shard-run: %s%s%s; see fp8shard-run --help\n", what, which != NULL ? " " : "",
		which != NULL ? which : "");
	return EXIT_USER;
}

static int say_error(const struct diag *d)
{
	fprintf(stderr, "fp8shard-run: %s\n", d->text);
	return EXIT_USER;
}

static int say_help(void)
{
	struct diag d = { 0 };
	printf(help, train_help);
	return output_flush(&d) == FS_OK ? 0 : say_error(&d);
}

/* --- options --- */

enum { OPT_WEIGHTS = 256, OPT_INPUTS, OPT_REPEAT, OPT_THREADS, OPT_CHECK, OPT_CHECK_JSON, OPT_JSON, OPT_TRAIN };

static const struct option run_options[] = {
	{ "weights", required_argument, NULL, OPT_WEIGHTS },
	{ "inputs", required_argument, NULL, OPT_INPUTS },
	{ "output", required_argument, NULL, 'o' },
	{ "repeat", required_argument, NULL, OPT_REPEAT },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "check", no_argument, NULL, OPT_CHECK },
	{ "check-json", required_argument, NULL, OPT_CHECK_JSON },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
};
#define RUN_OPTIONS (sizeof(run_options) / sizeof(run_options[0]))
#define MOST_OPTIONS 40

/* These and those of training, in `all`; names in `names`. */
static void list_options(struct option all[MOST_OPTIONS], char names[MOST_OPTIONS][32])
{
	size_t count = RUN_OPTIONS;
	memcpy(all, run_options, sizeof(run_options));
	for (int i = 0; train_option_names[i] != NULL; i++, count++) {
		size_t size = strcspn(train_option_names[i], "=");
		BUG_ON(count + 1 >= MOST_OPTIONS || size >= sizeof(names[i]));
		memcpy(names[i], train_option_names[i], size);
		names[i][size] = '\0';
		all[count] = (struct option){ names[i], train_option_names[i][size] == '=' ? required_argument : no_argument, NULL, OPT_TRAIN };
	}
	all[count] = (struct option){ NULL, 0, NULL, 0 };
}

static enum fs_status parse_count(const char *option, const char *text, int most, int *out, struct diag *d)
{
	char *end;
	long n = strtol(text, &end, 10);
	if (end == text || *end != '\0' || n < 1 || n > most)
		return diag_set(d, FS_INVALID, "%s '%s': a number from 1 to %d wanted", option, text, most);
	*out = (int)n;
	return FS_OK;
}

static enum fs_status take_option(struct options *o, int option, struct diag *d)
{
	switch (option) {
	case OPT_WEIGHTS: o->weights[o->weight_count++] = optarg; return FS_OK;
	case OPT_INPUTS: o->inputs = optarg; return FS_OK;
	case 'o': o->output = optarg; return FS_OK;
	case OPT_REPEAT: return parse_count("--repeat", optarg, 1000000, &o->repeat, d);
	case OPT_THREADS: return parse_count("--threads", optarg, 64, &o->threads, d);
	case OPT_CHECK: o->check = true; return FS_OK;
	case OPT_CHECK_JSON: o->check = true; o->check_json = optarg; return FS_OK;
	case OPT_JSON: o->json = true; return FS_OK;
	default: o->verbose = true; return FS_OK;
	}
}

/* What goes with training, and what does not. */
static enum fs_status check_options(const struct options *o, struct diag *d)
{
	TRY(train_options_check(&o->train, d));
	if (!o->train.on)
		return FS_OK;
	if (o->inputs != NULL || o->check || o->repeat > 1)
		return diag_set(d, FS_INVALID, "%s does not go with --train%s", o->inputs != NULL ? "--inputs" : o->check ? "--check" : "--repeat",
				o->inputs != NULL ? ": --data has a row a step" : "");
	if (o->json)
		return diag_set(d, FS_INVALID, "--json does not go with --train: --log FILE has each step as JSON");
	if (o->train.resume != NULL && o->weight_count > 0)
		return diag_set(d, FS_INVALID, "--weights and --resume: a checkpoint has all parameters; give one of them");
	return FS_OK;
}

/* -1: go on; else the exit status. */
static int parse_options(struct options *o, int argc, char **argv)
{
	struct diag d = { 0 };
	static struct option all[MOST_OPTIONS];
	static char names[MOST_OPTIONS][32]; /* messages name them */
	int which = 0;
	list_options(all, names);
	opterr = 0;
	for (int option; (option = getopt_long(argc, argv, ":o:vh", all, &which)) != -1;) {
		if (option == 'h')
			return say_help();
		if (option == ':')
			return usage("a value is missing after", argv[optind - 1]);
		if (option == '?')
			return usage("no such option:", argv[optind - 1]);
		if ((option == OPT_TRAIN ? train_option(&o->train, all[which].name, optarg, &d) : take_option(o, option, &d)) != FS_OK)
			return say_error(&d);
	}
	if (check_options(o, &d) != FS_OK)
		return say_error(&d);
	if (optind + 1 != argc)
		return optind == argc ? usage("a plan is missing", NULL) : usage("one plan at a time: what is", argv[optind + 1]);
	o->plan = argv[optind];
	return -1;
}

/* --- the job --- */

struct job {
	const struct options *options;
	struct plan *plan;
	struct weights weights;
	struct params params;
	struct safetensors inputs;
	bool has_inputs;
	struct checkpoint from; /* of --resume */
	char origin[4096];
	struct session session;
	struct host_tensors outputs;
	double *seconds; /* by step */
};

/* What stands for the weights' files in messages. */
static void name_origin(struct job *j)
{
	const struct options *o = j->options;
	if (o->weight_count == 0)
		snprintf(j->origin, sizeof(j->origin), "no --weights");
	else if (o->weight_count == 1)
		snprintf(j->origin, sizeof(j->origin), "%s", o->weights[0]);
	else
		snprintf(j->origin, sizeof(j->origin), "%s and %d other files", o->weights[0], o->weight_count - 1);
}

static enum fs_status open_files(struct job *j, struct diag *d)
{
	const struct options *o = j->options;
	name_origin(j);
	if (o->train.resume != NULL)
		TRY(checkpoint_open(o->train.resume, j->plan, &j->weights, &j->from, j->origin, d));
	for (int i = 0; i < o->weight_count; i++)
		TRY(weights_add(&j->weights, o->weights[i], d));
	TRY(params_find(j->plan, &j->weights, j->origin, &j->params, d));
	if (o->train.on)
		return FS_OK;
	if (o->inputs != NULL) {
		TRY(safetensors_open(&j->inputs, o->inputs, d));
		j->has_inputs = true;
	}
	return inputs_check(j->plan, j->has_inputs ? &j->inputs : NULL, d);
}

static enum fs_status check_output(const struct job *j, const char *option, const char *path, struct diag *d)
{
	TRY(output_is_no_input(option, path, j->options->plan, d));
	TRY(output_is_no_input(option, path, j->options->inputs, d));
	TRY(output_is_no_input(option, path, j->options->train.data, d));
	for (int i = 0; i < j->options->weight_count; i++)
		TRY(output_is_no_input(option, path, j->options->weights[i], d));
	if (path != NULL && weights_hold(&j->weights, path))
		return output_is_no_input(option, path, path, d);
	return FS_OK;
}

static enum fs_status check_outputs(const struct job *j, struct diag *d)
{
	const struct options *o = j->options;
	TRY(outputs_differ("--check-json", o->check_json, "-o", o->output, d));
	TRY(outputs_differ("--log", o->train.log, "-o", o->output, d));
	TRY(check_output(j, "--log", o->train.log, d));
	TRY(check_output(j, "-o", o->output, d));
	return check_output(j, "--check-json", o->check_json, d);
}

static const struct safetensors *inputs_of(const struct job *j)
{
	return j->has_inputs ? &j->inputs : NULL;
}

static enum fs_status run(struct job *j, struct diag *d)
{
	struct session_options o = { .params = &j->params, .inputs = inputs_of(j) };
	int repeat = j->options->repeat;
	j->seconds = calloc((size_t)repeat, sizeof(*j->seconds));
	if (j->seconds == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	TRY(session_create(&j->session, j->plan, &o, d));
	TRY(session_steps(&j->session, repeat, j->seconds, d));
	TRY(outputs_gather(j->plan, j->session.execs, j->session.ranks, &j->outputs, d));
	if (j->options->output != NULL)
		return outputs_write(&j->outputs, j->options->output, d);
	return FS_OK;
}

static void job_release(struct job *j)
{
	host_tensors_release(&j->outputs);
	session_destroy(&j->session);
	params_release(&j->params);
	weights_release(&j->weights);
	if (j->has_inputs)
		safetensors_close(&j->inputs);
	plan_destroy(j->plan);
	free(j->seconds);
}

/* --- figures --- */

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

struct times { double least, median; };

static struct times times_of(const struct job *j)
{
	int n = j->options->repeat;
	double *sorted = malloc(sizeof(*sorted) * (size_t)n);
	struct times t = { 0, 0 };
	if (sorted == NULL)
		return t;
	memcpy(sorted, j->seconds, sizeof(*sorted) * (size_t)n);
	qsort(sorted, (size_t)n, sizeof(*sorted), ascending);
	t = (struct times){ sorted[0], n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2 };
	free(sorted);
	return t;
}

/* Of the rank that sends most, a step. */
static uint64_t bytes_sent(const struct job *j)
{
	uint64_t most = 0;
	for (int r = 0; r < j->session.ranks; r++) {
		uint64_t sent = exec_bytes_sent(j->session.execs[r]) / (uint64_t)j->options->repeat;
		most = sent > most ? sent : most;
	}
	return most;
}

static int64_t memory_used(const struct job *j)
{
	int64_t most = 0;
	for (int r = 0; r < j->session.ranks; r++) {
		int64_t bytes = exec_memory(j->session.execs[r]);
		most = bytes > most ? bytes : most;
	}
	return most;
}

struct stats { int64_t count, not_finite; double least, most, mean, rms; };

static enum fs_status stats_of(const struct host_tensor *t, struct stats *s, struct diag *d)
{
	struct view from = view_of(t->data, t->dtype, t->rank, t->dim);
	int64_t n = view_count(&from);
	double *x = malloc((size_t)n * sizeof(*x) + 1);
	if (x == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	struct view to = view_of(x, DT_F64, t->rank, t->dim);
	cpu_copy(&from, &to);
	*s = (struct stats){ .count = n, .least = INFINITY, .most = -INFINITY };
	for (int64_t i = 0; i < n; i++) {
		s->not_finite += !isfinite(x[i]);
		if (!isfinite(x[i]))
			continue;
		s->least = fmin(s->least, x[i]);
		s->most = fmax(s->most, x[i]);
		s->mean += x[i] / (double)n;
		s->rms += x[i] * x[i] / (double)n;
	}
	s->rms = sqrt(s->rms);
	free(x);
	return FS_OK;
}

static void shape_text(const struct host_tensor *t, char out[200])
{
	size_t used = (size_t)snprintf(out, 200, "%s[", dtype_text(t->dtype));
	for (int k = 0; k < t->rank; k++)
		used += (size_t)snprintf(out + used, 200 - used, "%s%lld", k > 0 ? "," : "", (long long)t->dim[k]);
	snprintf(out + used, 200 - used, "]");
}

/* --- what is printed --- */

static const char *bytes_text(int64_t bytes, char out[32])
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
	double x = (double)bytes;
	int u = 0;
	for (; x >= 1000 && u < 4; u++)
		x /= 1000;
	snprintf(out, 32, u == 0 ? "%.0f %s" : "%.1f %s", x, units[u]);
	return out;
}

static void mesh_text(const struct mesh *m, char out[256])
{
	size_t used = 0;
	out[0] = '\0';
	for (int a = 0; a < m->count; a++)
		used += (size_t)snprintf(out + used, 256 - used, "%s%s=%d", a > 0 ? "," : "", m->axis[a].name,
					 (int)m->axis[a].size);
}

/* Before anything is allocated. */
static void print_need(const struct job *j)
{
	const struct plan *p = j->plan;
	const struct mesh *m = context_mesh(p->context);
	char mesh[256], total[32], param[32], state[32], arena[32];
	mesh_text(m, mesh);
	printf("%lld rank%s%s%s%s: %s each (parameters %s, state %s, arena %s)\n", (long long)mesh_size(m),
	       mesh_size(m) == 1 ? "" : "s", m->count > 0 ? " (" : "", mesh, m->count > 0 ? ")" : "",
	       bytes_text(p->param_bytes + p->state_bytes + p->arena_bytes, total), bytes_text(p->param_bytes, param),
	       bytes_text(p->state_bytes, state), bytes_text(p->arena_bytes, arena));
	if (j->options->verbose)
		printf("plan %016llx, %u nodes, recipe %s%s\n", (unsigned long long)p->hash,
		       p->graph->nodes.count - 1, p->recipe != NULL ? p->recipe : "none", p->exact ? ", exact" : "");
	fflush(stdout);
}

static enum fs_status print_outputs(const struct job *j, struct diag *d)
{
	for (uint32_t i = 0; i < j->outputs.count; i++) {
		const struct host_tensor *t = &j->outputs.at[i];
		struct stats s;
		char shape[200];
		TRY(stats_of(t, &s, d));
		shape_text(t, shape);
		printf("%-24s %-20s", t->name, shape);
		if (s.count > s.not_finite)
			printf(" min %.6g  max %.6g  mean %.6g  rms %.6g", s.least, s.most, s.mean, s.rms);
		if (s.not_finite > 0)
			printf("  %lld not finite", (long long)s.not_finite);
		putchar('\n');
	}
	return FS_OK;
}

static enum fs_status print_run(const struct job *j, struct diag *d)
{
	struct times t = times_of(j);
	char sent[32], memory[32];
	for (int i = 0; j->options->verbose && i < j->options->repeat; i++)
		printf("step %d: %.3f ms\n", i, 1e3 * j->seconds[i]);
	printf("%d step%s: min %.3f ms, median %.3f ms; a rank sent %s in a step, and held %s with inputs and workspace\n",
	       j->options->repeat, j->options->repeat == 1 ? "" : "s", 1e3 * t.least, 1e3 * t.median,
	       bytes_text((int64_t)bytes_sent(j), sent), bytes_text(memory_used(j), memory));
	if (j->options->output == NULL)
		return print_outputs(j, d);
	printf("%u output%s in %s\n", j->outputs.count, j->outputs.count == 1 ? "" : "s", j->options->output);
	return FS_OK;
}

static json_t *output_json(const struct host_tensor *t, const struct stats *s)
{
	json_t *shape = json_array();
	for (int k = 0; k < t->rank; k++)
		json_array_append_new(shape, json_integer(t->dim[k]));
	bool any = s->count > s->not_finite;
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:f, s:f, s:I}", "name", t->name, "dtype", dtype_text(t->dtype),
			 "shape", shape, "min", any ? json_real(s->least) : json_null(),
			 "max", any ? json_real(s->most) : json_null(), "mean", s->mean, "rms", s->rms,
			 "not_finite", (json_int_t)s->not_finite);
}

static enum fs_status print_json(const struct job *j, struct diag *d)
{
	struct times t = times_of(j);
	const struct plan *p = j->plan;
	json_t *outputs = json_array(), *steps = json_array();
	for (uint32_t i = 0; i < j->outputs.count; i++) {
		struct stats s;
		if (stats_of(&j->outputs.at[i], &s, d) != FS_OK)
			break;
		json_array_append_new(outputs, output_json(&j->outputs.at[i], &s));
	}
	for (int i = 0; i < j->options->repeat; i++)
		json_array_append_new(steps, json_real(j->seconds[i]));
	json_t *all = json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:i, s:f, s:f, s:o, s:o}", "ranks", j->session.ranks,
				"param_bytes", (json_int_t)p->param_bytes, "state_bytes", (json_int_t)p->state_bytes,
				"arena_bytes", (json_int_t)p->arena_bytes, "memory_bytes", (json_int_t)memory_used(j),
				"bytes_sent", (json_int_t)bytes_sent(j), "steps", j->options->repeat,
				"seconds_min", t.least, "seconds_median", t.median, "seconds", steps,
				"outputs", outputs);
	if (all == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(all);
	return d->status;
}

/* --- check --- */

static enum fs_status write_check(const struct check *c, const char *path, struct diag *d)
{
	char *text;
	TRY(check_json(c, &text, d));
	enum fs_status status = file_write_whole(path, text, strlen(text), d);
	free(text);
	return status;
}

static enum fs_status print_check(const struct check *c, const struct options *o, struct diag *d)
{
	if (!o->json) {
		check_print(c, o->verbose ? UINT32_MAX : ROWS_SHOWN, stdout);
		return FS_OK;
	}
	return write_check(c, "/dev/stdout", d);
}

static enum fs_status check(struct job *j, bool *passed, struct diag *d)
{
	struct check c;
	TRY(check_plan(j->plan, &j->params, inputs_of(j), &c, d));
	*passed = c.failed == 0;
	enum fs_status status = print_check(&c, j->options, d);
	if (status == FS_OK && j->options->check_json != NULL)
		status = write_check(&c, j->options->check_json, d);
	check_release(&c);
	return status;
}

/* --- main --- */

static enum fs_status do_job(struct job *j, bool *passed, struct diag *d)
{
	const struct options *o = j->options;
	*passed = true;
	TRY(plan_open(o->plan, &j->plan, d));
	TRY(open_files(j, d));
	TRY(check_outputs(j, d));
	TRY(cpu_blas_load(d));
	cpu_blas_threads(o->threads);
	if (!o->json)
		print_need(j);
	if (o->train.on)
		TRY(train_run(&o->train, j->plan, &j->params, &j->from, o->output, o->verbose, d));
	else if (!o->check || o->output != NULL) {
		TRY(run(j, d));
		TRY(o->json ? (o->check ? FS_OK : print_json(j, d)) : print_run(j, d));
	}
	if (o->check)
		TRY(check(j, passed, d));
	return output_flush(d);
}

int main(int argc, char **argv)
{
	const char **weights = calloc((size_t)argc, sizeof(*weights));
	struct options o = { .weights = weights, .repeat = 1, .threads = 1, .train = TRAIN_OPTIONS_DEFAULT };
	struct job j = { .options = &o };
	struct diag d = { 0 };
	bool passed = false;
	signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error of write */
	int status = weights == NULL ? EXIT_USER : parse_options(&o, argc, argv);
	if (status < 0) {
		if (do_job(&j, &passed, &d) != FS_OK)
			say_error(&d);
		status = d.status == FS_OK && passed ? 0 : EXIT_USER;
		job_release(&j);
	}
	free(weights);
	return status;
}
