/* explain --diff: the collectives of two plans, side by side. */
#include "cli.h"
#include "explain.h"
#include "next_best.h"
#include "plan_file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* A collective: whose it is, what it does there. */
struct entry {
	const char *value, *move;
	int64_t bytes;
	double us;
	bool taken; /* told of already, or the other plan has the same */
};

struct half {
	const char *path;
	struct plan *plan;
	VEC(struct entry) list;
	int64_t bytes;
	double us;
};

struct diff {
	struct half half[2];
	struct arena arena;
	FILE *out;
	json_t *rows; /* NULL: text */
	uint32_t rows_told;
};

static void add_entry(struct diff *x, struct half *h, const struct machine *m, struct node_id n)
{
	const struct graph *g = h->plan->graph;
	struct moved moved;
	char type[512];
	explain_moved(g, n, &moved);
	const char *module = graph_prov(g, moved.value)->module, *as = moved_as_text(moved.as);
	type_text(graph_type(g, n), NULL, type, sizeof(type));
	*vec_push(&h->list) = (struct entry){
		.value = arena_printf(&x->arena, "%s%s%s%s%s", as, *as ? " of " : "", value_name(g, moved.value, &x->arena),
				      module != NULL && *module ? " @ " : "", module != NULL ? module : ""),
		.move = arena_printf(&x->arena, "%s %s %s -> %s", op_text(graph_op(g, n)), type,
				     placement_on(g, &moved.from, moved.axes, &x->arena), placement_on(g, &moved.to, moved.axes, &x->arena)),
		.bytes = collective_bytes(g, n),
		.us = (double)collective_price(m, g, n) / 1e6,
	};
}

static enum fs_status read_half(struct diff *x, struct half *h, struct diag *d)
{
	const struct machine *m;
	TRY(plan_open(h->path, &h->plan, d));
	TRY(machine_find(h->plan->target, &m, d));
	node_list collectives = { 0 };
	graph_collectives(h->plan->graph, &collectives);
	for (uint32_t i = 0; i < collectives.count; i++)
		add_entry(x, h, m, collectives.items[i]);
	vec_release(&collectives);
	for (uint32_t i = 0; i < h->list.count; i++) {
		h->bytes += h->list.items[i].bytes;
		h->us += h->list.items[i].us;
	}
	return FS_OK;
}

/* The first entry of a value that is not taken; move NULL: whatever it does. */
static struct entry *find_entry(struct half *h, const char *value, const char *move)
{
	for (uint32_t i = 0; i < h->list.count; i++) {
		struct entry *e = &h->list.items[i];
		if (!e->taken && strcmp(e->value, value) == 0 && (move == NULL || strcmp(e->move, move) == 0))
			return e;
	}
	return NULL;
}

static void take_equal(struct diff *x)
{
	for (uint32_t i = 0; i < x->half[0].list.count; i++) {
		struct entry *a = &x->half[0].list.items[i], *b = find_entry(&x->half[1], a->value, a->move);
		if (b != NULL && b->bytes == a->bytes)
			a->taken = b->taken = true;
	}
}

static json_t *entry_json(const struct entry *e)
{
	return e == NULL ? json_null() : json_pack("{s:s,s:I,s:f}", "move", e->move, "bytes", (json_int_t)e->bytes, "us", e->us);
}

static void say_entry(struct diff *x, char sign, const struct entry *e)
{
	if (e != NULL)
		fprintf(x->out, "%c %s: %s, %lld bytes, %.2f us\n", sign, e->value, e->move, (long long)e->bytes, e->us);
}

/* a, b: NULL where that plan has none; both: the same value moved otherwise. */
static void tell(struct diff *x, const char *title, struct entry *a, struct entry *b)
{
	x->rows_told++;
	if (x->rows != NULL) {
		json_array_append_new(x->rows, json_pack("{s:s,s:s,s:o,s:o}", "value", a != NULL ? a->value : b->value, "kind", title,
							 "a", entry_json(a), "b", entry_json(b)));
	} else {
		say_entry(x, '-', a);
		say_entry(x, '+', b);
	}
	if (a != NULL)
		a->taken = true;
	if (b != NULL)
		b->taken = true;
}

static void tell_differences(struct diff *x)
{
	take_equal(x);
	for (uint32_t i = 0; i < x->half[0].list.count; i++) {
		struct entry *a = &x->half[0].list.items[i], *b = a->taken ? NULL : find_entry(&x->half[1], a->value, NULL);
		if (!a->taken)
			tell(x, b != NULL ? "differ" : "only in a", a, b);
	}
	for (uint32_t i = 0; i < x->half[1].list.count; i++)
		if (!x->half[1].list.items[i].taken)
			tell(x, "only in b", NULL, &x->half[1].list.items[i]);
}

static json_t *half_json(const struct half *h)
{
	return json_pack("{s:s,s:I,s:I,s:f}", "plan", h->path, "collectives", (json_int_t)h->list.count, "bytes", (json_int_t)h->bytes,
			 "us", h->us);
}

static void tell_totals(struct diff *x)
{
	const struct half *a = &x->half[0], *b = &x->half[1];
	if (x->rows != NULL) {
		json_t *all = json_pack("{s:o,s:o,s:b,s:O}", "a", half_json(a), "b", half_json(b), "same", x->rows_told == 0, "differences",
					x->rows);
		json_dumpf(all, x->out, JSON_INDENT(1));
		fputc('\n', x->out);
		json_decref(all);
		return;
	}
	if (x->rows_told == 0)
		fprintf(x->out, "the same collectives\n");
	for (int i = 0; i < 2; i++)
		fprintf(x->out, "%s: %u collective%s, %lld bytes, %.2f us\n", x->half[i].path, x->half[i].list.count,
			x->half[i].list.count == 1 ? "" : "s", (long long)x->half[i].bytes, x->half[i].us);
}

enum fs_status explain_diff(const char *a, const char *b, bool json, FILE *out, struct diag *d)
{
	struct diff x = { .half = { { .path = a }, { .path = b } }, .out = out };
	enum fs_status status = read_half(&x, &x.half[0], d);
	if (status == FS_OK)
		status = read_half(&x, &x.half[1], d);
	x.rows = json ? json_array() : NULL;
	if (status == FS_OK) {
		if (!json)
			fprintf(out, "- %s\n+ %s\n", a, b);
		tell_differences(&x);
		tell_totals(&x);
	}
	json_decref(x.rows);
	for (int i = 0; i < 2; i++) {
		plan_destroy(x.half[i].plan);
		vec_release(&x.half[i].list);
	}
	arena_release(&x.arena);
	return status;
}
