/* SPDX-License-Identifier: MIT */
/*
 * sysmon: the monitor thread, which has no P and polls the state of all Ps.
 *
 * It polls every millisecond while some Ps are busy and some idle, or a green thread keeps others
 * waiting, and otherwise every 10 ms while all are busy.  It sleeps indefinitely when nothing has
 * run for a second and no memory is left to return to the kernel; the M that begins to work again
 * wakes it (sched.sysmon_asleep).
 *
 * Tasks of a poll
 *   - A P with queued work has not switched since the last poll (a green thread computes): wake
 *     an M to steal it, also for a runnext and for expired timers (idle.h).  If no P is idle,
 *     or on one CPU, after a time slice move the queue of the P to the global queue.
 *   - The M of a P is in blocking code (blocking.c): take the P and hand it to another M, if it is
 *     wanted, or after a time slice.  After a success, poll every 20 us for a while.  If a section
 *     is seen for the first time, poll once more after 20 us: otherwise consecutive sections of a
 *     millisecond would never be seen twice.
 *   - A P switches rarely, since its Gs run long, while others are in the global queue or wait for
 *     fds: make it check these (PICK-3 of pick.h), and poll every millisecond.
 *   - A green thread has run for a time slice, or sleeps in the kernel, and its P is wanted: take
 *     the P (preempt.h).
 *   - No P has switched since the last poll, so nothing has polled either: poll the poller, and if
 *     events wait, ask the green threads to yield, and take a P after a fifth of a time slice
 *     (preempt.h).
 *   - A green thread has run for a time slice, short blocking code included, or for a fifth of one
 *     while others wait for its P: ask it to yield at its next checkpoint.  Poll every millisecond
 *     for a while: a G with checkpoints then runs as long as Gs that wake each other (PICK-1 of
 *     pick.h), and is asked some polls before its time slice ends.
 *   - No M has polled the poller for 10 ms: poll it.
 *   - Waits for file descriptors: every 0.7 s, end the waits whose fd was closed by a plain
 *     close(), in at most CHECK_CHUNK checks a poll (netpoll/check.c).  While all Ps are idle, only
 *     an external thread or a G without a P can close an fd: if there is none, sysmon sleeps after
 *     one more pass, otherwise it wakes for the next pass.
 *   - An OS thread of the runtime has ended: join it.
 *   - A green thread has waited for a second for a known G (a mutex, a join): search for cycles, at
 *     most once a second (sched.up.long_waits).
 *   - Work is delegated to it (sched.delegated): a signal asks for a dump, or a handler of the
 *     program has ended a wait.  Both end the pause between two polls (sched.sysmon_called).
 *   - GMP_DEBUG=schedtrace: write a report whenever it is due, also while all Ps are idle.
 *   - Stacks: return the memory below the stack pointer of a G that has been parked for a second,
 *     and the memory of free stacks that were not used for a second.
 *
 * Invariants
 *  SYSMON-1  It touches the stack of a parked G only while it holds the waiter (WAITER_BUSY).  A
 *            waker spins for those microseconds.
 *  SYSMON-2  Passes over all Gs use at most 1/DUTY of a CPU, and so do passes over waits, however
 *            many there are: from about 100,000 waits on, a pass takes longer than a second.
 *  SYSMON-3  While sysmon has Gs that it took from the poller or from an fd and that are in no
 *            queue yet, it counts in sched.npollwait (report_suspend).  Otherwise an M that reads
 *            both counts as 0 in between would report a deadlock.  An M that meanwhile found no
 *            deadlock, because sysmon counted, must check again: report_resume wakes it.
 */
#include "monitor/sysmon.h"

#include "base/emit.h"
#include "base/os.h"
#include "base/throw.h"
#include "g.h"
#include "handoff.h"
#include "idle.h"
#include "monitor/faultsig.h"
#include "monitor/preempt.h"
#include "netpoll.h"
#include "observe/latency.h"
#include "observe/longrun.h"
#include "park.h"
#include "parkinglot.h"
#include "pick.h"
#include "proc.h"
#include "ready.h"
#include "runq.h"
#include "sched.h"
#include "source.h"
#include "spare.h"
#include "stall.h"
#include "timerheap.h"
#include "variant.h"
#include "waiter.h"

enum {
	MIXED_NS = 1 * MS,   /* between two polls: some Ps busy, some idle */
	BUSY_NS = 10 * MS,   /* all Ps busy, or all idle */
	SLEEP_AFTER_NS = S,  /* without a switch, until sysmon may sleep */
	PARKED_NS = S,       /* a G is trimmed after so long a wait */
	PASS_NS = S,         /* between two passes over all Gs */
	KEPT_NS = 20 * MS,   /* polls come every MIXED_NS, after others have waited for a P */
	SHORT_NS = 20 * US,  /* between two polls while sections of blocking code keep Ps */
	SHORT_POLLS = 50,    /* polls that take no P until the interval grows */
	CHAOS_NS = 200 * US, /* between two signals of GMP_DEBUG=chaos */
	SCAN_CHUNK = 2048,   /* Gs a poll */
	TRIM_CHUNK = 256,    /* stacks a poll */
	CHECK_NS = 700 * MS, /* between two passes over waits; with CHECK_YOUNG_NS below 1 s */
	CHECK_CHUNK = 2048,  /* waits a poll: 0.6 ms */
	DUTY = 20,           /* SYSMON-2 */
	NO_P = -1,           /* mon.urgent */
	ANY_P = -2,
	MONITOR_STACK = 256 * 1024, /* signal handlers of the program run here */
};

static struct {
	pthread_t thread;
	uint32_t stop; /* (a) futex */
	int tid;       /* (a) */
	/* the rest is used by sysmon alone */
	struct {
		uint64_t switches;
		int64_t since; /* time of the last poll at which switches had changed */
		bool asked;    /* the G was asked to yield since then */
		uint64_t blocks;
		int64_t blocked_since; /* when the present section was first seen */
		uint64_t counted;      /* switches when ask_checks ran last */
	} seen[PROCS_MAX];
	unsigned quiet;     /* polls since a P was taken */
	bool fresh;         /* this poll has seen a section for the first time */
	bool again;         /* this poll is the additional one for a fresh section */
	bool some_long;     /* a section that is expected to be long was seen */
	bool slow_switches; /* a P switches rarely while others wait: PICK-3 */
	int urgent;         /* number of the P to take, since no P switches while events wait */
	int64_t kept_at;    /* when others were last found to wait for a P that does not switch */
	int64_t checked_at; /* when ask_checks ran last */
	uint64_t moved;     /* sum of switches at the last poll */
	int64_t active;     /* when a P last switched or was busy */
	int64_t woke;       /* when sysmon_sleep ended last: no run is known that long */
	int64_t next_pass;
	int64_t pass_cost; /* ns of CPU time, not of real time: sysmon may be preempted */
	uint32_t cursor;   /* index of the next G of the pass */
	bool in_pass;
	bool unfinished; /* a G of this pass must be checked again */
	bool long_waits; /* a G has waited for PARKED_NS for a known G */
	bool more_stacks;
	uint32_t check_from; /* index of the next wait to check; 0: no pass is under way */
	int64_t check_began, check_cost, next_check;
	int64_t checked;     /* when the last complete pass over waits began */
	int64_t next_period; /* of the low-water mark of the stack pool */
	int64_t next_report; /* of schedtrace; NEVER: it is off */
} mon;

/* --- Ps --- */

static bool has_work_for_others(struct p *pp, int64_t now)
{
	return runq_len(pp) || ld_rlx(&pp->runnext) || timers_next(pp) <= now;
}

/* Gs are in the global queue, or wait for fds while no M sleeps in the poller. */
static bool others_wait(void)
{
	return ld_rlx(&sched.gqn) || sched_should_poll();
}

/* PREEMPT-6: P number i has not switched since `since`.  The time before this poll counts as CPU
 * time, up to an interval of the polls while others wait.  No system call for each run that two
 * polls 20 us apart have seen. */
static void sample_run(int i, int64_t since, int64_t now)
{
	struct p *pp = sched.allp[i];
	int tid = ld_rlx(&pp->tid);

	if (now - since < MIXED_NS / 2 ||
	    (ld_rlx(&pp->run_sample.since) == since && ld_rlx(&pp->run_sample.tid) == tid))
		return;
	st_rlx(&pp->run_sample.since, since);
	st_rlx(&pp->run_sample.cpu,
	       os_thread_cpu_time(tid) - min_of(now - since, (int64_t)MIXED_NS));
	st_rel(&pp->run_sample.tid, tid); /* ORD(run_sample) */
}

/* The P keeps no record that its G was asked: a checkpoint may clear the bit (PREEMPT-6). */
static void ask_yield(int i)
{
	mon.seen[i].asked = true;
	sched_ask_yield(sched.allp[i]);
}

/* P number i has not switched since the last poll. */
static void p_stays(int i, uint32_t status, bool p_work, int64_t now)
{
	struct p *pp = sched.allp[i];
	int64_t since = max_of(mon.seen[i].since, mon.woke);
	bool wanted = p_work || others_wait() || has_work(), measured = false;
	bool asked = mon.seen[i].asked; /* by an earlier poll */

	if (wanted)
		mon.kept_at = now;
	sample_run(i, since, now);
	int64_t limit = mon.urgent != NO_P ? (int64_t)MIXED_NS
			: wanted           ? slice_short()
					   : sched.slice;

	if (now - since >= min_of(limit, sched.slice))
		ask_yield(i);
	if (now - since >= sched.slice && status == P_RUNNING)
		measured = longrun_poll(i, ld_rlx(&pp->tid), since, now);
	/* No idle P steals from this one; on one CPU none steals a runnext (steal_work).  Not
	 * before the G was asked to yield: then the queue is a reason to take the P. */
	if (now - since >= sched.slice && asked && (ld_rlx(&sched.npidle) == 0 || sched.cpus == 1))
		runq_spill(pp);
	if (status == P_RUNNING && !measured &&
	    preempt_poll(i, now - since, asked, i == mon.urgent || mon.urgent == ANY_P, now) &&
	    mon.urgent == ANY_P)
		mon.urgent = NO_P; /* this P serves the events */
}

/* Has no P switched since the last poll?  A P in blocking code counts as a P that has: it is taken
 * at once if it is wanted. */
static bool all_stay(int n)
{
	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint32_t status = ld_rlx(&pp->status) & P_STATUS_MASK;

		if (ld_rlx(&pp->attention) & ATTENTION_RETIRE)
			continue; /* its next M gives it up */
		if (status != P_RETIRED &&
		    (status != P_RUNNING || ld_rlx(&pp->count.switches) != mon.seen[i].switches))
			return false;
	}
	return true;
}

/* The P with the earliest due timer, since its next M runs it first; otherwise any P if Gs of
 * events are queued.  fds: some Gs wait for fds, or did before the poll.  In a program without such
 * Gs the queues hold Gs that compute. */
static int p_for_events(int n, int64_t due, bool fds)
{
	bool queued = gq_events() > 0;
	int first = NO_P;

	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];

		int64_t next = timers_next(pp);

		if (next <= due && !(ld_rlx(&pp->attention) & ATTENTION_RETIRE)) {
			due = next;
			first = i;
		}
		queued |= runq_first(pp) || ld_rlx(&pp->runnext);
	}
	return first != NO_P ? first : queued && fds ? ANY_P : NO_P;
}

/* The Gs are in no queue until they are submitted: SYSMON-3. */
static void poll_for_ps(void)
{
	report_suspend();
	sched_poll_now();
	report_resume();
}

/* Policy of preempt.h. */
static int urgent_p(int n, int64_t due)
{
	bool fds = ld_rlx(&sched.npollwait) > 0;

	if (rt_replays() || !all_stay(n))
		return NO_P;
	if (sched_should_poll())
		poll_for_ps();
	return p_for_events(n, due, fds);
}

/* PICK-3: at most once per MIXED_NS. */
static void ask_checks(int64_t now)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	/* with chaos every step draws from the global queue, by a rule of its own */
	if (now - mon.checked_at < MIXED_NS || rt_replays() || chaos_on())
		return;
	mon.checked_at = now;
	mon.slow_switches = false;
	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint64_t switches = ld_rlx(&pp->count.switches);

		if (ld_rlx(&pp->status) == P_RUNNING &&
		    switches - mon.seen[i].counted < GLOBAL_INTERVAL && others_wait()) {
			sched_ask_check(pp);
			mon.slow_switches = true;
		}
		mon.seen[i].counted = switches;
	}
}

static void check_ps(int64_t now)
{
	bool hands_off = rt_replays();
	int64_t due = rt_now();
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	uint64_t sum = 0;
	bool wake = false;

	mon.urgent = urgent_p(n, due);
	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint64_t switches = ld_rlx(&pp->count.switches);
		uint32_t status = ld_rlx(&pp->status) & P_STATUS_MASK;

		sum += switches;
		latency_watch(pp, now);
		if (switches != mon.seen[i].switches) {
			mon.seen[i].switches = switches;
			mon.seen[i].since = now;
			mon.seen[i].asked = false;
			longrun_moved(i, ld_rlx(&pp->tid), now);
		} else if (status == P_RUNNING || status == P_BLOCKED) {
			bool p_work = has_work_for_others(pp, due);

			wake |= p_work;
			if (!hands_off)
				p_stays(i, status, p_work, now);
		}
		if (status == P_IDLE || status == P_RETIRED)
			mon.seen[i].since =
				now; /* a G that returns from blocking code may get it */
		/* an idle P with an expired timer: the M that polls may be busy */
		wake |= ld_rlx(&pp->status) != P_RUNNING && timers_next(pp) < due - MS;
	}
	preempt_report();
	if (sum != mon.moved || !sched_all_idle())
		mon.active = now;
	mon.moved = sum;
	/* a yield to the global queue wakes no M, and an M that was woken before may be busy */
	if ((wake || ld_rlx(&sched.gqn)) && !hands_off)
		wakep();
}

/* True if another M should get pp: it has work, or no P is idle and no M spins. */
static bool p_is_wanted(struct p *pp)
{
	return p_has_work(pp) || ld_rlx(&sched.npidle) + ld_rlx(&sched.nmspinning) == 0;
}

/* The same for a P whose section began after the last poll and is expected to be long.  An M that
 * needs a P takes this one itself, so it is wanted only if it has work, or must wait for work: for
 * timers, or for file descriptors while no M sleeps.  Otherwise sysmon would idle one such P every
 * millisecond, each time with a membarrier and a wakeup: 50 Gs in sections of 20 us took 10 %
 * longer. */
static bool long_p_is_wanted(struct p *pp)
{
	return p_has_work(pp) ||
	       ((timers_next(pp) != NEVER || ld_rlx(&sched.nmidle) == 0) && p_is_wanted(pp));
}

/* Step 1 of the taker in blocking.c. */
static bool blocked_for_long(struct p *pp, int i, uint32_t status, int64_t now)
{
	uint64_t blocks = ld_rlx(&pp->count.blocks);

	if (blocks != mon.seen[i].blocks) {
		mon.seen[i].blocks = blocks;
		mon.seen[i].blocked_since = os_now(); /* `now` may be out of date */
		if (!(status & P_LONG)) {
			mon.fresh |= p_is_wanted(pp);
			return false;
		}
		return long_p_is_wanted(pp);
	}
	return now - mon.seen[i].blocked_since >= sched.slice || p_is_wanted(pp);
}

static void retake_blocked_ps(int64_t now)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	mon.quiet++;
	mon.fresh = mon.some_long = false;
	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint32_t status = ld_rlx(&pp->status);

		if ((status & P_STATUS_MASK) != P_BLOCKED)
			continue;
		mon.some_long |= (status & P_LONG) != 0;
		if (!blocked_for_long(pp, i, status, now) ||
		    !cas_acq(&pp->status, &status, (uint32_t)P_RUNNING)) /* ORD(p.blocked) */
			continue;
		if (p_has_work(pp)) /* otherwise the P becomes idle, and nothing is gained yet */
			mon.quiet = 0;
		add_rlx(&sched.total.handoffs, 1);
		emit(EVENT_HANDOFF, 0, (uint64_t)pp->id, 0, 0);
		sched_hand_off(pp, true);
	}
}

static void check_poller(void)
{
	if (sched_should_poll() &&
	    cpu_ticks() - ld_rlx(&sched.lastpoll) > 1000 * (uint64_t)TICKS_10US)
		poll_for_ps();
}

/* --- waits for file descriptors --- */

static void check_fd_waits(int64_t now)
{
	struct glist out = { 0 };

	if (!mon.check_from) {
		if (now < mon.next_check || !ld_rlx(&sched.npollwait) || rt_replays())
			return;
		mon.check_began = now;
		mon.check_cost = 0;
	}
	int64_t began = os_cpu_time();

	report_suspend();
	mon.check_from = netpoll_check(mon.check_from, CHECK_CHUNK, now, &out);
	mon.check_cost += os_cpu_time() - began;
	if (!mon.check_from) {
		mon.checked = mon.check_began;
		mon.next_check = mon.check_began + max_of((int64_t)CHECK_NS, mon.check_cost * DUTY);
	}
	ready_list(&out);
	report_resume(); /* after the Gs are in a queue */
}

/* True if all waits have been checked since a green thread could last close an fd. */
static bool fd_waits_checked(void)
{
	return !ld_rlx(&sched.npollwait) || rt_replays() ||
	       (!mon.check_from && mon.checked >= mon.active + CHECK_YOUNG_NS);
}

/* Returns when the next pass over waits is due while all Ps are idle; NEVER if none is. */
static int64_t next_idle_check(void)
{
	bool may_close = ld_rlx(&sched.nblocked) || sched_external_threads(false);

	return ld_rlx(&sched.npollwait) && !rt_replays() && may_close ? mon.next_check : NEVER;
}

/* --- memory --- */

/* SYSMON-1.  Returns true if the G must be checked again in a later pass. */
static bool trim_parked(struct g *gp, int64_t now)
{
	if (ld_rlx(&gp->status) != G_WAITING || ld_rlx(&gp->trimmed))
		return false;
	if (now - ld_rlx(&gp->since) < PARKED_NS)
		return true;
	uint32_t state = waiter_hold(&gp->w);

	if (state != WAITER_ARMED)
		return state == WAITER_BUSY; /* held by another thread: later */
	if (gp->stack &&
	    !sched.up.on_leave) { /* GMP_DEBUG=stack measures how deep stacks were used */
		size_t bytes = stack_trim_below(gp->stack, gp->ctx.sp);

		if (bytes)
			emit(EVENT_TRIM, 0, gp->id, bytes, 0);
	}
	st_rlx(&gp->trimmed, true);
	mon.long_waits |= (g_wait_kind(gp)->end & WAITEND_KNOWN) != 0;
	waiter_release(&gp->w);
	return false;
}

static void scan_gs(int64_t now)
{
	if (!mon.in_pass && now < mon.next_pass)
		return;
	uint32_t made = g_made(), end = min_of(mon.cursor + SCAN_CHUNK, made);
	int64_t began = os_cpu_time();

	if (!mon.in_pass) {
		mon.in_pass = true;
		mon.unfinished = false;
		mon.pass_cost = 0;
	}
	for (; mon.cursor < end; mon.cursor++)
		mon.unfinished |= trim_parked(g_at(mon.cursor), now);
	if (mon.cursor >= made && mon.long_waits && !sched.threads) {
		mon.long_waits = sched.up.long_waits();
		mon.unfinished |= mon.long_waits;
	}
	mon.pass_cost += os_cpu_time() - began;
	if (mon.cursor >= made) {
		mon.in_pass = false;
		mon.cursor = 0;
		mon.next_pass = now + max_of((int64_t)PASS_NS, mon.pass_cost * DUTY);
	}
}

static void flush_idle_ps(void)
{
	lock(&sched.lock, LR_SCHED);
	for (struct p *pp = sched.pidle; pp; pp = pp->link)
		p_flush(pp);
	unlock(&sched.lock, LR_SCHED);
}

static void trim_memory(int64_t now)
{
	bool new_period = now >= mon.next_period;

	scan_gs(now);
	if (new_period) {
		mon.next_period = now + PARKED_NS;
		if (sched.asymmetric)
			lot_reset();
		if (!rt_replays()) /* it would change which g struct the P uses next */
			flush_idle_ps();
	}
	mon.more_stacks = stack_trim_pool(TRIM_CHUNK, new_period);
}

/* --- the thread --- */

static bool may_sleep(int64_t now)
{
	return sched_all_idle() && now - mon.active > SLEEP_AFTER_NS && !mon.in_pass &&
	       fd_waits_checked() && !mon.unfinished && !mon.more_stacks &&
	       mon.next_pass > mon.active + PARKED_NS;
}

/* Sleeps until an M begins to work, or a pass over waits or a report is due. */
static void sysmon_sleep(void)
{
	int64_t until = min_of(next_idle_check(), mon.next_report);
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
	mon.woke = os_now();
	if (!due || !asleep)
		mon.active = mon.woke;
}

/* Under GMP_DEBUG=chaos. */
static void chaos_disturb_one(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	int tid = chaos_draw(2) ? preempt_draw_tid() : 0;

	if (!tid)
		tid = ld_rlx(&sched.allp[chaos_draw((uint32_t)n)]->tid);
	if (tid && !rt_replays())
		signal_disturb(tid);
}

/* Returns the interval until the next poll.  A fresh section gets one additional poll and not a
 * second: sections may be shorter than SHORT_NS. */
static int64_t pause_ns(int64_t now)
{
	bool hunts = preempt_hunts();

	mon.again = mon.fresh && !mon.again;
	if (mon.again || hunts)
		return SHORT_NS;

	if (chaos_on())
		return CHAOS_NS;

	int idle = ld_rlx(&sched.npidle), procs = ld_rlx(&sched.procs);
	bool soon = (idle > 0 && idle < procs) || mon.some_long || mon.slow_switches ||
		    now - mon.kept_at < KEPT_NS;
	int64_t usual = soon ? MIXED_NS : BUSY_NS;
	unsigned longer = mon.quiet > SHORT_POLLS ? mon.quiet - SHORT_POLLS : 0;

	usual = min_of(usual, sched.slice);
	return min_of(usual, (int64_t)SHORT_NS << min_of(longer, 10u));
}

static void *sysmon_main(void *arg)
{
	(void)arg;
	os_timer_slack(1);
	if (sched.preempts)
		os_thread_slice(0, OS_SLICE_SHORT);
	st_rlx(&mon.tid, os_thread_id());
	while (!ld_rlx(&mon.stop)) {
		int64_t now = os_now();

		st_rlx(&sched.coarse_now, now);
		retake_blocked_ps(now);
		check_ps(now);
		ask_checks(now);
		check_poller();
		check_fd_waits(now);
		trim_memory(now);
		m_join_one(true);
		if (unlikely(ld_rlx(&sched.sysmon_called)))
			xchg_seq(&sched.sysmon_called,
				 0); /* ORD(sysmon): before delegated and stop */
		if (unlikely(ld_rlx(&sched.delegated)))
			sched.up.on_delegated();
		longrun_write();
		if (unlikely(now >= mon.next_report))
			mon.next_report = sched.up.schedtrace(now);
		if (chaos_on()) {
			chaos_disturb_one();
			preempt_chaos();
		}
		if (may_sleep(now) && !ld_rlx(&sched.delegated))
			sysmon_sleep();
		else if (!ld_rlx(&mon.stop))
			os_futex_wait(&sched.sysmon_called, 0,
				      min_of(now + pause_ns(now), mon.next_report));
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
	mon.quiet = SHORT_POLLS + 10;
	mon.active = os_now();
	mon.next_period = mon.next_pass = mon.active + PASS_NS;
	mon.next_report = sched.up.schedtrace ? mon.active : NEVER;
	longrun_begin();
	preempt_begin();
	return os_thread_start(&mon.thread, sysmon_main, NULL, MONITOR_STACK);
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
