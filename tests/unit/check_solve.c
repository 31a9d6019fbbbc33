/*
 * The placement solver on thousands of small random graphs.
 *
 * One axis: its cost is the minimum over all labellings, found by trying them, in the same cost model.
 * Several axes: what it makes is verified, is the same every time, and is never dearer than the greedy answer.
 */
#include "passes.h"
#include "plan.h"
#include "random_graph.h"
#include "reshard.h"
#include "solve.h"

#define MOST_STRATEGIES 32
#define MANY_ELEMENTS ((int64_t)1 << 22)

/* --- one axis, by trying all strategies --- */

struct trial {
	const struct graph *g;
	const struct machine *machine;
	int32_t ranks;
	bool *reached;
	struct uses uses;
	struct arena arena;
	struct strategies *strategies; /* by node */
	uint64_t (*time)[MOST_STRATEGIES]; /* by node */
	bool *fixed;
	uint32_t *last;                /* by node: its last user, or itself */
	int *pick;                     /* by node: of strategies */
	uint64_t *known;               /* prices of moves, plus 1 */
	struct forbidden forbidden;
	uint64_t best;
	uint64_t tried;
};

static bool is_sharded(label l)
{
	return l >= LABEL_S(0);
}

static bool is_partial(label l)
{
	return l == LABEL_SUM || l == LABEL_MAX || l == LABEL_MIN;
}

static struct placement place_of(label l)
{
	struct placement p = { 0 };
	if (l != LABEL_R)
		placement_set(&p, 0, &(struct part){ 0, is_sharded(l) ? PART_SHARD : PART_SUM + l - LABEL_SUM, is_sharded(l) ? l - LABEL_S(0) : 0 });
	return p;
}

static bool carries(const struct trial *t, struct node_id n)
{
	const struct type *type = graph_type(t->g, n);
	enum op op = graph_op(t->g, n);
	bool learnt = op == OP_PARAM || (op == OP_INPUT && dtype_is_float((enum dtype)type->dtype));
	if (op_is_source(op))
		return learnt || type->place.count > 0;
	bool any = op == OP_CONSTRAIN || type_count(type) > MANY_ELEMENTS;
	for (int k = 0; k < graph_node(t->g, n)->count; k++)
		any |= !t->fixed[graph_operand(t->g, n, k).i];
	return any;
}

/* Dims with less than one element a rank stay whole, but where a source lies so. */
static bool may(const struct trial *t, struct node_id n, const label *at)
{
	int count = graph_node(t->g, n)->count;
	bool small = false, pinned = false;
	for (int k = 0; k <= count; k++) {
		struct node_id x = k < count ? graph_operand(t->g, n, k) : n;
		if (!is_sharded(at[k]))
			continue;
		small |= graph_type(t->g, x)->dim[at[k] - LABEL_S(0)] < t->ranks;
		pinned |= k < count && op_is_source(graph_op(t->g, x)) && label_of(&graph_type(t->g, x)->place, 0) == at[k];
	}
	return !small || pinned;
}

/* Of a rank with the largest shards. */
static uint64_t strategy_time(struct trial *t, struct node_id n, const label *at)
{
	int count = graph_node(t->g, n)->count;
	int64_t (*shape)[MAX_RANK] = arena_array(&t->arena, count + 1u, sizeof(*shape));
	for (int k = 0; k <= count; k++) {
		struct type type = *graph_type(t->g, k < count ? graph_operand(t->g, n, k) : n);
		type.place = place_of(at[k]);
		type_local_shape(&type, context_mesh(t->g->context), NULL, shape[k]);
	}
	return op_price(t->machine, t->g, n, (const int64_t (*)[MAX_RANK])shape);
}

static void list_strategies(struct trial *t, struct node_id n)
{
	int count = graph_node(t->g, n)->count, kept = 0;
	int64_t (*shape)[MAX_RANK] = arena_array(&t->arena, count + 1u, sizeof(*shape));
	struct strategies *s = &t->strategies[n.i];
	for (int k = 0; k <= count; k++)
		memcpy(shape[k], graph_type(t->g, k < count ? graph_operand(t->g, n, k) : n)->dim, sizeof(*shape));
	op_strategies(t->g, n, (const int64_t (*)[MAX_RANK])shape, t->ranks, false, &t->arena, s);
	if (graph_op(t->g, n) == OP_CONSTRAIN && graph_int(t->g, n, ATTR_AXES, 0) & 1) {
		s->count = 1;
		s->at[0] = s->at[1] = label_of(graph_placement(t->g, n), 0);
		return;
	}
	for (int i = 0; i < s->count; i++)
		if (may(t, n, s->at + i * s->stride)) {
			memmove(s->at + kept * s->stride, s->at + i * s->stride, (size_t)s->stride);
			kept++;
		}
	s->count = kept;
	for (int i = 0; i < kept; i++)
		t->time[n.i][i] = strategy_time(t, n, s->at + i * s->stride);
}

/* By the cheapest path; a few labels a value, so each is asked for once. */
static uint64_t move(const struct trial *t, struct node_id n, label from, label to)
{
	uint64_t *known = &t->known[(n.i * LABEL_COUNT + from) * LABEL_COUNT + to];
	if (*known == 0) {
		struct placement a = place_of(from), b = place_of(to);
		struct wire none = { 0 };
		struct reshard_path path;
		bool found = reshard_path(t->machine, context_mesh(t->g->context), graph_type(t->g, n), &none, &a, &b, &path);
		*known = 1 + (found ? path.price : PRICE_INF);
	}
	return *known - 1;
}

/* Of a value made under `made`: is it not to be taken under `to`? */
static bool forbids(const struct trial *t, struct node_id n, label made, label to)
{
	return t->forbidden.count > 0 && node_same(t->forbidden.at[0].value, n) && t->forbidden.at[0].label == to && made != to;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static bool is_form(enum op op)
{
	return op == OP_CAST || op == OP_COPY || op == OP_RESHAPE || op == OP_EXPAND;
}

static bool is_given(const struct trial *t, struct node_id n)
{
	while (is_form(graph_op(t->g, n)))
		n = graph_operand(t->g, n, 0);
	return op_is_source(graph_op(t->g, n)) && graph_op(t->g, n) != OP_INPUT;
}

/* A hard parameter, a cast of one, or one scaled by another parameter. */
static bool is_hard(const struct trial *t, struct node_id n)
{
	enum op op = graph_op(t->g, n);
	if (op == OP_CAST || op == OP_COPY || op == OP_PERMUTE)
		return is_hard(t, graph_operand(t->g, n, 0));
	for (int k = 0; k < 2 && (op == OP_MUL || op == OP_DIV); k++)
		if (is_hard(t, graph_operand(t->g, n, k)) && is_given(t, graph_operand(t->g, n, !k)))
			return true;
	return op == OP_PARAM && graph_int(t->g, n, ATTR_HARD, 0) & 1;
}

/* The cheapest end of an output. */
static uint64_t output_cost(const struct trial *t, struct node_id n, label produced, label held)
{
	const struct type *type = graph_type(t->g, n);
	uint64_t cost = !is_partial(produced) || !is_partial(held) ? 0 : least(move(t, n, produced, LABEL_R), move(t, n, held, LABEL_R));
	cost = cost > 0 && forbids(t, n, produced, LABEL_R) ? PRICE_INF : cost;
	for (int dim = 0; dim < type->rank; dim++)
		if (type->dim[dim] >= t->ranks && !forbids(t, n, produced, LABEL_S(dim)))
			cost = least(cost, least(move(t, n, produced, LABEL_S(dim)), move(t, n, held, LABEL_S(dim))));
	return cost;
}

static label produced_label(const struct trial *t, struct node_id n)
{
	const struct strategies *s = &t->strategies[n.i];
	if (t->fixed[n.i])
		return LABEL_R;
	return op_is_source(graph_op(t->g, n)) ? label_of(&graph_type(t->g, n)->place, 0)
					       : s->at[t->pick[n.i] * s->stride + s->stride - 1];
}

/* All moves of value n where it is also held as `held`. */
static uint64_t cost_held(const struct trial *t, struct node_id n, label produced, label held, int *users)
{
	bool hard = is_hard(t, n);
	uint64_t cost = move(t, n, produced, held);
	*users = 0;
	for (uint32_t u = t->uses.first[n.i]; u < t->uses.first[n.i + 1]; u++) {
		struct node_id user = t->uses.at[u];
		const struct strategies *s = &t->strategies[user.i];
		if (!t->reached[user.i] || (u > t->uses.first[n.i] && node_same(t->uses.at[u - 1], user)))
			continue;
		for (int k = 0; k < graph_node(t->g, user)->count; k++) {
			if (!node_same(graph_operand(t->g, user, k), n))
				continue;
			label want = t->fixed[user.i] ? LABEL_R : s->at[t->pick[user.i] * s->stride + k];
			(*users)++;
			if (forbids(t, n, produced, want))
				cost = PRICE_INF;
			cost += hard && produced == LABEL_R ? 0 : hard && want != produced ? PRICE_INF : least(move(t, n, produced, want), move(t, n, held, want));
			cost = least(cost, PRICE_INF);
		}
	}
	for (uint32_t i = 0; i < t->g->outputs.count; i++)
		if (node_same(t->g->outputs.items[i].value, n)) {
			cost = least(PRICE_INF, cost + output_cost(t, n, produced, held));
			(*users)++;
		}
	return cost;
}

/* A slice is nearly free: nothing is held of what is whole. */
static uint64_t value_cost(const struct trial *t, struct node_id n)
{
	int users;
	label produced = produced_label(t, n);
	uint64_t best = cost_held(t, n, produced, produced, &users);
	bool hard = is_hard(t, n);
	for (int l = 0; l < LABEL_S(graph_type(t->g, n)->rank) && users > 1 && !hard && produced != LABEL_R; l++)
		if (!is_partial((label)l) && !forbids(t, n, produced, (label)l))
			best = least(best, cost_held(t, n, produced, (label)l, &users));
	return best;
}

static void try_from(struct trial *t, uint32_t i, uint64_t cost)
{
	if (cost >= t->best)
		return;
	if (i == t->g->nodes.count) {
		t->best = cost;
		return;
	}
	t->tried++;
	struct node_id n = { i };
	bool chosen = t->reached[i] && !t->fixed[i] && !op_is_source(graph_op(t->g, n));
	for (t->pick[i] = 0; t->pick[i] < (chosen ? t->strategies[i].count : 1); t->pick[i]++) {
		uint64_t sum = cost;
		if (chosen)
			sum += t->time[i][t->pick[i]];
		for (uint32_t v = 1; v <= i; v++)
			if (t->last[v] == i && t->reached[v])
				sum = least(PRICE_INF, sum + value_cost(t, (struct node_id){ v }));
		try_from(t, i + 1, sum);
	}
}

static void trial_init(struct trial *t, const struct graph *g, const struct machine *m)
{
	uint32_t n = g->nodes.count;
	*t = (struct trial){ .g = g, .machine = m, .ranks = context_mesh(g->context)->axis[0].size, .best = PRICE_INF };
	t->reached = graph_reached(g);
	t->uses = uses_make(g);
	t->strategies = arena_array(&t->arena, n, sizeof(*t->strategies));
	t->time = arena_array(&t->arena, n, sizeof(*t->time));
	t->fixed = arena_array(&t->arena, n, sizeof(*t->fixed));
	t->last = arena_array(&t->arena, n, sizeof(*t->last));
	t->pick = arena_array(&t->arena, n, sizeof(*t->pick));
	t->known = arena_array(&t->arena, n * LABEL_COUNT * LABEL_COUNT, sizeof(*t->known));
	for (uint32_t i = 1; i < n; i++) {
		struct node_id id = { i };
		t->last[i] = i;
		t->fixed[i] = !carries(t, id);
		for (int k = 0; t->reached[i] && k < graph_node(g, id)->count; k++)
			t->last[graph_operand(g, id, k).i] = i;
		if (t->reached[i] && !t->fixed[i] && !op_is_source(graph_op(g, id)))
			list_strategies(t, id);
	}
}

static void trial_release(struct trial *t)
{
	free(t->reached);
	uses_release(&t->uses);
	arena_release(&t->arena);
}

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
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
