/* See barrier.h.  One word decides between "all arrived" and "closed", so all threads agree. */
#include "barrier.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOSED 1u
#define YIELDS 100

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

void barrier_init(struct barrier *b, uint32_t size, uint32_t spins)
{
	atomic_init(&b->word, 0);
	atomic_init(&b->sleepers, 0);
	atomic_init(&b->arrived, 0);
	b->size = size;
	b->spins = spins;
}

static void wake(struct barrier *b)
{
	if (atomic_load(&b->sleepers) > 0)
		futex_wake_all(&b->word);
}

uint32_t barrier_arrive(struct barrier *b)
{
	uint32_t round = atomic_load(&b->word);
	if (round & CLOSED)
		return round;
	if (atomic_fetch_add(&b->arrived, 1) + 1 < b->size)
		return round;
	uint32_t expected = round;
	atomic_store(&b->arrived, 0); /* before the word: the next round starts when it changes */
	if (atomic_compare_exchange_strong(&b->word, &expected, round + 2))
		wake(b);
	return round;
}

/* Spins a while, then yields a while, until the word is not `value`. */
static bool changed_soon(struct barrier *b, uint32_t value)
{
	for (uint32_t i = 0; i < b->spins; i++) {
		if (atomic_load_explicit(&b->word, memory_order_acquire) != value)
			return true;
		pause_cpu();
	}
	for (int i = 0; i < YIELDS; i++) {
		if (atomic_load_explicit(&b->word, memory_order_acquire) != value)
			return true;
		sched_yield();
	}
	return false;
}

bool barrier_wait(struct barrier *b, uint32_t round)
{
	if (round & CLOSED)
		return false;
	if (!changed_soon(b, round)) {
		atomic_fetch_add(&b->sleepers, 1);
		while (atomic_load(&b->word) == round)
			futex_wait(&b->word, round);
		atomic_fetch_sub(&b->sleepers, 1);
	}
	return (atomic_load(&b->word) & ~CLOSED) != round;
}

void barrier_close(struct barrier *b)
{
	atomic_fetch_or(&b->word, CLOSED);
	wake(b);
}

bool barrier_is_closed(const struct barrier *b)
{
	return atomic_load(&b->word) & CLOSED;
}
