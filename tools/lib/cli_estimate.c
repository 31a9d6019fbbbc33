/* estimate: what a run of a plan takes, as tables or JSON. */
#include "cli.h"
#include "estimate.h"
#include "machine.h"
#include "plan_file.h"
#include "table.h"

#include <jansson.h>
#include <string.h>

static double us(double seconds)
{
	return seconds * 1e6;
}

/* The memory of a rank, by kind; the arena of setup is used again by the steps. */
struct kind { const char *text, *key; int64_t bytes; };
#define KINDS 6
static void memory_kinds(const struct estimate *e, struct kind out[KINDS])
{
	int64_t more = e->setup.arena > e->step.arena ? e->setup.arena - e->step.arena : 0;
	const struct kind kinds[KINDS] = {
		{ "parameters", "params", e->params }, { "made in setup", "state", e->state },
		{ "inputs, constants", "inputs", e->given }, { "activations", "activations", e->step.arena },
		{ "setup alone", "setup_only", more }, { "workspace", "workspace", e->workspace },
	};
	memcpy(out, kinds, sizeof(kinds));
}

/* --- text --- */

static void add_row(struct table *t, const char *what, const char *axes, const struct group *g, const struct amount *a,
		    double seconds)
{
	table_cell(t, what);
	table_cell(t, axes);
	if (g != NULL) {
		table_number(t, g->ranks);
		table_number(t, g->nodes);
	} else {
		table_cell(t, "");
		table_cell(t, "");
	}
	table_number(t, a->count);
	table_real(t, a->flops / 1e9, 3);
	table_real(t, a->bytes / 1e6, 3);
	table_real(t, us(a->seconds), 2);
	table_real(t, seconds > 0 ? 100 * a->seconds / seconds : 0, 1);
}

static void say_rows(const struct plan *p, const struct estimate_section *s, FILE *out)
{
	static const char *const titles[] = { "what", "axes", ">ranks", ">nodes", ">count", ">GFLOP", ">MB", ">us", ">%", NULL };
	struct table t;
	char axes[256];
	double seconds = s->compute + s->collective;
	struct amount launches = { .seconds = s->launches };
	table_start(&t, titles);
	for (int w = 0; w < WORK_COUNT; w++) {
		launches.count += s->work[w].count;
		if (s->work[w].count > 0)
			add_row(&t, work_text((enum work)w), "", NULL, &s->work[w], seconds);
	}
	if (s->launches > 0)
		add_row(&t, "launches", "", NULL, &launches, seconds);
	for (uint32_t i = 0; i < s->moves.count; i++) {
		const struct moved *m = &s->moves.items[i];
		mesh_axes_text(context_mesh(p->context), m->axes, axes, sizeof(axes));
		add_row(&t, op_text(m->op), axes, &m->group, &m->amount, seconds);
	}
	table_end(&t, out);
}

static void say_step(const struct plan *p, const struct estimate_section *s, FILE *out)
{
	double seconds = s->compute + s->collective;
	fprintf(out, "\na step: %.2f us", us(seconds));
	if (s->at_peak > 0)
		fprintf(out, ", products at %.1f %% of their peak", 100 * s->at_peak / seconds);
	fputc('\n', out);
	if (seconds > 0)
		say_rows(p, s, out);
	if (s->moves.count == 0)
		return;
	fprintf(out, "collectives: %.2f us, all exposed, since each blocks; beside the compute, in this order, %.2f us would be\n",
		us(s->collective), us(s->beside - s->compute));
}

static void say_setup(const struct plan *p, const struct estimate_section *s, FILE *out)
{
	double seconds = s->compute + s->collective;
	if (seconds == 0)
		return;
	fprintf(out, "\nsetup, once: %.2f us\n", us(seconds));
	say_rows(p, s, out);
}

static void say_memory(const struct estimate *e, FILE *out)
{
	struct kind kinds[KINDS];
	double total = (double)estimate_memory(e), room = e->rates->memory_bytes;
	memory_kinds(e, kinds);
	fprintf(out, "\nmemory of a rank\n");
	for (int i = 0; i < KINDS; i++)
		if (kinds[i].bytes > 0)
			fprintf(out, "  %-17s %12.3f MB\n", kinds[i].text, (double)kinds[i].bytes / 1e6);
	fprintf(out, "  %-17s %12.3f MB", "total", total / 1e6);
	if (room > 0)
		fprintf(out, " of %.0f MB: %s", room / 1e6, total > room ? "does not fit" : "fits");
	fputc('\n', out);
}

static void say_text(const struct plan *p, const struct estimate *e, FILE *out)
{
	const struct mesh *m = context_mesh(p->context);
	int64_t ranks = mesh_size(m), nodes = e->layout.nodes, here = e->layout.node_ranks;
	fputs("mesh", out);
	for (int i = 0; i < m->count; i++)
		fprintf(out, "%s %s=%d", i ? "," : "", m->axis[i].name, m->axis[i].size);
	fprintf(out, "%s%lld rank%s on %s, %lld node%s of %lld\n", m->count ? ": " : " of ", (long long)ranks, ranks == 1 ? "" : "s",
		e->rates->name, (long long)nodes, nodes == 1 ? "" : "s", (long long)here);
	say_step(p, &e->step, out);
	say_setup(p, &e->setup, out);
	say_memory(e, out);
}

/* --- JSON --- */

static json_t *row_json(const char *what, const struct amount *a)
{
	return json_pack("{s:s,s:I,s:f,s:f,s:f}", "what", what, "count", (json_int_t)a->count, "flops", a->flops, "bytes", a->bytes,
			 "us", us(a->seconds));
}

static json_t *axes_json(const struct mesh *m, uint32_t axes)
{
	json_t *list = json_array();
	for (int i = 0; i < m->count; i++)
		if (axes >> i & 1)
			json_array_append_new(list, json_string(m->axis[i].name));
	return list;
}

static json_t *section_json(const struct plan *p, const struct estimate_section *s)
{
	json_t *work = json_array(), *moves = json_array();
	for (int w = 0; w < WORK_COUNT; w++)
		if (s->work[w].count > 0)
			json_array_append_new(work, row_json(work_text((enum work)w), &s->work[w]));
	for (uint32_t i = 0; i < s->moves.count; i++) {
		const struct moved *m = &s->moves.items[i];
		json_t *row = row_json(op_text(m->op), &m->amount);
		json_object_del(row, "flops");
		json_object_set_new(row, "axis", axes_json(context_mesh(p->context), m->axes));
		json_object_set_new(row, "ranks", json_integer(m->group.ranks));
		json_object_set_new(row, "nodes", json_integer(m->group.nodes));
		json_array_append_new(moves, row);
	}
	double seconds = s->compute + s->collective;
	return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o}", "us", us(seconds), "compute_us", us(s->compute), "launch_us",
			 us(s->launches), "collective_us", us(s->collective), "exposed_us", us(s->collective), "exposed_beside_us",
			 us(s->beside - s->compute), "peak_share", seconds > 0 ? s->at_peak / seconds : 0, "compute", work, "collectives",
			 moves);
}

static void say_json(const struct plan *p, const struct estimate *e, FILE *out)
{
	const struct mesh *m = context_mesh(p->context);
	struct kind kinds[KINDS];
	json_t *mesh = json_object(), *memory = json_object();
	for (int i = 0; i < m->count; i++)
		json_object_set_new(mesh, m->axis[i].name, json_integer(m->axis[i].size));
	memory_kinds(e, kinds);
	for (int i = 0; i < KINDS; i++)
		json_object_set_new(memory, kinds[i].key, json_integer(kinds[i].bytes));
	json_object_set_new(memory, "total", json_integer(estimate_memory(e)));
	json_object_set_new(memory, "room", e->rates->memory_bytes > 0 ? json_integer((json_int_t)e->rates->memory_bytes) : json_null());
	json_t *all = json_pack("{s:s,s:o,s:I,s:I,s:I,s:o,s:o,s:o}", "target", e->rates->name, "mesh", mesh, "ranks",
				(json_int_t)mesh_size(m), "nodes", (json_int_t)e->layout.nodes, "node_ranks",
				(json_int_t)e->layout.node_ranks, "step", section_json(p, &e->step), "setup", section_json(p, &e->setup),
				"memory", memory);
	json_dumpf(all, out, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
	fputc('\n', out);
	json_decref(all);
}

/* --- the command --- */

enum fs_status estimate_file(const char *path, const char *target, int64_t nodes, bool json, FILE *out, struct diag *d)
{
	struct plan *p;
	struct estimate e;
	struct node_layout layout;
	const struct machine *machine;
	TRY(plan_open(path, &p, d));
	enum fs_status status = machine_find(target != NULL ? target : p->target, &machine, d);
	if (status == FS_OK)
		status = layout_nodes(context_mesh(p->context), rates_of(machine->name), nodes, &layout, d);
	if (status == FS_OK) {
		estimate_plan(p, rates_of(machine->name), &layout, &e);
		(json ? say_json : say_text)(p, &e, out);
		estimate_release(&e);
	}
	plan_destroy(p);
	return status;
}
