/* SPDX-License-Identifier: MIT */
/* Times of callers, and deadlines of the runtime's clock. */
#ifndef GMP_POSIX_TIMES_H
#define GMP_POSIX_TIMES_H

#include <gmp.h>
#include <time.h>

#include "base/base.h"

static inline bool has_valid_ns(const struct timespec *t)
{
	return t->tv_nsec >= 0 && t->tv_nsec < S;
}

static inline bool is_duration(const struct timespec *t)
{
	return t->tv_sec >= 0 && has_valid_ns(t);
}

/* INT64_MAX for more.  The time is not negative. */
static inline int64_t ns_of_timespec(const struct timespec *t)
{
	int64_t ns;

	if (__builtin_mul_overflow(t->tv_sec, S, &ns) ||
	    __builtin_add_overflow(ns, t->tv_nsec, &ns))
		return INT64_MAX;
	return ns;
}

/* 0 for a time that is negative. */
static inline struct timespec timespec_of(int64_t ns)
{
	ns = max_of(ns, (int64_t)0);
	return (struct timespec){ ns / S, ns % S };
}

/* The deadline after a duration; NULL: GMP_FOREVER. */
static inline int64_t deadline_after(const struct timespec *t)
{
	return t ? gmp_deadline(ns_of_timespec(t)) : GMP_FOREVER;
}

/* The time of the runtime's clock at which `clock` shows abs, which has_valid_ns; NULL: never.  A
 * step of CLOCK_REALTIME after that does not move it. */
int64_t deadline_at(clockid_t clock, const struct timespec *abs);

/* A clock of such a time. */
static inline bool is_wait_clock(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

/* What is left until the deadline, for a call of libc. */
static inline struct timespec time_left(int64_t deadline)
{
	return timespec_of(deadline - gmp_now());
}

#endif
