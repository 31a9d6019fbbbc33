/*
 * What machines do: rates from which estimate.h makes times.  The solver has prices of its own (machine.h), since
 * plans hang on those; these may follow each new measurement.
 */
#ifndef FS_RATES_H
#define FS_RATES_H

#include "ir.h"

/* Operands of a product: fp8 codes; of 2 bytes or less; larger ones. */
enum number { NUMBER_FP8, NUMBER_HALF, NUMBER_SINGLE, NUMBER_COUNT };

/* One way to send: its share of the bus bandwidth, and seconds it takes whatever the size. */
struct protocol {
	double share;
	double base, inside, across; /* to start; for a hop inside a node, and to another one */
	double most_inside, most_across; /* bytes a second at most, in one node, over several; 0: no limit */
};

struct rates {
	const char *name;              /* that of a machine */
	double flops[NUMBER_COUNT];    /* of large products, a second */
	double peak[NUMBER_COUNT];     /* the same in the data sheet; 0: not known */
	double memory;                 /* bytes read or written a second */
	double memory_bytes;           /* a rank has; 0: not known */
	double launch;                 /* seconds of an op, beside what it computes and reads */
	double workspace;              /* bytes of a rank for its libraries */
	int node_ranks;                /* a node has; 0: there is one node, of any size */
	double all_gather, reduce_scatter, all_reduce, all_to_all; /* bus bandwidth in a node, bytes a second */
	double in_switch;              /* payload of an all_reduce summed by the switch of a node, bytes a second; 0: it cannot */
	double in_switch_base;         /* seconds */
	double nic;                    /* bytes a second that a rank sends to other nodes */
	const struct protocol *ring, *tree; /* `protocols` of each; tree NULL: none */
	int protocols;
};

/* Those of the machine of this name (machine_find); every machine has them. */
const struct rates *rates_of(const char *machine);

/* The ranks of a collective: so many on each of `nodes` nodes. */
struct group { int64_t ranks, nodes; };

/*
 * Seconds of a collective of a group in which each rank sends `bytes` (collective_bytes).  summable: an all_reduce
 * that a switch can do (rates_summable).  The fastest way is taken, as NCCL does.  0 where there is nothing to send.
 */
double rates_collective(const struct rates *r, enum op op, double bytes, struct group g, bool summable);
/* NVLink SHARP reduces f16 and bf16, and sums of f32. */
bool rates_summable(enum dtype t, const char *reduce);

#endif
