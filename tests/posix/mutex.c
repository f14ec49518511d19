/* SPDX-License-Identifier: MIT */
/* Tests mutexes. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/wait.h>

#include "threads.h"

enum { SECOND = 1000 };

struct shared {
	pthread_mutex_t m;
	long n;
	int arrived, rounds;
	bool inside;
};

static void add(void *arg)
{
	struct shared *s = arg;

	for (int i = 0; i < s->rounds; i++) {
		CHECK_EQ(pthread_mutex_lock(&s->m), 0);
		CHECK(!s->inside);
		s->inside = true;
		s->n++;
		if (i % 16 == 0)
			thread_pass();
		s->inside = false;
		CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
	}
}

POSIX_TEST(mutex_excludes)
{
	struct shared s = { .m = PTHREAD_MUTEX_INITIALIZER, .rounds = 500 };
	struct thread t[8];

	for (int i = 0; i < 8; i++)
		thread_start(&t[i], add, &s);
	for (int i = 0; i < 8; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.n, 8 * 500);
	CHECK_EQ(pthread_mutex_destroy(&s.m), 0);
}

static void add_timed(void *arg)
{
	struct shared *s = arg;

	for (int i = 0; i < s->rounds; i++) {
		struct timespec t = time_in(CLOCK_MONOTONIC, 100 * SECOND);

		CHECK_EQ(pthread_mutex_clocklock(&s->m, CLOCK_MONOTONIC, &t), 0);
		s->n++;
		if (i % 16 == 0)
			thread_pass();
		CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
		t = time_in(CLOCK_REALTIME, 100 * SECOND);
		CHECK_EQ(pthread_mutex_timedlock(&s->m, &t), 0);
		s->n++;
		CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
	}
}

POSIX_TEST(mutex_with_deadline_excludes)
{
	struct shared s = { .m = PTHREAD_MUTEX_INITIALIZER, .rounds = 300 };
	struct thread t[6];

	for (int i = 0; i < 6; i++)
		thread_start(&t[i], add_timed, &s);
	for (int i = 0; i < 6; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.n, 6 * 300 * 2);
}

static void mix(void)
{
	struct shared s = { .m = PTHREAD_MUTEX_INITIALIZER, .rounds = 500 };
	struct thread t[8];

	for (int i = 0; i < 8; i++)
		(i % 2 ? thread_start : thread_outside)(&t[i], add, &s);
	for (int i = 0; i < 8; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.n, 8 * 500);
}

TEST_PROCS(mutex_of_green_and_os_threads_excludes)
{
	thread_run(procs, mix);
}

/* Green threads with and without own thread-locals. */
static void mix_kinds(void *arg)
{
	struct shared *s = arg;
	gmp_attr own = GMP_ATTR_INIT;
	gmp_g *g[8];

	own.flags = GMP_OWN_TLS;
	for (int i = 0; i < 8; i++) {
		int err = gmp_spawn(&g[i], add, s, i % 2 ? &own : NULL);

		if (err == -ENOTSUP)
			check_skip("no own thread-locals on this machine");
		CHECK_EQ(err, 0);
	}
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

TEST_PROCS(mutex_of_both_kinds_of_green_threads_excludes)
{
	struct shared s = { .m = PTHREAD_MUTEX_INITIALIZER, .rounds = 1 };

	run_procs(procs, mix_kinds, &s);
	CHECK_EQ(s.n, 8);
}

static void lock_once(void *arg)
{
	struct shared *s = arg;

	thread_count(&s->arrived);
	CHECK_EQ(pthread_mutex_lock(&s->m), 0);
	s->n++;
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

static void lock_once_timed(void *arg)
{
	struct shared *s = arg;
	struct timespec t = time_in(CLOCK_REALTIME, 100 * SECOND);

	thread_count(&s->arrived);
	CHECK_EQ(pthread_mutex_timedlock(&s->m, &t), 0);
	s->n++;
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

static void lock_once_clock(void *arg)
{
	struct shared *s = arg;
	struct timespec t = time_in(CLOCK_MONOTONIC, 100 * SECOND);

	thread_count(&s->arrived);
	CHECK_EQ(pthread_mutex_clocklock(&s->m, CLOCK_MONOTONIC, &t), 0);
	s->n++;
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

/* If a waiter blocked the only P, the owner would never unlock. */
static void many_waiters(void)
{
	static void (*const by[])(void *) = { lock_once, lock_once_timed, lock_once_clock };
	struct shared s = { .m = PTHREAD_MUTEX_INITIALIZER };
	struct thread t[99];

	CHECK_EQ(pthread_mutex_lock(&s.m), 0);
	for (int i = 0; i < 99; i++)
		thread_start(&t[i], by[i % 3], &s);
	thread_await(&s.arrived, 99);
	CHECK_EQ(s.n, 0);
	CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
	for (int i = 0; i < 99; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.n, 99);
}

TEST(mutex_lock_parks_the_green_thread)
{
	thread_run(1, many_waiters);
}

/* The owner is an OS thread, which unlocks while green threads are parked. */
static void held_outside(void *arg)
{
	struct shared *s = arg;

	CHECK_EQ(pthread_mutex_lock(&s->m), 0);
	s->inside = true;
	thread_count(&s->rounds);
	thread_await(&s->arrived, 20);
	s->inside = false;
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

static void unlocked_outside(void)
{
	struct shared s = { .m = PTHREAD_MUTEX_INITIALIZER };
	struct thread owner, t[20];

	thread_outside(&owner, held_outside, &s);
	thread_await(&s.rounds, 1);
	for (int i = 0; i < 20; i++)
		thread_start(&t[i], lock_once, &s);
	for (int i = 0; i < 20; i++)
		thread_end(&t[i]);
	thread_end(&owner);
	CHECK_EQ(s.n, 20);
}

TEST_PROCS(mutex_unlock_by_os_thread_wakes_parked_green_threads)
{
	thread_run(procs, unlocked_outside);
}

static pthread_mutex_t mutex_of_type(int type)
{
	pthread_mutexattr_t a;
	pthread_mutex_t m;

	CHECK_EQ(pthread_mutexattr_init(&a), 0);
	CHECK_EQ(pthread_mutexattr_settype(&a, type), 0);
	CHECK_EQ(pthread_mutex_init(&m, &a), 0);
	CHECK_EQ(pthread_mutexattr_destroy(&a), 0);
	return m;
}

POSIX_TEST(mutex_errorcheck_relock_is_edeadlk)
{
	pthread_mutex_t m = mutex_of_type(PTHREAD_MUTEX_ERRORCHECK);
	struct timespec t = time_in(CLOCK_REALTIME, 100 * SECOND);

	CHECK_EQ(pthread_mutex_lock(&m), 0);
	thread_pass();
	CHECK_EQ(pthread_mutex_lock(&m), EDEADLK);
	CHECK_EQ(pthread_mutex_timedlock(&m, &t), EDEADLK);
	t = time_in(CLOCK_MONOTONIC, 100 * SECOND);
	CHECK_EQ(pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &t), EDEADLK);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), EPERM);
}

static void unlock_foreign(void *arg)
{
	CHECK_EQ(pthread_mutex_unlock(arg), EPERM);
}

POSIX_TEST(mutex_errorcheck_unlock_by_another_thread_is_eperm)
{
	pthread_mutex_t m = mutex_of_type(PTHREAD_MUTEX_ERRORCHECK);
	struct thread t;

	CHECK_EQ(pthread_mutex_lock(&m), 0);
	thread_start(&t, unlock_foreign, &m);
	thread_end(&t);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
}

POSIX_TEST(mutex_errorcheck_excludes)
{
	struct shared s = { .m = mutex_of_type(PTHREAD_MUTEX_ERRORCHECK), .rounds = 200 };
	struct thread t[4];

	for (int i = 0; i < 4; i++)
		thread_start(&t[i], add, &s);
	for (int i = 0; i < 4; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.n, 4 * 200);
}

static void lock_twice(void *arg)
{
	struct shared *s = arg;

	for (int i = 0; i < s->rounds; i++) {
		CHECK_EQ(pthread_mutex_lock(&s->m), 0);
		CHECK_EQ(pthread_mutex_lock(&s->m), 0);
		s->n++;
		CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
		thread_pass();
		s->n++;
		CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
	}
}

POSIX_TEST(mutex_recursive_counts)
{
	struct shared s = { .m = mutex_of_type(PTHREAD_MUTEX_RECURSIVE), .rounds = 100 };
	struct thread t[4];

	for (int i = 0; i < 4; i++)
		thread_start(&t[i], lock_twice, &s);
	for (int i = 0; i < 4; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.n, 4 * 100 * 2);
	CHECK_EQ(pthread_mutex_unlock(&s.m), EPERM);
}

static void time_out(void *arg)
{
	pthread_mutex_t *m = arg;
	struct timespec t = time_in(CLOCK_REALTIME, 20);

	errno = 77;
	CHECK_EQ(pthread_mutex_timedlock(m, &t), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_REALTIME, &t));
	t = time_in(CLOCK_MONOTONIC, 20);
	CHECK_EQ(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_MONOTONIC, &t));
	CHECK_EQ(errno, 77);
}

POSIX_TEST(mutex_lock_of_held_mutex_times_out)
{
	static const int types[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
				     PTHREAD_MUTEX_ERRORCHECK };

	for (int i = 0; i < 3; i++) {
		pthread_mutex_t m = mutex_of_type(types[i]);
		struct thread t;

		CHECK_EQ(pthread_mutex_lock(&m), 0);
		thread_start(&t, time_out, &m);
		thread_end(&t);
		CHECK_EQ(pthread_mutex_unlock(&m), 0);
		CHECK_EQ(pthread_mutex_lock(&m), 0);
		CHECK_EQ(pthread_mutex_unlock(&m), 0);
	}
}

static void bad_times(void *arg)
{
	static const struct timespec bad[] = { { 1, -1 }, { 1, 1000000000 } };
	static const struct timespec past = { -1, 0 };
	pthread_mutex_t *m = arg;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_mutex_timedlock(m, &bad[i]), EINVAL);
		CHECK_EQ(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &bad[i]), EINVAL);
	}
	CHECK_EQ(pthread_mutex_timedlock(m, &past), ETIMEDOUT);
	CHECK_EQ(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &past), ETIMEDOUT);
}

POSIX_TEST(mutex_bad_time_is_einval_if_it_would_block)
{
	static const struct timespec bad = { 1, 1000000000 };
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	struct thread t;

	CHECK_EQ(pthread_mutex_timedlock(&m, &bad), 0);
	thread_start(&t, bad_times, &m);
	thread_end(&t);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	CHECK_EQ(pthread_mutex_clocklock(&m, CLOCK_MONOTONIC, &bad), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
}

POSIX_TEST(mutex_bad_clock_is_einval)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	struct timespec t = time_in(CLOCK_REALTIME, 1);

	CHECK_EQ(pthread_mutex_clocklock(&m, CLOCK_THREAD_CPUTIME_ID, &t), EINVAL);
	CHECK_EQ(pthread_mutex_clocklock(&m, 12345, &t), EINVAL);
	CHECK_EQ(pthread_mutex_trylock(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
}

POSIX_TEST(mutex_calls_leave_errno)
{
	struct shared s = { .m = PTHREAD_MUTEX_INITIALIZER };
	struct thread t[4];

	errno = 77;
	CHECK_EQ(pthread_mutex_lock(&s.m), 0);
	for (int i = 0; i < 4; i++)
		thread_start(&t[i], lock_once, &s);
	thread_await(&s.arrived, 4);
	errno = 77;
	CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
	CHECK_EQ(errno, 77);
	CHECK_EQ(pthread_mutex_lock(&s.m), 0);
	CHECK_EQ(errno, 77);
	CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
	for (int i = 0; i < 4; i++)
		thread_end(&t[i]);
}

static pthread_mutex_t mutex_with(int shared, int robust, int protocol)
{
	pthread_mutexattr_t a;
	pthread_mutex_t m;

	CHECK_EQ(pthread_mutexattr_init(&a), 0);
	CHECK_EQ(pthread_mutexattr_setpshared(&a, shared), 0);
	CHECK_EQ(pthread_mutexattr_setrobust(&a, robust), 0);
	CHECK_EQ(pthread_mutexattr_setprotocol(&a, protocol), 0);
	CHECK_EQ(pthread_mutex_init(&m, &a), 0);
	CHECK_EQ(pthread_mutexattr_destroy(&a), 0);
	return m;
}

POSIX_TEST(mutex_process_shared_excludes)
{
	struct shared s = { .m = mutex_with(PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED,
					    PTHREAD_PRIO_NONE),
			    .rounds = 100 };
	struct thread t[4];

	for (int i = 0; i < 4; i++)
		thread_start(&t[i], i % 2 ? add : add_timed, &s);
	for (int i = 0; i < 4; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.n, 2 * 100 + 2 * 200);
}

/* Half of the threads lock with a deadline, and one in four is an OS thread. */
static void exclude(pthread_mutex_t m)
{
	struct shared s = { .m = m, .rounds = 100 };
	struct thread t[8];

	for (int i = 0; i < 8; i++)
		(i % 4 ? thread_start : thread_outside)(&t[i], i % 2 ? add : add_timed, &s);
	for (int i = 0; i < 8; i++)
		thread_end(&t[i]);
	CHECK_EQ(s.n, 4 * 100 + 4 * 200);
	CHECK_EQ(pthread_mutex_destroy(&s.m), 0);
}

POSIX_TEST(mutex_with_priority_inheritance_excludes)
{
	exclude(mutex_with(PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT));
	exclude(mutex_with(PTHREAD_PROCESS_SHARED, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_INHERIT));
	exclude(mutex_with(PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_INHERIT));
}

static void exclude_protected(void)
{
	exclude(mutex_with(PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_STALLED, PTHREAD_PRIO_PROTECT));
}

/* libc's, for a thread without a real-time policy, is EINVAL. */
TEST_PROCS(mutex_with_priority_protection_excludes)
{
	thread_run(procs, exclude_protected);
}

static void held_by_another(void *arg)
{
	struct timespec t = time_in(CLOCK_REALTIME, 1);

	CHECK_EQ(pthread_mutex_trylock(arg), EBUSY);
	CHECK_EQ(pthread_mutex_timedlock(arg, &t), ETIMEDOUT);
}

POSIX_TEST(mutex_with_priority_inheritance_keeps_its_type)
{
	pthread_mutexattr_t a;
	pthread_mutex_t m;
	struct thread t;

	CHECK_EQ(pthread_mutexattr_init(&a), 0);
	CHECK_EQ(pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT), 0);
	CHECK_EQ(pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE), 0);
	CHECK_EQ(pthread_mutex_init(&m, &a), 0);
	CHECK_EQ(pthread_mutex_lock(&m), 0);
	CHECK_EQ(pthread_mutex_lock(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	thread_start(&t, held_by_another, &m);
	thread_end(&t);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), EPERM);
	CHECK_EQ(pthread_mutex_destroy(&m), 0);
	CHECK_EQ(pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK), 0);
	CHECK_EQ(pthread_mutex_init(&m, &a), 0);
	CHECK_EQ(pthread_mutex_lock(&m), 0);
	CHECK_EQ(pthread_mutex_lock(&m), EDEADLK);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	CHECK_EQ(pthread_mutexattr_destroy(&a), 0);
}

/* --- robust mutexes --- */

static void die_with_it(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(arg), 0);
}

POSIX_TEST(mutex_robust_of_dead_os_thread_is_eownerdead)
{
	pthread_mutex_t m =
		mutex_with(PTHREAD_PROCESS_PRIVATE, PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
	struct thread t;

	thread_outside(&t, die_with_it, &m);
	thread_end(&t);
	CHECK_EQ(pthread_mutex_lock(&m), EOWNERDEAD);
	CHECK_EQ(pthread_mutex_consistent(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
	CHECK_EQ(pthread_mutex_lock(&m), 0);
	CHECK_EQ(pthread_mutex_unlock(&m), 0);
}

struct heir {
	pthread_mutex_t m[3];
	int arrived, locked, left;
};

/* It ends as the owner of all three, when others wait for the second one. */
static void leave_locked(void *arg)
{
	struct heir *h = arg;

	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_mutex_lock(&h->m[i]), 0);
	thread_count(&h->locked);
	thread_await(&h->arrived, 2);
}

static void inherit_second(void *arg)
{
	struct heir *h = arg;

	thread_await(&h->locked, 1);
	thread_count(&h->arrived);
	int err = pthread_mutex_lock(&h->m[1]);

	if (err == EOWNERDEAD) {
		thread_count(&h->left);
		CHECK_EQ(pthread_mutex_consistent(&h->m[1]), 0);
	} else {
		CHECK_EQ(err, 0);
	}
	CHECK_EQ(pthread_mutex_unlock(&h->m[1]), 0);
}

POSIX_TEST(mutex_robust_of_ended_thread_is_eownerdead)
{
	struct heir h = { .arrived = 0 };
	struct thread owner, t[2];

	for (int i = 0; i < 3; i++)
		h.m[i] = mutex_with(i % 2 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE,
				    PTHREAD_MUTEX_ROBUST, PTHREAD_PRIO_NONE);
	thread_start(&owner, leave_locked, &h);
	for (int i = 0; i < 2; i++)
		thread_start(&t[i], inherit_second, &h);
	thread_end(&owner);
	for (int i = 0; i < 2; i++)
		thread_end(&t[i]);
	CHECK_EQ(h.left, 1);
	CHECK_EQ(pthread_mutex_trylock(&h.m[0]), EOWNERDEAD);
	CHECK_EQ(pthread_mutex_lock(&h.m[2]), EOWNERDEAD);
	CHECK_EQ(pthread_mutex_unlock(&h.m[2]), 0); /* not made consistent */
	CHECK_EQ(pthread_mutex_lock(&h.m[2]), ENOTRECOVERABLE);
	CHECK_EQ(pthread_mutex_unlock(&h.m[0]), 0);
}

struct patient {
	pthread_mutex_t m;
	int arrived;
	bool locked;
};

static void lock_uncancelled(void *arg)
{
	struct patient *p = arg;

	thread_count(&p->arrived);
	CHECK_EQ(pthread_mutex_lock(&p->m), 0);
	p->locked = true;
	CHECK_EQ(pthread_mutex_unlock(&p->m), 0);
}

static void cancel_waiter(void)
{
	struct patient p = { .m = PTHREAD_MUTEX_INITIALIZER };
	gmp_g *g;

	CHECK_EQ(pthread_mutex_lock(&p.m), 0);
	CHECK_EQ(gmp_spawn(&g, lock_uncancelled, &p, NULL), 0);
	thread_await(&p.arrived, 1);
	CHECK_EQ(gmp_cancel(g), 0);
	for (int i = 0; i < 10; i++)
		gmp_yield();
	CHECK(!p.locked);
	CHECK_EQ(pthread_mutex_unlock(&p.m), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK(p.locked);
}

TEST_PROCS(mutex_lock_is_no_cancellation_point)
{
	thread_run(procs, cancel_waiter);
}

/* A run that ends kills green threads that are parked; the mutex stays usable. */
static struct shared outlives = { .m = PTHREAD_MUTEX_INITIALIZER };

static void leave_waiters(void)
{
	for (int i = 0; i < 10; i++)
		gmp_go(lock_once, &outlives);
	thread_await(&outlives.arrived, 10);
}

TEST_PROCS(mutex_waiters_killed_at_shutdown_are_dequeued)
{
	CHECK_EQ(pthread_mutex_lock(&outlives.m), 0);
	thread_run(procs, leave_waiters);
	CHECK_EQ(pthread_mutex_unlock(&outlives.m), 0);
	CHECK_EQ(pthread_mutex_lock(&outlives.m), 0);
	CHECK_EQ(pthread_mutex_unlock(&outlives.m), 0);
	outlives.arrived = 0;
	thread_run(procs, many_waiters);
	CHECK_EQ(outlives.n, 0);
}

/* --- starvation --- */

static void lock_late(void *arg)
{
	struct shared *s = arg;

	thread_count(&s->arrived);
	CHECK_EQ(pthread_mutex_lock(&s->m), 0);
	__atomic_store_n(&s->inside, true, __ATOMIC_RELEASE);
	CHECK_EQ(pthread_mutex_unlock(&s->m), 0);
}

/* The thread that locks again at once waits only while it holds the mutex. */
POSIX_TEST(mutex_waiter_gets_it_from_a_thread_that_locks_again)
{
	struct shared s = { .m = PTHREAD_MUTEX_INITIALIZER };
	struct timespec us100 = { 0, 100000 };
	struct thread t;

	CHECK_EQ(pthread_mutex_lock(&s.m), 0);
	thread_start(&t, lock_late, &s);
	thread_await(&s.arrived, 1);
	while (!__atomic_load_n(&s.inside, __ATOMIC_ACQUIRE)) {
		CHECK(s.rounds++ < 20000);
		nanosleep(&us100, NULL);
		CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
		CHECK_EQ(pthread_mutex_lock(&s.m), 0);
	}
	CHECK_EQ(pthread_mutex_unlock(&s.m), 0);
	thread_end(&t);
}

/* --- of another process --- */

struct of_two {
	pthread_mutex_t m;
	int held;
};

static struct of_two *shared_by_two(void)
{
	struct of_two *two =
		mmap(NULL, sizeof(*two), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t a;

	CHECK(two != MAP_FAILED);
	CHECK_EQ(pthread_mutexattr_init(&a), 0);
	CHECK_EQ(pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_mutex_init(&two->m, &a), 0);
	return two;
}

/* The unlock wakes a thread of another process, which most likely waits by then. */
POSIX_TEST(mutex_of_another_process_excludes)
{
	struct of_two *two = shared_by_two();
	struct timespec ms20 = { 0, 20000000 };
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK_EQ(pthread_mutex_lock(&two->m), 0);
		__atomic_store_n(&two->held, 1, __ATOMIC_RELEASE);
		nanosleep(&ms20, NULL);
		__atomic_store_n(&two->held, 2, __ATOMIC_RELEASE);
		CHECK_EQ(pthread_mutex_unlock(&two->m), 0);
		_exit(0);
	}
	thread_await(&two->held, 1);
	CHECK_EQ(pthread_mutex_lock(&two->m), 0);
	CHECK_EQ(two->held, 2);
	CHECK_EQ(pthread_mutex_unlock(&two->m), 0);
	while (waitpid(pid, &status, 0) != pid)
		CHECK_EQ(errno, EINTR);
	CHECK_EQ(status, 0);
	CHECK_EQ(munmap(two, sizeof(*two)), 0);
}
