/* SPDX-License-Identifier: MIT */
/*
 * pthread_once: an implementation for all threads.
 *
 * State word, with the values that glibc has for 0 and DONE
 *   0                   no call yet
 *   RUNNING             the function runs
 *   RUNNING | WAITED    the same; a waiter may be queued.  WAITED is set under the bucket lock, in
 *                       the section that enqueues the waiter
 *   DONE                the function has returned; final
 * The bits above are the generation of the process, with RUNNING.
 *
 * Invariants
 *   -        The caller that writes RUNNING runs the function; all others wait until the word has
 *            changed, and check it again.
 *   PONCE-2  If the function does not return (an exception, pthread_cancel, pthread_exit), the word
 *            is 0 again, and one of the waiters runs it.  This file is compiled with -fexceptions.
 *   -        In the child of a fork the generation differs: a call that the parent's other threads
 *            have begun begins again.
 *   -        A call without contention locks no bucket: libgcc's unwinder calls pthread_once, also
 *            when the runtime unwinds with a bucket locked.  With contention such a caller, and
 *            a handler (is_unsafe), yields its CPU instead of parking.
 */
#include "base/os.h"
#include "posix/sync/parked.h"

enum { RUNNING = 1, DONE = 2, WAITED = 4, GENERATION = 8 };

static uint32_t generation; /* of the process, in units of GENERATION */

static uint32_t *word_of(pthread_once_t *once)
{
	return (uint32_t *)(void *)once;
}

static bool is_running(uint32_t s)
{
	return (s & ~(uint32_t)WAITED) == (generation | RUNNING);
}

/* Write the word, and wake all waiters, which count in WAITED.  Leaves errno as it was. */
static void once_set(pthread_once_t *once, uint32_t to)
{
	uint32_t s = generation | RUNNING;
	int saved = errno;
	struct glist out = { 0 };

	if (likely(cas_rel(word_of(once), &s, to))) /* ORD(once) */
		return;
	if (is_unsafe()) {
		st_rel(word_of(once), to); /* ORD(once) */
		parked_wake_later(once);
		return;
	}
	signals_hold();
	struct bucket *b = lot_lock(once);

	st_rel(word_of(once), to); /* ORD(once) */
	lot_wake_all(b, once, &out);
	lot_unlock_ready(b, &out);
	signals_release();
	errno = saved;
}

/* PONCE-2 */
static void once_reset(void *once)
{
	once_set(once, 0);
}

static void once_run(pthread_once_t *once, void (*fn)(void))
{
	pthread_cleanup_push(once_reset, once);
	fn();
	pthread_cleanup_pop(0);
	once_set(once, DONE);
}

/* Wait until the function does not run, or a handler interrupts. */
static void once_await(pthread_once_t *once)
{
	if (is_unsafe()) {
		os_yield();
		return;
	}
	struct bucket *b = lot_lock(once);
	uint32_t s = ld_rlx(word_of(once));

	while (is_running(s)) {
		if (!cas_rlx(word_of(once), &s, s | WAITED))
			continue;
		park_in(b, &(struct park_wait){ .key = once,
						.why = WAIT_PTHREAD_ONCE | UNCANCELLABLE,
						.unwait = lot_unwait,
						.deadline = NEVER });
		return;
	}
	lot_unlock(b);
}

HOOK int pthread_once(pthread_once_t *once, void (*fn)(void))
{
	int saved = errno;
	uint32_t s;

	while ((s = ld_acq(word_of(once))) != DONE) { /* ORD(once) */
		if (is_running(s)) {
			HOOK_WAIT((once_await(once), 0));
			errno = saved;
		} else if (cas_acq(word_of(once), &s, generation | RUNNING)) { /* ORD(once) */
			once_run(once, fn);
			break;
		}
	}
	return 0;
}

static void next_generation(void)
{
	generation += GENERATION;
}

IN_FORK_CHILD(next_generation)
