/* SPDX-License-Identifier: MIT */
/* Replaces the functions that sleep: the green thread parks until a timer fires. */
#include <time.h>

#include "base/mem.h"
#include "posix/cancel.h"
#include "posix/hook.h"

static bool is_valid(const struct timespec *t)
{
	return t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

static int64_t to_ns(const struct timespec *t)
{
	int64_t ns;

	if (__builtin_mul_overflow(t->tv_sec, INT64_C(1000000000), &ns) ||
	    __builtin_add_overflow(ns, t->tv_nsec, &ns))
		return INT64_MAX;
	return ns;
}

/* Sleep until the deadline.  Returns 0 or an errno value. */
static int sleep_until(int64_t deadline)
{
	cancel_point();
	int err = gmp_sleep_until(deadline);

	if (err == -ECANCELED)
		cancel_waited();
	return -err;
}

HOOK int nanosleep(const struct timespec *t, struct timespec *rest)
{
	switch (hook_how()) {
	case HOOK_LIBC: return LIBC(nanosleep)(t, rest);
	case HOOK_BLOCK: return HOOK_BLOCKING(LIBC(nanosleep)(t, rest));
	case HOOK_PARK: break;
	}
	if (!is_valid(t)) {
		errno = EINVAL;
		return -1;
	}
	int64_t deadline = gmp_deadline(to_ns(t));
	int err = sleep_until(deadline);

	if (!err)
		return 0;
	if (rest) {
		int64_t left = deadline - gmp_now();

		left = left > 0 ? left : 0;
		*rest = (struct timespec){ left / 1000000000, left % 1000000000 };
	}
	errno = err;
	return -1;
}
