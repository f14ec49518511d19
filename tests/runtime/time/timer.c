/* SPDX-License-Identifier: MIT */
/* Tests gmp_timer: expiry, stop, periods, free, external threads and shutdown. */
#include "util.h"

static atomic_int begun, fired, inside, most_inside, started, finished, release_fn;
static _Atomic int64_t fired_at[4096];
static gmp_timer *the_timer;

/* fired_at[] is written before `fired` counts it; runs of one timer seldom overlap. */
static void fire(UNUSED void *arg)
{
	int i = atomic_fetch_add(&begun, 1);

	if (i < 4096)
		atomic_store(&fired_at[i], gmp_now());
	atomic_fetch_add(&fired, 1);
}

static void check_quiet(int64_t ns)
{
	int seen = atomic_load(&fired);

	gmp_sleep(ns);
	CHECK_EQ(atomic_load(&fired), seen);
}

struct seen {
	gmp_g *self;
	void *arg;
	_Atomic int64_t at;
};

static void see(void *arg)
{
	struct seen *s = arg;

	s->self = gmp_self();
	s->arg = arg;
	gmp_yield(); /* the function may wait */
	gmp_sleep(10 * US);
	CHECK(gmp_self() == s->self);
	atomic_store(&s->at, gmp_now());
}

RT(timer_fn_runs_on_own_green_thread)
{
	struct seen s = { NULL, NULL, 0 };
	gmp_timer *t = gmp_timer_new(see, &s);
	int64_t deadline = gmp_deadline(5 * MS);

	CHECK(t != NULL);
	CHECK_EQ(gmp_timer_set(t, deadline, 0), 0);
	WAIT_FOR(atomic_load(&s.at));
	CHECK(s.at >= deadline);
	CHECK(s.arg == &s);
	CHECK(s.self != NULL);
	CHECK(s.self != gmp_self());
	gmp_timer_free(t);
}

RT(timer_new_null_fn_returns_null)
{
	CHECK(gmp_timer_new(NULL, NULL) == NULL);
	gmp_timer_free(NULL);
}

RT(timer_without_period_fires_once)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);

	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), 0), 0);
	WAIT_FOR(atomic_load(&fired) == 1);
	check_quiet(20 * MS);
	/* It may be set again. */
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), 0), 0);
	WAIT_FOR(atomic_load(&fired) == 2);
	check_quiet(5 * MS);
	gmp_timer_free(t);
}

RT(timer_past_deadline_fires_at_once)
{
	static const int64_t past[] = { 0, -1, INT64_MIN, 1 };
	gmp_timer *t = gmp_timer_new(fire, NULL);

	for (int i = 0; i < 4; i++) {
		CHECK_EQ(gmp_timer_set(t, past[i], 0), 0);
		WAIT_FOR(atomic_load(&fired) == i + 1);
	}
	CHECK_EQ(gmp_timer_set(t, gmp_now() - 1, 0), 0);
	WAIT_FOR(atomic_load(&fired) == 5);
	gmp_timer_free(t);
}

RT(timer_extreme_deadlines_and_periods_do_not_overflow)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);
	int n;

	CHECK_EQ(gmp_timer_set(t, gmp_now(), INT64_MAX), 0);
	WAIT_FOR(atomic_load(&fired) == 1);
	check_quiet(20 * MS);
	CHECK(gmp_timer_set(t, INT64_MIN, INT64_MAX) >= 0);
	WAIT_FOR(atomic_load(&fired) >= 2);
	CHECK(gmp_timer_set(t, INT64_MIN, MS) >= 0);
	n = atomic_load(&fired);
	WAIT_FOR(atomic_load(&fired) >= n + 5);
	CHECK_EQ(gmp_timer_stop(t), 1);
	CHECK_EQ(gmp_timer_set(t, INT64_MAX - 1, INT64_MAX), 0);
	CHECK_EQ(gmp_timer_stop(t), 1);
	gmp_timer_free(t);
}

RT(timer_period_beyond_clock_end_disarms)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);

	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), INT64_MAX), 0);
	WAIT_FOR(atomic_load(&fired) == 1);
	CHECK_EQ(gmp_timer_stop(t), 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), INT64_MAX / 2), 0);
	WAIT_FOR(atomic_load(&fired) == 2);
	CHECK_EQ(gmp_timer_stop(t), 1); /* in 146 years */
	gmp_timer_free(t);
}

RT(timer_set_and_stop_return_whether_armed)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);

	CHECK_EQ(gmp_timer_stop(t), 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(3600 * SEC), 0), 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(1800 * SEC), 0), 1);
	CHECK_EQ(gmp_timer_stop(t), 1);
	CHECK_EQ(gmp_timer_stop(t), 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), 0), 0);
	WAIT_FOR(atomic_load(&fired) == 1);
	CHECK_EQ(gmp_timer_stop(t), 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(3600 * SEC), MS), 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(3600 * SEC), 0), 1);
	check_quiet(10 * MS);
	gmp_timer_free(t);
}

RT(timer_set_to_forever_disarms)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);
	int64_t soon;
	int slow; /* it may have expired before it was disarmed */

	CHECK_EQ(gmp_timer_set(t, GMP_FOREVER, 0), 0);
	CHECK_EQ(gmp_timer_stop(t), 0);
	soon = gmp_deadline(5 * MS);
	CHECK_EQ(gmp_timer_set(t, soon, 0), 0);
	slow = gmp_timer_set(t, GMP_FOREVER, 0) != 1;
	CHECK(!slow || gmp_now() >= soon);
	soon = gmp_deadline(5 * MS);
	CHECK_EQ(gmp_timer_set(t, soon, 5 * MS), 0);
	CHECK_EQ(gmp_timer_set(t, GMP_FOREVER, MS), 1);
	slow |= gmp_now() >= soon;
	CHECK_EQ(gmp_timer_stop(t), 0);
	WAIT_FOR(stats().greens == 1); /* all fired functions have run */
	CHECK(slow || atomic_load(&fired) == 0);
	check_quiet(20 * MS);
	gmp_timer_free(t);
}

RT(timer_negative_period_returns_einval)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);

	CHECK_EQ(gmp_timer_set(t, gmp_deadline(3600 * SEC), 0), 0);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), -1), -EINVAL);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), INT64_MIN), -EINVAL);
	check_quiet(10 * MS);
	CHECK_EQ(gmp_timer_stop(t), 1);
	gmp_timer_free(t);
}

RT(timer_set_replaces_earlier_set)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);
	int64_t deadline;
	int armed;

	CHECK_EQ(gmp_timer_set(t, gmp_deadline(3600 * SEC), 0), 0);
	deadline = gmp_deadline(5 * MS);
	CHECK_EQ(gmp_timer_set(t, deadline, 0), 1); /* earlier */
	WAIT_FOR(atomic_load(&fired) == 1);
	CHECK(fired_at[0] >= deadline);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(20 * MS), 0), 0);
	deadline = gmp_deadline(60 * MS);
	armed = gmp_timer_set(t, deadline, 0); /* later; 0 if it fired before */
	WAIT_FOR(atomic_load(&fired) == 3 - armed);
	CHECK(fired_at[2 - armed] >= deadline);
	check_quiet(30 * MS);
	gmp_timer_free(t);
}

RT(timer_period_keeps_phase)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);
	int64_t first = gmp_deadline(5 * MS), period = 3 * MS;
	int n, late = 0;

	CHECK_EQ(gmp_timer_set(t, first, period), 0);
	WAIT_FOR(atomic_load(&fired) >= 30);
	CHECK_EQ(gmp_timer_stop(t), 1);
	gmp_timer_free(t);
	n = atomic_load(&fired);
	/* The k-th run is never before the k-th expiry, so there are never too many runs. */
	for (int k = 0; k < n && k < 4096; k++) {
		CHECK(fired_at[k] >= first + k * period);
		/* Some runs follow their expiry at once, also on a busy machine: no drift. */
		late += (fired_at[k] - first) % period > period / 2;
	}
	CHECK(late < n);
	check_quiet(10 * MS);
}

static void miss_periods(UNUSED void *arg)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);
	int64_t first = gmp_deadline(2 * MS), period = 10 * MS;
	int n;

	CHECK_EQ(gmp_timer_set(t, first, period), 0);
	/* No other G can run on the only P meanwhile: nine expiries are missed. */
	while (gmp_now() < first + 9 * period + period / 2)
		;
	gmp_yield();
	gmp_yield();
	gmp_yield();
	n = atomic_load(&fired);
	CHECK(n >= 1);
	CHECK(n <= 3);
	WAIT_FOR(atomic_load(&fired) > n);
	/* On the phase that was set, not counted from the late run. */
	CHECK(fired_at[n] >= first + 10 * period);
	gmp_timer_free(t);
}

TEST(timer_missed_periods_are_dropped)
{
	run_cooperative(1, miss_periods, NULL);
}

static void linger(UNUSED void *arg)
{
	int n = atomic_fetch_add(&inside, 1) + 1, seen = atomic_load(&most_inside);

	while (seen < n && !atomic_compare_exchange_weak(&most_inside, &seen, n))
		;
	WAIT_FOR(atomic_load(&release_fn));
	atomic_fetch_sub(&inside, 1);
}

RT(timer_periodic_runs_may_overlap)
{
	gmp_timer *t = gmp_timer_new(linger, NULL);

	CHECK_EQ(gmp_timer_set(t, gmp_deadline(MS), MS), 0);
	WAIT_FOR(atomic_load(&most_inside) >= 3);
	CHECK_EQ(gmp_timer_stop(t), 1);
	CHECK(atomic_load(&inside) >= 3); /* stop does not wait */
	atomic_store(&release_fn, 1);
	gmp_timer_free(t);
	CHECK_EQ(atomic_load(&inside), 0); /* free does */
}

static void yield_often(UNUSED void *arg)
{
	for (int i = 0; i < 200; i++)
		gmp_yield();
}

RT(timer_period_1_ns_does_not_pile_up_runs)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);
	gmp_g *g[30];
	uint64_t most = 0;

	CHECK_EQ(gmp_timer_set(t, 0, 1), 0);
	gmp_yield();
	for (int i = 0; i < 30; i++)
		g[i] = spawn(yield_often, NULL);
	for (int i = 0; i < 200; i++) {
		uint64_t n = stats().greens;

		most = n > most ? n : most;
		gmp_yield();
	}
	CHECK_EQ(gmp_timer_stop(t), 1);
	for (int i = 0; i < 30; i++)
		join(g[i]);
	gmp_timer_free(t);
	/* one runnable run, and one running on each P */
	CHECK(most <= 31 + 1 + (uint64_t)procs);
}

static void run_long(UNUSED void *arg)
{
	atomic_store(&started, 1);
	gmp_sleep((SLOW ? 500 : 20) * MS);
	for (int i = 0; i < 50; i++)
		gmp_yield();
	atomic_store(&finished, 1);
}

static void start_and_free(UNUSED void *arg)
{
	gmp_timer *t = gmp_timer_new(run_long, NULL);

	CHECK(t != NULL);
	atomic_store(&started, 0);
	atomic_store(&finished, 0);
	CHECK_EQ(gmp_timer_set(t, 0, 0), 0);
	WAIT_FOR(atomic_load(&started));
	CHECK_EQ(gmp_timer_stop(t), 0);
	gmp_timer_free(t); /* while fn runs, unless the machine is too slow */
	CHECK_EQ(atomic_load(&finished), 1);
}

RT(timer_free_waits_for_running_fn)
{
	struct ext_thread f;

	start_and_free(NULL);
	join(spawn(start_and_free, NULL));
	ext_thread_start(&f, start_and_free, NULL);
	ext_thread_join(&f);
}

static void free_the_timer(UNUSED void *arg)
{
	gmp_timer_free(the_timer);
}

static void set_while_freed(UNUSED void *arg)
{
	atomic_fetch_add(&started, 1);
	wait_parked(2); /* the G in gmp_timer_free, and its joiner */
	CHECK_EQ(gmp_timer_set(the_timer, gmp_now(), 0), 0);
	CHECK_EQ(gmp_timer_set(the_timer, gmp_now(), MS), 0);
	CHECK_EQ(gmp_timer_stop(the_timer), 0);
	atomic_fetch_add(&finished, 1);
}

RT(timer_set_in_fn_during_free_does_not_arm)
{
	the_timer = gmp_timer_new(set_while_freed, NULL);
	CHECK_EQ(gmp_timer_set(the_timer, 0, 0), 0);
	WAIT_FOR(atomic_load(&started) == 1);
	join(spawn(free_the_timer, NULL));
	CHECK_EQ(atomic_load(&finished), 1);
	check_quiet(5 * MS);
	CHECK_EQ(atomic_load(&started), 1);
}

static void free_itself(UNUSED void *arg)
{
	gmp_timer_free(the_timer);
	atomic_fetch_add(&finished, 1);
}

RT(timer_free_in_own_fn_works)
{
	for (int i = 0; i < 100; i++) {
		atomic_store(&finished, 0);
		the_timer = gmp_timer_new(free_itself, NULL);
		/* Periodic: the free must also stop later runs. */
		CHECK_EQ(gmp_timer_set(the_timer, 0, i % 2 ? 3600 * SEC : 0), 0);
		WAIT_FOR(atomic_load(&finished) == 1);
	}
	WAIT_FOR(stats().timers == 0);
}

static void free_itself_in_blocking_code(UNUSED void *arg)
{
	gmp_block_enter();
	gmp_timer_free(the_timer);
	gmp_block_leave();
	atomic_fetch_add(&finished, 1);
}

RT(timer_free_in_own_fn_in_blocking_code_works)
{
	int64_t limit = gmp_deadline(20 * SEC);

	for (int i = 1; i <= 10; i++) {
		the_timer = gmp_timer_new(free_itself_in_blocking_code, NULL);
		CHECK_EQ(gmp_timer_set(the_timer, 0, i % 2 ? 3600 * SEC : 0), 0);
		while (atomic_load(&finished) < i) {
			CHECK(gmp_now() < limit);
			gmp_yield();
		}
	}
	WAIT_FOR(stats().timers == 0);
}

RT(timer_free_disarms)
{
	int slow = 0; /* a timer may have expired before it was freed */

	for (int i = 0; i < 1000; i++) {
		gmp_timer *t = gmp_timer_new(fire, NULL);
		int64_t soon = gmp_deadline(20 * MS);

		CHECK_EQ(gmp_timer_set(t, soon, MS), 0);
		gmp_timer_free(t);
		slow |= gmp_now() >= soon;
	}
	CHECK_EQ(stats().timers, 0);
	CHECK(slow || atomic_load(&fired) == 0);
	check_quiet(30 * MS);
}

static void set_again(UNUSED void *arg)
{
	if (atomic_fetch_add(&fired, 1) < 9)
		CHECK_EQ(gmp_timer_set(the_timer, gmp_deadline(100 * US), 0), 0);
}

RT(timer_set_in_own_fn_works)
{
	the_timer = gmp_timer_new(set_again, NULL);
	CHECK_EQ(gmp_timer_set(the_timer, gmp_deadline(100 * US), 0), 0);
	WAIT_FOR(atomic_load(&fired) == 10);
	check_quiet(5 * MS);
	gmp_timer_free(the_timer);
}

static void exit_early(UNUSED void *arg)
{
	atomic_fetch_add(&fired, 1);
	gmp_exit();
}

RT(timer_fn_may_call_gmp_exit)
{
	gmp_timer *t = gmp_timer_new(exit_early, NULL);

	CHECK_EQ(gmp_timer_set(t, 0, MS), 0);
	WAIT_FOR(atomic_load(&fired) >= 3);
	gmp_timer_free(t); /* waits for none of them */
}

static void count_own(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

struct expiry {
	atomic_int n;
	gmp_sem fired;
};

static void count_expiry(void *arg)
{
	struct expiry *e = arg;

	atomic_fetch_add(&e->n, 1);
	CHECK_EQ(gmp_sem_release(&e->fired, 1), 0);
}

static void race(void *arg)
{
	uintptr_t seed = (uintptr_t)arg;

	for (int i = 0; i < (SLOW ? 200 : 2000); i++) {
		struct expiry e = { 0 };
		gmp_timer *t = gmp_timer_new(count_expiry, &e);
		int64_t delay = (int64_t)((seed + (uintptr_t)i) % 20) * 2 * US;
		int stopped;

		CHECK(t != NULL);
		CHECK_EQ(gmp_timer_set(t, gmp_deadline(delay), 0), 0);
		for (uintptr_t k = 0; k < (seed + (uintptr_t)i) % 4; k++)
			gmp_yield();
		stopped = gmp_timer_stop(t);
		CHECK(stopped == 0 || stopped == 1);
		if (!stopped)
			poll_and_acquire(&e.fired);
		gmp_timer_free(t);
		CHECK_EQ(atomic_load(&e.n), !stopped);
	}
}

RT(timer_stop_racing_expiry_fires_or_stops)
{
	struct ext_thread f;
	gmp_g *g[4];

	ext_thread_start(&f, race, (void *)5);
	for (int i = 0; i < 4; i++)
		g[i] = spawn(race, (void *)(intptr_t)i);
	for (int i = 0; i < 4; i++)
		join(g[i]);
	ext_thread_join(&f);
}

RT(timer_5000_fire_once_each)
{
	enum { N = 5000 };
	static gmp_timer *t[N];
	static atomic_int n[N];
	static int stopped[N];

	for (int i = 0; i < N; i++) {
		t[i] = gmp_timer_new(count_own, &n[i]);
		CHECK(t[i] != NULL);
		CHECK_EQ(gmp_timer_set(t[i], gmp_deadline((i * 7919 % 50) * MS), 0), 0);
	}
	for (int i = 0; i < N; i += 2)
		stopped[i] = gmp_timer_stop(t[i]);
	for (int i = 0; i < N; i++) {
		if (!stopped[i])
			WAIT_FOR(atomic_load(&n[i]));
		gmp_timer_free(t[i]);
		CHECK_EQ(atomic_load(&n[i]), !stopped[i]);
	}
	CHECK_EQ(stats().timers, 0);
}

static void use_timer(UNUSED void *arg)
{
	gmp_timer *t = gmp_timer_new(fire, NULL);
	int64_t deadline = gmp_deadline(5 * MS);

	CHECK(t != NULL);
	CHECK_EQ(gmp_timer_set(t, deadline, 0), 0);
	WAIT_FOR(atomic_load(&fired) == 1);
	CHECK(fired_at[0] >= deadline);
	CHECK_EQ(gmp_timer_set(t, gmp_deadline(3600 * SEC), 0), 0);
	CHECK_EQ(gmp_timer_stop(t), 1);
	gmp_timer_free(t);
}

/* --- reports --- */

static void ignore(UNUSED void *arg)
{
}

/* golang/go#80760: a stop that raced with the expiry, and the set after it, both returned 1. */
RT(timer_set_after_stop_returns_0)
{
	gmp_timer *t = gmp_timer_new(ignore, NULL);
	unsigned x = 1;

	for (int i = 0; i < check_scaled(2000); i++) {
		x = x * 1103515245 + 12345;
		int64_t deadline = gmp_deadline((x >> 16) % 30000);
		int64_t stop = deadline + (int64_t)(x >> 8) % 4000 - 2000;

		CHECK_EQ(gmp_timer_set(t, deadline, i % 3 ? 0 : 7 * US), 0);
		while (gmp_now() < stop)
			if (x & 64)
				gmp_yield();
		int stopped = gmp_timer_stop(t);

		CHECK(stopped || i % 3);
		CHECK_EQ(gmp_timer_stop(t), 0);
	}
	gmp_timer_free(t);
}

/* golang/go#51654: timers that were moved to later kept the poller busy. */
RT(timer_moved_later_costs_no_polls)
{
	gmp_timer *t[64];

	for (int i = 0; i < 64; i++)
		t[i] = gmp_timer_new(ignore, NULL);
	for (int k = 1; k <= 20; k++)
		for (int i = 0; i < 64; i++)
			CHECK(gmp_timer_set(t[i], gmp_deadline(k * SEC), 0) >= 0);
	for (int i = 0; i < 64; i++)
		CHECK_EQ(gmp_timer_set(t[i], gmp_deadline(3600 * SEC), 0), 1);
	uint64_t polls = stats().polls, fires = stats().timers_fired;

	CHECK_EQ(gmp_sleep(30 * MS), 0);
	CHECK(stats().polls - polls < 1000);
	CHECK_EQ(stats().timers_fired - fires, 1);
	for (int i = 0; i < 64; i++) {
		CHECK_EQ(gmp_timer_stop(t[i]), 1);
		gmp_timer_free(t[i]);
	}
}

static atomic_int resets_over;

static void set_without_pause(UNUSED void *arg)
{
	gmp_timer *t = gmp_timer_new(ignore, NULL);

	for (unsigned i = 0; !atomic_load(&resets_over); i++)
		CHECK(gmp_timer_set(t, gmp_deadline(i % 4 ? SEC : 0), 0) >= 0);
	gmp_timer_free(t);
}

/* golang/go#38119: threads that set timers in a loop kept all others from running. */
RT(timer_sets_without_pause_do_not_starve_sleepers)
{
	gmp_g *g[4];

	need_preemption();
	for (int i = 0; i < 4; i++)
		g[i] = spawn(set_without_pause, NULL);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_sleep(MS), 0);
	atomic_store(&resets_over, 1);
	for (int i = 0; i < 4; i++)
		join(g[i]);
}

RT(timer_on_external_thread_works)
{
	struct ext_thread f;

	ext_thread_start(&f, use_timer, NULL);
	ext_thread_join(&f);
}

TEST_PROCS(timer_set_externally_wakes_idle_runtime)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	CHECK_EQ(gmp_start(&c), 0);
	for (int i = 0; i < 20; i++) {
		gmp_timer *t = gmp_timer_new(fire, NULL);

		gmp_sleep(2 * MS); /* let the runtime become idle */
		CHECK_EQ(gmp_timer_set(t, gmp_deadline(500 * US), 0), 0);
		WAIT_FOR(atomic_load(&fired) == i + 1);
		gmp_timer_free(t);
	}
	CHECK_EQ(gmp_stop(), 0);
}

static gmp_timer *left[10];

static void leave_timers(UNUSED void *arg)
{
	for (int i = 0; i < 10; i++) {
		left[i] = gmp_timer_new(fire, NULL);
		CHECK(left[i] != NULL);
		CHECK_EQ(gmp_timer_set(left[i], gmp_deadline(20 * MS), i % 2 ? MS : 0), 0);
	}
}

static void try_left(UNUSED void *arg)
{
	CHECK_EQ(gmp_timer_set(left[0], gmp_deadline(MS), 0), -ESRCH);
	CHECK_EQ(gmp_timer_stop(left[1]), -ESRCH);
	check_quiet(40 * MS); /* some may have fired before a run that was slow to end */
}

TEST_PROCS(timer_calls_after_run_ended_return_esrch)
{
	run_procs(procs, leave_timers, NULL);
	try_left(NULL);
	run_procs(procs, try_left, NULL);
	for (int i = 0; i < 10; i++)
		gmp_timer_free(left[i]);
}

static atomic_int computes;

/* Its run ends meanwhile. */
static void compute_and_free(UNUSED void *arg)
{
	atomic_store(&computes, 1);
	for (int64_t end = gmp_now() + 50 * MS; gmp_now() < end;)
		;
	gmp_timer_free(left[0]);
}

static void leave_computing(UNUSED void *arg)
{
	CHECK_EQ(gmp_go(compute_and_free, NULL), 0);
	while (!atomic_load(&computes))
		gmp_yield();
}

TEST(timer_of_earlier_run_is_freed_while_a_run_stops)
{
	run_procs(2, leave_timers, NULL);
	run_procs(2, leave_computing, NULL);
	for (int i = 1; i < 10; i++)
		gmp_timer_free(left[i]);
}
