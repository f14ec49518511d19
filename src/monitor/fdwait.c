/* SPDX-License-Identifier: MIT */
/*
 * Waits for file descriptors: polls for them, and ends those of fds that were closed.
 *
 *   - No M has polled the poller for 10 ms: poll it.
 *   - Every 0.7 s end the waits whose fd was closed by a plain close(), in at most CHECK_CHUNK
 *     checks a poll (netpoll/check.c).  While all Ps are idle, only an external thread or a G
 *     without a P can close an fd: if there is none, sysmon sleeps after one more pass, otherwise
 *     it wakes for the next pass.
 */
#include "base/os.h"
#include "idle.h"
#include "monitor/monitor.h"
#include "netpoll/netpoll.h"
#include "park.h"
#include "policy/stall.h"
#include "source.h"

enum {
	CHECK_NS = 700 * MS, /* between two passes; with CHECK_YOUNG_NS below 1 s */
	CHECK_CHUNK = 2048,  /* waits a poll: 0.6 ms */
};

static struct {
	uint32_t from;       /* index of the next wait to check; 0: no pass is under way */
	int64_t began, cost; /* of this pass; without one, began of the last */
	int64_t next;
} fdwait;

void poll_for_ps(void)
{
	if (!sched_should_poll())
		return;
	report_suspend();
	sched_poll_now();
	report_resume();
}

static void check_some(int64_t now)
{
	struct glist out = { 0 };
	int64_t began = os_cpu_time();

	if (!fdwait.from)
		fdwait.began = now;
	report_suspend();
	fdwait.from = netpoll_check(fdwait.from, CHECK_CHUNK, now, &out);
	fdwait.cost += os_cpu_time() - began;
	if (!fdwait.from) {
		fdwait.next = fdwait.began + max_of((int64_t)CHECK_NS, fdwait.cost * DUTY);
		fdwait.cost = 0;
	}
	ready_list(&out);
	report_resume(); /* after the Gs are in a queue */
}

static int64_t check_fd_waits(int64_t now)
{
	if (cpu_ticks() - ld_rlx(&sched.lastpoll) > 1000 * (uint64_t)TICKS_10US)
		poll_for_ps();
	if (!ld_rlx(&sched.npollwait) || rt_replays())
		return NEVER;
	if (fdwait.from || now >= fdwait.next)
		check_some(now);
	if (fdwait.from)
		return now + BUSY_NS;
	/* An fd may have been closed since the pass, or may be closed while all Ps are idle. */
	bool again = fdwait.began < active_at + CHECK_YOUNG_NS || ld_rlx(&sched.nblocked) ||
		     sched_external_threads(false);

	return again ? fdwait.next : NEVER;
}

struct monitor monitor_fdwait = { check_fd_waits, &fdwait, sizeof(fdwait) };
