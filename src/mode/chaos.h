/* SPDX-License-Identifier: MIT */
/*
 * How is a fault between threads made likely that shows once a week?
 *
 * Under GMP_DEBUG=chaos all that the runtime leaves open is decided by chance, at each opportunity:
 *
 *   which G runs next   any: at each turn all that a P has goes to the global queue, and one of the first
 *                       in there is drawn; there is no runnext
 *   where               on whichever P draws it: so a G migrates at most of its waits
 *   when                a call that may wait yields now and then though it need not (in builds with debug
 *                       checks); every call on a descriptor does, and so does each checkpoint
 *   wake-ups            a thread is woken late now and then
 *   threads             the watcher interrupts them, and they stand still for up to 50 us wherever they
 *                       are; a system call that sleeps ends with EINTR
 *   TCP                 reads and writes are shorter than what was asked for
 *   stacks              64 KiB where nothing else was said
 *
 * The draws are the P's, so in virtual time on one P a seed repeats the chaos as well; the watcher keeps
 * still there.
 *
 * What it costs while it is off: nothing.  The turn of the scheduler goes by the word `attention`, which
 * it looks at anyhow, reads and writes by the word that says that a descriptor is no socket, and what is
 * left is on paths that make a system call, or is not there in a build without debug checks.
 */
#ifndef GMP_CHAOS_H
#define GMP_CHAOS_H

#include "types.h"

static inline bool chaos_on(void)
{
	return unlikely(ld_rlx(&sched.chaos));
}

/* A number below n. */
uint32_t chaos_draw(uint32_t n);

/* Now and then a moment goes by. */
void chaos_delay(void);

/* How much of a read or write of n bytes is to be done: at least one, if it is any. */
size_t chaos_shorten(size_t n);

/* At the beginning of a call that may wait. */
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
