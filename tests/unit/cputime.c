/* SPDX-License-Identifier: MIT */
/* Tests that CPU time is accounted: of each life of a g struct, of blocking code, in a trace and in
 * the child of a fork.  floors 0..6 */
#define _GNU_SOURCE 1
#include "check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/emit.h"
#include "debug/tracing.h"
#include "g.h"
#include "mode/tracing.h"
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

static uint64_t time_of_next_life(void *ms)
{
	uint64_t ns;
	gmp_g *g;

	CHECK_EQ(gmp_spawn(&g, compute_ms, ms, NULL), 0);
	/* it ends and is not joined, so its g struct stays */
	while (ld_rlx(&((struct g *)g)->status) != G_DEAD)
		gmp_yield();
	CHECK(cputime_of((struct g *)g, &ns));
	CHECK_EQ(gmp_join(g), 0);
	return ns;
}

static void account(void *arg)
{
	gmp_stats s = GMP_STATS_INIT;
	uint64_t ns;

	(void)arg;
	ns = time_of_next_life((void *)20);
	CHECK(ns >= 20 * (uint64_t)GMP_MS);
	ns = time_of_next_life((void *)0);
	CHECK(ns < 20 * (uint64_t)GMP_MS);
	compute_ms((void *)30);
	gmp_block_enter();
	usleep(200000);
	gmp_block_leave();
	compute_ms((void *)30);
	gmp_yield();
	CHECK(cputime_of((struct g *)gmp_self(), &ns));
	CHECK(ns >= 60 * (uint64_t)GMP_MS && ns < 200 * (uint64_t)GMP_MS);
	CHECK_EQ(gmp_stats_get(&s), 0);
	CHECK(s.cpu_ns >= 80 * (uint64_t)GMP_MS && s.cpu_ns < 250 * (uint64_t)GMP_MS);
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

#ifdef SAN_THREAD
	check_skip("ThreadSanitizer lets no child of a process with threads start threads");
#endif
	make_path();
	cfg.max_green = 2000;
	setenv("GMP_DEBUG", "cputime", 1);
	CHECK_EQ(gmp_run(fork_while_accounted, NULL, &cfg), 0);
	unlink(path);
}
