/* SPDX-License-Identifier: MIT */
/*
 * Tests that a server ends by a signal, whatever it does when the signal comes.
 *
 *   ending -- SERVER [OPTION...]
 *
 * The server is started again and again. Once it has said where it listens, its main thread is
 * stopped where a system call begins: first at the next one, then at the one after that, and so on
 * until it sleeps in one. There it gets SIGTERM, is let go, and must end with status 0.
 */
#include "peer.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLEEPS 150 /* ms in one system call; less than the time between two sweeps of kvserver's */
#define MOMENTS 200
#define IN_CALL (SIGTRAP | 0x80)

static int output;  /* of the server */
static int to_pass; /* the signal that it was stopped by, and has not got yet */

static _Noreturn void become_traced(char **argv, int out)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(out, 1);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
		_exit(126);
	execv(argv[0], argv);
	_exit(127);
}

/* Whether the main thread stops within so many milliseconds. */
static bool stops_within(long ms)
{
	struct timespec patience = { ms / 1000, ms % 1000 * 1000000 };
	sigset_t child;
	int status;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (waitpid(server_pid, &status, WNOHANG) == 0)
		if (sigtimedwait(&child, NULL, &patience) < 0)
			return false;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 126) {
		fprintf(stderr, "skipped: no ptrace\n");
		_exit(0);
	}
	if (!WIFSTOPPED(status)) {
		server_pid = 0;
		fail("the server does not start");
	}
	to_pass = WSTOPSIG(status) == IN_CALL || WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
	return true;
}

static bool steps_within(long ms)
{
	if (ptrace(PTRACE_SYSCALL, server_pid, NULL, to_pass) != 0)
		fail("PTRACE_SYSCALL");
	return stops_within(ms);
}

static bool has_written(void)
{
	struct pollfd p = { .fd = output, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Up to the end of the call that writes where it listens. */
static void start_traced(char **argv)
{
	int ends[2];

	if (pipe(ends) != 0)
		fail("pipe");
	output = ends[0];
	server_pid = fork();
	if (server_pid == 0)
		become_traced(argv, ends[1]);
	close(ends[1]);
	if (server_pid < 0 || !stops_within(PATIENCE * 1000))
		fail("the server does not start");
	if (ptrace(PTRACE_SETOPTIONS, server_pid, NULL,
		   PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0)
		fail("PTRACE_SETOPTIONS");
	while (!has_written())
		if (!steps_within(PATIENCE * 1000))
			fail("the server does not start");
}

/* False when the server slept before it came to that call. */
static bool ends_at_call(int call, char **argv)
{
	bool awake = true;

	start_traced(argv);
	for (int i = 0; i < call && awake; i++) /* the beginning of a call, and the end of it */
		awake = steps_within(SLEEPS) && (i == call - 1 || steps_within(SLEEPS));
	kill(server_pid, SIGTERM);
	if (!awake && !stops_within(PATIENCE * 1000))
		fail("SIGTERM does not wake the server");
	if (ptrace(PTRACE_DETACH, server_pid, NULL, to_pass) != 0)
		fail("PTRACE_DETACH");
	expect_server_to_end();
	close(output);
	return awake;
}

int main(int argc, char **argv)
{
	sigset_t child;
	int call = 0;

	if (argc < 3)
		return 2;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL); /* for sigtimedwait */
	while (call < MOMENTS && ends_at_call(call, argv + 2))
		fprintf(stderr, "ended at call %d\n", call++);
	fprintf(stderr, "ended asleep\n");
	return 0;
}
