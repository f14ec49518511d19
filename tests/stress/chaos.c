/* SPDX-License-Identifier: MIT */
/*
 * All actors of tests/soak/actors.h together under GMP_DEBUG=chaos.
 *
 * Each round is a run of its own.  A round fails if it does not end or leaves a resource behind.
 * $STRESS_SEED and $STRESS_SECONDS work as for the other stress tests.
 */
#define _GNU_SOURCE 1
#include "check.h"
/* soak.h defines its own, which dump all green threads */
#undef CHECK
#undef CHECK_EQ

#include "../soak/actors.h"

static unsigned rounds_done;

static void app(void *arg)
{
	begin_run();
	run_actors(actors, ACTORS, rounds_done++);
	CHECK(gmp_set_procs(*(int *)arg) > 0);
	check_nothing_is_left();
}

static void do_everything(int procs)
{
	const char *seed = getenv("STRESS_SEED"), *seconds = getenv("STRESS_SECONDS");
	gmp_config c = GMP_CONFIG_INIT;
	char drawn[24];

	snprintf(drawn, sizeof(drawn), "%llu", (unsigned long long)gmp_now() % 1000000007);
	seed = seed ? seed : drawn;
	fprintf(stderr, "STRESS_SEED=%s\n", seed);
	CHECK_EQ(setenv("GMP_DEBUG", "chaos", 1), 0);
	soak_begin("chaos", seconds ? seconds : "3", seed, "1", false);
	actors_begin();
	c.procs = procs;
	c.max_threads = MOST_THREADS;
	do {
		c.seed = soak_seed * 1000 + rounds_done + 1;
		CHECK_EQ(gmp_run(app, &procs, &c), 0);
	} while (gmp_now() < soak_end);
	fprintf(stderr, "%u rounds\n", rounds_done);
	actors_end();
}

/* With one P, no two actors run at the same time. */
TEST_PROCS(actors_of_all_kinds_under_chaos_keep_promises)
{
	if (procs == 1)
		check_skip("for several Ps");
	do_everything(procs);
}
