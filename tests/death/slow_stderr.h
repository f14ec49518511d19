/* SPDX-License-Identifier: MIT */
/*
 * A stderr that blocks writers until it is released: a full pipe. The program runs in a child
 * process; after the release the parent copies its output.
 */
#ifndef TESTS_DEATH_SLOW_STDERR_H
#define TESTS_DEATH_SLOW_STDERR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* F_SETPIPE_SZ: before any other header */
#endif
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int slow_go[2];

static inline void slow_fill(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETPIPE_SZ, 4096);
	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	while (write(fd, "full\n", 5) > 0)
		;
	while (write(fd, "\n", 1) > 0)
		;
	fcntl(fd, F_SETFL, flags);
}

/* Release stderr: writes no longer block. */
static inline void slow_let_go(void)
{
	(void)!write(slow_go[1], "x", 1);
}

/* Returns 1 if an OS thread of this process sleeps in a write to stderr. */
static inline int slow_is_written_to(void)
{
	DIR *d = opendir("/proc/self/task");
	int found = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		char path[300], text[64] = "";
		int fd;

		snprintf(path, sizeof(path), "/proc/self/task/%s/syscall", e->d_name);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		found |= read(fd, text, sizeof(text) - 1) > 0 &&
			 strncmp(text, "1 0x2 ", 6) == 0; /* SYS_write, x86-64 */
		close(fd);
	}
	if (d)
		closedir(d);
	return found;
}

/* Run body() in a child process with that stderr; returns its exit status. */
static inline int slow_run(int (*body)(void))
{
	int out[2], status;
	char text[4096];
	ssize_t n;
	pid_t pid;

	if (pipe(out) || pipe(slow_go) || (pid = fork()) < 0)
		return 2;
	if (pid == 0) {
		slow_fill(out[1]);
		dup2(out[1], 2);
		close(out[0]);
		close(out[1]);
		close(slow_go[0]);
		_Exit(body());
	}
	close(out[1]);
	close(slow_go[1]);
	(void)!read(slow_go[0], text, 1); /* also if the child has ended */
	while ((n = read(out[0], text, sizeof(text))) > 0)
		(void)!write(2, text, (size_t)n);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

#endif
