/* SPDX-License-Identifier: MIT */
/*
 * Tests that CPU time is accounted: of each life of a g struct, of blocking code, in a trace and in
 * the child of a fork. Its cases compare times: each needs a CPU.
 *
 * floors 0..6
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/emit.h"
#include "g.h"
#include "observe/trace/tracing.h"
#include "observe/tracing.h"
#include "rt.h"

static char path[64]; /* of a trace */

static void make_path(void)
{
	strcpy(path, "/tmp/gmp-cputime-XXXXXX");
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
}

static void compute_ms(void *ms)
{
	int64_t until = gmp_now() + (int64_t)(intptr_t)ms * GMP_MS;

	while (gmp_now() < until)
		;
}

/* An upper bound of accounted time: what the test has measured, since the machine may interrupt it
 * at any time, and the error of two clocks. */
static void expect_at_most(uint64_t ns, int64_t measured)
{
	CHECK(ns <= (uint64_t)(measured + 5 * GMP_MS));
}

static void check_next_life(int64_t ms)
{
	int64_t began = gmp_now();
	uint64_t ns;
	gmp_g *g;

	CHECK_EQ(gmp_spawn(&g, compute_ms, (void *)(intptr_t)ms, NULL), 0);
	/* it ends and is not joined, so its g struct stays */
	while (ld_rlx(&((struct g *)g)->status) != G_DEAD)
		gmp_yield();
	CHECK(cputime_of((struct g *)g, &ns));
	CHECK(ns >= (uint64_t)(ms * GMP_MS));
	expect_at_most(ns, gmp_now() - began);
	CHECK_EQ(gmp_join(g), 0);
}

/* Returns how long the caller was in blocking code, at least. */
static int64_t block(void)
{
	gmp_block_enter();
	int64_t began = gmp_now();

	usleep(200000);
	began = gmp_now() - began;
	gmp_block_leave();
	return began;
}

static void account(void *arg)
{
	gmp_stats before = GMP_STATS_INIT, after = GMP_STATS_INIT;
	uint64_t own, ns;

	(void)arg;
	check_next_life(20);
	check_next_life(0);
	int64_t began = gmp_now();

	gmp_yield(); /* a run is accounted when it ends */
	CHECK(cputime_of((struct g *)gmp_self(), &own));
	CHECK_EQ(gmp_stats_get(&before), 0);
	CHECK(before.cpu_ns >= 20 * (uint64_t)GMP_MS);
	compute_ms((void *)30);
	int64_t blocked = block();

	compute_ms((void *)30);
	gmp_yield();
	CHECK(cputime_of((struct g *)gmp_self(), &ns));
	CHECK_EQ(gmp_stats_get(&after), 0);
	int64_t ran = gmp_now() - began - blocked;

	CHECK(ns - own >= 60 * (uint64_t)GMP_MS);
	expect_at_most(ns - own, ran);
	CHECK(after.cpu_ns - before.cpu_ns >= 60 * (uint64_t)GMP_MS);
	expect_at_most(after.cpu_ns - before.cpu_ns, ran);
}

TEST(cputime_word_accounts_each_life_of_a_g_struct)
{
	setenv("GMP_DEBUG", "cputime", 1);
	run_procs(1, account, NULL);
	unsetenv("GMP_DEBUG");
	CHECK_EQ(recording(), 0);
}

static void leave_without_p(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++) {
		gmp_block_enter();
		usleep(2000);
		gmp_block_leave();
	}
}

static void blocking_beside_computing(void *arg)
{
	gmp_g *g[8];

	(void)arg;
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_spawn(&g[i], i % 2 ? compute_ms : leave_without_p, (void *)20, NULL),
			 0);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

TEST(cputime_of_a_g_that_leaves_blocking_code_without_a_p_is_accounted)
{
	setenv("GMP_DEBUG", "cputime", 1);
	run_procs(1, blocking_beside_computing, NULL);
	unsetenv("GMP_DEBUG");
}

static void account_with_a_pause(void *arg)
{
	gmp_stats before = GMP_STATS_INIT, after = GMP_STATS_INIT;

	(void)arg;
	CHECK_EQ(gmp_trace_start(path), 0);
	gmp_yield();
	CHECK_EQ(gmp_trace_stop(), 0);
	CHECK_EQ(gmp_stats_get(&before), 0);
	compute_ms((void *)300);
	CHECK_EQ(gmp_trace_start(path), 0);
	gmp_yield();
	CHECK_EQ(gmp_trace_stop(), 0);
	CHECK_EQ(gmp_stats_get(&after), 0);
	CHECK(after.cpu_ns - before.cpu_ns < 150 * (uint64_t)GMP_MS);
}

TEST(cputime_while_nothing_is_recorded_is_not_accounted)
{
	make_path();
	run_procs(1, account_with_a_pause, NULL);
	unlink(path);
}

static void lease(void *arg)
{
	(void)arg;
	CHECK(cputime_lease(20 * GMP_MS) && cputime_lease(60 * GMP_MS));
	gmp_sleep(40 * GMP_MS);
	CHECK(recording() & RECORD_CPU);
	while (recording()) /* the test times out if the lease has no end */
		gmp_sleep(GMP_MS);
	CHECK(cputime_lease(10 * GMP_MS) && recording() & RECORD_CPU);
	while (recording())
		gmp_sleep(GMP_MS);
}

TEST(cputime_lease_ends_and_can_be_taken_again)
{
	run_configured(1, 0, GMP_VIRTUAL_TIME, lease, NULL);
}

static void spawn_traced(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_trace_start(path), 0);
	CHECK_EQ(gmp_spawn(&g, compute_ms, NULL, NULL), 0);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(gmp_trace_stop(), 0);
}

static void fork_while_accounted(void *arg)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	int status;

	(void)arg;
	gmp_block_enter();
	pid_t pid = fork();

	if (pid == 0) {
		cfg.max_green = 400000; /* more than in the parent */
		setenv("GMP_DEBUG", "cputime", 1);
		_exit(gmp_run(spawn_traced, NULL, &cfg) != 0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	gmp_block_leave();
	CHECK_EQ(status, 0);
}

TEST(cputime_in_a_fork_child_has_memory_of_its_own)
{
	gmp_config cfg = GMP_CONFIG_INIT;

#if defined(SAN_ADDRESS) || defined(SAN_THREAD)
	/* TSan: none is started; ASan: another thread may have held its table of threads */
	check_skip("the child of a process with threads starts threads");
#endif
	make_path();
	cfg.max_green = 2000;
	setenv("GMP_DEBUG", "cputime", 1);
	CHECK_EQ(gmp_run(fork_while_accounted, NULL, &cfg), 0);
	unlink(path);
}
