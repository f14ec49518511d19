/* SPDX-License-Identifier: MIT */
/* Absolute times of callers: see times.h. */
#include "posix/call/times.h"

#include <errno.h>

int deadline_at(clockid_t clock, const struct timespec *abs, int64_t *deadline)
{
	struct timespec now;

	*deadline = NEVER;
	if (!abs)
		return 0;
	if (!has_valid_ns(abs))
		return EINVAL;
	clock_gettime(clock, &now);
	*deadline = abs->tv_sec < now.tv_sec
			    ? gmp_now()
			    : gmp_deadline(ns_of_timespec(abs) - ns_of_timespec(&now));
	return 0;
}
