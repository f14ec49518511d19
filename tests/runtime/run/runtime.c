/* SPDX-License-Identifier: MIT */
/* Tests gmp_run, gmp_start and gmp_stop: configuration, environment, results and errors. */
#define _GNU_SOURCE
#include <sched.h>

#include "runtime_util.h"

TEST_PROCS(run_calls_entry_once)
{
	run_procs(procs, count_run, NULL);
	CHECK_EQ(atomic_load(&ran), 1);
	run_procs(procs, count_run, NULL);
	CHECK_EQ(atomic_load(&ran), 2);
}

TEST(run_with_null_config_works)
{
	CHECK_EQ(gmp_run(count_run, NULL, NULL), 0);
	CHECK_EQ(atomic_load(&ran), 1);
}

static void exit_app(UNUSED void *arg)
{
	atomic_fetch_add(&ran, 1);
	gmp_exit();
}

TEST_PROCS(gmp_exit_in_entry_ends_run)
{
	run_procs(procs, exit_app, NULL);
	CHECK_EQ(atomic_load(&ran), 1);
}

static void see_procs(void *arg)
{
	*(int *)arg = gmp_procs();
}

TEST(procs_equals_config_and_is_0_without_runtime)
{
	for (int n = 1; n <= 8; n++) {
		gmp_config c = GMP_CONFIG_INIT;
		int seen = -1;

		CHECK_EQ(gmp_procs(), 0);
		c.procs = n;
		CHECK_EQ(gmp_run(see_procs, &seen, &c), 0);
		CHECK_EQ(seen, n);
	}
	CHECK_EQ(gmp_procs(), 0);
}

TEST(procs_default_comes_from_environment)
{
	gmp_config c = GMP_CONFIG_INIT;
	int seen = -1;

	CHECK_EQ(setenv("GMP_PROCS", "3", 1), 0);
	CHECK_EQ(gmp_run(see_procs, &seen, NULL), 0);
	CHECK_EQ(seen, 3);
	CHECK_EQ(gmp_run(see_procs, &seen, &c), 0);
	CHECK_EQ(seen, 3);
}

TEST(procs_of_config_overrides_environment)
{
	gmp_config c = GMP_CONFIG_INIT;
	int seen = -1;

	CHECK_EQ(setenv("GMP_PROCS", "3", 1), 0);
	c.procs = 2;
	CHECK_EQ(gmp_run(see_procs, &seen, &c), 0);
	CHECK_EQ(seen, 2);
}

static void bad_env(const char *name, const char *value)
{
	CHECK_EQ(setenv(name, value, 1), 0);
	CHECK_EQ(gmp_run(count_run, NULL, NULL), -EINVAL);
	CHECK_EQ(gmp_start(NULL), -EINVAL);
	CHECK_EQ(unsetenv(name), 0);
	CHECK_EQ(atomic_load(&ran), 0);
}

TEST(run_bad_environment_returns_einval)
{
	bad_env("GMP_PROCS", "-1");
	bad_env("GMP_PROCS", "many");
	bad_env("GMP_PROCS", "4x");
	bad_env("GMP_PROCS", "1025");
	bad_env("GMP_PROCS", "99999999999999999999");
	bad_env("GMP_STACK_SIZE", "-5");
	bad_env("GMP_STACK_SIZE", "big");
	bad_env("GMP_STACK_SIZE", "2147483648");
	bad_env("GMP_MAX_THREADS", "none");
	bad_env("GMP_SEED", "oats");
	CHECK_EQ(gmp_run(count_run, NULL, NULL), 0);
	CHECK_EQ(atomic_load(&ran), 1);
}

TEST(procs_with_affinity_of_one_cpu_is_1)
{
	cpu_set_t set, one;
	int seen = -1;

	unsetenv("GMP_PROCS");
	CHECK_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &set)) {
			CPU_SET(i, &one);
			break;
		}
	}
	CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	CHECK_EQ(gmp_run(see_procs, &seen, NULL), 0);
	CHECK_EQ(seen, 1);
}

TEST(procs_default_is_at_most_cpus_in_affinity)
{
	cpu_set_t set;
	int seen = -1;

	unsetenv("GMP_PROCS");
	CHECK_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
	CHECK_EQ(gmp_run(see_procs, &seen, NULL), 0);
	CHECK(seen >= 1);
	CHECK(seen <= CPU_COUNT(&set));
}

static void both_refuse(const gmp_config *c)
{
	CHECK_EQ(gmp_run(count_run, NULL, c), -EINVAL);
	CHECK_EQ(gmp_start(c), -EINVAL);
	CHECK_EQ(gmp_procs(), 0);
	CHECK_EQ(atomic_load(&ran), 0);
}

TEST(run_bad_config_returns_einval)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.size = 0;
	both_refuse(&c);
	c = (gmp_config)GMP_CONFIG_INIT;
	c.procs = -1;
	both_refuse(&c);
	c.procs = 1025;
	both_refuse(&c);
	c.procs = INT_MIN;
	both_refuse(&c);
	c.procs = INT_MAX;
	both_refuse(&c);
	c = (gmp_config)GMP_CONFIG_INIT;
	c.stack_size = ((size_t)1 << 30) + 1;
	both_refuse(&c);
	c.stack_size = SIZE_MAX;
	both_refuse(&c);
	c = (gmp_config)GMP_CONFIG_INIT;
	c.max_threads = -1;
	both_refuse(&c);
	c = (gmp_config)GMP_CONFIG_INIT;
	c.flags = 1u << 31;
	both_refuse(&c);
	c = (gmp_config)GMP_CONFIG_INIT;
	CHECK_EQ(gmp_run(NULL, NULL, &c), -EINVAL);
	CHECK_EQ(gmp_run(count_run, NULL, &c), 0);
	CHECK_EQ(atomic_load(&ran), 1);
}

TEST(run_with_1024_ps_works)
{
	gmp_config c = GMP_CONFIG_INIT;
	int seen = -1;

	c.procs = 1024;
	CHECK_EQ(gmp_run(see_procs, &seen, &c), 0);
	CHECK_EQ(seen, 1024);
}

static void start_again(UNUSED void *arg)
{
	CHECK_EQ(gmp_run(nothing, NULL, NULL), -EBUSY);
	CHECK_EQ(gmp_start(NULL), -EBUSY);
}

RT(run_inside_run_returns_ebusy)
{
	struct ext_thread f;

	start_again(NULL);
	ext_thread_start(&f, start_again, NULL);
	ext_thread_join(&f);
	CHECK_EQ(gmp_procs(), procs);
}

static void run_count(void *arg)
{
	run_procs(*(int *)arg, count_run, NULL);
}

TEST_PROCS(run_works_on_any_os_thread)
{
	for (int i = 0; i < 10; i++) {
		struct ext_thread f;

		ext_thread_start(&f, run_count, &procs);
		CHECK_EQ(pthread_join(f.thread, NULL), 0);
	}
	run_count(&procs);
	CHECK_EQ(atomic_load(&ran), 11);
}

/* ---- start and stop */

TEST_PROCS(start_runs_green_threads_beside_external_caller)
{
	gmp_config c = GMP_CONFIG_INIT;
	gmp_g *g[100];

	c.procs = procs;
	CHECK_EQ(gmp_start(&c), 0);
	CHECK(gmp_self() == NULL);
	CHECK_EQ(gmp_procs(), procs);
	CHECK_EQ(gmp_start(NULL), -EBUSY);
	CHECK_EQ(gmp_run(nothing, NULL, NULL), -EBUSY);
	for (int i = 0; i < 100; i++)
		g[i] = spawn(count_run, NULL);
	for (int i = 0; i < 100; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&ran), 100);
	CHECK_EQ(gmp_stop(), 0);
	CHECK_EQ(gmp_procs(), 0);
	CHECK_EQ(gmp_stop(), -ESRCH);
}

static void stop_eperm(UNUSED void *arg)
{
	CHECK_EQ(gmp_stop(), -EPERM);
}

TEST(stop_from_green_thread_returns_eperm)
{
	CHECK_EQ(gmp_start(NULL), 0);
	join(spawn(stop_eperm, NULL));
	CHECK_EQ(gmp_stop(), 0);
}

static void stop_einval(UNUSED void *arg)
{
	CHECK_EQ(gmp_stop(), -EINVAL);
}

RT(stop_of_gmp_run_returns_einval)
{
	struct ext_thread f;

	ext_thread_start(&f, stop_einval, NULL);
	ext_thread_join(&f);
}

TEST_PROCS(stop_kills_remaining_green_threads)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	CHECK_EQ(gmp_start(&c), 0);
	gmp_wg_add(&never, 1);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_go(step_and_yield, NULL), 0);
		CHECK_EQ(gmp_go(step_and_check, NULL), 0);
		CHECK_EQ(gmp_go(step_after_sleep, NULL), 0);
		CHECK_EQ(gmp_go(wait_never, NULL), 0);
	}
	WAIT_FOR(atomic_load(&steps) > 1000);
	CHECK_EQ(gmp_stop(), 0);
	check_no_steps();
}

static void stop_it(UNUSED void *arg)
{
	CHECK_EQ(gmp_stop(), 0);
}

TEST(stop_from_other_external_thread_works)
{
	struct ext_thread f;

	CHECK_EQ(gmp_start(NULL), 0);
	ext_thread_start(&f, stop_it, NULL);
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
	CHECK_EQ(gmp_procs(), 0);
}

TEST_PROCS(start_idle_runtime_is_no_deadlock)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	CHECK_EQ(gmp_start(&c), 0);
	gmp_wg_add(&never, 1);
	gmp_g *g = spawn(wait_until_done, NULL);
	wait_parked(1);
	CHECK_EQ(gmp_sleep(20 * MS), 0);
	gmp_wg_done(&never);
	join(g);
	CHECK_EQ(gmp_stop(), 0);
}
