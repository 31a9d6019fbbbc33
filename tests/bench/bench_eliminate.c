/*
 * How long the solver core takes on Llama forward graphs of 8, 32 and 128 layers, tp=8: the same
 * tables as shared/placement-sketch.py makes, in whole picoseconds.
 *
 *     bench_eliminate [layers ...]
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "eliminate.h"

enum { RANKS = 8, MOST_PAIRS = 32, MOST_OPS = 4, RUNS = 15, NO_PIN = -3, P = -2, R = -1 };

struct value {
	int64_t shape[3], bytes;
	int rank, pin, uses, pairs;
	int made[MOST_PAIRS], held[MOST_PAIRS]; /* label `made`, also held as `held` */
};

struct op {
	uint32_t in[MOST_OPS], out;
	int count;
	const char *dims[MOST_OPS], *out_dims, *whole, *linear; /* linear: operands, "0" or "01" */
	double flops;
};

/* Ops with equal rules, shapes and pins share a table, as they do in the compiler. */
struct made_table {
	uint64_t key, *cost;
};

struct model {
	VEC(struct value) values;
	VEC(struct op) ops;
	VEC(struct made_table) tables;
	struct factor_graph fg;
};

static uint64_t ps(double seconds)
{
	return (uint64_t)(seconds * 1e12 + 0.5);
}

static uint64_t reshard(const struct value *v, int a, int b)
{
	double ring = (RANKS - 1.0) / RANKS * (double)v->bytes / 360e9, latency = 10e-6;
	if (a == b)
		return 0;
	if (b == P)
		return ELIM_INF;
	if (a == R)
		return ps(1e-7);
	if (a == P)
		return ps(latency + (b == R ? 2 * ring : ring));
	return ps(latency + (b == R ? ring : ring / RANKS));
}

/* --- the graph --- */

static uint32_t value(struct model *m, int rank, const int64_t *shape, int item, int pin)
{
	struct value *v = vec_push(&m->values);
	v->bytes = item;
	v->rank = rank;
	v->pin = pin;
	for (int d = 0; d < rank; d++) {
		v->shape[d] = shape[d];
		v->bytes *= shape[d];
	}
	return m->values.count - 1;
}

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]){__VA_ARGS__}

/* in_dims: "tk,nk", a factor letter per dim. */
static uint32_t op(struct model *m, const uint32_t *in, const char *const *dims, int count, int rank,
		   const int64_t *shape, const char *out_dims, double flops, const char *linear,
		   const char *whole)
{
	uint32_t out = value(m, rank, shape, 2, NO_PIN);
	struct op *o = vec_push(&m->ops);
	*o = (struct op){.out = out, .count = count, .out_dims = out_dims, .whole = whole,
			 .linear = linear, .flops = flops};
	for (int k = 0; k < count; k++) {
		o->in[k] = in[k];
		o->dims[k] = dims[k];
		m->values.items[in[k]].uses++;
	}
	return out;
}

#define OP1(a, da, ...) op(m, (uint32_t[]){a}, (const char *[]){da}, 1, __VA_ARGS__)
#define OP2(a, b, da, db, ...) op(m, (uint32_t[]){a, b}, (const char *[]){da, db}, 2, __VA_ARGS__)

enum { T = 8192, H = 4096, NH = 32, KV = 8, D = 128, F = 14336, V = 128256 };

static uint32_t mm(struct model *m, uint32_t x, int64_t k, int64_t n, int pin)
{
	uint32_t w = value(m, SHAPE(n, k), 2, pin);
	return OP2(x, w, "tk", "nk", SHAPE(T, n), "tn", 2.0 * T * (double)k * (double)n, "", "");
}

static uint32_t norm(struct model *m, uint32_t x)
{
	uint32_t sq = OP1(x, "th", SHAPE(T, H), "th", 0, "", "");
	uint32_t r = OP1(sq, "th", SHAPE(T, 1), "t.", 0, "", "");
	uint32_t y = OP2(x, r, "th", "t.", SHAPE(T, H), "th", 0, "0", "");
	uint32_t w = value(m, SHAPE(H), 2, R);
	return OP2(y, w, "th", "h", SHAPE(T, H), "th", 0, "0", "");
}

static uint32_t heads(struct model *m, uint32_t x, int64_t n)
{
	return OP1(x, "ta", SHAPE(T, n, D), "tad", 0, "0", "d");
}

static uint32_t rope(struct model *m, uint32_t x, int64_t n, uint32_t cos, uint32_t sin)
{
	uint32_t c = OP2(x, cos, "tad", "td", SHAPE(T, n, D), "tad", 0, "", "");
	uint32_t r = OP1(x, "tad", SHAPE(T, n, D), "tad", 0, "", "d");
	uint32_t s = OP2(r, sin, "tad", "td", SHAPE(T, n, D), "tad", 0, "", "");
	return OP2(c, s, "tad", "tad", SHAPE(T, n, D), "tad", 0, "01", "");
}

static uint32_t attention(struct model *m, uint32_t h, uint32_t cos, uint32_t sin)
{
	uint32_t q = rope(m, heads(m, mm(m, h, H, NH * D, 0), NH), NH, cos, sin);
	uint32_t k = rope(m, heads(m, mm(m, h, H, KV * D, 0), KV), KV, cos, sin);
	uint32_t v = heads(m, mm(m, h, H, KV * D, 0), KV);
	uint32_t o = op(m, (uint32_t[]){q, k, v}, (const char *[]){"thd", "shd", "shd"}, 3,
			SHAPE(T, NH, D), "thd", 2.0 * T * T * NH * D, "", "ds");
	o = OP1(o, "tad", SHAPE(T, NH * D), "ta", 0, "0", "d");
	return mm(m, o, NH * D, H, 1);
}

static uint32_t feed_forward(struct model *m, uint32_t h)
{
	uint32_t gate = mm(m, h, H, F, 0), up = mm(m, h, H, F, 0);
	gate = OP1(gate, "tf", SHAPE(T, F), "tf", 0, "", "");
	uint32_t f = OP2(gate, up, "tf", "tf", SHAPE(T, F), "tf", 0, "", "");
	return mm(m, f, F, H, 1);
}

static void llama(struct model *m, int layers)
{
	uint32_t ids = value(m, SHAPE(T), 8, R), embed = value(m, SHAPE(V, H), 2, 0);
	uint32_t cos = value(m, SHAPE(T, D), 4, R), sin = value(m, SHAPE(T, D), 4, R);
	uint32_t x = OP2(ids, embed, "t", "vh", SHAPE(T, H), "th", 0, "", "");
	for (int l = 0; l < layers; l++) {
		uint32_t a = attention(m, norm(m, x), cos, sin);
		x = OP2(x, a, "th", "th", SHAPE(T, H), "th", 0, "01", "");
		uint32_t f = feed_forward(m, norm(m, x));
		x = OP2(x, f, "th", "th", SHAPE(T, H), "th", 0, "01", "");
	}
	mm(m, x, H, V, 0);
}

/* --- its tables --- */

static void add_pair(struct value *v, int made, int held)
{
	v->made[v->pairs] = made;
	v->held[v->pairs++] = held;
}

static void list_pairs(struct value *v)
{
	int labels[5] = {R, P}, n = 2;
	if (v->pin != NO_PIN) {
		add_pair(v, v->pin, v->pin);
		return;
	}
	for (int d = 0; d < v->rank; d++)
		if (v->shape[d] % RANKS == 0)
			labels[n++] = d;
	for (int i = 0; i < n; i++)
		add_pair(v, labels[i], labels[i]);
	for (int i = 0; i < n * n && v->uses > 1; i++)
		if (labels[i % n] != P && i % n != i / n)
			add_pair(v, labels[i / n], labels[i % n]);
}

static int find_dim(const char *dims, char factor, int missing)
{
	const char *at = strchr(dims, factor);
	return at != NULL ? (int)(at - dims) : missing;
}

struct strategy {
	int in[MOST_OPS], out;
	double share;
};

static bool even(const struct model *m, const struct op *o, const struct strategy *s)
{
	for (int k = 0; k < o->count; k++)
		if (s->in[k] >= 0 && m->values.items[o->in[k]].shape[s->in[k]] % RANKS != 0)
			return false;
	return s->out < 0 || m->values.items[o->out].shape[s->out] % RANKS == 0;
}

static int strategies(const struct model *m, const struct op *o, struct strategy *s)
{
	int n = 1;
	s[0] = (struct strategy){{R, R, R, R}, R, 1.0};
	for (char f = 'a'; f <= 'z'; f++) {
		bool used = strchr(o->out_dims, f) != NULL;
		for (int k = 0; k < o->count; k++) {
			s[n].in[k] = find_dim(o->dims[k], f, R);
			used |= s[n].in[k] != R;
		}
		s[n].out = find_dim(o->out_dims, f, P);
		s[n].share = 1.0 / RANKS;
		if (used && strchr(o->whole, f) == NULL && even(m, o, &s[n]))
			n++;
	}
	if (o->linear[0] != '\0') {
		s[n] = (struct strategy){{R, R, R, R}, P, 1.0};
		for (const char *c = o->linear; *c != '\0'; c++)
			s[n].in[*c - '0'] = P;
		n++;
	}
	return n;
}

static uint64_t operand_cost(const struct value *v, int pair, int want)
{
	if (v->pin != NO_PIN && v->pin != R && v->pin != want)
		return ELIM_INF;
	uint64_t a = reshard(v, v->made[pair], want), b = reshard(v, v->held[pair], want);
	return a < b ? a : b;
}

static uint64_t cell(const struct model *m, const struct op *o, const struct strategy *s, int n,
		     double local, const int *pair)
{
	uint64_t best = ELIM_INF;
	for (int i = 0; i < n; i++) {
		uint64_t cost = ps(local * s[i].share);
		for (int k = 0; k < o->count; k++)
			cost = elim_add(cost, operand_cost(&m->values.items[o->in[k]], pair[k], s[i].in[k]));
		if (m->values.items[o->out].made[pair[o->count]] != s[i].out)
			cost = ELIM_INF;
		best = cost < best ? cost : best;
	}
	return best;
}

/* The table of this key; to be written where *fresh is set. */
static uint64_t *find_table(struct model *m, uint64_t key, size_t cells, bool *fresh)
{
	for (uint32_t i = 0; i < m->tables.count; i++)
		if (m->tables.items[i].key == key)
			return *fresh = false, m->tables.items[i].cost;
	struct made_table *t = vec_push(&m->tables);
	*t = (struct made_table){key, calloc(cells, sizeof(*t->cost))};
	return *fresh = true, t->cost;
}

static uint64_t value_key(const struct value *v, uint64_t seed)
{
	int64_t facts[] = {v->shape[0], v->shape[1], v->shape[2], v->bytes, v->rank, v->pin, v->pairs};
	return hash_bytes(facts, sizeof(facts), seed);
}

static uint64_t op_key(const struct model *m, const struct op *o)
{
	uint64_t key = value_key(&m->values.items[o->out], 1);
	key = hash_bytes(o->out_dims, strlen(o->out_dims), hash_bytes(o->whole, strlen(o->whole), key));
	key = hash_bytes(o->linear, strlen(o->linear), hash_bytes(&o->flops, sizeof(o->flops), key));
	for (int k = 0; k < o->count; k++)
		key = hash_bytes(o->dims[k], strlen(o->dims[k]), value_key(&m->values.items[o->in[k]], key));
	return key;
}

static void fill_op(const struct model *m, const struct op *o, const uint32_t *scope, size_t cells,
		    uint64_t *cost)
{
	struct strategy s[16];
	int n = strategies(m, o, s), pair[MOST_OPS + 1] = {0};
	int64_t bytes = 0;
	for (int k = 0; k <= o->count; k++)
		bytes += m->values.items[scope[k]].bytes;
	double move = (double)bytes / 3e12, local = o->flops / 800e12 > move ? o->flops / 800e12 : move;
	for (size_t i = 0; i < cells; i++) {
		cost[i] = cell(m, o, s, n, local, pair);
		for (int k = o->count + 1; k-- > 0 && ++pair[k] == m->values.items[scope[k]].pairs;)
			pair[k] = 0;
	}
}

static void op_table(struct model *m, const struct op *o)
{
	uint32_t scope[MOST_OPS + 1];
	size_t cells = 1;
	bool fresh;
	for (int k = 0; k <= o->count; k++) {
		scope[k] = k < o->count ? o->in[k] : o->out;
		cells *= (size_t)m->values.items[scope[k]].pairs;
	}
	uint64_t *cost = find_table(m, op_key(m, o), cells, &fresh);
	if (fresh)
		fill_op(m, o, scope, cells, cost);
	factor_graph_add(&m->fg, (uint32_t)o->count + 1, scope, cost);
}

static void value_table(struct model *m, uint32_t id)
{
	struct value *v = &m->values.items[id];
	bool fresh;
	list_pairs(v);
	factor_graph_variable(&m->fg, (uint32_t)v->pairs);
	uint64_t *cost = find_table(m, value_key(v, 0), (size_t)v->pairs, &fresh);
	for (int k = 0; k < v->pairs && fresh; k++)
		cost[k] = reshard(v, v->made[k], v->held[k]);
	factor_graph_add(&m->fg, 1, &id, cost);
}

static void make_tables(struct model *m)
{
	for (uint32_t i = 0; i < m->values.count; i++)
		value_table(m, i);
	for (uint32_t i = 0; i < m->ops.count; i++)
		op_table(m, &m->ops.items[i]);
}

static void model_release(struct model *m)
{
	for (uint32_t i = 0; i < m->tables.count; i++)
		free(m->tables.items[i].cost);
	vec_release(&m->tables);
	vec_release(&m->values);
	vec_release(&m->ops);
	factor_graph_release(&m->fg);
}

static double now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int bench(int layers)
{
	struct model m = {0};
	struct elim_result r;
	double best = 1e30;
	llama(&m, layers);
	make_tables(&m);
	uint32_t *pick = malloc(m.values.count * sizeof(*pick));
	enum elim_status status = ELIM_OK;
	for (int i = 0; i < RUNS && status == ELIM_OK; i++) {
		double start = now_ms();
		status = eliminate(&m.fg, 1 << 20, pick, &r);
		double took = now_ms() - start;
		best = took < best ? took : best;
	}
	bool equal = status == ELIM_OK && factor_graph_cost(&m.fg, pick) == r.cost;
	printf("%4d layers %6u values %8.3f ms  %8llu cells  widest %llu (%u variables)  cost %llu ps%s\n",
	       layers, m.values.count, best, (unsigned long long)r.cells, (unsigned long long)r.widest,
	       r.width, (unsigned long long)r.cost, equal ? "" : "  WRONG");
	free(pick);
	model_release(&m);
	return equal ? 0 : 1;
}

int main(int argc, char **argv)
{
	int failed = 0;
	if (argc == 1)
		return bench(8) | bench(32) | bench(128);
	for (int i = 1; i < argc; i++)
		failed |= bench(atoi(argv[i]));
	return failed;
}
