/* SPDX-License-Identifier: MIT */
/*
 * Virtual time (GMP_VIRTUAL_TIME): a clock that jumps to the next timer while all green threads
 * wait.
 *
 * The clock of gmp_now, of timers and of deadlines is a word, sched.virtual_now:
 *
 *   a green thread runs or is runnable     the clock does not advance
 *   all wait                               the M in the poller, which would sleep until the
 *                                          earliest timer, sets the clock to it instead
 *   all wait, one of them for an fd,       the clock advances with the clock of the machine, at
 *   most to or one is in blocking code             the earliest timer all wait, and no timer is
 *   armed        as in real time: a deadlock, or a wait for external threads
 *
 * Invariants
 *  VTIME-1  Only the M in the poller changes the clock, and never back.
 *  VTIME-2  The clock jumps under sched.lock, if all Ps are idle, the global queue is empty and no
 *           G waits for an external event.  So no G was runnable at that instant.  External
 *           threads are not waited for.
 *  VTIME-3  An M that releases the last P checks whether an M sleeps in the poller, and wakes it
 *           (idle.c:notify_poller); otherwise the clock could stop indefinitely.
 *
 * Replay: on one P, without external threads, fds, blocking code and signals, no decision of the
 * scheduler depends on the clock of the machine or on other OS threads.  Timers are polled after a
 * number of scheduling rounds, not by cpu_ticks; sysmon does not touch the P (rt_replays); no lock
 * is contended, so the order of lockers and of addresses decides nothing.  Only the random draws
 * are left, and the seed determines them: a seed repeats the run step by step.
 *
 * Rejected
 *   A clock that is faster by a factor: a test still waits in real time, and its result depends on
 *   the machine.  A clock that waits for external threads: the runtime does not know when they are
 *   done.
 */
#ifndef GMP_VTIME_H
#define GMP_VTIME_H

#include "types.h"

/* Switches to virtual time, before the first green thread of a run; and back. */
void vtime_begin(void);
void vtime_end(void);

#endif
