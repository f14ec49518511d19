/* SPDX-License-Identifier: MIT */
/*
 * Tests each outcome of sched_preempt: what the M does between the two checks of sysmon decides
 * whether it loses its P. sysmon does not run; an external thread takes its place.
 *
 * floors 0..6, wrap: sysmon_start sysmon_stop os_membarrier gq_put
 * wrap: gq_put_yielded
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "handoff.h"
#include "policy/take.h"
#include "proc.h"

#include <pthread.h>
#include <unwind.h>

#include "base/os.h"
#include "enter.h"
#include "monitor/sysmon.h"
#include "rt.h"
#include "runq.h"
#include "policy/spare.h"

int __wrap_sysmon_start(void);
void __wrap_sysmon_stop(void);
void __real_os_membarrier(void);
void __wrap_os_membarrier(void);
void __real_gq_put(struct g *gp);
void __wrap_gq_put(struct g *gp);
void __real_gq_put_yielded(struct g *gp);
void __wrap_gq_put_yielded(struct g *gp);

/* (a) put last into a lane of events, and into the lane of Gs that have yielded */
static struct g *woken, *yielded;

void __wrap_gq_put(struct g *gp)
{
	st_seq(&woken, gp);
	__real_gq_put(gp);
}

void __wrap_gq_put_yielded(struct g *gp)
{
	st_seq(&yielded, gp);
	__real_gq_put_yielded(gp);
}

int __wrap_sysmon_start(void)
{
	return 0;
}

void __wrap_sysmon_stop(void)
{
	spare_end();
}

static struct m *target;           /* the M that runs the G */
static void (*meanwhile)(void);    /* (a) what it does between the checks; NULL: not asked */
static bool taken;                 /* result of sched_preempt */
static uint32_t asked, asked_then; /* (a) set: the thread must ask; it has asked */

/* Sysmon is between its steps 2 and 4. */
void __wrap_os_membarrier(void)
{
	void (*fn)(void) = ld_seq(&meanwhile);

	__real_os_membarrier();
	if (!fn)
		return;
	st_seq(&meanwhile, (void (*)(void))NULL);
	CHECK_EQ(ld_seq(&target->taken), P_ASKED);
	fn();
}

static void *ask(void *arg)
{
	while (!ld_seq(&asked))
		cpu_relax();
	taken = sched_preempt(sched.allp[0], p_steps(sched.allp[0]));
	st_seq(&asked_then, 1);
	return arg;
}

/* Ask for the P of the calling G, which makes no call of gmp meanwhile. */
static bool is_taken(void (*fn)(void))
{
	pthread_t thread;

	st_seq(&asked, 0);
	st_seq(&asked_then, 0);
	CHECK_EQ(pthread_create(&thread, NULL, ask, NULL), 0);
	st_seq(&meanwhile, fn);
	st_seq(&asked, 1);
	while (!ld_seq(&asked_then))
		cpu_relax();
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return taken;
}

static void check_kept(void)
{
	CHECK_EQ(target->taken, P_KEPT);
	CHECK(target->p == sched.allp[0] && target->p->m == target);
	CHECK_EQ(sched.npreempted, 0);
	CHECK_EQ(sched.nblocked, 0);
}

static void begin(void)
{
	target = getm();
	CHECK_EQ(target->inside, 0);
}

/* --- the M outside of sections --- */

static void do_nothing(void)
{
}

static void lose_p(void *arg)
{
	(void)arg;
	begin();
	CHECK(is_taken(do_nothing));
	CHECK_EQ(target->taken, P_TAKEN);
	CHECK_EQ(sched.npreempted, 1);
	CHECK_EQ(sched.nblocked, 1);
	CHECK(!ld_seq(&yielded));
	gmp_yield();                             /* with a P again, perhaps on another M */
	CHECK(ld_seq(&yielded) == getm()->curg); /* it has used CPU time: RUNQ-6 */
	CHECK_EQ(getm()->taken, P_KEPT);
	CHECK(getm()->p == sched.allp[0]);
	CHECK_EQ(sched.npreempted, 0);
	CHECK_EQ(sched.nblocked, 0);
}

TEST(preempt_m_outside_sections_loses_p)
{
	run_procs(1, lose_p, NULL);
}

static void be_asked_again(void *arg)
{
	(void)arg;
	begin();
	CHECK(is_taken(do_nothing));
	CHECK(!is_taken(NULL)); /* the P is another M's, which is on g0, or idle */
	CHECK_EQ(sched.npreempted, 1);
	gmp_yield();
	CHECK_EQ(sched.npreempted, 0);
}

TEST(preempt_p_of_preempted_g_is_not_taken_again)
{
	run_procs(1, be_asked_again, NULL);
}

/* --- the M in a section --- */

/* The calling G was asked in a section that has ended. */
static void check_wanted(void)
{
	CHECK_EQ(target->taken, P_WANTED);
	CHECK(target->p == sched.allp[0] && target->p->m == target);
	CHECK_EQ(sched.npreempted, 0);
	while (!ld_seq(&sched.nmidle)) /* until the spare M is there: it takes the P */
		os_yield();
}

static void be_asked_without_m(void *arg)
{
	(void)arg;
	begin();
	st_seq(&sched.state, (uint32_t)RUN_STOPPING); /* no spare M is made */
	st_seq(&target->preempted.steps, p_steps(target->p));
	st_seq(&target->taken, (uint8_t)P_WANTED);
	CHECK(p_hold(target));
	p_drop(target);
	CHECK_EQ(target->taken, P_WANTED);
	st_seq(&target->taken, (uint8_t)P_KEPT);
	st_seq(&sched.state, (uint32_t)RUN_ON);
}

TEST(preempt_m_asked_in_section_keeps_p_without_stopped_m)
{
	run_procs(1, be_asked_without_m, NULL);
}

/* The next section of the calling G gives the P up. */
static void check_given_up(void)
{
	CHECK(!p_hold(target));
	CHECK_EQ(target->taken, P_TAKEN);
	CHECK_EQ(sched.npreempted, 1);
	CHECK_EQ(sched.nblocked, 1);
	p_drop(target);
	gmp_yield(); /* with a P again, perhaps on another M */
	CHECK_EQ(getm()->taken, P_KEPT);
	CHECK_EQ(sched.npreempted, 0);
	CHECK_EQ(sched.nblocked, 0);
}

static void give_up_after_section(void *arg)
{
	(void)arg;
	begin();
	CHECK(p_hold(target));
	CHECK(!is_taken(do_nothing));
	CHECK(p_hold(target)); /* nested: its caller uses the P */
	p_drop(target);
	p_drop(target);
	check_wanted();
	check_given_up();
}

TEST(preempt_m_asked_in_section_gives_p_up_at_next_begin)
{
	run_procs(1, give_up_after_section, NULL);
}

/* As if it had begun a section before sysmon wrote `taken`, and its write became visible late. */
static void show_section(void)
{
	st_seq(&target->inside, 1);
}

static void keep_in_late_section(void *arg)
{
	(void)arg;
	begin();
	CHECK(!is_taken(show_section));
	st_seq(&target->inside, 0);
	check_wanted();
	check_given_up();
}

TEST(preempt_m_whose_section_is_seen_after_membarrier_keeps_p)
{
	run_procs(1, keep_in_late_section, NULL);
}

/* sysmon asks while the M is in a section, and again when it computes. */
static void be_asked_after_section(void *arg)
{
	(void)arg;
	begin();
	CHECK(!is_taken(show_section));
	st_seq(&target->inside, 0);
	check_wanted();
	CHECK(is_taken(do_nothing));
	CHECK_EQ(target->taken, P_TAKEN);
	CHECK_EQ(sched.npreempted, 1);
	gmp_yield();
	CHECK_EQ(sched.npreempted, 0);
}

TEST(preempt_m_asked_in_section_is_asked_again)
{
	run_procs(1, be_asked_after_section, NULL);
}

/* A section that sysmon does not see at its second check. */
static void begin_and_end_section(void)
{
	st_seq(&target->inside, 2);
	CHECK(m_defer_request(target));
	CHECK_EQ(ld_seq(&target->taken), P_WANTED);
	st_seq(&target->inside, 0);
}

static void keep_after_short_section(void *arg)
{
	(void)arg;
	begin();
	CHECK(!is_taken(begin_and_end_section));
	check_wanted();
	check_given_up();
}

TEST(preempt_m_that_begins_section_in_membarrier_stays_asked)
{
	run_procs(1, keep_after_short_section, NULL);
}

/* The request is for a run that has ended. */
static void keep_in_next_run(void *arg)
{
	(void)arg;
	begin();
	CHECK(!is_taken(show_section));
	st_seq(&target->inside, 0);
	check_wanted();
	bump(&target->p->count.switches, 1);
	CHECK(p_hold(target));
	p_drop(target);
	check_kept();
}

TEST(preempt_request_of_earlier_run_is_dropped)
{
	run_procs(1, keep_in_next_run, NULL);
}

/* The G leaves its stack before it begins a section. */
static void keep_at_yield(void *arg)
{
	(void)arg;
	begin();
	CHECK(!is_taken(show_section));
	st_seq(&target->inside, 0);
	check_wanted();
	gmp_yield();
	CHECK_EQ(target->taken, P_KEPT);
	CHECK_EQ(sched.total.preemptions, 0);
}

TEST(preempt_m_asked_in_section_keeps_p_if_g_yields)
{
	run_procs(1, keep_at_yield, NULL);
}

/* Another thread holds sched.lock when the section begins. */
static void keep_while_locked(void *arg)
{
	(void)arg;
	begin();
	CHECK(!is_taken(show_section));
	st_seq(&target->inside, 0);
	lock(&sched.lock, LR_SCHED);
	CHECK(p_hold(target));
	p_drop(target);
	unlock(&sched.lock, LR_SCHED);
	check_wanted();
	check_given_up();
}

TEST(preempt_m_keeps_p_for_section_while_sched_lock_is_held)
{
	run_procs(1, keep_while_locked, NULL);
}

/* A whole section that begins after sysmon has asked: the M ends the request. */
static void settle(void)
{
	CHECK(m_end_request(target));
}

static void keep_after_settling(void *arg)
{
	(void)arg;
	begin();
	CHECK(!is_taken(settle));
	check_kept();
}

TEST(preempt_m_that_settles_keeps_p)
{
	run_procs(1, keep_after_settling, NULL);
}

/* --- the P not running --- */

static void show_blocked(void)
{
	st_seq(&sched.allp[0]->status,
	       (uint32_t)P_BLOCKED | (uint32_t)target->id << P_BLOCKED_M_SHIFT);
}

static void keep_in_blocking_code(void *arg)
{
	(void)arg;
	begin();
	CHECK(!is_taken(show_blocked));
	st_seq(&sched.allp[0]->status, (uint32_t)P_RUNNING);
	check_kept();
}

TEST(preempt_m_that_enters_blocking_code_keeps_p)
{
	run_procs(1, keep_in_blocking_code, NULL);
}

/* --- the lane of a G without a P: RUNQ-6 --- */

static int others_run; /* (a) */

static void keep_p(void *arg)
{
	(void)arg;
	st_seq(&others_run, 1);
	while (ld_seq(&others_run) != 2)
		os_yield();
}

/* As sysmon does with a P that stays in blocking code, if gmp_block_enter has not handed it off. */
static void take_blocked_p(void)
{
	struct p *pp = sched.allp[0];
	uint32_t status = ld_seq(&pp->status);

	if ((status & P_STATUS_MASK) == P_BLOCKED) {
		CHECK(cas_seq(&pp->status, &status, (uint32_t)P_RUNNING));
		sched_hand_off(pp, true);
	}
	while (ld_seq(&others_run) != 1)
		os_yield();
}

static void *let_go(void *arg)
{
	while (!ld_seq(&woken) && !ld_seq(&yielded))
		os_yield();
	st_seq(&others_run, 2);
	return arg;
}

static void leave_without_p(void *arg)
{
	struct g *self = getm()->curg;
	pthread_t thread;

	(void)arg;
	st_seq(&woken, (struct g *)NULL);
	CHECK_EQ(gmp_go(keep_p, NULL), 0);
	CHECK_EQ(pthread_create(&thread, NULL, let_go, NULL), 0);
	gmp_block_enter();
	take_blocked_p();
	gmp_block_leave(); /* the only P runs keep_p */
	CHECK(ld_seq(&woken) == self);
	CHECK(!ld_seq(&yielded));
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(blocking_g_without_p_goes_to_lane_of_events)
{
	run_procs(1, leave_without_p, NULL);
}

/* --- abandoned threads --- */

extern const char gmp__abandoned_return[];

/* An unwinder looks up the byte before a return address. */
TEST(preempt_abandoned_return_is_in_an_unwind_table)
{
	char *entry = (char *)(uintptr_t)gmp__abandoned_return;
	const char *begin = _Unwind_FindEnclosingFunction(entry);

	CHECK(begin != NULL && begin < entry && entry - begin <= 4);
	CHECK_EQ(begin, _Unwind_FindEnclosingFunction(entry + 1));
}

/* --- new Gs beside many that compute: SPARE-2 --- */

static bool started_preempted;

static void note_start(void *arg)
{
	started_preempted = ld_seq(&getm()->taken) == P_TAKEN;
	CHECK_EQ(ld_seq(&sched.npreempted) - (int)(intptr_t)arg, started_preempted);
	CHECK_EQ(ld_seq(&sched.nblocked) - (int)(intptr_t)arg, started_preempted);
}

/* Start a new G beside n that were preempted, as the counts say. */
static bool start_beside(int n)
{
	gmp_g *g;

	st_seq(&sched.npreempted, n);
	st_seq(&sched.nblocked, n);
	CHECK_EQ(gmp_spawn(&g, note_start, (void *)(intptr_t)n, NULL), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(sched.npreempted, n);
	CHECK_EQ(sched.nblocked, n);
	st_seq(&sched.npreempted, 0);
	st_seq(&sched.nblocked, 0);
	return started_preempted;
}

static void start_new_gs(void *arg)
{
	(void)arg;
	sched.slice = INT64_MAX / 4; /* each G stops within it, also on a slow machine */
	CHECK(!start_beside(SPARE_FROM));
	st_seq(&sched.starts_preempted, true); /* as sysmon does */
	CHECK(!start_beside(SPARE_FROM - 1));
	CHECK(start_beside(SPARE_FROM));
	CHECK(!ld_seq(&sched.starts_preempted));
	CHECK(!start_beside(SPARE_FROM));
}

TEST(preempt_new_g_beside_many_starts_without_p_until_one_stops)
{
	run_procs(1, start_new_gs, NULL);
}
