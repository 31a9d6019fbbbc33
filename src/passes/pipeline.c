/* The pass manager: order, stages, verification, dumps, times. */
#include "passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const struct pass passes[] = {
#define PASS(name, from, to, numerics, summary) \
	{ #name, summary, STAGE_##from, STAGE_##to, NUM_##numerics, pass_##name },
#include "passes.def"
#undef PASS
};
const int pass_count = (int)(sizeof(passes) / sizeof(passes[0]));

const struct pass *pass_find(const char *name)
{
	for (int i = 0; i < pass_count; i++)
		if (strcmp(passes[i].name, name) == 0)
			return &passes[i];
	return NULL;
}

void compile_release(struct compile *c)
{
	vec_release(&c->train.cotangents);
	vec_release(&c->train.input_gradients);
	vec_release(&c->styles);
	vec_release(&c->places);
	vec_release(&c->recipes);
	vec_release(&c->scopes);
	vec_release(&c->notes);
	vec_release(&c->matmuls);
}

struct compile compile_trial(const struct compile *c)
{
	struct compile trial = *c;
	memset(&trial.notes, 0, sizeof(trial.notes));
	memset(&trial.matmuls, 0, sizeof(trial.matmuls));
	return trial;
}

void compile_trial_release(struct compile *trial)
{
	vec_release(&trial->notes);
	vec_release(&trial->matmuls);
}

/* Is `name` one of the comma-separated `list`? */
static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);
	for (const char *s = list; s != NULL && *s != '\0'; s = strchr(s, ',') ? strchr(s, ',') + 1 : NULL)
		if (strncmp(s, name, n) == 0 && (s[n] == ',' || s[n] == '\0'))
			return true;
	return false;
}

/* Every name of a list must be a pass (or "all"). */
static enum fs_status check_list(const char *list, const char *option, struct diag *d)
{
	for (const char *s = list, *end; s != NULL; s = *end == ',' ? end + 1 : NULL) {
		size_t n = strcspn(s, ",");
		char name[64];
		end = s + n;
		snprintf(name, sizeof(name), "%.*s", (int)(n < 63 ? n : 63), s);
		if (strcmp(name, "all") != 0 && pass_find(name) == NULL)
			return diag_set(d, FS_INVALID, "%s: there is no pass '%s'; 'fp8shard passes' lists them", option, name);
	}
	return FS_OK;
}

static char *graph_string_of(const struct graph *g)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	if (f == NULL)
		BUG("out of memory");
	graph_print(g, f);
	fclose(f);
	return text;
}

static enum fs_status dump_file(const struct graph *g, const struct pipeline_options *o, int number, const char *name,
				struct diag *d)
{
	char path[4096];
	int size = snprintf(path, sizeof(path), "%s/%02d-%s.ir", o->dump_dir, number, name);
	FILE *f = (size_t)size < sizeof(path) ? fopen(path, "w") : (errno = ENAMETOOLONG, NULL);
	if (f == NULL)
		return diag_set(d, FS_IO, "--dump-dir: %s: %s", path, strerror(errno));
	graph_print(g, f);
	bool written = fflush(f) == 0 && !ferror(f);
	if (fclose(f) == 0 && written)
		return FS_OK;
	diag_set(d, FS_IO, "--dump-dir: %s: %s", path, strerror(errno));
	unlink(path);
	return d->status;
}

/* Prints what --dump-ir, --print-changed and --dump-dir ask for; `before` is freed. */
static enum fs_status dump(const struct graph *g, const struct pipeline_options *o, int number, const char *name,
			   char *before, struct diag *d)
{
	bool wanted = o->dump != NULL && (listed(o->dump, "all") || listed(o->dump, name));
	if (o->print_changed) {
		char *after = graph_string_of(g);
		wanted = before == NULL || strcmp(before, after) != 0;
		free(after);
	}
	free(before);
	if (wanted) {
		fprintf(o->out, "# after %s\n", name);
		graph_print(g, o->out);
	}
	return o->dump_dir != NULL ? dump_file(g, o, number, name, d) : FS_OK;
}

static double seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum fs_status run_one(const struct pass *p, struct graph **g, struct compile *c,
			      const struct pipeline_options *o, struct diag *d)
{
	if ((*g)->stage != p->from)
		return diag_set(d, FS_INVALID, "pass %s takes a graph of stage %s, this one is of stage %s", p->name,
				stage_text(p->from), stage_text((*g)->stage));
	double start = seconds();
	TRY(p->run(g, c, d));
	double done = seconds();
	if (graph_verify(*g, d) != FS_OK)
		return diag_prefix(d, "after pass %s", p->name);
	if (o->timing != NULL)
		fprintf(o->timing, "%-16s %8.2f ms  verify %6.2f ms  %u nodes\n", p->name, 1e3 * (done - start),
			1e3 * (seconds() - done), (*g)->nodes.count - 1);
	return FS_OK;
}

enum fs_status pipeline_run(struct graph **g, struct compile *c, const struct pipeline_options *o, struct diag *d)
{
	TRY(check_list(o->only, "--passes", d));
	TRY(check_list(o->dump, "--dump-ir", d));
	TRY(graph_verify(*g, d));
	TRY(dump(*g, o, 0, "import", NULL, d));
	for (int i = 0; i < pass_count; i++) {
		if (o->only != NULL && !listed(o->only, passes[i].name))
			continue;
		char *before = o->print_changed ? graph_string_of(*g) : NULL;
		if (run_one(&passes[i], g, c, o, d) != FS_OK) {
			free(before);
			return d->status;
		}
		TRY(dump(*g, o, i + 1, passes[i].name, before, d));
	}
	return FS_OK;
}
