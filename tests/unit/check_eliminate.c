/* The solver core against full enumeration, on thousands of small random factor graphs. */
#include <check.h>
#include <stdlib.h>

#include "eliminate.h"
#include "suite.h"

#define MOST 7   /* variables */
#define TABLES 10

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

struct model {
	struct factor_graph fg;
	uint64_t *tables[TABLES];
	uint32_t count;
};

static uint64_t draw_cost(uint32_t inf_percent)
{
	return draw(100) < inf_percent ? ELIM_INF : draw(6); /* few values: many ties */
}

static void add_random_table(struct model *m, uint32_t arity, uint32_t inf_percent)
{
	uint32_t scope[4];
	size_t cells = 1;
	for (uint32_t k = 0; k < arity; k++) {
		scope[k] = draw(m->fg.labels.count); /* now and then the same variable twice */
		cells *= m->fg.labels.items[scope[k]];
	}
	uint64_t *cost = malloc(cells * sizeof(*cost));
	for (size_t i = 0; i < cells; i++)
		cost[i] = draw_cost(inf_percent);
	m->tables[m->count++] = cost;
	factor_graph_add(&m->fg, arity, scope, cost);
}

static struct model random_model(uint64_t number)
{
	struct model m = {.count = 0};
	seed = number * 7919 + 1;
	uint32_t variables = 1 + draw(MOST), tables = draw(TABLES + 1), inf = draw(4) * 15;
	for (uint32_t v = 0; v < variables; v++)
		factor_graph_variable(&m.fg, 1 + draw(4));
	for (uint32_t t = 0; t < tables; t++)
		add_random_table(&m, 1 + draw(4), inf);
	return m;
}

static void model_release(struct model *m)
{
	factor_graph_release(&m->fg);
	for (uint32_t i = 0; i < m->count; i++)
		free(m->tables[i]);
}

/* The next labelling, as an odometer over the free variables; false after the last. */
static bool next_pick(const struct factor_graph *fg, const bool *free_vars, uint32_t *pick)
{
	for (uint32_t v = fg->labels.count; v-- > 0;) {
		if (!free_vars[v])
			continue;
		if (++pick[v] < fg->labels.items[v])
			return true;
		pick[v] = 0;
	}
	return false;
}

static uint64_t enumerate(const struct factor_graph *fg, const bool *free_vars, const uint32_t *held)
{
	uint32_t pick[MOST];
	uint64_t best = ELIM_INF;
	for (uint32_t v = 0; v < fg->labels.count; v++)
		pick[v] = free_vars[v] ? 0 : held[v];
	do {
		uint64_t cost = factor_graph_cost(fg, pick);
		best = cost < best ? cost : best;
	} while (next_pick(fg, free_vars, pick));
	return best;
}

static const bool all_free[MOST] = {true, true, true, true, true, true, true};

START_TEST(random_graphs_equal_enumeration)
{
	uint32_t infeasible = 0;
	for (uint64_t n = 0; n < 6000; n++) {
		struct model m = random_model(n);
		struct elim_result r;
		uint32_t pick[MOST] = {0};
		uint64_t best = enumerate(&m.fg, all_free, pick);
		enum elim_status status = eliminate(&m.fg, ELIM_CELLS_MAX, pick, &r);
		ck_assert_int_eq(status, best < ELIM_INF ? ELIM_OK : ELIM_INFEASIBLE);
		if (status == ELIM_OK) {
			ck_assert_uint_eq(r.cost, best);
			ck_assert_uint_eq(factor_graph_cost(&m.fg, pick), best);
		} else {
			infeasible++;
			ck_assert_uint_lt(r.where, m.fg.labels.count);
		}
		model_release(&m);
	}
	ck_assert_uint_gt(infeasible, 100);
	ck_assert_uint_lt(infeasible, 3000);
}
END_TEST

START_TEST(blocks_are_exact_and_keep_the_rest)
{
	for (uint64_t n = 0; n < 6000; n++) {
		struct model m = random_model(n);
		struct elim_result r;
		uint32_t start[MOST], pick[MOST];
		bool free_vars[MOST];
		for (uint32_t v = 0; v < m.fg.labels.count; v++) {
			start[v] = pick[v] = draw(m.fg.labels.items[v]);
			free_vars[v] = draw(2);
		}
		uint64_t best = enumerate(&m.fg, free_vars, start);
		enum elim_status status = eliminate_given(&m.fg, free_vars, ELIM_CELLS_MAX, pick, &r);
		ck_assert_int_eq(status, best < ELIM_INF ? ELIM_OK : ELIM_INFEASIBLE);
		for (uint32_t v = 0; v < m.fg.labels.count; v++)
			if (!free_vars[v] || status != ELIM_OK)
				ck_assert_uint_eq(pick[v], start[v]);
		if (status == ELIM_OK) {
			ck_assert_uint_eq(r.cost, best);
			ck_assert_uint_eq(factor_graph_cost(&m.fg, pick), best);
		}
		model_release(&m);
	}
}
END_TEST

START_TEST(same_input_same_labels)
{
	for (uint64_t n = 0; n < 200; n++) {
		struct model m = random_model(n);
		struct elim_result a, b;
		uint32_t first[MOST] = {0}, second[MOST] = {0};
		eliminate(&m.fg, ELIM_CELLS_MAX, first, &a);
		eliminate(&m.fg, ELIM_CELLS_MAX, second, &b);
		ck_assert_mem_eq(&a, &b, sizeof(a));
		ck_assert_mem_eq(first, second, sizeof(first));
		model_release(&m);
	}
}
END_TEST

START_TEST(ties_take_the_lowest_label)
{
	struct factor_graph fg = {0};
	struct elim_result r;
	static const uint64_t tied[4] = {9, 5, 5, 5}, diagonal[16] = {0};
	uint32_t pick[3], scope[3];
	for (uint32_t v = 0; v < 3; v++)
		scope[v] = factor_graph_variable(&fg, 4);
	factor_graph_add(&fg, 1, &scope[0], tied);
	factor_graph_add(&fg, 1, &scope[1], tied); /* the same table twice */
	factor_graph_add(&fg, 2, scope, diagonal);
	ck_assert_int_eq(eliminate(&fg, ELIM_CELLS_MAX, pick, &r), ELIM_OK);
	ck_assert_uint_eq(r.cost, 10);
	ck_assert_uint_eq(pick[0], 1);
	ck_assert_uint_eq(pick[1], 1);
	ck_assert_uint_eq(pick[2], 0); /* in no table at all */
	factor_graph_release(&fg);
}
END_TEST

START_TEST(pruned_labels_take_no_cells)
{
	struct factor_graph fg = {0};
	struct elim_result r;
	static const uint64_t only_last[3] = {ELIM_INF, ELIM_INF, 7}, pair[9] = {8, 8, 8, 8, 8, 8, 4, 3, 2};
	uint32_t pick[2], scope[2] = {factor_graph_variable(&fg, 3), factor_graph_variable(&fg, 3)};
	factor_graph_add(&fg, 1, scope, only_last);
	factor_graph_add(&fg, 2, scope, pair);
	ck_assert_int_eq(eliminate(&fg, 3, pick, &r), ELIM_OK);
	ck_assert_uint_eq(r.cost, 9);
	ck_assert_uint_eq(r.widest, 3);
	ck_assert_uint_eq(pick[0], 2);
	ck_assert_uint_eq(pick[1], 2);
	factor_graph_release(&fg);
}
END_TEST

/* A clique of n variables of three labels; equal labels cost the more the higher they are. */
static void clique(struct factor_graph *fg, uint32_t n, const uint64_t *pair)
{
	for (uint32_t v = 0; v < n; v++)
		factor_graph_variable(fg, 3);
	for (uint32_t v = 0; v < n; v++)
		for (uint32_t w = v + 1; w < n; w++)
			factor_graph_add(fg, 2, (uint32_t[]){v, w}, pair);
}

START_TEST(too_wide_is_refused_and_blocks_go_on)
{
	static const uint64_t pair[9] = {1, 0, 0, 0, 2, 0, 0, 0, 3};
	struct factor_graph fg = {0};
	struct elim_result r;
	uint32_t pick[10] = {0};
	clique(&fg, 10, pair);
	ck_assert_int_eq(eliminate(&fg, 59048, pick, &r), ELIM_TOO_WIDE);
	ck_assert_uint_eq(r.widest, 59049);
	ck_assert_uint_eq(r.width, 10);
	ck_assert_uint_eq(r.where, 0);
	ck_assert_int_eq(eliminate(&fg, 59049, pick, &r), ELIM_OK);
	uint64_t best = r.cost, cost = factor_graph_cost(&fg, (uint32_t[10]){0});
	uint32_t step[10] = {0};
	for (uint32_t sweep = 0; sweep < 8; sweep++) {
		bool half[10];
		for (uint32_t v = 0; v < 10; v++)
			half[v] = (v + sweep) % 3 != 0;
		ck_assert_int_eq(eliminate_given(&fg, half, 59048, step, &r), ELIM_OK);
		ck_assert_uint_le(r.cost, cost);
		ck_assert_uint_eq(r.cost, factor_graph_cost(&fg, step));
		cost = r.cost;
	}
	ck_assert_uint_ge(cost, best);
	factor_graph_release(&fg);
}
END_TEST

/* Wide graphs: a feasible pick at its true cost, never below the minimum; most often it is the minimum. */
START_TEST(blocks_come_near_the_minimum)
{
	uint32_t best = 0, solved = 0;
	for (uint64_t number = 0; number < 2000; number++) {
		struct model m = random_model(number);
		struct elim_result exact, r;
		uint32_t pick[MOST];
		if (eliminate(&m.fg, ELIM_CELLS_MAX, pick, &exact) == ELIM_OK &&
		    eliminate_blocks(&m.fg, 64, 2, false, pick, &r) == ELIM_OK) {
			ck_assert_uint_eq(r.cost, factor_graph_cost(&m.fg, pick));
			ck_assert_uint_ge(r.cost, exact.cost);
			ck_assert_uint_ge(r.blocks, 2);
			solved++;
			best += r.cost == exact.cost;
		}
		model_release(&m);
	}
	ck_assert_uint_ge(solved, 1000);
	ck_assert_uint_ge(10 * best, 8 * solved);
}
END_TEST

START_TEST(one_hub_of_many_tables)
{
	enum { SPOKES = 20000 };
	struct factor_graph fg = {0};
	struct elim_result r;
	static const uint64_t same[9] = {0, 1, 1, 1, 0, 1, 1, 1, 0}, last[3] = {1, 1, 0};
	static uint32_t pick[SPOKES + 1];
	uint32_t hub = factor_graph_variable(&fg, 3);
	for (uint32_t i = 0; i < SPOKES; i++) {
		uint32_t spoke = factor_graph_variable(&fg, 3);
		factor_graph_add(&fg, 2, (uint32_t[]){hub, spoke}, same);
		factor_graph_add(&fg, 1, &spoke, last);
	}
	ck_assert_int_eq(eliminate(&fg, 1 << 20, pick, &r), ELIM_OK);
	ck_assert_uint_eq(r.cost, 0);
	ck_assert_uint_eq(r.width, 2);
	for (uint32_t v = 0; v <= SPOKES; v++)
		ck_assert_uint_eq(pick[v], 2);
	factor_graph_release(&fg);
}
END_TEST

START_TEST(sums_saturate)
{
	struct factor_graph fg = {0};
	struct elim_result r;
	static const uint64_t half[2] = {ELIM_INF - 1, ELIM_INF / 2}, one[2] = {ELIM_INF - 1, 1};
	uint32_t pick[2], scope[2] = {factor_graph_variable(&fg, 2), factor_graph_variable(&fg, 2)};
	factor_graph_add(&fg, 1, &scope[0], half);
	factor_graph_add(&fg, 1, &scope[0], one);
	ck_assert_int_eq(eliminate(&fg, ELIM_CELLS_MAX, pick, &r), ELIM_OK);
	ck_assert_uint_eq(r.cost, ELIM_INF / 2 + 1);
	factor_graph_add(&fg, 1, &scope[1], half);
	ck_assert_int_eq(eliminate(&fg, ELIM_CELLS_MAX, pick, &r), ELIM_INFEASIBLE);
	factor_graph_release(&fg);
}
END_TEST

START_TEST(empty_graph_costs_nothing)
{
	struct factor_graph fg = {0};
	struct elim_result r;
	ck_assert_int_eq(eliminate(&fg, ELIM_CELLS_MAX, NULL, &r), ELIM_OK);
	ck_assert_uint_eq(r.cost, 0);
	ck_assert_uint_eq(r.cells, 0);
	factor_graph_release(&fg);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("eliminate");
	tcase_set_timeout(t, 300);
	tcase_add_test(t, random_graphs_equal_enumeration);
	tcase_add_test(t, blocks_are_exact_and_keep_the_rest);
	tcase_add_test(t, same_input_same_labels);
	tcase_add_test(t, ties_take_the_lowest_label);
	tcase_add_test(t, pruned_labels_take_no_cells);
	tcase_add_test(t, too_wide_is_refused_and_blocks_go_on);
	tcase_add_test(t, blocks_come_near_the_minimum);
	tcase_add_test(t, one_hub_of_many_tables);
	tcase_add_test(t, sums_saturate);
	tcase_add_test(t, empty_graph_costs_nothing);
	Suite *s = suite_create("eliminate");
	suite_add_tcase(s, t);
	return suite_run(s);
}
