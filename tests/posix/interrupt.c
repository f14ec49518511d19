/* SPDX-License-Identifier: MIT */
/*
 * Tests signal handlers during waits of main: which waits end with EINTR, which continue, and that
 * the handler runs on main.  The timer repeats, so a signal before a wait does no harm.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "fds.h"
#include "waits_continued.h"

static volatile sig_atomic_t ran, elsewhere, over;
static pthread_t main_self;
static sem_t handled;

static void note(int signo)
{
	(void)signo;
	ran++;
	if (!over && !pthread_equal(pthread_self(), main_self))
		elsewhere++;
	sem_post(&handled);
}

static void set_timer(int ms)
{
	struct itimerval t = { { 0, ms * 1000 }, { 0, ms * 1000 } };

	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
}

static void begin(int flags)
{
	struct sigaction sa = { .sa_handler = note, .sa_flags = flags };

	ran = elsewhere = over = 0;
	main_self = pthread_self();
	CHECK_EQ(sigaction(SIGALRM, &sa, NULL), 0);
	set_timer(5);
}

static void end(void)
{
	over = 1;
	set_timer(0);
	CHECK_EQ(elsewhere, 0);
	CHECK(ran > 0);
}

/* --- EINTR --- */

static int do_sem_clockwait(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += 100;
	return sem_clockwait(&sem, CLOCK_MONOTONIC, &t);
}

static uint32_t word;

static int do_futex(void)
{
	return (int)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static int do_futex_timed(void)
{
	struct timespec t = { .tv_sec = 100 };

	return (int)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
}

/* flags: of the handler. */
static void expect_eintr(int (*call)(void), int flags)
{
	CHECK_EQ(sem_init(&handled, 0, 0), 0);
	CHECK_EQ(sem_init(&sem, 0, 0), 0);
	unix_pair(pair);
	begin(flags);
	CHECK_ERRNO(call(), EINTR);
	end();
	close_pair(pair);
}

POSIX_TEST(accept_handler_is_eintr)
{
	expect_eintr(do_accept, 0);
}

POSIX_TEST(connect_handler_is_eintr)
{
	expect_eintr(do_connect, 0);
}

POSIX_TEST(read_handler_is_eintr)
{
	expect_eintr(do_read, 0);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* of siginterrupt */

static int do_read_after_siginterrupt(void)
{
	CHECK_EQ(siginterrupt(SIGALRM, 1), 0);
	return do_read();
}

POSIX_TEST(read_handler_after_siginterrupt_is_eintr)
{
	expect_eintr(do_read_after_siginterrupt, SA_RESTART);
}

static int do_read_timed(void)
{
	struct timeval t = { 100, 0 };

	CHECK_EQ(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)), 0);
	return do_read();
}

/* Also with SA_RESTART, as on Linux. */
POSIX_TEST(read_with_timeout_handler_is_eintr)
{
	expect_eintr(do_read_timed, 0);
	expect_eintr(do_read_timed, SA_RESTART);
}

POSIX_TEST(poll_handler_is_eintr)
{
	for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
		expect_eintr(do_poll, flags);
		expect_eintr(do_select, flags);
		expect_eintr(do_epoll, flags);
	}
}

POSIX_TEST(sem_wait_handler_is_eintr)
{
	expect_eintr(do_sem_wait, 0);
}

POSIX_TEST(sem_timedwait_handler_is_eintr)
{
	for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
		expect_eintr(do_sem_timedwait, flags);
		expect_eintr(do_sem_clockwait, flags);
	}
}

POSIX_TEST(futex_wait_handler_is_eintr)
{
	expect_eintr(do_futex, 0);
	for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART)
		expect_eintr(do_futex_timed, flags);
}

/* --- waits that continue; another thread ends them after some handlers --- */

static pthread_once_t once;
static pthread_t other;
static sem_t begun;
static int calls;

/* Main may wait now, and its handler runs three times. */
static void let_handlers_run(void)
{
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &alarm, NULL), 0);
	CHECK_EQ(sem_post(&begun), 0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(sem_wait(&handled), 0);
}

static void *hold_mutex(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	let_handlers_run();
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return arg;
}

static void wait_mutex_timed(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 100;
	CHECK_EQ(pthread_mutex_timedlock(&mutex, &t), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void *hold_rwlock(void *arg)
{
	CHECK_EQ(pthread_rwlock_wrlock(&rwlock), 0);
	let_handlers_run();
	CHECK_EQ(pthread_rwlock_unlock(&rwlock), 0);
	return arg;
}

static void wait_writer(void)
{
	CHECK_EQ(pthread_rwlock_wrlock(&rwlock), 0);
	CHECK_EQ(pthread_rwlock_unlock(&rwlock), 0);
}

static void *arrive(void *arg)
{
	let_handlers_run();
	pthread_barrier_wait(&barrier);
	return arg;
}

static void *meet(void *arg)
{
	let_handlers_run();
	satisfy_cond();
	return arg;
}

static void call_once(void)
{
	calls++;
	let_handlers_run();
}

static void *hold_once(void *arg)
{
	CHECK_EQ(pthread_once(&once, call_once), 0);
	return arg;
}

static void wait_once(void)
{
	CHECK_EQ(pthread_once(&once, call_once), 0);
	CHECK_EQ(calls, 1);
}

static void *post(void *arg)
{
	let_handlers_run();
	CHECK_EQ(sem_post(&sem), 0);
	return arg;
}

static void *wake_word(void *arg)
{
	let_handlers_run();
	while (syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) != 1)
		sched_yield();
	return arg;
}

static void wait_futex(void)
{
	CHECK_EQ(do_futex(), 0);
}

static void *write_one(void *arg)
{
	let_handlers_run();
	CHECK_EQ(write(pair[1], "x", 1), 1);
	return arg;
}

static void *end_later(void *arg)
{
	let_handlers_run();
	return arg;
}

static void wait_join(void)
{
	CHECK_EQ(pthread_join(other, NULL), 0);
}

static void expect_continues(void *(*fn)(void *), void (*wait)(void), int flags)
{
	waits_begin();
	CHECK_EQ(sem_init(&begun, 0, 0), 0);
	CHECK_EQ(sem_init(&handled, 0, 0), 0);
	CHECK_EQ(sem_init(&sem, 0, 0), 0);
	unix_pair(pair);
	once = PTHREAD_ONCE_INIT;
	calls = 0;
	CHECK_EQ(pthread_create(&other, NULL, fn, NULL), 0);
	while (sem_wait(&begun))
		CHECK_EQ(errno, EINTR);
	begin(flags);
	errno = 5;
	wait();
	CHECK_EQ(errno, 5);
	end();
	if (wait != wait_join)
		CHECK_EQ(pthread_join(other, NULL), 0);
	close_pair(pair);
}

POSIX_TEST(mutex_lock_continues_after_a_handler)
{
	expect_continues(hold_mutex, wait_mutex, 0);
	expect_continues(hold_mutex, wait_mutex_timed, 0);
}

POSIX_TEST(rwlock_continues_after_a_handler)
{
	expect_continues(hold_rwlock, wait_reader, 0);
	expect_continues(hold_rwlock, wait_writer, 0);
}

POSIX_TEST(barrier_wait_continues_after_a_handler)
{
	expect_continues(arrive, wait_barrier, 0);
}

POSIX_TEST(cond_wait_continues_after_a_handler)
{
	expect_continues(meet, wait_cond, 0);
}

POSIX_TEST(once_continues_after_a_handler)
{
	expect_continues(hold_once, wait_once, 0);
}

POSIX_TEST(join_continues_after_a_handler)
{
	expect_continues(end_later, wait_join, 0);
}

POSIX_TEST(sem_wait_restarts)
{
	expect_continues(post, wait_sem, SA_RESTART);
}

POSIX_TEST(read_restarts)
{
	expect_continues(write_one, wait_read, SA_RESTART);
}

static void wait_read_without_siginterrupt(void)
{
	CHECK_EQ(siginterrupt(SIGALRM, 0), 0);
	wait_read();
}

POSIX_TEST(read_after_siginterrupt_0_restarts)
{
	expect_continues(write_one, wait_read_without_siginterrupt, SA_RESTART);
}

POSIX_TEST(futex_wait_restarts)
{
	expect_continues(wake_word, wait_futex, SA_RESTART);
}
