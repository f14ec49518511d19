/* SPDX-License-Identifier: MIT */
/* Tests signal masks, the functions that wait for signals, and which green thread gets a signal. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "signal_util.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* the older functions */

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

static void kill_parent_often(void)
{
	for (int i = 0; i < 20; i++) {
		kill(getppid(), SIGUSR1);
		usleep(1000);
	}
	_exit(0);
}

/* sysmon, which then admits SIGQUIT, must not admit the others. */
POSIX_TEST(handler_of_signal_that_all_block_waits_beside_a_dump_signal)
{
	sigset_t set;
	int status;

	handle(SIGUSR1, count, 0);
	if (on_green())
		CHECK_EQ(gmp_dump_on(SIGQUIT), 0);
	CHECK_EQ(usleep(20000), 0);
	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	pid_t child = fork();

	if (child == 0)
		kill_parent_often();
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(ran, 0);
	CHECK_EQ(sigprocmask(SIG_UNBLOCK, &set, NULL), 0);
	while (ran == 0)
		usleep(100);
}

/* --- the older functions --- */

static int old_bit(int signo)
{
	return 1 << (signo - 1);
}

static bool is_blocked(int signo)
{
	sigset_t now;

	CHECK_EQ(sigprocmask(SIG_BLOCK, NULL, &now), 0);
	return sigismember(&now, signo);
}

/* As sigprocmask: a shell blocks all signals by that, and unblocks them by sigsetmask(0). */
POSIX_TEST(sigsetmask_sets_the_mask)
{
	sigset_t all;

	sigfillset(&all);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &all, NULL), 0);
	CHECK(sigsetmask(0) & old_bit(SIGUSR1));
	CHECK(!is_blocked(SIGUSR1) && !is_blocked(SIGTERM) && !is_blocked(SIGRTMIN));
	CHECK_EQ(siggetmask(), 0);
	CHECK_EQ(sigblock(old_bit(SIGUSR1)), 0);
	CHECK_EQ(sigblock(old_bit(SIGUSR2)), old_bit(SIGUSR1));
	CHECK_EQ(usleep(1000), 0);
	CHECK_EQ(siggetmask(), old_bit(SIGUSR1) | old_bit(SIGUSR2));
	CHECK(is_blocked(SIGUSR1) && is_blocked(SIGUSR2));
	CHECK_EQ(sigsetmask(old_bit(SIGUSR2)), old_bit(SIGUSR1) | old_bit(SIGUSR2));
	CHECK(!is_blocked(SIGUSR1) && is_blocked(SIGUSR2));
	CHECK_EQ(sigsetmask(old_bit(SIGKILL)), old_bit(SIGUSR2));
	CHECK_EQ(siggetmask(), 0);
}

POSIX_TEST(sigsetmask_child_inherits_the_mask)
{
	sigset_t all;
	int status;

	sigfillset(&all);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &all, NULL), 0);
	CHECK(sigsetmask(old_bit(SIGUSR2)));
	pid_t child = fork();

	if (child == 0)
		_exit(siggetmask() == old_bit(SIGUSR2) ? 0 : 1);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_EQ(sigsetmask(0), old_bit(SIGUSR2));
}

POSIX_TEST(sighold_blocks_and_sigrelse_unblocks)
{
	CHECK_EQ(sighold(SIGUSR1), 0);
	CHECK(is_blocked(SIGUSR1));
	CHECK_EQ(usleep(1000), 0);
	CHECK_EQ(sighold(SIGUSR2), 0);
	CHECK(is_blocked(SIGUSR1) && is_blocked(SIGUSR2));
	CHECK_EQ(sigrelse(SIGUSR1), 0);
	CHECK(!is_blocked(SIGUSR1) && is_blocked(SIGUSR2));
	CHECK_EQ(sigrelse(SIGUSR2), 0);
	CHECK(!is_blocked(SIGUSR2));
}

POSIX_TEST(sighold_bad_signal_is_einval)
{
	errno = 0;
	CHECK_EQ(sighold(1000), -1);
	CHECK_EQ(errno, EINVAL);
	errno = 0;
	CHECK_EQ(sigrelse(0), -1);
	CHECK_EQ(errno, EINVAL);
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
		if (on_green()) /* an OS thread of the runtime may have it for a moment */
			wait_ran(i + 1);
		CHECK_EQ(ran, i + 1);
	}
	signal(SIGUSR1, SIG_DFL);
}

POSIX_TEST(sigrelse_runs_the_handler_before_it_returns)
{
	handle(SIGUSR1, count, 0);
	CHECK_EQ(sighold(SIGUSR1), 0);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(ran, 0);
	CHECK_EQ(sigrelse(SIGUSR1), 0);
	CHECK_EQ(ran, 1);
}

/* A library blocks SIGPIPE around a write, and takes the signal afterwards. */
static void *write_without_sigpipe(void *unused)
{
	static const struct timespec at_once;
	sigset_t set, pending, old;
	int p[2];

	set_of(&set, SIGPIPE);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(pipe(p), 0);
		CHECK_EQ(close(p[0]), 0);
		CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, &old), 0);
		CHECK_EQ(write(p[1], "x", 1), -1);
		CHECK_EQ(errno, EPIPE);
		CHECK_EQ(sched_yield(), 0);
		CHECK_EQ(sigpending(&pending), 0);
		CHECK(sigismember(&pending, SIGPIPE));
		CHECK_EQ(sigtimedwait(&set, NULL, &at_once), SIGPIPE);
		CHECK_EQ(sigpending(&pending), 0);
		CHECK(!sigismember(&pending, SIGPIPE));
		CHECK_EQ(pthread_sigmask(SIG_SETMASK, &old, NULL), 0);
		CHECK_EQ(close(p[1]), 0);
	}
	return unused;
}

static bool is_pending(int signo)
{
	sigset_t pending;

	CHECK_EQ(sigpending(&pending), 0);
	return sigismember(&pending, signo);
}

/* SIGPIPE is pending for the caller when this returns. */
static void leave_sigpipe_pending(void)
{
	sigset_t set;
	int p[2];

	set_of(&set, SIGPIPE);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(close(p[0]), 0);
	CHECK_EQ(write(p[1], "x", 1), -1);
	CHECK_EQ(close(p[1]), 0);
	CHECK(is_pending(SIGPIPE));
}

static void *fork_and_ignore(void *unused)
{
	sigset_t set;
	int status;

	leave_sigpipe_pending();
	pid_t child = fork();

	if (child == 0)
		_exit(is_pending(SIGPIPE));
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK(is_pending(SIGPIPE));
	CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	CHECK(!is_pending(SIGPIPE));
	handle(SIGPIPE, count, 0);
	set_of(&set, SIGPIPE);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	CHECK_EQ(ran, 0);
	return unused;
}

/* As other pending signals: neither a child has it, nor a handler that is set later. */
POSIX_TEST(pthread_sigmask_pending_sigpipe_is_discarded_when_ignored)
{
	pthread_t t;

	handle(SIGPIPE, count, 0);
	CHECK_EQ(pthread_create(&t, NULL, fork_and_ignore, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	signal(SIGPIPE, SIG_DFL);
}

static void *write_beyond_the_limit(void *fd)
{
	char buf[100];
	sigset_t set;

	memset(buf, 0, sizeof(buf));
	CHECK_EQ(write(*(int *)fd, buf, sizeof(buf)), -1);
	CHECK_EQ(errno, EFBIG);
	CHECK_EQ(ran, 1);
	CHECK_EQ(in_main, 0);
	set_of(&set, SIGXFSZ);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK_EQ(write(*(int *)fd, buf, sizeof(buf)), -1);
	CHECK_EQ(ran, 1);
	CHECK_EQ(sigwaitinfo(&set, NULL), SIGXFSZ);
	CHECK(!is_pending(SIGXFSZ));
	return NULL;
}

/* SIGXFSZ is the writer's, too. */
POSIX_TEST(write_runs_the_handler_of_sigxfsz_on_the_writer)
{
	enum { MOST = 1 << 20 };
	char path[] = "/tmp/gmp-xfsz-XXXXXX";
	struct rlimit before, limit;
	int fd = mkstemp(path);
	pthread_t t;

	CHECK(fd >= 0);
	CHECK_EQ(unlink(path), 0);
	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = MOST;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_EQ(lseek(fd, MOST, SEEK_SET), MOST);
	handle(SIGXFSZ, count, 0);
	CHECK_EQ(pthread_create(&t, NULL, write_beyond_the_limit, &fd), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	signal(SIGXFSZ, SIG_DFL);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
	close(fd);
}

POSIX_TEST(pthread_sigmask_keeps_sigpipe_pending)
{
	pthread_t t[4];

	handle(SIGPIPE, count, 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, write_without_sigpipe, NULL), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	CHECK_EQ(ran, 0);
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
	CHECK_EQ(gmp_sem_release(ready, 1), 0);
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

/* No signal comes. */
static void expect_sigtimedwait_fails(long ns, int err)
{
	struct timespec t = { 0, ns };
	sigset_t set, old;

	set_of(&set, SIGUSR1);
	CHECK_EQ(sigprocmask(SIG_BLOCK, &set, &old), 0);
	errno = 0;
	CHECK_EQ(sigtimedwait(&set, NULL, &t), -1);
	CHECK_EQ(errno, err);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &old, NULL), 0);
}

POSIX_TEST(sigtimedwait_timeout_is_eagain)
{
	int64_t began = gmp_now();

	expect_sigtimedwait_fails(20 * MS, EAGAIN);
	CHECK(gmp_now() - began >= 20 * MS);
	expect_sigtimedwait_fails(0, EAGAIN);
}

POSIX_TEST(sigtimedwait_bad_time_is_einval)
{
	expect_sigtimedwait_fails(1000000000, EINVAL);
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
	run_own(procs, 0, sleep_beside_others, NULL);
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
	run_own(procs, 0, one_takes, NULL);
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
	run_own(procs, 0, one_handles, NULL);
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
	run_own(procs, 0, main_handles, NULL);
}
