/* SPDX-License-Identifier: MIT */
/*
 * Tests when a P checks the global queue, and the credit of the yield lane: PICK-1, PICK-3 and
 * PICK-4 of src/pick.h.  In a replayed run a switch counts as 10 us, so the cases set the time by
 * the count of switches.
 *
 * wrap: netpoll_poll
 */
#define _GNU_SOURCE 1
#include "pick_util.h"

#include "ready.h"

/* --- the interval: PICK-3 --- */

TEST(check_of_fast_gs_is_due_every_61_switches)
{
	static const uint64_t at[] = { 0, 1000, UINT32_MAX - 30, UINT64_C(3) << 31 };

	for (unsigned i = 0; i < countof(at); i++) {
		begin_at(at[i]);
		for (int k = 0; k < 5; k++) {
			expect_due_after(GLOBAL_INTERVAL);
			CHECK(check_global(&pp) == NULL);
		}
		gq_fini();
		memset(&pp, 0, sizeof(pp));
	}
}

TEST(check_of_new_p_is_due_at_once)
{
	pp.count.switches = 500;
	pick_begin(&pp);
	CHECK(check_is_due(&pp));
}

TEST(check_interval_follows_pace_of_gs)
{
	begin();
	check_after(10, CHECK_TICKS); /* 100 us each: not longer than an interval may take */
	CHECK_EQ(pp.drr.every, GLOBAL_INTERVAL);
	check_after(10, CHECK_TICKS + 10);
	CHECK_EQ(pp.drr.every, 9);
	expect_due_after(9);
	check_after(0, 9 * (CHECK_TICKS / 12 - 1));
	CHECK_EQ(pp.drr.every, 12);
	check_after(1, INT64_C(1000) * CHECK_TICKS);
	CHECK_EQ(pp.drr.every, 1);
	expect_due_after(1);
	gq_fini();
}

/* A short run of an event between two long ones does not show that all are short. */
TEST(check_interval_doubles_at_most)
{
	begin();
	check_after(1, 2 * CHECK_TICKS);
	CHECK_EQ(pp.drr.every, 1);
	for (unsigned every = 2; every < GLOBAL_INTERVAL; every *= 2) {
		check_after(1, -1000); /* cpu_ticks of another CPU */
		CHECK_EQ(pp.drr.every, every);
	}
	check_after(1, 10);
	CHECK_EQ(pp.drr.every, GLOBAL_INTERVAL);
	gq_fini();
}

TEST(pick_begin_forgets_time_without_p)
{
	begin();
	yield_range(0, 3);
	run_first(10);
	pp.drr.since -= 100 * CHECK_TICKS;
	pick_begin(&pp);
	CHECK_EQ(pp.drr.since, ticks());
	CHECK_EQ(pp.drr.credit, 10 * (TICKS_10US / 10) / 4); /* 1 us for each run */
	expect_due_after(GLOBAL_INTERVAL - 10); /* no later than without the change of the M */
	CHECK(check_global(&pp) == NULL);
	CHECK_EQ(pp.drr.every, GLOBAL_INTERVAL);
	gq_fini();
}

/* Otherwise each hand-off within a quantum begins it again, and events starve. */
TEST(quantum_of_p_that_changes_its_m_is_not_begun_again)
{
	begin();
	yield_range(0, 3);
	pp.drr.credit = 30 * SWITCH - SWITCH / 4 - INTERVAL / 4;
	check_after(61, INTERVAL);
	CHECK(quantum_begun());
	run_first(1);
	CHECK_EQ(pp.drr.began, 0);
	CHECK(quantum_next(&pp) != NULL);
	run_first(10);
	pick_begin(&pp);
	CHECK(!quantum_begun());
	CHECK_EQ(pp.drr.credit, 30 * SWITCH - 10 * SWITCH / 4 * 3);
	check_after(1, SWITCH);
	pp.drr.credit = QUANTUM_TICKS;
	check_after(1, SWITCH);
	CHECK(quantum_begun());
	CHECK(quantum_next(&pp) != NULL);
	run_first(4);
	pick_begin(&pp);
	CHECK(quantum_begun()); /* with what is left */
	CHECK_EQ(pp.drr.credit, QUANTUM_TICKS - 4 * SWITCH / 4 * 3);
	CHECK(quantum_next(&pp) != NULL);
	run_first(10000);
	pick_begin(&pp);
	CHECK(!quantum_begun());
	CHECK_EQ(pp.drr.credit, -5 * QUANTUM_TICKS);
	gq_fini();
}

TEST(check_takes_share_of_events_and_leaves_yielded)
{
	begin();
	gq_range(100, 110, gq_put_yielded);
	gq_range(0, 100, gq_put);
	run_first(GLOBAL_INTERVAL);
	CHECK_EQ(index_of(check_global(&pp)), 0);
	CHECK_EQ(runq_ready_len(&pp), GLOBAL_CHECK_BATCH - 1);
	CHECK_EQ(ring_len(&pp, LANE_YIELD), 0);
	CHECK_EQ(gq_len(LANE_YIELD), 10);
	CHECK_EQ(gq_ready_len(), 100 - GLOBAL_CHECK_BATCH);
	gq_fini();
}

/* --- a P whose Gs run for long --- */

/* With several Ps the time is real: since the case may be interrupted, used is a lower bound. */
static void check_real(unsigned runs, uint64_t used)
{
	pp.count.switches += runs;
	pp.drr.since = cpu_ticks() - used;
	CHECK(check_global(&pp) == NULL);
}

static void expect_slow(bool slow)
{
	CHECK_EQ(pp.slow, slow);
	CHECK_EQ(pp.yield_room, slow ? 0 : RUNQ_SIZE);
}

/* Checks after Gs that ran for less than SLOW each, until the interval is as long as usual. */
static void recover(void)
{
	for (int i = 0; i < 1000 && pp.slow; i++) {
		CHECK(pp.drr.every < GLOBAL_INTERVAL);
		check_real(1000, SLOW);
	}
	CHECK_EQ(pp.drr.every, GLOBAL_INTERVAL);
	expect_slow(false);
}

TEST(p_is_slow_while_gs_run_for_long)
{
	begin();
	sched.procs = 2;
	sched.virtual_now = 0;
	check_real(40, 41 * SLOW);
	expect_slow(true);
	CHECK(pp.drr.every <= CHECK_TICKS / SLOW);
	recover();
	check_real(1, 2 * CHECK_TICKS);
	expect_slow(true);
	recover();
	gq_fini();
}

/* Otherwise a P that changes often moves them behind the global queue each time. */
TEST(gs_in_yield_lane_of_p_that_becomes_slow_run_first)
{
	begin();
	sched.procs = 2;
	sched.virtual_now = 0;
	yield_range(0, 3);
	check_real(40, 41 * SLOW);
	expect_slow(true);
	yield_range(10, 12); /* to the global queue */
	for (int i = 0; i < 3; i++)
		CHECK_EQ(index_of(runq_get_yielded(&pp)), i);
	CHECK_EQ(index_of(runq_get_yielded(&pp)), 10);
	gq_fini();
}

/* Gs that have yielded in the round are no part of it. */
TEST(round_of_p_that_becomes_slow_keeps_its_end)
{
	begin();
	sched.procs = 2;
	sched.virtual_now = 0;
	gq_range(10, 20, gq_put_yielded);
	CHECK_EQ(index_of(runq_get_yielded(&pp)), 10); /* a share: 10 / 2 + 1 */
	yield_range(0, 3);
	check_real(40, 41 * SLOW);
	expect_slow(true);
	for (int i = 11; i < 17; i++) /* the round, then the global queue */
		CHECK_EQ(index_of(runq_get_yielded(&pp)), i);
	gq_fini();
}

TEST(p_without_other_ps_is_never_slow)
{
	begin();
	check_after(10, 100 * CHECK_TICKS);
	CHECK_EQ(pp.drr.every, 1);
	expect_slow(false);
	sched.procs = 2;
	sched.virtual_now = 0;
	check_real(1, 2 * CHECK_TICKS);
	expect_slow(true);
	sched.procs = 1; /* the other Ps have retired */
	check_real(1, 2 * CHECK_TICKS);
	expect_slow(false);
	gq_fini();
}

TEST(p_in_order_never_gets_a_yield_lane)
{
	begin();
	pp.in_order = true;
	pp.yield_room = 0;
	check_after(10, 100 * CHECK_TICKS);
	CHECK_EQ(pp.drr.every, 1);
	check_after(100, 100);
	CHECK_EQ(pp.drr.every, 2);
	CHECK_EQ(pp.yield_room, 0);
	gq_fini();
}

/* --- the credit of the yield lane: PICK-4 --- */

TEST(credit_is_a_quarter_while_yielded_gs_wait)
{
	begin();
	yield_range(0, 3);
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, INTERVAL / 4);
	CHECK(!quantum_begun());
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, INTERVAL / 4 * 2);
	CHECK(quantum_begun());
	gq_fini();
}

TEST(credit_counts_gs_in_global_queue)
{
	begin();
	gq_range(0, 1, gq_put_yielded);
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, INTERVAL / 4);
	CHECK_EQ(index_of(gq_get_from(&pp, LANE_YIELD)), 0);
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, 0);
	gq_fini();
}

TEST(credit_is_reset_when_no_yielded_g_waits)
{
	begin();
	pp.drr.credit = QUANTUM_CREDIT - 1;
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, 0);
	pp.drr.credit = -QUANTUM_CREDIT;
	put_range(0, 3); /* Gs of events do not count */
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, 0);
	CHECK(!quantum_begun());
	gq_fini();
}

TEST(credit_is_less_by_runs_of_yield_lane)
{
	begin();
	yield_range(0, 3);
	run_yielded(10);
	check_after(51, INTERVAL);
	CHECK_EQ(pp.drr.credit, INTERVAL / 4 - 10 * SWITCH);
	pp.drr.credit = INTERVAL;
	run_yielded(5); /* all runs of an interval count as equally long */
	check_after(5, INTERVAL);
	CHECK_EQ(pp.drr.credit, INTERVAL + INTERVAL / 4 - INTERVAL / 2);
	gq_fini();
}

/* Otherwise they starve when the other lanes fill, for four times as long as they ran alone. */
TEST(runs_while_other_lanes_are_empty_leave_no_negative_credit)
{
	begin();
	yield_range(0, 3);
	for (int i = 0; i < 100; i++) {
		run_yielded(61);
		check_after(0, INTERVAL);
		CHECK_EQ(pp.drr.credit, 0);
	}
	pp.drr.credit = -INTERVAL; /* left by a long quantum: it stays */
	run_yielded(61);
	check_after(0, INTERVAL);
	CHECK_EQ(pp.drr.credit, -INTERVAL);
	gq_fini();
}

TEST(credit_is_less_by_runs_from_global_queue)
{
	begin();
	pp.slow = true; /* each of them passes through the global queue */
	pp.yield_room = 0;
	yield_range(0, 3);
	run_yielded(10);
	CHECK_EQ(ring_len(&pp, LANE_YIELD), 0);
	check_after(51, INTERVAL);
	CHECK_EQ(pp.drr.credit, INTERVAL / 4 - 10 * SWITCH);
	gq_fini();
}

TEST(credit_does_not_count_moves_to_global_queue_as_runs)
{
	begin();
	yield_range(0, RUNQ_SIZE + 1);
	CHECK_EQ(gq_len(LANE_YIELD), RUNQ_BATCH);
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, INTERVAL / 4);
	lock(&sched.lock, LR_SCHED);
	runq_flush_yielded_locked(&pp);
	unlock(&sched.lock, LR_SCHED);
	pp.drr.credit = 0;
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, INTERVAL / 4);
	gq_fini();
}

TEST(credit_is_less_by_no_more_than_all_runs)
{
	begin();
	yield_range(0, 3);
	pp.drr.head -= 1000; /* thieves have taken many */
	pp.drr.credit = INTERVAL;
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, INTERVAL / 4);
	gq_fini();
}

TEST(credit_is_bounded)
{
	begin();
	yield_range(0, 3);
	check_after(1, INT64_C(1000) * QUANTUM_TICKS);
	CHECK_EQ(pp.drr.credit, QUANTUM_TICKS);
	gq_fini();
}

TEST(quantum_begins_at_a_quarter_of_check_interval)
{
	begin();
	yield_range(0, 3);
	pp.drr.credit = QUANTUM_CREDIT - INTERVAL / 4 - 1;
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, QUANTUM_CREDIT - 1);
	CHECK(!quantum_begun());
	pp.drr.credit = QUANTUM_CREDIT - INTERVAL / 4;
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, QUANTUM_CREDIT);
	CHECK(quantum_begun());
	gq_fini();
}

/* In chaos every step draws from all Gs; a quantum would prefer some of them. */
TEST(quantum_never_begins_in_chaos)
{
	begin();
	sched.chaos = true;
	yield_range(0, 3);
	check_after(1, 10 * CHECK_TICKS);
	CHECK_EQ(pp.drr.credit, 0);
	CHECK(!quantum_begun());
	gq_fini();
}

/* --- the own queues: PICK-1 --- */

TEST(runnext_with_expired_slice_goes_to_yield_lane)
{
	begin();
	put_range(0, 1);
	yield_range(1, 2);
	for (int i = 0; i < INHERIT_MAX; i++) {
		runnext_swap(&pp, &greens[2]);
		CHECK_EQ(index_of(local_work(&pp)), 2);
		CHECK_EQ(pp.schedtick, 0);
	}
	runnext_swap(&pp, &greens[2]);
	CHECK_EQ(index_of(local_work(&pp)), 0); /* new ones, then in FIFO order */
	CHECK(!pp.runnext);
	CHECK_EQ(pp.inherited, 0);
	CHECK_EQ(ring_len(&pp, LANE_YIELD), 2);
	CHECK_EQ(index_of(local_work(&pp)), 1);
	CHECK_EQ(index_of(local_work(&pp)), 2);
	CHECK(local_work(&pp) == NULL);
	CHECK_EQ(pp.schedtick, 4);
	gq_fini();
}

/* --- polls of a busy P --- */

static char stack; /* of Gs that have run */

TEST(poll_waits_for_as_many_gs_as_events_made_runnable)
{
	begin();
	sched.npollwait = 1;
	pp.schedtick = 70;
	for (int i = 0; i < 12; i++)
		greens[i].stack = &stack;
	put_range(0, 3);
	yield_range(3, 10);
	gq_range(10, 12, gq_put);
	gq_range(12, 20, gq_put_yielded);
	put_range(20, 30); /* new ones */
	gq_range(30, 40, gq_put);
	poll_if_due(&pp);
	CHECK_EQ(polls, 1);
	pp.schedtick += 5; /* of the five, and a new one; yielded Gs do not count */
	sched.lastpoll = 0;
	poll_if_due(&pp);
	CHECK_EQ(polls, 1);
	pp.schedtick++;
	poll_if_due(&pp);
	CHECK_EQ(polls, 2);
	gq_fini();
}

/* --- a G in the global queue while all Ps are busy: PICK-3 --- */

static struct p other;

static void expect_asked(unsigned first, unsigned second)
{
	sched_ask_one();
	CHECK_EQ(pp.attention, first);
	CHECK_EQ(other.attention, second);
}

static void begin_ask(void)
{
	sched.allp[0] = &pp;
	sched.allp[1] = &other;
	sched.nallp = 2;
	pp.status = other.status = P_RUNNING;
}

TEST(ask_one_asks_each_busy_p_in_turn)
{
	begin_ask();
	expect_asked(0, 0); /* no run */
	sched.gq_asked = 0;
	sched.procs = 2;
	expect_asked(ATTENTION_CHECK, 0);
	expect_asked(ATTENTION_CHECK, ATTENTION_CHECK);
	pp.attention = other.attention = ATTENTION_YIELDED;
	expect_asked(ATTENTION_CHECK | ATTENTION_YIELDED, ATTENTION_YIELDED);
	pp.attention = other.attention = 0;
	pp.status = P_BLOCKED;
	for (int i = 0; i < 2; i++)
		expect_asked(0, ATTENTION_CHECK);
}

TEST(ask_one_asks_none_if_a_p_is_idle_or_in_replay_and_chaos)
{
	begin_ask();
	sched.procs = 1;
	sched.npidle = 1;
	expect_asked(0, 0);
	sched.npidle = 0;
	sched.chaos = true;
	expect_asked(0, 0);
	sched.chaos = false;
	sched.virtual_now = 1;
	expect_asked(0, 0);
	sched.virtual_now = 0;
	expect_asked(ATTENTION_CHECK, 0);
}
