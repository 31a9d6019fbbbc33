/*
 * Paths between placements: bytes and prices by hand, and on small meshes of 1 to 3 axes against all sequences of
 * moves.  What partition makes of a path is verified node by node.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "passes.h"
#include "plan.h"
#include "reshard.h"
#include "suite.h"

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

/* --- by hand --- */

START_TEST(bytes)
{
	static const struct { int64_t shape[2]; int item; label from, to; int32_t ranks; int64_t bytes; } cases[] = {
		{ { 64, 32 }, 2, LABEL_S(0), LABEL_R, 4, 3 * 16 * 32 * 2 },
		{ { 64, 32 }, 2, LABEL_SUM, LABEL_S(1), 4, 3 * 64 * 8 * 2 },
		{ { 64, 32 }, 2, LABEL_SUM, LABEL_R, 4, 2 * 3 * 64 * 32 / 4 * 2 },
		{ { 64, 32 }, 2, LABEL_MAX, LABEL_R, 4, 2 * 3 * 64 * 32 / 4 * 2 },
		{ { 64, 32 }, 2, LABEL_S(0), LABEL_S(1), 4, 3 * 16 * 8 * 2 },
		{ { 64, 32 }, 2, LABEL_R, LABEL_S(1), 4, 0 },
		{ { 64, 32 }, 2, LABEL_S(0), LABEL_S(0), 4, 0 },
		/* 10 over 4: chunks of 3, padded */
		{ { 10, 32 }, 4, LABEL_S(0), LABEL_R, 4, 3 * 3 * 32 * 4 },
		{ { 10, 32 }, 4, LABEL_SUM, LABEL_S(0), 4, 3 * 3 * 32 * 4 },
		{ { 10, 6 }, 4, LABEL_S(0), LABEL_S(1), 4, 3 * 3 * 2 * 4 },
		/* one row over 8: all of it on the first */
		{ { 1, 32 }, 4, LABEL_S(0), LABEL_R, 8, 7 * 32 * 4 },
		{ { 1, 32 }, 4, LABEL_S(0), LABEL_S(1), 8, 7 * 4 * 4 },
		{ { 0, 32 }, 4, LABEL_S(0), LABEL_R, 8, 0 },
		{ { 0, 32 }, 4, LABEL_S(1), LABEL_S(0), 8, 0 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_msg(move_bytes(cases[i].shape, 2, cases[i].item, cases[i].from, cases[i].to, cases[i].ranks) == cases[i].bytes,
			      "case %zu", i);
}
END_TEST

START_TEST(prices)
{
	const struct machine *m;
	struct diag d = { 0 };
	int64_t shape[2] = { 4096, 4096 };
	ck_assert(machine_find("h100", &m, &d) == FS_OK);
	uint64_t gather = move_price(m, shape, 2, 2, LABEL_S(0), LABEL_R, 8);
	/* 29,360,128 B at 360 GB/s and 10 us: 91.6 us */
	ck_assert_uint_ge(gather, 91555000);
	ck_assert_uint_le(gather, 91556000);
	ck_assert_uint_eq(move_price(m, shape, 2, 2, LABEL_R, LABEL_SUM, 8), PRICE_INF);
	ck_assert_uint_eq(move_price(m, shape, 2, 2, LABEL_MAX, LABEL_SUM, 8), PRICE_INF);
	ck_assert_uint_eq(move_price(m, shape, 2, 2, LABEL_SUM, LABEL_SUM, 8), 0);
	ck_assert_uint_eq(move_price(m, shape, 2, 2, LABEL_R, LABEL_S(1), 8), slice_price());
	ck_assert(machine_find("tpu", &m, &d) == FS_INVALID);
}
END_TEST

/* --- all sequences of moves --- */

#define MOST_STATES 4096

struct known { struct placement at; uint64_t price; };

struct tries {
	const struct mesh *mesh;
	const struct machine *machine;
	const struct type *type;
	const struct placement *goal;
	struct graph *g;
	struct known state[MOST_STATES];
	int states;
	bool changed;
};

/* The price of one move, as that of a plan. */
static uint64_t price_of(struct tries *t, enum op op, uint32_t axes, int to_dim, const struct placement *from, const struct placement *to)
{
	struct type a = *t->type, b = *t->type;
	struct attrs none = { 0 }, attrs = { 0 };
	a.place = *from;
	b.place = *to;
	attrs_int(&attrs, ATTR_AXES, axes);
	if (op == OP_ALL_TO_ALL)
		attrs_int(&attrs, ATTR_TO_DIM, to_dim);
	t->g->nodes.count = 1;
	t->g->operands.count = 0;
	struct node_id x = graph_append(t->g, OP_INPUT, NULL, 0, &none, &a, (struct prov_id){ 0 });
	struct node_id n = graph_append(t->g, op, &x, 1, &attrs, &b, (struct prov_id){ 0 });
	if (op == OP_SHARD)
		return slice_price();
	return (uint64_t)((t->machine->latency + (double)collective_bytes(t->g, n) / t->machine->link) * 1e12);
}

static void reach(struct tries *t, int from, enum op op, uint32_t axes, int dim, struct placement to)
{
	placement_canonical(&to);
	uint64_t price = t->state[from].price + price_of(t, op, axes, dim, &t->state[from].at, &to);
	int i = 0;
	while (i < t->states && !placement_equal(&t->state[i].at, &to))
		i++;
	if (i == t->states) {
		ck_assert_int_lt(t->states, MOST_STATES);
		t->state[t->states++] = (struct known){ to, UINT64_MAX };
	}
	if (price < t->state[i].price) {
		t->state[i].price = price;
		t->changed = true;
	}
}

/* Takes the innermost axes of `dim` away; they must be `axes`, nested in mesh order. */
static bool take_shards(struct placement *p, uint32_t axes, int dim)
{
	for (int last = MAX_AXES; axes != 0;) {
		int inner = -1;
		for (int i = 0; i < p->count; i++)
			if (p->at[i].kind == PART_SHARD && p->at[i].dim == dim)
				inner = p->at[i].axis;
		if (inner < 0 || inner >= last || !(axes >> inner & 1))
			return false;
		placement_set(p, inner, NULL);
		axes &= ~(1u << inner);
		last = inner;
	}
	return true;
}

static bool take_partial(struct placement *p, uint32_t axes, int kind)
{
	for (int axis = 0; axis < MAX_AXES; axis++) {
		if (!(axes >> axis & 1))
			continue;
		int i = placement_find(p, axis);
		if (i < 0 || p->at[i].kind != kind)
			return false;
		placement_set(p, axis, NULL);
	}
	return true;
}

static struct placement plus(struct placement p, int axis, int dim)
{
	placement_set(&p, axis, &(struct part){ (uint8_t)axis, PART_SHARD, (uint8_t)dim });
	return p;
}

/* Sets of axes are gathered or reduced whole; one axis is scattered, exchanged, or sliced as the goal has it. */
static void step(struct tries *t, int from, uint32_t axes)
{
	struct placement here = t->state[from].at, after = here;
	int axis = __builtin_ctz(axes), rank = t->type->rank;
	bool one = axes == 1u << axis;
	for (int kind = PART_SUM; kind <= PART_MIN; kind++, after = here) {
		if (!take_partial(&after, axes, kind))
			continue;
		reach(t, from, OP_ALL_REDUCE, axes, 0, after);
		for (int dim = 0; dim < rank && one; dim++)
			reach(t, from, OP_REDUCE_SCATTER, axes, 0, plus(after, axis, dim));
	}
	for (int dim = 0; dim < rank; dim++, after = here) {
		if (!take_shards(&after, axes, dim))
			continue;
		reach(t, from, OP_ALL_GATHER, axes, 0, after);
		for (int to = 0; to < rank && one; to++)
			if (to != dim)
				reach(t, from, OP_ALL_TO_ALL, axes, to, plus(after, axis, to));
	}
	int want = placement_find(t->goal, axis);
	if (one && placement_find(&here, axis) < 0 && want >= 0)
		reach(t, from, OP_SHARD, axes, 0, plus(here, axis, t->goal->at[want].dim));
}

static uint64_t best_of_all(struct tries *t, const struct placement *from)
{
	t->states = 1;
	t->state[0] = (struct known){ *from, 0 };
	do {
		t->changed = false;
		for (int i = 0; i < t->states; i++)
			for (uint32_t axes = 1; axes < 1u << t->mesh->count; axes++)
				step(t, i, axes);
	} while (t->changed);
	for (int i = 0; i < t->states; i++)
		if (placement_equal(&t->state[i].at, t->goal))
			return t->state[i].price;
	return PRICE_INF;
}

static struct placement draw_place(const struct mesh *m, int rank, bool partial)
{
	struct placement p = { 0 };
	for (int i = 0; i < m->count; i++) {
		uint8_t axis = (uint8_t)draw((uint32_t)m->count), kind = partial && draw(3) == 0 ? PART_SUM : PART_SHARD;
		if (draw(4) > 0 && (rank > 0 || kind != PART_SHARD))
			placement_set(&p, axis, &(struct part){ axis, kind, kind == PART_SHARD ? (uint8_t)draw((uint32_t)rank) : 0 });
	}
	placement_canonical(&p);
	return p;
}

/* Gathers and reduces all, then slices: always possible. */
static uint64_t greedy(struct tries *t, const struct placement *from)
{
	struct placement here = *from, after;
	uint64_t price = 0;
	while (here.count > 0) {
		struct part last = here.at[here.count - 1];
		after = here;
		placement_set(&after, last.axis, NULL);
		price += price_of(t, last.kind == PART_SHARD ? OP_ALL_GATHER : OP_ALL_REDUCE, 1u << last.axis, 0, &here, &after);
		here = after;
	}
	return price + (uint64_t)t->goal->count * slice_price();
}

static void check_path(struct tries *t, const struct placement *from)
{
	struct reshard_path path;
	struct wire none = { 0 };
	char a[256], b[256];
	placement_text(from, t->mesh, a, sizeof(a));
	placement_text(t->goal, t->mesh, b, sizeof(b));
	ck_assert_msg(reshard_path(t->machine, t->mesh, t->type, &none, from, t->goal, &path), "%s to %s", a, b);
	uint64_t best = best_of_all(t, from);
	ck_assert_msg(path.price == best, "%s to %s: %llu, by trying %llu", a, b, (unsigned long long)path.price, (unsigned long long)best);
	ck_assert_msg(path.price <= greedy(t, from), "%s to %s: dearer than gathering all", a, b);
}

static struct mesh draw_mesh(int least, int most)
{
	struct mesh m = { .count = least + (int)draw((uint32_t)(most - least + 1)) };
	for (int i = 0; i < m.count; i++) {
		m.axis[i].name[0] = (char)('a' + i);
		m.axis[i].size = 2 + (most > 3 ? 0 : (int32_t)draw(3));
	}
	return m;
}

static struct type draw_type(int least)
{
	static const int64_t sizes[] = { 1, 2, 3, 8, 64, 100, 1000, 4096 };
	int64_t dim[3];
	int rank = (int)draw(4);
	for (int i = 0; i < rank; i++)
		dim[i] = sizes[least + (int)draw((uint32_t)(8 - least))];
	return type_make(draw(2) ? DT_BF16 : DT_F32, rank, dim);
}

START_TEST(paths_are_shortest)
{
	static struct tries t;
	seed = 1;
	for (int round = 0; round < 400; round++) {
		struct mesh mesh = draw_mesh(1, 3);
		struct type type = draw_type(0);
		struct placement from = draw_place(&mesh, type.rank, true), to = draw_place(&mesh, type.rank, false);
		struct context *c = context_create(&mesh);
		t = (struct tries){ .mesh = &mesh, .type = &type, .goal = &to, .g = graph_create(c, STAGE_LOCAL) };
		machine_find(draw(2) ? "h100" : "cpu", &t.machine, &(struct diag){ 0 });
		check_path(&t, &from);
		graph_destroy(t.g);
		context_destroy(c);
	}
}
END_TEST

/* --- what partition makes of them --- */

/* A value that lies as `from`: partial ones are sums over dims that come first. */
static struct node_id value_at(struct graph *g, const struct type *type, const struct placement *from)
{
	struct type t = { .dtype = type->dtype }, made = *type;
	struct attrs a = { 0 }, sum = { 0 };
	int64_t dims[MAX_RANK];
	int count = 0;
	for (int i = 0; i < from->count; i++)
		if (from->at[i].kind != PART_SHARD) {
			dims[count] = count;
			t.dim[count++] = context_mesh(g->context)->axis[from->at[i].axis].size;
		}
	t.rank = (uint8_t)(count + type->rank);
	memcpy(t.dim + count, type->dim, sizeof(*t.dim) * type->rank);
	for (int i = 0, k = 0; i < from->count; i++) {
		bool shard = from->at[i].kind == PART_SHARD;
		struct part p = { from->at[i].axis, PART_SHARD, (uint8_t)(shard ? count + from->at[i].dim : k) };
		k += !shard;
		placement_set(&t.place, p.axis, &p);
	}
	attrs_string(&a, ATTR_NAME, context_intern(g->context, "x"));
	attrs_int(&a, ATTR_DTYPE, t.dtype);
	attrs_ints(&a, ATTR_SHAPE, t.dim, t.rank);
	struct node_id x = graph_emit_typed(g, OP_INPUT, NULL, 0, &a, &t, (struct prov_id){ 0 });
	attrs_ints(&sum, ATTR_DIMS, dims, count);
	made.place = *from;
	return count == 0 ? x : graph_emit_typed(g, OP_SUM, &x, 1, &sum, &made, (struct prov_id){ 0 });
}

static void check_moves(const struct mesh *mesh, struct type type, int round)
{
	struct placement from = draw_place(mesh, type.rank, true), to = draw_place(mesh, type.rank, false);
	struct context *c = context_create(mesh);
	struct graph *g = graph_create(c, STAGE_PLACED);
	struct compile options = { 0 };
	struct diag d = { 0 };
	struct attrs a = { 0 };
	struct node_id x = value_at(g, &type, &from);
	type.place = to;
	attrs_placement(&a, &to);
	struct node_id n = graph_emit_typed(g, OP_RESHARD, &x, 1, &a, &type, (struct prov_id){ 0 });
	graph_output(g, &(struct output){ n, context_intern(c, "y"), NULL, OUT_USER });
	ck_assert_msg(graph_verify(g, &d) == FS_OK, "round %d: %s", round, d.text);
	ck_assert_msg(pass_partition(&g, &options, &d) == FS_OK, "round %d: %s", round, d.text);
	ck_assert_msg(graph_verify(g, &d) == FS_OK, "round %d: %s", round, d.text);
	ck_assert(placement_equal(&graph_type(g, g->outputs.items[0].value)->place, &to));
	graph_destroy(g);
	context_destroy(c);
}

START_TEST(moves_verify)
{
	seed = 2;
	for (int round = 0; round < 3000; round++) {
		struct mesh mesh = draw_mesh(1, 3);
		check_moves(&mesh, draw_type(4), round); /* a sum of shards of a single element has no rule */
	}
}
END_TEST

/* More placements than are searched. */
START_TEST(many_axes)
{
	seed = 3;
	for (int round = 0; round < 300; round++) {
		struct mesh mesh = draw_mesh(5, 8);
		check_moves(&mesh, draw_type(7), round);
	}
}
END_TEST

/* Nothing leads to a partial value. */
START_TEST(no_path)
{
	struct mesh mesh = { .count = 1, .axis = { { "tp", 2 } } };
	struct type type = type_make(DT_F32, 1, (const int64_t[]){ 8 });
	struct placement whole = { 0 }, sum = { 1, { { 0, PART_SUM, 0 } } }, most = { 1, { { 0, PART_MAX, 0 } } };
	const struct machine *m;
	struct wire none = { 0 };
	struct reshard_path path;
	machine_find(NULL, &m, &(struct diag){ 0 });
	ck_assert(!reshard_path(m, &mesh, &type, &none, &whole, &sum, &path));
	ck_assert(!reshard_path(m, &mesh, &type, &none, &sum, &most, &path));
	ck_assert(reshard_path(m, &mesh, &type, &none, &sum, &sum, &path) && path.count == 0 && path.price == 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("reshard");
	TCase *t = tcase_create("reshard");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, bytes);
	tcase_add_test(t, prices);
	tcase_add_test(t, paths_are_shortest);
	tcase_add_test(t, moves_verify);
	tcase_add_test(t, many_axes);
	tcase_add_test(t, no_path);
	suite_add_tcase(s, t);
	return suite_run(s);
}
