/* SPDX-License-Identifier: MIT */
/* Tests futexes by syscall(). */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fds.h"
#include "threads.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum { SECOND = 1000 };

/* --- the operations --- */

static long wait_on(uint32_t *word, uint32_t val, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, val, timeout, NULL, 0);
}

static long wait_bits(uint32_t *word, uint32_t val, int flags, const struct timespec *until,
		      uint32_t bits)
{
	return syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE | flags, val, until, NULL, bits);
}

static long wake(uint32_t *word, int n)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static long wake_bits(uint32_t *word, int n, uint32_t bits)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, n, NULL, NULL, bits);
}

/* A wait in the kernel ends with EINTR in chaos mode, and with EAGAIN if the word has changed. */
static void await_wake(uint32_t *word, uint32_t val)
{
	errno = 77;
	while (wait_on(word, val, NULL) != 0) {
		CHECK(errno == EINTR || errno == EAGAIN);
		errno = 77;
	}
	CHECK_EQ(errno, 77);
}

/* --- a semaphore --- */

struct sem {
	uint32_t value;
};

static bool sem_take(struct sem *s)
{
	uint32_t v = __atomic_load_n(&s->value, __ATOMIC_RELAXED);

	while (v)
		if (__atomic_compare_exchange_n(&s->value, &v, v - 1, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
	return false;
}

static void sem_down(struct sem *s)
{
	while (!sem_take(s))
		wait_on(&s->value, 0, NULL);
}

static void sem_down_relative(struct sem *s)
{
	struct timespec t = { .tv_sec = 100 };

	while (!sem_take(s))
		CHECK(wait_on(&s->value, 0, &t) == 0 || errno == EAGAIN || errno == EINTR);
}

static void sem_down_until(struct sem *s)
{
	struct timespec t = time_in(CLOCK_MONOTONIC, 100 * SECOND);

	while (!sem_take(s))
		CHECK(wait_bits(&s->value, 0, 0, &t, FUTEX_BITSET_MATCH_ANY) == 0 ||
		      errno == EAGAIN || errno == EINTR);
}

static void (*const downs[])(struct sem *) = { sem_down, sem_down_relative, sem_down_until };

/* Waiters may have seen 0 although the value is 1 by now: each post wakes one. */
static void sem_up(struct sem *s)
{
	__atomic_fetch_add(&s->value, 1, __ATOMIC_RELEASE);
	CHECK(wake(&s->value, 1) <= 1);
}

struct work {
	struct sem s, back;
	uint32_t word, val; /* val: waits for a change of word from it */
	int arrived, got, rounds;
};

static void take(void *arg)
{
	struct work *w = arg;
	int n = __atomic_fetch_add(&w->arrived, 1, __ATOMIC_RELAXED);

	for (int i = 0; i < w->rounds; i++) {
		downs[n % 3](&w->s);
		thread_count(&w->got);
		sem_up(&w->back);
	}
}

static void ping_pong(bool outside)
{
	struct work w = { .rounds = 200 };
	struct thread t[6];

	for (int i = 0; i < 6; i++)
		(outside && i % 2 ? thread_outside : thread_start)(&t[i], take, &w);
	for (int i = 0; i < 6 * 200; i++) {
		sem_up(&w.s);
		if (i % 8 == 7)
			for (int k = 0; k < 8; k++)
				sem_down(&w.back);
	}
	for (int i = 0; i < 6; i++)
		thread_end(&t[i]);
	CHECK_EQ(w.got, 6 * 200);
	CHECK_EQ(w.s.value, 0);
}

POSIX_TEST(futex_semaphore_works)
{
	ping_pong(false);
}

POSIX_TEST(futex_semaphore_of_green_and_os_threads_works)
{
	ping_pong(true);
}

/* A waiter that does not park would keep an OS thread. */
static void park_many(void)
{
	struct work w = { .rounds = 1 };
	struct thread t[99];
	gmp_stats stats = GMP_STATS_INIT;

	for (int i = 0; i < 99; i++)
		thread_start(&t[i], take, &w);
	thread_await(&w.arrived, 99);
	CHECK_EQ(w.got, 0);
	CHECK_EQ(gmp_stats_get(&stats), 0);
	CHECK(stats.threads < 50); /* on a busy machine some threads are preempted */
	for (int i = 0; i < 99; i++)
		sem_up(&w.s);
	for (int i = 0; i < 99; i++)
		thread_end(&t[i]);
	CHECK_EQ(w.got, 99);
}

TEST(futex_wait_parks_the_green_thread)
{
	thread_run(1, park_many);
}

/* --- what a call returns --- */

POSIX_TEST(futex_wait_for_another_value_is_eagain)
{
	uint32_t word = 5;

	CHECK_ERRNO((int)wait_on(&word, 4, NULL), EAGAIN);
	CHECK_ERRNO((int)wait_bits(&word, 4, 0, NULL, FUTEX_BITSET_MATCH_ANY), EAGAIN);
}

POSIX_TEST(futex_wait_times_out)
{
	const struct timespec relative = { 0, 20000000 }, zero = { 0, 0 };
	struct timespec t = time_in(CLOCK_MONOTONIC, 20);
	uint32_t word = 0;

	CHECK_ERRNO((int)wait_on(&word, 0, &relative), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_MONOTONIC, &t));
	CHECK_ERRNO((int)wait_on(&word, 0, &zero), ETIMEDOUT);
	CHECK_ERRNO((int)wait_bits(&word, 0, 0, &t, FUTEX_BITSET_MATCH_ANY), ETIMEDOUT);
	t = time_in(CLOCK_MONOTONIC, 20);
	CHECK_ERRNO((int)wait_bits(&word, 0, 0, &t, FUTEX_BITSET_MATCH_ANY), ETIMEDOUT);
	CHECK(time_is_past(CLOCK_MONOTONIC, &t));
	t = time_in(CLOCK_REALTIME, 20);
	CHECK_ERRNO((int)wait_bits(&word, 0, FUTEX_CLOCK_REALTIME, &t, FUTEX_BITSET_MATCH_ANY),
		    ETIMEDOUT);
	CHECK(time_is_past(CLOCK_REALTIME, &t));
}

POSIX_TEST(futex_bad_arguments_are_einval)
{
	static const struct timespec bad[] = { { 1, -1 }, { 1, 1000000000 }, { -1, 0 } };
	uint32_t words[2] = { 0 };

	for (int i = 0; i < 3; i++) {
		CHECK_ERRNO((int)wait_on(words, 0, &bad[i]), EINVAL);
		CHECK_ERRNO((int)wait_bits(words, 0, 0, &bad[i], FUTEX_BITSET_MATCH_ANY), EINVAL);
	}
	CHECK_ERRNO((int)wait_on((uint32_t *)((char *)words + 1), 0, NULL), EINVAL);
	CHECK_ERRNO((int)wait_bits(words, 0, 0, NULL, 0), EINVAL);
	CHECK_ERRNO((int)wake_bits(words, 1, 0), EINVAL);
	CHECK_ERRNO((int)syscall(SYS_futex, words, 99, 0, NULL, NULL, 0), ENOSYS);
}

static void wait_once(void *arg)
{
	struct work *w = arg;

	await_wake(&w->word, w->val);
	thread_count(&w->got);
}

static void start_waiters(struct thread *t, int n, void (*fn)(void *), struct work *w)
{
	for (int i = 0; i < n; i++)
		(i % 2 ? thread_outside : thread_start)(&t[i], fn, w);
}

static void end_waiters(struct thread *t, int n)
{
	for (int i = 0; i < n; i++)
		thread_end(&t[i]);
}

/* The word keeps its value, so each wait ends by a wake only. */
POSIX_TEST(futex_wake_counts_each_waiter_once)
{
	struct work w = { .word = 5, .val = 5 };
	struct thread t[8];
	long woken = 0, n;

	errno = 78;
	CHECK_EQ(wake(&w.word, INT32_MAX), 0);
	CHECK_EQ(errno, 78);
	start_waiters(t, 8, wait_once, &w);
	for (int most = 1; woken < 8; most = most % 3 + 1) {
		n = wake(&w.word, most);
		CHECK(n >= 0 && n <= most);
		woken += n;
		thread_pass();
	}
	CHECK_EQ(woken, 8);
	end_waiters(t, 8);
	CHECK_EQ(w.got, 8);
	CHECK_EQ(wake(&w.word, 1), 0);
}

static void wait_for_bit(void *arg)
{
	struct work *w = arg;

	while (wait_bits(&w->word, 0, 0, NULL, 2) != 0)
		CHECK_EQ(errno, EINTR);
	thread_count(&w->got);
}

POSIX_TEST(futex_wake_bitset_ends_waits_for_its_bits)
{
	struct work w = { 0 };
	struct thread all[2], bit[2];
	long n = 0;

	start_waiters(all, 2, wait_once, &w);
	start_waiters(bit, 2, wait_for_bit, &w);
	while (n < 2) {
		n += wake_bits(&w.word, 1, 4);
		thread_pass();
	}
	end_waiters(all, 2);
	CHECK_EQ(w.got, 2);
	CHECK_EQ(wake_bits(&w.word, INT32_MAX, 4), 0);
	while (n < 4) {
		n += wake_bits(&w.word, 1, 6);
		thread_pass();
	}
	end_waiters(bit, 2);
}

/* Ends the waits on `word`, some of which a requeue may have moved to it. */
static void wake_until(uint32_t *word, const int *got, int n)
{
	while (__atomic_load_n(got, __ATOMIC_ACQUIRE) < n) {
		CHECK(wake(word, INT32_MAX) >= 0);
		thread_pass();
	}
}

static long requeue(uint32_t *from, int op, long most, uint32_t *to, uint32_t val)
{
	return syscall(SYS_futex, from, op, 1, most, to, val);
}

/* The number of waiters in the kernel, if no green thread is parked. */
static long count_waiters(uint32_t *word)
{
	return syscall(SYS_futex, word, FUTEX_CMP_REQUEUE_PRIVATE, 0, (long)INT32_MAX, word, 0);
}

static void requeue_all(int op)
{
	struct work w = { 0 };
	struct thread t[6];
	uint32_t to = 0;
	long n = 0;

	start_waiters(t, 6, wait_once, &w);
	while (n < 6) {
		long moved = requeue(&w.word, op, INT32_MAX, &to, 0);

		CHECK(moved >= 0);
		n += moved;
		thread_pass();
	}
	CHECK_EQ(n, 6);
	wake_until(&to, &w.got, 6);
	end_waiters(t, 6);
}

POSIX_TEST(futex_requeue_counts_each_waiter_once)
{
	uint32_t from = 1, to = 0;

	requeue_all(FUTEX_CMP_REQUEUE_PRIVATE);
	requeue_all(FUTEX_REQUEUE_PRIVATE);
	CHECK_ERRNO((int)requeue(&from, FUTEX_CMP_REQUEUE_PRIVATE, INT32_MAX, &to, 0), EAGAIN);
}

static void arrive_and_wait(void *arg)
{
	thread_count(&((struct work *)arg)->arrived);
	wait_once(arg);
}

/* The first of two kinds of waiters are in the kernel when the others begin to wait. */
POSIX_TEST(futex_requeue_ends_at_most_so_many_waits)
{
	struct work w = { 0 };
	struct thread outside[4], t[4];
	uint32_t to = 0;
	long n = 0;

	for (int i = 0; i < 4; i++)
		thread_outside(&outside[i], wait_once, &w);
	while (count_waiters(&w.word) < 4)
		thread_pass();
	for (int i = 0; i < 4; i++)
		thread_start(&t[i], arrive_and_wait, &w);
	thread_await(&w.arrived, 4);
	thread_pass();
	while (n < 8) {
		long ended = requeue(&w.word, FUTEX_CMP_REQUEUE_PRIVATE, 0, &to, 0);

		CHECK(ended >= 0 && ended <= 1);
		n += ended;
		thread_pass();
	}
	end_waiters(outside, 4);
	end_waiters(t, 4);
	CHECK_EQ(w.got, 8);
}

static long wake_op_some(uint32_t *word, int n, uint32_t *word2, long n2, int add)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_OP_PRIVATE, n, n2, word2,
		       FUTEX_OP(FUTEX_OP_ADD, add, FUTEX_OP_CMP_GE, 0));
}

static long wake_op(uint32_t *word, uint32_t *word2)
{
	return wake_op_some(word, INT32_MAX, word2, INT32_MAX, 1);
}

/* One word has the waiters in each of both rounds. */
POSIX_TEST(futex_wake_op_ends_waits_on_both_words)
{
	for (int round = 0; round < 2; round++) {
		struct work w = { 0 };
		struct thread t[4];
		uint32_t other = 0;
		long n = 0, calls = 0;

		start_waiters(t, 4, wait_once, &w);
		while (__atomic_load_n(&w.got, __ATOMIC_ACQUIRE) < 4) {
			/* increments the second word: a late waiter gets EAGAIN */
			long woken = round ? wake_op(&other, &w.word) : wake_op(&w.word, &other);

			CHECK(woken >= 0);
			n += woken;
			calls++;
			if (round)
				__atomic_store_n(&w.word, 0, __ATOMIC_RELEASE);
			thread_pass();
		}
		end_waiters(t, 4);
		CHECK_EQ(n, 4);
		if (!round)
			CHECK_EQ(other, calls);
	}
}

static long wake_few(uint32_t *word, int way, int n)
{
	uint32_t other = 0;

	switch (way) {
	case 0: return wake(word, n);
	case 1: return wake_op_some(word, n, &other, n, 0);
	default: return wake_op_some(&other, n, word, n, 0);
	}
}

POSIX_TEST(futex_wake_of_no_waiter_wakes_one)
{
	for (int way = 0; way < 3; way++)
		for (int n = 0; n >= -1; n--) {
			struct work w = { 0 };
			struct thread t[4];
			long woken = 0;

			for (int i = 0; i < 4; i++)
				thread_start(&t[i], wait_once, &w);
			while (woken < 4) {
				long some = wake_few(&w.word, way, n);

				CHECK(some >= 0 && some <= 1);
				woken += some;
				thread_pass();
			}
			end_waiters(t, 4);
			CHECK_EQ(w.got, 4);
		}
}

/* A page that cannot be read, after a readable page. */
static uint32_t *unreadable(void)
{
	char *pages = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(pages != MAP_FAILED);
	CHECK_EQ(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	return (uint32_t *)(pages + 4096);
}

POSIX_TEST(futex_unreadable_memory_is_efault)
{
	uint32_t *bad = unreadable(), word = 0;
	uint32_t *const words[] = { bad, bad + 1023, NULL, (uint32_t *)-4096 };
	struct timespec *end = (struct timespec *)bad;

	for (int i = 0; i < 4; i++) {
		CHECK_ERRNO((int)wait_on(words[i], 0, NULL), EFAULT);
		CHECK_ERRNO((int)wait_bits(words[i], 0, 0, NULL, FUTEX_BITSET_MATCH_ANY), EFAULT);
	}
	for (long i = 0; i < 2; i++) { /* the second begins in the page before */
		const struct timespec *t = (struct timespec *)((char *)end - 8 * i);

		CHECK_ERRNO((int)wait_on(&word, 0, t), EFAULT);
		CHECK_ERRNO((int)wait_bits(&word, 0, 0, t, FUTEX_BITSET_MATCH_ANY), EFAULT);
		CHECK_ERRNO((int)wait_on(&word, 1, t), EFAULT);
	}
	CHECK_ERRNO((int)requeue(bad, FUTEX_CMP_REQUEUE_PRIVATE, 1, &word, 0), EFAULT);
	CHECK_ERRNO((int)wake_op(&word, bad), EFAULT);
	CHECK_EQ(wake(bad, 1), 0);
	CHECK_EQ(wake(NULL, 1), 0);
	CHECK_ERRNO((int)wake((uint32_t *)-4096, 1), EFAULT);
	CHECK_ERRNO((int)wait_on(bad - 1, 1, NULL), EAGAIN);
	CHECK_ERRNO((int)wait_on(bad - 1, 0, end - 1), ETIMEDOUT);
}

static int real_time_error(uint32_t *word, int op, int n)
{
	errno = 0;
	CHECK_EQ(syscall(SYS_futex, word, op | FUTEX_CLOCK_REALTIME, n, NULL, NULL,
			 FUTEX_BITSET_MATCH_ANY),
		 -1);
	return errno;
}

/* Whether FUTEX_WAIT accepts the clock depends on the kernel, which does waits on shared words. */
POSIX_TEST(futex_real_time_clock_is_for_absolute_times)
{
	struct work w = { 0 };
	struct thread t;
	uint32_t word = 0;

	CHECK_EQ(real_time_error(&word, FUTEX_WAIT_PRIVATE, 1),
		 real_time_error(&word, FUTEX_WAIT, 1));
	thread_start(&t, arrive_and_wait, &w);
	thread_await(&w.arrived, 1);
	thread_pass();
	CHECK_EQ(real_time_error(&w.word, FUTEX_WAKE_PRIVATE, 1), ENOSYS);
	CHECK_EQ(real_time_error(&w.word, FUTEX_WAKE_BITSET_PRIVATE, 1), ENOSYS);
	CHECK_EQ(real_time_error(&w.word, FUTEX_WAKE_OP_PRIVATE, 1), ENOSYS);
	CHECK_EQ(w.got, 0);
	while (wake(&w.word, 1) == 0)
		thread_pass();
	thread_end(&t);
}

/* --- lifetime, other processes, handlers --- */

static void wait_and_free(void *arg)
{
	struct sem **s = arg;

	sem_down(*s);
	memset(*s, 0xff, sizeof(**s));
	free(*s);
}

POSIX_TEST(futex_word_may_be_freed_before_the_wake)
{
	for (int i = 0; i < 200; i++) {
		struct sem *s = calloc(1, sizeof(*s));
		struct thread t;

		thread_start(&t, wait_and_free, &s);
		if (i % 2)
			thread_pass();
		sem_up(s);
		thread_end(&t);
	}
}

POSIX_TEST(futex_shared_of_another_process_ends_the_wait)
{
	uint32_t *word = mmap(NULL, sizeof(*word), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;

	CHECK(word != MAP_FAILED);
	pid_t child = fork();

	if (child == 0) {
		__atomic_store_n(word, 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
		_exit(0);
	}
	CHECK(child > 0);
	while (!__atomic_load_n(word, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
	pid_t ended;

	while ((ended = waitpid(child, &status, 0)) < 0)
		CHECK_EQ(errno, EINTR);
	CHECK_EQ(ended, child);
	CHECK_EQ(status, 0);
	CHECK_EQ(munmap(word, sizeof(*word)), 0);
}

static struct sem posted;

static void post_in_handler(int signo)
{
	(void)signo;
	__atomic_fetch_add(&posted.value, 1, __ATOMIC_RELEASE);
	wake(&posted.value, 1);
}

static void await_handler(void *arg)
{
	sem_down(&posted);
	thread_count(arg);
}

POSIX_TEST(futex_wake_in_a_handler_ends_waits)
{
	check_handler_wakes(post_in_handler, await_handler);
}

/* Of two words in one bucket, one has a waiter all the time. */
static struct {
	_Alignas(8) uint32_t waited_for;
	uint32_t woken;
	int handled;
} pair;

static void wake_in_handler(int signo)
{
	(void)signo;
	wake(&pair.woken, 1);
	thread_count(&pair.handled);
}

/* By a timer, which needs no second CPU. */
static void wake_interrupted(void *arg)
{
	struct itimerspec often = { .it_interval = { 0, 50000 }, .it_value = { 0, 50000 } };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1 };
	int times = (int)check_scaled(1000);
	timer_t timer;

	(void)arg;
	event.sigev_notify_thread_id = gettid();
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
	while (__atomic_load_n(&pair.handled, __ATOMIC_ACQUIRE) < times)
		CHECK_EQ(wake(&pair.woken, 1), 0);
	CHECK_EQ(timer_delete(timer), 0);
}

static void wait_in_pair(void *arg)
{
	(void)arg;
	await_wake(&pair.waited_for, 0);
}

POSIX_TEST(futex_wake_in_a_handler_of_a_waking_thread_works)
{
	struct sigaction sa = { .sa_handler = wake_in_handler, .sa_flags = SA_RESTART };
	struct thread waiting, waking;

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	thread_start(&waiting, wait_in_pair, NULL);
	thread_outside(&waking, wake_interrupted, NULL);
	thread_end(&waking);
	while (wake(&pair.waited_for, 1) == 0)
		thread_pass();
	thread_end(&waiting);
}

static void wait_cancelled(void *arg)
{
	struct work *w = arg;

	thread_count(&w->arrived);
	sem_down(&w->s);
	thread_count(&w->got);
}

static void cancel_green(void)
{
	struct work w = { 0 };
	gmp_g *g;

	CHECK_EQ(gmp_spawn(&g, wait_cancelled, &w, NULL), 0);
	thread_await(&w.arrived, 1);
	CHECK_EQ(gmp_cancel(g), 0);
	for (int i = 0; i < 20; i++)
		thread_pass();
	CHECK_EQ(w.got, 0);
	sem_up(&w.s);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(w.got, 1);
}

TEST_PROCS(futex_wait_of_cancelled_green_thread_continues)
{
	thread_run(procs, cancel_green);
}

/* --- other calls --- */

POSIX_TEST(syscall_other_numbers_reach_the_kernel)
{
	char *at;

	errno = 77;
	CHECK_EQ(syscall(SYS_getpid), getpid());
	CHECK_EQ(errno, 77);
	CHECK_ERRNO((int)syscall(SYS_close, -1), EBADF);
	at = (char *)syscall(SYS_mmap, NULL, 4096L, (long)(PROT_READ | PROT_WRITE),
			     (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1L, 0L);
	CHECK(at != MAP_FAILED);
	*at = 1;
	CHECK_EQ(syscall(SYS_munmap, at, 4096L), 0);
}
