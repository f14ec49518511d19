/* SPDX-License-Identifier: MIT */
/*
 * Tests the CPU time of a thread: CLOCK_THREAD_CPUTIME_ID, RUSAGE_THREAD, and SIGPROF. Its cases
 * compare times: each needs a CPU.
 */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "threads.h"

enum { THREADS = 8, ROUNDS = 60 };

#define MS INT64_C(1000000)

static int64_t cpu_clock(void)
{
	struct timespec t;

	CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t ns_of(struct timeval t)
{
	return (t.tv_sec * INT64_C(1000000) + t.tv_usec) * 1000;
}

static int64_t cpu_usage(void)
{
	struct rusage r;

	CHECK_EQ(getrusage(RUSAGE_THREAD, &r), 0);
	return ns_of(r.ru_utime) + ns_of(r.ru_stime);
}

/* Compute until the caller's clock has advanced by ns. */
static void compute(int64_t (*clock)(void), int64_t ns)
{
	int64_t begin = clock();

	while (clock() - begin < ns)
		for (volatile int i = 0; i < 10000; i++)
			;
}

/* --- the clock never goes backwards --- */

struct watch {
	int64_t (*clock)(void);
	int backwards;
};

static void look_often(void *arg)
{
	struct watch *w = arg;
	int64_t last = w->clock();

	for (int i = 0; i < ROUNDS; i++) {
		for (volatile int k = 0; k < 20000 * (1 + i % 5); k++)
			;
		usleep(300);
		int64_t now = w->clock();

		if (now < last)
			__atomic_fetch_add(&w->backwards, 1, __ATOMIC_RELAXED);
		last = now;
	}
}

static int times_backwards(int64_t (*clock)(void))
{
	struct watch w = { .clock = clock };
	struct thread t[THREADS];

	for (int i = 0; i < THREADS; i++)
		thread_start(&t[i], look_often, &w);
	for (int i = 0; i < THREADS; i++)
		thread_end(&t[i]);
	return w.backwards;
}

POSIX_TEST(thread_cpu_clock_never_goes_backwards)
{
	CHECK_EQ(times_backwards(cpu_clock), 0);
}

POSIX_TEST(thread_usage_never_goes_backwards)
{
	CHECK_EQ(times_backwards(cpu_usage), 0);
}

/* --- it counts the caller --- */

static void compute_100_ms(void *clock)
{
	compute(*(int64_t(**)(void))clock, 100 * MS);
}

/* What the caller's clock shows for a sleep during which another thread computes. */
static int64_t counted_in_sleep(int64_t (*clock)(void))
{
	struct timespec ms50 = { 0, 50 * MS };
	struct thread t;
	int64_t before = clock();

	thread_start(&t, compute_100_ms, &clock);
	CHECK_EQ(nanosleep(&ms50, NULL), 0);
	int64_t counted = clock() - before;

	thread_end(&t);
	return counted;
}

POSIX_TEST(thread_cpu_clock_stops_in_waits)
{
	CHECK(counted_in_sleep(cpu_clock) < 20 * MS);
	CHECK(counted_in_sleep(cpu_usage) < 20 * MS);
}

/* Both count the same, and the clock of the process at least as much. */
POSIX_TEST(thread_cpu_clock_counts_computing)
{
	struct timespec from, to;
	int64_t usage = cpu_usage();

	CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from), 0);
	compute(cpu_clock, 50 * MS);
	CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to), 0);
	usage = cpu_usage() - usage;
	CHECK(usage > 40 * MS);
	CHECK((to.tv_sec - from.tv_sec) * 1000 * MS + to.tv_nsec - from.tv_nsec > 40 * MS);
}

/* Calls that do not wait may let others run.  *sum: of the clocks. */
static void compute_and_read(void *sum)
{
	int64_t begin = cpu_clock();
	int p[2];
	char c = 0;

	CHECK_EQ(pipe(p), 0);
	for (int i = 0; i < 100; i++) {
		for (volatile int k = 0; k < 200000; k++)
			;
		CHECK_EQ(write(p[1], &c, 1), 1);
		CHECK_EQ(read(p[0], &c, 1), 1);
	}
	close(p[0]);
	close(p[1]);
	__atomic_fetch_add((int64_t *)sum, cpu_clock() - begin, __ATOMIC_RELAXED);
}

static int64_t process_clock(void)
{
	struct timespec t;

	CHECK_EQ(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

POSIX_TEST(thread_cpu_clocks_sum_up_to_that_of_the_process)
{
	int64_t begin = process_clock(), sum = 0;
	struct thread t[THREADS];

	for (int i = 0; i < THREADS; i++)
		thread_start(&t[i], compute_and_read, &sum);
	for (int i = 0; i < THREADS; i++)
		thread_end(&t[i]);
	CHECK(sum <= (process_clock() - begin) / 100 * 105);
}

POSIX_TEST(clock_gettime_bad_clock_is_einval)
{
	struct timespec t;

	errno = 0;
	CHECK_EQ(clock_gettime(1000, &t), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &t), 0);
	errno = ERANGE;
	CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	CHECK_EQ(errno, ERANGE);
}

POSIX_TEST(getrusage_bad_target_is_einval)
{
	struct rusage r;

	errno = 0;
	CHECK_EQ(getrusage(1000, &r), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(getrusage(RUSAGE_SELF, &r), 0);
	errno = ERANGE;
	CHECK_EQ(getrusage(RUSAGE_THREAD, &r), 0);
	CHECK_EQ(errno, ERANGE);
}

/* --- profilers --- */

static pthread_t worker;
static int ticks, of_worker;

static void on_tick(int signo)
{
	(void)signo;
	ticks++;
	of_worker += pthread_equal(pthread_self(), worker);
}

static void work_for_ticks(void *arg)
{
	struct timespec end = time_in(CLOCK_MONOTONIC, 10000);

	(void)arg;
	worker = pthread_self();
	while (__atomic_load_n(&ticks, __ATOMIC_RELAXED) < 20 &&
	       !time_is_past(CLOCK_MONOTONIC, &end))
		;
}

/* Ticks of the CPU time of the process: the thread that computes gets them. */
static void check_ticks(int which, int signo)
{
	struct itimerval every = { { 0, 2000 }, { 0, 2000 } }, none = { { 0, 0 }, { 0, 0 } };
	struct sigaction sa = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
	struct thread t;

	ticks = of_worker = 0;
	CHECK_EQ(sigaction(signo, &sa, NULL), 0);
	CHECK_EQ(setitimer(which, &every, NULL), 0);
	thread_start(&t, work_for_ticks, NULL);
	thread_end(&t);
	CHECK_EQ(setitimer(which, &none, NULL), 0);
	CHECK(ticks >= 20);
	CHECK(of_worker >= 10);
	CHECK(signal(signo, SIG_IGN) != SIG_ERR);
}

POSIX_TEST(itimer_prof_interrupts_the_thread_that_computes)
{
	check_ticks(ITIMER_PROF, SIGPROF);
}

POSIX_TEST(itimer_virtual_interrupts_the_thread_that_computes)
{
	check_ticks(ITIMER_VIRTUAL, SIGVTALRM);
}
