/* SPDX-License-Identifier: MIT */
/* Tests that a forked child has no runtime and may start one. */
#include "runtime_util.h"

#include <sys/prctl.h>
#include <sys/socket.h>

static void check_no_runtime(void)
{
	gmp_mutex m = GMP_MUTEX_INIT;
	gmp_g *g;

	CHECK(gmp_self() == NULL);
	CHECK_EQ(gmp_procs(), 0);
	CHECK_EQ(gmp_go(nothing, NULL), -ESRCH);
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, NULL), -ESRCH);
	CHECK_EQ(gmp_set_procs(2), -ESRCH);
	CHECK_EQ(gmp_stop(), -ESRCH);
	gmp_yield();
	gmp_checkpoint();
	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_mutex_lock_until(&m, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

static void wait_status(pid_t pid, int code)
{
	int status = -1;

	CHECK(pid > 0);
	while (waitpid(pid, &status, 0) < 0)
		CHECK(errno == EINTR);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), code);
}

static int fork_procs;

static void fork_and_check(UNUSED void *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		check_no_runtime();
		_exit(42);
	}
	wait_status(pid, 42);
}

RT(fork_child_of_green_thread_has_no_runtime)
{
	fork_and_check(NULL);
	join(spawn(fork_and_check, NULL));
	gmp_yield();
	CHECK_EQ(gmp_procs(), procs);
}

static void fork_and_run(UNUSED void *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		check_no_runtime();
		for (int i = 0; i < 3; i++) {
			atomic_store(&ran, 0);
			run_procs(fork_procs, spawn_many, NULL);
			CHECK_EQ(atomic_load(&ran), 100);
		}
		_exit(43);
	}
	wait_status(pid, 43);
}

RT(fork_child_of_green_thread_may_start_runtime)
{
	struct ext_thread f;

	if (SANITIZED)
		check_skip("sanitizers refuse threads in a forked child");
	fork_procs = procs;
	fork_and_run(NULL);
	join(spawn(fork_and_run, NULL));
	ext_thread_start(&f, fork_and_run, NULL);
	ext_thread_join(&f);
	join(spawn(spawn_many, NULL));
}

/* An M waits with a timer slack of 1 ns, which the child must not inherit. */
enum { SLACK = 77000 };

static void check_slack_in_child(UNUSED void *arg)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == SLACK ? 44 : 1);
	wait_status(pid, 44);
	gmp_block_enter();
	pid = fork();
	if (pid == 0)
		_exit(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == SLACK ? 45 : 1);
	wait_status(pid, 45);
	gmp_block_leave();
	CHECK_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 1);
}

static void check_slack_of_children(UNUSED void *arg)
{
	check_slack_in_child(NULL);
	for (int i = 0; i < 8; i++)
		join(spawn(check_slack_in_child, NULL));
}

TEST_PROCS(fork_child_has_timer_slack_of_program)
{
	CHECK_EQ(prctl(PR_SET_TIMERSLACK, (unsigned long)SLACK, 0, 0, 0), 0);
	run_procs(procs, check_slack_of_children, NULL);
	CHECK_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), SLACK);
}

static void fork_and_return(UNUSED void *arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		atexit(abort);
		return;
	}
	wait_status(pid, 0);
}

RT(fork_child_returning_from_entry_exits_0)
{
	join(spawn(fork_and_return, NULL));
	fork_and_return(NULL);
}

static void fork_and_exit(UNUSED void *arg)
{
	pid_t pid = fork();

	if (pid == 0)
		fork_and_return(NULL);
	else
		wait_status(pid, 0);
}

RT(fork_child_of_fork_child_exits_0)
{
	join(spawn(fork_and_exit, NULL));
}

TEST_PROCS(fork_in_started_runtime_leaves_parent_undisturbed)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	CHECK_EQ(gmp_start(&c), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_go(step_and_yield, NULL), 0);
		CHECK_EQ(gmp_go(step_after_sleep, NULL), 0);
	}
	for (int i = 0; i < 10; i++) {
		long seen = atomic_load(&steps);
		pid_t pid = fork();

		if (pid == 0) {
			check_no_runtime();
			_exit(44);
		}
		wait_status(pid, 44);
		WAIT_FOR(atomic_load(&steps) > seen + 100);
	}
	CHECK_EQ(gmp_stop(), 0);
}

/* --- gevent#1686: a child that ended its event loop removed fds from that of its parent --- */

static int ends[2];

static void read_byte(UNUSED void *arg)
{
	char byte;

	CHECK_EQ(gmp_read(ends[0], &byte, 1), 1);
}

static void use_and_close(UNUSED void *arg)
{
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(gmp_fd_adopt(ends[i]), ends[i]);
		CHECK_EQ(gmp_fd_wait(ends[i], GMP_READ, gmp_deadline(GMP_MS)), -ETIMEDOUT);
	}
	CHECK_EQ(gmp_close(ends[0]), 0);
	CHECK_EQ(gmp_close(ends[1]), 0);
}

RT(fork_child_that_polls_and_closes_leaves_waits_of_parent)
{
	if (SANITIZED)
		check_skip("sanitizers refuse threads in a forked child");
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	CHECK_EQ(gmp_fd_adopt(ends[0]), ends[0]);
	CHECK_EQ(gmp_fd_adopt(ends[1]), ends[1]);
	for (int i = 0; i < 3; i++) {
		gmp_g *g = spawn(read_byte, NULL);

		wait_parked(1);
		pid_t pid = fork();

		if (pid == 0) {
			run_procs(procs, use_and_close, NULL);
			_exit(46);
		}
		wait_status(pid, 46);
		CHECK_EQ(gmp_write(ends[1], "x", 1), 1);
		join(g);
	}
	CHECK_EQ(gmp_close(ends[0]), 0);
	CHECK_EQ(gmp_close(ends[1]), 0);
}
