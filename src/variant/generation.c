/* SPDX-License-Identifier: MIT */
/* The scheduler generations: one line for each, in the order of enum gmp_sched. */
#include "variant/variant.h"

const struct generation generations[] = {
	[GMP_SCHED_RUNNEXT] = { .ring = RUNQ_SIZE },
	[GMP_SCHED_LOCAL] = { .ring = RUNQ_SIZE, .in_order = true },
	[GMP_SCHED_GLOBAL] = { .in_order = true, .one_lane = true },
	[GMP_SCHED_THREAD] = { .ring = RUNQ_SIZE, .in_order = true, .threads = true },
};

const char *variant_refuses(const struct options *options)
{
	if (generations[options->c.sched].threads && options->debug & (DEBUG_virtual | DEBUG_chaos))
		return "GMP_SCHED_THREAD cannot be used with GMP_DEBUG=virtual or chaos: the "
		       "kernel schedules";
	return NULL;
}

void variant_begin(void)
{
	bool threads = sched_generation()->threads;

	sched.variant.threads = threads;
	sched.variant.begins_otherwise = threads || sched.options.c.flags & GMP_OWN_TLS;
}
