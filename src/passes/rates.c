/*
 * The table of rates and the time of a collective (docs/performance.md says how they are meant).
 *
 * Sources, by column
 *   flops       h100, h200, b200 in bf16 and fp8: the best that was measured, stas00/ml-engineering, compute/accelerator
 *               (h200 in bf16: as h100).  f32: 0.78 of the data sheet, the share torchao's roofline takes for
 *               products.  cpu: make bench, one core of an EPYC with AVX-512, f32 and fp8 alike
 *   peak        NVIDIA's data sheets, dense, SXM
 *   memory      h200: a copy, measured.  h100, b200: 0.92 of 3.35e12 and of 7.67e12 (what b200's driver says), torchao's share.
 *               cpu: a memcpy beside another one, 13.4e9 bytes a second that are read and written, there
 *   launch      torchao's roofline; cpu: not counted
 *   workspace   what cuBLASLt is given from sm_90 on in Transformer Engine
 *   bus         h200: nccl-tests, NCCL 2.27.7, 8 ranks, 16 GiB (ml-engineering); all_to_all: a copy between two of them.
 *               h100: has the same links.  b200: twice the links of h200, scaled.  cpu: make bench, 2 ranks, 64 MiB
 *   in_switch   480e9 of bus bandwidth, in the same run, is 480e9 / (2 * 7/8) of payload.  b200: twice the links at
 *               .74 / .85 of their efficiency in NCCL's graph/tuning.cc
 *   nic         400 Gbit/s for each GPU, the data sheet's
 *   protocols   NCCL 2.28's graph/tuning.cc: LL, LL128, Simple; the caps of LL are those of Hopper
 */
#include "rates.h"

#include <math.h>
#include <string.h>

/*                                          share          base     inside   across  most */
static const struct protocol nccl_ring[] = { { .5,          6.6e-6,  .6e-6,   2.7e-6, 141e9, 35e9 },
					     { .92,         14e-6,   1.9e-6,  4e-6,   0,     0 },
					     { 1,           8.4e-6,  3.4e-6,  14e-6,  0,     0 } };
static const struct protocol nccl_tree[] = { { .92 / 3.8,   6.8e-6,  .6e-6,   5e-6,   141e9, 35e9 },
					     { .92 * 7 / 9, 14e-6,   1.25e-6, 8.5e-6, 0,     0 },
					     { .92,         8.4e-6,  4e-6,    14e-6,  0,     0 } };
static const struct protocol cpu_ring[] = { { .share = 1, .base = .3e-6 } };

#define MIB (1024.0 * 1024)
#define NVLINK(times, switch_times)                                                                           \
	.node_ranks = 8, .all_gather = times * 361e9, .reduce_scatter = times * 363e9, .all_reduce = times * 367e9, \
	.all_to_all = times * 396e9, .in_switch = switch_times * 480e9 / 1.75, .in_switch_base = 25e-6, .nic = 50e9, \
	.ring = nccl_ring, .tree = nccl_tree, .protocols = 3, .launch = 2e-6, .workspace = 32 * MIB

/* In fp8, in f16 and bf16, in f32. */
static const struct rates table[] = {
	{ .name = "h100", .flops = { 1403e12, 794e12, .78 * 67e12 }, .peak = { 1979e12, 989e12, 67e12 },
	  .memory = .92 * 3.35e12, .memory_bytes = 80e9, NVLINK(1, 1) },
	{ .name = "h200", .flops = { 1453e12, 794e12, .78 * 67e12 }, .peak = { 1979e12, 989e12, 67e12 },
	  .memory = 4.3e12, .memory_bytes = 141e9, NVLINK(1, 1) },
	{ .name = "b200", .flops = { 3432e12, 1745e12, .78 * 75e12 }, .peak = { 4500e12, 2250e12, 75e12 },
	  .memory = .92 * 7.67e12, .memory_bytes = 180e9, NVLINK(2, 2 * .74 / .85) },
	{ .name = "cpu", .flops = { 130e9, 130e9, 130e9 }, .memory = 27e9, .all_gather = 13.4e9, .reduce_scatter = 9e9,
	  .all_reduce = 12.8e9, .all_to_all = 6.1e9, .ring = cpu_ring, .protocols = 1 },
};

const struct rates *rates_of(const char *machine)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(table[i].name, machine) == 0)
			return &table[i];
	BUG("no rates of %s", machine);
}

bool rates_summable(enum dtype t, const char *reduce)
{
	return t == DT_F16 || t == DT_BF16 || (t == DT_F32 && reduce != NULL && strcmp(reduce, "sum") == 0);
}

static double least(double a, double b)
{
	return a < b ? a : b;
}

static double speed(const struct protocol *p, double bus, struct group g)
{
	double most = g.nodes > 1 ? p->most_across : p->most_inside;
	return most > 0 ? least(p->share * bus, most) : p->share * bus;
}

/*
 * A ring through all ranks of a node, then to the next node; as many of them as a node has ranks of the group, each of which
 * leaves the node by the NIC of another rank.  times: 2 for an all_reduce, which goes round twice.
 */
static double ring_seconds(const struct protocol *p, double bus, double bytes, struct group g, int times)
{
	double across = (double)(times * (g.nodes - 1)), inside = (double)(times * (g.ranks - 1)) - across;
	return p->base + inside * p->inside + across * p->across + bytes / speed(p, bus, g);
}

/* Up a tree and down again: each rank of a node in a chain, nodes in a binary tree.  A rank sends the payload twice. */
static double tree_seconds(const struct protocol *p, double bus, double payload, struct group g)
{
	double hops = (double)(g.ranks / g.nodes - 1) * p->inside + ceil(log2((double)g.nodes)) * p->across;
	return p->base + 2 * hops + 2 * payload / speed(p, bus, g);
}

/* Each to each other at once: over NVLink to those of the node, over its NIC to the rest. */
static double exchange_seconds(const struct rates *r, const struct protocol *p, double bytes, struct group g)
{
	double to_one = bytes / (double)(g.ranks - 1), here = (double)(g.ranks / g.nodes);
	double inside = (here - 1) * to_one / speed(p, r->all_to_all, (struct group){ g.ranks, 1 });
	if (g.nodes == 1)
		return p->base + p->inside + inside;
	double across = ((double)g.ranks - here) * to_one / speed(p, r->nic, g);
	return p->base + p->across + (across > inside ? across : inside);
}

static double bus_bandwidth(const struct rates *r, enum op op, struct group g)
{
	double bus = op == OP_ALL_GATHER ? r->all_gather : op == OP_REDUCE_SCATTER ? r->reduce_scatter : r->all_reduce;
	return g.nodes > 1 ? least(bus, (double)(g.ranks / g.nodes) * r->nic) : bus;
}

static double all_reduce_seconds(const struct rates *r, double bytes, struct group g, bool summable)
{
	double bus = bus_bandwidth(r, OP_ALL_REDUCE, g), best = INFINITY;
	double payload = bytes * (double)g.ranks / (2 * (double)(g.ranks - 1));
	for (int i = 0; i < r->protocols; i++) {
		best = least(best, ring_seconds(&r->ring[i], bus, bytes, g, 2));
		if (r->tree != NULL)
			best = least(best, tree_seconds(&r->tree[i], bus, payload, g));
	}
	if (summable && r->in_switch > 0 && g.nodes == 1)
		best = least(best, r->in_switch_base + payload / r->in_switch);
	return best;
}

double rates_collective(const struct rates *r, enum op op, double bytes, struct group g, bool summable)
{
	double best = INFINITY;
	if (g.ranks <= 1 || bytes <= 0)
		return 0;
	if (op == OP_ALL_REDUCE)
		return all_reduce_seconds(r, bytes, g, summable);
	for (int i = 0; i < r->protocols; i++)
		best = least(best, op == OP_ALL_TO_ALL ? exchange_seconds(r, &r->ring[i], bytes, g)
						       : ring_seconds(&r->ring[i], bus_bandwidth(r, op, g), bytes, g, 1));
	return best;
}
