/* SPDX-License-Identifier: MIT */
/* Tests that calls that need a runtime return -ESRCH before the first run and after a run. */
#include "util.h"

static void nothing(UNUSED void *arg)
{
}

static void check_esrch(void)
{
	gmp_stats s = GMP_STATS_INIT;
	gmp_g *g = NULL;
	char buf[64];
	int fd[2];

	CHECK_EQ(gmp_procs(), 0);
	CHECK_EQ(gmp_set_procs(2), -ESRCH);
	CHECK_EQ(gmp_stop(), -ESRCH);
	CHECK_EQ(gmp_go(nothing, NULL), -ESRCH);
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, NULL), -ESRCH);
	CHECK(g == NULL);
	CHECK(gmp_timer_new(nothing, NULL) == NULL);
	CHECK_EQ(gmp_stats_get(&s), -ESRCH);
	CHECK_EQ(gmp_listen("tcp", "127.0.0.1:0"), -ESRCH);
	CHECK_EQ(gmp_dial("tcp", "127.0.0.1:1"), -ESRCH);
	CHECK_EQ(gmp_dial_until("tcp", "127.0.0.1:1", gmp_deadline(SEC)), -ESRCH);
	CHECK_EQ(pipe(fd), 0);
	CHECK_EQ(gmp_fd_adopt(fd[0]), -ESRCH);
	CHECK_EQ(gmp_accept(fd[0]), -ESRCH);
	CHECK_EQ(gmp_read(fd[0], buf, 1), -ESRCH);
	CHECK_EQ(gmp_write(fd[1], buf, 1), -ESRCH);
	CHECK_EQ(gmp_read_full(fd[0], buf, 1), -ESRCH);
	CHECK_EQ(gmp_write_all(fd[1], buf, 1), -ESRCH);
	CHECK_EQ(gmp_shutdown(fd[0], 0), -ESRCH);
	CHECK_EQ(gmp_close(fd[0]), -ESRCH);
	CHECK_EQ(gmp_local_addr(fd[0], buf, sizeof(buf)), -ESRCH);
	CHECK_EQ(gmp_peer_addr(fd[0], buf, sizeof(buf)), -ESRCH);
	CHECK_EQ(close(fd[0]), 0);
	CHECK_EQ(close(fd[1]), 0);
}

static void check_works(void)
{
	CHECK(gmp_self() == NULL);
	CHECK_EQ(gmp_id(NULL), 0);
	gmp_yield();
	gmp_checkpoint();
	CHECK_EQ(gmp_sleep(MS), 0);
	CHECK_EQ(gmp_sleep(0), 0);
	CHECK_EQ(gmp_sleep_until(gmp_deadline(MS)), 0);
	gmp_timer_free(NULL);
}

TEST(calls_before_first_run_return_esrch)
{
	check_esrch();
	check_works();
}

TEST_PROCS(calls_after_run_return_esrch)
{
	run_procs(procs, nothing, NULL);
	check_esrch();
	check_works();
	run_procs(procs, nothing, NULL);
	check_esrch();
}

TEST_PROCS(calls_after_stop_return_esrch)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	CHECK_EQ(gmp_start(&c), 0);
	CHECK_EQ(gmp_stop(), 0);
	check_esrch();
	check_works();
}
