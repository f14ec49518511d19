/* SPDX-License-Identifier: MIT */
/* Mutexes, condition variables and once of C11: those of POSIX, in the same memory, with the
 * results of <threads.h>. */
#include "posix/call/c11.h"
#include "posix/call/real.h"

_Static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t), "mtx_t is a mutex");
_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "cnd_t is a condition variable");
_Static_assert(sizeof(once_flag) == sizeof(pthread_once_t), "once_flag is a pthread_once_t");

static pthread_mutex_t *mutex_of(mtx_t *m)
{
	return (pthread_mutex_t *)(void *)m;
}

static pthread_cond_t *cond_of(cnd_t *c)
{
	return (pthread_cond_t *)(void *)c;
}

HOOK int mtx_lock(mtx_t *m)
{
	return to_thrd(pthread_mutex_lock(mutex_of(m)));
}

HOOK int mtx_timedlock(mtx_t *restrict m, const struct timespec *restrict abs)
{
	return to_thrd(pthread_mutex_timedlock(mutex_of(m), abs));
}

HOOK int mtx_unlock(mtx_t *m)
{
	return to_thrd(pthread_mutex_unlock(mutex_of(m)));
}

HOOK int cnd_wait(cnd_t *c, mtx_t *m)
{
	return to_thrd(pthread_cond_wait(cond_of(c), mutex_of(m)));
}

HOOK int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict abs)
{
	return to_thrd(pthread_cond_timedwait(cond_of(c), mutex_of(m), abs));
}

HOOK int cnd_signal(cnd_t *c)
{
	return to_thrd(pthread_cond_signal(cond_of(c)));
}

HOOK int cnd_broadcast(cnd_t *c)
{
	return to_thrd(pthread_cond_broadcast(cond_of(c)));
}

HOOK void call_once(once_flag *flag, void (*fn)(void))
{
	pthread_once((pthread_once_t *)(void *)flag, fn);
}
