/* SPDX-License-Identifier: MIT */
/* Tests condition variables. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "threads.h"

enum { SECOND = 1000 };

struct state {
	pthread_mutex_t m;
	pthread_cond_t c;
	int waiting, permits, woken;
};

#define STATE_INIT                                                                                 \
	{                                                                                          \
		.m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER                      \
	}

static pthread_mutex_t errorcheck(void)
{
	pthread_mutexattr_t a;
	pthread_mutex_t m;

	CHECK_EQ(pthread_mutexattr_init(&a), 0);
	CHECK_EQ(pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK), 0);
	CHECK_EQ(pthread_mutex_init(&m, &a), 0);
	return m;
}

static pthread_cond_t cond_with(clockid_t clock, int shared)
{
	pthread_condattr_t a;
	pthread_cond_t c;

	CHECK_EQ(pthread_condattr_init(&a), 0);
	CHECK_EQ(pthread_condattr_setclock(&a, clock), 0);
	CHECK_EQ(pthread_condattr_setpshared(&a, shared), 0);
	CHECK_EQ(pthread_cond_init(&c, &a), 0);
	CHECK_EQ(pthread_condattr_destroy(&a), 0);
	return c;
}

/* --- waits that take a permit --- */

static void take(void *arg)
{
	struct state *s = arg;

	CHECK_EQ(pthread_mutex_lock(&s->m), 0);
	s->waiting++;
	while (s->permits == 0)
		CHECK_EQ(pthread_cond_wait(&s->c, &s->m), 0);
	s->permits--;
	s->woken++;
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

static void take_timed(void *arg)
{
	struct state *s = arg;
	struct timespec t = time_in(CLOCK_REALTIME, 100 * SECOND);

	CHECK_EQ(pthread_mutex_lock(&s->m), 0);
	s->waiting++;
	while (s->permits == 0)
		CHECK_EQ(pthread_cond_timedwait(&s->c, &s->m, &t), 0);
	s->permits--;
	s->woken++;
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

static void take_clock(void *arg)
{
	struct state *s = arg;
	struct timespec t = time_in(CLOCK_MONOTONIC, 100 * SECOND);

	CHECK_EQ(pthread_mutex_lock(&s->m), 0);
	s->waiting++;
	while (s->permits == 0)
		CHECK_EQ(pthread_cond_clockwait(&s->c, &s->m, CLOCK_MONOTONIC, &t), 0);
	s->permits--;
	s->woken++;
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

static void (*const takes[])(void *) = { take, take_timed, take_clock };

/* Lock s->m when n threads wait. */
static void lock_when_waiting(struct state *s, int n)
{
	for (;;) {
		CHECK_EQ(pthread_mutex_lock(&s->m), 0);
		if (s->waiting == n)
			return;
		CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
		thread_pass();
	}
}

static void wake_all(struct state *s, int n)
{
	lock_when_waiting(s, n);
	s->permits = n;
	CHECK_EQ(pthread_cond_broadcast(&s->c), 0);
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

static void wake_each(struct state *s, int n)
{
	lock_when_waiting(s, n);
	for (int i = 0; i < n; i++) {
		s->permits++;
		CHECK_EQ(pthread_cond_signal(&s->c), 0);
	}
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

static void run_takers(void (*wake)(struct state *, int), bool outside)
{
	struct state s = STATE_INIT;
	struct thread t[12];

	for (int i = 0; i < 12; i++)
		(outside && i % 2 ? thread_outside : thread_start)(&t[i], takes[i % 3], &s);
	wake(&s, 12);
	for (int i = 0; i < 12; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.woken, 12);
	CHECK_EQ(pthread_cond_destroy(&s.c), 0);
}

POSIX_TEST(cond_broadcast_wakes_all)
{
	run_takers(wake_all, false);
}

POSIX_TEST(cond_signal_wakes_one_each)
{
	run_takers(wake_each, false);
}

POSIX_TEST(cond_broadcast_wakes_green_and_os_threads)
{
	run_takers(wake_all, true);
}

static int stopped;

/* libc does not sleep before such a time. */
static void wait_for_the_past(void *arg)
{
	struct state *s = arg;
	const struct timespec past = { -1, 0 };

	CHECK_EQ(pthread_mutex_lock(&s->m), 0);
	CHECK_EQ(pthread_cond_timedwait(&s->c, &s->m, &past), ETIMEDOUT);
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

static void wait_until_stopped(void *arg)
{
	thread_count(&((struct state *)arg)->waiting);
	while (!__atomic_load_n(&stopped, __ATOMIC_ACQUIRE))
		wait_for_the_past(arg);
}

/* Enough for one of them to share a bucket with any other object. */
enum { CONDS = 4096, FORKS = 50 };

static void wait_for_each_in_a_child(void)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(10);
		for (int i = 0; i < CONDS; i++) {
			static struct state s[CONDS];

			wait_for_the_past(&s[i]);
		}
		_exit(0);
	}
	while (waitpid(pid, &status, 0) != pid)
		CHECK_EQ(errno, EINTR);
	CHECK_EQ(status, 0);
}

/* Threads of the parent hold locks for condition variables when the child is made. */
TEST(cond_wait_in_a_child_of_a_fork_works)
{
	static struct state s[3];
	struct thread t[3];

	for (int i = 0; i < 3; i++)
		thread_outside(&t[i], wait_until_stopped, &s[i]);
	for (int i = 0; i < 3; i++)
		thread_await(&s[i].waiting, 1);
	for (int i = 0; i < FORKS; i++)
		wait_for_each_in_a_child();
	__atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 3; i++)
		thread_end(&t[i]);
}

struct hand_over {
	pthread_mutex_t m;
	pthread_cond_t c;
	long rounds; /* under m once the threads run */
	int64_t end; /* gmp_now; on a loaded machine a round takes many time slices */
	int round;
	bool flag;
};

/* The mutex is locked while the other thread begins to lock it. */
static void await_flags(void *arg)
{
	struct hand_over *h = arg;

	for (int i = 0; i < h->rounds; i++) {
		CHECK_EQ(pthread_mutex_lock(&h->m), 0);
		if (gmp_now() > h->end)
			h->rounds = i + 1;
		thread_count(&h->round);
		for (int k = 0; k < 3; k++) {
			thread_pass();
			syscall(SYS_sched_yield);
		}
		while (!h->flag)
			CHECK_EQ(pthread_cond_wait(&h->c, &h->m), 0);
		h->flag = false;
		CHECK_EQ(pthread_mutex_unlock(&h->m), 0);
	}
}

static void set_flags(void *arg)
{
	struct hand_over *h = arg;

	for (int i = 0; i < h->rounds; i++) {
		thread_await(&h->round, i + 1);
		CHECK_EQ(pthread_mutex_lock(&h->m), 0);
		h->flag = true;
		CHECK_EQ(pthread_cond_signal(&h->c), 0);
		CHECK_EQ(pthread_mutex_unlock(&h->m), 0);
	}
}

static void hand_over_between_kinds(void)
{
	for (int kinds = 0; kinds < 4; kinds++) {
		struct hand_over h = { .m = PTHREAD_MUTEX_INITIALIZER,
				       .c = PTHREAD_COND_INITIALIZER,
				       .rounds = check_scaled(500),
				       .end = gmp_deadline(2 * GMP_S) };
		struct thread waiter, signaller;

		(kinds & 1 ? thread_outside : thread_start)(&waiter, await_flags, &h);
		(kinds & 2 ? thread_outside : thread_start)(&signaller, set_flags, &h);
		thread_end(&waiter);
		thread_end(&signaller);
	}
}

/* The unlock by the wait lets the other thread signal at once. */
POSIX_TEST(cond_signal_by_the_thread_that_locks_next_ends_the_wait)
{
	hand_over_between_kinds();
}

/* The kernel may run a woken thread in place of the waiter, before that is in the queue. */
TEST(cond_signal_by_a_thread_of_the_same_cpu_ends_the_wait)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	hand_over_between_kinds();
	posix_run(hand_over_between_kinds, 2);
}

POSIX_TEST(cond_signal_wakes_green_and_os_threads)
{
	run_takers(wake_each, true);
}

static void park_many(void)
{
	struct state s = STATE_INIT;
	struct thread t[99];

	for (int i = 0; i < 99; i++)
		thread_start(&t[i], takes[i % 3], &s);
	wake_all(&s, 99);
	for (int i = 0; i < 99; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.woken, 99);
}

/* If a waiter blocked the only P, the broadcast would never come. */
TEST(cond_wait_parks_the_green_thread)
{
	thread_run(1, park_many);
}

/* Only a signal ends a wait without a deadline, and each ends one. */
static void count_wakeup(void *arg)
{
	struct state *s = arg;

	CHECK_EQ(pthread_mutex_lock(&s->m), 0);
	s->waiting++;
	CHECK_EQ(pthread_cond_wait(&s->c, &s->m), 0);
	s->woken++;
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

static void signal_one(void)
{
	struct state s = STATE_INIT;
	struct thread t[5];

	for (int i = 0; i < 5; i++)
		thread_start(&t[i], count_wakeup, &s);
	lock_when_waiting(&s, 5);
	for (int i = 1; i <= 5; i++) {
		CHECK_EQ(pthread_cond_signal(&s.c), 0);
		CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
		while (s.woken < i)
			gmp_yield();
		for (int k = 0; k < 20; k++)
			gmp_yield();
		CHECK_EQ(s.woken, i);
		CHECK_EQ(pthread_mutex_lock(&s.m), 0);
	}
	CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
	for (int i = 0; i < 5; i++)
		thread_end(&t[i]);
}

TEST(cond_signal_wakes_only_one_green_thread)
{
	thread_run(1, signal_one);
}

POSIX_TEST(cond_wait_unlocks_a_mutex_with_priority_inheritance)
{
	struct state s = STATE_INIT;
	pthread_mutexattr_t a;
	struct thread t[4];

	CHECK_EQ(pthread_mutexattr_init(&a), 0);
	CHECK_EQ(pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(pthread_mutex_init(&s.m, &a), 0);
	for (int i = 0; i < 4; i++)
		(i % 2 ? thread_start : thread_outside)(&t[i], take, &s);
	CHECK_EQ(pthread_mutex_lock(&s.m), 0);
	while (s.waiting < 4) {
		CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
		thread_pass();
		CHECK_EQ(pthread_mutex_lock(&s.m), 0);
	}
	s.permits = 4;
	CHECK_EQ(pthread_cond_broadcast(&s.c), 0);
	CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
	for (int i = 0; i < 4; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.woken, 4);
}

POSIX_TEST(cond_signal_without_waiter_is_not_kept)
{
	struct state s = STATE_INIT;
	struct timespec t = time_in(CLOCK_REALTIME, 20);

	CHECK_EQ(pthread_cond_signal(&s.c), 0);
	CHECK_EQ(pthread_cond_broadcast(&s.c), 0);
	CHECK_EQ(pthread_mutex_lock(&s.m), 0);
	CHECK_EQ(pthread_cond_timedwait(&s.c, &s.m, &t), ETIMEDOUT);
	CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
}

/* --- timeouts --- */

POSIX_TEST(cond_timedwait_times_out_with_the_mutex)
{
	pthread_mutex_t m = errorcheck();
	pthread_cond_t c = cond_with(CLOCK_REALTIME, 0), mono = cond_with(CLOCK_MONOTONIC, 0);
	struct timespec t = time_in(CLOCK_REALTIME, 20);

	CHECK_EQ(pthread_mutex_lock(&m), 0);
	errno = 77;
	CHECK_EQ(pthread_cond_timedwait(&c, &m, &t), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_REALTIME, &t));
	CHECK_EQ(pthread_mutex_lock(&m), EDEADLK);
	t = time_in(CLOCK_MONOTONIC, 20);
	CHECK_EQ(pthread_cond_timedwait(&mono, &m, &t), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_MONOTONIC, &t));
	CHECK_EQ(pthread_mutex_lock(&m), EDEADLK);
	t = time_in(CLOCK_MONOTONIC, 20);
	CHECK_EQ(pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &t), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_MONOTONIC, &t));
	CHECK_EQ(errno, 77);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
}

POSIX_TEST(cond_past_time_is_etimedout)
{
	static const struct timespec past[] = { { 0, 0 }, { -1, 0 }, { 1, 999999999 } };
	struct state s = STATE_INIT;

	CHECK_EQ(pthread_mutex_lock(&s.m), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(pthread_cond_timedwait(&s.c, &s.m, &past[i]), ETIMEDOUT);
		CHECK_EQ(pthread_cond_clockwait(&s.c, &s.m, CLOCK_MONOTONIC, &past[i]), ETIMEDOUT);
	}
	CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
}

POSIX_TEST(cond_bad_time_or_clock_is_einval)
{
	static const struct timespec bad[] = { { 1, -1 }, { 1, 1000000000 } };
	struct timespec t = time_in(CLOCK_REALTIME, 20);
	pthread_mutex_t m = errorcheck();
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;

	CHECK_EQ(pthread_mutex_lock(&m), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_cond_timedwait(&c, &m, &bad[i]), EINVAL);
		CHECK_EQ(pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, &bad[i]), EINVAL);
	}
	CHECK_EQ(pthread_cond_clockwait(&c, &m, CLOCK_PROCESS_CPUTIME_ID, &t), EINVAL);
	CHECK_EQ(pthread_mutex_lock(&m), EDEADLK);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
}

POSIX_TEST(cond_wait_without_the_mutex_is_eperm)
{
	pthread_mutex_t m = errorcheck();
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	struct timespec t = time_in(CLOCK_REALTIME, 100 * SECOND);

	CHECK_EQ(pthread_cond_wait(&c, &m), EPERM);
	CHECK_EQ(pthread_cond_timedwait(&c, &m, &t), EPERM);
	CHECK_EQ(pthread_cond_clockwait(&c, &m, CLOCK_REALTIME, &t), EPERM);
	CHECK_EQ(pthread_cond_signal(&c), 0);
	CHECK_EQ(pthread_cond_destroy(&c), 0);
}

/* --- producers and consumers --- */

enum { ROOM = 4, ITEMS = 400 };

struct queue {
	pthread_mutex_t m;
	pthread_cond_t filled, emptied;
	int n, put, got;
};

static void produce(void *arg)
{
	struct queue *q = arg;

	for (int i = 0; i < ITEMS; i++) {
		CHECK_EQ(pthread_mutex_lock(&q->m), 0);
		while (q->n == ROOM)
			CHECK_EQ(pthread_cond_wait(&q->emptied, &q->m), 0);
		q->n++;
		q->put++;
		CHECK_EQ(pthread_cond_signal(&q->filled), 0);
		CHECK_EQ(pthread_mutex_unlock(&q->m), 0);
	}
}

static void consume(void *arg)
{
	struct queue *q = arg;

	for (int i = 0; i < ITEMS; i++) {
		CHECK_EQ(pthread_mutex_lock(&q->m), 0);
		while (q->n == 0)
			CHECK_EQ(pthread_cond_wait(&q->filled, &q->m), 0);
		q->n--;
		q->got++;
		CHECK_EQ(pthread_mutex_unlock(&q->m), 0);
		CHECK_EQ(pthread_cond_signal(&q->emptied), 0);
	}
}

static void run_queue(bool outside)
{
	struct queue q = { .m = PTHREAD_MUTEX_INITIALIZER,
			   .filled = PTHREAD_COND_INITIALIZER,
			   .emptied = PTHREAD_COND_INITIALIZER };
	struct thread t[8];

	for (int i = 0; i < 8; i++)
		(outside && i % 4 < 2 ? thread_outside
				      : thread_start)(&t[i], i % 2 ? consume : produce, &q);
	for (int i = 0; i < 8; i++)
		thread_end(&t[i]);
	CHECK_EQ(q.put, 4 * ITEMS);
	CHECK_EQ(q.got, 4 * ITEMS);
	CHECK_EQ(q.n, 0);
}

POSIX_TEST(cond_loses_no_wakeup)
{
	run_queue(false);
}

POSIX_TEST(cond_loses_no_wakeup_between_green_and_os_threads)
{
	run_queue(true);
}

POSIX_TEST(cond_process_shared_wakes)
{
	struct state s = { .m = PTHREAD_MUTEX_INITIALIZER,
			   .c = cond_with(CLOCK_MONOTONIC, PTHREAD_PROCESS_SHARED) };
	struct timespec soon = time_in(CLOCK_MONOTONIC, 20);
	struct thread t[4];

	CHECK_EQ(pthread_mutex_lock(&s.m), 0);
	CHECK_EQ(pthread_cond_timedwait(&s.c, &s.m, &soon), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_MONOTONIC, &soon));
	CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
	for (int i = 0; i < 4; i++)
		thread_start(&t[i], take, &s);
	wake_each(&s, 4);
	for (int i = 0; i < 4; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.woken, 4);
	CHECK_EQ(pthread_cond_destroy(&s.c), 0);
}

/* --- lifetime --- */

/* POSIX: the object may be destroyed as soon as a broadcast has woken all waiters. */
POSIX_TEST(cond_may_be_destroyed_after_a_broadcast)
{
	for (int round = 0; round < 50; round++) {
		struct state *s = calloc(1, sizeof(*s));
		struct thread t[4];

		for (int i = 0; i < 4; i++)
			(i % 2 ? thread_outside : thread_start)(&t[i], take, s);
		lock_when_waiting(s, 4);
		s->permits = 4;
		CHECK_EQ(pthread_cond_broadcast(&s->c), 0);
		CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
		CHECK_EQ(pthread_cond_destroy(&s->c), 0);
		memset(&s->c, 0xff, sizeof(s->c));
		for (int i = 0; i < 4; i++)
			thread_end(&t[i]);
		free(s);
	}
}

/* --- cancellation --- */

struct victim {
	struct state s;
	bool cleaned;
};

static void clean_up(void *arg)
{
	struct victim *v = arg;

	v->cleaned = pthread_mutex_lock(&v->s.m) == EDEADLK;
	CHECK_EQ(pthread_mutex_unlock(&v->s.m), 0);
}

static void *wait_indefinitely(void *arg)
{
	struct victim *v = arg;

	CHECK_EQ(pthread_mutex_lock(&v->s.m), 0);
	v->s.waiting++;
	pthread_cleanup_push(clean_up, v);
	for (;;)
		pthread_cond_wait(&v->s.c, &v->s.m);
	pthread_cleanup_pop(1);
	return NULL;
}

/* An OS thread: the replacement is a cancellation point, and locks the mutex again. */
TEST(cond_wait_of_cancelled_os_thread_has_the_mutex)
{
	struct victim v = { .s = { .m = errorcheck(), .c = PTHREAD_COND_INITIALIZER } };
	pthread_t p;
	void *result;

	CHECK_EQ(pthread_create(&p, NULL, wait_indefinitely, &v), 0);
	lock_when_waiting(&v.s, 1);
	CHECK_EQ(pthread_mutex_unlock(&v.s.m), 0);
	CHECK_EQ(pthread_cancel(p), 0);
	CHECK_EQ(pthread_join(p, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK(v.cleaned);
	run_takers(wake_each, true);
}

static void wait_cancelled(void *arg)
{
	struct victim *v = arg;

	CHECK_EQ(pthread_mutex_lock(&v->s.m), 0);
	v->s.waiting++;
	CHECK_EQ(pthread_cond_wait(&v->s.c, &v->s.m), ECANCELED);
	clean_up(v);
}

static void cancel_green(void)
{
	struct victim v = { .s = { .m = errorcheck(), .c = PTHREAD_COND_INITIALIZER } };
	gmp_g *g;

	CHECK_EQ(gmp_spawn(&g, wait_cancelled, &v, NULL), 0);
	lock_when_waiting(&v.s, 1);
	CHECK_EQ(pthread_mutex_unlock(&v.s.m), 0);
	CHECK_EQ(gmp_cancel(g), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK(v.cleaned);
}

TEST_PROCS(cond_wait_of_cancelled_green_thread_is_ecanceled_with_the_mutex)
{
	thread_run(procs, cancel_green);
}

/* A green thread without own thread-locals waits as blocking code. */
static void take_in_turn(void *arg)
{
	struct state *s = arg;
	gmp_g *g;

	CHECK_EQ(gmp_spawn(&g, take, s, NULL), 0);
	wake_each(s, 1);
	CHECK_EQ(gmp_join(g), 0);
}

TEST_PROCS(cond_wait_without_own_thread_locals_is_blocking_code)
{
	struct state s = STATE_INIT;

	run_procs(procs, take_in_turn, &s);
	CHECK_EQ(s.woken, 1);
}

static struct state outlives = STATE_INIT;

static void leave_waiters(void)
{
	for (int i = 0; i < 10; i++)
		gmp_go(take, &outlives);
	lock_when_waiting(&outlives, 10);
	CHECK_EQ(pthread_mutex_unlock(&outlives.m), 0);
}

TEST_PROCS(cond_waiters_killed_at_shutdown_are_dequeued)
{
	thread_run(procs, leave_waiters);
	CHECK_EQ(pthread_cond_broadcast(&outlives.c), 0);
	CHECK_EQ(pthread_cond_signal(&outlives.c), 0);
	CHECK_EQ(pthread_cond_destroy(&outlives.c), 0);
}
