/* SPDX-License-Identifier: MIT */
/*
 * Replaces the functions that sleep, and sched_yield: the green thread parks until a timer fires.
 *
 * A time on CLOCK_MONOTONIC, and a relative time on CLOCK_REALTIME, is one wait.  Other clocks may
 * be set, or run while the machine is suspended: the wait polls the clock each second (STEP_NS).
 * On a clock of CPU time, and on a clock that this file does not know, libc's function sleeps as
 * blocking code.
 */
#include <time.h>

#include "posix/call/hook.h"
#include "posix/call/point.h"
#include "posix/call/times.h"
#include "posix/call/user.h"

/* A step of the clock delays the end of an absolute sleep by up to that; each poll is a wakeup. */
enum { STEP_NS = S };

static int64_t clock_now(clockid_t clock)
{
	struct timespec t = { 0 };

	clock_gettime(clock, &t);
	return ns_of_timespec(&t);
}

/* Sleep until the deadline.  Returns 0 or an errno value. */
static int sleep_until(int64_t deadline)
{
	int err = HANDLER_WAIT(gmp_sleep_until(deadline));

	if (err == -ECANCELED)
		cancel_waited();
	return -err;
}

/* Sleep until the clock reads `end`, or ns of CLOCK_MONOTONIC if steps is false. */
static int sleep_on(clockid_t clock, bool steps, int64_t end, int64_t ns)
{
	int err = 0;

	cancel_point();
	if (!steps)
		return sleep_until(gmp_deadline(ns));
	do {
		ns = end - clock_now(clock);
		err = sleep_until(gmp_deadline(ns < STEP_NS ? ns : STEP_NS));
	} while (!err && ns > STEP_NS);
	return err;
}

/* Relative sleep of the caller, which parks.  rest: NULL, or the caller's.  Returns 0 or an errno
 * value. */
static int sleep_for(clockid_t clock, const struct timespec *t, struct timespec *rest)
{
	bool steps = clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC;
	clockid_t by = steps ? clock : CLOCK_MONOTONIC;
	int64_t ns = ns_of_timespec(t), end;

	if (__builtin_add_overflow(clock_now(by), ns, &end))
		end = INT64_MAX;
	int err = sleep_on(by, steps, end, ns);

	if (err && rest) {
		struct timespec left = timespec_of(end - clock_now(by));

		if (!user_write(rest, &left, sizeof(left)))
			return EFAULT;
	}
	return err;
}

/* Read the caller's time.  0, or why it is refused. */
static int read_time(struct timespec *to, const struct timespec *t)
{
	if (!user_read(to, t, sizeof(*to)))
		return EFAULT;
	return is_duration(to) ? 0 : EINVAL;
}

static bool parks_on(clockid_t clock)
{
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_MONOTONIC:
	case CLOCK_BOOTTIME:
	case CLOCK_TAI: return true;
	default: return false;
	}
}

static int sleep_in_libc(clockid_t clock, int flags, const struct timespec *t,
			 struct timespec *rest)
{
	bool begun = hook_call_begin();
	int err = LIBC(clock_nanosleep)(clock, flags, t, rest);

	return hook_call_end(begun) && err == EINTR ? ECANCELED : err;
}

HOOK int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t,
			 struct timespec *rest)
{
	enum hook_how how = hook_how();

	if (how == HOOK_LIBC)
		return sleep_in_libc(clock, flags, t, rest);
	if (how == HOOK_BLOCK || !parks_on(clock))
		return HOOK_BLOCKING(LIBC(clock_nanosleep)(clock, flags, t, rest));
	struct timespec time;
	int saved = errno, err = read_time(&time, t);

	if (!err && flags & TIMER_ABSTIME) {
		int64_t end = ns_of_timespec(&time);

		err = sleep_on(clock, clock != CLOCK_MONOTONIC, end, end - clock_now(clock));
	} else if (!err) {
		err = sleep_for(clock, &time, rest);
	}
	errno = saved;
	return err;
}

/* The others are clock_nanosleep, as in libc. */

HOOK int nanosleep(const struct timespec *t, struct timespec *rest)
{
	return (int)hook_return(-clock_nanosleep(CLOCK_REALTIME, 0, t, rest));
}

HOOK int usleep(useconds_t us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000L };

	return nanosleep(&t, NULL);
}

HOOK unsigned sleep(unsigned seconds)
{
	struct timespec t = { seconds, 0 }, rest = { 0 };

	return nanosleep(&t, &rest) ? (unsigned)rest.tv_sec : 0;
}

/* If no other green thread ran, the caller may wait for another OS thread: that of a preempted
 * green thread, another thread of the program, or another process. */
HOOK int sched_yield(void)
{
	if (!hook_parks())
		return HOOK_BLOCKING(LIBC(sched_yield)());
	handler_wait_begin(); /* a signal hardly finds a caller that yields all the time */
	uint64_t before = switches_here();

	gmp_yield();
	handler_wait_end();
	if (switches_here() - before <= 1)
		LIBC(sched_yield)();
	return 0;
}
