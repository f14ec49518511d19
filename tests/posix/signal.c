/* SPDX-License-Identifier: MIT */
/* Tests handlers of signals, and the calls that they interrupt. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>

#include "signal_util.h"

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
	skip_under_chaos();
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

/* --- locks of the library --- */

enum { LEFT_ROUNDS = 300 };

/* Call prepare, then fn until a handler leaves it, at another place in each round.  us: about the
 * time of a call.  The signal is never blocked: the signal thread would run the handler then. */
static void leave_often(void (*prepare)(void), void (*fn)(void), int us)
{
	handle(SIGALRM, jump, 0);
	for (volatile int i = 0; i < LEFT_ROUNDS; i++) {
		struct itimerval t = { .it_value = { 0, 1 + i % us } };

		if (prepare)
			prepare();
		if (sigsetjmp(back, 1) == 0) {
			CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
			for (;;)
				fn();
		}
	}
	no_alarm();
}

/* A lock that is left is not used again. */
static void use_rwlock(void)
{
	pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;

	CHECK_EQ(pthread_rwlock_rdlock(&rw), 0);
	CHECK_EQ(pthread_rwlock_unlock(&rw), 0);
	CHECK_EQ(pthread_rwlock_trywrlock(&rw), 0);
	CHECK_EQ(pthread_rwlock_unlock(&rw), 0);
}

POSIX_TEST(signal_longjmp_out_of_a_rwlock_leaves_the_others)
{
	leave_often(NULL, use_rwlock, 100);
}

static int adopted;

static void adopt_event(void)
{
	CHECK((adopted = eventfd(0, 0)) >= 0);
	CHECK(!on_green() || gmp_fd_adopt(adopted) == adopted);
}

static void close_adopted(void)
{
	if (adopted >= 0)
		close(adopted);
	adopted = -1;
}

POSIX_TEST(signal_longjmp_out_of_a_close_leaves_no_lock)
{
	leave_often(adopt_event, close_adopted, 20);
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
	skip_under_chaos();
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

/* --- a handler that is removed --- */

static void computes(void *stop)
{
	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
		gmp_checkpoint();
}

/* SIGALRM comes to OS threads that run other green threads, while main removes its handler. */
static void remove_handler_again_and_again(void *arg)
{
	int stop = 0;
	gmp_g *g[8];

	(void)arg;
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_spawn(&g[i], computes, &stop, NULL), 0);
	for (long i = 0; i < check_scaled(200); i++) {
		struct itimerval often = { .it_value = { 0, 50 }, .it_interval = { 0, 50 } };

		handle(SIGALRM, count, 0);
		CHECK_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
		while (!ran)
			usleep(1000);
		no_alarm();
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

TEST_PROCS(signal_on_its_way_to_a_removed_handler_is_dropped)
{
	run_own(procs, 0, remove_handler_again_and_again, NULL);
}
