/* SPDX-License-Identifier: MIT */
/* Tests handlers, masks and the functions that wait for signals. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "posix.h"

enum { MS = 1000000 };

static volatile sig_atomic_t ran, last, code, value, in_main;
static pthread_t main_self;

static void count(int signo)
{
	ran++;
	last = signo;
	in_main = pthread_equal(pthread_self(), main_self);
}

static void count_info(int signo, siginfo_t *info, void *context)
{
	count(signo);
	code = info->si_code;
	value = info->si_value.sival_int;
	CHECK(context != NULL);
	CHECK_EQ(info->si_signo, signo);
}

/* Begin a case: install the handler. */
static void handle(int signo, void (*fn)(int), int flags)
{
	struct sigaction sa = { .sa_handler = fn, .sa_flags = flags };

	ran = last = code = value = in_main = 0;
	main_self = pthread_self();
	CHECK_EQ(sigaction(signo, &sa, NULL), 0);
}

static void set_of(sigset_t *set, int signo)
{
	sigemptyset(set);
	sigaddset(set, signo);
}

static void send_value(int signo, int n)
{
	union sigval v = { .sival_int = n };

	CHECK_EQ(sigqueue(getpid(), signo, v), 0);
}

/* SIGALRM after so many ms, and again: the first one may come before the call. */
static void alarm_in(int ms)
{
	struct itimerval t = { .it_value = { 0, ms * 1000 }, .it_interval = { 0, 200000 } };

	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
}

static void alarm_once(int ms)
{
	struct itimerval t = { .it_value = { 0, ms * 1000 } };

	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
}

/* End a case of alarm_in. */
static void no_alarm(void)
{
	struct itimerval t = { .it_value = { 0, 0 } };

	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
	signal(SIGALRM, SIG_DFL);
}

/* A handler runs no later than that after the signal, if no wait shows when. */
static void wait_ran(int n)
{
	int64_t until = gmp_now() + 5000 * (int64_t)MS;

	while (ran < n && gmp_now() < until)
		;
	CHECK_EQ(ran, n);
}

/* Another OS thread may have the signal first, and makes it pending. */
static void wait_pending(int signo)
{
	sigset_t pending;

	do
		CHECK_EQ(sigpending(&pending), 0);
	while (!sigismember(&pending, signo));
}

/* --- sigaction and signal --- */

POSIX_TEST(sigaction_returns_the_programs_handler)
{
	struct sigaction sa = { .sa_handler = count, .sa_flags = SA_RESTART }, old;

	sigemptyset(&sa.sa_mask);
	sigaddset(&sa.sa_mask, SIGUSR2);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	CHECK_EQ(sigaction(SIGUSR1, NULL, &old), 0);
	CHECK(old.sa_handler == count);
	CHECK_EQ(old.sa_flags & (SA_SIGINFO | SA_RESTART), SA_RESTART);
	CHECK(sigismember(&old.sa_mask, SIGUSR2));
	CHECK(!sigismember(&old.sa_mask, SIGUSR1));
	sa.sa_handler = SIG_IGN;
	CHECK_EQ(sigaction(SIGUSR1, &sa, &old), 0);
	CHECK(old.sa_handler == count);
	sa.sa_handler = SIG_DFL;
	CHECK_EQ(sigaction(SIGUSR1, &sa, &old), 0);
	CHECK(old.sa_handler == SIG_IGN);
	CHECK_EQ(sigaction(SIGUSR1, NULL, &old), 0);
	CHECK(old.sa_handler == SIG_DFL);
}

POSIX_TEST(sigaction_bad_signal_is_einval)
{
	static const int bad[] = { 0, -1, 65, SIGKILL, SIGSTOP };
	struct sigaction sa = { .sa_handler = count };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CHECK_EQ(sigaction(bad[i], &sa, NULL), -1);
		CHECK_EQ(errno, EINVAL);
	}
}

POSIX_TEST(sigaction_success_leaves_errno)
{
	errno = ERANGE;
	struct sigaction sa = { .sa_handler = count };

	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	CHECK_EQ(errno, ERANGE);
	signal(SIGUSR1, SIG_DFL);
}

POSIX_TEST(sigaction_siginfo_has_code_and_value)
{
	struct sigaction sa = { .sa_sigaction = count_info, .sa_flags = SA_SIGINFO };

	handle(SIGUSR1, count, 0);
	CHECK_EQ(sigaction(SIGUSR1, &sa, NULL), 0);
	send_value(SIGUSR1, 42);
	wait_ran(1);
	CHECK_EQ(code, SI_QUEUE);
	CHECK_EQ(value, 42);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	wait_ran(2);
	CHECK_EQ(code, SI_USER);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(ran, 3);
	CHECK_EQ(code, SI_TKILL);
	signal(SIGUSR1, SIG_DFL);
}

POSIX_TEST(sigaction_resethand_runs_once)
{
	struct sigaction old;

	handle(SIGUSR1, count, SA_RESETHAND);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(ran, 1);
	CHECK_EQ(sigaction(SIGUSR1, NULL, &old), 0);
	CHECK(old.sa_handler == SIG_DFL);
}

static volatile sig_atomic_t deepest, depth;

static void nest(int signo)
{
	if (++depth > deepest)
		deepest = depth;
	if (ran++ == 0)
		raise(signo);
	depth--;
}

POSIX_TEST(sigaction_nodefer_nests)
{
	handle(SIGUSR1, nest, 0);
	deepest = depth = 0;
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(ran, 2);
	CHECK_EQ(deepest, 1);
	handle(SIGUSR1, nest, SA_NODEFER);
	deepest = depth = 0;
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(ran, 2);
	CHECK_EQ(deepest, 2);
	signal(SIGUSR1, SIG_DFL);
}

POSIX_TEST(signal_returns_the_former_handler)
{
	struct sigaction old;

	CHECK(signal(SIGUSR1, count) == SIG_DFL);
	CHECK_EQ(sigaction(SIGUSR1, NULL, &old), 0);
	CHECK_EQ(old.sa_flags & SA_RESTART, SA_RESTART);
	ran = 0;
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(ran, 1);
	CHECK(signal(SIGUSR1, SIG_IGN) == count);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(ran, 1);
	CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
}

POSIX_TEST(signal_bad_signal_is_einval)
{
	errno = 0;
	CHECK(signal(0, count) == SIG_ERR);
	CHECK_EQ(errno, EINVAL);
	errno = 0;
	CHECK(signal(SIGKILL, count) == SIG_ERR);
	CHECK_EQ(errno, EINVAL);
	errno = 0;
	CHECK(signal(SIGUSR1, SIG_ERR) == SIG_ERR);
	CHECK_EQ(errno, EINVAL);
}

/* --- calls in handlers --- */

static volatile sig_atomic_t slept;

static void sleeps(int signo)
{
	struct timespec t = { 0, 10 * MS };

	slept = nanosleep(&t, NULL) == 0;
	count(signo);
}

POSIX_TEST(sigaction_handler_may_sleep)
{
	handle(SIGUSR1, sleeps, 0);
	slept = 0;
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(ran, 1);
	CHECK_EQ(slept, 1);
	signal(SIGUSR1, SIG_DFL);
}

static sigjmp_buf back;

static void jump(int signo)
{
	(void)signo;
	ran++;
	siglongjmp(back, 1);
}

/* The usual timeout of programs without threads; a replaced call parks again afterwards. */
POSIX_TEST(signal_longjmp_ends_a_sleep)
{
	struct timespec t = { 60, 0 }, little = { 0, MS };

	handle(SIGALRM, jump, 0);
	for (volatile int i = 1; i <= 3; i++) {
		if (sigsetjmp(back, 1) == 0) {
			alarm_once(10);
			nanosleep(&t, NULL);
			CHECK(false);
		}
		CHECK_EQ(ran, i);
		CHECK_EQ(nanosleep(&little, NULL), 0);
	}
	no_alarm();
}

POSIX_TEST(signal_longjmp_ends_a_computation)
{
	handle(SIGALRM, jump, 0);
	if (sigsetjmp(back, 1) == 0) {
		alarm_once(10);
		for (;;)
			__asm__ volatile("");
	}
	CHECK_EQ(ran, 1);
	no_alarm();
}

/* --- EINTR --- */

POSIX_TEST(nanosleep_handler_is_eintr)
{
	struct timespec t = { 20, 0 }, rest = { 0 };
	int64_t began = gmp_now();

	for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
		handle(SIGALRM, count, flags); /* with SA_RESTART, too */
		alarm_in(20);
		errno = 0;
		CHECK_EQ(nanosleep(&t, &rest), -1);
		CHECK_EQ(errno, EINTR);
		CHECK(ran >= 1);
		CHECK_EQ(last, SIGALRM);
		CHECK(in_main);
		CHECK(rest.tv_sec >= 10 && rest.tv_sec < 20);
	}
	CHECK(gmp_now() - began < 10000 * (int64_t)MS);
	no_alarm();
}

POSIX_TEST(clock_nanosleep_handler_is_eintr)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME };

	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		struct timespec t = { 20, 0 }, rest = { 0 }, end;

		handle(SIGALRM, count, SA_RESTART);
		alarm_in(20);
		errno = ERANGE;
		CHECK_EQ(clock_nanosleep(clocks[i], 0, &t, &rest), EINTR);
		CHECK_EQ(errno, ERANGE);
		CHECK(rest.tv_sec >= 10 && rest.tv_sec < 20);
		clock_gettime(clocks[i], &end);
		end.tv_sec += 20;
		alarm_in(20);
		CHECK_EQ(clock_nanosleep(clocks[i], TIMER_ABSTIME, &end, NULL), EINTR);
		CHECK(ran >= 2);
	}
	no_alarm();
}

POSIX_TEST(sleep_handler_returns_the_rest)
{
	handle(SIGALRM, count, SA_RESTART);
	alarm_in(20);
	unsigned rest = sleep(20);

	CHECK(rest >= 10 && rest < 20);
	CHECK(ran >= 1);
	no_alarm();
}

POSIX_TEST(usleep_handler_is_eintr)
{
	handle(SIGALRM, count, SA_RESTART);
	alarm_in(20);
	errno = 0;
	CHECK_EQ(usleep(20000000), -1);
	CHECK_EQ(errno, EINTR);
	CHECK(ran >= 1);
	no_alarm();
}

static pid_t sleeping_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(1);
	}
	CHECK(pid > 0);
	return pid;
}

static void end_child(pid_t pid)
{
	int status;

	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
}

POSIX_TEST(waitpid_handler_is_eintr)
{
	pid_t pid = sleeping_child();

	handle(SIGALRM, count, 0);
	alarm_in(20);
	errno = 0;
	CHECK_EQ(waitpid(pid, NULL, 0), -1);
	CHECK_EQ(errno, EINTR);
	alarm_in(20);
	errno = 0;
	CHECK_EQ(waitpid(-1, NULL, 0), -1);
	CHECK_EQ(errno, EINTR);
	CHECK(ran >= 2);
	no_alarm();
	end_child(pid);
}

static pid_t victim;

static void kills(int signo)
{
	count(signo);
	if (ran == 3)
		kill(victim, SIGKILL);
}

POSIX_TEST(waitpid_restarts)
{
	int status;

	victim = sleeping_child();
	handle(SIGALRM, kills, SA_RESTART);
	alarm_in(20);
	CHECK_EQ(waitpid(victim, &status, 0), victim);
	CHECK(WIFSIGNALED(status));
	CHECK(ran >= 3);
	no_alarm();
}

static pid_t waited;

static void reaps(int signo)
{
	count(signo);
	waited = waitpid(-1, NULL, WNOHANG);
}

POSIX_TEST(waitpid_in_a_handler_of_sigchld)
{
	waited = 0;
	handle(SIGCHLD, reaps, 0);
	pid_t pid = fork();

	if (pid == 0) {
		usleep(20000);
		_exit(0);
	}
	while (!waited)
		usleep(10000);
	CHECK_EQ(waited, pid);
	signal(SIGCHLD, SIG_DFL);
}

/* --- pause and sigsuspend --- */

POSIX_TEST(pause_ends_with_a_handler)
{
	for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
		handle(SIGALRM, count, flags);
		alarm_in(20);
		errno = 0;
		CHECK_EQ(pause(), -1);
		CHECK_EQ(errno, EINTR);
		CHECK(ran >= 1);
		CHECK(in_main);
	}
	no_alarm();
}

POSIX_TEST(pause_ignored_signal_continues)
{
	handle(SIGALRM, count, 0);
	signal(SIGUSR1, SIG_IGN);
	pid_t pid = fork();

	while (pid == 0) {
		kill(getppid(), SIGUSR1);
		usleep(20000);
		kill(getppid(), SIGALRM);
	}
	CHECK_EQ(pause(), -1);
	CHECK(ran >= 1);
	CHECK_EQ(last, SIGALRM);
	signal(SIGALRM, SIG_IGN);
	end_child(pid);
	signal(SIGUSR1, SIG_DFL);
}

/* The signal is blocked except in sigsuspend, so none is missed. */
POSIX_TEST(sigsuspend_misses_no_signal)
{
	sigset_t block, old, open;

	handle(SIGUSR1, count, 0);
	set_of(&block, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &block, &old), 0);
	open = old;
	sigdelset(&open, SIGUSR1);
	for (int i = 1; i <= 20; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			kill(getppid(), SIGUSR1);
			_exit(0);
		}
		errno = 0;
		CHECK_EQ(sigsuspend(&open), -1);
		CHECK_EQ(errno, EINTR);
		CHECK_EQ(ran, i);
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
	}
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
	signal(SIGUSR1, SIG_DFL);
}

POSIX_TEST(sigsuspend_pending_signal_ends_at_once)
{
	sigset_t block, old, open, now;

	handle(SIGUSR1, count, SA_RESTART);
	set_of(&block, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &block, &old), 0);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	CHECK_EQ(ran, 0);
	sigemptyset(&open);
	CHECK_EQ(sigsuspend(&open), -1);
	CHECK_EQ(errno, EINTR);
	CHECK_EQ(ran, 1);
	CHECK_EQ(sigprocmask(SIG_SETMASK, NULL, &now), 0);
	CHECK(sigismember(&now, SIGUSR1));
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
	signal(SIGUSR1, SIG_DFL);
}

POSIX_TEST(sigsuspend_restores_the_mask)
{
	sigset_t open, old, now;

	handle(SIGALRM, count, 0);
	CHECK_EQ(sigprocmask(SIG_SETMASK, NULL, &old), 0);
	sigfillset(&open);
	sigdelset(&open, SIGALRM);
	alarm_in(20);
	CHECK_EQ(sigsuspend(&open), -1);
	CHECK(ran >= 1);
	CHECK_EQ(sigprocmask(SIG_SETMASK, NULL, &now), 0);
	for (int i = 1; i < 32; i++)
		CHECK_EQ(sigismember(&now, i), sigismember(&old, i));
	no_alarm();
}

/* --- masks --- */

POSIX_TEST(sigprocmask_bad_how_is_einval)
{
	sigset_t set;

	sigemptyset(&set);
	errno = 0;
	CHECK_EQ(sigprocmask(99, &set, NULL), -1);
	CHECK_EQ(errno, EINVAL);
	errno = ERANGE;
	CHECK_EQ(pthread_sigmask(99, &set, NULL), EINVAL);
	CHECK_EQ(errno, ERANGE);
	CHECK_EQ(sigprocmask(99, NULL, &set), 0); /* how is not used */
}

POSIX_TEST(sigprocmask_sets_the_mask)
{
	sigset_t set, old, now;

	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	CHECK(!sigismember(&old, SIGUSR1));
	set_of(&set, SIGUSR2);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &now), 0);
	CHECK(sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2));
	CHECK_EQ(usleep(1000), 0);
	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_UNBLOCK, &set, &now), 0);
	CHECK(sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2));
	sigfillset(&set);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &set, &now), 0);
	CHECK(!sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2));
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, &now), 0);
	CHECK(sigismember(&now, SIGUSR1) && !sigismember(&now, SIGKILL));
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
	CHECK(!sigismember(&now, SIGUSR1));
}

/* A critical section, over waits too: the handler runs at its end, before the call returns. */
POSIX_TEST(sigprocmask_defers_a_handler)
{
	sigset_t set, old;

	handle(SIGUSR1, count, 0);
	set_of(&set, SIGUSR1);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		CHECK_EQ(usleep(1000), 0);
		CHECK_EQ(ran, i);
		wait_pending(SIGUSR1);
		CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
		CHECK_EQ(ran, i + 1);
	}
	signal(SIGUSR1, SIG_DFL);
}

POSIX_TEST(pthread_sigmask_blocks_the_default_action)
{
	sigset_t set, old;
	struct sigaction now;
	int got;

	set_of(&set, SIGTERM);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(kill(getpid(), SIGTERM), 0);
		CHECK_EQ(usleep(500), 0);
		CHECK_EQ(sigaction(SIGTERM, NULL, &now), 0);
		CHECK(now.sa_handler == SIG_DFL);
		wait_pending(SIGTERM);
		CHECK_EQ(sigwait(&set, &got), 0);
		CHECK_EQ(got, SIGTERM);
	}
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
}

POSIX_TEST(pthread_sigmask_child_inherits_the_mask)
{
	sigset_t set, old, now;
	int status;

	set_of(&set, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	CHECK_EQ(usleep(1000), 0);
	pid_t pid = fork();

	if (pid == 0) {
		sigprocmask(SIG_SETMASK, NULL, &now);
		_exit(sigismember(&now, SIGUSR2) && !sigismember(&now, SIGUSR1) ? 7 : 8);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 7);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
}

static void *mask_of_thread(void *set)
{
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, NULL, set), 0);
	return NULL;
}

/* Expects that a thread with these attributes has, of both signals, only this one in its mask. */
static void expect_inherited(const pthread_attr_t *attr, int signo, int other)
{
	sigset_t old, set, now;
	pthread_t t;

	set_of(&set, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	CHECK_EQ(pthread_create(&t, attr, mask_of_thread, &now), 0);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK(sigismember(&now, signo) && !sigismember(&now, other));
}

static void *creator(void *arg)
{
	sigset_t set, now;
	pthread_t t;

	set_of(&set, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	CHECK_EQ(pthread_create(&t, NULL, mask_of_thread, &now), 0);
	sigemptyset(&set);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK(sigismember(&now, SIGUSR2) && !sigismember(&now, SIGUSR1));
	expect_inherited(NULL, SIGUSR1, SIGUSR2);
	return arg;
}

/* Main and another thread create threads, and change their masks afterwards. */
POSIX_TEST(pthread_create_inherits_the_mask)
{
	pthread_attr_t attr;
	sigset_t set;
	pthread_t t;

	expect_inherited(NULL, SIGUSR1, SIGUSR2);
	CHECK_EQ(pthread_create(&t, NULL, creator, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	set_of(&set, SIGUSR2);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setsigmask_np(&attr, &set), 0);
	expect_inherited(&attr, SIGUSR2, SIGUSR1);
	CHECK_EQ(pthread_attr_destroy(&attr), 0);
}

static sigset_t usr1_open;

static void *wait_for_usr1(void *ready)
{
	main_self = pthread_self();
	CHECK_EQ(gmp_sem_release(ready, 1), 0);
	while (!ran)
		usleep(1000);
	return NULL;
}

static void *create_and_block(void *ready)
{
	sigset_t set;
	pthread_t t;

	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &usr1_open, NULL), 0);
	CHECK_EQ(pthread_create(&t, NULL, wait_for_usr1, ready), 0);
	set_of(&set, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	return NULL;
}

/* Main blocks the signal; the thread that has inherited an open mask handles it. */
POSIX_TEST(pthread_create_inherits_the_right_to_handle)
{
	gmp_sem ready = GMP_SEM_INIT(0);
	sigset_t set, old;
	pthread_t t;

	handle(SIGUSR1, count, 0);
	set_of(&set, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
	usr1_open = old;
	CHECK_EQ(pthread_create(&t, NULL, create_and_block, &ready), 0);
	CHECK_EQ(gmp_sem_acquire(&ready), 0);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK(ran == 1 && in_main);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
	signal(SIGUSR1, SIG_DFL);
}

/* --- sigwait --- */

/* End alarm_in, where the signal is blocked. */
static void stop_alarm(const sigset_t *set)
{
	struct itimerval t = { .it_value = { 0, 0 } };
	struct timespec none = { 0, 0 };

	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
	while (sigtimedwait(set, NULL, &none) == SIGALRM)
		;
}

POSIX_TEST(sigwait_takes_a_pending_signal)
{
	sigset_t set, old;
	int got = 0;

	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	errno = ERANGE;
	CHECK_EQ(sigwait(&set, &got), 0);
	CHECK_EQ(got, SIGUSR1);
	CHECK_EQ(errno, ERANGE);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

POSIX_TEST(sigwait_waits)
{
	sigset_t set, old;
	int got = 0;

	set_of(&set, SIGALRM);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	alarm_in(20);
	CHECK_EQ(sigwait(&set, &got), 0);
	CHECK_EQ(got, SIGALRM);
	stop_alarm(&set);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

POSIX_TEST(sigwait_continues_after_a_handler)
{
	sigset_t set, old;
	int got = 0;

	handle(SIGALRM, count, 0);
	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	pid_t pid = fork();

	if (pid == 0) {
		usleep(20000);
		kill(getppid(), SIGALRM);
		usleep(20000);
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	CHECK_EQ(sigwait(&set, &got), 0);
	CHECK_EQ(got, SIGUSR1);
	wait_ran(1);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
	no_alarm();
}

POSIX_TEST(sigwaitinfo_has_the_siginfo)
{
	sigset_t set, old;
	siginfo_t info;
	int sum = 0;

	memset(&info, 0, sizeof(info));
	set_of(&set, SIGRTMIN + 1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	for (int i = 0; i < 3; i++)
		send_value(SIGRTMIN + 1, i);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(sigwaitinfo(&set, &info), SIGRTMIN + 1);
		CHECK_EQ(info.si_code, SI_QUEUE);
		sum += info.si_value.sival_int;
		if (!on_green())
			CHECK_EQ(info.si_value.sival_int, i);
		CHECK_EQ(info.si_signo, SIGRTMIN + 1);
		CHECK_EQ(info.si_pid, getpid());
	}
	CHECK_EQ(sum, 3);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

POSIX_TEST(sigwaitinfo_handler_is_eintr)
{
	sigset_t set, old;

	handle(SIGALRM, count, SA_RESTART);
	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	alarm_in(20);
	errno = 0;
	CHECK_EQ(sigwaitinfo(&set, NULL), -1);
	CHECK_EQ(errno, EINTR);
	CHECK(ran >= 1);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
	no_alarm();
}

POSIX_TEST(sigwaitinfo_info_may_be_null)
{
	sigset_t set, old;

	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0);
	CHECK_EQ(sigwaitinfo(&set, NULL), SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

POSIX_TEST(sigtimedwait_timeout_is_eagain)
{
	struct timespec t = { 0, 20 * MS }, none = { 0, 0 };
	int64_t began = gmp_now();
	sigset_t set, old;

	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	errno = 0;
	CHECK_EQ(sigtimedwait(&set, NULL, &t), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK(gmp_now() - began >= 20 * MS);
	errno = 0;
	CHECK_EQ(sigtimedwait(&set, NULL, &none), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

POSIX_TEST(sigtimedwait_bad_time_is_einval)
{
	struct timespec bad = { 0, 1000000000 };
	sigset_t set, old;

	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	errno = 0;
	CHECK_EQ(sigtimedwait(&set, NULL, &bad), -1);
	CHECK_EQ(errno, EINVAL);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

POSIX_TEST(sigtimedwait_takes_a_signal)
{
	struct timespec t = { 20, 0 };
	sigset_t set, old;
	siginfo_t info;

	set_of(&set, SIGALRM);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	alarm_in(20);
	CHECK_EQ(sigtimedwait(&set, &info, &t), SIGALRM);
	CHECK_EQ(info.si_signo, SIGALRM);
	CHECK_EQ(info.si_code, SI_KERNEL);
	stop_alarm(&set);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

/* --- with other green threads --- */

static void on_one_p(void (*fn)(void *), int procs)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.flags = GMP_OWN_TLS;
	int err = gmp_run(fn, NULL, &cfg);

	if (err == -ENOTSUP)
		check_skip("no own thread-locals on this machine");
	CHECK_EQ(err, 0);
}

static void computes(void *stop)
{
	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
		gmp_checkpoint();
}

/* The kernel gives the signal to an OS thread that runs another green thread. */
static void sleep_beside_others(void *arg)
{
	struct timespec t = { 20, 0 };
	int stop = 0;
	gmp_g *g[8];

	(void)arg;
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_spawn(&g[i], computes, &stop, NULL), 0);
	for (int i = 1; i <= 20; i++) {
		handle(SIGALRM, count, 0);
		alarm_in(3);
		CHECK_EQ(nanosleep(&t, NULL), -1);
		CHECK_EQ(errno, EINTR);
		CHECK(ran >= 1);
		CHECK(in_main);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
	no_alarm();
}

TEST_PROCS(signal_reaches_the_main_green_thread)
{
	on_one_p(sleep_beside_others, procs);
}

static void takes(void *n)
{
	sigset_t set;
	int got;

	set_of(&set, SIGUSR1);
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(sigwait(&set, &got), 0);
		CHECK_EQ(got, SIGUSR1);
		__atomic_fetch_add((int *)n, 1, __ATOMIC_RELAXED);
	}
}

/* main blocks, and another green thread waits for the signals. */
static void one_takes(void *arg)
{
	sigset_t set, old;
	int n = 0;
	gmp_g *g;

	(void)arg;
	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	CHECK_EQ(gmp_spawn(&g, takes, &n, NULL), 0);
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		while (__atomic_load_n(&n, __ATOMIC_RELAXED) <= i)
			gmp_yield();
	}
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

TEST_PROCS(sigwait_in_another_green_thread)
{
	on_one_p(one_takes, procs);
}

static void unblocks(void *arg)
{
	sigset_t set;

	set_of(&set, SIGUSR1);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	main_self = pthread_self();
	CHECK_EQ(gmp_sem_release(arg, 1), 0);
	for (int i = 1; i <= 20; i++) {
		struct timespec t = { 20, 0 };

		while (ran < i)
			if (nanosleep(&t, NULL) == 0)
				break;
		CHECK_EQ(ran, i);
		CHECK(in_main);
		CHECK_EQ(gmp_sem_release(arg, 1), 0);
	}
}

/* main blocks, and one green thread handles. */
static void one_handles(void *arg)
{
	gmp_sem ready = GMP_SEM_INIT(0);
	sigset_t set, old;
	gmp_g *g;

	(void)arg;
	handle(SIGUSR1, count, 0);
	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	CHECK_EQ(gmp_spawn(&g, unblocks, &ready, NULL), 0);
	CHECK_EQ(gmp_sem_acquire(&ready), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		CHECK_EQ(gmp_sem_acquire(&ready), 0);
	}
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(ran, 20);
	CHECK_EQ(kill(getpid(), SIGUSR1), 0); /* blocked again: the green thread has ended */
	CHECK_EQ(usleep(1000), 0);
	CHECK_EQ(ran, 20);
	signal(SIGUSR1, SIG_IGN);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
	signal(SIGUSR1, SIG_DFL);
}

TEST_PROCS(pthread_sigmask_one_green_thread_handles)
{
	on_one_p(one_handles, procs);
}

static void blocks_all(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	computes(arg);
}

/* All others block all signals: handlers run on main. */
static void main_handles(void *arg)
{
	int stop = 0;
	gmp_g *g[4];

	(void)arg;
	handle(SIGUSR1, count, 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_spawn(&g[i], blocks_all, &stop, NULL), 0);
	for (int i = 1; i <= 20; i++) {
		in_main = 0;
		CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		wait_ran(i);
		CHECK(in_main);
		CHECK_EQ(usleep(100), 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
	signal(SIGUSR1, SIG_DFL);
}

TEST_PROCS(pthread_sigmask_main_handles)
{
	on_one_p(main_handles, procs);
}
