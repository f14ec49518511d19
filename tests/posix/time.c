/* SPDX-License-Identifier: MIT */
/* Tests the functions that sleep. */
#include <time.h>

#include "posix.h"

POSIX_TEST(nanosleep_bad_time_is_einval)
{
	static const struct timespec bad[] = { { -1, 0 }, { 0, -1 }, { 0, 1000000000 } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CHECK_EQ(nanosleep(&bad[i], NULL), -1);
		CHECK_EQ(errno, EINVAL);
	}
}

POSIX_TEST(nanosleep_sleeps_the_time)
{
	struct timespec t = { 0, 20000000 };
	int64_t began = gmp_now();

	CHECK_EQ(nanosleep(&t, NULL), 0);
	CHECK(gmp_now() - began >= 20000000);
}

static void sleeper(void *arg)
{
	struct timespec t = { 0, 50000000 };

	CHECK_EQ(nanosleep(&t, NULL), 0);
	(*(int *)arg)++;
}

static void many_sleepers(void *arg)
{
	gmp_g *g[100];

	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_spawn(&g[i], sleeper, arg, NULL), 0);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

/* 100 green threads on one P: 50 ms in parallel, 5 s one after the other. */
TEST(nanosleep_parks_the_green_thread)
{
	int n = 0;
	int64_t began = gmp_now();
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = 1;
	cfg.flags = GMP_OWN_TLS;
	CHECK_EQ(gmp_run(many_sleepers, &n, &cfg), 0);
	CHECK_EQ(n, 100);
	CHECK(gmp_now() - began < 2000000000);
}
