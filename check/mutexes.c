/* SPDX-License-Identifier: MIT */
/*
 * Counts the pthread mutexes and rwlocks that each OS thread holds.
 *
 * libgmprtcheck, for GMP_DEBUG=check: linked before libc, or preloaded, it interposes libc's
 * functions. When a run begins, the runtime looks up gmp_check_mutexes by name; without this
 * library it does not check mutexes.
 *
 * A lock of a rwlock counts too, also a read lock. A mutex that another OS thread unlocks than the
 * locking one stays counted on the latter. That is the error that the check reports.
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { KEPT = 16 };

struct held {
	int n; /* all; only the first KEPT are listed */
	struct {
		const void *mutex, *where;
	} last[KEPT];
};

static _Thread_local struct held held __attribute__((tls_model("initial-exec")));

static void locked(const void *mutex, const void *where)
{
	if (held.n < KEPT) {
		held.last[held.n].mutex = mutex;
		held.last[held.n].where = where;
	}
	held.n++;
}

static void unlocked(const void *mutex)
{
	int n = held.n < KEPT ? held.n : KEPT, i = n - 1;

	while (i >= 0 && held.last[i].mutex != mutex)
		i--;
	if (i < 0) {
		if (held.n > KEPT) /* a mutex that is not listed */
			held.n--;
		return;
	}
	for (; i < n - 1; i++)
		held.last[i] = held.last[i + 1];
	held.n--;
}

EXPORT int gmp_check_mutexes(const void **mutex, const void **where);

/* Return the number of mutexes that this OS thread holds; set *mutex to the last listed one,
 * and *where to the return address of its lock. */
EXPORT int gmp_check_mutexes(const void **mutex, const void **where)
{
	int n = held.n < KEPT ? held.n : KEPT;

	if (n == 0)
		return 0;
	*mutex = held.last[n - 1].mutex;
	*where = held.last[n - 1].where;
	return held.n;
}

/* Define real: libc's function of that name, looked up at its first use. */
#define REAL(name)                                                                                 \
	static __typeof__(&name) real;                                                             \
	if (!real)                                                                                 \
	real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define WHERE __builtin_extract_return_addr(__builtin_return_address(0))

#define LOCKS(name, object)                                                                        \
	EXPORT int name(object *o)                                                                 \
	{                                                                                          \
		REAL(name);                                                                        \
		int err = real(o);                                                                 \
		if (!err)                                                                          \
			locked(o, WHERE);                                                          \
		return err;                                                                        \
	}

#define LOCKS_UNTIL(name, object)                                                                  \
	EXPORT int name(object *o, const struct timespec *t)                                       \
	{                                                                                          \
		REAL(name);                                                                        \
		int err = real(o, t);                                                              \
		if (!err)                                                                          \
			locked(o, WHERE);                                                          \
		return err;                                                                        \
	}

#define UNLOCKS(name, object)                                                                      \
	EXPORT int name(object *o)                                                                 \
	{                                                                                          \
		REAL(name);                                                                        \
		unlocked(o);                                                                       \
		return real(o);                                                                    \
	}

LOCKS(pthread_mutex_lock, pthread_mutex_t)
LOCKS(pthread_mutex_trylock, pthread_mutex_t)
LOCKS_UNTIL(pthread_mutex_timedlock, pthread_mutex_t)
UNLOCKS(pthread_mutex_unlock, pthread_mutex_t)
LOCKS(pthread_rwlock_rdlock, pthread_rwlock_t)
LOCKS(pthread_rwlock_tryrdlock, pthread_rwlock_t)
LOCKS_UNTIL(pthread_rwlock_timedrdlock, pthread_rwlock_t)
LOCKS(pthread_rwlock_wrlock, pthread_rwlock_t)
LOCKS(pthread_rwlock_trywrlock, pthread_rwlock_t)
LOCKS_UNTIL(pthread_rwlock_timedwrlock, pthread_rwlock_t)
UNLOCKS(pthread_rwlock_unlock, pthread_rwlock_t)
