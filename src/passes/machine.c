/*
 * The cost model: latency + bytes / bandwidth a collective (ring algorithms), max(flops, bytes) a
 * local op.  Rates are what was measured on such machines for large shapes, not peaks
 * (docs/ir.md, "Cost"); a ratio between them decides, so tens of percent do not matter.
 */
#include "machine.h"

#include <string.h>

static const struct machine machines[] = {
	/*  name    flops    memory   link    latency */
	{ "h100", 700e12, 3.0e12, 360e9, 10e-6 },
	{ "h200", 700e12, 4.3e12, 360e9, 10e-6 },
	{ "b200", 1700e12, 7.0e12, 720e9, 10e-6 },
	{ "cpu", 30e9, 6e9, 3e9, 20e-6 },
};

#define SLICE_SECONDS 1e-7
#define FP8_RATE 2 /* of products in fp8, times those in bf16 */

enum fs_status machine_find(const char *name, const struct machine **out, struct diag *d)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		if (name == NULL || strcmp(machines[i].name, name) == 0) {
			*out = &machines[i];
			return FS_OK;
		}
	return diag_set(d, FS_INVALID, "--target '%s' is unknown; there are h100, h200, b200 and cpu", name);
}

static uint64_t picoseconds(double seconds)
{
	double ps = seconds * 1e12;
	return ps >= (double)PRICE_INF ? PRICE_INF : (uint64_t)ps;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
	return a / b + (a % b != 0);
}

static int64_t count(const int64_t *shape, int rank)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		n *= shape[i];
	return n;
}

/* Elements of the largest chunk when `dim` is cut among the ranks. */
static int64_t chunk(const int64_t *shape, int rank, int dim, int32_t ranks)
{
	return shape[dim] == 0 ? 0 : count(shape, rank) / shape[dim] * ceil_div(shape[dim], ranks);
}

static bool is_shard(label l)
{
	return l >= LABEL_S(0);
}

static bool is_partial(label l)
{
	return l != LABEL_R && !is_shard(l);
}

/* What a rank sends to each other one of an all_to_all: its chunk of `from`, cut along `to`. */
static int64_t exchanged(const int64_t *shape, int rank, int from, int to, int32_t ranks)
{
	if (shape[from] == 0 || shape[to] == 0)
		return 0;
	return count(shape, rank) / shape[from] / shape[to] * ceil_div(shape[from], ranks) * ceil_div(shape[to], ranks);
}

/* The same as collective_bytes() of the collective. */
int64_t move_bytes(const int64_t *shape, int rank, int item, label from, label to, int32_t ranks)
{
	if (from == to || from == LABEL_R)
		return 0;
	int64_t others = ranks - 1, whole = count(shape, rank) * item;
	if (is_partial(from) && to == LABEL_R)
		return 2 * whole - 2 * whole / ranks;
	if (is_partial(from))
		return others * chunk(shape, rank, to - LABEL_S(0), ranks) * item;
	if (to == LABEL_R)
		return others * chunk(shape, rank, from - LABEL_S(0), ranks) * item;
	return others * exchanged(shape, rank, from - LABEL_S(0), to - LABEL_S(0), ranks) * item;
}

uint64_t slice_price(void)
{
	return picoseconds(SLICE_SECONDS);
}

uint64_t move_price(const struct machine *m, const int64_t *shape, int rank, int item, label from, label to,
		    int32_t ranks)
{
	if (from == to)
		return 0;
	if (is_partial(to))
		return PRICE_INF;
	if (from == LABEL_R)
		return slice_price();
	double bytes = (double)move_bytes(shape, rank, item, from, to, ranks);
	return picoseconds(m->latency + bytes / m->link);
}

static double matmul_flops(const struct graph *g, struct node_id n, const int64_t (*shape)[MAX_RANK])
{
	struct equation e;
	struct diag d = { 0 };
	if (equation_parse(&e, graph_string(g, n, ATTR_EQ), &d) != FS_OK)
		BUG("%s", d.text);
	double flops = 2 * (double)count(shape[0], e.rank[0]);
	for (int i = 0; i < e.rank[1]; i++)
		if (equation_role(&e, e.letter[1][i]) == ROLE_N)
			flops *= (double)shape[1][i];
	return flops;
}

/* q kT and p v: heads, rows and columns of the scores, twice the width. */
static double sdpa_flops(const struct graph *g, struct node_id n, const int64_t (*shape)[MAX_RANK])
{
	int rank = graph_type(g, n)->rank;
	double scores = (double)count(shape[0], rank - 1) * (double)shape[1][rank - 2];
	double flops = 2 * scores * (double)(shape[0][rank - 1] + shape[2][rank - 1]);
	return graph_int(g, n, ATTR_CAUSAL, 0) ? flops / 2 : flops;
}

double op_flops(const struct graph *g, struct node_id n, const int64_t (*shape)[MAX_RANK])
{
	enum op op = graph_op(g, n);
	if (op == OP_MATMUL || op == OP_SCALED_MATMUL)
		return matmul_flops(g, n, shape);
	return op == OP_SDPA ? sdpa_flops(g, n, shape) : 0;
}

enum cost_kind { COST_FREE, COST_BYTES, COST_FLOPS };
static const uint8_t cost_of[OP_COUNT] = {
#define OP(name, text, least, most, stages, infer, rule, linear, cost, lower, vjp, attrs) [OP_##name] = COST_##cost,
#include "ops.def"
#undef OP
};

uint64_t op_price(const struct machine *m, const struct graph *g, struct node_id n, const int64_t (*shape)[MAX_RANK])
{
	enum op op = graph_op(g, n);
	if (cost_of[op] == COST_FREE)
		return op == OP_SHARD ? slice_price() : 0;
	const struct node *node = graph_node(g, n);
	const struct type *t = graph_type(g, n);
	double bytes = (double)count(shape[node->count], t->rank) * dtype_size((enum dtype)t->dtype);
	for (int k = 0; k < node->count; k++) {
		const struct type *in = graph_type(g, graph_operand(g, n, k));
		bytes += (double)count(shape[k], in->rank) * dtype_size((enum dtype)in->dtype);
	}
	double seconds = bytes / m->memory;
	double compute = op_flops(g, n, shape) / (op == OP_SCALED_MATMUL ? FP8_RATE * m->flops : m->flops);
	return picoseconds(compute > seconds ? compute : seconds);
}
