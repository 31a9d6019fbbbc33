/*
 * The placement solver on thousands of small random graphs.
 *
 * One axis: its cost is the minimum over all labellings, found by trying them, in the same cost model.
 * Several axes: what it makes is verified, is the same every time, and is never dearer than the greedy answer.
 */
#include "passes.h"
#include "plan.h"
#include "one_axis.h"
#include "random_graph.h"
#include "suite.h"

/* --- running passes --- */

static char *text_of(const struct graph *g)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	graph_print(g, f);
	fclose(f);
	return text;
}

static void verified(const struct graph *g, const char *after, uint64_t seed)
{
	struct diag d = { 0 };
	if (graph_verify(g, &d) != FS_OK) {
		char *text = text_of(g);
		ck_abort_msg("seed %llu: after %s: %s\n%s", (unsigned long long)seed, after, d.text, text);
	}
}

struct solved {
	bool possible;
	uint64_t cost, price; /* of the labels; of the local program */
	char *text;
	char why[1024];
};

static struct solved solve_without(uint64_t seed, const struct mesh *mesh, int ops, bool hard, const char *target,
				   const struct forbidden *forbidden)
{
	struct context *context = context_create(mesh);
	struct graph *g = random_graph(context, seed, ops, hard);
	struct compile c = { .target = target, .forbidden = *forbidden };
	struct diag d = { 0 };
	struct solved s = { 0 };
	const struct machine *m;
	machine_find(target, &m, &d);
	verified(g, "nothing", seed);
	s.possible = pass_solve(&g, &c, &d) == FS_OK;
	memcpy(s.why, d.text, sizeof(s.why));
	if (s.possible) {
		verified(g, "solve", seed);
		s.cost = c.solved.cost;
		ck_assert_msg(pass_partition(&g, &c, &d) == FS_OK, "seed %llu: %s", (unsigned long long)seed, d.text);
		verified(g, "partition", seed);
		s.price = graph_price(m, g);
		s.text = text_of(g);
	}
	graph_destroy(g);
	context_destroy(context);
	compile_release(&c);
	return s;
}

static struct solved solve_graph(uint64_t seed, const struct mesh *mesh, int ops, bool hard, const char *target)
{
	return solve_without(seed, mesh, ops, hard, target, &(struct forbidden){ 0 });
}

/* --- one axis --- */

static int counted(const char *name, int otherwise)
{
	const char *value = getenv(name);
	return value != NULL ? atoi(value) : otherwise;
}

/* The cost, PRICE_INF where it is impossible. */
static uint64_t compare_one(uint64_t seed, const struct forbidden *forbidden)
{
	static const char *const targets[] = { "h100", "cpu" };
	static const int32_t sizes[] = { 2, 3, 4, 8 };
	struct mesh mesh = { .count = 1, .axis = { { "tp", sizes[seed % 4] } } };
	int ops = 1 + (int)(seed / 4 % 8);
	bool hard = seed % 3 == 0;
	const char *target = targets[seed / 2 % 2];
	struct solved s = solve_without(seed, &mesh, ops, hard, target, forbidden);
	struct context *context = context_create(&mesh);
	struct graph *g = random_graph(context, seed, ops, hard);
	struct trial t;
	const struct machine *m;
	machine_find(target, &m, &(struct diag){ 0 });
	trial_init(&t, g, m);
	t.forbidden = *forbidden;
	try_from(&t, 1, 0);
	uint64_t found = s.possible ? s.cost : PRICE_INF;
	if (t.best != found) {
		char *text = text_of(g);
		ck_abort_msg("seed %llu: cost %llu, by trying %llu (%s)\n%s%s", (unsigned long long)seed, (unsigned long long)found,
			     (unsigned long long)t.best, s.why, text, s.text != NULL ? s.text : "");
	}
	trial_release(&t);
	graph_destroy(g);
	context_destroy(context);
	free(s.text);
	return found;
}

START_TEST(one_axis_is_optimal)
{
	int rounds = counted("SOLVE_ROUNDS", 2000), first = counted("SOLVE_FIRST", 0);
	for (int seed = first; seed < first + rounds; seed++)
		compare_one((uint64_t)seed, &(struct forbidden){ 0 });
}
END_TEST

/* What explain asks: the minimum where a value is not taken under a label. */
START_TEST(one_axis_without_a_move_is_optimal)
{
	int rounds = counted("SOLVE_ROUNDS", 1000), first = counted("SOLVE_FIRST", 0), dearer = 0, impossible = 0;
	for (int seed = first; seed < first + rounds; seed++) {
		struct forbidden f = { .count = 1, .at = { { { 1 + (uint32_t)seed / 3 % 6 }, 0, LABEL_R } } };
		f.at[0].label = seed % 3 == 0 ? LABEL_R : LABEL_S(seed % 3 - 1);
		uint64_t best = compare_one((uint64_t)seed, &(struct forbidden){ 0 }), without = compare_one((uint64_t)seed, &f);
		ck_assert_uint_ge(without, best);
		dearer += without > best;
		impossible += without > best && without == PRICE_INF;
	}
	ck_assert_int_gt(dearer, rounds / 20);
	ck_assert_int_gt(impossible, 0);
	ck_assert_int_gt(dearer, impossible);
}
END_TEST

/* --- several axes --- */

static void gathered_axis(struct solver *s, int axis)
{
	const struct graph *g = s->g;
	struct axis_labels *l = &s->axis[axis];
	l->produced = arena_alloc(&s->arena, g->nodes.count);
	l->held = arena_alloc(&s->arena, g->nodes.count);
	l->want = arena_alloc(&s->arena, g->operands.count + 1);
	l->want_output = arena_alloc(&s->arena, g->outputs.count + 1);
	for (uint32_t i = 1; i < g->nodes.count; i++) {
		struct node_id n = { i };
		if (op_is_source(graph_op(g, n)))
			l->produced[i] = label_of(&graph_type(g, n)->place, axis);
		if (graph_op(g, n) == OP_CONSTRAIN && graph_int(g, n, ATTR_AXES, 0) >> axis & 1)
			l->produced[i] = l->want[graph_node(g, n)->first] = label_of(graph_placement(g, n), axis);
		l->held[i] = l->produced[i];
	}
	for (uint32_t i = 0; i < g->outputs.count; i++)
		l->want_output[i] = l->produced[g->outputs.items[i].value.i];
}

/* The price of gathering every operand and computing everything on every rank. */
static uint64_t gathered_price(uint64_t seed, const struct mesh *mesh, int ops, const char *target)
{
	struct context *context = context_create(mesh);
	struct graph *g = random_graph(context, seed, ops, false), *placed;
	struct compile c = { .target = target };
	struct diag d = { 0 };
	bool *reached = graph_reached(g);
	struct solver s = { .g = g, .mesh = mesh, .reached = reached };
	machine_find(target, &s.machine, &d);
	for (int axis = 0; axis < mesh->count; axis++)
		gathered_axis(&s, axis);
	placed = solve_insert(&s);
	verified(placed, "gathering", seed);
	ck_assert(pass_partition(&placed, &c, &d) == FS_OK);
	verified(placed, "partition of what is gathered", seed);
	uint64_t price = graph_price(s.machine, placed);
	graph_destroy(placed);
	graph_destroy(g);
	arena_release(&s.arena);
	free(reached);
	context_destroy(context);
	return price;
}

static struct mesh mesh_of(uint64_t seed, int axes)
{
	static const int32_t sizes[] = { 2, 3, 1, 4, 2, 5 };
	static const char *const names[] = { "pp", "dp", "tp" };
	struct mesh m = { .count = axes };
	for (int i = 0; i < axes; i++) {
		strcpy(m.axis[i].name, names[i]);
		m.axis[i].size = sizes[(seed >> (3 * i)) % 6];
	}
	return m;
}

static void compare_several(uint64_t seed, int axes)
{
	const char *target = seed % 2 ? "h100" : "cpu";
	struct mesh mesh = mesh_of(seed, axes);
	int ops = 1 + (int)(seed % 13);
	bool hard = seed % 5 == 0;
	struct solved a = solve_graph(seed, &mesh, ops, hard, target), b = solve_graph(seed, &mesh, ops, hard, target);
	ck_assert_msg(a.possible || hard, "seed %llu: %s", (unsigned long long)seed, a.why);
	if (a.possible && !hard) {
		uint64_t most = gathered_price(seed, &mesh, ops, target);
		if (a.price > most)
			ck_abort_msg("seed %llu: %llu, by gathering all %llu\n%s", (unsigned long long)seed, (unsigned long long)a.price,
				     (unsigned long long)most, a.text);
	}
	ck_assert(a.possible == b.possible && (!a.possible || strcmp(a.text, b.text) == 0));
	free(a.text);
	free(b.text);
}

START_TEST(several_axes)
{
	int rounds = counted("SOLVE_ROUNDS", 2000), first = counted("SOLVE_FIRST", 0);
	for (int seed = first; seed < first + rounds; seed++)
		compare_several((uint64_t)seed, 2 + seed % 2);
}
END_TEST

/* --- with fp8: the whole way --- */

static void run_all(uint64_t seed, const struct mesh *mesh, struct compile *c, char **text)
{
	static enum fs_status (*const run[])(struct graph **, struct compile *, struct diag *) = {
		pass_assign_recipes, pass_solve, pass_partition, pass_swap_fp8, pass_move_casts, pass_bucket_amax,
	};
	static const char *const names[] = { "assign_recipes", "solve", "partition", "swap_fp8", "move_casts", "bucket_amax" };
	struct context *context = context_create(mesh);
	struct graph *g = random_graph(context, seed, 2 + (int)(seed % 12), false);
	struct diag d = { 0 };
	for (int i = 0; i < 6; i++) {
		ck_assert_msg(run[i](&g, c, &d) == FS_OK, "seed %llu: %s: %s", (unsigned long long)seed, names[i], d.text);
		verified(g, names[i], seed);
	}
	*text = text_of(g);
	graph_destroy(g);
	context_destroy(context);
}

/* What comes out stands by every rule, whatever was asked for, and is the same each time. */
static void check_fp8(uint64_t seed)
{
	static const char *const recipes[] = { "rowwise", "tensorwise", "rowwise:pow2", "none" };
	struct mesh mesh = mesh_of(seed, 1 + (int)(seed % 3));
	char *text[2];
	for (int i = 0; i < 2; i++) {
		struct compile c = { .target = seed % 2 ? "h100" : "cpu", .exact = seed % 5 == 0, .reduce_f32 = seed % 7 < 2,
				     .fp8_auto = seed % 11 == 0 };
		*vec_push(&c.recipes) = (struct request){ NULL, recipes[seed % 4], "--fp8" };
		if (seed / 8 % 3 > 0)
			*vec_push(&c.scopes) = (struct request){ "pp", seed / 8 % 3 == 1 ? "local" : "global", "--scale-scope" };
		run_all(seed, &mesh, &c, &text[i]);
		compile_release(&c);
	}
	ck_assert_str_eq(text[0], text[1]);
	free(text[0]);
	free(text[1]);
}

START_TEST(fp8_passes)
{
	int rounds = counted("SOLVE_ROUNDS", 2000), first = counted("SOLVE_FIRST", 0);
	for (int seed = first; seed < first + rounds; seed++)
		check_fp8((uint64_t)seed);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("solve");
	TCase *t = tcase_create("solve");
	tcase_set_timeout(t, 600);
	tcase_add_test(t, one_axis_is_optimal);
	tcase_add_test(t, one_axis_without_a_move_is_optimal);
	tcase_add_test(t, several_axes);
	tcase_add_test(t, fp8_passes);
	suite_add_tcase(s, t);
	return suite_run(s);
}
