/* SPDX-License-Identifier: MIT */
/* Upcalls: calls from the scheduler into higher floors (rule R4), with their types. */
#ifndef GMP_UPCALLS_H
#define GMP_UPCALLS_H

#include "base/base.h"

struct g;
struct m;

/* A joinable G has ended; on g0. */
typedef void (*exit_fn)(struct g *gp);

/* An OS thread that runs one G is about to jump out of its calls; on its stack, no locks held. */
typedef void (*kill_fn)(const struct m *m);

/* An M, in its outermost P section and on the stack of its G, was asked for its P; locks before
 * LR_SCHED may be held.  Returns true if it has given the P up. */
typedef bool (*give_fn)(struct m *m);

/* A G ends; on its stack; may wait. */
typedef void (*end_fn)(struct g *gp);

/* No G can run, no timer is armed, no waiter waits for an fd.  Reports a deadlock and ends the
 * process, or returns after how many ns to call it again (NEVER: no need). */
typedef int64_t (*stall_fn)(void);

/* On sysmon, no locks held. */
typedef void (*delegated_fn)(void);

/* The same; returns when to call again.  now: os_now. */
typedef int64_t (*sched_fn)(int64_t now);

/* The same; true: call again in a second. */
typedef bool (*watch_fn)(void);

/* Observes a G that has just left its stack, to wait or to end; on g0, no locks held. */
typedef void (*observe_fn)(struct g *gp);

/* Each pointer has one value, set in run/run.c or, for the last three, in observe/check/check.c.
 * NULL in the last four: off. */
struct upcalls {
	exit_fn joinable_exit;     /* spawn.c:green_exited */
	give_fn give_p_up;         /* handoff.c:sched_give_p_up */
	kill_fn thread_killed;     /* io/cleanup.c:leftovers_killed */
	end_fn locals_end;         /* wait/fls.c:fls_end, with AT_END_LOCALS */
	end_fn timer_run_end;      /* wait/sleep.c:timer_run_ended, with AT_END_TIMER_RUN */
	stall_fn stalled;          /* observe/dump/deadlock_report.c:report_stall; on g0 */
	delegated_fn on_delegated; /* observe/dump/dump_signal.c:dump_signal_delegated */
	watch_fn long_waits;       /* observe/dump/cycle.c:cycles_watch */
	sched_fn schedtrace;       /* observe/trace/schedtrace.c:schedtrace_report */
	observe_fn on_leave;       /* observe/check/check.c:on_leave */
	observe_fn on_exit;        /* observe/check/check.c:on_exit_of */
	observe_fn on_arrive;      /* observe/check/check.c:on_arrive, with RESUME_OBSERVED */
};

#endif
