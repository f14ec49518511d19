/* SPDX-License-Identifier: MIT */
/*
 * Chaos mode (GMP_DEBUG=chaos): random decisions wherever the runtime makes no promise, to expose
 * races.
 *
 *   next G         any: at each scheduling round a P moves its queues to the global queue and
 *                  draws one of the first Gs there; there is no runnext
 *   P              the P that draws the G, so a G migrates at most of its waits
 *   yields         a call that may wait sometimes yields first (in builds with debug checks); each
 *                  call on an fd and each checkpoint does
 *   wakeups        some wakeups of an OS thread are late
 *   preemption     sysmon interrupts the OS threads, which then stop for up to 50 us at any
 *                  instruction; a system call that sleeps and that the kernel does not restart
 *                  (signal(7): nanosleep, poll, one with a timeout of its socket) returns EINTR
 *   TCP            reads and writes transfer less than the caller asked for
 *   stacks         64 KiB if the program sets no size
 *
 * The draws come from the generator of the P, so in virtual time on one P a seed repeats the chaos
 * too; sysmon sends no signals there.
 *
 * Cost while it is off: none on fast paths.  The scheduler checks the word `attention` in any
 * case, reads and writes check a word that marks an fd as no socket, and the other decisions are
 * on paths with a system call or in builds with debug checks.
 */
#ifndef GMP_CHAOS_H
#define GMP_CHAOS_H

#include "types.h"

static inline bool chaos_on(void)
{
	return unlikely(ld_rlx(&sched.chaos));
}

/* Returns a pseudo-random number below n. */
uint32_t chaos_draw(uint32_t n);

/* Sleeps for up to 100 us, in one of 64 calls. */
void chaos_delay(void);

/* Returns how many of the n bytes a read or write must transfer: at least 1, if n > 0. */
size_t chaos_shorten(size_t n);

/* Called at the start of a call that may wait: sometimes yields. */
#ifdef GMP_DEBUG_CHECKS
void gmp__chaos_point(void);
static inline void chaos_point(void)
{
	if (chaos_on())
		gmp__chaos_point();
}
#else
static inline void chaos_point(void)
{
}
#endif

#endif
