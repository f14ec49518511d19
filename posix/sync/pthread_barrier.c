/* SPDX-License-Identifier: MIT */
/*
 * Barriers: an implementation for all threads, in the memory of pthread_barrier_t.
 *
 * The state is guarded by the bucket lock of the parking table.  The last thread that arrives
 * claims all waiters and returns PTHREAD_BARRIER_SERIAL_THREAD.  A woken waiter does not touch the
 * barrier, which may be destroyed by then.
 *
 * Invariants
 *   -       While a waiter is queued it counts as arrived, so the barrier exists.  All waiters are
 *           dequeued in the section that the last thread arrives in.
 *   PBAR-2  A signal handler interrupts a wait only while the waiter is queued.  In the handler the
 *           thread does not count as arrived, and it arrives again afterwards: POSIX leaves open
 *           whether the others wait for the end of the handler.
 *
 * Process-shared barriers are libc's alone; green threads wait as blocking code.
 */
#include "posix/sync/parked.h"

/* libc uses the first five words. */
struct barrier {
	uint32_t of_libc[5];
	uint32_t mark; /* OURS: a private barrier */
	uint32_t needed, arrived;
};

enum { OURS = 0x62617272 };

_Static_assert(sizeof(struct barrier) <= sizeof(pthread_barrier_t), "it fits");

static struct barrier *state_of(pthread_barrier_t *bar)
{
	return (struct barrier *)(void *)bar;
}

static bool is_shared(pthread_barrier_t *bar)
{
	return state_of(bar)->mark != OURS;
}

HOOK int pthread_barrier_init(pthread_barrier_t *bar, const pthread_barrierattr_t *attr,
			      unsigned count)
{
	int err = LIBC(pthread_barrier_init)(bar, attr, count), shared = PTHREAD_PROCESS_PRIVATE;

	if (err)
		return err;
	if (attr)
		pthread_barrierattr_getpshared(attr, &shared);
	state_of(bar)->mark = shared == PTHREAD_PROCESS_PRIVATE ? OURS : 0;
	state_of(bar)->needed = count;
	state_of(bar)->arrived = 0;
	return 0;
}

/* libc would wait for threads that are about to leave; ours touch the barrier no more. */
HOOK int pthread_barrier_destroy(pthread_barrier_t *bar)
{
	if (!is_shared(bar))
		return state_of(bar)->arrived ? EBUSY : 0;
	return HOOK_BLOCKING(LIBC(pthread_barrier_destroy)(bar));
}

/* PBAR-2.  If all have arrived meanwhile, the barrier may be gone. */
static void barrier_unwait(struct waiter *w)
{
	pthread_barrier_t *bar = (pthread_barrier_t *)(uintptr_t)park_key(w);
	struct bucket *b = lot_leave(w);

	if (!b)
		return;
	if (park_result(w) == -EINTR) { /* otherwise killed at shutdown */
		state_of(bar)->arrived--;
		*(bool *)park_arg(w) = true;
	}
	lot_unlock(b);
}

/* left: set to true if the caller was interrupted, and no longer counts as arrived. */
static int barrier_wait(pthread_barrier_t *bar, bool *left)
{
	struct barrier *s = state_of(bar);
	struct glist out = { 0 };
	struct bucket *b = lot_lock(bar);

	if (++s->arrived < s->needed) {
		park_in(b, &(struct park_wait){ .key = bar,
						.why = WAIT_PTHREAD_BARRIER | UNCANCELLABLE,
						.unwait = barrier_unwait,
						.arg = left,
						.deadline = NEVER });
		return 0;
	}
	s->arrived = 0;
	lot_wake_all(b, bar, &out);
	lot_unlock_ready(b, &out);
	return PTHREAD_BARRIER_SERIAL_THREAD;
}

HOOK int pthread_barrier_wait(pthread_barrier_t *bar)
{
	int saved = errno, result;
	bool left;

	if (is_shared(bar))
		return HOOK_BLOCKING(LIBC(pthread_barrier_wait)(bar));
	if (hook_parks())
		chaos_point();
	do {
		left = false;
		result = HOOK_WAIT(barrier_wait(bar, &left));
	} while (left);
	errno = saved;
	return result;
}
