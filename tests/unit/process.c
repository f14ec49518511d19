/* SPDX-License-Identifier: MIT */
/*
 * Tests what may happen while posix_spawn blocks. The wrapped posix_spawn waits until the rest of
 * the test has run.
 *
 * floors 0..6, wrap: posix_spawn
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "rt.h"

int __real_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const *argv, char *const *envp);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const *argv, char *const *envp);

static atomic_int inside, go, returned;

int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attr, char *const *argv, char *const *envp)
{
	atomic_store(&inside, 1);
	while (!atomic_load(&go))
		os_nap(100 * 1000);
	return __real_posix_spawn(pid, path, actions, attr, argv, envp);
}

static gmp_process started;

static int start_echo(void)
{
	const char *argv[] = { "/bin/echo", "x", NULL };
	gmp_process_opts o = GMP_PROCESS_OPTS_INIT;

	o.argv = argv;
	o.out.kind = GMP_PROCESS_PIPE;
	return gmp_process_spawn(&started, &o);
}

static void spawn_echo(void *arg)
{
	(void)arg;
	CHECK_EQ(start_echo(), 0);
	atomic_store(&returned, 1);
}

/* On one P: the caller runs only if the spawning G has released the P. */
static void run_beside(void *arg)
{
	gmp_stats s = GMP_STATS_INIT;
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_spawn(&g, spawn_echo, NULL, NULL), 0);
	while (!atomic_load(&inside))
		gmp_yield();
	CHECK_EQ(gmp_stats_get(&s), 0);
	CHECK_EQ(s.greens_blocked, 1);
	atomic_store(&go, 1);
	CHECK_EQ(gmp_join(g), 0);
	gmp_process_close(&started);
	CHECK_EQ(gmp_waitpid(started.pid, NULL, 0), started.pid);
}

TEST(process_spawn_that_blocks_releases_p)
{
	run_procs(1, run_beside, NULL);
}

static void leave_in_spawn(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_go(spawn_echo, NULL), 0);
	while (!atomic_load(&inside))
		gmp_yield();
}

/* The run waits for the blocking section, so it usually ends by then. */
static void *release_later(void *arg)
{
	while (!atomic_load(&inside))
		os_yield();
	os_nap(2 * 1000 * 1000);
	atomic_store(&go, 1);
	return arg;
}

static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST_PROCS(process_spawn_killed_at_shutdown_leaks_no_fd)
{
	int fds = count_fds();

	for (int i = 0; i < 10; i++) {
		pthread_t t;

		atomic_store(&inside, 0);
		atomic_store(&go, 0);
		atomic_store(&returned, 0);
		CHECK_EQ(pthread_create(&t, NULL, release_later, NULL), 0);
		run_procs(procs, leave_in_spawn, NULL);
		CHECK_EQ(pthread_join(t, NULL), 0);
		while (waitpid(-1, NULL, 0) > 0)
			;
		if (atomic_load(&returned)) /* not killed: the fds belong to the program */
			gmp_process_close(&started);
		CHECK_EQ(count_fds(), fds);
	}
}

static void *spawn_external(void *arg)
{
	(void)arg;
	CHECK_EQ(start_echo(), 0);
	return NULL;
}

/* gmp_stop does not wait for the spawn, which still makes a child. */
TEST(process_spawn_by_external_thread_outlives_run)
{
	int fds = count_fds();
	char buf[4];
	pthread_t t;

	CHECK_EQ(gmp_start(NULL), 0);
	CHECK_EQ(pthread_create(&t, NULL, spawn_external, NULL), 0);
	while (!atomic_load(&inside))
		os_yield();
	CHECK_EQ(gmp_stop(), 0);
	atomic_store(&go, 1);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(started.pidfd, -1);
	CHECK_EQ(gmp_read(started.out, buf, 4), -ESRCH);
	CHECK_EQ(waitpid(started.pid, NULL, 0), started.pid);
	CHECK_EQ(fcntl(started.out, F_SETFL, 0), 0);
	CHECK_EQ(read(started.out, buf, 4), 2);
	gmp_process_close(&started);
	CHECK_EQ(count_fds(), fds);
}
