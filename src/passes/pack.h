/* Packing of values with lifetimes into one piece of memory. */
#ifndef FS_PACK_H
#define FS_PACK_H

#include "base.h"

struct packed {
	uint32_t from, to; /* when it lives, both included */
	int64_t bytes;
	int64_t offset;    /* out: a multiple of `align` */
};

/*
 * Gives offsets so that no two that live at once overlap; returns the bytes that are needed in all.
 * The same offsets for the same input on every machine.
 */
int64_t pack_values(struct packed *at, uint32_t count, int64_t align);

/* The most bytes (each rounded up to `align`) that live at one time: no packing is smaller. */
int64_t pack_peak(const struct packed *at, uint32_t count, int64_t align);

#endif
