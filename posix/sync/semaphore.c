/* SPDX-License-Identifier: MIT */
/*
 * Semaphores: libc's sem_t, for which green threads park.
 *
 * libc keeps the value.  A green thread with own thread-locals takes it by sem_trywait, and parks
 * while that is EAGAIN (parked.h).  sem_post is replaced for all threads.
 *
 * A signal handler ends a wait with EINTR.  If it has SA_RESTART, sem_wait continues; a wait with a
 * deadline does not, as with libc.
 *
 * sem_post is async-signal-safe: in a handler sysmon wakes the green threads (LATER-1).
 *
 * Process-shared semaphores (sem_init with pshared, sem_open) are libc's alone: a post of another
 * process would wake no green thread.  Green threads wait as blocking code.
 */
#include <string.h>

#include "posix/call/point.h"
#include "posix/sync/attribute.h"
#include "posix/sync/parked.h"

/* --- the attribute --- */

/* Where sem_init notes pshared. */
static uint32_t shared_at; /* (a) attribute_place; 0: not known yet */

static noinline uint32_t find_shared(void)
{
	sem_t own, shared;

	memset(&own, 0, sizeof(own));
	memset(&shared, 0, sizeof(shared));
	sem_init(&own, 0, 0);
	sem_init(&shared, 1, 0);
	uint32_t place = attribute_place(&own, &shared, sizeof(own));

	st_rlx(&shared_at, place);
	return place;
}

static bool is_shared(const sem_t *s)
{
	uint32_t place = ld_rlx(&shared_at);

	return attribute_is_set(s, likely(place) ? place : find_shared());
}

/* --- waits --- */

/* Leaves errno as it was. */
static int try_sem(void *s)
{
	int saved = errno, err = sem_trywait(s) ? errno : 0;

	errno = saved;
	return err;
}

/* Returns 0, or -1 with errno set. */
static int sem_park(sem_t *s, clockid_t clock, const struct timespec *abs)
{
	int64_t deadline = deadline_at(clock, abs);
	int err;

	do
		err = parked_acquire(parked_key(s, KEY_SEM), try_sem, s, EAGAIN, WAIT_PTHREAD_SEM,
				     deadline);
	while (err == EINTR && !abs && handler_restarts());
	if (err == ECANCELED)
		cancel_waited();
	return hook_return(-err);
}

static int wait_in_libc(sem_t *s, clockid_t clock, const struct timespec *abs)
{
	return abs ? LIBC(sem_clockwait)(s, clock, abs) : LIBC(sem_wait)(s);
}

/* abs: NULL: no deadline. */
static int wait_until(sem_t *s, clockid_t clock, const struct timespec *abs)
{
	enum hook_how how = hook_how();

	if (how == HOOK_PARK) {
		chaos_point();
		cancel_point();
	}
	if (how != HOOK_LIBC && try_sem(s) == 0)
		return 0;
	return how == HOOK_PARK && !is_shared(s) ? sem_park(s, clock, abs)
						 : HOOK_REPEATING(wait_in_libc(s, clock, abs));
}

HOOK int sem_wait(sem_t *s)
{
	return wait_until(s, CLOCK_MONOTONIC, NULL);
}

HOOK int sem_clockwait(sem_t *s, clockid_t clock, const struct timespec *abs)
{
	return is_wait_clock(clock) && has_valid_ns(abs) ? wait_until(s, clock, abs)
							 : (int)hook_return(-EINVAL);
}

HOOK int sem_timedwait(sem_t *s, const struct timespec *abs)
{
	return sem_clockwait(s, CLOCK_REALTIME, abs);
}

HOOK int sem_post(sem_t *s)
{
	const void *key = parked_key(s, KEY_SEM);
	bool shared = is_shared(s);
	int err = LIBC(sem_post)(s);

	if (!err && !shared)
		parked_wake(key, 1);
	return err;
}
