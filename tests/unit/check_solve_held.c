/*
 * What it costs that the solver holds one copy of a value beside the one that is produced: the best labelling
 * with that limit against the best without any, on small random graphs of one axis.
 */
#include "one_axis.h"
#include "random_graph.h"
#include "suite.h"

static uint64_t best_of(uint64_t seed, bool unlimited)
{
	static const int32_t sizes[] = { 2, 3, 4, 8 };
	struct mesh mesh = { .count = 1, .axis = { { "tp", sizes[seed % 4] } } };
	struct context *context = context_create(&mesh);
	struct graph *g = random_graph(context, seed, 1 + (int)(seed / 4 % 8), false);
	struct trial t;
	const struct machine *m;
	machine_find(seed / 2 % 2 ? "cpu" : "h100", &m, &(struct diag){ 0 });
	trial_init(&t, g, m);
	t.unlimited = unlimited;
	t.free_slices = true;
	try_from(&t, 1, 0);
	uint64_t best = t.best;
	trial_release(&t);
	graph_destroy(g);
	context_destroy(context);
	return best;
}

/* HELD_ROUNDS=N: more graphs, and the figures. */
START_TEST(one_more_copy_is_nearly_enough)
{
	const char *rounds = getenv("HELD_ROUNDS");
	int most = rounds != NULL ? atoi(rounds) : 2000, equal = 0;
	double sum = 0, worst = 1;
	for (int seed = 0; seed < most; seed++) {
		uint64_t pair = best_of((uint64_t)seed, false), any = best_of((uint64_t)seed, true);
		ck_assert_msg(any <= pair, "seed %d: %llu without a limit, %llu with it", seed, (unsigned long long)any,
			      (unsigned long long)pair);
		double ratio = (double)(pair + 1) / (double)(any + 1);
		equal += pair == any;
		sum += ratio;
		worst = ratio > worst ? ratio : worst;
	}
	if (rounds != NULL)
		printf("%d graphs: %d equal, mean %.5f, worst %.3f\n", most, equal, sum / most, worst);
	ck_assert_msg(equal >= most * 99 / 100, "%d of %d are equal", equal, most);
	ck_assert_msg(worst < 1.01, "%.3f times the best without a limit", worst);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("solve_held");
	TCase *t = tcase_create("solve_held");
	tcase_set_timeout(t, 600);
	tcase_add_test(t, one_more_copy_is_nearly_enough);
	suite_add_tcase(s, t);
	return suite_run(s);
}
