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
 *   poll(now)  runs on sysmon, which has no P, with no lock held.  Returns when the next poll is
 *              due at the latest; NEVER: a poll that another monitor needs is soon enough, and if
 *              there is none, the monitor has nothing to do until an M begins to work.  Polls may
 *              come earlier: a monitor with a period of its own compares `now`.
 *   state      used by sysmon alone, zeroed before the first poll of a run
 *
 * If no monitor is due within BUSY_NS, sysmon sleeps instead of pausing, and the next M that begins
 * to work wakes it (sysmon_sleep).  While a P runs, and for SLEEP_AFTER_NS after that, progress.c
 * is due within BUSY_NS.
 */
#ifndef GMP_MONITOR_H
#define GMP_MONITOR_H

#include "types.h"

enum {
	SHORT_NS = 20 * US, /* between two polls while blocking code or sleepers keep Ps */
	MIXED_NS = 1 * MS,  /* some Ps busy, some idle */
	BUSY_NS = 10 * MS,  /* all Ps busy, or all idle */
	SLEEP_AFTER_NS = S, /* without a switch, until sysmon may sleep */
	DUTY = 20,          /* SYSMON-2 */
};

struct monitor {
	int64_t (*poll)(int64_t now);
	void *state;
	size_t size; /* of the state */
};

extern struct monitor monitor_retake, monitor_progress, monitor_preempt, monitor_fdwait,
	monitor_memory, monitor_chaos;

/* When a P last switched or was busy (progress.c); when sysmon began or sysmon_sleep ended last:
 * no run is known that long. */
extern int64_t active_at, woke_at;

/* Poll the poller, if no M sleeps in it.  The Gs are in no queue until they are submitted:
 * SYSMON-3. */
void poll_for_ps(void);

#endif
