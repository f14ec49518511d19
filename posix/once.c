/* SPDX-License-Identifier: MIT */
/*
 * pthread_once: an implementation for all threads.
 *
 * State word, with glibc's values: 0 (no call yet), RUNNING and the generation of the process, or
 * DONE.  It changes under the bucket lock of the parking table; callers read DONE without it.
 *
 * Invariants
 *   PONCE-1  The caller that writes RUNNING runs the function; all others wait until the word has
 *            changed, and check it again.
 *   PONCE-2  If the function does not return (an exception, pthread_cancel, pthread_exit), the word
 *            is 0 again, and one of the waiters runs it.  This file is compiled with -fexceptions.
 *   PONCE-3  In the child of a fork the generation differs: a call that the parent's other threads
 *            have begun begins again.
 */
#include "mode/chaos.h"
#include "posix/sync.h"

enum { RUNNING = 1, DONE = 2, GENERATION = 4 };

static uint32_t generation; /* of the process, in units of GENERATION */

static uint32_t *word_of(pthread_once_t *once)
{
	return (uint32_t *)(void *)once;
}

/* Write the word, and wake all waiters.  Leaves errno as it was. */
static void once_set(pthread_once_t *once, uint32_t to)
{
	int saved = errno;
	struct glist out = { 0 };
	struct bucket *b = lot_lock(once);

	st_rel(word_of(once), to); /* ORD(once) */
	lot_wake_all(b, once, &out);
	lot_unlock(b);
	ready_list(&out);
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

/* Begin the call, if it has not begun.  Otherwise wait until the word changes, and return false. */
static bool once_begin(pthread_once_t *once)
{
	struct external f;
	struct bucket *b = lot_lock(once);
	uint32_t s = ld_rlx(word_of(once));

	if (s == DONE || s == (generation | RUNNING)) {
		struct sudog *sg = self_sudog(&f);

		if (s == DONE) {
			lot_unlock(b);
			return false;
		}
		lot_enqueue(b, once, sg, false);
		lot_wait(b, sg, WAIT_PTHREAD_ONCE | UNCANCELLABLE, lot_unwait, NEVER);
		return false;
	}
	st_rlx(word_of(once), generation | RUNNING);
	lot_unlock(b);
	return true;
}

void once_call(pthread_once_t *once, void (*fn)(void))
{
	int saved = errno;

	while (ld_acq(word_of(once)) != DONE) { /* ORD(once) */
		bool begun = hook_how() == HOOK_BLOCK ? HOOK_BLOCKING(once_begin(once))
						      : once_begin(once);

		if (begun) {
			errno = saved;
			once_run(once, fn);
			return;
		}
		errno = saved;
	}
}

HOOK int pthread_once(pthread_once_t *once, void (*fn)(void))
{
	once_call(once, fn);
	return 0;
}

static void next_generation(void)
{
	generation += GENERATION;
}

__attribute__((constructor)) static void register_fork_handler(void)
{
	pthread_atfork(NULL, NULL, next_generation);
}
