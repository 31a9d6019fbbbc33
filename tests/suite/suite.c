/*
 * The suite of placements: compiles graphs in which only parameters, inputs and outputs are placed, and
 * holds what a rank sends (setup and one step) to the best that is known.
 *
 *     suite TABLE     rows "CASE RECIPE BYTES": CASE.json beside the table
 *
 * Prints a row a case and ends with "N passed, N failed"; exit status 1 where a plan sends more.
 */
#include "import.h"
#include "lower.h"

#include <stdlib.h>
#include <string.h>

/* Equal collectives of a plan: "2xAG8:e4m3". */
struct group {
	enum op op;
	int64_t ranks;
	enum dtype dtype;
	int count;
};

struct tally {
	int64_t bytes;
	int groups;
	struct group group[32];
};

static const char *short_name(enum op op)
{
	switch (op) {
	case OP_ALL_GATHER: return "AG";
	case OP_REDUCE_SCATTER: return "RS";
	case OP_ALL_REDUCE: return "AR";
	default: return "A2A";
	}
}

static void tally_add(struct tally *t, const struct graph *g, struct node_id n)
{
	struct group made = { graph_op(g, n), collective_ranks(g, n), (enum dtype)graph_type(g, n)->dtype, 1 };
	t->bytes += collective_bytes(g, n);
	for (int i = 0; i < t->groups; i++) {
		struct group *have = &t->group[i];
		if (have->op == made.op && have->ranks == made.ranks && have->dtype == made.dtype) {
			have->count++;
			return;
		}
	}
	if (t->groups < 32)
		t->group[t->groups++] = made;
}

static void tally_text(const struct tally *t, char *out, size_t size)
{
	size_t used = 0;
	out[0] = '\0';
	for (int i = 0; i < t->groups && used < size; i++) {
		const struct group *at = &t->group[i];
		used += (size_t)snprintf(out + used, size - used, "%s%dx%s%lld:%s", i > 0 ? " " : "", at->count,
					 short_name(at->op), (long long)at->ranks, dtype_text(at->dtype));
	}
}

/* The last row of a step at work, to be freed whatever happens. */
struct compiled {
	struct compile options;
	struct context *context;
	struct graph *graph;
	struct plan *plan;
};

static enum fs_status compile(struct compiled *c, const char *path, const char *recipe, struct diag *d)
{
	struct import_options import = { 0 };
	struct pipeline_options pipeline = { .out = stdout };
	struct lower_options lower = { .recipe = recipe };
	*vec_push(&c->options.recipes) = (struct request){ NULL, recipe, "the table" };
	TRY(import_file(path, &import, NULL, &c->context, &c->graph, d));
	TRY(pipeline_run(&c->graph, &c->options, &pipeline, d));
	struct graph *given = c->graph;
	c->graph = NULL;
	c->context = NULL;
	return lower_plan(given, &lower, &c->plan, d);
}

static void compiled_release(struct compiled *c)
{
	graph_destroy(c->graph);
	context_destroy(c->context);
	plan_destroy(c->plan);
	compile_release(&c->options);
}

static bool run_case(const char *folder, const char *name, const char *recipe, int64_t best)
{
	char path[1024], collectives[512];
	struct compiled c = { 0 };
	struct diag d = { 0 };
	struct tally t = { 0 };
	snprintf(path, sizeof(path), "%s/%s.json", folder, name);
	bool good = compile(&c, path, recipe, &d) == FS_OK;
	if (!good)
		printf("FAILED %s %s: %s\n", name, recipe, d.text);
	for (uint32_t i = 1; good && i < c.plan->graph->nodes.count; i++)
		if (op_is_collective(graph_op(c.plan->graph, (struct node_id){ i })))
			tally_add(&t, c.plan->graph, (struct node_id){ i });
	compiled_release(&c);
	if (!good)
		return false;
	tally_text(&t, collectives, sizeof(collectives));
	printf("%s%-18s %-10s %12lld %12lld  %s\n", t.bytes > best ? "FAILED " : "", name, recipe, (long long)t.bytes,
	       (long long)best, collectives);
	return t.bytes <= best;
}

static int run_table(FILE *f, const char *folder)
{
	char line[512], name[128], recipe[64];
	long long best;
	int passed = 0, failed = 0;
	printf("%-18s %-10s %12s %12s  %s\n", "case", "fp8", "bytes", "best known", "collectives");
	while (fgets(line, sizeof(line), f) != NULL) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		bool good = sscanf(line, "%127s %63s %lld", name, recipe, &best) == 3 && run_case(folder, name, recipe, best);
		passed += good;
		failed += !good;
	}
	printf("%d passed, %d failed\n", passed, failed);
	return failed > 0;
}

int main(int argc, char **argv)
{
	char folder[512];
	FILE *f = argc == 2 ? fopen(argv[1], "r") : NULL;
	if (f == NULL) {
		fprintf(stderr, "usage: suite TABLE\n");
		return 2;
	}
	const char *slash = strrchr(argv[1], '/');
	snprintf(folder, sizeof(folder), "%.*s", slash != NULL ? (int)(slash - argv[1]) : 1, slash != NULL ? argv[1] : ".");
	int status = run_table(f, folder);
	fclose(f);
	return status;
}
