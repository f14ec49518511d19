/* SPDX-License-Identifier: MIT */
/*
 * Replaces __register_atfork, which pthread_atfork calls: in the child of a fork the handlers of
 * this library run before all others.
 *
 * libc runs the handlers of the child in the order of their registration.  Libraries register them
 * in constructors, which run before those of a preloaded library.  Without this file such a handler
 * would meet the runtime of the parent, and would wait for threads that the child does not have.
 *
 *   the first call, of any library   registers run_own, then what it was called for
 *   a call of this library           adds to the list of run_own
 *
 * Handlers of this library neither allocate nor free memory: a malloc that is not libc's may have
 * locks that its own handler, which comes later, releases.  atfork_late registers the handler that
 * needs memory.  A child without libc's fork (clone.c) calls both by atfork_copied.
 */
#include "posix/program/atfork.h"

#include "base/atomic.h"
#include "posix/call/hook.h"
#include "posix/thread/alive.h"

/* What pthread_atfork gives for this library. */
extern void *__dso_handle __attribute__((visibility("hidden")));

enum { OWN_MOST = 32 };

static struct {
	uint32_t n;                    /* (a) */
	void (*child[OWN_MOST])(void); /* (a) NULL: not written yet */
} own;

static void run_own(void)
{
	uint32_t n = min_of(ld_rlx(&own.n), (uint32_t)OWN_MOST);

	for (uint32_t i = 0; i < n; i++) {
		void (*child)(void) = ld_rlx(&own.child[i]);

		if (child)
			child();
	}
}

/* Returns false if there is no room. */
static bool add_own(void (*child)(void))
{
	uint32_t i = add_rlx(&own.n, 1);

	if (i < OWN_MOST)
		st_rlx(&own.child[i], child);
	return i < OWN_MOST;
}

static int register_own(void)
{
	static uint32_t registered;

	if (add_rlx(&registered, 1))
		return 0;
	return LIBC(__register_atfork)(NULL, NULL, run_own, __dso_handle);
}

HOOK int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void),
			   void *dso)
{
	int err = likely(ld_rlx(&own.n)) ? 0 : register_own();

	if (err)
		return err;
	if (dso == __dso_handle && !prepare && !parent && add_own(child))
		return 0;
	return LIBC(__register_atfork)(prepare, parent, child, dso);
}

/* Of run_main.c. */
static void (*late)(void); /* (c) after the constructors */

int atfork_late(void (*child)(void))
{
	late = child;
	return LIBC(__register_atfork)(NULL, NULL, child, __dso_handle);
}

void atfork_prepare_copy(void)
{
	if (program_is_whole())
		tlsblock_prepare_second();
}

void atfork_copied(void)
{
	run_own();
	if (late)
		late();
}
