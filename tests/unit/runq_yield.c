/* SPDX-License-Identifier: MIT */
/* Tests that Gs which have yielded run in order and in rounds, from the yield lane and from the
 * global queue.  floors 0..2 */
#define _GNU_SOURCE 1
#include "runq_util.h"

/* --- the yield lane --- */

static void check_yields(bool shared, uint32_t start)
{
	begin(1, shared);
	ps[0].head[LANE_YIELD] = ps[0].tail[LANE_YIELD] = start;
	CHECK(runq_get_yielded(&ps[0]) == NULL);
	put_range(&ps[0], 0, 2);
	yield_range(&ps[0], 100, 110);
	put_range(&ps[0], 2, 3);
	CHECK_EQ(runq_ready_len(&ps[0]), 3);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), 10);
	CHECK_EQ(runq_len(&ps[0]), 13);
	expect_yielded(&ps[0], 100, 104);
	yield_range(&ps[0], 110, 112);
	expect_range(&ps[0], 0, 3);
	CHECK(runq_get(&ps[0]) == NULL);
	CHECK_EQ(runq_len(&ps[0]), 8);
	expect_yielded(&ps[0], 104, 112);
	CHECK(runq_get_yielded(&ps[0]) == NULL);
	CHECK_EQ(runq_len(&ps[0]), 0);
	CHECK_EQ(sched.gqn, 0);
	gq_fini();
	memset(ps, 0, sizeof(ps));
}

TEST(runq_yield_is_fifo_in_yield_lane)
{
	for (int shared = 0; shared < 2; shared++)
		for (uint32_t before = 0; before < 12; before++)
			check_yields(shared, -before);
}

/* How many Gs have passed through the yield lane and have run: PICK-4. */
static int ran_yielded(struct p *pp)
{
	return (int)((uint32_t)pp->head[LANE_YIELD] - pp->drr.head);
}

static void check_yield_overflow(bool shared, uint32_t start)
{
	begin(1, shared);
	ps[0].head[LANE_YIELD] = ps[0].tail[LANE_YIELD] = ps[0].round_end = ps[0].drr.head = start;
	yield_range(&ps[0], 0, RUNQ_SIZE);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), RUNQ_SIZE);
	CHECK_EQ(sched.gqn, 0);
	runq_yield(&ps[0], &greens[RUNQ_SIZE]);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), RUNQ_SIZE - RUNQ_BATCH + 1);
	CHECK_EQ(gq_len(LANE_YIELD), RUNQ_BATCH);
	CHECK_EQ(sched.gqn, RUNQ_BATCH);
	CHECK_EQ(runq_ready_len(&ps[0]), 0);
	CHECK_EQ(ran_yielded(&ps[0]), 0);
	expect_yielded(&ps[0], 0, RUNQ_SIZE + 1);
	CHECK_EQ(ran_yielded(&ps[0]), RUNQ_SIZE + 1);
	CHECK(runq_get_yielded(&ps[0]) == NULL);
	CHECK_EQ(sched.gqn, 0);
	CHECK_EQ(gq_len(LANE_YIELD), 0);
	gq_fini();
	memset(ps, 0, sizeof(ps));
}

TEST(runq_yield_to_full_ring_moves_oldest_to_global_queue)
{
	check_yield_overflow(false, 0);
	check_yield_overflow(true, 0);
	check_yield_overflow(false, UINT32_MAX - 10);
	check_yield_overflow(true, UINT32_MAX - 200);
}

TEST(runq_flush_moves_all_in_order)
{
	for (int shared = 0; shared < 2; shared++) {
		begin(1, shared);
		gq_yield_range(0, 1);
		yield_range(&ps[0], 1, 1001);
		put_range(&ps[0], 1001, 1003);
		lock(&sched.lock, LR_SCHED);
		runq_flush_yielded_locked(&ps[0]);
		runq_flush_yielded_locked(&ps[0]);
		unlock(&sched.lock, LR_SCHED);
		CHECK_EQ(ring_len(&ps[0], LANE_YIELD), 0);
		CHECK_EQ(ran_yielded(&ps[0]), 0);
		CHECK_EQ(gq_len(LANE_YIELD), 1001);
		gq_expect_yielded(0, 1001);
		expect_range(&ps[0], 1001, 1003);
		gq_fini();
		memset(ps, 0, sizeof(ps));
	}
}

/* --- the yield lane of a P whose Gs run for long: RUNQ-6 --- */

static void make_slow(struct p *pp)
{
	pp->slow = true;
	pp->yield_room = 0;
	pp->round_end = pp->tail[LANE_YIELD];
}

TEST(runq_yield_of_slow_p_uses_global_queue)
{
	begin(1, true);
	yield_range(&ps[0], 0, 300);
	make_slow(&ps[0]);
	CHECK_EQ(gq_len(LANE_YIELD), 0);
	runq_yield(&ps[0], &greens[300]);
	CHECK_EQ(gq_len(LANE_YIELD), 1);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), 300);
	for (int i = 0; i < 300;
	     i++) { /* those before it run first, whatever the end of the round */
		CHECK_EQ(index_of(runq_get_yielded(&ps[0])), i);
		runq_yield(&ps[0], &greens[301 + i]);
	}
	CHECK_EQ(runq_len(&ps[0]), 0);
	CHECK_EQ(gq_len(LANE_YIELD), 301);
	gq_expect_yielded(300, 601);
	CHECK_EQ(sched.gqn, 0);
	gq_fini();
}

TEST(runq_round_of_slow_p_is_one_g)
{
	begin(2, true);
	make_slow(&ps[0]);
	yield_range(&ps[0], 0, 10);
	for (int i = 0; i < 25; i++) {
		CHECK_EQ(index_of(runq_get_yielded(&ps[0])), i % 10);
		CHECK_EQ(ring_len(&ps[0], LANE_YIELD), 0);
		CHECK_EQ(ran_yielded(&ps[0]), i + 1);
		runq_yield(&ps[0], &greens[i % 10]);
	}
	gq_fini();
}

TEST(runq_slow_ps_share_one_order)
{
	begin(2, true);
	make_slow(&ps[0]);
	make_slow(&ps[1]);
	yield_range(&ps[0], 0, 9);
	yield_range(&ps[1], 9, 10);
	for (int i = 0; i < 30; i += 2) { /* both run a G at a time */
		struct g *a = runq_get_yielded(&ps[0]), *b = runq_get_yielded(&ps[1]);

		CHECK_EQ(index_of(a), i % 10);
		CHECK_EQ(index_of(b), (i + 1) % 10);
		runq_yield(&ps[0], a);
		runq_yield(&ps[1], b);
	}
	gq_fini();
}

/* --- rounds: RUNQ-6 --- */

/* Run the first yielded G of ps[0], which is greens[i], until it yields. */
static void run_yielded(int i)
{
	CHECK_EQ(index_of(runq_get_yielded(&ps[0])), i);
	runq_yield(&ps[0], &greens[i]);
}

static void check_rounds(bool shared, uint32_t start)
{
	begin(2, shared);
	ps[0].head[LANE_YIELD] = ps[0].tail[LANE_YIELD] = ps[0].round_end = ps[0].drr.head = start;
	gq_yield_range(0, 3);
	yield_range(&ps[0], 3, 5);
	run_yielded(0); /* no round yet: 3 and 4 go behind 2; the share is three */
	CHECK_EQ(gq_len(LANE_YIELD), 2);
	CHECK_EQ(sched.gqn, 2);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), 3);
	run_yielded(1);
	run_yielded(2);
	CHECK_EQ(gq_len(LANE_YIELD), 2);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), 3);
	run_yielded(3); /* the round is over: 0, 1 and 2 go behind 4 */
	CHECK_EQ(gq_len(LANE_YIELD), 2);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), 3);
	run_yielded(4);
	run_yielded(0);
	run_yielded(1);
	CHECK_EQ(ran_yielded(&ps[0]), 7);
	gq_fini();
	memset(ps, 0, sizeof(ps));
}

TEST(runq_round_ends_behind_its_gs)
{
	for (int shared = 0; shared < 2; shared++)
		for (uint32_t before = 0; before < 12; before++)
			check_rounds(shared, -before);
}

/* Is ps[0] in a round, if its end is `at` places behind the head of the ring? */
static bool in_round(uint32_t at)
{
	struct g *gp;

	begin(1, false);
	ps[0].head[LANE_YIELD] = ps[0].tail[LANE_YIELD] = 100;
	ps[0].round_end = 100 + at;
	yield_range(&ps[0], 1, 3);
	gq_yield_range(0, 1);
	gp = runq_get_yielded(&ps[0]);
	CHECK(gp == &greens[0] || gp == &greens[1]);
	gq_fini();
	memset(ps, 0, sizeof(ps));
	return gp == &greens[1];
}

TEST(runq_round_with_stale_end_ends_at_once)
{
	CHECK(in_round(1));
	CHECK(in_round(2));
	CHECK(in_round(RUNQ_SIZE));
	CHECK(!in_round(0));
	CHECK(!in_round(-1u)); /* thieves moved head past it */
	CHECK(!in_round(-(uint32_t)RUNQ_SIZE));
	CHECK(!in_round(RUNQ_SIZE + 1)); /* more than the ring holds: of an earlier wrap */
	CHECK(!in_round(UINT32_C(1) << 31));
}

TEST(runq_round_with_empty_ring_continues_with_global_queue)
{
	begin(2, true);
	gq_yield_range(0, 6);
	CHECK_EQ(index_of(runq_get_yielded(&ps[0])), 0); /* 6 / 2 + 1 */
	CHECK_EQ(index_of(runq_steal(&ps[1], &ps[0], false)), 1);
	CHECK_EQ(index_of(runq_steal(&ps[2], &ps[0], false)), 3);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), 0);
	CHECK_EQ(index_of(runq_get_yielded(&ps[0])), 4);
	gq_fini();
}

TEST(runq_round_takes_as_much_as_the_ring_holds)
{
	begin(1, false);
	gq_yield_range(0, GREENS);
	CHECK_EQ(index_of(runq_get_yielded(&ps[0])), 0);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), RUNQ_SIZE - 1);
	CHECK_EQ(gq_len(LANE_YIELD), GREENS - RUNQ_SIZE);
	expect_yielded(&ps[0], 1, GREENS);
	gq_fini();
}

/* One G in the global queue must not make all others pass through it again and again. */
TEST(runq_round_empties_lane_if_all_fit_into_the_ring)
{
	begin(1, false);
	yield_range(&ps[0], 1, 1000);
	gq_yield_range(0, 1);
	CHECK_EQ(index_of(runq_get_yielded(&ps[0])), 0);
	CHECK_EQ(gq_len(LANE_YIELD), 0);
	expect_yielded(&ps[0], 1, 1000);
	gq_fini();
}

/* Otherwise the oldest Gs of a round go back each time before they run. */
TEST(runq_yield_to_full_ring_in_round_goes_to_global_queue)
{
	begin(1, false);
	gq_yield_range(0, RUNQ_SIZE + 10);
	CHECK_EQ(index_of(runq_get_yielded(&ps[0])), 0);
	runq_yield(&ps[0], &greens[0]);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), RUNQ_SIZE);
	runq_yield(&ps[0], &greens[GREENS - 1]);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), RUNQ_SIZE);
	CHECK_EQ(gq_len(LANE_YIELD), 11);
	CHECK_EQ(index_of(runq_get_yielded(&ps[0])), 1);
	gq_fini();
}

TEST(runq_stolen_yielded_gs_run_before_the_global_queue)
{
	begin(2, true);
	yield_range(&ps[0], 0, 10);
	gq_yield_range(10, 20);
	CHECK_EQ(index_of(runq_steal(&ps[1], &ps[0], false)), 0);
	for (int i = 1; i < 5; i++)
		CHECK_EQ(index_of(runq_get_yielded(&ps[1])), i);
	CHECK_EQ(index_of(runq_get_yielded(&ps[1])), 10);
	gq_fini();
}

/* Another P has taken the last G since runq_get_yielded read its length. */
TEST(runq_get_round_without_yielded_gs_returns_null)
{
	begin(2, true);
	CHECK(runq_get_round(&ps[0]) == NULL);
	gq_put_range(0, 1);
	CHECK(runq_get_round(&ps[0]) == NULL);
	CHECK_EQ(sched.gqn, 1);
	gq_fini();
}
