/* SPDX-License-Identifier: MIT */
/* Runs a function that must die in a child process, and collects its stderr and its wait status. */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Run fn in a child and store its stderr in text. Returns the wait status. */
static inline int child_says(void (*fn)(void), char *text, size_t room)
{
	int fds[2], status;
	ssize_t got;
	size_t n = 0;
	pid_t pid;

	CHECK_EQ(pipe(fds), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		dup2(fds[1], 2);
		fn();
		_exit(0);
	}
	close(fds[1]);
	while (n < room - 1 && (got = read(fds[0], text + n, room - 1 - n)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	close(fds[0]);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

#endif
