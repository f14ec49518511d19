/* SPDX-License-Identifier: MIT */
/* Absolute times of callers: see times.h. */
#include "posix/call/times.h"

int64_t deadline_at(clockid_t clock, const struct timespec *abs)
{
	struct timespec now;

	if (!abs)
		return NEVER;
	clock_gettime(clock, &now);
	return abs->tv_sec < now.tv_sec ? gmp_now()
					: gmp_deadline(ns_of_timespec(abs) - ns_of_timespec(&now));
}
