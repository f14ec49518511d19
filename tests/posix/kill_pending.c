/* SPDX-License-Identifier: MIT */
/*
 * Tests signals that are pending for one thread: pthread_kill and raise of signals that the thread
 * blocks, that have the default action, or that meet it in a handler, in a call with a mask, or in
 * blocking code.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/wait.h>

#include "fds.h"
#include "start.h"
#include "threads.h"

static int ran, elsewhere, done, code;
static pthread_t target;
static sem_t sem, begun;

static void note(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	if (!pthread_equal(pthread_self(), target))
		thread_count(&elsewhere);
	code = info->si_code;
	thread_count(&ran);
}

static void handle(int signo, void (*fn)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = { .sa_sigaction = fn, .sa_flags = flags | SA_SIGINFO };

	CHECK_EQ(sigaction(signo, &sa, NULL), 0);
}

static void begin(void)
{
	ran = elsewhere = done = code = 0;
	CHECK_EQ(sem_init(&sem, 0, 0), 0);
	CHECK_EQ(sem_init(&begun, 0, 0), 0);
	handle(SIGUSR1, note, 0);
}

static sigset_t only(int signo)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	return set;
}

static bool is_pending(int signo)
{
	sigset_t set;

	CHECK_EQ(sigpending(&set), 0);
	return sigismember(&set, signo);
}

/* fn runs in a thread of pthread_create. */
static void in_thread(void *(*fn)(void *))
{
	begin();
	join(start(fn, NULL));
	CHECK_EQ(elsewhere, 0);
}

/* The thread has set target when this returns. */
static pthread_t start_target(void *(*fn)(void *), void *arg)
{
	pthread_t t = start(fn, arg);

	CHECK_EQ(sem_wait(&begun), 0);
	return t;
}

static void begin_target(void)
{
	target = pthread_self();
	CHECK_EQ(sem_post(&begun), 0);
}

/* --- of the thread to itself --- */

static void *raise_runs(void *arg)
{
	target = pthread_self();
	errno = 5;
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(raise(SIGUSR1), 0);
		CHECK_EQ(ran, 2 * i + 1);
		CHECK_EQ(code, SI_TKILL);
		CHECK_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
		CHECK_EQ(ran, 2 * i + 2);
	}
	CHECK_EQ(errno, 5);
	return arg;
}

POSIX_TEST(raise_runs_the_handler_before_it_returns)
{
	in_thread(raise_runs);
	begin();
	raise_runs(NULL);
}

static void *raise_blocked(void *arg)
{
	struct timespec soon = { 0, 1000000 };

	target = pthread_self();
	mask(SIG_BLOCK, SIGUSR1);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(pthread_kill(pthread_self(), SIGUSR1), 0);
	CHECK_EQ(nanosleep(&soon, NULL), 0); /* a green thread may continue on another OS thread */
	CHECK_EQ(ran, 0);
	CHECK(is_pending(SIGUSR1));
	mask(SIG_UNBLOCK, SIGUSR1);
	CHECK_EQ(ran, 1);
	CHECK(!is_pending(SIGUSR1));
	return arg;
}

POSIX_TEST(raise_of_blocked_signal_waits_until_it_is_unblocked)
{
	for (int i = 0; i < 10; i++)
		in_thread(raise_blocked);
}

static int inner;

static void raise_again(int signo, siginfo_t *info, void *context)
{
	note(signo, info, context);
	if (ran > 1)
		return;
	CHECK_EQ(raise(signo), 0);
	inner = ran;
}

static void *raise_in_handler(void *arg)
{
	target = pthread_self();
	handle(SIGUSR1, raise_again, 0);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(inner, 1); /* the kernel blocks the signal in its handler */
	CHECK_EQ(ran, 2);
	return arg;
}

POSIX_TEST(raise_in_the_handler_runs_it_again_after_its_end)
{
	in_thread(raise_in_handler);
}

POSIX_TEST(raise_bad_signal_is_einval)
{
	CHECK_ERRNO(raise(1000), EINVAL);
	CHECK_ERRNO(raise(-1), EINVAL);
	CHECK_EQ(raise(0), 0);
}

static void *raise_ignored(void *arg)
{
	CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(raise(SIGCHLD), 0);
	CHECK(!is_pending(SIGUSR1));
	return arg;
}

POSIX_TEST(raise_of_ignored_signal_does_nothing)
{
	in_thread(raise_ignored);
}

/* --- pending signals and actions --- */

static void *take_default(void *arg)
{
	sigset_t set = only(SIGUSR2);
	int signo;

	mask(SIG_BLOCK, SIGUSR2);
	begin_target();
	CHECK_EQ(sem_wait(&sem), 0);
	CHECK(is_pending(SIGUSR2));
	CHECK_EQ(sigwait(&set, &signo), 0);
	CHECK_EQ(signo, SIGUSR2);
	CHECK(!is_pending(SIGUSR2));
	return arg;
}

POSIX_TEST(kill_of_blocked_signal_with_default_action_waits_for_sigwait)
{
	skip_under_chaos();
	begin();
	CHECK(signal(SIGUSR2, SIG_DFL) != SIG_ERR);
	pthread_t t = start_target(take_default, NULL);

	CHECK_EQ(pthread_kill(t, SIGUSR2), 0);
	CHECK(!is_pending(SIGUSR2)); /* the caller has none */
	CHECK_EQ(sem_post(&sem), 0);
	join(t);
}

static void *expect_discarded(void *arg)
{
	mask(SIG_BLOCK, SIGUSR1);
	begin_target();
	CHECK_EQ(sem_wait(&sem), 0);
	CHECK(!is_pending(SIGUSR1));
	mask(SIG_UNBLOCK, SIGUSR1);
	CHECK_EQ(ran, 0);
	return arg;
}

POSIX_TEST(kill_pending_signal_is_discarded_when_it_is_ignored)
{
	begin();
	pthread_t t = start_target(expect_discarded, NULL);

	CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
	CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
	handle(SIGUSR1, note, 0);
	CHECK_EQ(sem_post(&sem), 0);
	join(t);
}

static void *unblock_and_die(void *arg)
{
	target = pthread_self();
	mask(SIG_BLOCK, SIGUSR2);
	CHECK_EQ(raise(SIGUSR2), 0);
	mask(SIG_UNBLOCK, SIGUSR2);
	return arg;
}

static void die(void)
{
	CHECK(signal(SIGUSR2, SIG_DFL) != SIG_ERR);
	in_thread(unblock_and_die);
}

enum { NO_OWN_TLS = 77 };

/* The run is in a child. */
static void test_default_action(int procs)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		struct posix_case c = { die, procs };

		if (procs == 0)
			die();
		_exit(try_own(procs, 0, posix_green, &c) == -ENOTSUP ? NO_OWN_TLS : 0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_OWN_TLS)
		check_skip("no own thread-locals on this machine");
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGUSR2);
}

CHECK_CASE_(default_action_0, "raise_pending_default_action_ends_the_process/native",
	    test_default_action, 0)
CHECK_CASE_(default_action_1, "raise_pending_default_action_ends_the_process/1p",
	    test_default_action, 1)
CHECK_CASE_(default_action_2, "raise_pending_default_action_ends_the_process/2p",
	    test_default_action, 2)

static int inside, too_early;

static void note_inside(int signo, siginfo_t *info, void *context)
{
	note(signo, info, context);
	if (__atomic_load_n(&inside, __ATOMIC_RELAXED))
		thread_count(&too_early);
}

static void *block_often(void *arg)
{
	begin_target();
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		mask(SIG_BLOCK, SIGUSR1);
		__atomic_store_n(&inside, 1, __ATOMIC_RELAXED);
		for (int i = 0; i < 100; i++)
			__asm__ volatile("");
		__atomic_store_n(&inside, 0, __ATOMIC_RELAXED);
		mask(SIG_UNBLOCK, SIGUSR1);
	}
	return arg;
}

POSIX_TEST(kill_runs_no_handler_while_the_signal_is_blocked)
{
	enum { TIMES = 2000 };

	begin();
	too_early = 0;
	handle(SIGUSR1, note_inside, 0);
	pthread_t t = start_target(block_often, NULL);

	for (int i = 1; i <= TIMES; i++) {
		CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
		thread_await(&ran, i);
	}
	thread_count(&done);
	join(t);
	CHECK_EQ(elsewhere, 0);
	CHECK_EQ(too_early, 0);
}

/* --- two threads, one signal --- */

static void *take_own(void *arg)
{
	sigset_t set = only(SIGUSR1);
	int signo;

	mask(SIG_BLOCK, SIGUSR1);
	CHECK_EQ(sem_post(&begun), 0);
	CHECK_EQ(sem_wait(&sem), 0);
	CHECK_EQ(sigwait(&set, &signo), 0);
	return arg;
}

POSIX_TEST(kill_of_two_threads_is_pending_for_both)
{
	skip_under_chaos();
	begin();
	pthread_t a = start_target(take_own, NULL), b = start_target(take_own, NULL);

	CHECK_EQ(pthread_kill(a, SIGUSR1), 0);
	CHECK_EQ(pthread_kill(b, SIGUSR1), 0);
	CHECK_EQ(sem_post(&sem), 0);
	CHECK_EQ(sem_post(&sem), 0);
	join(a);
	join(b);
	CHECK_EQ(ran, 0);
}

/* --- queued signals --- */

enum { QUEUED = 8 };

static void *take_queued(void *arg)
{
	sigset_t set = only(SIGUSR1);
	siginfo_t info;
	unsigned values = 0;

	begin_target();
	CHECK_EQ(sem_wait(&sem), 0);
	CHECK_EQ(sigwaitinfo(&set, &info), SIGUSR1);
	set = only(SIGRTMIN);
	for (int i = 0; i < QUEUED; i++) {
		CHECK_EQ(sigwaitinfo(&set, &info), SIGRTMIN);
		values |= 1u << info.si_value.sival_int;
	}
	CHECK_EQ(values, (1u << QUEUED) - 1);
	return arg;
}

POSIX_TEST(kill_of_sigwaitinfo_loses_no_queued_signal)
{
	skip_under_chaos();
	begin();
	mask(SIG_BLOCK, SIGUSR1);
	mask(SIG_BLOCK, SIGRTMIN);
	pthread_t t = start_target(take_queued, NULL);

	for (int i = 0; i < QUEUED; i++)
		CHECK_EQ(sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = i }), 0);
	CHECK_EQ(sem_post(&sem), 0);
	CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
	join(t);
	mask(SIG_UNBLOCK, SIGUSR1);
	CHECK_EQ(ran, 0);
}

/* --- calls with a mask --- */

static int pair[2];

static int do_ppoll(const sigset_t *set)
{
	struct pollfd p = { .fd = pair[0], .events = POLLIN };

	return ppoll(&p, 1, NULL, set);
}

static int do_pselect(const sigset_t *set)
{
	fd_set in;

	FD_ZERO(&in);
	FD_SET(pair[0], &in);
	return pselect(pair[0] + 1, &in, NULL, NULL, NULL, set);
}

static int do_epoll_pwait(const sigset_t *set)
{
	struct epoll_event e;
	int ep = epoll_create1(0), result = epoll_pwait(ep, &e, 1, -1, set), err = errno;

	close(ep);
	errno = err;
	return result;
}

static void *call_masked(void *call)
{
	sigset_t none;

	sigemptyset(&none);
	mask(SIG_BLOCK, SIGUSR1);
	begin_target();
	CHECK_ERRNO((*(int (**)(const sigset_t *))call)(&none), EINTR);
	CHECK_EQ(ran, 1);
	return NULL;
}

static void expect_masked_eintr(int (*call)(const sigset_t *))
{
	begin();
	unix_pair(pair);
	pthread_t t = start_target(call_masked, &call);

	CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
	join(t);
	CHECK_EQ(elsewhere, 0);
	close_pair(pair);
}

POSIX_TEST(kill_ends_a_call_with_a_mask)
{
	skip_under_chaos();
	for (int i = 0; i < 20; i++) {
		expect_masked_eintr(do_ppoll);
		expect_masked_eintr(do_pselect);
		expect_masked_eintr(do_epoll_pwait);
	}
}

/* --- handlers that send signals --- */

static pthread_t other;

static void answer(int signo, siginfo_t *info, void *context)
{
	note(signo, info, context);
	CHECK_EQ(pthread_kill(other, SIGUSR2), 0);
}

static void *nothing(void *arg)
{
	return arg;
}

/* Takes the lock of the table of threads all the time. */
static void *create_threads(void *arg)
{
	begin_target();
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		join(start(nothing, NULL));
	return arg;
}

static void *wait_done(void *arg)
{
	CHECK_EQ(sem_post(&begun), 0);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		sched_yield();
	return arg;
}

static int answers;

static void count_answer(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)info;
	(void)context;
	thread_count(&answers);
}

POSIX_TEST(kill_in_a_handler_that_interrupts_create_and_join)
{
	enum { TIMES = 3000 };

	begin();
	answers = 0;
	other = start_target(wait_done, NULL);
	handle(SIGUSR1, answer, SA_RESTART);
	handle(SIGUSR2, count_answer, SA_RESTART);
	pthread_t t = start_target(create_threads, NULL);

	for (int i = 1; i <= TIMES; i++) {
		CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
		thread_await(&ran, i);
	}
	thread_await(&answers, 1);
	thread_count(&done);
	join(t);
	join(other);
	CHECK_EQ(elsewhere, 0);
	CHECK(answers > 0);
}

/* Its handler blocks SIGUSR2 and runs for longer than the signal thread tries. */
static void compute_in_handler(int signo, siginfo_t *info, void *context)
{
	struct timespec now, end = time_in(CLOCK_MONOTONIC, 20);

	note(signo, info, context);
	CHECK_EQ(sem_post(&begun), 0);
	do
		CHECK_EQ(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
	CHECK_EQ(answers, 0);
}

static void *wait_answer(void *arg)
{
	begin_target();
	while (!__atomic_load_n(&answers, __ATOMIC_ACQUIRE))
		sched_yield();
	return arg;
}

POSIX_TEST(kill_waits_for_the_end_of_a_handler_that_blocks_it)
{
	struct sigaction sa = { .sa_sigaction = compute_in_handler, .sa_flags = SA_SIGINFO };

	begin();
	answers = 0;
	sa.sa_mask = only(SIGUSR2);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	handle(SIGUSR2, count_answer, 0);
	pthread_t t = start_target(wait_answer, NULL);

	CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
	CHECK_EQ(sem_wait(&begun), 0);
	CHECK_EQ(pthread_kill(t, SIGUSR2), 0);
	join(t);
	CHECK_EQ(elsewhere, 0);
}

/* --- blocking code on an OS thread with the mask of another thread --- */

static void *hop(void *arg)
{
	struct timespec soon = { 0, 100000 };

	mask(SIG_BLOCK, SIGUSR1);
	mask(SIG_UNBLOCK, SIGUSR2); /* main blocks it: the thread handles it */
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		nanosleep(&soon, NULL);
	return arg;
}

static void *lock_file(void *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	begin_target();
	CHECK_ERRNO(flock(fd, LOCK_EX), EINTR);
	CHECK_EQ(close(fd), 0);
	return NULL;
}

POSIX_TEST(kill_ends_blocking_code_on_any_os_thread)
{
	enum { HOPPERS = 4 };
	char path[] = "/tmp/kill_pending.XXXXXX";
	pthread_t hopper[HOPPERS];

	skip_under_chaos();
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	CHECK_EQ(flock(fd, LOCK_EX), 0);
	begin();
	mask(SIG_BLOCK, SIGUSR2);
	for (int i = 0; i < HOPPERS; i++)
		hopper[i] = start(hop, NULL);
	for (int i = 0; i < 20; i++) {
		pthread_t t = start_target(lock_file, path);

		do {
			CHECK_EQ(pthread_kill(t, SIGUSR1), 0);
			thread_pass();
		} while (pthread_tryjoin_np(t, NULL));
	}
	CHECK_EQ(elsewhere, 0);
	thread_count(&done);
	for (int i = 0; i < HOPPERS; i++)
		join(hopper[i]);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(close(fd), 0);
}

/* --- SA_RESETHAND --- */

POSIX_TEST(resethand_handler_runs_once_wherever_the_signal_arrives)
{
	struct sigaction now;

	begin();
	target = pthread_self();
	for (int i = 1; i <= 50; i++) {
		handle(SIGUSR1, note, SA_RESETHAND);
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		thread_await(&ran, i);
		CHECK_EQ(sigaction(SIGUSR1, NULL, &now), 0);
		CHECK(now.sa_handler == SIG_DFL);
	}
	CHECK_EQ(elsewhere, 0);
}

static void *send_reset(void *arg)
{
	for (int i = 1; i <= 50; i++) {
		handle(SIGUSR1, note, SA_RESETHAND);
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		thread_await(&ran, i);
	}
	thread_count(&done);
	return arg;
}

POSIX_TEST(resethand_handler_of_a_signal_from_another_thread_runs_once)
{
	begin();
	target = pthread_self();
	pthread_t t = start(send_reset, NULL);

	thread_await(&done, 1);
	join(t);
	CHECK_EQ(ran, 50);
}
