/* Options of the commands, one row each. */
#include "cli.h"
#include "machine.h"
#include "tp_plan.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* --- values --- */

/* "PATTERN=VALUE", split at the last '='. */
static enum fs_status split(struct cli *c, const char *origin, const char *text, const char *wanted, struct request *out,
			    struct diag *d)
{
	const char *equals = strrchr(text, '=');
	if (equals == NULL || equals == text || equals[1] == '\0')
		return diag_set(d, FS_INVALID, "%s '%.200s': %s wanted", origin, text, wanted);
	char *pattern = arena_alloc(&c->strings, (size_t)(equals - text) + 1);
	memcpy(pattern, text, (size_t)(equals - text));
	*out = (struct request){ pattern, equals + 1, origin };
	return FS_OK;
}

static enum fs_status set_output(struct cli *c, const char *value, struct diag *d)
{
	c->output = value;
	return *value != '\0' ? FS_OK : diag_set(d, FS_INVALID, "-o: the name of a file wanted");
}

static enum fs_status set_mesh(struct cli *c, const char *value, struct diag *d)
{
	c->has_mesh = true;
	return mesh_parse(&c->mesh, value, d) == FS_OK ? FS_OK : diag_prefix(d, "--mesh");
}

static enum fs_status plan_file(struct cli *c, const char *path, struct diag *d)
{
	tp_rules rules = { 0 };
	*vec_push(&c->plans) = path;
	enum fs_status status = tp_plan_read(path, &c->strings, &rules, d);
	for (uint32_t i = 0; i < rules.count && status == FS_OK; i++) {
		const struct tp_rule *r = &rules.items[i];
		*vec_push(&c->compile.styles) = (struct request){ r->pattern, r->value, r->origin };
	}
	vec_release(&rules);
	return status == FS_OK ? FS_OK : diag_prefix(d, "--plan");
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), size = strlen(end);
	return n >= size && strcmp(s + n - size, end) == 0;
}

/* A file, or one rule. */
static enum fs_status set_plan(struct cli *c, const char *value, struct diag *d)
{
	struct stat st;
	struct request r;
	if (ends_with(value, ".json") || stat(value, &st) == 0)
		return plan_file(c, value, d);
	TRY(split(c, "--plan", value, "a file that there is, or PATTERN=STYLE", &r, d));
	*vec_push(&c->compile.styles) = r;
	return FS_OK;
}

static enum fs_status set_place(struct cli *c, const char *value, struct diag *d)
{
	struct request r;
	TRY(split(c, "--place", value, "VALUE=PLACEMENT, as in 'x=dp:S(0)'", &r, d));
	*vec_push(&c->compile.places) = r;
	return FS_OK;
}

static enum fs_status set_fp8(struct cli *c, const char *value, struct diag *d)
{
	struct request r = { NULL, value, "--fp8" };
	if (strchr(value, '=') != NULL)
		TRY(split(c, "--fp8", value, "RECIPE or PATTERN=RECIPE", &r, d));
	*vec_push(&c->compile.recipes) = r;
	return FS_OK;
}

static enum fs_status set_scope(struct cli *c, const char *value, struct diag *d)
{
	struct request r;
	TRY(split(c, "--scale-scope", value, "AXIS=local or AXIS=global", &r, d));
	if (strcmp(r.value, "local") != 0 && strcmp(r.value, "global") != 0)
		return diag_set(d, FS_INVALID, "--scale-scope '%.200s': the scope is local or global", value);
	*vec_push(&c->compile.scopes) = r;
	return FS_OK;
}

static enum fs_status set_dim(struct cli *c, const char *value, struct diag *d)
{
	struct request r;
	char *end;
	TRY(split(c, "--dim", value, "NAME=SIZE", &r, d));
	errno = 0;
	long long size = strtoll(r.value, &end, 10);
	if (*end != '\0' || errno != 0 || size < 0)
		return diag_set(d, FS_INVALID, "--dim '%.200s': the size is no number of 0 or more", value);
	for (uint32_t i = 0; i < c->dims.count; i++)
		if (strcmp(c->dims.items[i].name, r.pattern) == 0)
			return diag_set(d, FS_INVALID, "--dim '%.200s': the size of %.100s is given twice", value, r.pattern);
	*vec_push(&c->dims) = (struct import_dim){ r.pattern, size };
	return FS_OK;
}

static enum fs_status set_target(struct cli *c, const char *value, struct diag *d)
{
	const struct machine *m;
	c->compile.target = value;
	return machine_find(value, &m, d);
}

static enum fs_status set_nodes(struct cli *c, const char *value, struct diag *d)
{
	char *end;
	errno = 0;
	c->nodes = strtoll(value, &end, 10);
	if (end == value || *end != '\0' || errno != 0 || c->nodes < 1)
		return diag_set(d, FS_INVALID, "--nodes '%.200s': a number of 1 or more wanted", value);
	return FS_OK;
}

static enum fs_status set_reduce_dtype(struct cli *c, const char *value, struct diag *d)
{
	c->compile.reduce_f32 = true;
	return strcmp(value, "f32") == 0 ? FS_OK : diag_set(d, FS_INVALID, "--reduce-dtype '%.200s': there is only f32", value);
}

static enum fs_status set_fp8_auto(struct cli *c, const char *value, struct diag *d)
{
	(void)value;
	(void)d;
	c->compile.fp8_auto = true;
	return FS_OK;
}

static enum fs_status set_exact(struct cli *c, const char *value, struct diag *d)
{
	(void)value;
	(void)d;
	c->compile.exact = true;
	return FS_OK;
}

static enum fs_status set_train(struct cli *c, const char *value, struct diag *d)
{
	(void)value;
	(void)d;
	c->compile.train.on = true;
	return FS_OK;
}

static enum fs_status set_loss(struct cli *c, const char *value, struct diag *d)
{
	(void)d;
	c->compile.train.loss = value;
	return FS_OK;
}

static enum fs_status set_cotangent(struct cli *c, const char *value, struct diag *d)
{
	(void)d;
	*vec_push(&c->compile.train.cotangents) = value;
	return FS_OK;
}

static enum fs_status set_input_gradient(struct cli *c, const char *value, struct diag *d)
{
	(void)d;
	*vec_push(&c->compile.train.input_gradients) = value;
	return FS_OK;
}

static enum fs_status set_optimizer(struct cli *c, const char *value, struct diag *d)
{
	(void)d;
	c->compile.train.optimizer = value;
	return FS_OK;
}

static enum fs_status set_clip_norm(struct cli *c, const char *value, struct diag *d)
{
	(void)d;
	c->compile.train.clip_norm = value;
	return FS_OK;
}

static enum fs_status set_keep_gradients(struct cli *c, const char *value, struct diag *d)
{
	(void)value;
	(void)d;
	c->compile.train.keep_gradients = true;
	return FS_OK;
}

/* PATTERN or PATTERN:COUNT */
static enum fs_status set_recompute(struct cli *c, const char *value, struct diag *d)
{
	struct training *t = &c->compile.train;
	const char *colon = strrchr(value, ':');
	char *end = NULL;
	errno = 0;
	long count = colon == NULL ? 0 : strtol(colon + 1, &end, 10);
	t->blocks = (int)count;
	t->recompute = strcmp(value, "none") == 0 ? NULL : colon == NULL ? value : arena_printf(&c->strings, "%.*s", (int)(colon - value), value);
	if (colon != NULL && (*end != '\0' || errno != 0 || count < 1 || count > INT_MAX))
		return diag_set(d, FS_INVALID, "--recompute '%.200s': behind the colon is how many, 1 or more", value);
	return FS_OK;
}

static enum fs_status set_grad_reduce(struct cli *c, const char *value, struct diag *d)
{
	c->compile.train.reduce_f32 = strcmp(value, "f32") == 0;
	return c->compile.train.reduce_f32 || strcmp(value, "bf16") == 0
		       ? FS_OK
		       : diag_set(d, FS_INVALID, "--grad-reduce '%.200s': bf16 or f32 wanted", value);
}

static enum fs_status set_memory(struct cli *c, const char *value, struct diag *d)
{
	return parse_bytes(value, &c->memory, d) == FS_OK ? FS_OK : diag_prefix(d, "--memory");
}

static enum fs_status set_passes(struct cli *c, const char *value, struct diag *d)
{
	(void)d;
	c->only = value;
	return FS_OK;
}

static enum fs_status set_dump(struct cli *c, const char *value, struct diag *d)
{
	(void)d;
	c->dump = value != NULL ? value : "all";
	return FS_OK;
}

static enum fs_status set_dump_dir(struct cli *c, const char *value, struct diag *d)
{
	(void)d;
	c->dump_dir = value;
	return FS_OK;
}

static enum fs_status set_print_changed(struct cli *c, const char *value, struct diag *d)
{
	(void)value;
	(void)d;
	c->print_changed = true;
	return FS_OK;
}

static enum fs_status set_timing(struct cli *c, const char *value, struct diag *d)
{
	(void)value;
	(void)d;
	c->timing = true;
	return FS_OK;
}

static enum fs_status set_report(struct cli *c, const char *value, struct diag *d)
{
	c->report = value;
	return *value != '\0' ? FS_OK : diag_set(d, FS_INVALID, "--report: the name of a file wanted");
}

static enum fs_status set_json(struct cli *c, const char *value, struct diag *d)
{
	(void)value;
	(void)d;
	c->json = true;
	return FS_OK;
}

static enum fs_status set_diff(struct cli *c, const char *value, struct diag *d)
{
	(void)value;
	(void)d;
	c->diff = true;
	return FS_OK;
}

static enum fs_status set_markdown(struct cli *c, const char *value, struct diag *d)
{
	(void)value;
	(void)d;
	c->markdown = true;
	return FS_OK;
}

static enum fs_status set_help(struct cli *c, const char *value, struct diag *d)
{
	(void)value;
	(void)d;
	c->help = true;
	return FS_OK;
}

#define BOTH (FOR_COMPILE | FOR_OPT)
/* Those that a plan depends on: it keeps them. */
#define DECIDES (BOTH | FOR_PLAN)
#define ALL (FOR_COMPILE | FOR_OPT | FOR_SHOW | FOR_PASSES | FOR_EXPLAIN | FOR_ESTIMATE)

const struct option cli_options[] = {
	{ "--passes", "PASS,...", FOR_OPT, false, "the passes to run, in this order; 'fp8shard passes' lists them", set_passes },
	{ "-o", "FILE", BOTH, false, "where the result goes; - is standard output", set_output },
	{ "--mesh", "AXIS=SIZE,...", DECIDES, false,
	  "the ranks, outermost (slowest links) axis first, as in dp=2,tp=4;\nwithout it one rank", set_mesh },
	{ "--plan", "FILE|'PATTERN=STYLE'", DECIDES, true,
	  "tensor parallelism: a JSON file {\"PATTERN\": \"STYLE\"} as Hugging Face\nhas them, or one rule; * in a pattern is one "
	  "atom of a\ndotted name, ** any number of them.\nSTYLE: colwise, rowwise, ... (docs/placement.md) or a placement. It acts\non the axis 'tp', else on the only one; "
	  "AXIS:STYLE says another", set_plan },
	{ "--place", "'VALUE=PLACEMENT'", DECIDES, true,
	  "where a parameter, input, output or any value lives, as in\n'x=dp:S(0)'; AXIS:S(dim), AXIS:R", set_place },
	{ "--fp8", "RECIPE|'PATTERN=RECIPE'", DECIDES, true,
	  "tensorwise, rowwise, rowwise_with_gw_hp or none (the default), with\n:pow2 after it for scales that are powers of two; of all matmuls, or\n"
	  "of those whose module or weight matches; the last wins", set_fp8 },
	{ "--scale-scope", "AXIS=local|global", DECIDES, true, "over which ranks of an axis one scale reaches", set_scope },
	{ "--fp8-auto", NULL, DECIDES, false, "leave a matmul as it is where fp8 would be slower", set_fp8_auto },
	{ "--reduce-dtype", "f32", DECIDES, false, "keep partial sums wide until they are summed over ranks", set_reduce_dtype },
	{ "--exact", NULL, DECIDES, false, "a plan whose result does not depend on the mesh, bit for bit", set_exact },
	{ "--train", NULL, DECIDES, false, "add the gradients of all parameters (docs/training.md); a graph that\nhas them keeps its own, unless a loss is named", set_train },
	{ "--loss", "LOSS", DECIDES, false,
	  "with --train, what they are gradients of: cross_entropy:LABELS or\nmse:TARGET, means over the only output and an input of that name\n"
	  "(:OUTPUT after it names another), or OUTPUT, a scalar", set_loss },
	{ "--cotangent", "OUTPUT", DECIDES, true, "with --train: the gradient of this output is an input, grad.OUTPUT", set_cotangent },
	{ "--input-gradient", "INPUT", DECIDES, true, "with --train: the gradient of this input, too", set_input_gradient },
	{ "--optimizer", "NAME[:OPTION=X,...]", DECIDES, false,
	  "make a training step: adamw (beta1, beta2, eps, weight_decay) or sgd\n(momentum, weight_decay), with torch.optim's defaults; f32 masters and\n"
	  "states; the learning rate is the input 'lr'", set_optimizer },
	{ "--clip-norm", "X", DECIDES, false, "with --optimizer: gradients of a larger global norm are scaled down to it", set_clip_norm },
	{ "--keep-gradients", NULL, DECIDES, false, "with --optimizer: gradients are outputs, too", set_keep_gradients },
	{ "--recompute", "none|block|PATTERN[:COUNT]", DECIDES, false,
	  "with --train: compute these modules, or the first COUNT of them, again\nin the backward instead of keeping what is inside them; block: those\n"
	  "whose name ends with a number", set_recompute },
	{ "--grad-reduce", "bf16|f32", DECIDES, false,
	  "in what gradients of 16-bit parameters are summed over ranks; bf16, the\nparameters' own, without it", set_grad_reduce },
	{ "--memory", "BYTES", FOR_COMPILE, false,
	  "what a rank has for parameters, state and arena, as in 8GiB: as many\nblocks are computed again as it takes", set_memory },
	{ "--dim", "NAME=SIZE", DECIDES, true, "the size of a named dim of the model", set_dim },
	{ "--target", "cpu|h100|h200|b200", DECIDES, false, "the machine whose prices are used; h100 without it", set_target },
	{ "--target", "cpu|h100|h200|b200", FOR_ESTIMATE, false, "the machine; without it the one the plan was placed for, or h100", set_target },
	{ "--nodes", "N", FOR_ESTIMATE, false,
	  "nodes over which the ranks lie, as many on each, the last axis of the\nmesh closest together; without it as few as hold at most 8 ranks each", set_nodes },
	{ "--dump-ir", "[=PASS,...]", FOR_COMPILE, false, "print the graph after each pass, or after those named", set_dump },
	{ "--dump-dir", "DIR", FOR_COMPILE, false, "write the graph after each pass to DIR/NN-PASS.ir", set_dump_dir },
	{ "--print-changed", NULL, FOR_COMPILE, false, "print the graph after each pass that changed it", set_print_changed },
	{ "--timing", NULL, BOTH, false, "say on standard error what took how long", set_timing },
	{ "--report", "FILE", FOR_COMPILE, false,
	  "write the table of matmuls, notes and errors to FILE, as JSON where\nit ends in .json", set_report },
	{ "--diff", NULL, FOR_EXPLAIN, false, "compare the collectives of two plans", set_diff },
	{ "--json", NULL, FOR_SHOW | FOR_EXPLAIN | FOR_ESTIMATE, false, "one JSON object instead of text", set_json },
	{ "--markdown", NULL, FOR_PASSES, false, "as docs/passes.md", set_markdown },
	{ "--help", NULL, ALL, false, "this text", set_help },
};
const int cli_option_count = (int)(sizeof(cli_options) / sizeof(cli_options[0]));

/* --- parsing --- */

static const struct option *find(const struct cli *c, const char *arg, size_t size)
{
	for (int i = 0; i < cli_option_count; i++)
		if (strlen(cli_options[i].name) == size && memcmp(cli_options[i].name, arg, size) == 0 &&
		    cli_options[i].commands & c->command->bit)
			return &cli_options[i];
	return NULL;
}

static bool may_be_left_out(const struct option *o)
{
	return o->argument != NULL && o->argument[0] == '[';
}

struct arguments { int count, at; char **argv; bool *usage; };

/* The argument of an option: behind '=', or the next word. */
static enum fs_status take_argument(struct arguments *a, const struct option *o, const char *equals, const char **out,
				    struct diag *d)
{
	*out = NULL;
	if (equals != NULL && o->argument == NULL) {
		*a->usage = true;
		return diag_set(d, FS_INVALID, "%s takes no argument", o->name);
	}
	if (equals != NULL)
		*out = equals + 1;
	else if (o->argument != NULL && !may_be_left_out(o) && a->at + 1 < a->count)
		*out = a->argv[++a->at];
	else if (o->argument != NULL && !may_be_left_out(o)) {
		*a->usage = true;
		return diag_set(d, FS_INVALID, "%s needs an argument: %s", o->name, o->argument);
	}
	return FS_OK;
}

static enum fs_status parse_option(struct cli *c, struct arguments *a, struct diag *d)
{
	const char *arg = a->argv[a->at], *value, *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
	const struct option *o = find(c, arg, equals != NULL ? (size_t)(equals - arg) : strlen(arg));
	if (o == NULL) {
		*a->usage = true;
		return diag_set(d, FS_INVALID, "%s: unknown option '%.200s'", c->command->name, arg);
	}
	TRY(take_argument(a, o, equals, &value, d));
	if (o->commands & FOR_PLAN) {
		*vec_push(&c->given) = o->name;
		if (value != NULL)
			*vec_push(&c->given) = value;
	}
	return o->set(c, value, d);
}

static enum fs_status parse_file(struct cli *c, const char *arg, bool *usage, struct diag *d)
{
	*usage = c->second != NULL || c->command->files == 0 || (c->input != NULL && c->command->files == 1);
	if (*usage)
		return diag_set(d, FS_INVALID, "%s: '%.200s' is one argument too many", c->command->name, arg);
	*(c->input == NULL ? &c->input : &c->second) = arg;
	return FS_OK;
}

/* What has to be there. */
static enum fs_status check_missing(const struct cli *c, bool *usage, struct diag *d)
{
	const char *missing = NULL;
	if (c->command->files > 0 && c->input == NULL)
		missing = "a file";
	else if (c->diff && c->second == NULL)
		missing = "two plans after --diff";
	else if (c->command->bit == FOR_COMPILE && c->output == NULL)
		missing = "-o FILE";
	else if (c->command->bit == FOR_OPT && c->only == NULL)
		missing = "--passes=PASS,...";
	*usage = missing != NULL && !c->help;
	return *usage ? diag_set(d, FS_INVALID, "%s needs %s", c->command->name, missing) : FS_OK;
}

enum fs_status cli_parse(struct cli *c, int count, char **argv, bool *usage, struct diag *d)
{
	struct arguments a = { count, 0, argv, usage };
	bool options = true;
	*usage = false;
	for (; a.at < count; a.at++) {
		const char *arg = argv[a.at];
		if (options && strcmp(arg, "--") == 0)
			options = false;
		else if (options && arg[0] == '-' && arg[1] != '\0')
			TRY(parse_option(c, &a, d));
		else
			TRY(parse_file(c, arg, usage, d));
	}
	if (c->input != NULL && c->command->bit == FOR_COMPILE)
		*vec_push(&c->given) = c->input[0] == '-' ? arena_printf(&c->strings, "./%s", c->input) : c->input;
	return check_missing(c, usage, d);
}

void cli_release(struct cli *c)
{
	compile_release(&c->compile);
	vec_release(&c->plans);
	vec_release(&c->dims);
	vec_release(&c->given);
	vec_release(&c->notes.line);
	arena_release(&c->strings);
}
