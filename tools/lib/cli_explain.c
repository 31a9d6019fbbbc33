/* explain: why the collectives of a plan are there. */
#include "cli.h"
#include "explain.h"
#include "next_best.h"
#include "pattern.h"
#include "plan_file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* --- the compile that made the plan, once more, up to where placement is chosen --- */

struct again {
	struct cli cli;
	struct context *context;
	struct graph *graph;
	struct search search;
	struct diag why; /* why there is none */
};

static enum fs_status parse_command(struct again *r, const struct plan *p, struct diag *d)
{
	VEC(char *) args = { 0 };
	bool usage;
	for (int i = 0; i < cli_command_count; i++)
		if (cli_commands[i].bit == FOR_COMPILE)
			r->cli.command = &cli_commands[i];
	for (uint32_t i = 0; i < p->command.count; i++)
		*vec_push(&args) = (char *)(uintptr_t)p->command.items[i];
	*vec_push(&args) = (char *)(uintptr_t)"-o";
	*vec_push(&args) = (char *)(uintptr_t)"-";
	enum fs_status status = cli_parse(&r->cli, (int)args.count, args.items, &usage, d);
	vec_release(&args);
	return status;
}

static enum fs_status run_to_solve(struct again *r, struct diag *d)
{
	char names[512] = "";
	struct pipeline_options o = { .only = names, .out = stdout };
	struct import_options import = { .dims = r->cli.dims.items, .dim_count = (int)r->cli.dims.count };
	for (int i = 0; strcmp(passes[i].name, "solve") != 0; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i > 0 ? "," : "", passes[i].name);
	TRY(import_file(r->cli.input, &import, r->cli.has_mesh ? &r->cli.mesh : NULL, &r->context, &r->graph, d));
	return pipeline_run(&r->graph, &r->cli.compile, &o, d);
}

static bool same_collective(const struct graph *a, struct node_id x, const struct graph *b, struct node_id y)
{
	const struct type *s = graph_type(a, x), *t = graph_type(b, y);
	return graph_op(a, x) == graph_op(b, y) && s->dtype == t->dtype && s->rank == t->rank &&
	       memcmp(s->dim, t->dim, sizeof(s->dim[0]) * s->rank) == 0 && placement_equal(&s->place, &t->place) &&
	       graph_int(a, x, ATTR_AXES, 0) == graph_int(b, y, ATTR_AXES, 0);
}

/* Is what this compile makes the plan? */
static enum fs_status check_same(const struct again *r, const struct plan *p, const node_list *collectives, struct diag *d)
{
	bool same = collectives->count == r->search.collectives.count;
	for (uint32_t i = 0; same && i < collectives->count; i++)
		same = same_collective(p->graph, collectives->items[i], r->search.best, r->search.collectives.items[i]);
	return same ? FS_OK : diag_set(d, FS_INVALID, "%s, compiled now, gives other collectives: compile it again", r->cli.input);
}

static void compile_again(struct again *r, const struct plan *p, const node_list *collectives)
{
	struct diag *d = &r->why;
	if (p->command.count == 0)
		diag_set(d, FS_INVALID, "the plan does not say how it was compiled");
	else if (parse_command(r, p, d) == FS_OK && run_to_solve(r, d) == FS_OK &&
		 search_start(&r->search, r->graph, &r->cli.compile, d) == FS_OK)
		check_same(r, p, collectives, d);
}

static void again_release(struct again *r)
{
	search_release(&r->search);
	graph_destroy(r->graph);
	context_destroy(r->context);
	cli_release(&r->cli);
}

/* --- one collective --- */

struct teller {
	const struct plan *plan;
	const struct machine *machine;
	struct again again;
	node_list collectives;
	struct uses uses;
	struct arena arena;
	FILE *out;
	json_t *list; /* NULL: text is wanted */
	int64_t bytes;
	uint64_t time;
	int told;
};

static double microseconds(uint64_t picoseconds)
{
	return (double)picoseconds / 1e6;
}

static const char *at_module(struct teller *t, const char *module)
{
	return module != NULL && *module != '\0' ? arena_printf(&t->arena, " @ %s", module) : "";
}

static void say_pins(struct teller *t, const struct side *s)
{
	for (int i = 0; i < s->pins; i++)
		fprintf(t->out, "    pinned   %s %s: %s\n", s->pin[i].value, s->pin[i].placement, s->pin[i].rule);
	if (s->needs != NULL)
		fprintf(t->out, "    needs    %s\n", s->needs);
	else if (s->pins == 0)
		fprintf(t->out, "    pinned   by nothing: the solver's choice\n");
}

static const char *next_text(struct teller *t, const struct next_best *n)
{
	const struct plan_price *best = &t->again.search.price;
	const char *text;
	switch (n->kind) {
	case NEXT_FORCED:
		return arena_printf(&t->arena, "forced: no placement does without %s", n->without);
	case NEXT_ON_THE_WAY:
		return "none: a step on the way, for another axis that shards the same dim";
	case NEXT_NOT_PLACED:
		return "none: fp8 scaling asks for it, not placement";
	default:
		break;
	}
	text = arena_printf(&t->arena, "without %s: %+lld bytes, %+.2f us", n->without, (long long)(n->price.bytes - best->bytes),
			    microseconds(n->price.time) - microseconds(best->time));
	for (int i = 0; i < n->instead; i++)
		text = arena_printf(&t->arena, "%s%s%s", text, i > 0 ? ", " : "; instead ", n->move[i]);
	return n->more > 0 ? arena_printf(&t->arena, "%s and %d more", text, n->more) : text;
}

static void say_text(struct teller *t, struct node_id n, const struct explanation *e, const char *next)
{
	const struct graph *g = t->plan->graph;
	fprintf(t->out, "%%%u %s of %s%s%s%s: %s %s -> %s\n", n.i, op_text(graph_op(g, n)), moved_as_text(e->moved.as),
		e->moved.as != MOVED_VALUE ? " of " : "", e->name, at_module(t, e->module), e->type, e->from, e->to);
	if (e->moved.more > 0)
		fprintf(t->out, "  with       the amaxes of %u more\n", e->moved.more);
	fprintf(t->out, "  sends      %lld bytes, %.2f us, among %lld ranks, in %s\n", (long long)collective_bytes(g, n),
		microseconds(collective_price(t->machine, g, n)), (long long)collective_ranks(g, n),
		t->plan->storage[n.i].section == SECTION_SETUP ? "setup" : "each step");
	fprintf(t->out, "  made by    %s%s: %s\n", e->made.name, at_module(t, e->made.module), e->made.how);
	say_pins(t, &e->made);
	for (int i = 0; i < e->users; i++) {
		fprintf(t->out, "  taken by   %s%s: %s\n", e->user[i].name, at_module(t, e->user[i].module), e->user[i].how);
		say_pins(t, &e->user[i]);
	}
	if (e->more_users > 0)
		fprintf(t->out, "  taken by   %d more\n", e->more_users);
	fprintf(t->out, "  cause      %s %s: %s\n  next best  %s\n", e->cause.value, e->cause.placement, e->cause.rule, next);
}

/* --- JSON --- */

/* JSON has UTF-8 only; what a plan says is. */
static json_t *text_or_null(const char *s)
{
	return s != NULL ? json_string(s) : json_null();
}

static json_t *pin_json(const struct pin *p)
{
	return json_pack("{s:s,s:s,s:s}", "value", p->value, "placement", p->placement, "rule", p->rule);
}

static json_t *side_json(const struct side *s)
{
	json_t *pins = json_array();
	for (int i = 0; i < s->pins; i++)
		json_array_append_new(pins, pin_json(&s->pin[i]));
	return json_pack("{s:s,s:o,s:s,s:o,s:o}", "node", s->name, "module", text_or_null(s->module), "how", s->how, "needs",
			 text_or_null(s->needs), "pins", pins);
}

static json_t *next_json(const struct teller *t, const struct next_best *n)
{
	static const char *const kinds[] = { "found", "forced", "on the way", "not placed" };
	json_t *moves = json_array(), *o = json_pack("{s:s,s:o}", "kind", kinds[n->kind], "without", text_or_null(n->without));
	for (int i = 0; i < n->instead; i++)
		json_array_append_new(moves, json_string(n->move[i]));
	if (n->kind == NEXT_FOUND) {
		json_object_set_new(o, "more_bytes", json_integer(n->price.bytes - t->again.search.price.bytes));
		json_object_set_new(o, "more_us", json_real(microseconds(n->price.time) - microseconds(t->again.search.price.time)));
	}
	json_object_set_new(o, "instead", moves);
	return o;
}

static void say_json(struct teller *t, struct node_id n, const struct explanation *e, json_t *next)
{
	const struct graph *g = t->plan->graph;
	json_t *users = json_array();
	for (int i = 0; i < e->users; i++)
		json_array_append_new(users, side_json(&e->user[i]));
	json_t *o = json_pack("{s:i,s:s,s:s,s:o,s:s,s:s,s:s,s:s}", "id", (int)n.i, "op", op_text(graph_op(g, n)), "value", e->name,
			      "module", text_or_null(e->module), "moved", e->moved.as == MOVED_VALUE ? "value" : moved_as_text(e->moved.as),
			      "type", e->type, "from", e->from, "to", e->to);
	json_object_set_new(o, "bytes", json_integer(collective_bytes(g, n)));
	json_object_set_new(o, "us", json_real(microseconds(collective_price(t->machine, g, n))));
	json_object_set_new(o, "ranks", json_integer(collective_ranks(g, n)));
	json_object_set_new(o, "section", json_string(t->plan->storage[n.i].section == SECTION_SETUP ? "setup" : "step"));
	json_object_set_new(o, "made_by", side_json(&e->made));
	json_object_set_new(o, "taken_by", users);
	json_object_set_new(o, "cause", pin_json(&e->cause));
	json_object_set_new(o, "next_best", next);
	json_array_append_new(t->list, o);
}

/* --- all, or what is asked for --- */

static bool names(const char *about, const char *name)
{
	return name != NULL && pattern_match(about, name);
}

static bool is_about(const struct teller *t, struct node_id n, const struct explanation *e, const char *about)
{
	char id[16];
	snprintf(id, sizeof(id), "%%%u", n.i);
	if (about == NULL || strcmp(about, id) == 0 || strcmp(about, id + 1) == 0 || strcmp(about, op_text(graph_op(t->plan->graph, n))) == 0)
		return true;
	bool found = names(about, e->name) || names(about, e->module);
	for (int i = 0; i < e->users; i++)
		found |= names(about, e->user[i].name) || names(about, e->user[i].module);
	return found;
}

static enum fs_status tell(struct teller *t, uint32_t k, const char *about, struct diag *d)
{
	struct explanation e;
	struct next_best next = { 0 };
	struct node_id n = t->collectives.items[k];
	bool known = t->again.why.status == FS_OK;
	explain_collective(t->plan->graph, &t->uses, n, &t->arena, &e);
	if (!is_about(t, n, &e, about))
		return FS_OK;
	if (known)
		TRY(search_next(&t->again.search, k, &t->arena, &next, d));
	const char *why = arena_printf(&t->arena, "not known here: %s", t->again.why.text);
	if (t->list == NULL)
		say_text(t, n, &e, known ? next_text(t, &next) : why);
	else
		say_json(t, n, &e, known ? next_json(t, &next) : json_pack("{s:s,s:s}", "kind", "not known", "why", t->again.why.text));
	t->bytes += collective_bytes(t->plan->graph, n);
	t->time += collective_price(t->machine, t->plan->graph, n);
	t->told++;
	return FS_OK;
}

/* Nothing was told: the value is not moved, or there is none. */
static enum fs_status tell_unmoved(struct teller *t, const char *about, struct diag *d)
{
	const struct graph *g = t->plan->graph;
	struct name_list list = { 0 };
	char nearest[512];
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		const char *name = value_name(g, n, &t->arena), *module = graph_prov(g, n)->module;
		if ((names(about, name) || names(about, module)) && t->list == NULL)
			fprintf(t->out, "%s%s is made as %s; no collective moves it\n", name, at_module(t, module),
				placement_on(g, &graph_type(g, n)->place, ~0u, &t->arena));
		if (names(about, name) || names(about, module))
			goto found;
		*vec_push(&list.names) = name;
		if (module != NULL)
			*vec_push(&list.names) = module;
	}
	names_nearest(&list, about, nearest, sizeof(nearest));
	diag_set(d, FS_INVALID, "explain: '%.200s' is no value, module or collective of the plan; nearest: %s", about,
		 nearest[0] ? nearest : "there are none");
found:
	vec_release(&list.names);
	return d->status;
}

static enum fs_status tell_all(struct teller *t, const char *about, struct diag *d)
{
	for (uint32_t k = 0; k < t->collectives.count; k++)
		TRY(tell(t, k, about, d));
	if (t->told == 0 && about != NULL)
		TRY(tell_unmoved(t, about, d));
	if (t->list != NULL) {
		json_t *all = json_pack("{s:O,s:I,s:f}", "collectives", t->list, "bytes", (json_int_t)t->bytes, "us", microseconds(t->time));
		json_dumpf(all, t->out, JSON_INDENT(1));
		fputc('\n', t->out);
		json_decref(all);
	} else if (about == NULL) {
		fprintf(t->out, "%d collective%s: %lld bytes, %.2f us\n", t->told, t->told == 1 ? "" : "s", (long long)t->bytes,
			microseconds(t->time));
	}
	return FS_OK;
}

enum fs_status explain_plan(const char *path, const char *about, bool json, FILE *out, struct diag *d)
{
	struct plan *plan;
	struct teller t = { .out = out };
	TRY(plan_open(path, &plan, d));
	t.plan = plan;
	t.list = json ? json_array() : NULL;
	enum fs_status status = machine_find(plan->target, &t.machine, d);
	if (status == FS_OK) {
		t.uses = uses_make(plan->graph);
		graph_collectives(plan->graph, &t.collectives);
		compile_again(&t.again, plan, &t.collectives);
		status = tell_all(&t, about, d);
		uses_release(&t.uses);
		vec_release(&t.collectives);
		again_release(&t.again);
	}
	json_decref(t.list);
	arena_release(&t.arena);
	plan_destroy(plan);
	return status;
}
