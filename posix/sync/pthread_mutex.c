/* SPDX-License-Identifier: MIT */
/*
 * Mutexes: libc's pthread_mutex_t, for which green threads park.
 *
 * libc keeps the state: owner, recursion, type.  A green thread with own thread-locals has a thread
 * id of its own there (machine/tlsblock.h).  It locks by pthread_mutex_trylock, and parks while
 * that is EBUSY (parked.h).  pthread_mutex_unlock is replaced for all threads, since a parked green
 * thread may wait for any of them.
 *
 * Process-shared and robust mutexes are libc's alone: green threads lock them as blocking code.  An
 * unlock in another process, and the kernel after the death of an owner, would wake no parked green
 * thread.  machine/tlsblock_glibc.c does what the kernel does at the end of an owner.
 *
 * pthread_mutex_init leaves the priority protocol out.  The kernel would look for the owner by its
 * thread id, which it does not know, and libc waits forever then.
 */
#include "posix/sync/parked.h"

/* Bits of __kind, which static initializers make part of glibc's ABI. */
enum { MUTEX_TYPE = 3, MUTEX_ROBUST = 16, MUTEX_SHARED = 128 };

static int mutex_kind(const pthread_mutex_t *m)
{
	return m->__data.__kind;
}

bool mutex_is_parkable(const pthread_mutex_t *m)
{
	return !(mutex_kind(m) & (MUTEX_ROBUST | MUTEX_SHARED));
}

HOOK int pthread_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *a)
{
	pthread_mutexattr_t plain;

	if (!a)
		return LIBC(pthread_mutex_init)(m, NULL);
	plain = *a; /* a number in glibc */
	pthread_mutexattr_setprotocol(&plain, PTHREAD_PRIO_NONE);
	return LIBC(pthread_mutex_init)(m, &plain);
}

static int try_mutex(void *m)
{
	return pthread_mutex_trylock(m);
}

/* The owner of an error-checking mutex must get EDEADLK, where trylock returns EBUSY.  libc's lock
 * with a deadline that has passed does not block. */
static int check_owner(pthread_mutex_t *m)
{
	static const struct timespec past;

	if ((mutex_kind(m) & MUTEX_TYPE) != PTHREAD_MUTEX_ERRORCHECK_NP)
		return ETIMEDOUT;
	return LIBC(pthread_mutex_clocklock)(m, CLOCK_MONOTONIC, &past);
}

/* trylock was EBUSY. */
static int lock_parked(pthread_mutex_t *m, clockid_t clock, const struct timespec *abs)
{
	if (abs && !has_valid_ns(abs))
		return EINVAL;
	int err = check_owner(m);

	if (err != ETIMEDOUT)
		return err;
	return parked_acquire(mutex_key(m), try_mutex, m, EBUSY, WAIT_PTHREAD_MUTEX | UNCANCELLABLE,
			      deadline_at(clock, abs));
}

static inline int lock_in_libc(pthread_mutex_t *m, clockid_t clock, const struct timespec *abs)
{
	return abs ? LIBC(pthread_mutex_clocklock)(m, clock, abs) : LIBC(pthread_mutex_lock)(m);
}

/* abs: NULL: no deadline.  Always inlined: the fast path of pthread_mutex_lock has no deadline. */
static always_inline int lock_until(pthread_mutex_t *m, clockid_t clock, const struct timespec *abs)
{
	enum hook_how how = hook_how();

	if (how == HOOK_LIBC)
		return lock_in_libc(m, clock, abs);
	if (how == HOOK_PARK)
		chaos_point();
	int err = pthread_mutex_trylock(m);

	if (err != EBUSY)
		return err;
	if (how == HOOK_PARK && mutex_is_parkable(m))
		return lock_parked(m, clock, abs);
	return HOOK_BLOCKING(lock_in_libc(m, clock, abs));
}

HOOK int pthread_mutex_lock(pthread_mutex_t *m)
{
	return lock_until(m, CLOCK_MONOTONIC, NULL);
}

HOOK int pthread_mutex_clocklock(pthread_mutex_t *m, clockid_t clock, const struct timespec *abs)
{
	return is_wait_clock(clock) ? lock_until(m, clock, abs) : EINVAL;
}

HOOK int pthread_mutex_timedlock(pthread_mutex_t *m, const struct timespec *abs)
{
	return pthread_mutex_clocklock(m, CLOCK_REALTIME, abs);
}

HOOK int pthread_mutex_unlock(pthread_mutex_t *m)
{
	int err = LIBC(pthread_mutex_unlock)(m);

	if (likely(!err))
		parked_wake(mutex_key(m), 1);
	return err;
}
