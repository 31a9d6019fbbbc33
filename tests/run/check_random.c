/*
 * Sharded run = unsharded run, of random programs on random meshes.
 *
 *     check_random [COUNT [FIRST]]     programs FIRST (1) .. FIRST + COUNT - 1
 *     check_random --seed SEED         one, with its plan
 *
 * Each program is compiled for one rank and for a mesh of up to three axes, by the passes and the
 * executor that users get, and both run on thread ranks.  Outputs have the same bits where the numbers
 * are whole or the plan is exact, else they are within a bound that the program carries (random.h).
 * Where the program has no fp8, the one-rank plan must also give what it gives without any pass.
 *
 * A failure prints the smallest part of the program that still fails, as a text that `fp8shard compile`
 * reads.  Ends with "N passed, N failed".
 */
#include "random.h"

#ifdef __SANITIZE_THREAD__
#define DEFAULT_COUNT 300
#else
#define DEFAULT_COUNT 2000
#endif

/* --- a failure made small --- */

static int reached_count(const struct program *p)
{
	bool *reached = program_reached(p);
	int count = 0;
	for (uint32_t i = 0; i < p->values.count; i++)
		count += reached[i];
	free(reached);
	return count;
}

static bool fails(const struct program *p, const struct layout *l)
{
	return program_check(p, l, NULL, NULL).verdict == RUN_BAD;
}

/* The one output that fails and hangs on least, be it an output of the program or not. */
static void keep_one_output(struct program *p, const struct layout *l)
{
	int best = -1, least = 0;
	uint32_t count = p->outputs.count, all = p->values.count;
	int *given = malloc(sizeof(*given) * (count + 1));
	if (given == NULL)
		BUG("out of memory");
	memcpy(given, p->outputs.items, sizeof(*given) * count);
	p->outputs.count = 1;
	for (uint32_t i = 0; i < all; i++) {
		p->outputs.items[0] = (int)i;
		int size = p->values.items[i].count > 0 ? reached_count(p) : 0;
		if (size == 0 || (best >= 0 && size >= least) || !fails(p, l))
			continue;
		best = (int)i;
		least = size;
	}
	p->outputs.count = best < 0 ? count : 1;
	if (best < 0)
		memcpy(p->outputs.items, given, sizeof(*given) * count);
	else
		p->outputs.items[0] = best;
	free(given);
}

/* Frees values and axes as long as it still fails. */
static void drop_pins(const struct program *p, struct layout *l)
{
	for (uint32_t i = 0; i < p->values.count; i++) {
		struct pin was = l->pin[i];
		l->pin[i] = (struct pin){ 0 };
		if (!fails(p, l))
			l->pin[i] = was;
	}
	for (int a = 0; a < l->mesh.count; a++) {
		int32_t was = l->mesh.axis[a].size;
		l->mesh.axis[a].size = 1;
		if (!fails(p, l))
			l->mesh.axis[a].size = was;
	}
}

/* --- one program --- */

static void print_program(const struct program *p, const struct layout *l)
{
	static const char *const recipes[] = { "none", "tensorwise", "rowwise" };
	struct context *c = context_create(&l->mesh);
	struct graph *g = program_graph(p, c, l);
	graph_print(g, stdout);
	graph_destroy(g);
	context_destroy(c);
	printf("options: --fp8 %s%s%s%s --target %s%s\n", recipes[p->recipe], p->pow2 ? ":pow2" : "", p->exact ? " --exact" : "",
	       l->reduce_f32 ? " --reduce-dtype f32" : "", l->target != NULL ? l->target : "h100",
	       p->whole_scales ? " --scale-scope global on every axis" : "");
}

static void report(struct program *p, struct layout *l, const struct outcome *found, const char *self)
{
	printf("FAILED random program %llu: %s\n", (unsigned long long)p->seed, found->text);
	keep_one_output(p, l);
	drop_pins(p, l);
	struct outcome small = program_check(p, l, NULL, NULL);
	printf("smaller: %s\n", small.text);
	print_program(p, l);
	printf("again: %s --seed %llu\n", self, (unsigned long long)p->seed);
}

/* Where parameters that are hard on all their axes leave no placement, none is. */
static struct outcome check(const struct program *p, struct layout *l, struct coverage *c, unsigned *eased)
{
	struct outcome o = program_check(p, l, c, NULL);
	if (o.verdict != RUN_REFUSED)
		return o;
	*eased += 1;
	for (uint32_t i = 0; i < p->values.count; i++)
		l->pin[i].hard = 0;
	return program_check(p, l, c, NULL);
}

/* --seed: where it fails, of the smaller one. */
static bool check_one(uint64_t seed, const char *self)
{
	struct program *p = program_create(seed);
	struct layout l;
	random_layout(p, &l);
	unsigned eased = 0;
	struct outcome o = check(p, &l, NULL, &eased);
	if (o.verdict != RUN_GOOD)
		report(p, &l, &o, self);
	else
		print_program(p, &l);
	program_check(p, &l, NULL, stdout);
	program_destroy(p);
	return o.verdict == RUN_GOOD;
}

/* --- many --- */

static const enum op moves[] = { OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_TO_ALL, OP_ALL_REDUCE, OP_SHARD };
#define MOVES (sizeof(moves) / sizeof(moves[0]))

/* False: a kind of move stands in less than one of fifty programs, so that this test says little of it. */
static bool covers_moves(const struct coverage *c)
{
	bool all = true;
	for (size_t i = 0; i < MOVES; i++)
		if (c->with[moves[i]] < c->programs / 50) {
			printf("FAILED %s: %u of %u programs have one\n", op_text(moves[i]), c->with[moves[i]], c->programs);
			all = false;
		}
	return all;
}

static void print_coverage(const struct coverage *c)
{
	int ops = 0, sharded = 0;
	for (int op = 1; op < OP_COUNT; op++) {
		ops += c->with[op] > 0;
		sharded += c->sharded[op] > 0;
	}
	printf("random programs: %u; all outputs bit for bit %u, exact %u, fp8 %u\n", c->programs, c->bits, c->exact, c->fp8);
	printf("  on several axes %u, uneven shards %u, ranks with nothing %u\n ", c->several_axes, c->uneven, c->empty);
	for (size_t i = 0; i < MOVES; i++)
		printf("%s %s %u", i > 0 ? "," : "", op_text(moves[i]), c->with[moves[i]]);
	printf("\n  ops in plans: %d, with sharded results %d; no result sharded:", ops, sharded);
	for (int op = 1; op < OP_COUNT; op++)
		if (op_in_stage((enum op)op, STAGE_FP8) && c->sharded[op] == 0)
			printf(" %s", op_text((enum op)op));
	printf("\n");
}

static int check_many(uint64_t first, uint64_t count, const char *self)
{
	struct coverage c = { 0 };
	unsigned passed = 0, eased = 0;
	for (uint64_t seed = first; seed < first + count; seed++) {
		struct program *p = program_create(seed);
		struct layout l;
		random_layout(p, &l);
		struct outcome o = check(p, &l, &c, &eased);
		passed += o.verdict == RUN_GOOD;
		if (o.verdict != RUN_GOOD)
			report(p, &l, &o, self);
		program_destroy(p);
	}
	print_coverage(&c);
	printf("  without hard parameters, which left no placement: %u\n", eased);
	bool covered = count < 100 || covers_moves(&c);
	printf("%u passed, %u failed\n", passed, (unsigned)count - passed);
	return !covered || passed < count;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--seed") == 0)
		return !check_one(strtoull(argv[2], NULL, 10), argv[0]);
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : DEFAULT_COUNT;
	return check_many(argc > 2 ? strtoull(argv[2], NULL, 10) : 1, count, argv[0]);
}
