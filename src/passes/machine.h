/*
 * Machine tables and prices: what a local op and a collective cost, in picoseconds and bytes.  Plans hang on
 * them; what a run would take is for rates.h to say.
 */
#ifndef FS_MACHINE_H
#define FS_MACHINE_H

#include "rule.h"

struct machine {
	const char *name;
	double flops;     /* of a local matmul in bf16, a second */
	double memory;    /* bytes a second */
	double link;      /* bytes a second that a rank sends */
	double latency;   /* seconds of a collective, whatever its size */
};

/* NULL: the default, h100.  An unknown name is an error that lists the names. */
enum fs_status machine_find(const char *name, const struct machine **out, struct diag *d);

#define PRICE_INF ((uint64_t)1 << 60)

/* Bytes a rank sends to turn label `from` of a value into `to`; shape: of all ranks of this axis together. */
int64_t move_bytes(const int64_t *shape, int rank, int item, label from, label to, int32_t ranks);
/* Time of the same: PRICE_INF where it cannot be; a slice is nearly free, nothing costs nothing. */
uint64_t move_price(const struct machine *m, const int64_t *shape, int rank, int item, label from, label to,
		    int32_t ranks);
uint64_t slice_price(void);
/* Flops of a product with these local shapes (operands, then the result); 0: op n is none. */
double op_flops(const struct graph *g, struct node_id n, const int64_t (*shape)[MAX_RANK]);
/* Time of op n with these local shapes (operands, then the result). */
uint64_t op_price(const struct machine *m, const struct graph *g, struct node_id n, const int64_t (*shape)[MAX_RANK]);
/* Time of a collective of a local program. */
uint64_t collective_price(const struct machine *m, const struct graph *g, struct node_id n);
/* Time of all that a local program (stage local or fp8) does: op_price() on local shapes, and collectives. */
uint64_t graph_price(const struct machine *m, const struct graph *g);

#endif
