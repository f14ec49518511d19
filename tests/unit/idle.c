/* SPDX-License-Identifier: MIT */
/*
 * Tests that a G that becomes runnable always finds an idle P, even if every M sleeps or is about
 * to stop. These are runs of the whole runtime with hooks in the idle path. Without sysmon, which
 * would hide most faults after a millisecond, except in the cases about it.
 *
 * floors 0..6
 * wrap: sysmon_start sysmon_stop netpoll_poll netpoll_rest m_sleep pidle_put midle_put
 * wrap: os_membarrier m_start timers_earliest
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "ready.h"

#include <errno.h>

#include "base/os.h"
#include "monitor/sysmon.h"
#include "netpoll/netpoll.h"
#include "idle.h"
#include "park.h"
#include "policy/stall.h"
#include "poller.h"
#include "proc.h"
#include "rt.h"
#include "waiter.h"

#define PATIENCE (40000 * MS)  /* a bound on failure only */
#define LONGEST (3600000 * MS) /* of all timers of these tests */

/* Poll cond without releasing the P. */
#define SPIN_FOR(cond)                                                                             \
	do {                                                                                       \
		int64_t spin_limit_ = gmp_now() + PATIENCE;                                        \
		while (!(cond)) {                                                                  \
			CHECK(gmp_now() < spin_limit_ && #cond);                                   \
			os_yield();                                                                \
		}                                                                                  \
	} while (0)

/* --- the hooks --- */

int __real_sysmon_start(void);
void __real_sysmon_stop(void);
int __real_netpoll_poll(int64_t ns, struct glist *out);
void __real_netpoll_rest(int64_t deadline);
void __real_m_sleep(struct m *m);
void __real_pidle_put(struct p *pp);
void __real_midle_put(struct m *m);
void __real_os_membarrier(void);
int __real_m_start(struct m *m);
int64_t __real_timers_earliest(void);
int __wrap_sysmon_start(void);
void __wrap_sysmon_stop(void);
int __wrap_netpoll_poll(int64_t ns, struct glist *out);
void __wrap_netpoll_rest(int64_t deadline);
void __wrap_m_sleep(struct m *m);
void __wrap_pidle_put(struct p *pp);
void __wrap_midle_put(struct m *m);
void __wrap_os_membarrier(void);
int __wrap_m_start(struct m *m);
int64_t __wrap_timers_earliest(void);

static bool with_sysmon; /* set before a run: with sysmon */
static int asleep;       /* (a) Ms that have re-checked all queues and block in the kernel */

/*
 * The edge at which the next stopping M waits for edge = NOWHERE. BEFORE_LAST_CHECK and
 * BEFORE_POLL_TIME are without a lock (the latter only while a P is idle), the others are under
 * sched.lock.
 */
enum edge { NOWHERE, BEFORE_P_IS_IDLE, BEFORE_SPINNING_ENDS, BEFORE_LAST_CHECK, BEFORE_POLL_TIME };
static enum edge edge; /* (a) */
static int at_edge;    /* (a) */

int __wrap_sysmon_start(void)
{
	return with_sysmon ? __real_sysmon_start() : 0;
}

void __wrap_sysmon_stop(void)
{
	if (with_sysmon)
		__real_sysmon_stop();
}

int __wrap_netpoll_poll(int64_t ns, struct glist *out)
{
	if (ns == 0)
		return __real_netpoll_poll(ns, out);
	CHECK(ns > 0);
	if (ns != NEVER)
		CHECK(ns <= LONGEST);
	add_seq(&asleep, 1);
	int n = __real_netpoll_poll(ns, out);

	sub_seq(&asleep, 1);
	return n;
}

void __wrap_netpoll_rest(int64_t deadline)
{
	add_seq(&asleep, 1);
	__real_netpoll_rest(deadline);
	sub_seq(&asleep, 1);
}

void __wrap_m_sleep(struct m *m)
{
	add_seq(&asleep, 1);
	__real_m_sleep(m);
	sub_seq(&asleep, 1);
}

static void stop_at(enum edge where)
{
	if (ld_seq(&edge) != where)
		return;
	st_seq(&at_edge, 1);
	SPIN_FOR(ld_seq(&edge) == NOWHERE);
}

void __wrap_pidle_put(struct p *pp)
{
	stop_at(BEFORE_P_IS_IDLE);
	__real_pidle_put(pp);
}

void __wrap_midle_put(struct m *m)
{
	if (ld_seq(&sched.nmspinning)) /* otherwise a submitter takes the lock */
		stop_at(BEFORE_SPINNING_ENDS);
	__real_midle_put(m);
}

void __wrap_os_membarrier(void)
{
	stop_at(BEFORE_LAST_CHECK);
	__real_os_membarrier();
}

int64_t __wrap_timers_earliest(void)
{
	stop_at(BEFORE_POLL_TIME);
	return __real_timers_earliest();
}

static bool refuse; /* m_start fails */
static int refused; /* (a) */

int __wrap_m_start(struct m *m)
{
	if (!refuse)
		return __real_m_start(m);
	add_seq(&refused, 1);
	return -EAGAIN;
}

static bool all_asleep_but(int n)
{
	lock(&sched.lock, LR_SCHED);
	bool yes = ld_seq(&asleep) == sched.nm - n;
	unlock(&sched.lock, LR_SCHED);
	return yes;
}

static void start(int procs)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	CHECK_EQ(gmp_start(&cfg), 0);
}

static void note(void *flag)
{
	add_seq((int *)flag, 1);
}

/* --- a submitter and an M that stops (the protocol at the head of idle.h) --- */

static void submit_at(enum edge where)
{
	int before = 0, ran = 0;

	SPIN_FOR(all_asleep_but(1));
	st_seq(&at_edge, 0);
	st_seq(&edge, where);
	/* one G goes to the ring: the other M wakes, runs it, finds no more and stops */
	CHECK_EQ(gmp_go(note, &before), 0);
	CHECK_EQ(gmp_go(note, &before), 0);
	SPIN_FOR(ld_seq(&at_edge));
	/* At least one of two Gs is in the ring. No M is woken: no P is idle, or an M spins. */
	CHECK_EQ(gmp_go(note, &ran), 0);
	CHECK_EQ(gmp_go(note, &ran), 0);
	st_seq(&edge, NOWHERE);
	/* this P runs no other G meanwhile */
	SPIN_FOR(ld_seq(&ran) > 0);
	while (ld_seq(&ran) < 2 || ld_seq(&before) < 2)
		gmp_yield();
}

static void submit_at_edges(void *arg)
{
	(void)arg;
	for (int i = 0; i < 20; i++) {
		submit_at(BEFORE_P_IS_IDLE);
		submit_at(BEFORE_SPINNING_ENDS);
	}
}

TEST(idle_submit_while_m_stops_is_run)
{
	run_procs(2, submit_at_edges, NULL);
}

/* Of two Gs one goes to the ring, so another M is needed. */
static void spawn_two(int *ran)
{
	CHECK_EQ(gmp_go(note, ran), 0);
	CHECK_EQ(gmp_go(note, ran), 0);
}

static void submit_without_ms(void *arg)
{
	int ran = 0;

	(void)arg;
	spawn_two(&ran);
	while (ld_seq(&ran) < 2)
		gmp_yield();
	CHECK(ld_seq(&refused) > 0);
	refuse = false;
	spawn_two(&ran);
	SPIN_FOR(ld_seq(&ran) > 2); /* on another P */
	while (ld_seq(&ran) < 4)
		gmp_yield();
}

TEST(idle_failed_m_start_is_retried_at_next_submit)
{
	refuse = true;
	run_procs(2, submit_without_ms, NULL);
}

/* --- external submitters --- */

TEST_PROCS(idle_external_spawn_is_run_while_all_ms_sleep)
{
	start(procs);
	for (int i = 0; i < 100; i++) {
		int ran = 0;

		SPIN_FOR(all_asleep_but(0));
		CHECK_EQ(gmp_go(note, &ran), 0);
		SPIN_FOR(ld_seq(&ran));
	}
	CHECK_EQ(gmp_stop(), 0);
}

static gmp_wg gate;
static int entered, left;

static void pass_gate(void *arg)
{
	(void)arg;
	add_seq(&entered, 1);
	CHECK_EQ(gmp_wg_wait(&gate), 0);
	add_seq(&left, 1);
}

TEST_PROCS(idle_external_wake_of_several_is_run_while_all_ms_sleep)
{
	start(procs);
	for (int i = 0; i < 100; i++) {
		st_seq(&entered, 0);
		st_seq(&left, 0);
		CHECK_EQ(gmp_wg_add(&gate, 1), 0);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(gmp_go(pass_gate, NULL), 0);
		SPIN_FOR(ld_seq(&entered) == 3);
		SPIN_FOR(all_asleep_but(0));
		CHECK_EQ(gmp_wg_done(&gate), 0);
		SPIN_FOR(ld_seq(&left) == 3);
	}
	CHECK_EQ(gmp_stop(), 0);
}

static int computing, enough;

static void compute(void *arg)
{
	(void)arg;
	add_seq(&computing, 1);
	SPIN_FOR(ld_seq(&enough));
}

TEST_PROCS(idle_external_spawn_is_run_while_other_ps_compute)
{
	start(procs);
	for (int i = 1; i < procs; i++)
		CHECK_EQ(gmp_go(compute, NULL), 0);
	SPIN_FOR(ld_seq(&computing) == procs - 1);
	for (int i = 0; i < 100; i++) {
		int ran = 0;

		SPIN_FOR(all_asleep_but(procs - 1));
		CHECK_EQ(gmp_go(note, &ran), 0);
		SPIN_FOR(ld_seq(&ran));
	}
	st_seq(&enough, 1);
	CHECK_EQ(gmp_stop(), 0);
}

static int together;

static void compute_together(void *n)
{
	add_seq(&together, 1);
	SPIN_FOR(ld_seq(&together) >= (int)(intptr_t)n);
}

/* One G computes. The submitters leave the work to the last M that stops, since it still spins. */
static void submit_to_stopping_m(int procs)
{
	int ran = 0;

	SPIN_FOR(all_asleep_but(1));
	st_seq(&together, 0);
	st_seq(&at_edge, 0);
	st_seq(&edge, BEFORE_LAST_CHECK);
	CHECK_EQ(gmp_go(note, &ran), 0); /* an M wakes, runs it, finds no more */
	SPIN_FOR(ld_seq(&ran) && ld_seq(&at_edge));
	add_seq(&sched.nmspinning, 1); /* as if it had not decremented nmspinning yet */
	for (int i = 1; i < procs; i++)
		CHECK_EQ(gmp_go(compute_together, (void *)(intptr_t)(procs - 1)), 0);
	sub_seq(&sched.nmspinning, 1);
	st_seq(&edge, NOWHERE);
	SPIN_FOR(ld_seq(&together) == procs - 1);
}

TEST(idle_work_left_to_stopping_m_runs_on_all_ps)
{
	for (int procs = 3; procs <= 4; procs++) {
		st_seq(&computing, 0);
		st_seq(&enough, 0);
		start(procs);
		if (!sched.asymmetric)
			check_skip("no membarrier");
		CHECK_EQ(gmp_go(compute, NULL), 0);
		SPIN_FOR(ld_seq(&computing));
		for (int i = 0; i < 20; i++)
			submit_to_stopping_m(procs);
		st_seq(&enough, 1);
		CHECK_EQ(gmp_stop(), 0);
	}
}

/* --- fds, and an M that sleeps and ignores them --- */

static int ends[2], got_one; /* a pipe */

static void read_one(void *arg)
{
	char c;

	(void)arg;
	CHECK_EQ(gmp_read(ends[0], &c, 1), 1);
	st_seq(&got_one, 1);
}

static void *read_external(void *arg)
{
	read_one(arg);
	return NULL;
}

static void wait_and_write(void)
{
	SPIN_FOR(ld_seq(&sched.npollwait) == 1);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	SPIN_FOR(ld_seq(&got_one));
	st_seq(&got_one, 0);
}

/* An M that stopped while another M ran still polls fds: wake it once more. */
static void wait_for_deaf(void)
{
	SPIN_FOR(all_asleep_but(0));
	while (!ld_seq(&sched.ignores_fds)) {
		gmp__poller.wake();
		SPIN_FOR(all_asleep_but(0));
	}
}

TEST_PROCS(idle_new_fd_wait_is_polled_while_all_ms_sleep)
{
	pthread_t t;

	CHECK_EQ(pipe(ends), 0);
	start(procs);
	CHECK_EQ(gmp_fd_adopt(ends[0]), ends[0]);
	for (int i = 0; i < 50; i++) {
		wait_for_deaf();
		CHECK_EQ(pthread_create(&t, NULL, read_external, NULL), 0);
		wait_and_write();
		CHECK_EQ(pthread_join(t, NULL), 0);
		wait_for_deaf();
		CHECK_EQ(gmp_go(read_one, NULL), 0);
		wait_and_write();
	}
	CHECK_EQ(gmp_close(ends[0]) | close(ends[1]), 0);
	CHECK_EQ(gmp_stop(), 0);
}

/* --- the deadlock report --- */

/* Two Gs of a debug server count in ndebug until they run, in npollwait until sysmon takes them. */
TEST(idle_run_is_not_stalled_while_sysmon_has_gs_of_debug_server)
{
	static struct p pp;

	sched.allp[0] = &pp;
	sched.poll_until = INT64_MIN; /* no M sleeps in the poller */
	sched.state = RUN_ON;
	sched.npollwait = 3;
	sched.ndebug = 2;
	CHECK(!sched_is_stalled()); /* the third one waits for an fd */
	report_suspend();
	sched.npollwait -= 2;
	CHECK(!sched_is_stalled());
	sched.ndebug -= 2;
	report_resume();
	CHECK_EQ(sched.npollwait, 1);
	sched.npollwait = 0;
	CHECK(sched_is_stalled());
	sched.state = RUN_NONE;
}

/* --- timers, and the M that sleeps in the poller --- */

TEST_PROCS(idle_timer_of_external_thread_shortens_poller_sleep)
{
	int fired = 0, never = 0;

	start(procs);
	gmp_timer *hour = gmp_timer_new(note, &never), *soon = gmp_timer_new(note, &fired);

	CHECK(hour && soon);
	for (int i = 0; i < 10; i++) {
		SPIN_FOR(all_asleep_but(0) && ld_seq(&sched.poll_until) == NEVER);
		CHECK_EQ(gmp_timer_set(hour, gmp_now() + LONGEST, 0), 0);
		SPIN_FOR(all_asleep_but(0) && ld_seq(&sched.poll_until) != NEVER);
		CHECK_EQ(gmp_timer_set(soon, gmp_now() + MS, 0), 0);
		SPIN_FOR(ld_seq(&fired) == i + 1);
		CHECK_EQ(gmp_timer_stop(hour), 1);
		/*
		 * an M that sleeps for a deleted timer has one spurious wakeup, or wakes at the
		 * next timer
		 */
		SPIN_FOR(all_asleep_but(0));
		CHECK_EQ(gmp_timer_set(soon, gmp_now() + MS, 0), 0);
		SPIN_FOR(ld_seq(&fired) == i + 2);
		fired--;
	}
	CHECK_EQ(never, 0);
	gmp_timer_free(hour);
	gmp_timer_free(soon);
	CHECK_EQ(gmp_stop(), 0);
}

/* __wrap_netpoll_poll checks the time that the M sleeps: the wakeup by the timer would hide it. */
TEST(idle_timer_before_the_clocks_start_is_due_at_once)
{
	static const int64_t past[] = { INT64_MIN, INT64_MIN + 1, -1, 0 };
	int fired = 0, ran = 0;

	start(2);
	gmp_timer *t = gmp_timer_new(note, &fired);

	CHECK(t);
	CHECK_EQ(gmp_go(compute, NULL), 0); /* then the other M polls, with a length of time */
	SPIN_FOR(ld_seq(&computing) == 1);
	for (int i = 0; i < 4; i++) {
		SPIN_FOR(all_asleep_but(1));
		st_seq(&at_edge, 0);
		st_seq(&edge, BEFORE_POLL_TIME);
		CHECK_EQ(gmp_go(note, &ran), 0); /* the M wakes, runs it, finds no more */
		SPIN_FOR(ld_seq(&at_edge));
		CHECK_EQ(gmp_timer_set(t, past[i], 0), 0);
		st_seq(&edge, NOWHERE);
		SPIN_FOR(ld_seq(&fired) == i + 1);
	}
	st_seq(&enough, 1);
	gmp_timer_free(t);
	CHECK_EQ(gmp_stop(), 0);
}

static void arm_and_compute(void *arg)
{
	int fired = 0;
	gmp_timer *t = gmp_timer_new(note, &fired);

	(void)arg;
	CHECK(t);
	for (int i = 0; i < 10; i++) {
		SPIN_FOR(all_asleep_but(1));
		CHECK_EQ(gmp_timer_set(t, gmp_now() + MS, 0), 0);
		SPIN_FOR(ld_seq(&fired) == i + 1);
	}
	gmp_timer_free(t);
}

static void move_timer_and_compute(void *arg)
{
	int fired = 0;
	gmp_timer *t = gmp_timer_new(note, &fired);

	(void)arg;
	CHECK(t);
	for (int i = 0; i < 10; i++) {
		int64_t hour = gmp_now() + LONGEST;

		/*
		 * an M that is about to sleep may get a spurious wakeup, and sleeps again after it
		 */
		SPIN_FOR(all_asleep_but(1));
		CHECK_EQ(gmp_timer_set(t, hour, 0), 0);
		SPIN_FOR(all_asleep_but(1) && ld_seq(&sched.poll_until) == hour);
		CHECK_EQ(gmp_timer_set(t, hour + MS, 0), 1); /* no wakeup needed */
		CHECK_EQ(ld_seq(&sched.poll_until), hour);
		CHECK_EQ(gmp_timer_set(t, gmp_now() + MS, 0), 1);
		SPIN_FOR(ld_seq(&fired) == i + 1);
	}
	gmp_timer_free(t);
}

TEST(idle_timer_moved_by_computing_g_shortens_poller_sleep)
{
	for (int procs = 2; procs <= 4; procs *= 2)
		run_procs(procs, move_timer_and_compute, NULL);
}

TEST(idle_timer_of_computing_g_shortens_poller_sleep)
{
	for (int procs = 2; procs <= 4; procs *= 2)
		run_procs(procs, arm_and_compute, NULL);
}

/* --- a retired P --- */

static int started;

/*
 * Runs twice, on two Ps. The G on the remaining P ends, and its M sleeps in the poller without a
 * timeout.
 */
static bool on_retired_p(void)
{
	add_seq(&started, 1);
	SPIN_FOR(ld_seq(&started) == 2);
	if (getp()->id == 0)
		return false;
	SPIN_FOR(all_asleep_but(1));
	return true;
}

static void sleep_on_retired_p(void *flag)
{
	if (!on_retired_p())
		return;
	CHECK_EQ(gmp_set_procs(1), 2);
	CHECK_EQ(gmp_sleep(20 * MS), 0);
	note(flag);
}

static void leave_g_on_retired_p(void *flag)
{
	if (!on_retired_p())
		return;
	CHECK_EQ(gmp_go(note, flag), 0);
	CHECK_EQ(gmp_set_procs(1), 2);
}

static void run_two(gmp_fn fn)
{
	int flag = 0;

	started = 0;
	start(2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_go(fn, &flag), 0);
	SPIN_FOR(ld_seq(&flag));
	CHECK_EQ(gmp_stop(), 0);
}

TEST(idle_runnable_g_of_retired_p_is_run_while_all_ms_sleep)
{
	run_two(leave_g_on_retired_p);
}

TEST(idle_timer_of_retired_p_shortens_poller_sleep)
{
	run_two(sleep_on_retired_p);
}

/* --- Gs that timers make runnable together --- */

enum { TOGETHER = 12 };

static int at_work;

/* Runs until the next check of the clock; then two Gs must run at once. */
static void wake_and_compute(void *arg)
{
	int64_t *deadline = arg;

	CHECK_EQ(gmp_sleep_until(*deadline), 0);
	int64_t began = gmp_now();

	SPIN_FOR(gmp_now() - began > MS / 10);
	if (add_seq(&at_work, 1) > 0)
		SPIN_FOR(ld_seq(&at_work) > 2);
}

static void sleep_an_hour(void *arg)
{
	(void)arg;
	gmp_sleep(3600 * 1000 * MS);
}

static void sleep_together(void *arg)
{
	static int64_t deadline;
	gmp_g *g[TOGETHER];

	(void)arg;
	at_work = 0;
	CHECK_EQ(gmp_go(sleep_an_hour, NULL), 0); /* keeps the P checking the clock */
	deadline = gmp_now() + 100 * MS;
	for (int i = 0; i < TOGETHER; i++)
		CHECK_EQ(gmp_spawn(&g[i], wake_and_compute, &deadline, NULL), 0);
	while (ld_rlx(&getp()->timers.n) <= TOGETHER) /* all in the heap of the one P */
		gmp_yield();
	CHECK_EQ(gmp_set_procs(2), 1);
	for (int i = 0; i < TOGETHER; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

TEST(idle_gs_of_due_timers_are_shared_if_they_run_long)
{
	for (int i = 0; i < 5; i++)
		run_procs(1, sleep_together, NULL);
}

/* --- Gs without a wakeup, which sysmon handles (IDLE-1) --- */

static void spawn_and_compute(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
		int ran = 0;

		SPIN_FOR(all_asleep_but(1));
		uint64_t wakeups = getp()->count.wakeups;

		CHECK_EQ(gmp_go(note, &ran), 0);
		CHECK_EQ(getp()->count.wakeups, wakeups); /* a lone G wakes no M */
		SPIN_FOR(ld_seq(&ran));
	}
}

TEST(idle_runnext_behind_computing_g_is_stolen_by_sysmon)
{
	with_sysmon = true;
	for (int procs = 2; procs <= 4; procs *= 2)
		run_procs(procs, spawn_and_compute, NULL);
}

enum { FEW = 3, SEVERAL = 2 * WAKE_MIN };

static struct g *parked[SEVERAL];
static int woken, gone;

static void park(void *arg)
{
	struct g *gp = getm()->curg;

	st_seq(&parked[(intptr_t)arg], gp);
	CHECK_EQ(wait_on(&gp->w, WAIT_SLEEP, NULL, commit_none, NULL, NEVER), 0);
	add_seq(&woken, 1);
	SPIN_FOR(ld_seq(&woken) == FEW); /* the first does not yield to the others */
	add_seq(&gone, 1);
}

/* On g0, as a timer or the poller would: claims the first n parked Gs and self. */
static struct glist claim_parked(int n, struct g *self)
{
	struct glist out = { 0 };

	for (int i = 0; i < n; i++) {
		CHECK(waiter_claim(&parked[i]->w, 0));
		glist_push(&out, parked[i]);
	}
	CHECK(waiter_claim(&self->w, 0));
	glist_push(&out, self);
	return out;
}

static void wake_few(void *self)
{
	struct glist out = claim_parked(FEW, self);

	sched_submit_list(&out);
}

static void wake_few_and_compute(void *arg)
{
	struct g *self = getm()->curg;

	(void)arg;
	for (int i = 0; i < 10; i++) {
		st_seq(&woken, 0);
		st_seq(&gone, 0);
		for (intptr_t k = 0; k < FEW; k++) {
			st_seq(&parked[k], (struct g *)NULL);
			CHECK_EQ(gmp_go(park, (void *)k), 0);
		}
		for (int k = 0; k < FEW; k++)
			while (!ld_seq(&parked[k]) || ld_seq(&parked[k]->w.state) != WAITER_ARMED)
				gmp_yield();
		SPIN_FOR(all_asleep_but(1));
		CHECK_EQ(wait_on(&self->w, WAIT_SLEEP, NULL, wake_few, self, NEVER), 0);
		while (ld_seq(&gone) < FEW)
			gmp_yield();
	}
}

TEST(idle_few_gs_behind_computing_g_are_stolen)
{
	with_sysmon = true;
	run_procs(4, wake_few_and_compute, NULL);
}

/* --- Gs that timers make runnable on a P that stays busy --- */

static void park_and_run(void *arg)
{
	struct g *gp = getm()->curg;

	st_seq(&parked[(intptr_t)arg], gp);
	CHECK_EQ(wait_on(&gp->w, WAIT_SLEEP, NULL, commit_none, NULL, NEVER), 0);
	if (add_seq(&woken, 1) == 0)
		os_nap(100000); /* longer than the interval between checks of the clock */
	else
		SPIN_FOR(ld_seq(&woken) > 2);
	add_seq(&gone, 1);
}

static void all_are_due(void *self)
{
	struct glist out = claim_parked(SEVERAL, self);

	sched_submit_due(&out);
	CHECK(getp()->wake_deferred); /* no M has been woken */
}

static void several_are_due(void *arg)
{
	struct g *self = getm()->curg;
	int never = 0;
	gmp_timer *hour = gmp_timer_new(note, &never);
	int64_t in_an_hour = gmp_now() + LONGEST;

	(void)arg;
	CHECK(hour);
	for (intptr_t k = 0; k < SEVERAL; k++)
		CHECK_EQ(gmp_go(park_and_run, (void *)k), 0);
	for (int k = 0; k < SEVERAL; k++)
		while (!ld_seq(&parked[k]) || ld_seq(&parked[k]->w.state) != WAITER_ARMED)
			gmp_yield();
	CHECK_EQ(gmp_timer_set(hour, in_an_hour, 0), 0); /* on this P */
	SPIN_FOR(all_asleep_but(1) && ld_seq(&sched.poll_until) == in_an_hour);
	CHECK_EQ(wait_on(&self->w, WAIT_SLEEP, NULL, all_are_due, self, NEVER), 0);
	while (ld_seq(&gone) < SEVERAL)
		gmp_yield();
	gmp_timer_free(hour);
}

TEST(idle_gs_of_due_timers_are_shared_if_still_queued_later)
{
	run_procs(2, several_are_due, NULL);
}
