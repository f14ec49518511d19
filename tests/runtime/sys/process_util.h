/* SPDX-License-Identifier: MIT */
/* Helpers for the tests of child processes: children that end on request, and waits for them. */
#ifndef TESTS_RUNTIME_PROCESS_UTIL_H
#define TESTS_RUNTIME_PROCESS_UTIL_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/io_util.h"

/* Does the kernel have pidfds (Linux 5.3)? Without them the pidfd of a process is -1. Flags that no
 * kernel knows tell this call from gmp's (tests/oldkernel). */
UNUSED static bool have_pidfds(void)
{
	return syscall(434 /* pidfd_open */, getpid(), 1U << 30) >= 0 || errno == EINVAL;
}

UNUSED static void need_pidfds(void)
{
	check_skip_on_valgrind("Valgrind knows no pidfds");
	if (!have_pidfds())
		check_skip("no pidfds before Linux 5.3");
}

/* A child that exits with a given status once the test closes the pipe end `leash`. */
struct child {
	pid_t pid;
	int leash;
};

UNUSED static void let_go(struct child *c)
{
	CHECK_EQ(close(c->leash), 0);
}

UNUSED static struct child start(int status)
{
	struct child c;
	int p[2];

	CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
	c.pid = fork();
	CHECK(c.pid >= 0);
	if (c.pid == 0) {
		char b;

		/* close inherited pipe ends of earlier children */
		for (int fd = 3; fd < 256; fd++)
			if (fd != p[0])
				close(fd);
		while (read(p[0], &b, 1) < 0)
			;
		_exit(status);
	}
	close(p[0]);
	c.leash = p[1];
	return c;
}

struct waiting {
	pid_t pid, result;
	int flags, status;
	atomic_int done;
};

UNUSED static void wait_for_child(void *arg)
{
	struct waiting *w = arg;

	w->result = gmp_waitpid(w->pid, &w->status, w->flags);
	atomic_store(&w->done, 1);
}

#endif
