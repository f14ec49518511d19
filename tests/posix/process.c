/* SPDX-License-Identifier: MIT */
/* Tests the functions that wait for child processes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "posix.h"

static pid_t child(int ms, int status)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (ms)
			usleep((useconds_t)ms * 1000);
		_exit(status);
	}
	CHECK(pid > 0);
	return pid;
}

static int held[2];

/* A child that ends when release is called. */
static pid_t held_child(int status)
{
	char c;

	CHECK_EQ(pipe(held), 0);
	pid_t pid = fork();

	if (pid == 0) {
		close(held[1]);
		_exit(read(held[0], &c, 1) == 0 ? status : 99);
	}
	CHECK(pid > 0);
	close(held[0]);
	return pid;
}

static void release(void)
{
	CHECK_EQ(close(held[1]), 0);
}

#define CHECK_EXITED(status, code) CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, code)

POSIX_TEST(waitpid_returns_the_status)
{
	int status = -1;
	pid_t pid = child(20, 7);

	errno = ERANGE;
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EXITED(status, 7);
	CHECK_EQ(errno, ERANGE);
	pid = child(0, 8);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

POSIX_TEST(waitpid_without_children_is_echild)
{
	errno = 0;
	CHECK_EQ(waitpid(-1, NULL, 0), -1);
	CHECK_EQ(errno, ECHILD);
	errno = 0;
	CHECK_EQ(waitpid(getpid(), NULL, 0), -1);
	CHECK_EQ(errno, ECHILD);
	errno = 0;
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
	CHECK_EQ(errno, ECHILD);
}

POSIX_TEST(waitpid_bad_flags_is_einval)
{
	errno = 0;
	CHECK_EQ(waitpid(-1, NULL, 0x100000), -1);
	CHECK_EQ(errno, EINVAL);
}

POSIX_TEST(waitpid_wnohang_returns_0)
{
	int status;
	pid_t pid = held_child(3);

	CHECK_EQ(waitpid(pid, &status, WNOHANG), 0);
	CHECK_EQ(waitpid(-1, &status, WNOHANG), 0);
	release();
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EXITED(status, 3);
}

POSIX_TEST(waitpid_takes_the_named_child)
{
	int status;
	pid_t first = child(0, 1), second = child(20, 2);

	CHECK_EQ(waitpid(second, &status, 0), second);
	CHECK_EXITED(status, 2);
	CHECK_EQ(waitpid(first, &status, 0), first);
	CHECK_EXITED(status, 1);
}

POSIX_TEST(waitpid_reports_a_stop)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		raise(SIGSTOP);
		_exit(5);
	}
	CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
	CHECK(WIFSTOPPED(status));
	CHECK_EQ(kill(pid, SIGCONT), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EXITED(status, 5);
}

POSIX_TEST(wait_takes_any_child)
{
	int status, sum = 0;
	pid_t pid[3] = { child(0, 1), child(10, 2), child(20, 4) };

	(void)pid;
	for (int i = 0; i < 3; i++) {
		CHECK(wait(&status) > 0);
		CHECK(WIFEXITED(status));
		sum += WEXITSTATUS(status);
	}
	CHECK_EQ(sum, 7);
}

POSIX_TEST(wait_without_children_is_echild)
{
	errno = 0;
	CHECK_EQ(wait(NULL), -1);
	CHECK_EQ(errno, ECHILD);
}

POSIX_TEST(wait_status_may_be_null)
{
	pid_t pid = child(10, 1);

	CHECK_EQ(wait(NULL), pid);
}

POSIX_TEST(waitid_fills_the_siginfo)
{
	siginfo_t info;
	pid_t pid = child(20, 9);

	memset(&info, 0, sizeof(info));
	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	CHECK_EQ(info.si_pid, pid);
	CHECK_EQ(info.si_code, CLD_EXITED);
	CHECK_EQ(info.si_status, 9);
	CHECK_EQ(waitid(P_ALL, 0, &info, WEXITED), 0); /* it is still there */
	CHECK_EQ(info.si_pid, pid);
	errno = 0;
	CHECK_EQ(waitid(P_ALL, 0, &info, WEXITED), -1);
	CHECK_EQ(errno, ECHILD);
}

POSIX_TEST(waitid_wnohang_returns_0)
{
	siginfo_t info;
	pid_t pid = held_child(0);

	memset(&info, 0, sizeof(info));
	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG), 0);
	CHECK_EQ(info.si_pid, 0);
	release();
	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED), 0);
	CHECK_EQ(info.si_pid, pid);
}

POSIX_TEST(waitid_bad_flags_is_einval)
{
	siginfo_t info;

	errno = 0;
	CHECK_EQ(waitid(P_ALL, 0, &info, 0), -1);
	CHECK_EQ(errno, EINVAL);
}

POSIX_TEST(wait3_fills_the_usage)
{
	struct rusage usage;
	int status;

	memset(&usage, 0xff, sizeof(usage));
	pid_t pid = held_child(6);

	CHECK_EQ(wait3(&status, WNOHANG, &usage), 0);
	release();
	CHECK_EQ(wait3(&status, 0, &usage), pid);
	CHECK_EXITED(status, 6);
	CHECK(usage.ru_utime.tv_sec >= 0 && usage.ru_utime.tv_sec < 10);
	errno = 0;
	CHECK_EQ(wait3(&status, 0, &usage), -1);
	CHECK_EQ(errno, ECHILD);
}

POSIX_TEST(wait4_takes_the_named_child)
{
	struct rusage usage;
	int status;
	pid_t first = child(0, 1), second = held_child(2);

	CHECK_EQ(wait4(second, &status, WNOHANG, NULL), 0);
	release();
	CHECK_EQ(wait4(second, &status, 0, &usage), second);
	CHECK_EXITED(status, 2);
	CHECK(usage.ru_maxrss > 0);
	CHECK_EQ(wait4(first, NULL, 0, NULL), first);
	errno = 0;
	CHECK_EQ(wait4(first, NULL, 0, NULL), -1);
	CHECK_EQ(errno, ECHILD);
}

POSIX_TEST(system_returns_the_status)
{
	int status = system("exit 5");

	CHECK_EXITED(status, 5);
	status = system("kill -9 $$");
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

POSIX_TEST(system_null_finds_the_shell)
{
	CHECK(system(NULL) != 0);
}

static volatile sig_atomic_t reaped, interrupted;

static void reap(int signo)
{
	(void)signo;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		reaped++;
}

static void interrupt(int signo)
{
	(void)signo;
	interrupted++;
}

/* SIGCHLD is blocked, so no handler waits for the child of system. */
POSIX_TEST(system_keeps_its_child)
{
	reaped = 0;
	CHECK(signal(SIGCHLD, reap) != SIG_ERR);
	for (int i = 0; i < 10; i++) {
		int status = system("exit 5");

		CHECK_EXITED(status, 5);
	}
	CHECK_EQ(reaped, 0);
	signal(SIGCHLD, SIG_DFL);
}

/* Takes the child of system, if it runs on another thread before that child has ended. */
static void reap_for_seconds(int signo)
{
	struct timespec now, begin;
	pid_t pid = 0;

	(void)signo;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		pid = waitpid(-1, NULL, WNOHANG);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (pid == 0 && now.tv_sec - begin.tv_sec < 3);
	reaped += pid > 0;
}

POSIX_TEST(system_keeps_its_child_from_an_earlier_sigchld)
{
	reaped = 0;
	CHECK(signal(SIGCHLD, reap_for_seconds) != SIG_ERR);
	int status = system("kill -CHLD $PPID; sleep 0.1; exit 5");

	CHECK_EXITED(status, 5);
	CHECK_EQ(reaped, 0);
	signal(SIGCHLD, SIG_DFL);
}

POSIX_TEST(system_ignores_sigint)
{
	interrupted = 0;
	CHECK(signal(SIGINT, interrupt) != SIG_ERR);
	int status = system("kill -INT $PPID; exit 4");

	CHECK_EXITED(status, 4);
	CHECK_EQ(interrupted, 0);
	CHECK_EQ(raise(SIGINT), 0);
	CHECK_EQ(interrupted, 1);
	signal(SIGINT, SIG_DFL);
}

POSIX_TEST(popen_reads_the_output)
{
	char line[64] = "";
	FILE *f = popen("echo text; exit 3", "r");

	CHECK(f != NULL);
	CHECK(fgets(line, sizeof(line), f) != NULL);
	CHECK_EQ(strcmp(line, "text\n"), 0);
	int status = pclose(f);

	CHECK_EXITED(status, 3);
}

POSIX_TEST(popen_writes_the_input)
{
	FILE *f = popen("read a; test \"$a\" = text", "w");

	CHECK(f != NULL);
	CHECK(fputs("text\n", f) >= 0);
	int status = pclose(f);

	CHECK_EXITED(status, 0);
}

POSIX_TEST(popen_bad_mode_is_einval)
{
	errno = 0;
	CHECK(popen("true", "x") == NULL);
	CHECK_EQ(errno, EINVAL);
}

/* Other children do not end the wait of pclose. */
POSIX_TEST(pclose_waits_for_its_child)
{
	pid_t pid = child(0, 1);
	FILE *f = popen("sleep 0.1; exit 2", "r");

	CHECK(f != NULL);
	int status = pclose(f);

	CHECK_EXITED(status, 2);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EXITED(status, 1);
}

POSIX_TEST(pclose_child_was_taken_is_echild)
{
	FILE *f = popen("exit 0", "r");

	CHECK(f != NULL);
	CHECK(wait(NULL) > 0);
	errno = 0;
	CHECK_EQ(pclose(f), -1);
	CHECK_EQ(errno, ECHILD);
}

/* --- with other green threads --- */

static void waits(void *arg)
{
	int status;
	pid_t pid = child(300, 1);

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EXITED(status, 1);
	(*(int *)arg)++;
}

static void many_wait(void *arg)
{
	gmp_g *g[20];

	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_spawn(&g[i], waits, arg, NULL), 0);
	for (int i = 0; i < 20; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

/* 300 ms in parallel, 6 s one after the other; no wait takes the child of another one. */
TEST(waitpid_parks_the_green_thread)
{
	int64_t began = gmp_now();
	int n = 0;

	run_own(1, 0, many_wait, &n);
	CHECK_EQ(n, 20);
	CHECK(gmp_now() - began < INT64_C(4000000000));
}

static void long_wait(void *arg)
{
	CHECK_EQ(waitpid(*(pid_t *)arg, NULL, 0), -1);
	CHECK_EQ(errno, ECANCELED);
}

static void cancels(void *arg)
{
	pid_t pid = child(60000, 0);
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_spawn(&g, long_wait, &pid, NULL), 0);
	CHECK_EQ(usleep(1000), 0);
	CHECK_EQ(gmp_cancel(g), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(waitpid_cancelled_returns_ecanceled)
{
	run_own(0, 0, cancels, NULL);
}
