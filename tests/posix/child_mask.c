/* SPDX-License-Identifier: MIT */
/* Tests the signal mask of programs that main and other threads start. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "signal_util.h"
#include "threads.h"

extern char **environ;

/* Prints its mask. */
static char *const show[] = { "grep", "SigBlk", "/proc/self/status", NULL };

/* Main is the parent of the threads of a case. */
static void in_thread(void *(*fn)(void *))
{
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, fn, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

static uint64_t bit(int signo)
{
	return (uint64_t)1 << (signo - 1);
}

/* The mask that a status file of /proc has. */
static uint64_t read_mask(FILE *f)
{
	char line[256];
	unsigned long long blocked;
	int found = 0;

	CHECK(f != NULL);
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "SigBlk: %llx", &blocked) == 1;
	CHECK(found);
	CHECK_EQ(fclose(f), 0);
	return blocked;
}

static void end_child(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

/* The mask of a program that the caller starts with these attributes. */
static uint64_t spawned_mask(const posix_spawnattr_t *attr)
{
	posix_spawn_file_actions_t actions;
	int p[2];
	pid_t pid;

	CHECK_EQ(pipe(p), 0);
	CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
	CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, p[1], 1), 0);
	CHECK_EQ(posix_spawnp(&pid, show[0], &actions, attr, show, environ), 0);
	CHECK_EQ(posix_spawn_file_actions_destroy(&actions), 0);
	CHECK_EQ(close(p[1]), 0);
	uint64_t got = read_mask(fdopen(p[0], "r"));

	end_child(pid);
	return got;
}

/* --- posix_spawn --- */

static void *block_sigusr1(void *arg)
{
	mask(SIG_UNBLOCK,
	     SIGUSR2); /* it handles a signal that main blocks: its OS thread admits it */
	mask(SIG_BLOCK, SIGUSR1);
	return arg;
}

static void expect_spawned(int how, uint64_t wanted)
{
	mask(how, SIGUSR2);
	CHECK_EQ(spawned_mask(NULL) & (bit(SIGUSR1) | bit(SIGUSR2)), wanted);
}

POSIX_TEST(spawn_by_main_gives_its_mask)
{
	expect_spawned(SIG_BLOCK, bit(SIGUSR2));
	in_thread(block_sigusr1);
	expect_spawned(SIG_BLOCK, bit(SIGUSR2));
	expect_spawned(SIG_UNBLOCK, 0);
}

static void *spawn_with_own_mask(void *arg)
{
	for (int i = 0; i < 4; i++) {
		mask(i & 1 ? SIG_UNBLOCK : SIG_BLOCK, SIGUSR1);
		mask(i & 2 ? SIG_UNBLOCK : SIG_BLOCK, SIGUSR2);
		uint64_t wanted = (i & 1 ? 0 : bit(SIGUSR1)) | (i & 2 ? 0 : bit(SIGUSR2));

		CHECK_EQ(spawned_mask(NULL) & (bit(SIGUSR1) | bit(SIGUSR2)), wanted);
		usleep(1000); /* it may continue on another OS thread */
	}
	return arg;
}

POSIX_TEST(spawn_by_another_thread_gives_its_mask)
{
	mask(SIG_BLOCK, SIGUSR2);
	in_thread(spawn_with_own_mask);
	expect_spawned(SIG_BLOCK, bit(SIGUSR2));
}

static void *spawn_with_attributes(void *arg)
{
	posix_spawnattr_t attr;
	sigset_t set;

	mask(SIG_BLOCK, SIGUSR1);
	set_of(&set, SIGUSR2);
	CHECK_EQ(posix_spawnattr_init(&attr), 0);
	CHECK_EQ(posix_spawnattr_setsigmask(&attr, &set), 0);
	CHECK_EQ(posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK), 0);
	CHECK_EQ(spawned_mask(&attr), bit(SIGUSR2));
	CHECK_EQ(posix_spawnattr_destroy(&attr), 0);
	mask(SIG_UNBLOCK, SIGUSR1);
	return arg;
}

POSIX_TEST(spawn_with_a_mask_in_the_attributes_gives_that_mask)
{
	spawn_with_attributes(NULL);
	in_thread(spawn_with_attributes);
}

/* --- fork and exec --- */

/* Replaces the caller's process; its output goes to fd. */
static void exec_show(int fd)
{
	if (dup2(fd, 1) == 1)
		execvp(show[0], show);
	_exit(1);
}

static void *fork_and_exec(void *arg)
{
	int p[2];

	mask(SIG_BLOCK, SIGUSR1);
	mask(SIG_UNBLOCK, SIGUSR2);
	CHECK_EQ(pipe(p), 0);
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		exec_show(p[1]);
	CHECK_EQ(close(p[1]), 0);
	uint64_t got = read_mask(fdopen(p[0], "r"));

	CHECK_EQ(got & (bit(SIGUSR1) | bit(SIGUSR2)), bit(SIGUSR1));
	end_child(pid);
	return arg;
}

POSIX_TEST(fork_and_exec_by_another_thread_gives_its_mask)
{
	mask(SIG_BLOCK, SIGUSR2);
	in_thread(fork_and_exec);
}
