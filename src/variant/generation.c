/* SPDX-License-Identifier: MIT */
/* The scheduler generations: one line for each, in the order of enum gmp_sched. */
#include "variant/variant.h"

const struct generation generations[] = {
	[GMP_SCHED_RUNNEXT] = { .ring = RUNQ_SIZE },
	[GMP_SCHED_LOCAL] = { .ring = RUNQ_SIZE, .in_order = true },
	[GMP_SCHED_GLOBAL] = { .in_order = true, .one_lane = true },
	[GMP_SCHED_THREAD] = { .ring = RUNQ_SIZE, .in_order = true, .threads = true },
};
