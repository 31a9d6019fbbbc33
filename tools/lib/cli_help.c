/* Help, made of the tables; the list of passes. */
#include "cli.h"

#include <string.h>
#include <time.h>

#define COLUMN 26

/* The lines of a text, the first where the line stands, the others below it. */
static void print_indented(const char *text, FILE *out)
{
	for (;;) {
		size_t n = strcspn(text, "\n");
		fprintf(out, "%.*s\n", (int)n, text);
		if (text[n] == '\0')
			return;
		text += n + 1;
		fprintf(out, "%*s", COLUMN, "");
	}
}

static void print_option(const struct option *o, FILE *out)
{
	const char *argument = o->argument != NULL ? o->argument : "";
	const char *blank = *argument != '\0' && *argument != '[' ? " " : "";
	int width = fprintf(out, "  %s%s%s%s", o->name, blank, argument, o->repeats ? " ..." : "");
	if (width > COLUMN - 2)
		width = fprintf(out, "\n") - 1;
	fprintf(out, "%*s", COLUMN - width, "");
	print_indented(o->help, out);
}

void cli_command_help(const struct command *command, FILE *out)
{
	fprintf(out, "usage: fp8shard %s\n\n%s\n\noptions:\n", command->usage, command->summary);
	for (int i = 0; i < cli_option_count; i++)
		if (cli_options[i].commands & command->bit)
			print_option(&cli_options[i], out);
	fprintf(out, "\nexample:\n%s\n", command->example);
}

void cli_help(FILE *out)
{
	fprintf(out, "fp8shard: a model graph in, a plan out that runs it on many ranks, in fp8 where asked for.\n\ncommands:\n");
	for (int i = 0; i < cli_command_count; i++) {
		const char *s = cli_commands[i].summary;
		fprintf(out, "  %-9s %.*s\n", cli_commands[i].name, (int)strcspn(s, ";.\n"), s);
	}
	fprintf(out, "\n'fp8shard COMMAND --help' says more; --version says which version this is.\n"
		     "fp8shard-run runs the plans.\n\n"
		     "exit status: 0 done, 1 wrong input\n\nexample:\n"
		     "  fp8shard compile model.pt2 -o plan.json --mesh tp=4 --plan tp_plan.json --fp8 rowwise\n"
		     "  fp8shard show plan.json\n");
}

/* --- passes --- */

static const char *numerics_text(enum numerics n)
{
	static const char *const text[] = { [NUM_EXACT] = "exact", [NUM_REORDERS] = "reorders", [NUM_LOSSY] = "lossy" };
	return text[n];
}

static void passes_markdown(FILE *out)
{
	fprintf(out,
		"# Passes\n\n"
		"Made by `fp8shard passes --markdown` from `src/passes/passes.def`. They run in this order; each file under\n"
		"`src/passes/` opens with the contract of its pass and a picture of what it does.\n\n"
		"Numerics: *exact* keeps every bit; *reorders* is the same mathematics with sums in another order; *lossy*\n"
		"rounds to fp8. The verifier checks the graph after every pass.\n\n"
		"| pass | stage before | after | numerics | what it does |\n|---|---|---|---|---|\n");
	for (int i = 0; i < pass_count; i++)
		fprintf(out, "| `%s` | %s | %s | %s | %s |\n", passes[i].name, stage_text(passes[i].from),
			stage_text(passes[i].to), numerics_text(passes[i].numerics), passes[i].summary);
}

void cli_passes(bool markdown, FILE *out)
{
	if (markdown) {
		passes_markdown(out);
		return;
	}
	fprintf(out, "%-15s %-7s %-7s %-9s %s\n", "pass", "from", "to", "numerics", "what it does");
	for (int i = 0; i < pass_count; i++)
		fprintf(out, "%-15s %-7s %-7s %-9s %s\n", passes[i].name, stage_text(passes[i].from),
			stage_text(passes[i].to), numerics_text(passes[i].numerics), passes[i].summary);
}

double seconds_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
