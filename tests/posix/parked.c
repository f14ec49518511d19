/* SPDX-License-Identifier: MIT */
/*
 * Tests the invariants of waiters that park for an object of libc (posix/sync/parked.h,
 * pthread_rwlock.c), and
 * of joiners: on one P without preemption, where a woken waiter runs only when the waker waits or
 * yields.
 */
#define _GNU_SOURCE
#include <semaphore.h>
#include <signal.h>

#include "threads.h"

#define ONE_P(name)                                                                                \
	static void name##_app_(void *arg);                                                        \
	TEST(name)                                                                                 \
	{                                                                                          \
		skip_under_chaos(); /* it yields anywhere */                                       \
		run_own(1, GMP_COOPERATIVE, name##_app_, NULL);                                    \
	}                                                                                          \
	static void name##_app_(__attribute__((unused)) void *arg)

static sem_t sem;
static pthread_mutex_t mutex;
static pthread_cond_t cond;
static pthread_rwlock_t rwlock;
static struct timespec soon;
static int arrived, order[4], ended;

/* The thread has parked, or ended, when this returns. */
static void start_parked(struct thread *t, void (*fn)(void *), void *arg)
{
	int before = arrived;

	thread_start(t, fn, arg);
	thread_await(&arrived, before + 1);
}

static void until_soon(void)
{
	while (!time_is_past(CLOCK_MONOTONIC, &soon))
		;
}

static void await_sem(void *result)
{
	thread_count(&arrived);
	CHECK_EQ(sem_wait(&sem), 0);
	*(int *)result = 1;
}

static void await_sem_soon(void *result)
{
	thread_count(&arrived);
	*(int *)result = sem_clockwait(&sem, CLOCK_MONOTONIC, &soon) ? errno : 1;
}

/* Two waiters of the semaphore, and their results. */
struct waiters {
	struct thread a, b;
	int first, second;
};

/* The first one waits by fn; ms: until `soon`. */
static void start_waiters(struct waiters *w, void (*fn)(void *), long ms)
{
	w->first = w->second = 0;
	CHECK_EQ(sem_init(&sem, 0, 0), 0);
	soon = time_in(CLOCK_MONOTONIC, ms);
	start_parked(&w->a, fn, &w->first);
	start_parked(&w->b, await_sem, &w->second);
}

/* PARKED-3: the post is taken by the first waiter, or goes to the second one. */
ONE_P(parked_timeout_keeps_no_wakeup)
{
	struct waiters w;

	start_waiters(&w, await_sem_soon, 50);
	CHECK_EQ(sem_post(&sem), 0);
	until_soon();
	thread_end(&w.a);
	if (w.first == 1)
		CHECK_EQ(sem_post(&sem), 0);
	thread_end(&w.b);
	CHECK(w.first == 1 || w.first == ETIMEDOUT);
	CHECK_EQ(w.second, 1);
}

/* PARKED-2: a waiter that is gone does not hide a queued waiter. */
ONE_P(parked_count_stays_after_a_timeout)
{
	struct waiters w;

	start_waiters(&w, await_sem_soon, 5);
	thread_end(&w.a);
	CHECK_EQ(w.first, ETIMEDOUT);
	CHECK_EQ(sem_post(&sem), 0);
	thread_end(&w.b);
	CHECK_EQ(w.second, 1);
}

/* The first waiter is counted out after its wait and after its second try.  If each counted one too
 * many, the two other waiters would be counted as none. */
ONE_P(parked_count_stays_after_a_wakeup)
{
	struct thread t[3];
	int got[3] = { 0 };

	CHECK_EQ(sem_init(&sem, 0, 0), 0);
	for (int i = 0; i < 3; i++)
		start_parked(&t[i], await_sem, &got[i]);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(sem_post(&sem), 0);
		thread_end(&t[i]);
		CHECK_EQ(got[i], 1);
	}
}

static void lock_in_order(void *id)
{
	thread_count(&arrived);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	order[ended++] = *(int *)id;
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

/* A woken waiter that loses the mutex to a running thread parks in front of the others.  Three
 * rounds would hide a rotation of the queue. */
ONE_P(parked_waiter_that_loses_keeps_its_place)
{
	struct thread t[3];
	int id[3] = { 0, 1, 2 };

	ended = 0;
	CHECK_EQ(pthread_mutex_init(&mutex, NULL), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	for (int i = 0; i < 3; i++)
		start_parked(&t[i], lock_in_order, &id[i]);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
		CHECK_EQ(pthread_mutex_lock(&mutex), 0); /* the woken waiter has not run */
		until_waiting(3);
	}
	CHECK_EQ(ended, 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	for (int i = 0; i < 3; i++)
		thread_end(&t[i]);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(order[i], i);
}

static void post_twice(int signo)
{
	(void)signo;
	sem_post(&sem);
	sem_post(&sem);
}

/* LATER-2: a slot holds no count. */
ONE_P(parked_waiters_of_all_posts_of_a_handler_wake)
{
	struct sigaction sa = { .sa_handler = post_twice, .sa_flags = SA_RESTART };
	struct thread t[2];
	int got[2] = { 0, 0 };

	CHECK_EQ(sem_init(&sem, 0, 0), 0);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	for (int i = 0; i < 2; i++)
		start_parked(&t[i], await_sem, &got[i]);
	CHECK_EQ(raise(SIGUSR1), 0);
	for (int i = 0; i < 2; i++)
		thread_end(&t[i]);
	CHECK_EQ(got[0] + got[1], 2);
}

static void write_once(void *done)
{
	thread_count(&arrived);
	CHECK_EQ(pthread_rwlock_wrlock(&rwlock), 0);
	*(int *)done = 1;
	CHECK_EQ(pthread_rwlock_unlock(&rwlock), 0);
}

/* PRW-3: a writer is woken and has not run yet. */
ONE_P(rwlock_woken_writer_keeps_readers_out)
{
	struct thread t;
	int done = 0;

	rwlock = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
	CHECK_EQ(pthread_rwlock_rdlock(&rwlock), 0);
	start_parked(&t, write_once, &done);
	CHECK_EQ(pthread_rwlock_unlock(&rwlock), 0);
	CHECK_EQ(pthread_rwlock_tryrdlock(&rwlock), EBUSY);
	CHECK_EQ(done, 0);
	thread_end(&t);
	CHECK_EQ(done, 1);
	CHECK_EQ(pthread_rwlock_tryrdlock(&rwlock), 0);
	CHECK_EQ(pthread_rwlock_unlock(&rwlock), 0);
}

static void await_cond(void *done)
{
	thread_count(&arrived);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_cond_wait(&cond, &mutex), 0);
	*(int *)done = 1;
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

/* PCOND-1, step 4: the unlock of a wait wakes a green thread that is parked for the mutex. */
ONE_P(parked_waiter_for_the_mutex_wakes_at_a_cond_wait)
{
	struct thread a, b;
	int id = 7, done = 0;

	ended = 0;
	CHECK_EQ(pthread_mutex_init(&mutex, NULL), 0);
	CHECK_EQ(pthread_cond_init(&cond, NULL), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	start_parked(&a, await_cond, &done); /* parks for the mutex, then for the condition */
	start_parked(&b, lock_in_order, &id);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	thread_end(&b);
	CHECK_EQ(order[0], 7);
	CHECK_EQ(done, 0);
	CHECK_EQ(pthread_cond_signal(&cond), 0);
	thread_end(&a);
	CHECK_EQ(done, 1);
}

static sem_t permit;
static pthread_t thread;

static void *await_permit(void *arg)
{
	CHECK_EQ(sem_wait(&permit), 0);
	return arg;
}

static void *end_at_once(void *arg)
{
	return arg;
}

static void join_it(void *result)
{
	thread_count(&arrived);
	void *value = NULL;

	*(int *)result = pthread_join(thread, &value);
	CHECK(value == &permit);
}

ONE_P(join_by_a_second_thread_is_einval)
{
	struct timespec past = { 1, 0 };
	struct thread t;
	int result = -1;

	CHECK_EQ(sem_init(&permit, 0, 0), 0);
	CHECK_EQ(pthread_create(&thread, NULL, await_permit, &permit), 0);
	start_parked(&t, join_it, &result);
	CHECK_EQ(pthread_timedjoin_np(thread, NULL, &past), EINVAL);
	CHECK_EQ(pthread_join(thread, NULL), EINVAL);
	CHECK_EQ(pthread_tryjoin_np(thread, NULL), EBUSY);
	CHECK_EQ(pthread_detach(thread), 0); /* the joiner still gets the value */
	CHECK_EQ(sem_post(&permit), 0);
	until_waiting(0);
	pthread_t other;

	CHECK_EQ(pthread_create(&other, NULL, end_at_once, NULL), 0);
	CHECK_EQ(pthread_join(other, NULL), 0);
	thread_end(&t);
	CHECK_EQ(result, 0);
}

enum { KILLED = 16 };

static void leave_threads(void *arg)
{
	pthread_t t;

	(void)arg;
	CHECK_EQ(sem_init(&permit, 0, 0), 0);
	for (int i = 0; i < KILLED; i++)
		CHECK_EQ(pthread_create(&t, NULL, await_permit, NULL), 0);
	until_waiting(KILLED);
}

static void join_others(void *arg)
{
	int values[KILLED];
	pthread_t t[KILLED];
	void *value;

	(void)arg;
	for (int i = 0; i < KILLED; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, end_at_once, &values[i]), 0);
	for (int i = 0; i < KILLED; i++) {
		CHECK_EQ(pthread_join(t[i], &value), 0);
		CHECK(value == &values[i]);
	}
}

/* PTHREAD-2: the threads of the next run have the blocks, and so the ids, of killed threads. */
TEST(thread_killed_at_shutdown_is_not_found_in_the_next_run)
{
	skip_under_chaos();
	run_own(1, GMP_COOPERATIVE, leave_threads, NULL);
	run_own(1, GMP_COOPERATIVE, join_others, NULL);
}
