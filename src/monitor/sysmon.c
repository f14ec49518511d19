/* SPDX-License-Identifier: MIT */
/*
 * sysmon: the monitor thread, which has no P and polls the state of all Ps.
 *
 * Each subject is a monitor (monitor.h) in the table below.  This file has the loop, the pause
 * between two polls, and the sleep while nothing runs.
 *
 * Intervals: MIXED_NS while some Ps are busy and some idle, or a green thread keeps others waiting,
 * and otherwise BUSY_NS while all are busy (progress.c).  SHORT_NS after a P was taken from
 * blocking code (retake.c) or from a thread that sleeps (preempt.c).  sysmon sleeps indefinitely
 * when nothing has run for SLEEP_AFTER_NS, no memory is left to return to the kernel, and no fd can
 * be closed; the M that begins to work again wakes it (sched.sysmon_asleep).
 *
 * Work is also delegated to sysmon (sched.delegated): a signal asks for a dump, or a handler of the
 * program has ended a wait.  Both end the pause between two polls (sched.sysmon_called).
 *
 * Invariants
 *  SYSMON-1  It touches the stack of a parked G only while it holds the waiter (WAITER_BUSY).  A
 *            waker spins for those microseconds.
 *  SYSMON-2  Passes over all Gs use at most 1/DUTY of a CPU, and so do passes over waits, however
 *            many there are: from about 100,000 waits on, a pass takes longer than a second.
 *  SYSMON-3  While sysmon has Gs that it took from the poller or from an fd and that are in no
 *            queue yet, it counts in sched.npollwait (report_suspend), for more than the waits of
 *            debug servers.  Otherwise an M that reads both counts as 0 in between would report a
 *            deadlock.  An M that meanwhile found none, because sysmon counted, must check again:
 *            report_resume wakes it.
 */
#include "monitor/sysmon.h"

#include "base/os.h"
#include "monitor/monitor.h"
#include "observe/longrun.h"
#include "policy/spare.h"
#include "policy/stall.h"

enum { MONITOR_STACK = 256 * 1024 }; /* signal handlers of the program run here */

/* In this order: monitor_progress before what compares with active_at. */
static struct monitor *const monitors[] = {
	&monitor_retake,
	&monitor_progress,
	&monitor_preempt,
	&monitor_fdwait,
	&monitor_memory,
	&monitor_chaos,
	NULL,
};

static struct {
	pthread_t thread;
	uint32_t stop; /* (a) futex */
	int tid;       /* (a) */
} mon;

int64_t active_at, woke_at;

/* Sleeps until an M begins to work, or a monitor is due. */
static void sysmon_sleep(int64_t until)
{
	bool due = false;

	st_seq(&sched.sysmon_asleep, 1); /* ORD(sysmon): set before the re-check */
	fence_seq();                     /* ORD(sysmon) */
	if (sched_all_idle() && !ld_rlx(&sched.delegated))
		while (ld_seq(&sched.sysmon_asleep) && !ld_rlx(&mon.stop) &&
		       !due) { /* ORD(sysmon) */
			os_futex_wait(&sched.sysmon_asleep, 1, until);
			due = os_now() >= until;
		}
	bool asleep = ld_seq(&sched.sysmon_asleep); /* ORD(sysmon): no M has begun to work */

	st_seq(&sched.sysmon_asleep, 0); /* ORD(sysmon) */
	woke_at = os_now();
	if (!due || !asleep)
		active_at = woke_at;
}

static void *sysmon_main(void *arg)
{
	(void)arg;
	os_timer_slack(1);
	if (sched.preempts)
		os_thread_slice(0, OS_SLICE_SHORT);
	while (!ld_rlx(&mon.stop)) {
		int64_t now = os_now(), until = NEVER;

		st_rlx(&sched.coarse_now, now);
		for (struct monitor *const *m = monitors; *m; m++)
			until = min_of(until, (*m)->poll(now));
		if (unlikely(ld_rlx(&sched.sysmon_called)))
			xchg_seq(&sched.sysmon_called,
				 0); /* ORD(sysmon): before delegated and stop */
		if (unlikely(ld_rlx(&sched.delegated)))
			sched.up.on_delegated();
		longrun_write();
		if (unlikely(sched.up.schedtrace != NULL))
			until = min_of(until, sched.up.schedtrace(now));
		if (until - now > BUSY_NS && !ld_rlx(&sched.delegated))
			sysmon_sleep(until);
		else if (!ld_rlx(&mon.stop))
			os_futex_wait(&sched.sysmon_called, 0, min_of(until, now + BUSY_NS));
	}
	return NULL;
}

int sysmon_tid(void)
{
	return ld_rlx(&mon.tid);
}

int sysmon_start(void)
{
	__builtin_memset(&mon, 0, sizeof(mon));
	for (struct monitor *const *m = monitors; *m; m++)
		__builtin_memset((*m)->state, 0, (*m)->size);
	active_at = woke_at = os_now();
	spare_begin();
	longrun_begin();
	return os_thread_start(&mon.thread, sysmon_main, NULL, MONITOR_STACK, &mon.tid);
}

void sysmon_stop(void)
{
	st_seq(&mon.stop, 1); /* ORD(sysmon): before sysmon_asleep, which sysmon may be setting */
	st_seq(&sched.sysmon_asleep, 0);
	st_seq(&sched.sysmon_called, 1); /* ORD(sysmon): after mon.stop */
	os_futex_wake(&sched.sysmon_called, 1);
	os_futex_wake(&sched.sysmon_asleep, 1);
	pthread_join(mon.thread, NULL);
	spare_end();
	longrun_write();
}
