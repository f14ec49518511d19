/* SPDX-License-Identifier: MIT */
/* Tests that timers fire in order, once, at their deadline, and never after they were disarmed. */
#define _GNU_SOURCE 1
#include "check.h"

#include "timer/timerheap.h"

#include <pthread.h>

#include "base/os.h"
#include "poller.h"
#include "waiter.h"

enum { LIMIT = 4096 };

struct item {
	struct timer t;
	int fired;
	int again; /* how many times fire rearms it, 10 later */
};

static struct p ps[3];
static struct item items[LIMIT];
static struct item *order[LIMIT];
static unsigned norder;

static void begin(void)
{
	for (int i = 0; i < 3; i++)
		CHECK_EQ(timers_init(&ps[i].timers, LIMIT), 0);
}

static void end(void)
{
	for (int i = 0; i < 3; i++)
		timers_fini(&ps[i].timers);
}

static bool fire(struct timer *t, int64_t now, struct glist *out)
{
	struct item *it = container_of(t, struct item, t);

	(void)out;
	CHECK(t->when <= now);
	it->fired++;
	if (norder < LIMIT)
		order[norder++] = it;
	if (it->again == 0)
		return false;
	it->again--;
	t->when += 10;
	return true;
}

static bool add(int p, int i, int64_t when)
{
	items[i].t.fire = fire;
	return timer_add(&ps[p], &items[i].t, when);
}

static unsigned run(int p, int64_t now)
{
	struct glist out = { 0 };
	unsigned n = timers_run(&ps[p], now, &out);

	CHECK(out.head == NULL);
	return n;
}

/* Check every invariant of the heap. */
static void check_heap(int p)
{
	struct timers *ts = &ps[p].timers;

	CHECK_EQ(timers_next(&ps[p]), ts->n ? ts->heap[0].when : NEVER);
	CHECK_EQ(timers_count(&ps[p]), ts->n);
	for (uint32_t i = 0; i < ts->n; i++) {
		CHECK_EQ(ts->heap[i].when, ts->heap[i].t->when);
		CHECK_EQ(ts->heap[i].t->at, i);
		CHECK(ts->heap[i].t->pp == &ps[p]);
		if (i > 0)
			CHECK(ts->heap[(i - 1) / 4].when <= ts->heap[i].when);
	}
}

TEST(timers_empty_heap_is_never_due)
{
	begin();
	CHECK_EQ(timers_next(&ps[0]), NEVER);
	CHECK_EQ(timers_count(&ps[0]), 0);
	CHECK_EQ(run(0, NEVER), 0);
	end();
}

TEST(timers_fini_can_be_repeated)
{
	struct timers ts;

	CHECK_EQ(timers_init(&ts, 1), 0);
	CHECK(ts.heap != NULL);
	timers_fini(&ts);
	CHECK(ts.heap == NULL);
	CHECK_EQ(ts.next, NEVER);
	timers_fini(&ts);
}

TEST(timers_fire_in_order_of_deadlines)
{
	static const int64_t when[] = { 50, 10, 40, 20, 60, 30 };

	begin();
	for (int i = 0; i < 6; i++) {
		add(0, i, when[i]);
		check_heap(0);
	}
	CHECK_EQ(run(0, 9), 0);
	CHECK_EQ(run(0, 40), 4);
	check_heap(0);
	CHECK_EQ(timers_next(&ps[0]), 50);
	CHECK_EQ(run(0, 1000), 2);
	check_heap(0);
	CHECK_EQ(norder, 6);
	for (unsigned i = 1; i < norder; i++)
		CHECK(order[i - 1]->t.when < order[i]->t.when);
	for (int i = 0; i < 6; i++)
		CHECK_EQ(items[i].fired, 1);
	end();
}

static bool fire_and_ready(struct timer *t, int64_t now, struct glist *out)
{
	static struct g gp[6];

	(void)now;
	glist_push(out, &gp[t->when / 10 - 1]);
	return false;
}

TEST(timers_run_some_stops_when_enough_are_ready)
{
	struct glist out = { 0 };

	begin();
	for (int i = 0; i < 6; i++) {
		add(0, i, 60 - 10 * i);
		items[i].t.fire = fire_and_ready;
	}
	CHECK_EQ(timers_run_some(&ps[0], 50, 2, &out), 2);
	CHECK_EQ(out.n, 2);
	CHECK_EQ(timers_next(&ps[0]), 30);
	check_heap(0);
	CHECK_EQ(timers_run_some(&ps[0], 50, 9, &out), 3);
	CHECK_EQ(out.n, 5);
	CHECK_EQ(timers_next(&ps[0]), 60);
	CHECK_EQ(timers_run_some(&ps[0], 60, 5, &out), 0);
	timer_del(&items[0].t);
	end();
}

TEST(timers_of_equal_deadline_fire_in_one_run)
{
	begin();
	for (int i = 0; i < 100; i++)
		add(0, i, 5 + i % 2);
	check_heap(0);
	CHECK_EQ(run(0, 5), 50);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(items[i].fired, i % 2 == 0);
	check_heap(0);
	CHECK_EQ(run(0, 6), 50);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(items[i].fired, 1);
	end();
}

TEST(timer_add_reports_new_earliest_deadline)
{
	begin();
	CHECK(add(0, 0, 10));
	CHECK(!add(0, 1, 20));
	CHECK(!add(0, 2, 10)); /* not earlier than the first */
	CHECK(add(0, 3, 5));
	CHECK(add(0, 4, INT64_MIN));
	CHECK(!add(0, 5, NEVER - 1));
	CHECK(add(1, 6, 1000)); /* another heap */
	CHECK_EQ(timers_next(&ps[0]), INT64_MIN);
	end();
}

TEST(timer_armed_is_true_until_fired_or_deleted)
{
	begin();
	CHECK(!timer_armed(&items[0].t));
	CHECK(!timer_del(&items[0].t));
	add(0, 0, 10);
	CHECK(timer_armed(&items[0].t));
	CHECK_EQ(run(0, 10), 1);
	CHECK(!timer_armed(&items[0].t));
	CHECK(!timer_del(&items[0].t));
	add(0, 0, 20);
	CHECK(timer_del(&items[0].t));
	CHECK(!timer_armed(&items[0].t));
	CHECK(!timer_del(&items[0].t));
	CHECK_EQ(run(0, 20), 0);
	CHECK_EQ(items[0].fired, 1);
	end();
}

TEST(timer_del_at_any_index_keeps_heap_order)
{
	enum { N = 60 };

	begin();
	for (int gone = 0; gone < N; gone++) {
		norder = 0;
		for (int i = 0; i < N; i++)
			add(0, i, i * 7 % N); /* every deadline once, since 7 and 60 are coprime */
		CHECK(timer_del(&items[gone].t));
		check_heap(0);
		CHECK_EQ(run(0, N), N - 1);
		for (unsigned i = 1; i < norder; i++)
			CHECK(order[i - 1]->t.when < order[i]->t.when);
		check_heap(0);
	}
	end();
}

/* Makes the calling thread hold P p, as a caller that rearms its own timer. */
static void occupy_p(struct m *m, int p)
{
	m->p = &ps[p];
	gmp__setm(m);
}

static bool rearm(int i, int64_t when)
{
	if (!timer_hold(&items[i].t))
		return false;
	timer_rearm(&items[i].t, when);
	return true;
}

TEST(timer_rearm_between_any_indices_keeps_heap_order)
{
	enum { N = 60 };
	struct m me = { 0 };

	begin();
	occupy_p(&me, 0);
	for (int from = 0; from < N; from++) {
		for (int to = 0; to <= N; to++) {
			norder = 0;
			for (int i = 0; i < N; i++)
				add(0, i, 2 * (i * 7 % N));
			CHECK(rearm(from, 2 * to - 1)); /* between two others, or at either end */
			check_heap(0);
			CHECK_EQ(timers_count(&ps[0]), N);
			CHECK_EQ(run(0, 2 * N), N);
			for (unsigned i = 1; i < norder; i++)
				CHECK(order[i - 1]->t.when < order[i]->t.when);
		}
	}
	gmp__setm(NULL);
	end();
}

TEST(timer_hold_accepts_only_timer_armed_on_own_p)
{
	struct m me = { 0 };

	begin();
	add(1, 0, 10);
	CHECK(!rearm(0, 20)); /* an external thread */
	occupy_p(&me, 0);
	CHECK(!rearm(0, 20));
	CHECK(!rearm(1, 20)); /* not armed */
	add(0, 1, 10);
	CHECK(rearm(1, 20));
	CHECK_EQ(run(0, 19), 0);
	CHECK_EQ(run(0, 20), 1);
	CHECK(!rearm(1, 30)); /* fired */
	CHECK_EQ(timers_next(&ps[1]), 10);
	gmp__setm(NULL);
	end();
}

TEST(timer_fire_can_rearm_its_timer)
{
	begin();
	items[0].again = 3;
	add(0, 0, 10);
	add(0, 1, 15);
	CHECK_EQ(run(0, 10), 1);
	CHECK(timer_armed(&items[0].t));
	CHECK_EQ(timers_next(&ps[0]), 15);
	check_heap(0);
	CHECK_EQ(run(0, 20), 2);
	check_heap(0);
	CHECK_EQ(run(0, 100), 2); /* 30 and 40: once per due period */
	CHECK(!timer_armed(&items[0].t));
	CHECK_EQ(items[0].fired, 4);
	CHECK_EQ(items[1].fired, 1);
	CHECK_EQ(timers_next(&ps[0]), NEVER);
	items[0].again = 1000;
	add(0, 0, 10);
	CHECK_EQ(run(0, 25), 2);
	CHECK(timer_del(&items[0].t));
	CHECK_EQ(run(0, 1000), 0);
	end();
}

static struct g woken;

static bool fire_wakes(struct timer *t, int64_t now, struct glist *out)
{
	(void)t, (void)now;
	glist_push(out, &woken);
	return false;
}

TEST(timers_run_appends_runnable_gs)
{
	struct glist out = { 0 };
	struct g first = { 0 };

	begin();
	glist_push(&out, &first);
	items[0].t.fire = fire_wakes;
	timer_add(&ps[0], &items[0].t, 1);
	CHECK_EQ(timers_run(&ps[0], 1, &out), 1);
	CHECK_EQ(out.n, 2);
	CHECK(glist_pop(&out) == &first);
	CHECK(glist_pop(&out) == &woken);
	end();
}

TEST(timers_wake_with_includes_deadlines_within_slack)
{
	enum { T = 1000000 };

	begin();
	add(0, 0, T);
	CHECK_EQ(timers_wake_with(&ps[0], T), T); /* a single timer is not delayed */
	add(0, 1, T + TIMER_SLACK_NS + 1);
	CHECK_EQ(timers_wake_with(&ps[0], T), T);
	add(0, 2, T + TIMER_SLACK_NS);
	CHECK_EQ(timers_wake_with(&ps[0], T), T + TIMER_SLACK_NS);
	CHECK_EQ(timers_wake_with(&ps[0], T - 1), T); /* another heap has the earliest deadline */
	CHECK_EQ(timers_wake_with(&ps[1], T), T);
	st_rlx(&sched.virtual_now, (int64_t)1);
	CHECK_EQ(timers_wake_with(&ps[0], T), T);
	CHECK(timer_is_missed(T, T + 1));
	st_rlx(&sched.virtual_now, (int64_t)0);
	end();
}

TEST(timer_is_missed_if_sleep_exceeds_slack)
{
	CHECK(!timer_is_missed(1000, INT64_MIN));
	CHECK(!timer_is_missed(1000, 1000));
	CHECK(!timer_is_missed(1000, 1000 + TIMER_SLACK_NS));
	CHECK(timer_is_missed(1000, 1001 + TIMER_SLACK_NS));
	CHECK(timer_is_missed(0, NEVER));
	CHECK(!timer_is_missed(NEVER, NEVER));
}

/* Does a wait in the poller end before its time? */
static bool poller_woken_within(int64_t ns)
{
	struct poll_event ev;
	int64_t began = os_now();

	CHECK_EQ(gmp__poller.wait(&ev, 1, ns), 0);
	return os_now() - began < ns;
}

/* An M that begins to sleep during the move may have read both heaps as empty. */
TEST(timers_move_wakes_sleeper_that_would_miss_them)
{
	begin();
	CHECK_EQ(gmp__poller.open(), 0);
	add(0, 0, 1000);
	sched.poll_until = NEVER;
	timers_move(&ps[0], &ps[1]);
	CHECK(poller_woken_within(10000000000));
	timers_move(&ps[0], &ps[1]); /* nothing to move */
	CHECK(!poller_woken_within(10000000));
	sched.poll_until = 1000;
	timers_move(&ps[1], &ps[0]);
	CHECK(!poller_woken_within(10000000));
	sched.poll_until = INT64_MIN; /* no M sleeps */
	timers_move(&ps[0], &ps[1]);
	CHECK(!poller_woken_within(10000000));
	CHECK(timer_del(&items[0].t));
	gmp__poller.close();
	end();
}

TEST(timers_move_moves_all_to_other_p)
{
	for (int way = 0; way < 2; way++) { /* in both orders of addresses */
		int from = way, to = !way;

		norder = 0;
		begin();
		for (int i = 0; i < 40; i++)
			add(i % 4 ? from : to, i, 1000 - i);
		timers_move(&ps[from], &ps[to]);
		check_heap(from);
		check_heap(to);
		CHECK_EQ(timers_count(&ps[from]), 0);
		CHECK_EQ(timers_count(&ps[to]), 40);
		CHECK_EQ(timers_next(&ps[from]), NEVER);
		CHECK_EQ(timers_next(&ps[to]), 961);
		CHECK(timer_del(&items[39].t));
		CHECK_EQ(run(from, NEVER), 0);
		CHECK_EQ(run(to, NEVER), 39);
		for (unsigned i = 1; i < norder; i++)
			CHECK(order[i - 1]->t.when < order[i]->t.when);
		end();
	}
}

/* --- at random, beside a model --- */

static uint64_t seed = 88172645463325252u;

static uint32_t draw(uint32_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % below;
}

enum { MODEL = 200 };

static struct {
	int where; /* of each timer: its heap, -1: none */
	int64_t when;
	int fired;
} model[MODEL];

static int64_t model_next(int p)
{
	int64_t next = NEVER;

	for (int i = 0; i < MODEL; i++)
		if (model[i].where == p)
			next = min_of(next, model[i].when);
	return next;
}

static void model_run(int p, int64_t now)
{
	unsigned due = 0;

	for (int i = 0; i < MODEL; i++) {
		if (model[i].where == p && model[i].when <= now) {
			model[i].where = -1;
			model[i].fired++;
			due++;
		}
	}
	norder = 0;
	CHECK_EQ(run(p, now), due);
	for (unsigned i = 1; i < norder; i++)
		CHECK(order[i - 1]->t.when <= order[i]->t.when);
}

static void model_step(int i, int64_t now)
{
	int p = (int)draw(3), q;

	switch (draw(20)) {
	case 0:
		q = (p + 1 + (int)draw(2)) % 3;
		timers_move(&ps[p], &ps[q]);
		for (int k = 0; k < MODEL; k++)
			if (model[k].where == p)
				model[k].where = q;
		break;
	case 1:
	case 2: model_run(p, now); break;
	default:
		if (model[i].where >= 0) {
			CHECK(timer_del(&items[i].t));
			model[i].where = -1;
			break;
		}
		model[i].where = -1;
		int64_t when = now + (int64_t)draw(300) - 20, next = model_next(p);

		CHECK_EQ(add(p, i, when), when < next);
		model[i].where = p;
		model[i].when = when;
	}
}

TEST(timers_random_steps_match_model)
{
	long steps = check_scaled(20000);

	begin();
	for (int i = 0; i < MODEL; i++)
		model[i].where = -1;
	for (long s = 0; s < steps; s++) {
		model_step((int)draw(MODEL), s);
		for (int p = 0; p < 3; p++)
			CHECK_EQ(timers_next(&ps[p]), model_next(p));
		if (s % 64 == 0)
			for (int p = 0; p < 3; p++)
				check_heap(p);
	}
	for (int p = 0; p < 3; p++)
		model_run(p, NEVER);
	for (int i = 0; i < MODEL; i++) {
		CHECK_EQ(items[i].fired, model[i].fired);
		CHECK(!timer_armed(&items[i].t));
	}
	end();
}

/* --- concurrent use --- */

static struct {
	uint32_t stop; /* (a) */
	int64_t now;   /* (a) */
} hammer;

static bool fire_counts(struct timer *t, int64_t now, struct glist *out)
{
	(void)now, (void)out;
	container_of(t, struct item, t)->fired++; /* a plain access: timer.pp orders it */
	return false;
}

static void *arm_and_disarm(void *arg)
{
	struct item *mine = arg;
	uint64_t x = (uintptr_t)arg | 1;
	long armed[64] = { 0 }, deleted[64] = { 0 };
	struct m me = { 0 };

	occupy_p(&me, mine == items);
	while (!ld_seq(&hammer.stop)) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		unsigned i = x >> 33 & 63;
		struct timer *t = &mine[i].t;

		if (!timer_armed(t)) {
			CHECK_EQ(mine[i].fired + deleted[i], armed[i]);
			t->fire = fire_counts;
			armed[i]++;
			timer_add(&ps[(x >> 40) % 3], t, ld_rlx(&hammer.now) + (x >> 50) % 100);
		} else if (x >> 60 & 1 && timer_hold(t)) {
			timer_rearm(t, ld_rlx(&hammer.now) + (x >> 50) % 100);
		} else if (timer_del(t)) {
			deleted[i]++;
			CHECK_EQ(mine[i].fired + deleted[i], armed[i]);
		} else {
			CHECK_EQ(mine[i].fired + deleted[i], armed[i]); /* fire has returned */
		}
	}
	for (int i = 0; i < 64; i++) {
		deleted[i] += timer_del(&mine[i].t);
		CHECK_EQ(mine[i].fired + deleted[i], armed[i]);
	}
	gmp__setm(NULL);
	return NULL;
}

static void *run_and_move(void *arg)
{
	for (unsigned round = 0; !ld_seq(&hammer.stop); round++) {
		unsigned p = round % 3;

		if (round % 16 == 15)
			timers_move(&ps[p], &ps[(p + 1 + round / 16 % 2) % 3]);
		else
			run((int)p, add_rlx(&hammer.now, 1));
	}
	return arg;
}

static void hammer_all(void *(*third)(void *))
{
	pthread_t t[4];

	begin();
	CHECK_EQ(pthread_create(&t[0], NULL, arm_and_disarm, &items[0]), 0);
	CHECK_EQ(pthread_create(&t[1], NULL, arm_and_disarm, &items[64]), 0);
	CHECK_EQ(pthread_create(&t[2], NULL, third, NULL), 0);
	CHECK_EQ(pthread_create(&t[3], NULL, third, NULL), 0);
	os_nap(check_scaled(600) * 1000000);
	st_seq(&hammer.stop, 1);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	for (int p = 0; p < 3; p++) {
		CHECK_EQ(timers_count(&ps[p]), 0);
		CHECK_EQ(timers_next(&ps[p]), NEVER);
	}
	end();
}

TEST(timers_concurrent_run_and_move_fire_each_arming_once)
{
	hammer_all(run_and_move);
}
