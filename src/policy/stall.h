/* SPDX-License-Identifier: MIT */
/*
 * Stall detection: tells whether a G can still become runnable, and by what.
 *
 * The answers are unlocked reads: they hold for as long as no external thread, timer or event
 * changes them.  A report of a deadlock re-checks under sched.lock (sched_stalled_locked).
 */
#ifndef GMP_STALL_H
#define GMP_STALL_H

#include "types.h"

/* No P has an M.  A P that must be retired and still runs counts as one with an M, and so does a P
 * whose M may return from blocking code at any time. */
bool sched_all_idle(void);
/* No G runs, waits for an fd or is in blocking code: only a timer can make a G runnable.  Except Gs
 * of a debug server that accept. */
bool sched_only_time(void);
/* The same, except all Gs of debug servers, and no timer would make a G runnable. */
bool sched_is_stalled(void);
/* The same in a critical section of sched.lock. */
bool sched_stalled_locked(void);
/* The process has, or may have, external threads, which may wake a G: OS threads other than the
 * runtime's, and than the caller of gmp_run.  exact: io_uring's workers are not taken for such;
 * needs a file descriptor. */
bool sched_external_threads(bool exact);
/* n timers, 0 or 1, wake only a G of the runtime, and matter no more than those of fd deadlines.
 * Set by that G before and after its sleep, and at the start of a run. */
void sched_ignore_timers(uint32_t n);

#endif
