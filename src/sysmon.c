/* SPDX-License-Identifier: MIT */
/*
 * Who sees to what nobody has the time for?
 *
 * The watcher, a thread without a P.  It looks at the Ps every millisecond while some are busy and
 * some idle, every ten while all are busy, and sleeps for good when nothing has run for a while and
 * no memory is left to give back; the M that begins to work again wakes it (sched.sysmon_asleep).
 *
 *  - A P that has work for others but has not moved since the last look (a green thread computes):
 *    wake a thief, also for a runnext and for timers that are due (idle.h D2).  Where no P is idle,
 *    after 10 ms, move its queue to the global one, which the others look at by turns.
 *  - A P whose M is in blocking code (blocking.c): take it and hand it to another M, if it is wanted,
 *    or after 10 ms.  After a find it looks every 20 us for a while; and once more after 20 us when it
 *    sees a section for the first time, or sections of a millisecond, one after the other, would
 *    never be seen twice.
 *  - All Ps stand still for 10 ms, and the kernel says that their threads sleep: they are in blocking
 *    code that nobody has declared.  While there is work, add a spare P, until one of them moves.
 *  - A green thread that has run for 10 ms, short blocking code included: ask it to yield at its next
 *    checkpoint.
 *  - Nobody has asked the poller for 10 ms: ask.
 *  - Waits for descriptors: every 0.7 s, end those whose descriptor was closed by a plain close(), in at
 *    most CHECK_CHUNK checks at a time (netpoll/check.c).  While all Ps are idle only an external thread
 *    can close one: if the process has none, sysmon sleeps after one pass more; else it wakes for it.
 *  - A thread of ours has ended: join it.
 *  - A green thread has waited for a second for a known G (a mutex, a join): search for cycles, once
 *    a second at most (sched.long_waits).
 *  - A signal asks for a dump (sched.errand).
 *  - Stacks: what lies below the stack pointer of a G that has been parked for a second goes back
 *    to the kernel, and so does the memory of free stacks that were not wanted for a second.
 *
 * Invariants
 *  Z1 It touches a parked G's stack only while it holds the waiter (WAITER_BUSY); whoever wants to wake
 *     the G spins for those microseconds.
 *  Z2 Looking at all Gs takes at most a twentieth of a CPU, however many there are, and so do checks of
 *     waits: from about 100,000 waits on, a pass takes longer than a second.
 */
#include "sysmon.h"

#include "base/os.h"
#include "base/throw.h"
#include "faultsig.h"
#include "g.h"
#include "handoff.h"
#include "idle.h"
#include "mode/chaos.h"
#include "mode/latency.h"
#include "mode/longrun.h"
#include "netpoll.h"
#include "park.h"
#include "parkinglot.h"
#include "proc.h"
#include "ready.h"
#include "runq.h"
#include "sched.h"
#include "source.h"
#include "stall.h"
#include "timerheap.h"

enum {
	MS = 1000000,
	MIXED_NS = 1 * MS, /* some Ps busy, some idle */
	BUSY_NS = 10 * MS, /* all busy, or only memory to look after */
	SLEEP_AFTER_NS = 1000 * MS,
	PARKED_NS = 1000 * MS, /* so long a G is left alone */
	PASS_NS = 1000 * MS,   /* between two passes over all Gs */
	SLICE_NS = 10 * MS,
	SHORT_NS = 20000,    /* between two polls while blocking code keeps Ps */
	SHORT_POLLS = 50,    /* polls that take no P before the pauses grow */
	CHAOS_NS = 200000,   /* between two threads that are disturbed */
	SCAN_CHUNK = 2048,   /* Gs a poll */
	TRIM_CHUNK = 256,    /* stacks a poll */
	CHECK_NS = 700 * MS, /* between two passes over waits; with CHECK_YOUNG_NS below 1 s */
	CHECK_CHUNK = 2048,  /* waits a poll: 0.6 ms */
	DUTY = 20,           /* Z2 */
	MONITOR_STACK = 256 * 1024, /* the program's signal handlers run here */
};

static struct {
	pthread_t thread;
	uint32_t stop; /* (a) futex */
	/* the watcher's own */
	struct {
		uint64_t switches;
		int64_t since; /* when it last moved */
		uint64_t blocks;
		int64_t blocked_since; /* when that section of blocking code was first seen */
	} seen[PROCS_MAX];
	int64_t next_spare; /* not before */
	uint64_t stuck_at; /* sum of the switches of the Ps that were stuck when a spare one came */
	unsigned quiet;    /* looks since a P was taken */
	bool fresh, again; /* a section was seen for the first time; this look is for such a one */
	bool some_long;    /* a section that is expected to be long was seen */
	uint64_t moved;    /* sum of switches at the last look */
	int64_t active;    /* when something last ran */
	int64_t next_pass;
	int64_t pass_cost; /* ns of CPU time: on a busy machine the watcher may be long about it */
	uint32_t cursor;   /* next G to look at */
	bool in_pass, unfinished; /* some G was too young in this pass */
	bool long_waits;          /* some G has waited for PARKED_NS for a known G */
	bool more_stacks;
	uint32_t check_from; /* the next descriptor to check; 0: no pass is under way */
	int64_t check_began, check_cost, next_check;
	int64_t checked;     /* when the last complete pass began */
	int64_t next_period; /* of the pool's low-water mark */
} mon;

/* --- Ps --- */

static bool has_work_for_others(struct p *pp, int64_t now)
{
	return runq_len(pp) || ld_rlx(&pp->runnext) || timers_next(pp) <= now;
}

static void check_ps(int64_t now)
{
	bool hands_off = rt_replays();
	int64_t due = rt_now();
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	uint64_t sum = 0;
	bool wake = false;

	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint64_t switches = ld_rlx(&pp->count.switches);
		uint32_t status = ld_rlx(&pp->status) & P_STATUS_MASK;

		sum += switches;
		latency_watch(pp, now);
		if (switches != mon.seen[i].switches) {
			mon.seen[i].switches = switches;
			mon.seen[i].since = now;
			longrun_moved(i, ld_rlx(&pp->tid), now);
		} else if (status == P_RUNNING || status == P_BLOCKED) {
			wake |= has_work_for_others(pp, due);
			if (!hands_off && now - mon.seen[i].since >= SLICE_NS) {
				sched_ask_yield(pp);
				if (status == P_RUNNING)
					longrun_poll(i, ld_rlx(&pp->tid), mon.seen[i].since, now);
				/* no thief comes where no P runs dry */
				if (ld_rlx(&sched.npidle) == 0)
					runq_spill(pp);
			}
		}
		/* of a P that nobody runs: the one who was to sleep until then may be busy */
		wake |= ld_rlx(&pp->status) != P_RUNNING && timers_next(pp) < due - MS;
	}
	if (sum != mon.moved || !sched_all_idle())
		mon.active = now;
	mon.moved = sum;
	/* yielders wake nobody; the one that went there before them may not come to its next wait */
	if ((wake || ld_rlx(&sched.gqn)) && !hands_off)
		wakep();
}

static bool p_is_wanted(struct p *pp)
{
	return p_has_work(pp) || ld_rlx(&sched.npidle) + ld_rlx(&sched.nmspinning) == 0;
}

/* Of a P whose section has begun since the last look and is expected to be long.  An M that needs a P takes
 * it by itself, so it stays where it is, unless it has work, or waits for it: for timers, or for
 * descriptors while no M sleeps in the poller.  Else sysmon would lay one such P to rest every
 * millisecond, each time with a membarrier and a wakeup of its own: 50 Gs in sections of 20 us took a tenth
 * longer. */
static bool long_p_is_wanted(struct p *pp)
{
	return p_has_work(pp) ||
	       ((timers_next(pp) != NEVER || ld_rlx(&sched.nmidle) == 0) && p_is_wanted(pp));
}

/* Step 1 of the watcher in blocking.c: since the last look, or expected to be long; and wanted. */
static bool blocked_for_long(struct p *pp, int i, uint32_t status, int64_t now)
{
	uint64_t blocks = ld_rlx(&pp->count.blocks);

	if (blocks != mon.seen[i].blocks) {
		mon.seen[i].blocks = blocks;
		mon.seen[i].blocked_since = os_now(); /* `now` may be long ago */
		if (!(status & P_LONG)) {
			mon.fresh |= p_is_wanted(pp);
			return false;
		}
		return long_p_is_wanted(pp);
	}
	return now - mon.seen[i].blocked_since >= SLICE_NS || p_is_wanted(pp);
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
		if (p_has_work(pp)) /* else the P becomes idle, and nothing was gained yet */
			mon.quiet = 0;
		add_rlx(&sched.handoffs, 1);
		sched_hand_off(pp, true);
	}
}

/* Those of the Ps in use whose records this thread sees whole: their number may be ahead. */
static int procs_made(void)
{
	int made = ld_acq(&sched.nallp); /* ORD(allp) */

	return min_of(ld_rlx(&sched.procs), made);
}

/* Of all Ps but the spare ones. */
static uint64_t switches_of_procs(void)
{
	uint64_t sum = 0;

	for (int i = 0, n = procs_made(); i < n; i++)
		sum += ld_rlx(&sched.allp[i]->count.switches);
	return sum;
}

/* Of those that were stuck when a spare one came: it has moved, or has nothing to do any more. */
static bool stuck_p_moved(void)
{
	for (int i = 0, n = procs_made(); i < n; i++)
		if (ld_rlx(&sched.allp[i]->status) != P_RUNNING)
			return true;
	return switches_of_procs() != mon.stuck_at;
}

/* There is work, and no P has moved for a slice, nor has its thread a wish to. */
static bool all_stuck(int64_t now)
{
	int n = ld_rlx(&sched.procs) + ld_rlx(&sched.nspare);
	bool work = ld_rlx(&sched.gqn);

	if (ld_rlx(&sched.npidle) || n > ld_acq(&sched.nallp)) /* ORD(allp) */
		return false;
	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];

		if (ld_rlx(&pp->status) != P_RUNNING || now - mon.seen[i].since < SLICE_NS)
			return false;
		work |= has_work_for_others(pp, rt_now());
	}
	for (int i = 0; i < n && work; i++) {
		char state = os_thread_state(ld_rlx(&sched.allp[i]->tid));

		if (state != 'S' && state != 'D')
			return false;
	}
	return work;
}

static void check_stuck_ps(int64_t now)
{
	if (ld_rlx(&sched.nspare) && stuck_p_moved())
		procs_drop_spares();
	if (rt_replays() || now < mon.next_spare || !all_stuck(now))
		return;
	mon.next_spare = now + SLICE_NS;
	mon.stuck_at = switches_of_procs();
	if (!procs_add_spare())
		return;
	wakep();
	for (int i = 0, n = procs_made(); i < n; i++)
		longrun_stuck(i, ld_rlx(&sched.allp[i]->tid), mon.seen[i].since, now);
}

static void check_poller(void)
{
	if (sched_should_poll() &&
	    cpu_ticks() - ld_rlx(&sched.lastpoll) > 1000 * (uint64_t)TICKS_10US)
		sched_poll_now();
}

/* --- waits for descriptors --- */

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

	mon.check_from = netpoll_check(mon.check_from, CHECK_CHUNK, now, &out);
	mon.check_cost += os_cpu_time() - began;
	if (!mon.check_from) {
		mon.checked = mon.check_began;
		mon.next_check = mon.check_began + max_of((int64_t)CHECK_NS, mon.check_cost * DUTY);
	}
	ready_list(&out);
}

/* True: all waits have been checked since a green thread could last close a descriptor. */
static bool fd_waits_checked(void)
{
	return !ld_rlx(&sched.npollwait) || rt_replays() ||
	       (!mon.check_from && mon.checked >= mon.active + CHECK_YOUNG_NS);
}

/* True if the process has a thread that is no M and not sysmon, or may have one. */
static bool other_threads_exist(void)
{
	int ours = ld_rlx(&sched.nm) + 1;

#ifdef SAN_THREAD
	ours++;
#endif
	return os_thread_count_max() > ours;
}

/* When the next pass over waits is due although all Ps are idle; NEVER: not before one runs. */
static int64_t next_idle_check(void)
{
	return ld_rlx(&sched.npollwait) && !rt_replays() && other_threads_exist() ? mon.next_check : NEVER;
}

/* --- memory --- */

static bool waits_for_known_g(const struct g *gp)
{
	uint8_t why = ld_rlx(&gp->reason);

	return why == WAIT_MUTEX || why == WAIT_RLOCK || why == WAIT_WLOCK || why == WAIT_ONCE ||
	       why == WAIT_JOIN;
}

/* Z1.  True if the G will want another look. */
static bool trim_parked(struct g *gp, int64_t now)
{
	if (ld_rlx(&gp->status) != G_WAITING || ld_rlx(&gp->trimmed))
		return false;
	if (now - ld_rlx(&gp->since) < PARKED_NS)
		return true;
	uint32_t state = waiter_hold(&gp->w);

	if (state != WAITER_ARMED)
		return state == WAITER_BUSY;   /* somebody else looks at it: later */
	if (gp->stack && !sched.on_leave) /* who looks at stacks wants to see how deep they were */
		stack_trim_below(gp->stack, gp->ctx.sp);
	st_rlx(&gp->trimmed, true);
	mon.long_waits |= waits_for_known_g(gp);
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
		mon.long_waits = sched.long_waits();
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
		if (!rt_replays()) /* the P's next green threads would be others */
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

/* Sleep until an M begins to work, or a pass over waits is due. */
static void sysmon_sleep(void)
{
	int64_t until = next_idle_check();
	bool due = false;

	st_seq(&sched.sysmon_asleep, 1); /* ORD(sysmon): announced before the last look */
	fence_seq();                     /* ORD(sysmon) */
	if (sched_all_idle() && !ld_rlx(&sched.errand))
		while (ld_seq(&sched.sysmon_asleep) && !ld_rlx(&mon.stop) &&
		       !due) { /* ORD(sysmon) */
			os_futex_wait(&sched.sysmon_asleep, 1, until);
			due = os_now() >= until;
		}
	bool asleep = ld_seq(&sched.sysmon_asleep); /* ORD(sysmon): no M has begun to work */

	st_seq(&sched.sysmon_asleep, 0); /* ORD(sysmon) */
	if (!due || !asleep)
		mon.active = os_now();
}

/* Under GMP_DEBUG=chaos. */
static void chaos_disturb_one(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	int tid = ld_rlx(&sched.allp[chaos_draw((uint32_t)n)]->tid);

	if (tid && !rt_replays())
		signal_disturb(tid);
}

/* A second look in vain is not followed by a third: sections may be shorter than that. */
static int64_t pause_ns(void)
{
	mon.again = mon.fresh && !mon.again;
	if (mon.again)
		return SHORT_NS;

	if (chaos_on())
		return CHAOS_NS;

	int idle = ld_rlx(&sched.npidle), procs = ld_rlx(&sched.procs);
	int64_t usual = (idle > 0 && idle < procs) || mon.some_long ? MIXED_NS : BUSY_NS;
	unsigned longer = mon.quiet > SHORT_POLLS ? mon.quiet - SHORT_POLLS : 0;

	return min_of(usual, (int64_t)SHORT_NS << min_of(longer, 10u));
}

static void *sysmon_main(void *arg)
{
	(void)arg;
	os_timer_slack(1);
	while (!ld_rlx(&mon.stop)) {
		int64_t now = os_now();

		st_rlx(&sched.coarse_now, now);
		retake_blocked_ps(now);
		check_ps(now);
		check_stuck_ps(now);
		check_poller();
		check_fd_waits(now);
		trim_memory(now);
		m_join_one(true);
		if (unlikely(ld_rlx(&sched.errand)))
			sched.on_errand();
		longrun_write();
		if (chaos_on())
			chaos_disturb_one();
		if (may_sleep(now) && !ld_rlx(&sched.errand))
			sysmon_sleep();
		else
			os_futex_wait(&mon.stop, 0, now + pause_ns());
	}
	return NULL;
}

int sysmon_start(void)
{
	__builtin_memset(&mon, 0, sizeof(mon));
	mon.quiet = SHORT_POLLS + 10;
	mon.active = os_now();
	mon.next_period = mon.next_pass = mon.active + PASS_NS;
	longrun_begin();
	return os_thread_start(&mon.thread, sysmon_main, NULL, MONITOR_STACK);
}

void sysmon_stop(void)
{
	st_seq(&mon.stop, 1); /* ORD(sysmon): before the word that it may announce just now */
	st_seq(&sched.sysmon_asleep, 0);
	os_futex_wake(&mon.stop, 1);
	os_futex_wake(&sched.sysmon_asleep, 1);
	pthread_join(mon.thread, NULL);
	longrun_write();
}
