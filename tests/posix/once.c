/* SPDX-License-Identifier: MIT */
/* Tests pthread_once. */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "threads.h"

static struct {
	pthread_once_t once;
	int calls, inside, go, arrived, returned, attempts;
} o;

static void reset(void)
{
	memset(&o, 0, sizeof(o));
	o.once = (pthread_once_t)PTHREAD_ONCE_INIT;
}

static void init_slowly(void)
{
	thread_count(&o.inside);
	thread_await(&o.go, 1);
	o.calls++;
}

static void call(void *arg)
{
	(void)arg;
	thread_count(&o.arrived);
	errno = 77;
	CHECK_EQ(pthread_once(&o.once, init_slowly), 0);
	CHECK_EQ(errno, 77);
	CHECK_EQ(o.calls, 1);
	thread_count(&o.returned);
}

static void run_callers(int n, bool outside)
{
	struct thread t[100];

	reset();
	for (int i = 0; i < n; i++)
		(outside && i % 2 ? thread_outside : thread_start)(&t[i], call, NULL);
	thread_await(&o.arrived, n);
	thread_await(&o.inside, 1);
	for (int i = 0; i < 10; i++)
		thread_pass();
	CHECK_EQ(o.returned, 0);
	thread_count(&o.go);
	for (int i = 0; i < n; i++)
		thread_end(&t[i]);
	CHECK_EQ(o.inside, 1);
	call(NULL);
}

POSIX_TEST(once_runs_the_function_once_and_all_wait_for_it)
{
	run_callers(8, false);
}

POSIX_TEST(once_of_green_and_os_threads_runs_once)
{
	run_callers(8, true);
}

static void many(void)
{
	run_callers(100, false);
}

/* If a waiter blocked the only P, the function would never end. */
TEST(once_waiters_park)
{
	thread_run(1, many);
}

static void init_second(void)
{
	if (o.attempts++ == 0)
		pthread_exit(NULL);
	o.calls++;
}

static void call_second(void *arg)
{
	(void)arg;
	CHECK_EQ(pthread_once(&o.once, init_second), 0);
}

/* The first call ends in the function: another caller runs it. */
POSIX_TEST(once_function_that_does_not_return_runs_again)
{
	struct thread first, t[3];

	reset();
	thread_outside(&first, call_second, NULL);
	thread_end(&first);
	CHECK_EQ(o.attempts, 1);
	CHECK_EQ(o.calls, 0);
	for (int i = 0; i < 3; i++)
		thread_start(&t[i], call_second, NULL);
	for (int i = 0; i < 3; i++)
		thread_end(&t[i]);
	CHECK_EQ(o.calls, 1);
}

static pthread_once_t outer = PTHREAD_ONCE_INIT, inner = PTHREAD_ONCE_INIT;
static int nested;

static void init_inner(void)
{
	nested++;
}

static void init_outer(void)
{
	CHECK_EQ(pthread_once(&inner, init_inner), 0);
	nested++;
}

POSIX_TEST(once_functions_nest)
{
	CHECK_EQ(pthread_once(&outer, init_outer), 0);
	CHECK_EQ(nested, 2);
	CHECK_EQ(pthread_once(&inner, init_inner), 0);
	CHECK_EQ(nested, 2);
}

static void init_child(void)
{
	o.calls++;
}

/* The function runs in the parent at the time of the fork; the child runs it again. */
TEST(once_begun_in_the_parent_begins_again_in_the_child)
{
	struct thread t;
	int status;

	reset();
	thread_outside(&t, call, NULL);
	thread_await(&o.inside, 1);
	pid_t child = fork();

	if (child == 0) {
		pthread_once(&o.once, init_child);
		_exit(o.calls);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(WEXITSTATUS(status), 1);
	thread_count(&o.go);
	thread_end(&t);
}
