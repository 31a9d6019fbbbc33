/*
 * Graphs in which so many values live at once that no elimination takes them whole: values of several rows are
 * mixed pair by pair, over and over.  Where all of it is pinned to every rank a labelling is left that is easily
 * found; the solver may not come out above it, whatever it does in blocks.
 */
#include "machine.h"
#include "passes.h"
#include "plan.h"
#include "random_graph.h"
#include "suite.h"

static void write_sources(FILE *f, int width)
{
	for (int i = 0; i < width; i++)
		fprintf(f, "%%x%d = input \"x%d\" : bf16[512,512] (tp:S(0))\n%%w%d = param \"w%d\" : bf16[512,512] (tp:S(%d))\n", i,
			i, i, i, i % 2);
}

static void write_pins(FILE *f, int width, bool pinned, int axes)
{
	static const char *const pin = "%%%c%d = constrain %%%c%d {axis=%s to=()} : bf16[512,512]\n";
	for (int i = 0; i < width; i++)
		for (int k = 0; k < 2 && pinned; k++)
			fprintf(f, pin, "ab"[k], i, "xw"[k], i, axes == 1 ? "tp" : "dp+tp");
}

/* Rounds of sums and products, or products alone, of what random pairs of values are. */
static void write_rounds(FILE *f, struct random_graph *r, int width, int rounds)
{
	int at[64];
	for (int i = 0; i < width; i++)
		at[i] = i;
	for (int k = 1; k <= rounds; k++) {
		for (int i = width - 1; i > 0; i--) {
			int j = (int)draw(r, (uint32_t)i + 1), t = at[i];
			at[i] = at[j];
			at[j] = t;
		}
		for (int i = 0; i < width; i++) {
			int a = at[i & ~1], b = at[i | 1];
			const char *op = i % 2 ? "mul" : k % 2 ? "add" : "matmul";
			fprintf(f, "%%v%d_%d = %s %%v%d_%d, %%v%d_%d%s : bf16[512,512]\n", k, i, op, k - 1, a, k - 1, b,
				i % 2 == 0 && k % 2 == 0 ? " {eq=\"mk,kn->mn\"}" : "");
		}
	}
}

static char *graph_text(uint64_t seed, int width, int rounds, int axes, bool pinned)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	struct random_graph r = { .seed = seed };
	fprintf(f, "mesh %stp=8\ngraph {\n", axes == 1 ? "" : "dp=2, ");
	write_sources(f, width);
	write_pins(f, width, pinned, axes);
	for (int i = 0; i < width; i++)
		fprintf(f, "%%v0_%d = matmul %%%c%d, %%%c%d {eq=\"mk,nk->mn\"} : bf16[512,512]\n", i, "xa"[pinned], i, "wb"[pinned], i);
	write_rounds(f, &r, width, rounds);
	for (int i = 0; i < width; i++)
		fprintf(f, "output \"y%d\" = %%v%d_%d\n", i, rounds, i);
	fprintf(f, "}\n");
	fclose(f);
	return text;
}

static uint64_t price_of(char *text, struct solve_stats *stats)
{
	struct context *context;
	struct graph *g;
	struct compile c = { 0 };
	struct diag d = { 0 };
	const struct machine *m;
	machine_find(NULL, &m, &d);
	ck_assert_msg(graph_parse(text, strlen(text), "t", &context, &g, &d) == FS_OK, "%s", d.text);
	ck_assert_msg(pass_solve(&g, &c, &d) == FS_OK && pass_partition(&g, &c, &d) == FS_OK && graph_verify(g, &d) == FS_OK, "%s",
		      d.text);
	uint64_t price = graph_price(m, g);
	*stats = c.solved;
	graph_destroy(g);
	context_destroy(context);
	free(text);
	return price;
}

/* WIDE_ROUNDS=N: more of them; WIDE_SHOW: their prices. */
START_TEST(wide_graphs_cost_no_more_than_gathering)
{
	const char *rounds = getenv("WIDE_ROUNDS");
	int most = rounds != NULL ? atoi(rounds) : 8;
	for (int seed = 0; seed < most; seed++) {
		int width = seed % 2 ? 16 : 40, rounds_of = 6 + seed % 5, axes = 1 + seed / 2 % 2;
		struct solve_stats free_one, whole;
		uint64_t price = price_of(graph_text((uint64_t)seed, width, rounds_of, axes, false), &free_one);
		uint64_t gathered = price_of(graph_text((uint64_t)seed, width, rounds_of, axes, true), &whole);
		if (getenv("WIDE_SHOW"))
			printf("seed %d: %llu, gathered %llu, %u blocks, %d sweeps\n", seed, (unsigned long long)price,
			       (unsigned long long)gathered, free_one.blocks, free_one.sweeps);
		ck_assert_uint_gt(free_one.blocks, 1);
		ck_assert_msg(price <= gathered, "seed %d: %llu, by gathering %llu", seed, (unsigned long long)price,
			      (unsigned long long)gathered);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("solve_wide");
	TCase *t = tcase_create("solve_wide");
	tcase_set_timeout(t, 600);
	tcase_add_test(t, wide_graphs_cost_no_more_than_gathering);
	suite_add_tcase(s, t);
	return suite_run(s);
}
