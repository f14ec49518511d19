/* SPDX-License-Identifier: MIT */
/*
 * Monitors: the tasks of sysmon, each a function and its state, in a file of its own.
 *
 *   retake.c    Ps whose M is in blocking code
 *   progress.c  Ps that do not switch, or switch rarely
 *   preempt.c   Ps whose G computes for long, or sleeps in the kernel
 *   fdwait.c    waits for file descriptors
 *   memory.c    memory of stacks, OS threads that have ended
 *   chaos.c     GMP_DEBUG=chaos
 *
 * At each poll sysmon (sysmon.c) calls the functions in the order of its table, and then pauses
 * until the earliest time that one of them has returned.
 *
 *   poll(now)  runs on sysmon, which has no P, with no lock held.  Returns the time by which it
 *              must be called again (os_now), or NEVER: it needs no call until an M begins to work.
 *              Calls may come earlier, so a monitor with a period compares `now` with the end of
 *              the period.
 *   state      used by sysmon alone, zeroed when a run of the runtime starts
 *
 * If the earliest of these times is more than BUSY_NS away, and all Ps are idle, sysmon sleeps
 * until then instead of pausing; an M that begins to work ends the sleep, not a pause
 * (sysmon_sleep).
 * While a P runs, and until no P has switched for SLEEP_AFTER_NS, progress.c is due within BUSY_NS.
 */
#ifndef GMP_MONITOR_H
#define GMP_MONITOR_H

#include "types.h"

enum { DUTY = 20 }; /* a long pass uses 1/DUTY of a CPU: SYSMON-2 of sysmon.c */

struct monitor {
	int64_t (*poll)(int64_t now);
	void *state;
	size_t size; /* of the state */
};

extern struct monitor monitor_retake, monitor_progress, monitor_preempt, monitor_fdwait,
	monitor_memory, monitor_chaos;

/* active_at: when a P last switched or was busy (progress.c).  woke_at: when sysmon started or last
 * woke; what a P did before that is not known. */
extern int64_t active_at, woke_at;

/* Poll the poller and submit the Gs that it makes runnable, if no M sleeps in it.  On sysmon, no
 * locks held.  SYSMON-3. */
void poll_for_ps(void);

#endif
