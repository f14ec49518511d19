/* SPDX-License-Identifier: MIT */
/*
 * Runs all actors (actors.h) together for a long time and checks that nothing leaks.
 *
 *   mix SECONDS SEED ROUND_SECONDS [restart]
 *
 * With `restart` each round is a run of its own.
 */
#define _GNU_SOURCE 1
#include "actors.h"

static unsigned rounds_done;
static bool restart;

static void app(void *arg)
{
	(void)arg;
	begin_run();
	do {
		run_actors(actors, ACTORS, rounds_done++);
		CHECK(gmp_set_procs(2) > 0);
		check_nothing_is_left();
	} while (!restart && gmp_now() < soak_end);
}

int main(int argc, char **argv)
{
	gmp_config c = GMP_CONFIG_INIT;

	if (argc < 4) {
		fputs("usage: mix SECONDS SEED ROUND_SECONDS [restart]\n", stderr);
		return 2;
	}
	restart = argc > 4;
	soak_begin(restart ? "mix (restart)" : "mix", argv[1], argv[2], argv[3], true);
	actors_begin();
	c.procs = 2;
	c.max_threads = MOST_THREADS;
	c.seed = soak_seed;
	do {
		CHECK_EQ(gmp_run(app, NULL, &c), 0);
	} while (gmp_now() < soak_end);
	actors_end();
	printf("%s: %u rounds\n", soak_name, rounds_done);
	return 0;
}
