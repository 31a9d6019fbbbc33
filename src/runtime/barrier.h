/*
 * A barrier of threads that can be closed.  It spins, then yields, then sleeps on a futex, so that
 * many more threads than cores make progress.  Arrival and waiting are two calls.
 */
#ifndef FS_BARRIER_H
#define FS_BARRIER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct barrier {
	_Alignas(64) _Atomic uint32_t word; /* two per round; bit 0: closed, no round ends any more */
	_Atomic uint32_t sleepers;
	_Alignas(64) _Atomic uint32_t arrived;
	uint32_t size, spins;
};

void barrier_init(struct barrier *b, uint32_t size, uint32_t spins);
/* Everything written before an arrival is seen by everyone after the wait.  Gives what wait takes. */
uint32_t barrier_arrive(struct barrier *b);
/* True when all have arrived; false, for all of them alike, when it was closed before. */
bool barrier_wait(struct barrier *b, uint32_t round);
void barrier_close(struct barrier *b);
bool barrier_is_closed(const struct barrier *b);

#endif
