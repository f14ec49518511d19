/* SPDX-License-Identifier: MIT */
/* Tests the threads of C11. */
#include <errno.h>
#include <threads.h>
#include <time.h>

#include "posix.h"

static int give_back(void *arg)
{
	return *(int *)arg;
}

static thrd_t start(thrd_start_t fn, void *arg)
{
	thrd_t t;

	CHECK_EQ(thrd_create(&t, fn, arg), thrd_success);
	return t;
}

static int join(thrd_t t)
{
	int result = -1;

	CHECK_EQ(thrd_join(t, &result), thrd_success);
	return result;
}

POSIX_TEST(thrd_create_runs_function_and_join_returns_its_result)
{
	static int values[] = { 0, 7, -7, 2147483647 };

	for (int i = 0; i < 4; i++)
		CHECK_EQ(join(start(give_back, &values[i])), values[i]);
}

POSIX_TEST(thrd_join_without_place_works)
{
	static int seven = 7;

	CHECK_EQ(thrd_join(start(give_back, &seven), NULL), thrd_success);
}

static thrd_t made;

static int compare_self(void *arg)
{
	(void)arg;
	return thrd_equal(made, thrd_current());
}

POSIX_TEST(thrd_create_writes_id_before_thread_runs)
{
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(thrd_create(&made, compare_self, NULL), thrd_success);
		CHECK(join(made));
	}
}

static int exit_inside(void *arg)
{
	(void)arg;
	thrd_exit(9);
}

POSIX_TEST(thrd_exit_gives_the_result)
{
	CHECK_EQ(join(start(exit_inside, NULL)), 9);
}

static tss_t key;
static int destroyed;

static void destroy(void *value)
{
	CHECK(value == &key);
	destroyed++;
}

static int exit_with_value(void *arg)
{
	CHECK_EQ(tss_set(key, &key), thrd_success);
	CHECK(tss_get(key) == &key);
	thrd_exit(arg ? 1 : 0);
}

POSIX_TEST(thrd_exit_runs_destructors_before_join_returns)
{
	destroyed = 0;
	CHECK_EQ(tss_create(&key, destroy), thrd_success);
	CHECK_EQ(join(start(exit_with_value, NULL)), 0);
	CHECK_EQ(destroyed, 1);
	tss_delete(key);
}

static int join_self(void *arg)
{
	(void)arg;
	return thrd_join(thrd_current(), NULL);
}

POSIX_TEST(thrd_join_of_self_is_an_error)
{
	CHECK_EQ(join(start(join_self, NULL)), thrd_error);
}

static int detach_self(void *done)
{
	CHECK_EQ(thrd_detach(thrd_current()), thrd_success);
	CHECK_EQ(thrd_detach(thrd_current()), thrd_error);
	CHECK_EQ(gmp_sem_release(done, 1), 0);
	return 0;
}

POSIX_TEST(thrd_detach_twice_is_an_error)
{
	static gmp_sem done;

	done = (gmp_sem)GMP_SEM_INIT(0);
	start(detach_self, &done);
	CHECK_EQ(gmp_sem_acquire(&done), 0);
}

static int wait_for_permit(void *permit)
{
	CHECK_EQ(gmp_sem_acquire(permit), 0);
	return 0;
}

POSIX_TEST(thrd_detach_of_running_and_ended_thread_works)
{
	static gmp_sem permit;
	static int seven = 7;

	permit = (gmp_sem)GMP_SEM_INIT(0);
	thrd_t t = start(wait_for_permit, &permit);

	CHECK_EQ(thrd_detach(t), thrd_success);
	CHECK_EQ(thrd_join(t, NULL), thrd_error);
	CHECK_EQ(gmp_sem_release(&permit, 1), 0);
	t = start(give_back, &seven);
	thrd_yield();
	CHECK_EQ(thrd_detach(t), thrd_success);
}

POSIX_TEST(thrd_sleep_sleeps_the_time)
{
	struct timespec t = { 0, 20000000 };
	int64_t began = gmp_now();

	CHECK_EQ(thrd_sleep(&t, NULL), 0);
	CHECK(gmp_now() - began >= 20000000);
}

POSIX_TEST(thrd_sleep_of_bad_time_is_an_error_and_keeps_errno)
{
	struct timespec bad = { 0, 1000000000 };

	errno = 5;
	CHECK(thrd_sleep(&bad, NULL) < -1);
	CHECK_EQ(errno, 5);
}

static int sleep_a_little(void *arg)
{
	struct timespec t = { 0, 50000000 };

	CHECK_EQ(thrd_sleep(&t, NULL), 0);
	(void)arg;
	return 1;
}

POSIX_TEST(thrd_sleep_of_many_is_in_parallel)
{
	thrd_t t[100];
	int64_t began = gmp_now();

	for (int i = 0; i < 100; i++)
		t[i] = start(sleep_a_little, NULL);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(join(t[i]), 1);
	CHECK(gmp_now() - began < 2000000000);
}

static volatile int turn;

static int yield_until_set(void *arg)
{
	while (!turn)
		thrd_yield();
	return arg != NULL;
}

POSIX_TEST(thrd_yield_lets_others_run)
{
	turn = 0;
	thrd_t t = start(yield_until_set, NULL);

	thrd_yield();
	turn = 1;
	CHECK_EQ(join(t), 0);
}

POSIX_TEST(thrd_yield_keeps_errno)
{
	errno = 5;
	for (int i = 0; i < 10; i++)
		thrd_yield();
	CHECK_EQ(errno, 5);
}

static void two_yield(void *arg)
{
	turn = 0;
	thrd_t t = start(yield_until_set, arg);

	for (int i = 0; i < 3; i++)
		thrd_yield();
	turn = 1;
	CHECK_EQ(join(t), 0);
}

/* Both yield on one P, without preemption. */
TEST(thrd_yield_of_green_thread_switches)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 1;
	cfg.flags = GMP_OWN_TLS | GMP_COOPERATIVE;
	CHECK_EQ(gmp_run(two_yield, NULL, &cfg), 0);
}
