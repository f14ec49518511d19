/* SPDX-License-Identifier: MIT */
/* Tests what a child inherits from its OS thread for the kernel's scheduler: what a process without
 * runtime has, not what the runtime has set for its own threads. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "posix.h"

extern char **environ;

/* An M may have a slice of 0.1 or 10 ms (Linux 6.12), and has a timer slack of 1 ns. */
#define SHOW "cat /proc/self/timerslack_ns; grep se.slice /proc/self/sched"

static void check_output(FILE *f)
{
	char line[200];
	double slice = 1e9;
	long slack = 0;

	CHECK(f != NULL);
	CHECK(fgets(line, sizeof(line), f) != NULL);
	CHECK_EQ(sscanf(line, "%ld", &slack), 1);
	CHECK(slack > 1);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "se.slice : %lf", &slice);
	CHECK(slice > 200 * 1000);
}

POSIX_TEST(child_of_popen_has_the_default_slice)
{
	FILE *f = popen(SHOW, "r");

	check_output(f);
	pclose(f);
}

POSIX_TEST(child_of_system_has_the_default_slice)
{
	char name[] = "/tmp/gmp-slice-XXXXXX", command[200];
	int fd = mkstemp(name);
	FILE *f = fdopen(fd, "r");

	snprintf(command, sizeof(command), "(" SHOW ") > %s", name);
	CHECK(system(command) >= 0);
	check_output(f);
	CHECK_EQ(fclose(f), 0);
	CHECK_EQ(unlink(name), 0);
}

static char *const show[] = { "sh", "-c", SHOW, NULL };

static pid_t spawn_to(int fd)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;

	CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
	CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, fd, 1), 0);
	CHECK_EQ(posix_spawnp(&pid, show[0], &actions, NULL, show, environ), 0);
	CHECK_EQ(posix_spawn_file_actions_destroy(&actions), 0);
	return pid;
}

static pid_t vfork_to(int fd)
{
	pid_t pid = vfork();

	if (pid == 0) {
		dup2(fd, 1);
		execvp(show[0], show);
		_exit(1);
	}
	CHECK(pid > 0);
	return pid;
}

static void check_child_of(pid_t (*start)(int fd))
{
	int p[2];

	CHECK_EQ(pipe(p), 0);
	pid_t pid = start(p[1]);
	FILE *f = fdopen(p[0], "r");

	CHECK_EQ(close(p[1]), 0);
	check_output(f);
	CHECK_EQ(fclose(f), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

POSIX_TEST(child_of_posix_spawn_has_the_default_slice)
{
	check_child_of(spawn_to);
}

POSIX_TEST(child_of_vfork_has_the_default_slice)
{
	check_child_of(vfork_to);
}
