/* SPDX-License-Identifier: MIT */
/*
 * Tests that runnable Gs run in order in the lanes of a P and of the global queue, that a full ring
 * overflows to the global queue, and that each G is taken exactly once, by its owner or a thief.
 */
#define _GNU_SOURCE 1
#include "runq_util.h"

#include <pthread.h>
#include <signal.h>

#include "base/os.h"

/* --- the lanes of the global queue --- */

static char stack; /* of Gs that have run */

TEST(gq_prefers_started_gs_and_takes_new_every_fourth)
{
	begin(1, false);
	gq_put_range(0, 100);
	for (int i = 100; i < 112; i++)
		greens[i].stack = &stack;
	gq_put_range(100, 112);
	CHECK_EQ(sched.gqn, 112);
	for (int new = 0, run = 100; run < 112;) {
		for (int i = 0; i < 3; i++)
			CHECK_EQ(index_of(gq_get_locked(&ps[0], 1)), run++);
		CHECK_EQ(index_of(gq_get_locked(&ps[0], 1)), run < 112 ? new ++ : 3);
	}
	gq_expect_range(4, 100);
	CHECK_EQ(sched.gqn, 0);
	gq_fini();
}

TEST(gq_in_global_mode_has_one_lane)
{
	begin(1, false);
	sched.options.c.sched = GMP_SCHED_GLOBAL;
	for (int i = 1; i < 20; i += 2)
		greens[i].stack = &stack;
	gq_put_range(0, 20);
	gq_expect_range(0, 20);
	gq_fini();
}

TEST(gq_get_and_gq_ready_len_leave_out_yielded_gs)
{
	begin(1, false);
	gq_yield_range(0, 10);
	CHECK_EQ(sched.gqn, 10);
	CHECK_EQ(gq_ready_len(), 0);
	CHECK(gq_get_locked(&ps[0], 100) == NULL);
	gq_put_range(10, 14);
	greens[14].stack = &stack;
	gq_put_range(14, 15);
	CHECK_EQ(sched.gqn, 15);
	CHECK_EQ(gq_len(LANE_YIELD), 10);
	CHECK_EQ(gq_ready_len(), 5);
	CHECK_EQ(index_of(gq_get_locked(&ps[0], 100)), 14);
	expect_range(&ps[0], 10, 14);
	CHECK(gq_get_locked(&ps[0], 100) == NULL);
	CHECK_EQ(gq_ready_len(), 0);
	CHECK_EQ(sched.gqn, 10);
	gq_expect_yielded(0, 10);
	CHECK_EQ(sched.gqn, 0);
	CHECK_EQ(gq_len(LANE_YIELD), 0);
	gq_fini();
}

TEST(gq_put_yielded_in_fifo_modes_uses_lane_of_events)
{
	static const uint32_t modes[] = { GMP_SCHED_LOCAL, GMP_SCHED_GLOBAL };

	for (unsigned i = 0; i < countof(modes); i++) {
		begin(1, false);
		sched.options.c.sched = modes[i];
		for (int k = 0; k < 9; k++)
			greens[k].stack = &stack;
		gq_put_range(0, 3);
		gq_yield_range(3, 6);
		gq_put_range(6, 9);
		CHECK_EQ(gq_len(LANE_YIELD), 0);
		CHECK_EQ(gq_len(LANE_EVENT), 9);
		gq_expect_range(0, 9);
		gq_fini();
	}
}

/* --- FIFO modes: one queue for all, and one ring --- */

TEST(runq_without_room_puts_all_in_global_queue)
{
	begin(1, false);
	sched.options.c.sched = GMP_SCHED_GLOBAL;
	ps[0].in_order = true;
	ps[0].room = ps[0].yield_room = 0;
	put_range(&ps[0], 0, 300);
	runq_yield(&ps[0], &greens[300]);
	CHECK_EQ(sched.gqn, 301);
	for (int i = 0; i <= 300; i++) {
		CHECK_EQ(index_of(gq_get_locked(&ps[0], RUNQ_BATCH)), i);
		CHECK_EQ(runq_len(&ps[0]), 0);
	}
	CHECK_EQ(ps[0].count.overflows, 0);
	gq_fini();
}

TEST(runq_yield_in_order_uses_event_lane)
{
	begin(1, false);
	sched.options.c.sched = GMP_SCHED_LOCAL;
	ps[0].in_order = true;
	ps[0].yield_room = 0;
	put_range(&ps[0], 0, 2);
	yield_range(&ps[0], 2, 4);
	put_range(&ps[0], 4, 6);
	CHECK_EQ(runq_ready_len(&ps[0]), 6);
	CHECK_EQ(ring_len(&ps[0], LANE_YIELD), 0);
	CHECK_EQ(sched.gqn, 0);
	expect_range(&ps[0], 0, 6);
	gq_fini();
}

/* --- the rings of Gs that have not yielded --- */

TEST(runq_get_prefers_started_gs_and_takes_new_every_fourth)
{
	begin(1, false);
	put_range(&ps[0], 0, 100);
	for (int i = 100; i < 112; i++)
		greens[i].stack = &stack;
	put_range(&ps[0], 100, 112);
	CHECK_EQ(ring_len(&ps[0], LANE_EVENT), 12);
	CHECK_EQ(ring_len(&ps[0], LANE_NEW), 100);
	for (int new = 0, run = 100; run < 112;) {
		for (int i = 0; i < 3; i++)
			CHECK_EQ(index_of(runq_get(&ps[0])), run++);
		CHECK_EQ(index_of(runq_get(&ps[0])), new ++);
	}
	expect_range(&ps[0], 4, 100);
	CHECK(runq_get(&ps[0]) == NULL);
	gq_fini();
}

TEST(runq_in_order_has_one_ring_for_new_and_started_gs)
{
	begin(1, false);
	sched.options.c.sched = GMP_SCHED_LOCAL;
	ps[0].in_order = true;
	for (int i = 1; i < 20; i += 2)
		greens[i].stack = &stack;
	put_range(&ps[0], 0, 20);
	CHECK_EQ(ring_len(&ps[0], LANE_NEW), 0);
	expect_range(&ps[0], 0, 20);
	gq_fini();
}

static void check_order(bool shared)
{
	begin(1, shared);
	CHECK(runq_get(&ps[0]) == NULL);
	put_range(&ps[0], 0, 10);
	expect_range(&ps[0], 0, 4);
	put_range(&ps[0], 10, 20);
	CHECK_EQ(runq_len(&ps[0]), 16);
	expect_range(&ps[0], 4, 20);
	CHECK(runq_get(&ps[0]) == NULL);
	CHECK_EQ(runq_len(&ps[0]), 0);
	gq_fini();
}

TEST(runq_unshared_is_fifo)
{
	check_order(false);
}

TEST(runq_shared_is_fifo)
{
	check_order(true);
}

static void check_overflow(bool shared, uint32_t start)
{
	begin(1, shared);
	ps[0].head[LANE_NEW] = ps[0].tail[LANE_NEW] = start;
	put_range(&ps[0], 0, RUNQ_SIZE);
	CHECK_EQ(runq_len(&ps[0]), RUNQ_SIZE);
	CHECK_EQ(sched.gqn, 0);
	CHECK_EQ(ps[0].count.overflows, 0);
	runq_put(&ps[0], &greens[RUNQ_SIZE]);
	CHECK_EQ(runq_len(&ps[0]), RUNQ_SIZE - RUNQ_BATCH);
	CHECK_EQ(sched.gqn, RUNQ_BATCH + 1);
	CHECK_EQ(ps[0].count.overflows, 1);
	expect_range(&ps[0], RUNQ_BATCH, RUNQ_SIZE);
	gq_expect_range(0, RUNQ_BATCH);
	gq_expect_range(RUNQ_SIZE, RUNQ_SIZE + 1);
	CHECK_EQ(sched.gqn, 0);
	gq_fini();
}

TEST(runq_overflow_moves_oldest_and_new_to_global_queue)
{
	check_overflow(false, 0);
}

TEST(runq_shared_overflow_moves_oldest_and_new_to_global_queue)
{
	check_overflow(true, 0);
}

TEST(runq_index_wrap_keeps_order)
{
	for (uint32_t before = 0; before <= 2 * RUNQ_SIZE; before += 37) {
		begin(1, before % 2);
		ps[0].head[LANE_NEW] = ps[0].tail[LANE_NEW] = UINT32_MAX - before;
		for (int i = 0; i < 1000; i += 100) {
			put_range(&ps[0], i, i + 100);
			CHECK_EQ(runq_len(&ps[0]), 100);
			expect_range(&ps[0], i, i + 100);
		}
		CHECK(runq_get(&ps[0]) == NULL);
		gq_fini();
		memset(ps, 0, sizeof(ps));
	}
}

TEST(runq_overflow_across_index_wrap_keeps_order)
{
	check_overflow(false, UINT32_MAX - 10);
	memset(ps, 0, sizeof(ps));
	check_overflow(true, UINT32_MAX - 200);
}

static struct glist list_of(int from, int to)
{
	struct glist list = { 0 };

	for (int i = from; i < to; i++)
		glist_push(&list, &greens[i]);
	return list;
}

static void check_put_first(bool shared, uint32_t start)
{
	struct glist list = list_of(10, 13);
	uint32_t end;

	begin(1, shared);
	for (int i = 0; i < GREENS; i++)
		greens[i].stack = &stack;
	ps[0].head[LANE_EVENT] = ps[0].tail[LANE_EVENT] = start;
	put_range(&ps[0], 0, 3);
	CHECK(runq_put_first(&ps[0], &list, &end));
	CHECK_EQ(list.n, 0);
	CHECK(!list.head && !list.tail);
	CHECK_EQ(end, start);
	CHECK_EQ(runq_len(&ps[0]), 6);
	expect_range(&ps[0], 10, 12);
	list = list_of(20, 22);
	CHECK(runq_put_first(&ps[0], &list, &end));
	CHECK_EQ(end, start - 1);
	expect_range(&ps[0], 20, 22);
	expect_range(&ps[0], 12, 13);
	expect_range(&ps[0], 0, 3);
	CHECK(runq_get(&ps[0]) == NULL);
	list = list_of(30, 31); /* into an empty ring */
	CHECK(runq_put_first(&ps[0], &list, &end));
	expect_range(&ps[0], 30, 31);
	CHECK(runq_get(&ps[0]) == NULL);
	put_range(&ps[0], 100, 98 + RUNQ_SIZE);
	list = list_of(0, 3); /* one too many */
	CHECK(!runq_put_first(&ps[0], &list, &end));
	CHECK_EQ(list.n, 3);
	CHECK(list.head == &greens[0]);
	list = list_of(0, 2);
	CHECK(runq_put_first(&ps[0], &list, &end));
	expect_range(&ps[0], 0, 2);
	expect_range(&ps[0], 100, 98 + RUNQ_SIZE);
	gq_fini();
}

TEST(runq_put_first_keeps_order_and_refuses_a_full_ring)
{
	check_put_first(false, 2);
	memset(ps, 0, sizeof(ps));
	check_put_first(true, 0); /* the slots in front of it lie across the wrap */
	memset(ps, 0, sizeof(ps));
	check_put_first(true, UINT32_MAX);
}

static void check_taking_back(bool shared, uint32_t start)
{
	begin(1, shared);
	ps[0].head[LANE_NEW] = ps[0].tail[LANE_NEW] = start;
	CHECK(!runq_take_back(&ps[0], &greens[0])); /* empty */
	put_range(&ps[0], 0, 10);
	CHECK(!runq_take_back(&ps[0], &greens[8])); /* not the last */
	CHECK(runq_take_back(&ps[0], &greens[9]));
	CHECK(!runq_take_back(&ps[0], &greens[9])); /* already removed */
	CHECK_EQ(runq_len(&ps[0]), 9);
	CHECK(runq_take_back(&ps[0], &greens[8]));
	put_range(&ps[0], 10, 12);
	expect_range(&ps[0], 0, 8);
	expect_range(&ps[0], 10, 11);
	CHECK(runq_take_back(&ps[0], &greens[11]));
	CHECK_EQ(runq_len(&ps[0]), 0);
	CHECK(runq_get(&ps[0]) == NULL);
	put_range(&ps[0], 12, 12 + RUNQ_SIZE); /* all slots are usable */
	CHECK_EQ(sched.gqn, 0);
	CHECK(runq_take_back(&ps[0], &greens[11 + RUNQ_SIZE]));
	expect_range(&ps[0], 12, 11 + RUNQ_SIZE);
	gq_fini();
}

TEST(runq_take_back_removes_last_put_only)
{
	for (int shared = 0; shared < 2; shared++)
		for (uint32_t start = 0; start < 300; start += 7) {
			check_taking_back(shared, -start);
			memset(ps, 0, sizeof(ps));
		}
}

TEST(runnext_swap_returns_previous)
{
	for (int shared = 0; shared < 2; shared++) {
		begin(1, shared);
		CHECK(runnext_swap(&ps[0], &greens[0]) == NULL);
		CHECK(runnext_swap(&ps[0], &greens[1]) == &greens[0]);
		CHECK(runnext_swap(&ps[0], NULL) == &greens[1]);
		gq_fini();
	}
}

/* --- stealing --- */

TEST(runq_steal_takes_half_rounded_up_and_returns_oldest)
{
	begin(2, true);
	for (int n = 1; n <= RUNQ_SIZE; n++) {
		int taken = n - n / 2;
		uint64_t stolen = ps[1].count.stolen;

		put_range(&ps[0], 0, n);
		CHECK_EQ(index_of(runq_steal(&ps[1], &ps[0], false)), 0);
		CHECK_EQ(runq_len(&ps[1]), taken - 1);
		CHECK_EQ(runq_len(&ps[0]), n - taken);
		CHECK_EQ(ps[1].count.stolen - stolen, taken - 1);
		expect_range(&ps[1], 1, taken);
		expect_range(&ps[0], taken, n);
	}
	gq_fini();
}

TEST(runq_steal_across_index_wrap_keeps_order)
{
	begin(2, true);
	ps[0].head[LANE_NEW] = ps[0].tail[LANE_NEW] = UINT32_MAX - 5;
	ps[1].head[LANE_NEW] = ps[1].tail[LANE_NEW] = UINT32_MAX - 2;
	put_range(&ps[0], 0, 20);
	CHECK_EQ(index_of(runq_steal(&ps[1], &ps[0], false)), 0);
	expect_range(&ps[1], 1, 10);
	expect_range(&ps[0], 10, 20);
	gq_fini();
}

TEST(runq_steal_from_unshared_p_returns_null)
{
	begin(2, false);
	put_range(&ps[0], 0, 10);
	runnext_swap(&ps[0], &greens[10]);
	CHECK(runq_steal(&ps[1], &ps[0], true) == NULL);
	CHECK_EQ(runq_len(&ps[0]), 10);
	CHECK(ps[0].runnext == &greens[10]);
	gq_fini();
}

TEST(runq_steal_from_empty_p_returns_null)
{
	begin(2, true);
	CHECK(runq_steal(&ps[1], &ps[0], true) == NULL);
	CHECK_EQ(ps[1].count.stolen, 0);
	gq_fini();
}

TEST(runq_steal_takes_runnext_only_if_asked_and_ring_empty)
{
	begin(2, true);
	put_range(&ps[0], 0, 1);
	runnext_swap(&ps[0], &greens[1]);
	CHECK_EQ(index_of(runq_steal(&ps[1], &ps[0], true)), 0);
	CHECK(ps[0].runnext == &greens[1]);
	CHECK(runq_steal(&ps[1], &ps[0], false) == NULL);
	CHECK(ps[0].runnext == &greens[1]);
	CHECK_EQ(index_of(runq_steal(&ps[1], &ps[0], true)), 1);
	CHECK(ps[0].runnext == NULL);
	CHECK_EQ(runq_len(&ps[1]), 0);
	gq_fini();
}

/* --- the global queue --- */

TEST(gq_growth_keeps_order)
{
	begin(1, false);
	CHECK(gq_get_locked(&ps[0], 1) == NULL);
	/* the head is not at 0 when the queue grows */
	gq_put_range(0, 200);
	gq_expect_range(0, 150);
	gq_put_range(200, GREENS);
	CHECK_EQ(sched.gqn, GREENS - 150);
	gq_expect_range(150, GREENS);
	CHECK_EQ(sched.gqn, 0);
	CHECK(gq_get_locked(&ps[0], 1) == NULL);
	gq_fini();
}

TEST(gq_shrinks_after_burst_and_keeps_order)
{
	enum { BURST = 70000 };

	sched.procs = 1;
	ps[0].room = RUNQ_SIZE;
	CHECK_EQ(gq_init(2 * BURST), 0);
	lock(&sched.lock, LR_SCHED);
	for (int i = 0; i < BURST; i++)
		gq_put(&greens[i % GREENS]);
	unlock(&sched.lock, LR_SCHED);
	for (int i = 0; i < BURST; i++)
		CHECK_EQ(index_of(gq_get_locked(&ps[0], 1)), i % GREENS);
	CHECK_EQ(sched.gq[LANE_NEW].cap, GQ_CAP_MIN);
	CHECK(sched.gq[LANE_NEW].head < GQ_CAP_MIN); /* an index into the shrunken queue */
	gq_put_range(0, 100);
	gq_expect_range(0, 100);
	gq_put_range(0, 1000);
	gq_expect_range(0, 1000);
	gq_fini();
}

/* An element that does not fit would go to the global queue, whose lock is held. */
TEST(gq_get_moves_no_more_than_ring_has_room)
{
	begin(1, false);
	put_range(&ps[0], 0, RUNQ_SIZE - 2);
	gq_put_range(RUNQ_SIZE - 2, RUNQ_SIZE + 10);
	CHECK_EQ(index_of(gq_get_locked(&ps[0], 100)), RUNQ_SIZE - 2);
	CHECK_EQ(runq_len(&ps[0]), RUNQ_SIZE);
	CHECK_EQ(index_of(gq_get_locked(&ps[0], 100)), RUNQ_SIZE + 1); /* one to run, none to put */
	CHECK_EQ(runq_len(&ps[0]), RUNQ_SIZE);
	CHECK_EQ(sched.gqn, 8);
	gq_fini();
}

TEST(gq_get_moves_share_of_p)
{
	begin(4, false);
	gq_put_range(0, 20);
	CHECK_EQ(index_of(gq_get_locked(&ps[0], 100)), 0); /* 20 / 4 + 1 */
	CHECK_EQ(runq_len(&ps[0]), 5);
	CHECK_EQ(sched.gqn, 14);
	expect_range(&ps[0], 1, 6);
	CHECK_EQ(index_of(gq_get_locked(&ps[1], 2)), 6); /* at most 2 */
	CHECK_EQ(runq_len(&ps[1]), 1);
	CHECK_EQ(sched.gqn, 12);
	sched.procs = 1;
	CHECK_EQ(index_of(gq_get_locked(&ps[2], 100)), 8); /* no more than are queued */
	CHECK_EQ(runq_len(&ps[2]), 11);
	CHECK_EQ(sched.gqn, 0);
	expect_range(&ps[2], 9, 20);
	gq_fini();
}

/* --- stealing and spilling of all lanes --- */

TEST(runq_steal_takes_first_lanes_then_yielded_then_runnext)
{
	begin(2, true);
	yield_range(&ps[0], 2, 9);
	put_range(&ps[0], 0, 2);
	runnext_swap(&ps[0], &greens[9]);
	CHECK_EQ(index_of(runq_steal(&ps[1], &ps[0], true)), 0);
	CHECK_EQ(index_of(runq_steal(&ps[1], &ps[0], true)), 1);
	CHECK_EQ(runq_len(&ps[1]), 0);
	CHECK_EQ(index_of(runq_steal(&ps[1], &ps[0], true)), 2);
	CHECK_EQ(runq_ready_len(&ps[1]), 0);
	CHECK_EQ(ring_len(&ps[1], LANE_YIELD),
		 3); /* half of seven, rounded up, less the G that runs */
	CHECK_EQ(ps[1].count.stolen, 3);
	expect_yielded(&ps[1], 3, 6);
	expect_yielded(&ps[0], 6, 9);
	CHECK(runq_steal(&ps[1], &ps[0], false) == NULL);
	CHECK_EQ(index_of(runq_steal(&ps[1], &ps[0], true)), 9);
	gq_fini();
}

TEST(runq_steal_of_yield_lane_across_index_wrap_keeps_order)
{
	begin(2, true);
	ps[0].head[LANE_YIELD] = ps[0].tail[LANE_YIELD] = UINT32_MAX - 5;
	ps[1].head[LANE_YIELD] = ps[1].tail[LANE_YIELD] = UINT32_MAX - 2;
	yield_range(&ps[0], 0, 20);
	CHECK_EQ(index_of(runq_steal(&ps[1], &ps[0], false)), 0);
	expect_yielded(&ps[1], 1, 10);
	expect_yielded(&ps[0], 10, 20);
	gq_fini();
}

TEST(runq_spill_keeps_lanes_and_puts_runnext_last)
{
	begin(2, true);
	gq_put_range(0, 1);
	gq_yield_range(200, 201);
	put_range(&ps[0], 1, 100);
	yield_range(&ps[0], 201, 221);
	runnext_swap(&ps[0], &greens[100]);
	runq_spill(&ps[0]);
	CHECK_EQ(runq_len(&ps[0]), 0);
	CHECK(!ps[0].runnext);
	CHECK_EQ(gq_len(LANE_YIELD), 21);
	CHECK_EQ(gq_ready_len(), 101);
	gq_expect_range(0, 101);
	gq_expect_yielded(200, 221);
	gq_fini();
	begin(1, false); /* not open: no thread may spill */
	put_range(&ps[0], 0, 3);
	yield_range(&ps[0], 3, 6);
	runq_spill(&ps[0]);
	expect_range(&ps[0], 0, 3);
	expect_yielded(&ps[0], 3, 6);
	gq_fini();
}

/* --- concurrent use --- */

static struct {
	uint32_t seen[GREENS]; /* (a) how many times each was taken */
	uint32_t taken;        /* (a) of this round */
	uint32_t stop;         /* (a) */
} hammer;

static void take(struct g *gp)
{
	add_rlx(&hammer.seen[index_of(gp)], 1);
	add_seq(&hammer.taken, 1);
}

static void *thief(void *arg)
{
	struct p *mine = arg;
	struct g *gp;

	for (unsigned round = 0; !ld_seq(&hammer.stop); round++) {
		struct p *victim = &ps[round % 4];

		gp = victim == mine ? gq_get_locked(mine, RUNQ_BATCH)
				    : runq_steal(mine, victim, round & 4);
		if (gp)
			take(gp);
		else
			os_yield();
		while ((gp = runq_get(mine)) || (gp = runq_get_yielded(mine)))
			take(gp); /* while the others steal from these rings */
	}
	return NULL;
}

static void owner_round(uint32_t round)
{
	struct g *gp;

	ps[0].slow = round % 4 == 3;
	ps[0].yield_room = ps[0].slow ? 0 : RUNQ_SIZE;
	for (int i = 0; i < GREENS; i++) {
		switch ((i + round) % 16) {
		case 0:
			if ((gp = runnext_swap(&ps[0], &greens[i])))
				runq_put(&ps[0], gp);
			break;
		case 5:
		case 6:
		case 7: runq_yield(&ps[0], &greens[i]); break;
		case 8:
			if ((gp = runq_get_yielded(&ps[0])))
				take(gp);
			runq_yield(&ps[0], &greens[i]);
			break;
		default: runq_put(&ps[0], &greens[i]);
		}
		if (i % 1024 < 512 && i % 3 == 0 && (gp = runq_get(&ps[0])))
			take(gp);
		if (i % 4 == 1 && runq_take_back(&ps[0], &greens[i]))
			take(&greens[i]);
	}
	if ((gp = runnext_swap(&ps[0], NULL)))
		take(gp);
	while (ld_seq(&hammer.taken) < GREENS) {
		if ((gp = runq_get(&ps[0])) || (gp = runq_get_yielded(&ps[0])) ||
		    (gp = gq_get_locked(&ps[0], 8)))
			take(gp);
		else
			os_yield();
	}
}

TEST(runq_concurrent_steals_take_each_g_once)
{
	int64_t end = os_now() + check_scaled(800) * 1000000;
	pthread_t t[3];
	uint32_t round = 0;

	begin(4, true);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, thief, &ps[i + 1]), 0);
	do {
		st_seq(&hammer.taken, 0);
		owner_round(round++);
		for (int i = 0; i < GREENS; i++)
			CHECK_EQ(ld_rlx(&hammer.seen[i]), round);
		CHECK_EQ(ld_seq(&hammer.taken), GREENS);
	} while (os_now() < end);
	st_seq(&hammer.stop, 1);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	CHECK_EQ(sched.gqn, 0);
	gq_fini();
}

/* --- reads by other threads --- */

static void *spill(void *pp)
{
	while (!ld_seq(&hammer.stop))
		runq_spill(pp);
	return NULL;
}

TEST(runq_spill_is_atomic_under_sched_lock)
{
	int64_t end = os_now() + check_scaled(200) * 1000000;
	pthread_t t;

	begin(2, true);
	st_seq(&hammer.stop, 0);
	CHECK_EQ(pthread_create(&t, NULL, spill, &ps[0]), 0);
	while (os_now() < end) {
		put_range(&ps[0], 0, 8);
		runnext_swap(&ps[0], &greens[8]);
		for (int reads = 0; reads < 50; reads++) {
			lock(&sched.lock, LR_SCHED);
			uint32_t n = sched.gqn + runq_len(&ps[0]) + (ps[0].runnext != NULL);
			unlock(&sched.lock, LR_SCHED);
			CHECK_EQ(n, 9);
		}
		for (int i = 0; i < 9; i++)
			while (!gq_get_locked(&ps[1], 1))
				os_yield();
	}
	st_seq(&hammer.stop, 1);
	CHECK_EQ(pthread_join(t, NULL), 0);
	gq_fini();
}

/*
 * Rounds of yields by two Gs. Run in a signal handler, they come between any two instructions of
 * the reading thread.
 */
static void yield_many_rounds(int sig)
{
	(void)sig;
	for (int i = 0; i < RUNQ_SIZE + 10; i++)
		runq_put(&ps[0], runq_get(&ps[0]));
}

static void *interrupt(void *reader)
{
	while (!ld_seq(&hammer.stop)) {
		CHECK_EQ(pthread_kill(*(pthread_t *)reader, SIGUSR1), 0);
		os_yield();
	}
	return NULL;
}

TEST(runq_len_of_nonempty_ring_is_never_zero)
{
	struct sigaction action = { .sa_handler = yield_many_rounds, .sa_flags = SA_RESTART };
	int64_t end = os_now() + check_scaled(300) * 1000000;
	pthread_t self = pthread_self(), t;

	begin(2, true);
	put_range(&ps[0], 0, 2);
	st_seq(&hammer.stop, 0);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(pthread_create(&t, NULL, interrupt, &self), 0);
	while (os_now() < end)
		for (int i = 0; i < 1000; i++)
			CHECK(runq_len(&ps[0]) > 0);
	st_seq(&hammer.stop, 1);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(runq_len(&ps[0]), 2);
	gq_fini();
}

TEST(gq_init_small_maximum_allocates_one_page_per_lane)
{
	CHECK_EQ(gq_init(1), 0); /* one page for each lane */
	for (int lane = 0; lane < LANES; lane++)
		CHECK(sched.gq[lane].cap * sched.gq[lane].size <= PAGE);
	gq_fini();
}
