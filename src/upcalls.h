/* SPDX-License-Identifier: MIT */
/* Upcalls: calls from the scheduler into higher floors (rule R4). */
#ifndef GMP_UPCALLS_H
#define GMP_UPCALLS_H

#include "base/base.h"

struct g;
struct m;

/* Each pointer has one value, set in run/run.c or, for the last three, in observe/check/check.c.
 * NULL in the last four: off. */
struct upcalls {
	/* A joinable G has ended; on g0: wait/join.c:green_exited. */
	void (*joinable_exit)(struct g *gp);
	/* An M, in its outermost P section and on the stack of its G, was asked for its P; locks
	 * before LR_SCHED may be held.  Returns true if it has given the P up:
	 * policy/take.c:sched_give_p_up. */
	bool (*give_p_up)(struct m *m);
	/* An OS thread that runs one G is about to jump out of its calls; on its stack, no locks
	 * held: io/cleanup.c:leftovers_killed. */
	void (*thread_killed)(const struct m *m);
	/* A G ends; on its stack; may wait: wait/fls.c:fls_end, with AT_END_LOCALS;
	 * wait/sleep.c:timer_run_ended, with AT_END_TIMER_RUN. */
	void (*locals_end)(struct g *gp);
	void (*timer_run_end)(struct g *gp);
	/* No G can run, no timer is armed, no waiter waits for an fd; on g0.  Reports a deadlock
	 * and ends the process, or returns after how many ns to call it again (NEVER: no need):
	 * observe/dump/deadlock_report.c:report_stall. */
	int64_t (*stalled)(void);
	/* On sysmon, no locks held: observe/dump/dump_signal.c:dump_signal_delegated. */
	void (*on_delegated)(void);
	/* The same; true: call again in a second: observe/dump/cycle.c:cycles_watch. */
	bool (*long_waits)(void);
	/* The same; returns when to call again.  now: os_now.
	 * observe/trace/schedtrace.c:schedtrace_report. */
	int64_t (*schedtrace)(int64_t now);
	/* A G has just left its stack, to wait or to end; on g0, no locks held: check.c:on_leave,
	 * on_exit_of. */
	void (*on_leave)(struct g *gp);
	void (*on_exit)(struct g *gp);
	/* A G with RESUME_OBSERVED continues; on g0, no locks held: check.c:on_arrive. */
	void (*on_arrive)(struct g *gp);
};

#endif
