/* SPDX-License-Identifier: MIT */
/*
 * Tests the quanta of the yield lane, and which share of the time its Gs get: PICK-4 of
 * src/pick.h.
 *
 * floors 0..3
 * wrap: netpoll_poll
 */
#define _GNU_SOURCE 1
#include "pick_util.h"

/* --- a quantum: PICK-4 --- */

/* n Gs have yielded, and a quantum of `credit` has been announced. */
static void begin_quantum_of(int64_t credit, int n)
{
	begin();
	yield_range(0, n);
	pp.drr.credit = credit - SWITCH / 4 - INTERVAL / 4;
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, credit - SWITCH / 4);
	CHECK(quantum_begun());
	run_first(1); /* the G that runs between the check and the quantum */
}

static void begin_quantum(int64_t credit)
{
	begin_quantum_of(credit, 50);
}

static void step_of_quantum(int i)
{
	struct g *gp = quantum_next(&pp);

	CHECK_EQ(index_of(gp), i);
	CHECK(quantum_begun());
	pp.count.switches++;
	runq_yield(&pp, gp);
}

TEST(quantum_lasts_until_credit_is_used)
{
	int64_t credit = 30 * SWITCH + SWITCH / 2;

	begin_quantum(credit);
	uint64_t since = pp.due.since = ticks() - 10;
	uint32_t from = pp.due.from = 5;

	put_range(100, 103);
	for (int i = 0; i < 31; i++)
		step_of_quantum(i);
	uint64_t now = ticks();

	CHECK(quantum_next(&pp) == NULL);
	CHECK(!quantum_begun());
	/* the last run was too long, and a quarter of the quantum is new credit */
	CHECK_EQ(pp.drr.credit, credit - 31 * SWITCH / 4 * 3);
	CHECK_EQ(ring_len(&pp, LANE_YIELD), 50);
	CHECK_EQ(runq_ready_len(&pp), 3);
	/* the quantum is no part of the interval, nor of the time that timers earn */
	CHECK_EQ(pp.drr.since, now);
	CHECK_EQ(pp.drr.from, pp.count.switches);
	expect_due_after(GLOBAL_INTERVAL);
	CHECK_EQ(pp.due.since, since + 31 * SWITCH);
	CHECK_EQ(pp.due.from, from + 31);
	check_after(0, INTERVAL);
	CHECK_EQ(pp.drr.credit, credit - 31 * SWITCH / 4 * 3 + INTERVAL / 4);
	gq_fini();
}

TEST(quantum_ends_at_its_exact_end)
{
	begin_quantum(30 * SWITCH);
	for (int i = 0; i < 30; i++)
		step_of_quantum(i);
	CHECK(quantum_next(&pp) == NULL);
	CHECK_EQ(pp.drr.credit, 30 * SWITCH / 4);
	gq_fini();
}

TEST(quantum_ends_when_yield_lane_is_empty)
{
	begin_quantum_of(30 * SWITCH, 3);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(index_of(quantum_next(&pp)), i);
		pp.count.switches++; /* it parks or ends */
	}
	CHECK(quantum_next(&pp) == NULL);
	CHECK(!quantum_begun());
	CHECK_EQ(pp.drr.credit, 30 * SWITCH - 3 * SWITCH / 4 * 3);
	check_after(61, INTERVAL);
	CHECK_EQ(pp.drr.credit, 0);
	gq_fini();
}

TEST(quantum_includes_gs_in_global_queue)
{
	begin_quantum_of(30 * SWITCH, 3);
	gq_range(3, 5, gq_put_yielded);
	int first = index_of(quantum_next(&pp));

	CHECK_EQ(first, 3); /* no round has begun: those of the ring go behind them */
	for (int i = 1; i < 5; i++) {
		pp.count.switches++;
		CHECK(quantum_next(&pp) != NULL);
	}
	CHECK(quantum_next(&pp) == NULL);
	gq_fini();
}

/* A G that spawns and yields must wait for the Gs that it has spawned. */
TEST(quantum_begins_after_gs_that_are_new)
{
	begin();
	yield_range(0, 3);
	put_range(10, 13);
	pp.drr.credit = QUANTUM_CREDIT;
	check_after(61, INTERVAL);
	CHECK(!quantum_begun());
	put_range(20, 23); /* later: a quantum does not wait for these */
	for (int i = 10; i < 13; i++) {
		check_after(1, SWITCH);
		CHECK(!quantum_begun());
		CHECK_EQ(index_of(runq_get(&pp)), i);
	}
	check_after(1, SWITCH);
	CHECK(quantum_begun());
	gq_fini();
}

/* The next G as in sched.c:own_work, without timers. */
static int run_next(int64_t used)
{
	struct g *gp = NULL;

	if (check_is_due(&pp)) {
		pp.drr.since = ticks() - (uint64_t)used;
		gp = check_global(&pp);
	}
	if (!gp)
		gp = first_work(&pp);
	pp.count.switches++;
	return index_of(gp);
}

/* While a quantum is due, each switch is a check.  If each check took a G of the global queue, the
 * Gs of the ring, which the quantum waits for, would not run. */
TEST(quantum_begins_although_global_queue_holds_gs)
{
	begin();
	yield_range(0, 3);
	put_range(10, 13);
	pp.drr.credit = QUANTUM_CREDIT;
	check_after(61, INTERVAL);
	CHECK(!quantum_begun());
	gq_range(100, 1100, gq_put);
	check_global(&pp); /* the first of three runs until the next check */
	pp.count.switches++;
	for (int i = 0; i < 8 && !quantum_begun(); i++)
		run_next(SWITCH);
	CHECK(quantum_begun());
	gq_fini();
}

TEST(new_gs_run_although_each_switch_is_a_check)
{
	begin();
	put_range(10, 13);
	pp.drr.every = 1;
	check_after(1, 2 * CHECK_TICKS);
	CHECK_EQ(pp.drr.every, 1);
	gq_range(100, 1100, gq_put);
	for (int i = 10; i < 13; i++) {
		CHECK_EQ(run_next(2 * CHECK_TICKS), i);
		CHECK(run_next(2 * CHECK_TICKS) >= 100);
	}
	gq_fini();
}

TEST(new_gs_run_although_timers_run_after_checks)
{
	begin();
	put_range(10, 13);
	pp.drr.every = 1;
	check_after(1, 2 * CHECK_TICKS);
	gq_range(100, 1100, gq_put);
	CHECK_EQ(run_next(2 * CHECK_TICKS), 10);
	for (int i = 11; i < 13; i++) {
		CHECK(run_next(2 * CHECK_TICKS) >= 100);
		pick_passes_by(&pp);
		pp.count.switches++; /* the G of a timer */
		CHECK_EQ(run_next(2 * CHECK_TICKS), i);
	}
	gq_fini();
}

/* The ring is empty. */
TEST(runnext_runs_although_each_switch_is_a_check)
{
	begin();
	pp.drr.every = 1;
	check_after(1, 2 * CHECK_TICKS);
	sched.procs = 1000; /* a share of 1: a check puts no G into the ring */
	gq_range(100, 1100, gq_put);
	runnext_swap(&pp, &greens[10]);
	pp.count.switches++;
	CHECK_EQ(run_next(2 * CHECK_TICKS), 100);
	CHECK_EQ(run_next(2 * CHECK_TICKS), 10);
	gq_fini();
}

/* runnext is no part of the ring. */
TEST(quantum_begins_after_g_in_runnext)
{
	begin();
	yield_range(0, 3);
	runnext_swap(&pp, &greens[10]);
	pp.drr.credit = QUANTUM_CREDIT;
	check_after(61, INTERVAL);
	CHECK(!quantum_begun());
	pp.count.switches++; /* a G of the global queue or of a timer */
	CHECK(check_is_due(&pp));
	check_after(0, SWITCH);
	CHECK(!quantum_begun());
	CHECK_EQ(index_of(local_work(&pp)), 10);
	runnext_swap(&pp, &greens[11]); /* later: a quantum does not wait for it */
	check_after(1, SWITCH);
	CHECK(quantum_begun());
	gq_fini();
}

/* A quantum becomes due while greens[11] is runnext, and greens[10] is new. */
static void announce_behind_runnext(void)
{
	begin();
	yield_range(0, 3);
	put_range(10, 11);
	runnext_swap(&pp, &greens[11]);
	pp.drr.credit = QUANTUM_CREDIT;
	check_after(61, INTERVAL);
}

TEST(quantum_begins_after_g_that_was_moved_from_runnext)
{
	announce_behind_runnext();
	CHECK_EQ(index_of(runq_get(&pp)), 10);
	runq_put(&pp, runnext_swap(&pp, &greens[12])); /* as a wakeup does */
	check_after(1, SWITCH);
	CHECK(!quantum_begun());
	CHECK_EQ(index_of(runq_get(&pp)), 11);
	check_after(1, SWITCH);
	CHECK(quantum_begun());
	gq_fini();
}

TEST(quantum_begins_after_last_new_g_was_taken_back)
{
	announce_behind_runnext();
	runnext_swap(&pp, &greens[12]);
	check_after(1, SWITCH);
	CHECK(!quantum_begun());
	CHECK(runq_take_back(&pp, &greens[10])); /* and its joiner made it runnext */
	check_after(1, SWITCH);
	CHECK(quantum_begun());
	gq_fini();
}

TEST(quantum_runs_each_g_once)
{
	begin_quantum_of(30 * SWITCH, 3);
	for (int i = 0; i < 3; i++)
		step_of_quantum(i);
	CHECK(quantum_next(&pp) == NULL);
	CHECK(!quantum_begun());
	CHECK_EQ(ring_len(&pp, LANE_YIELD), 3);
	gq_fini();
}

TEST(quantum_with_long_last_run_leaves_bounded_negative_credit)
{
	begin_quantum(30 * SWITCH);
	step_of_quantum(0);
	run_first(10000); /* G 1 runs for 100 ms */
	CHECK(quantum_next(&pp) == NULL);
	CHECK_EQ(pp.drr.credit, -5 * QUANTUM_TICKS);
	check_after(1, SWITCH);
	CHECK_EQ(pp.drr.credit, -5 * QUANTUM_TICKS + SWITCH / 4);
	CHECK(!quantum_begun());
	gq_fini();
}

TEST(quantum_without_credit_runs_one_g)
{
	begin_quantum(30 * SWITCH);
	pp.drr.credit = -SWITCH / 4 - 10; /* by a check for pinned Gs */
	step_of_quantum(0);
	CHECK(quantum_next(&pp) == NULL);
	CHECK_EQ(pp.drr.credit, -10 - SWITCH / 4 * 3);
	gq_fini();
}

TEST(check_during_turn_does_not_begin_it_again)
{
	begin_quantum(30 * SWITCH);
	step_of_quantum(0);
	uint64_t began = pp.drr.began, end = pp.drr.end;

	pp.drr.credit = QUANTUM_TICKS; /* enough for another one */
	check_after(1, SWITCH);
	CHECK(quantum_begun());
	CHECK_EQ(pp.drr.began, began);
	CHECK(quantum_next(&pp) != NULL);
	CHECK_EQ(pp.drr.began, began);
	CHECK_EQ(pp.drr.end, end);
	gq_fini();
}

TEST(quantum_does_not_change_pace)
{
	begin();
	yield_range(0, 3);
	check_after(10, CHECK_TICKS + 10); /* 100 us each */
	CHECK_EQ(pp.drr.every, 9);
	CHECK(quantum_begun());
	run_first(1);
	CHECK(quantum_next(&pp) != NULL);
	CHECK_EQ(pp.drr.every, 9);
	gq_fini();
}

TEST(quantum_with_timers_in_it_moves_their_times_no_further_than_now)
{
	begin_quantum(30 * SWITCH);
	step_of_quantum(0);
	pp.due.since = ticks(); /* own_work, for pinned Gs */
	pp.due.from = (uint32_t)pp.count.switches;
	pp.count.switches += 50;
	CHECK(quantum_next(&pp) == NULL);
	CHECK_EQ(pp.due.since, ticks());
	CHECK_EQ(pp.due.from, pp.count.switches);
	gq_fini();
}

/*
 * The order of schedule_g0 and own_work, with a lane of new Gs that is empty in some of 8 steps,
 * and whose Gs run for `length` switches.
 */
static double share_of_yield_lane(int empty, unsigned length, int *longest)
{
	enum { STEPS = 100000 };
	uint64_t theirs = 0, all = 0;
	int row = 0;

	begin();
	*longest = 0;
	yield_range(0, 300); /* a quantum runs each once */
	for (int i = 0; i < STEPS; i++) {
		struct g *gp = quantum_begun() ? quantum_next(&pp) : NULL;

		if (!gp && check_is_due(&pp))
			CHECK(check_global(&pp) == NULL);
		if (gp)
			*longest = max_of(++row, *longest);
		else
			row = 0;
		if (!gp && i % 8 < empty)
			gp = runq_get_yielded(&pp);
		unsigned runs = gp ? 1 : length;

		pp.count.switches += runs;
		all += runs;
		if (gp) {
			runq_yield(&pp, gp);
			theirs++;
		}
	}
	gq_fini();
	memset(&pp, 0, sizeof(pp));
	return (double)theirs / (double)all;
}

TEST(yield_lane_gets_a_quarter_beside_busy_lane_of_new_gs)
{
	int longest;

	for (int empty = 0; empty < 2; empty++) {
		double share = share_of_yield_lane(empty, 1, &longest);

		CHECK(share > 0.24 && share < 0.26);
		CHECK(longest > 10);
		CHECK(longest <= QUANTUM_TICKS / SWITCH);
	}
	/* more than a quarter of the steps: it needs no quanta */
	CHECK_EQ((int)(share_of_yield_lane(4, 1, &longest) * 1000), 500);
	CHECK_EQ(longest, 0);
}

TEST(yield_lane_gets_a_quarter_beside_slow_lane_of_new_gs)
{
	for (unsigned length = 10; length <= 200; length += 10) { /* 0.1 to 2 ms */
		int longest;
		double share = share_of_yield_lane(0, length, &longest);

		CHECK(share > 0.24 && share < 0.26);
		CHECK(longest <= QUANTUM_TICKS / SWITCH);
	}
}
