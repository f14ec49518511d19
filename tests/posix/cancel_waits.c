/* SPDX-License-Identifier: MIT */
/*
 * Tests pthread_cancel of threads that wait: each wait ends, cleanup handlers run, and
 * PTHREAD_CANCEL_DISABLE keeps the wait.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>

#include "fds.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond;
static sem_t begun, sem;
static pthread_t sleeper;
static int pair[2], listener, ep;
static pid_t child;
static bool disables, condition;
static int cleaned;

static void clean(void *locked)
{
	cleaned++;
	if (locked) /* an error-checking mutex: the caller owns it */
		CHECK_EQ(pthread_mutex_unlock(locked), 0);
}

/* --- the waits, of which each returns when let_go has run --- */

static void wait_read(void)
{
	char c;

	CHECK_EQ(read(pair[0], &c, 1), 1);
}

static void wait_recv(void)
{
	char c;

	CHECK_EQ(recv(pair[0], &c, 1, 0), 1);
}

static void wait_accept(void)
{
	int fd = accept(listener, NULL, NULL);

	CHECK(fd >= 0);
	close(fd);
}

static void wait_poll(void)
{
	struct pollfd p = { .fd = pair[0], .events = POLLIN };

	CHECK_EQ(poll(&p, 1, -1), 1);
}

static void wait_select(void)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(pair[0], &in);
	CHECK_EQ(select(pair[0] + 1, &in, NULL, NULL, NULL), 1);
}

static void wait_epoll(void)
{
	struct epoll_event e;

	CHECK_EQ(epoll_wait(ep, &e, 1, -1), 1);
}

static void wait_sem(void)
{
	CHECK_EQ(sem_wait(&sem), 0);
}

static void wait_sem_timed(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 100;
	CHECK_EQ(sem_timedwait(&sem, &t), 0);
}

static void wait_cond(void)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	pthread_cleanup_push(clean, &mutex);
	while (!condition)
		CHECK_EQ(pthread_cond_wait(&cond, &mutex), 0);
	pthread_cleanup_pop(0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void wait_cond_timed(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 100;
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	pthread_cleanup_push(clean, &mutex);
	while (!condition)
		CHECK_EQ(pthread_cond_timedwait(&cond, &mutex, &t), 0);
	pthread_cleanup_pop(0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void wait_nanosleep(void)
{
	struct timespec t = { disables ? 0 : 100, 1000000 };

	CHECK_EQ(nanosleep(&t, NULL), 0);
}

static void wait_join(void)
{
	CHECK_EQ(pthread_join(sleeper, NULL), 0);
}

static void wait_child(void)
{
	CHECK_EQ(waitpid(child, NULL, 0), child);
}

static sigset_t awaited;

static void wait_sigwait(void)
{
	int signo;

	CHECK_EQ(sigwait(&awaited, &signo), 0);
	CHECK_EQ(signo, SIGUSR1);
}

static void wait_sigtimedwait(void)
{
	struct timespec t = { 100, 0 };

	CHECK_EQ(sigtimedwait(&awaited, NULL, &t), SIGUSR1);
}

static bool waits_for_signal(void (*wait)(void))
{
	return wait == wait_sigwait || wait == wait_sigtimedwait;
}

static void *sleep_until_told(void *arg)
{
	while (sem_wait(&sem))
		CHECK_EQ(errno, EINTR);
	return arg;
}

/* --- a case --- */

static void open_all(void (*wait)(void))
{
	struct epoll_event e = { .events = EPOLLIN };
	pthread_mutexattr_t a;
	struct sockaddr_in in;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
	CHECK_EQ(pthread_mutex_init(&mutex, &a), 0);
	CHECK_EQ(pthread_cond_init(&cond, NULL), 0);
	CHECK_EQ(sem_init(&begun, 0, 0), 0);
	CHECK_EQ(sem_init(&sem, 0, 0), 0);
	condition = false;
	cleaned = 0;
	unix_pair(pair);
	listener = tcp_listener(&in, 1);
	ep = epoll_create1(0);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, pair[0], &e), 0);
	sigemptyset(&awaited);
	if (waits_for_signal(wait))
		sigaddset(&awaited, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &awaited, NULL), 0);
	if (wait == wait_join)
		CHECK_EQ(pthread_create(&sleeper, NULL, sleep_until_told, NULL), 0);
	child = wait == wait_child ? fork() : -1;
	if (child == 0)
		for (;;)
			pause();
}

/* End the wait. */
static void let_go(void)
{
	struct sockaddr_in a;
	socklen_t n = sizeof(a);

	CHECK_EQ(write(pair[1], "x", 1), 1);
	CHECK_EQ(sem_post(&sem), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	condition = true;
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(pthread_cond_signal(&cond), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&a, &n), 0);
	close(tcp_connect(&a));
	if (child > 0)
		CHECK_EQ(kill(child, SIGKILL), 0);
	if (sigismember(&awaited, SIGUSR1))
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
}

static void close_all(void (*wait)(void), bool cancelled)
{
	if (cancelled && wait == wait_join)
		CHECK_EQ(pthread_join(sleeper, NULL), 0);
	if (cancelled && waits_for_signal(wait))
		CHECK_EQ(sigwaitinfo(&awaited, NULL), SIGUSR1);
	if (cancelled && wait == wait_child)
		CHECK_EQ(waitpid(child, NULL, 0), child);
	close_pair(pair);
	close(listener);
	close(ep);
}

static void *waiter(void *wait)
{
	if (disables)
		CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	pthread_cleanup_push(clean, NULL);
	CHECK_EQ(sem_post(&begun), 0);
	(*(void (**)(void))wait)();
	pthread_cleanup_pop(0);
	return wait;
}

/* The request comes before the wait, at its start, or while it lasts. */
static void cancel_once(void (*wait)(void), int yields)
{
	pthread_t t;
	void *value;

	open_all(wait);
	CHECK_EQ(pthread_create(&t, NULL, waiter, &wait), 0);
	while (sem_wait(&begun))
		CHECK_EQ(errno, EINTR);
	for (int i = 0; i < yields; i++)
		sched_yield();
	CHECK_EQ(pthread_cancel(t), 0);
	if (disables)
		let_go();
	CHECK_EQ(pthread_join(t, &value), 0);
	if (disables) {
		CHECK(value == &wait);
		CHECK_EQ(cleaned, 0);
	} else {
		CHECK(value == PTHREAD_CANCELED);
		CHECK_EQ(cleaned, wait == wait_cond || wait == wait_cond_timed ? 2 : 1);
		let_go();
	}
	close_all(wait, !disables);
}

static void expect_cancelled(void (*wait)(void))
{
	for (int i = 0; i < 8; i++) {
		disables = false;
		cancel_once(wait, i);
		disables = true;
		cancel_once(wait, i);
	}
}

POSIX_TEST(cancel_ends_read)
{
	expect_cancelled(wait_read);
	expect_cancelled(wait_recv);
}

POSIX_TEST(cancel_ends_accept)
{
	expect_cancelled(wait_accept);
}

POSIX_TEST(cancel_ends_poll)
{
	expect_cancelled(wait_poll);
	expect_cancelled(wait_select);
	expect_cancelled(wait_epoll);
}

POSIX_TEST(cancel_ends_sem_wait)
{
	expect_cancelled(wait_sem);
	expect_cancelled(wait_sem_timed);
}

POSIX_TEST(cancel_ends_cond_wait_with_the_mutex_locked)
{
	expect_cancelled(wait_cond);
	expect_cancelled(wait_cond_timed);
}

POSIX_TEST(cancel_ends_nanosleep)
{
	expect_cancelled(wait_nanosleep);
}

POSIX_TEST(cancel_ends_join)
{
	expect_cancelled(wait_join);
}

POSIX_TEST(cancel_ends_waitpid)
{
	expect_cancelled(wait_child);
}

POSIX_TEST(cancel_ends_sigwait)
{
	expect_cancelled(wait_sigwait);
	expect_cancelled(wait_sigtimedwait);
}

static void *pause_without_handler(void *arg)
{
	CHECK_EQ(sem_post(&begun), 0);
	pause();
	return arg;
}

POSIX_TEST(cancel_ends_pause_without_a_handler)
{
	pthread_t t;
	void *value;

	for (int yields = 0; yields < 8; yields++) {
		CHECK_EQ(sem_init(&begun, 0, 0), 0);
		CHECK_EQ(pthread_create(&t, NULL, pause_without_handler, NULL), 0);
		CHECK_EQ(sem_wait(&begun), 0);
		for (int i = 0; i < yields; i++)
			sched_yield();
		CHECK_EQ(pthread_cancel(t), 0);
		CHECK_EQ(pthread_join(t, &value), 0);
		CHECK(value == PTHREAD_CANCELED);
	}
}
