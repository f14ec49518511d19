/* SPDX-License-Identifier: MIT */
/* Tests semaphores. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "threads.h"

enum { SECOND = 1000 };

struct work {
	sem_t s, back;
	int arrived, got, rounds;
};

static void take(void *arg)
{
	struct work *w = arg;

	thread_count(&w->arrived);
	for (int i = 0; i < w->rounds; i++) {
		CHECK_EQ(sem_wait(&w->s), 0);
		thread_count(&w->got);
		CHECK_EQ(sem_post(&w->back), 0);
	}
}

static void take_timed(void *arg)
{
	struct work *w = arg;
	struct timespec t = time_in(CLOCK_REALTIME, 100 * SECOND);

	thread_count(&w->arrived);
	for (int i = 0; i < w->rounds; i++) {
		CHECK_EQ(sem_timedwait(&w->s, &t), 0);
		thread_count(&w->got);
		CHECK_EQ(sem_post(&w->back), 0);
	}
}

static void take_clock(void *arg)
{
	struct work *w = arg;
	struct timespec t = time_in(CLOCK_MONOTONIC, 100 * SECOND);

	thread_count(&w->arrived);
	for (int i = 0; i < w->rounds; i++) {
		CHECK_EQ(sem_clockwait(&w->s, CLOCK_MONOTONIC, &t), 0);
		thread_count(&w->got);
		CHECK_EQ(sem_post(&w->back), 0);
	}
}

static void (*const takes[])(void *) = { take, take_timed, take_clock };

static void ping_pong(int shared, bool outside)
{
	struct work w = { .rounds = 200 };
	struct thread t[6];

	CHECK_EQ(sem_init(&w.s, shared, 0), 0);
	CHECK_EQ(sem_init(&w.back, shared, 0), 0);
	for (int i = 0; i < 6; i++)
		(outside && i % 2 ? thread_outside : thread_start)(&t[i], takes[i % 3], &w);
	for (int i = 0; i < 6 * 200; i++) {
		CHECK_EQ(sem_post(&w.s), 0);
		if (i % 8 == 7)
			for (int k = 0; k < 8; k++)
				CHECK_EQ(sem_wait(&w.back), 0);
	}
	for (int i = 0; i < 6; i++)
		thread_end(&t[i]);
	CHECK_EQ(w.got, 6 * 200);
	CHECK_EQ(sem_trywait(&w.s), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(sem_destroy(&w.s), 0);
	CHECK_EQ(sem_destroy(&w.back), 0);
}

POSIX_TEST(sem_each_post_ends_one_wait)
{
	ping_pong(0, false);
}

POSIX_TEST(sem_each_post_ends_one_wait_of_green_and_os_threads)
{
	ping_pong(0, true);
}

POSIX_TEST(sem_process_shared_each_post_ends_one_wait)
{
	skip_under_chaos();
	ping_pong(1, false);
}

static void park_many(void)
{
	struct work w = { .rounds = 1 };
	struct thread t[99];

	CHECK_EQ(sem_init(&w.s, 0, 0), 0);
	CHECK_EQ(sem_init(&w.back, 0, 0), 0);
	for (int i = 0; i < 99; i++)
		thread_start(&t[i], takes[i % 3], &w);
	thread_await(&w.arrived, 99);
	CHECK_EQ(w.got, 0);
	for (int i = 0; i < 99; i++)
		CHECK_EQ(sem_post(&w.s), 0);
	for (int i = 0; i < 99; i++)
		thread_end(&t[i]);
	CHECK_EQ(w.got, 99);
}

/* If a waiter blocked the only P, the posts would never come. */
TEST(sem_wait_parks_the_green_thread)
{
	thread_run(1, park_many);
}

POSIX_TEST(sem_wait_with_value_returns_at_once)
{
	struct timespec t = time_in(CLOCK_REALTIME, 100 * SECOND);
	sem_t s;
	int value;

	CHECK_EQ(sem_init(&s, 0, 3), 0);
	errno = 77;
	CHECK_EQ(sem_wait(&s), 0);
	CHECK_EQ(sem_timedwait(&s, &t), 0);
	CHECK_EQ(sem_clockwait(&s, CLOCK_REALTIME, &t), 0);
	CHECK_EQ(sem_getvalue(&s, &value), 0);
	CHECK_EQ(value, 0);
	CHECK_EQ(sem_post(&s), 0);
	CHECK_EQ(sem_getvalue(&s, &value), 0);
	CHECK_EQ(value, 1);
	CHECK_EQ(errno, 77);
}

POSIX_TEST(sem_wait_times_out)
{
	static const struct timespec past = { -1, 0 };
	struct timespec t = time_in(CLOCK_REALTIME, 20);
	sem_t s;

	CHECK_EQ(sem_init(&s, 0, 0), 0);
	errno = 0;
	CHECK_EQ(sem_timedwait(&s, &t), -1);
	CHECK_EQ(errno, ETIMEDOUT);
	CHECK(time_is_past(CLOCK_REALTIME, &t));
	t = time_in(CLOCK_MONOTONIC, 20);
	errno = 0;
	CHECK_EQ(sem_clockwait(&s, CLOCK_MONOTONIC, &t), -1);
	CHECK_EQ(errno, ETIMEDOUT);
	CHECK(time_is_past(CLOCK_MONOTONIC, &t));
	errno = 0;
	CHECK_EQ(sem_timedwait(&s, &past), -1);
	CHECK_EQ(errno, ETIMEDOUT);
	errno = 0;
	CHECK_EQ(sem_clockwait(&s, CLOCK_MONOTONIC, &past), -1);
	CHECK_EQ(errno, ETIMEDOUT);
}

POSIX_TEST(sem_bad_time_or_clock_is_einval)
{
	static const struct timespec bad[] = { { 1, -1 }, { 1, 1000000000 } };
	struct timespec t = time_in(CLOCK_REALTIME, 20);
	sem_t s;

	CHECK_EQ(sem_init(&s, 0, 0), 0);
	for (int i = 0; i < 2; i++) {
		errno = 0;
		CHECK_EQ(sem_timedwait(&s, &bad[i]), -1);
		CHECK_EQ(errno, EINVAL);
		errno = 0;
		CHECK_EQ(sem_clockwait(&s, CLOCK_MONOTONIC, &bad[i]), -1);
		CHECK_EQ(errno, EINVAL);
	}
	errno = 0;
	CHECK_EQ(sem_clockwait(&s, CLOCK_PROCESS_CPUTIME_ID, &t), -1);
	CHECK_EQ(errno, EINVAL);
}

POSIX_TEST(sem_post_beyond_the_maximum_is_eoverflow)
{
	sem_t s;

	CHECK_EQ(sem_init(&s, 0, SEM_VALUE_MAX), 0);
	errno = 0;
	CHECK_EQ(sem_post(&s), -1);
	CHECK_EQ(errno, EOVERFLOW);
}

/* A waiter may free the semaphore once its wait has returned. */
struct freed {
	sem_t *s;
	int arrived;
};

static void wait_and_free(void *arg)
{
	struct freed *f = arg;

	CHECK_EQ(sem_wait(f->s), 0);
	CHECK_EQ(sem_destroy(f->s), 0);
	memset(f->s, 0xff, sizeof(*f->s));
	free(f->s);
}

POSIX_TEST(sem_may_be_freed_after_the_wait)
{
	for (int i = 0; i < 200; i++) {
		struct freed f = { .s = malloc(sizeof(sem_t)) };
		struct thread t;

		CHECK_EQ(sem_init(f.s, 0, 0), 0);
		thread_start(&t, wait_and_free, &f);
		if (i % 2)
			thread_pass();
		CHECK_EQ(sem_post(f.s), 0);
		thread_end(&t);
	}
}

POSIX_TEST(sem_of_another_process_ends_the_wait)
{
	skip_under_chaos();
	sem_t *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	CHECK(s != MAP_FAILED);
	CHECK_EQ(sem_init(s, 1, 0), 0);
	pid_t child = fork();

	if (child == 0) {
		sem_post(s);
		_exit(0);
	}
	CHECK(child > 0);
	CHECK_EQ(sem_wait(s), 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(munmap(s, sizeof(*s)), 0);
}

POSIX_TEST(sem_named_ends_the_wait)
{
	skip_under_chaos();
	char name[64];
	struct timespec t = time_in(CLOCK_REALTIME, 20);

	snprintf(name, sizeof(name), "/gmp-test-%d-%d", (int)getpid(), on_green());
	sem_t *s = sem_open(name, O_CREAT | O_EXCL, 0600, 1);

	CHECK(s != SEM_FAILED);
	CHECK_EQ(sem_unlink(name), 0);
	CHECK_EQ(sem_wait(s), 0);
	errno = 0;
	CHECK_EQ(sem_timedwait(s, &t), -1);
	CHECK_EQ(errno, ETIMEDOUT);
	CHECK_EQ(sem_post(s), 0);
	CHECK_EQ(sem_wait(s), 0);
	CHECK_EQ(sem_close(s), 0);
}

/* --- signal handlers --- */

static sem_t posted;

static void post_in_handler(int signo)
{
	(void)signo;
	sem_post(&posted);
}

static void await_handler(void *arg)
{
	while (sem_wait(&posted) != 0)
		CHECK_EQ(errno, EINTR);
	thread_count(arg);
}

POSIX_TEST(sem_post_in_a_handler_ends_waits)
{
	CHECK_EQ(sem_init(&posted, 0, 0), 0);
	check_handler_wakes(post_in_handler, await_handler);
}

/* --- cancellation --- */

static void wait_cancelled(void *arg)
{
	struct work *w = arg;

	thread_count(&w->arrived);
	errno = 0;
	CHECK_EQ(sem_wait(&w->s), -1);
	CHECK_EQ(errno, ECANCELED);
}

static void cancel_green(void)
{
	struct work w = { .rounds = 1 };
	int value;
	gmp_g *g;

	CHECK_EQ(sem_init(&w.s, 0, 0), 0);
	CHECK_EQ(gmp_spawn(&g, wait_cancelled, &w, NULL), 0);
	thread_await(&w.arrived, 1);
	CHECK_EQ(gmp_cancel(g), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(sem_post(&w.s), 0);
	CHECK_EQ(sem_getvalue(&w.s, &value), 0);
	CHECK_EQ(value, 1);
}

TEST_PROCS(sem_wait_of_cancelled_green_thread_is_ecanceled)
{
	thread_run(procs, cancel_green);
}

/* --- starvation --- */

static void take_late(void *arg)
{
	struct work *w = arg;

	thread_count(&w->arrived);
	CHECK_EQ(sem_wait(&w->s), 0);
	thread_count(&w->got);
	CHECK_EQ(sem_post(&w->s), 0);
}

/* The thread that takes it again at once waits only while it has it. */
POSIX_TEST(sem_waiter_gets_it_from_a_thread_that_takes_it_again)
{
	struct timespec us100 = { 0, 100000 };
	struct work w = { .rounds = 0 };
	struct thread t;

	CHECK_EQ(sem_init(&w.s, 0, 0), 0);
	thread_start(&t, take_late, &w);
	thread_await(&w.arrived, 1);
	while (!__atomic_load_n(&w.got, __ATOMIC_ACQUIRE)) {
		CHECK(w.rounds++ < 20000);
		nanosleep(&us100, NULL);
		CHECK_EQ(sem_post(&w.s), 0);
		CHECK_EQ(sem_wait(&w.s), 0);
	}
	CHECK_EQ(sem_post(&w.s), 0);
	thread_end(&t);
}
