/* --memory: how many blocks have to be computed again for a plan to fit. */
#include "cli.h"
#include "lower.h"
#include "recompute.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum fs_status parse_bytes(const char *text, int64_t *out, struct diag *d)
{
	static const struct { const char *name; double bytes; } units[] = {
		{ "", 1 }, { "B", 1 }, { "kB", 1e3 }, { "MB", 1e6 }, { "GB", 1e9 }, { "TB", 1e12 },
		{ "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 }, { "TiB", 0x1p40 },
	};
	char *end;
	double number = strtod(text, &end);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]) && end != text && number > 0; i++)
		if (strcmp(end, units[i].name) == 0 && number * units[i].bytes < 0x1p62) {
			*out = (int64_t)(number * units[i].bytes);
			return FS_OK;
		}
	return diag_set(d, FS_INVALID, "'%.200s' is no number of bytes, as in 8GiB or 500MB", text);
}

/* A compile of which only the memory is wanted: blocks < 0 none recomputed, 0 all, else so many. */
struct trial { int blocks, found; int64_t memory; };

static enum fs_status trial_graph(struct compile *c, struct context *context, struct graph *g, struct trial *t, struct diag *d)
{
	const struct pipeline_options o = { .out = stdout };
	struct lower_options lower = { .exact = c->exact };
	struct plan *plan;
	if (pipeline_run(&g, c, &o, d) != FS_OK) {
		graph_destroy(g);
		context_destroy(context);
		return d->status;
	}
	TRY(lower_plan(g, &lower, &plan, d));
	t->memory = plan->param_bytes + plan->state_bytes + plan->arena_bytes;
	plan_destroy(plan);
	return FS_OK;
}

static enum fs_status try_blocks(const struct cli *c, const char *pattern, struct trial *t, struct diag *d)
{
	struct context *context;
	struct graph *g;
	struct import_notes notes = { 0 };
	struct import_options o = { .dims = c->dims.items, .dim_count = (int)c->dims.count, .notes = &notes };
	struct compile again = compile_trial(&c->compile);
	again.train.recompute = t->blocks < 0 ? NULL : pattern;
	again.train.blocks = t->blocks < 0 ? 0 : t->blocks;
	TRY(import_file(c->input, &o, c->has_mesh ? &c->mesh : NULL, &context, &g, d));
	enum fs_status status = trial_graph(&again, context, g, t, d);
	t->found = again.train.blocks_found;
	compile_trial_release(&again);
	vec_release(&notes.line);
	return status;
}

static enum fs_status refuse(const struct cli *c, const struct trial *t, struct diag *d)
{
	char how[100] = "";
	if (t->found > 0)
		snprintf(how, sizeof(how), " with all %d blocks computed again", t->found);
	return diag_set(d, FS_INVALID, "--memory: a rank needs %lld bytes%s; %lld are given", (long long)t->memory, how, (long long)c->memory);
}

/* The least number of blocks that fits, between one that does not and one that does. */
static enum fs_status search(struct cli *c, const char *pattern, int too_few, struct trial *fits, struct diag *d)
{
	while (fits->blocks - too_few > 1) {
		struct trial t = { .blocks = too_few + (fits->blocks - too_few) / 2 };
		TRY(try_blocks(c, pattern, &t, d));
		if (t.memory <= c->memory)
			*fits = t;
		else
			too_few = t.blocks;
	}
	return FS_OK;
}

enum fs_status fit_memory(struct cli *c, struct diag *d)
{
	struct training *train = &c->compile.train;
	const char *pattern = train->recompute != NULL ? train->recompute : RECOMPUTE_BLOCKS;
	struct trial none = { .blocks = -1 }, all = { .blocks = 0 };
	if (c->memory == 0)
		return FS_OK;
	if (train->recompute == NULL || !train->on)
		TRY(try_blocks(c, pattern, &none, d));
	if (none.memory != 0 && none.memory <= c->memory)
		return FS_OK;
	if (!train->on)
		return refuse(c, &none, d);
	TRY(try_blocks(c, pattern, &all, d));
	if (all.memory > c->memory)
		return refuse(c, &all, d);
	all.blocks = all.found;
	if (train->recompute == NULL)
		TRY(search(c, pattern, 0, &all, d));
	train->recompute = pattern;
	train->blocks = all.blocks;
	*vec_push(&c->given) = "--recompute";
	*vec_push(&c->given) = arena_printf(&c->strings, "%s:%d", pattern, all.blocks);
	*vec_push(&c->compile.notes) = arena_printf(&c->strings, "--memory: %d of %d blocks are computed again", all.blocks, all.found);
	return FS_OK;
}
