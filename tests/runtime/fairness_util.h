/* SPDX-License-Identifier: MIT */
/* Helpers for the tests of lock fairness in virtual time, where each bound is exact. */
#ifndef GMP_TEST_FAIRNESS_UTIL_H
#define GMP_TEST_FAIRNESS_UTIL_H

#include "util.h"

enum { STARVING = 1000000, PACE = 20000 }; /* ns; STARVING_NS and PACE_GREEN_NS of wait/mutex.c */

static inline void run_virtual(int procs, gmp_fn fn, void *arg)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs;
	c.flags = GMP_VIRTUAL_TIME;
	CHECK_EQ(gmp_run(fn, arg, &c), 0);
}

static inline uint64_t switches(void)
{
	gmp_stats s = GMP_STATS_INIT;

	CHECK_EQ(gmp_stats_get(&s), 0);
	return s.switches;
}

/* MANY green threads lock EACH times. The lock was held until all of them were starving. */
enum { MANY = 2000, EACH = 100 };

/* before: switches() just before the unlock. In a lock convoy each unlock would cost a switch. */
static inline void check_no_convoy(uint64_t before, int procs)
{
	CHECK(switches() - before <= (procs == 1 ? MANY * 5 / 4 : MANY * EACH / 2));
}

#endif
