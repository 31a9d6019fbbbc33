/* fp8shard: compiles a model's graph to a plan, and shows what is inside. */
#include "cli.h"
#include "file.h"
#include "lower.h"
#include "output.h"
#include "plan_file.h"
#include "show.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define VERSION "0.1.0"

/* --- files --- */

static enum fs_status check_outputs(const struct cli *c, struct diag *d)
{
	if (c->output != NULL && strcmp(c->output, "-") == 0 && (c->dump != NULL || c->print_changed))
		return diag_set(d, FS_INVALID, "-o -: --dump-ir and --print-changed print there; name a file, or use --dump-dir");
	TRY(outputs_differ("--report", c->report, "-o", c->output, d));
	TRY(output_is_no_input("-o", c->output, c->input, d));
	TRY(output_is_no_input("--report", c->report, c->input, d));
	for (uint32_t i = 0; i < c->plans.count; i++) {
		TRY(output_is_no_input("-o", c->output, c->plans.items[i], d));
		TRY(output_is_no_input("--report", c->report, c->plans.items[i], d));
	}
	return FS_OK;
}

static enum fs_status make_dump_dir(const struct cli *c, struct diag *d)
{
	if (c->dump_dir != NULL && mkdir(c->dump_dir, 0777) != 0 && errno != EEXIST)
		return diag_set(d, FS_IO, "--dump-dir %s: %s", c->dump_dir, strerror(errno));
	return FS_OK;
}

static enum fs_status write_output(const char *path, const char *text, size_t size, struct diag *d)
{
	if (strcmp(path, "-") != 0)
		return file_write_whole(path, text, size, d);
	fwrite(text, 1, size, stdout);
	return output_flush(d);
}

/* --- reading the model --- */

static void say_time(const struct cli *c, const char *what, double since)
{
	if (c->timing)
		fprintf(stderr, "%-16s %8.2f ms\n", what, 1e3 * (seconds_now() - since));
}

static enum fs_status import_model(struct cli *c, struct context **context, struct graph **g, struct diag *d)
{
	double start = seconds_now();
	struct import_options o = { .dims = c->dims.items, .dim_count = (int)c->dims.count, .notes = &c->notes,
				    .text_form = c->command->bit == FOR_OPT };
	TRY(import_file(c->input, &o, c->has_mesh ? &c->mesh : NULL, context, g, d));
	for (uint32_t i = 0; i < c->notes.line.count; i++)
		*vec_push(&c->compile.notes) = c->notes.line.items[i];
	say_time(c, "import", start);
	return FS_OK;
}

static void say_notes(const struct compile *c)
{
	for (uint32_t i = 0; i < c->notes.count; i++)
		fprintf(stderr, "fp8shard: note: %s\n", c->notes.items[i]);
}

/* --- compile --- */

static void say_solver(const struct cli *c)
{
	const struct solve_stats *s = &c->compile.solved;
	if (c->timing && s->sweeps > 0)
		fprintf(stderr, "%-16s cost %llu ps, %llu cells, widest table %llu, %d sweeps, %u blocks\n", "solver",
			(unsigned long long)s->cost, (unsigned long long)s->cells, (unsigned long long)s->widest, s->sweeps,
			s->blocks > 1 ? s->blocks : 1);
}

/* The recipe asked for as a whole, for the plan's head. */
static const char *asked_recipe(const struct compile *c)
{
	const char *recipe = "none";
	for (uint32_t i = 0; i < c->recipes.count; i++)
		if (c->recipes.items[i].pattern == NULL || strcmp(recipe, "none") == 0)
			recipe = c->recipes.items[i].value;
	return recipe;
}

/* Takes the graph and its context. */
static enum fs_status lower(const struct cli *c, struct graph *g, char **text, size_t *size, struct diag *d)
{
	double start = seconds_now();
	const struct compile *m = &c->compile;
	struct lower_options o = { .recipe = asked_recipe(m), .target = m->target, .exact = m->exact,
				   .matmuls = m->matmuls.items, .matmul_count = m->matmuls.count,
				   .command = c->given.items, .command_count = c->given.count };
	struct plan *plan;
	TRY(lower_plan(g, &o, &plan, d));
	say_time(c, "lower", start);
	start = seconds_now();
	enum fs_status status = plan_write(plan, text, size, d);
	say_time(c, "write", start);
	plan_destroy(plan);
	return status;
}

static enum fs_status run_pipeline(struct cli *c, struct graph **g, struct diag *d)
{
	struct pipeline_options o = { .dump = c->dump, .dump_dir = c->dump_dir, .print_changed = c->print_changed,
				      .out = stdout, .timing = c->timing ? stderr : NULL };
	TRY(pipeline_run(g, &c->compile, &o, d));
	say_solver(c);
	return FS_OK;
}

/* All that the graph is needed for; it is given away. */
static enum fs_status compile_graph(struct cli *c, struct context *context, struct graph *g, char **text, size_t *size,
				    struct diag *d)
{
	enum fs_status status = run_pipeline(c, &g, d);
	if (status == FS_OK && c->report != NULL)
		status = report_write(c->report, c->input, &c->compile, NULL, d);
	if (status != FS_OK) {
		graph_destroy(g);
		context_destroy(context);
		return status;
	}
	say_notes(&c->compile);
	if (strcmp(c->output, "-") != 0)
		report_table(&c->compile, stdout);
	return lower(c, g, text, size, d);
}

static enum fs_status compile(struct cli *c, struct diag *d)
{
	struct context *context;
	struct graph *g;
	char *text = NULL;
	size_t size;
	TRY(make_dump_dir(c, d));
	TRY(fit_memory(c, d));
	TRY(import_model(c, &context, &g, d));
	enum fs_status status = compile_graph(c, context, g, &text, &size, d);
	if (status == FS_OK)
		status = output_flush(d);
	if (status == FS_OK)
		status = write_output(c->output, text, size, d);
	free(text);
	return status;
}

/* A report is written of what went wrong, too. */
static enum fs_status run_compile(struct cli *c, struct diag *d)
{
	struct diag ignored = { 0 };
	TRY(check_outputs(c, d));
	if (compile(c, d) != FS_OK && c->report != NULL)
		report_write(c->report, c->input, NULL, d->text, &ignored);
	return d->status;
}

/* --- opt --- */

static enum fs_status run_pass(struct cli *c, struct graph **g, const char *name, size_t size, struct diag *d)
{
	char one[64];
	struct pipeline_options o = { .only = one, .out = stdout, .timing = c->timing ? stderr : NULL };
	snprintf(one, sizeof(one), "%.*s", (int)(size < sizeof(one) ? size : sizeof(one) - 1), name);
	return pipeline_run(g, &c->compile, &o, d);
}

static enum fs_status run_passes(struct cli *c, struct graph **g, struct diag *d)
{
	for (const char *s = *c->only ? c->only : NULL, *end; s != NULL; s = *end == ',' ? end + 1 : NULL) {
		end = s + strcspn(s, ",");
		TRY(run_pass(c, g, s, (size_t)(end - s), d));
	}
	say_solver(c);
	return FS_OK;
}

static enum fs_status print_graph(const char *path, const struct graph *g, struct diag *d)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	if (f == NULL)
		return diag_set(d, FS_NOMEM, "out of memory");
	graph_print(g, f);
	fclose(f);
	enum fs_status status = write_output(path, text, size, d);
	free(text);
	return status;
}

static enum fs_status run_opt(struct cli *c, struct diag *d)
{
	struct context *context;
	struct graph *g;
	TRY(check_outputs(c, d));
	TRY(import_model(c, &context, &g, d));
	enum fs_status status = run_passes(c, &g, d);
	if (status == FS_OK) {
		say_notes(&c->compile);
		status = print_graph(c->output != NULL ? c->output : "-", g, d);
	}
	graph_destroy(g);
	context_destroy(context);
	return status;
}

/* --- show, explain, estimate, passes --- */

static enum fs_status run_show(struct cli *c, struct diag *d)
{
	struct plan *plan;
	TRY(plan_open(c->input, &plan, d));
	plan_show(plan, c->json, stdout);
	plan_destroy(plan);
	return output_flush(d);
}

static enum fs_status run_explain(struct cli *c, struct diag *d)
{
	if (c->diff)
		TRY(explain_diff(c->input, c->second, c->json, stdout, d));
	else
		TRY(explain_plan(c->input, c->second, c->json, stdout, d));
	return output_flush(d);
}

static enum fs_status run_estimate(struct cli *c, struct diag *d)
{
	TRY(estimate_file(c->input, c->compile.target, c->nodes, c->json, stdout, d));
	return output_flush(d);
}

static enum fs_status run_list(struct cli *c, struct diag *d)
{
	cli_passes(c->markdown, stdout);
	return output_flush(d);
}

/* --- commands --- */

const struct command cli_commands[] = {
	{ "compile", FOR_COMPILE, 1, "compile FILE -o PLAN [OPTION]...",
	  "compile a model's graph to a plan for the ranks of a mesh.\n"
	  "FILE is a torch.export archive (.pt2) or its JSON, a JSON graph (docs/graph.md) or the text form;\n"
	  "its content says which. Prints what became of every matmul.",
	  "  fp8shard compile model.pt2 -o plan.json --mesh dp=2,tp=4 --plan tp_plan.json \\\n"
	  "           --place 'x=dp:S(0)' --fp8 rowwise --fp8 'lm_head=none'",
	  run_compile },
	{ "opt", FOR_OPT, 1, "opt --passes=PASS,... FILE [-o FILE] [OPTION]...",
	  "run passes on a graph and print it in the text form.\n"
	  "FILE is as for compile, most often the text form. An empty list of passes reads, verifies and prints.",
	  "  fp8shard opt --passes=solve,partition mlp.ir --mesh tp=4",
	  run_opt },
	{ "show", FOR_SHOW, 1, "show PLAN [--json]",
	  "show what a plan costs: its mesh, the memory of a rank, collectives, matmuls.", "  fp8shard show plan.json", run_show },
	{ "explain", FOR_EXPLAIN, 2, "explain PLAN [VALUE|COLLECTIVE] [--json]\n       fp8shard explain --diff PLAN PLAN [--json]",
	  "say why a plan moves what it moves.\n"
	  "Of each collective: the value and its two placements, the ops on both sides and what pins them, bytes and\n"
	  "time, and what the best plan without it would cost (docs/explain.md).\n"
	  "VALUE is a name, a module or a pattern of them, COLLECTIVE its kind (all_gather) or its number (%12);\n"
	  "without one, all. The next best is solved again from the model: run this where compile was run.\n"
	  "--diff exits with 0 whether or not the plans differ.",
	  "  fp8shard explain plan.json 'layers.0.mlp.down_proj'\n  fp8shard explain --diff before.json after.json", run_explain },
	{ "estimate", FOR_ESTIMATE, 1, "estimate PLAN [--target MACHINE] [--nodes N] [--json]",
	  "say what a run of a plan would take on a machine: time and memory of a rank.\n"
	  "Nothing is run and no weights are read; any number of ranks (docs/performance.md).",
	  "  fp8shard estimate plan.json --target h100 --nodes 2", run_estimate },
	{ "passes", FOR_PASSES, 0, "passes [--markdown]",
	  "list the passes, with their stages and numerics.", "  fp8shard passes", run_list },
};
const int cli_command_count = (int)(sizeof(cli_commands) / sizeof(cli_commands[0]));

static const struct command *find_command(const char *name)
{
	for (int i = 0; i < cli_command_count; i++)
		if (strcmp(cli_commands[i].name, name) == 0)
			return &cli_commands[i];
	return NULL;
}

/* command: "" where there is none */
static int say_usage(const char *message, const char *command)
{
	fprintf(stderr, "fp8shard: %s; see fp8shard%s%s --help\n", message, *command ? " " : "", command);
	return EXIT_USER;
}

static int say_error(const struct diag *d)
{
	fprintf(stderr, "fp8shard: %s\n", d->text);
	return EXIT_USER;
}

static int run_command(struct cli *c, int count, char **argv)
{
	struct diag d = { 0 };
	bool usage;
	if (cli_parse(c, count, argv, &usage, &d) == FS_OK && !c->help)
		c->command->run(c, &d);
	if (usage)
		return say_usage(d.text, c->command->name);
	if (d.status == FS_OK && c->help) {
		cli_command_help(c->command, stdout);
		output_flush(&d);
	}
	return d.status == FS_OK ? EXIT_SUCCESS : say_error(&d);
}

/* True where `name` asks for what is printed here. */
static bool say_about(const char *name)
{
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
		cli_help(stdout);
	else if (strcmp(name, "--version") == 0)
		puts("fp8shard " VERSION);
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	char message[300];
	signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error of write */
	struct diag d = { 0 };
	if (say_about(name))
		return output_flush(&d) == FS_OK ? EXIT_SUCCESS : say_error(&d);
	struct cli c = { .command = find_command(name) };
	if (c.command == NULL) {
		snprintf(message, sizeof(message), *name ? "unknown command '%.200s'" : "no command", name);
		return say_usage(message, "");
	}
	int status = run_command(&c, argc - 2, argv + 2);
	cli_release(&c);
	return status;
}
