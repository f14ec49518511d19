/* SPDX-License-Identifier: MIT */
/* Tests whether memory is writable, in a child process. */
#ifndef TESTS_UNIT_KILLED_BY_H
#define TESTS_UNIT_KILLED_BY_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#include "base/atomic.h"

/* Report the signal by the exit status, without a report of Valgrind or a sanitizer. */
__attribute__((unused)) static void exit_with_signal(int sig)
{
	_exit(sig);
}

/* Returns the signal of a child that writes to p; 0: none. */
__attribute__((unused)) static int killed_by(char *p)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		signal(SIGSEGV, exit_with_signal);
		st_rlx(p, 1);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

#endif
