/* SPDX-License-Identifier: MIT */
/*
 * Tests the clock, deadlines, and that a sleep is never short and rarely much too long. Its cases
 * compare times: each needs a CPU.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

#include "util.h"

static atomic_int count;

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	CHECK_EQ(clock_gettime(id, &ts), 0);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

TEST(now_equals_monotonic_clock)
{
	int64_t last = 0;

	for (int i = 0; i < 10000; i++) {
		int64_t a = clock_ns(CLOCK_MONOTONIC), t = gmp_now(), b = clock_ns(CLOCK_MONOTONIC);

		CHECK(a <= t);
		CHECK(t <= b);
		CHECK(t >= last);
		last = t;
	}
}

TEST(deadline_saturates_at_forever)
{
	CHECK_EQ(gmp_deadline(INT64_MAX), GMP_FOREVER);
	CHECK_EQ(gmp_deadline(INT64_MAX - 1), GMP_FOREVER);
	CHECK(gmp_deadline(INT64_MAX / 2) < GMP_FOREVER);
	CHECK(gmp_deadline(INT64_MAX / 2) > gmp_now());
}

TEST(deadline_of_zero_or_less_has_passed)
{
	CHECK(gmp_deadline(0) <= gmp_now());
	CHECK(gmp_deadline(-1) <= gmp_now());
	CHECK(gmp_deadline(-SEC) <= gmp_now());
	CHECK(gmp_deadline(INT64_MIN) <= gmp_now());
}

TEST(deadline_equals_now_plus_duration)
{
	int64_t a = gmp_now(), d = gmp_deadline(SEC), b = gmp_now();

	CHECK(d >= a + SEC);
	CHECK(d <= b + SEC);
}

static void sleep_not_early(UNUSED void *arg)
{
	static const int64_t ns[] = { 1, 1000, 50000, 999999, 1000000, 3000000, 20000000 };

	for (int i = 0; i < 7; i++) {
		int64_t t = gmp_now();

		CHECK_EQ(gmp_sleep(ns[i]), 0);
		CHECK(gmp_now() >= t + ns[i]);
		t = gmp_now();
		CHECK_EQ(gmp_sleep_until(t + ns[i]), 0);
		CHECK(gmp_now() >= t + ns[i]);
		CHECK(gmp_now() < t + ns[i] + 10 * SEC);
	}
}

RT(sleep_is_never_short)
{
	struct ext_thread f;

	sleep_not_early(NULL);
	ext_thread_start(&f, sleep_not_early, NULL);
	join(spawn(sleep_not_early, NULL));
	ext_thread_join(&f);
}

static atomic_int alarms;

static void count_alarm(UNUSED int signo)
{
	atomic_fetch_add(&alarms, 1);
}

TEST(sleep_of_external_thread_with_signals_is_not_short)
{
	struct sigaction sa = { .sa_handler = count_alarm };
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { 0 };

	CHECK_EQ(sigaction(SIGALRM, &sa, NULL), 0);
	CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (int i = 0; i < 10; i++) {
		int64_t began = gmp_now();

		CHECK_EQ(gmp_sleep(20 * MS), 0);
		CHECK(gmp_now() - began >= 20 * MS);
	}
	WAIT_FOR(atomic_load(&alarms) > 0);
	CHECK_EQ(setitimer(ITIMER_REAL, &never, NULL), 0);
}

TEST(sleep_without_runtime_works)
{
	sleep_not_early(NULL);
	CHECK_EQ(gmp_sleep(0), 0);
	CHECK_EQ(gmp_sleep(-5), 0);
	CHECK_EQ(gmp_sleep_until(0), 0);
	CHECK_EQ(gmp_sleep_until(INT64_MIN), 0);
}

RT(sleep_100_us_median_is_below_1_ms)
{
	enum { N = 201 };
	int64_t took[N];

	for (int i = 0; i < N; i++) {
		int64_t t = gmp_now();

		gmp_sleep(100 * US);
		took[i] = gmp_now() - t;
		CHECK(took[i] >= 100 * US);
	}
	qsort(took, N, sizeof(took[0]), cmp_i64);
	CHECK(took[N / 2] < (SLOW ? 5 * MS : MS));
}

static void set_flag(void *arg)
{
	*(int *)arg = 1;
}

static void sleep_by_form(int form)
{
	int err = -1;

	switch (form) {
	case 0: err = gmp_sleep(0); break;
	case 1: err = gmp_sleep(-1); break;
	case 2: err = gmp_sleep(INT64_MIN); break;
	case 3: err = gmp_sleep_until(gmp_now() - 1); break;
	case 4: err = gmp_sleep_until(0); break;
	case 5: err = gmp_sleep_until(INT64_MIN); break;
	}
	CHECK_EQ(err, 0);
}

static void sleep_nothing(UNUSED void *arg)
{
	for (int form = 0; form < 6; form++) {
		int flag = 0;
		gmp_g *g = spawn(set_flag, &flag);

		sleep_by_form(form);
		CHECK_EQ(flag, 1);
		join(g);
	}
}

/* In virtual time: if a run takes a millisecond, a G that has yielded may run before a new one. */
TEST(sleep_of_zero_or_less_yields)
{
	CHECK_EQ(run_configured(1, 0, GMP_VIRTUAL_TIME, sleep_nothing, NULL), 0);
}

static int order[8];
static atomic_int norder;

static void sleep_and_note(void *arg)
{
	int64_t *deadline = arg;

	gmp_sleep_until(*deadline);
	CHECK(gmp_now() >= *deadline);
	order[atomic_fetch_add(&norder, 1)] = (int)(*deadline & 7);
}

/* Returns 0 if a sleeper did not sleep before the first deadline. */
static int sleep_in_disorder(int64_t lead)
{
	static const int perm[] = { 3, 1, 4, 0, 2 };
	int64_t base = gmp_deadline(lead), deadline[5], last = base + 5 * MS;
	gmp_g *g[5];

	atomic_store(&norder, 0);
	for (int i = 0; i < 5; i++) {
		deadline[i] = ((base + perm[i] * MS) & ~(int64_t)7) + perm[i];
		g[i] = spawn(sleep_and_note, &deadline[i]);
	}
	WAIT_FOR(stats().greens_waiting == 5 || gmp_now() >= base);
	int asleep = gmp_now() < base - 8;

	while (gmp_now() < last)
		;
	for (int i = 0; i < 5; i++)
		join(g[i]);
	return asleep;
}

/* All sleeps are due before the only P checks its timers. */
static void wake_in_order(UNUSED void *arg)
{
	for (int64_t lead = 20 * MS; !sleep_in_disorder(lead);)
		CHECK((lead *= 2) < PATIENCE);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(order[i], i);
}

/* With preemption a sleeper that has ended could lose its P before it notes that. */
TEST(sleep_ends_in_order_of_deadlines)
{
	run_cooperative(1, wake_in_order, NULL);
}

static void sleep_long(UNUSED void *arg)
{
	gmp_sleep(3600 * SEC);
	CHECK(!"slept an hour");
}

static void sleep_forever(UNUSED void *arg)
{
	gmp_sleep_until(GMP_FOREVER);
	CHECK(!"woke from a sleep until GMP_FOREVER");
}

RT(sleep_short_is_not_delayed_by_longer_sleeps)
{
	int64_t t = gmp_now();

	for (int i = 0; i < 50; i++) {
		CHECK_EQ(gmp_go(sleep_long, NULL), 0);
		CHECK_EQ(gmp_go(sleep_forever, NULL), 0);
	}
	wait_parked(100);
	gmp_sleep(5 * MS);
	CHECK(gmp_now() < t + 10 * SEC);
}

static void sleep_some(void *arg)
{
	int64_t ns = (intptr_t)arg, t = gmp_now();

	gmp_sleep(ns);
	CHECK(gmp_now() >= t + ns);
	atomic_fetch_add(&count, 1);
}

RT(sleep_by_20000_green_threads_all_end)
{
	int n = SLOW ? 1000 : 20000;
	unsigned seed = 1;

	for (int i = 0; i < n; i++) {
		seed = seed * 1103515245 + 12345;
		CHECK_EQ(gmp_go(sleep_some, (void *)(intptr_t)(seed / 65536 % 1000 * 50 * US)), 0);
	}
	WAIT_FOR(atomic_load(&count) == n);
}

static void sleep_often(UNUSED void *arg)
{
	for (int i = 0; i < 200; i++)
		gmp_sleep((i % 7) * 10 * US);
	atomic_fetch_add(&count, 1);
}

RT(sleep_repeated_by_50_green_threads_all_end)
{
	gmp_g *g[50];

	for (int i = 0; i < 50; i++)
		g[i] = spawn(sleep_often, NULL);
	for (int i = 0; i < 50; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&count), 50);
}

RT(sleep_expired_on_busy_p_is_run_by_idle_p)
{
	int64_t limit = gmp_deadline(PATIENCE);
	gmp_g *g;

	if (procs == 1)
		check_skip("needs a second P");
	g = spawn(sleep_some, (void *)(intptr_t)MS);
	gmp_yield();
	/* This loop never yields. */
	while (atomic_load(&count) == 0)
		CHECK(gmp_now() < limit);
	join(g);
}

static void sleep_until(void *arg)
{
	int64_t *deadline = arg;

	CHECK_EQ(gmp_sleep_until(*deadline), 0);
	CHECK(gmp_now() >= *deadline);
	atomic_fetch_add(&count, 1);
}

static void sleep_close_together(UNUSED void *arg)
{
	enum { N = 300, APART = 20000 };
	static int64_t deadline[N];
	int64_t first = gmp_now() + (SLOW ? 5000 : 200) * MS;

	for (int i = 0; i < N; i++) {
		deadline[i] = first + i * APART;
		CHECK_EQ(gmp_go(sleep_until, &deadline[i]), 0);
	}
	while (stats().greens_waiting < N && gmp_now() < first)
		gmp_yield();
	int in_time = gmp_now() < first;
	uint64_t polls = stats().polls;

	gmp_sleep_until(first);
	while (atomic_load(&count) < N)
		gmp_sleep(20 * MS);
	/* one poll per slack of 50 us, not one per sleeper */
	CHECK(!in_time || stats().polls - polls < N / 2);
}

TEST(sleep_deadlines_close_together_share_wakeups)
{
	if (SANITIZED)
		check_skip("a wakeup takes longer than the deadlines are apart");
	run_procs(1, sleep_close_together, NULL); /* so that no thread wakes another */
}

static gmp_wg gate;

static void wait_gate(UNUSED void *arg)
{
	gmp_wg_wait(&gate);
}

RT(idle_runtime_uses_no_cpu)
{
	gmp_g *g[1000];
	int64_t cpu;

	if (SANITIZED)
		check_skip("a sanitizer has threads of its own");
	gmp_wg_add(&gate, 1);
	for (int i = 0; i < 1000; i++)
		g[i] = spawn(wait_gate, NULL);
	wait_parked(1000);
	gmp_sleep(50 * MS);
	cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	gmp_sleep(SEC);
	CHECK(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu < 20 * MS);
	gmp_wg_done(&gate);
	for (int i = 0; i < 1000; i++)
		join(g[i]);
}

static void do_nothing(UNUSED void *arg)
{
}

TEST(run_restores_timer_slack_of_caller)
{
	CHECK_EQ(prctl(PR_SET_TIMERSLACK, 77777UL, 0UL, 0UL, 0UL), 0);
	run_procs(2, do_nothing, NULL);
	CHECK_EQ(prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL), 77777);
}
