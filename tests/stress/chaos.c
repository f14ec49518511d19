/* SPDX-License-Identifier: MIT */
/*
 * Under GMP_DEBUG=chaos, does everything at once (tests/soak/actors.h) still keep what it promises?
 *
 * Rounds, each a run of its own: at the end of one nothing may be left over, and a round that does not
 * end is a failure, too.  $STRESS_SEED and $STRESS_SECONDS as for the other stress tests.
 */
#define _GNU_SOURCE 1
#include "check.h"
/* for those of soak.h, which dump all green threads */
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

/* One P would go from one to the next without ever doing two things at once. */
TEST_PROCS(actors_of_all_kinds_under_chaos_keep_promises)
{
	if (procs == 1)
		check_skip("for several Ps");
	do_everything(procs);
}
