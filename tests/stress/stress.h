/* SPDX-License-Identifier: MIT */
/*
 * Shared helpers of the stress tests: seed, time limit and random numbers.
 *
 * $STRESS_SEED sets the seed, which is printed; $STRESS_SECONDS sets the time limit (default: 3).
 */
#ifndef TESTS_STRESS_H
#define TESTS_STRESS_H

#include "io/io_util.h"

#include <time.h>

#include "rng.h"

static uint64_t stress_seed;
static int64_t stress_end;

static inline void stress_begin(void)
{
	const char *seed = getenv("STRESS_SEED"), *seconds = getenv("STRESS_SECONDS");
	long s = seconds != NULL ? atol(seconds) : 3;

	stress_seed = seed != NULL ? strtoull(seed, NULL, 10) : (uint64_t)gmp_now() % 1000000007;
	fprintf(stderr, "STRESS_SEED=%llu\n", (unsigned long long)stress_seed);
	stress_end = gmp_deadline((s > 0 ? s : 1) * SEC);
}

static inline int stress_over(void)
{
	return gmp_now() >= stress_end;
}

static inline void kernel_sleep(unsigned us)
{
	struct timespec t = { 0, (long)us * 1000 };

	nanosleep(&t, NULL);
}

static inline void in_blocking_code(unsigned us)
{
	gmp_block_enter();
	if (us)
		kernel_sleep(us);
	gmp_block_leave();
}

static inline struct rng rng_for(uint64_t id)
{
	return rng_of(stress_seed, id);
}

#endif
