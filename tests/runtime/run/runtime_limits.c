/* SPDX-License-Identifier: MIT */
/* Tests that a run reports refused resources as errors and works again afterwards. */
#define _GNU_SOURCE
#include <sys/resource.h>

#include "runtime_util.h"

static void fill_up(UNUSED void *arg)
{
	gmp_g *g[64];
	int n = 0, err = 0;

	gmp_wg_add(&never, 1);
	while (n < 64 && (err = gmp_spawn(&g[n], wait_until_done, NULL, NULL)) == 0)
		n++;
	CHECK_EQ(err, -EAGAIN);
	CHECK_EQ(n, 9); /* and the entry */
	CHECK_EQ(gmp_go(nothing, NULL), -EAGAIN);
	gmp_wg_done(&never);
	for (int i = 0; i < n; i++)
		join(g[i]);
	CHECK_EQ(gmp_spawn(&g[0], nothing, NULL, NULL), 0);
	join(g[0]);
}

TEST_PROCS(spawn_beyond_max_green_returns_eagain)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.max_green = 10;
	CHECK_EQ(gmp_run(fill_up, NULL, &c), 0);
}

TEST(run_without_fds_returns_emfile_and_leaks_nothing)
{
	struct rlimit old, low;
	int fds = count_fds(), threads = count_threads();

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 0;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
	CHECK_EQ(gmp_run(count_run, NULL, NULL), -EMFILE);
	CHECK_EQ(gmp_start(NULL), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK_EQ(atomic_load(&ran), 0);
	CHECK_EQ(count_fds(), fds);
	WAIT_FOR(count_threads() == threads);
	CHECK_EQ(gmp_run(count_run, NULL, NULL), 0);
	CHECK_EQ(atomic_load(&ran), 1);
}

static void run_without_threads(void)
{
	struct rlimit none = { 0, 0 };
	gmp_config c = GMP_CONFIG_INIT;
	int err;

	if (setresuid(65534, 65534, 65534) != 0 || setrlimit(RLIMIT_NPROC, &none) != 0)
		_exit(50);
	c.procs = 4;
	err = gmp_run(spawn_many, NULL, &c);
	if (err == 0)
		CHECK_EQ(atomic_load(&ran), 100);
	else
		CHECK_EQ(err, -EAGAIN);
	c.procs = 1;
	err = gmp_start(&c);
	if (err == 0)
		CHECK_EQ(gmp_stop(), 0);
	else
		CHECK_EQ(err, -EAGAIN);
	_exit(0);
}

TEST(run_without_threads_returns_eagain_or_uses_fewer)
{
	if (SANITIZED || geteuid() != 0)
		check_skip("needs root and no sanitizer");
	CHECK_EQ(in_child(run_without_threads), 0);
}

static void spawn_without_memory(UNUSED void *arg)
{
	struct rlimit old, low;
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	CHECK_EQ(getrlimit(RLIMIT_AS, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)proc_kb("/proc/self/status", "VmSize") * 1024 + (64 << 20);
	CHECK_EQ(setrlimit(RLIMIT_AS, &low), 0);
	a.stack_size = (size_t)1 << 30;
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, &a), -ENOMEM);
	CHECK(g == NULL);
	CHECK_EQ(setrlimit(RLIMIT_AS, &old), 0);
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, &a), 0);
	join(g);
}

TEST_PROCS(spawn_without_address_space_returns_enomem)
{
	check_skip_on_valgrind("Valgrind needs the memory, too");
	if (SANITIZED)
		check_skip("a sanitizer has its own memory");
	run_procs(procs, spawn_without_memory, NULL);
}

static void fill_memory(UNUSED void *arg)
{
	enum { MOST = 1 << 20 };
	gmp_g **g = calloc(MOST, sizeof(gmp_g *));
	struct rlimit old, low;
	int n = 0, err = 0;

	CHECK(g != NULL);
	CHECK_EQ(getrlimit(RLIMIT_AS, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)proc_kb("/proc/self/status", "VmSize") * 1024 + (96 << 20);
	CHECK_EQ(setrlimit(RLIMIT_AS, &low), 0);
	gmp_wg_add(&never, 1);
	while (n < MOST && (err = gmp_spawn(&g[n], wait_until_done, NULL, NULL)) == 0) {
		n++;
		if (n % 64 == 0)
			gmp_yield();
	}
	CHECK_EQ(err, -ENOMEM);
	CHECK(n > 10);
	gmp_wg_done(&never);
	for (int i = 0; i < n; i++)
		join(g[i]);
	CHECK_EQ(gmp_spawn(&g[0], nothing, NULL, NULL), 0);
	join(g[0]);
	CHECK_EQ(setrlimit(RLIMIT_AS, &old), 0);
	free(g);
}

TEST_PROCS(spawn_until_out_of_memory_returns_enomem_then_recovers)
{
	check_skip_on_valgrind("Valgrind needs the memory, too");
	if (SANITIZED)
		check_skip("a sanitizer has its own memory");
	run_procs(procs, fill_memory, NULL);
}
