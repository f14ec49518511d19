/* SPDX-License-Identifier: MIT */
/*
 * Progress of Ps: acts on Ps that have not switched since the last poll, or switch rarely.
 *
 *   - A P with queued work (a green thread computes): wake an M to steal it, also for a runnext and
 *     for expired timers (idle.h).  If no P is idle, or on one CPU, after a time slice move the
 *     queue of the P to the global queue.
 *   - A green thread has run for a time slice, short blocking code included, or for slice_short
 *     while others wait for its P: ask it to yield at its next checkpoint.  Poll every MIXED_NS
 *     for a while: a G with checkpoints then runs as long as Gs that wake each other (PICK-1 of
 *     pick.h), and is asked some polls before its time slice ends.
 *   - It has run for a time slice, or sleeps in the kernel, and its P is wanted: take the P
 *     (preempt.h).
 *   - No P has switched since the last poll, so nothing has polled either: poll the poller, and if
 *     events wait, ask the green threads to yield, and take a P after slice_short (preempt.h).
 *   - A P switches rarely, since its Gs run long, while others are in the global queue or wait for
 *     fds: make it check these (PICK-3 of pick.h), and poll every MIXED_NS.
 */
#include "base/os.h"
#include "handoff.h"
#include "monitor/monitor.h"
#include "monitor/preempt.h"
#include "observe/latency.h"
#include "observe/longrun.h"
#include "pick.h"
#include "policy/stall.h"
#include "proc.h"
#include "ready.h"
#include "runq.h"
#include "sched.h"
#include "source.h"
#include "timer/timerheap.h"

enum { NO_P = -1, ANY_P = -2 }; /* progress.urgent */

static struct {
	struct seen {
		uint64_t switches;
		int64_t since; /* time of the last poll at which switches had changed */
		bool asked;    /* the G was asked to yield since then */
	} seen[PROCS_MAX];
	int urgent;      /* number of the P to take, since no P switches while events wait */
	int64_t kept_at; /* when others were last found to wait for a P that does not switch */
	uint64_t moved;  /* sum of switches at the last poll */
	/* PICK-3 */
	uint64_t checked[PROCS_MAX]; /* switches when ask_checks ran last */
	int64_t checked_at;
	bool slow_switches; /* a P switches rarely while others wait */
} progress;

/* PREEMPT-6: pp has not switched since `since`.  The time before this poll counts as CPU time, up
 * to an interval of the polls while others wait.  No system call for each run that two polls 20 us
 * apart have seen. */
static void sample_run(struct p *pp, int64_t since, int64_t now)
{
	int tid = ld_rlx(&pp->tid);

	if (now - since < MIXED_NS / 2 ||
	    (ld_rlx(&pp->run_sample.since) == since && ld_rlx(&pp->run_sample.tid) == tid))
		return;
	st_rlx(&pp->run_sample.since, since);
	st_rlx(&pp->run_sample.cpu,
	       os_thread_cpu_time(tid) - min_of(now - since, (int64_t)MIXED_NS));
	st_rel(&pp->run_sample.tid, tid); /* ORD(run_sample) */
}

/* P number i has not switched since the last poll. */
static void p_stays(int i, uint32_t status, bool p_work, int64_t now)
{
	struct p *pp = sched.allp[i];
	struct seen *s = &progress.seen[i];
	int64_t since = max_of(s->since, woke_at);
	bool wanted = p_work || sched_should_poll() || has_work();
	bool asked = s->asked; /* by an earlier poll */

	if (wanted)
		progress.kept_at = now;
	sample_run(pp, since, now);
	int64_t limit = progress.urgent != NO_P ? (int64_t)MIXED_NS
			: wanted                ? slice_short()
						: sched.slice;

	if (now - since >= min_of(limit, sched.slice)) {
		s->asked = true; /* not in the P: a checkpoint may clear the bit (PREEMPT-6) */
		sched_ask_yield(pp);
	}
	/* No idle P steals from this one; on one CPU none steals a runnext (steal_work).  Not
	 * before the G was asked to yield: then the queue is a reason to take the P. */
	if (now - since >= sched.slice && asked && (ld_rlx(&sched.npidle) == 0 || sched.cpus == 1))
		runq_spill(pp);
	if (status != P_RUNNING ||
	    (now - since >= sched.slice && longrun_poll(i, ld_rlx(&pp->tid), since, now)))
		return;
	bool any = progress.urgent == ANY_P;

	if (preempt_poll(i, now - since, asked, any || i == progress.urgent, now) && any)
		progress.urgent = NO_P; /* this P serves the events */
}

/* Has no P switched since the last poll?  A P in blocking code counts as a P that has: it is taken
 * at once if it is wanted. */
static bool all_stay(int n)
{
	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint32_t status = ld_rlx(&pp->status) & P_STATUS_MASK;

		if (status == P_RETIRED || ld_rlx(&pp->attention) & ATTENTION_RETIRE)
			continue; /* its next M gives it up */
		if (status != P_RUNNING || ld_rlx(&pp->count.switches) != progress.seen[i].switches)
			return false;
	}
	return true;
}

/* Policy of preempt.h: the P with the earliest due timer, since its next M runs it first; otherwise
 * any P if Gs of events are queued and some Gs wait for fds, or did before the poll.  In a program
 * without such Gs the queues hold Gs that compute. */
static int urgent_p(int n, int64_t due)
{
	bool fds = ld_rlx(&sched.npollwait) > 0;
	int first = NO_P;

	if (rt_replays() || !all_stay(n))
		return NO_P;
	poll_for_ps();
	bool queued = gq_ready_len() > 0;

	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		int64_t next = timers_next(pp);

		if (next <= due && !(ld_rlx(&pp->attention) & ATTENTION_RETIRE)) {
			due = next;
			first = i;
		}
		queued |= runq_ready_len(pp) || ld_rlx(&pp->runnext);
	}
	return first == NO_P && queued && fds ? ANY_P : first;
}

/* PICK-3: at most once per MIXED_NS. */
static void ask_checks(int n, int64_t now)
{
	/* with chaos every step draws from the global queue, by a rule of its own */
	if (now - progress.checked_at < MIXED_NS || rt_replays() || chaos_on())
		return;
	progress.checked_at = now;
	progress.slow_switches = false;
	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint64_t switches = ld_rlx(&pp->count.switches);

		if (ld_rlx(&pp->status) == P_RUNNING &&
		    switches - progress.checked[i] < GLOBAL_INTERVAL &&
		    (ld_rlx(&sched.gqn) || sched_should_poll())) {
			sched_ask_check(pp);
			progress.slow_switches = true;
		}
		progress.checked[i] = switches;
	}
}

static int64_t check_ps(int64_t now)
{
	bool hands_off = rt_replays();
	int64_t due = rt_now();
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	uint64_t sum = 0;
	bool wake = false;

	progress.urgent = urgent_p(n, due);
	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		struct seen *s = &progress.seen[i];
		uint64_t switches = ld_rlx(&pp->count.switches);
		uint32_t status = ld_rlx(&pp->status) & P_STATUS_MASK;

		sum += switches;
		latency_watch(pp, now);
		if (switches != s->switches) {
			*s = (struct seen){ .switches = switches, .since = now };
			longrun_moved(i, ld_rlx(&pp->tid), now);
		} else if (status == P_IDLE || status == P_RETIRED) {
			s->since = now; /* a G that returns from blocking code may get it */
		} else {
			bool p_work = p_has_work(pp);

			wake |= p_work;
			if (!hands_off)
				p_stays(i, status, p_work, now);
		}
		/* an idle P with an expired timer: the M that polls may be busy */
		wake |= ld_rlx(&pp->status) != P_RUNNING && timers_next(pp) < due - MS;
	}
	if (sum != progress.moved || !sched_all_idle())
		active_at = now;
	progress.moved = sum;
	/* a yield to the global queue wakes no M, and an M that was woken before may be busy */
	if ((wake || ld_rlx(&sched.gqn)) && !hands_off)
		wakep();
	ask_checks(n, now);
	if (now - active_at > SLEEP_AFTER_NS)
		return NEVER;
	int idle = ld_rlx(&sched.npidle);
	bool soon = (idle > 0 && idle < ld_rlx(&sched.procs)) || progress.slow_switches ||
		    now - progress.kept_at < KEPT_NS;

	return now + min_of(soon ? (int64_t)MIXED_NS : (int64_t)BUSY_NS, sched.slice);
}

struct monitor monitor_progress = { check_ps, &progress, sizeof(progress) };
