/* SPDX-License-Identifier: MIT */
/*
 * How does an hour pass in a millisecond?
 *
 * In virtual time (GMP_VIRTUAL_TIME) the clock of gmp_now, of timers and of deadlines is a word.  It
 * stands still while a green thread runs or could run; when none can, the M in the poller, which would
 * sleep until the earliest timer, moves the word there instead.
 *
 *   green threads run        the clock stands
 *   all wait                 it jumps to the earliest timer
 *   the same, but one waits for a descriptor, or is in blocking code
 *                            it goes at the pace of the machine's, at most to the earliest timer
 *   all wait, and no timer   as ever: a deadlock, or a wait for external threads
 *
 * Invariants
 *  VT1 Only the M in the poller moves the clock, and never back.
 *  VT2 It jumps under sched.lock, where all Ps are idle, the global queue is empty and nobody waits for
 *      what comes from outside: so nothing was runnable at that instant, and nothing is jumped over
 *      but what external threads do, who are not waited for.
 *  VT3 Who gives up the last P looks whether an M sleeps in the poller, and wakes it (idle.c:
 *      notify_poller), so that the clock does not stand for ever.
 *
 * Replay.  On one P, without external threads, descriptors, blocking code and signals, nothing that the
 * scheduler does depends on the machine's clock or on other threads: timers are looked at by turns and
 * not by cpu_ticks, the watcher leaves the P alone (rt_replays), and no lock is contended, so that
 * neither their order nor that of addresses decides anything.  All that is left to chance are the
 * draws, which the seed begins: it repeats the run step by step.
 *
 * Rejected: a clock that runs by a factor (a test waits for the real time after all, and what it waits
 * for depends on the machine); to hold the clock for external threads (nobody knows when they are done).
 */
#ifndef GMP_VTIME_H
#define GMP_VTIME_H

#include "types.h"

/* Before the run's first green thread; and back to the machine's clock. */
void vtime_begin(void);
void vtime_end(void);

/* The M in the poller would sleep until then: for how many ns really?  0: it is later now. */
int64_t vtime_sleep(int64_t until);
/* It has slept, for that many ns at most. */
void vtime_slept(int64_t ns, int64_t began);

/* The point of the machine's clock at which the wait of an external thread, which sleeps in the kernel,
 * is to end. */
int64_t vtime_real(int64_t deadline);

#endif
