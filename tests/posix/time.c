/* SPDX-License-Identifier: MIT */
/* Tests the functions that sleep. Its cases compare times: each needs a CPU. */
#define _GNU_SOURCE 1
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "posix.h"

enum { MS = 1000000 };

POSIX_TEST(nanosleep_bad_time_is_einval)
{
	static const struct timespec bad[] = { { -1, 0 }, { 0, -1 }, { 0, 1000000000 } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CHECK_EQ(nanosleep(&bad[i], NULL), -1);
		CHECK_EQ(errno, EINVAL);
	}
}

POSIX_TEST(nanosleep_sleeps_the_time)
{
	struct timespec t = { 0, 20000000 };
	int64_t began = gmp_now();

	CHECK_EQ(nanosleep(&t, NULL), 0);
	CHECK(gmp_now() - began >= 20000000);
}

static void sleeper(void *arg)
{
	struct timespec t = { 0, 50000000 };

	CHECK_EQ(nanosleep(&t, NULL), 0);
	(*(int *)arg)++;
}

static void many_sleepers(void *arg)
{
	gmp_g *g[100];

	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_spawn(&g[i], sleeper, arg, NULL), 0);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

/* 100 green threads on one P: 50 ms in parallel, 5 s one after the other. */
TEST(nanosleep_parks_the_green_thread)
{
	int n = 0;
	int64_t began = gmp_now();

	run_own(1, 0, many_sleepers, &n);
	CHECK_EQ(n, 100);
	CHECK(gmp_now() - began < 2000000000);
}

/* --- clock_nanosleep --- */

POSIX_TEST(nanosleep_success_leaves_errno)
{
	struct timespec t = { 0, MS }, rest = { 77, 78 };

	errno = ERANGE;
	CHECK_EQ(nanosleep(&t, &rest), 0);
	CHECK_EQ(errno, ERANGE);
	CHECK_EQ(rest.tv_sec, 77);
	CHECK_EQ(rest.tv_nsec, 78);
}

POSIX_TEST(clock_nanosleep_bad_time_is_einval)
{
	static const struct timespec bad[] = { { 0, -1 }, { 0, 1000000000 } };

	errno = ERANGE;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad[i], NULL), EINVAL);
		CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &bad[i], NULL), EINVAL);
	}
	CHECK_EQ(errno, ERANGE);
}

POSIX_TEST(clock_nanosleep_bad_clock_is_an_error)
{
	struct timespec t = { 0, MS };

	CHECK_EQ(clock_nanosleep(12345, 0, &t, NULL), EINVAL);
	CHECK_EQ(clock_nanosleep(CLOCK_THREAD_CPUTIME_ID, 0, &t, NULL), EINVAL);
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC_RAW, 0, &t, NULL), ENOTSUP);
}

static int64_t now_of(clockid_t clock)
{
	struct timespec t;

	CHECK_EQ(clock_gettime(clock, &t), 0);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

POSIX_TEST(clock_nanosleep_sleeps_the_time)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME,
					    CLOCK_TAI };

	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		struct timespec t = { 0, 5 * MS };
		int64_t began = now_of(clocks[i]);

		CHECK_EQ(clock_nanosleep(clocks[i], 0, &t, NULL), 0);
		CHECK(now_of(clocks[i]) - began >= 5 * MS);
		int64_t end = now_of(clocks[i]) + 5 * MS;

		t = (struct timespec){ end / 1000000000, end % 1000000000 };
		CHECK_EQ(clock_nanosleep(clocks[i], TIMER_ABSTIME, &t, NULL), 0);
		CHECK(now_of(clocks[i]) >= end);
	}
}

POSIX_TEST(clock_nanosleep_past_time_returns)
{
	struct timespec t = { 1, 0 };

	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL), 0);
	CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL), 0);
	t.tv_sec = 0;
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL), 0);
}

POSIX_TEST(sleep_sleeps_the_time)
{
	int64_t began = gmp_now();

	errno = ERANGE;
	CHECK_EQ(sleep(1), 0);
	CHECK(gmp_now() - began >= 1000 * (int64_t)MS);
	CHECK_EQ(errno, ERANGE);
}

POSIX_TEST(sleep_zero_returns)
{
	int64_t began = gmp_now();

	CHECK_EQ(sleep(0), 0);
	CHECK(gmp_now() - began < 500 * (int64_t)MS);
}

POSIX_TEST(usleep_sleeps_the_time)
{
	int64_t began = gmp_now();

	CHECK_EQ(usleep(20000), 0);
	CHECK(gmp_now() - began >= 20 * MS);
}

POSIX_TEST(usleep_more_than_a_second)
{
	int64_t began = gmp_now();

	errno = ERANGE;
	CHECK_EQ(usleep(1050000), 0);
	CHECK(gmp_now() - began >= 1050 * (int64_t)MS);
	CHECK_EQ(errno, ERANGE);
}

/* --- a cancelled green thread; yields --- */

static void long_sleeper(void *arg)
{
	struct timespec t = { 60, 0 };

	(void)arg;
	CHECK_EQ(nanosleep(&t, &t), -1);
	CHECK_EQ(errno, ECANCELED);
	CHECK(t.tv_sec >= 30 && t.tv_sec < 60);
	CHECK_EQ(clock_nanosleep(CLOCK_REALTIME, 0, &t, NULL), ECANCELED);
	CHECK_EQ(usleep(20000000), -1);
	CHECK_EQ(errno, ECANCELED);
	CHECK(sleep(20) > 10);
}

static void cancels(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_spawn(&g, long_sleeper, NULL, NULL), 0);
	CHECK_EQ(usleep(1000), 0);
	CHECK_EQ(gmp_cancel(g), 0);
	CHECK_EQ(gmp_join(g), 0);
}

TEST(sleeps_cancelled_return_ecanceled)
{
	run_own(1, 0, cancels, NULL);
}

static void kinds_sleeper(void *arg)
{
	struct timespec t = { 0, 50 * MS };

	CHECK_EQ(clock_nanosleep(CLOCK_BOOTTIME, 0, &t, NULL), 0);
	CHECK_EQ(usleep(50000), 0);
	CHECK_EQ(sleep(1), 0);
	(*(int *)arg)++;
}

static void many_kinds(void *arg)
{
	gmp_g *g[100];

	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_spawn(&g[i], kinds_sleeper, arg, NULL), 0);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

/* 1.1 s in parallel, 110 s one after the other. */
TEST(sleeps_park_the_green_thread)
{
	int n = 0;
	int64_t began = gmp_now();

	run_own(1, 0, many_kinds, &n);
	CHECK_EQ(n, 100);
	CHECK(gmp_now() - began < 20000 * (int64_t)MS);
}

POSIX_TEST(sched_yield_returns_0)
{
	errno = ERANGE;
	for (int i = 0; i < 100; i++)
		CHECK_EQ(sched_yield(), 0);
	CHECK_EQ(errno, ERANGE);
}

static void sets(void *flag)
{
	__atomic_store_n((int *)flag, 1, __ATOMIC_RELAXED);
}

/* A loop with sched_yield lets the green thread run that ends it, also on one P. */
static void yields(void *arg)
{
	int flag = 0;
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_spawn(&g, sets, &flag, NULL), 0);
	while (!__atomic_load_n(&flag, __ATOMIC_RELAXED))
		CHECK_EQ(sched_yield(), 0);
	CHECK_EQ(gmp_join(g), 0);
}

TEST_PROCS(sched_yield_runs_others)
{
	run_own(procs, 0, yields, NULL);
}

static int64_t cpu_time_of(int who)
{
	struct rusage u;

	CHECK_EQ(getrusage(who, &u), 0);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 * (int64_t)MS +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * INT64_C(1000);
}

/* With one CPU for both, a process that yields all the time uses next to none of it, as natively,
 * while another process computes. */
static void yields_beside_a_process(void *arg)
{
	int64_t before = cpu_time_of(RUSAGE_SELF);
	pid_t pid = fork(), ended;

	(void)arg;
	CHECK(pid >= 0);
	if (pid == 0) {
		while (cpu_time_of(RUSAGE_SELF) < 200 * (int64_t)MS)
			;
		_exit(0);
	}
	while ((ended = waitpid(pid, NULL, WNOHANG)) == 0)
		for (int i = 0; i < 100; i++)
			CHECK_EQ(sched_yield(), 0);
	CHECK_EQ(ended, pid);
	CHECK((cpu_time_of(RUSAGE_SELF) - before) * 2 < cpu_time_of(RUSAGE_CHILDREN));
}

TEST_PROCS(sched_yield_leaves_the_cpu_to_other_processes)
{
	cpu_set_t one;

	skip_under_chaos();
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	run_own(procs, 0, yields_beside_a_process, NULL);
}

static void yields_without_own_tls(void *arg)
{
	(void)arg;
	CHECK_EQ(sched_yield(), 0);
	CHECK_EQ(usleep(1000), 0);
	CHECK_EQ(sleep(0), 0);
	CHECK_EQ(clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ 0, MS }, NULL), 0);
}

TEST(sleeps_without_own_tls_block)
{
	skip_under_chaos();
	CHECK_EQ(gmp_run(yields_without_own_tls, NULL, NULL), 0);
}
