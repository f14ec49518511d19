/* SPDX-License-Identifier: MIT */
/* Tests of what the watcher sees to. */
#include "util.h"

static atomic_int stop, ran;

static void yield_for_ever(UNUSED void *arg)
{
	atomic_fetch_add(&ran, 1);
	while (!atomic_load(&stop))
		gmp_yield();
}

static void mark(void *arg)
{
	atomic_store((atomic_int *)arg, 1);
}

/* The others never run dry, so they do not come to steal. */
RT(what_is_queued_behind_one_that_computes_runs_though_all_ps_are_busy)
{
	int64_t limit = gmp_deadline(PATIENCE);
	atomic_int seen[3] = { 0 };
	gmp_g *g[4], *queued[3];

	if (procs == 1)
		check_skip("nobody else is there");
	for (int i = 0; i < procs - 1; i++)
		g[i] = spawn(yield_for_ever, NULL);
	WAIT_FOR(atomic_load(&ran) == procs - 1);
	for (int i = 0; i < 3; i++)
		queued[i] = spawn(mark, &seen[i]);
	for (int i = 0; i < 3; i++)
		while (!atomic_load(&seen[i]))
			CHECK(gmp_now() < limit);
	atomic_store(&stop, 1);
	for (int i = 0; i < procs - 1; i++)
		join(g[i]);
	for (int i = 0; i < 3; i++)
		join(queued[i]);
}
