/* SPDX-License-Identifier: MIT */
/*
 * Stall detection: tells whether a G can still become runnable, and by what.
 *
 * The answers are unlocked reads: they hold for as long as no external thread, timer or event changes
 * them.  A report of a deadlock re-checks under sched.lock (sched_stalled_locked).
 */
#ifndef GMP_STALL_H
#define GMP_STALL_H

#include "types.h"

/* No M runs a P.  A P that is to be removed and still runs counts as run, and so does one whose M may
 * return from blocking code at any time. */
bool sched_all_idle(void);
/* No G runs, waits for a file descriptor or is in blocking code: only a timer can make one ready. */
bool sched_only_time(void);
/* sched_only_time, and no timer would make a G runnable. */
bool sched_is_stalled(void);
/* The same under sched.lock, which it takes. */
bool sched_stalled_locked(void);

#endif
