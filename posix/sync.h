/* SPDX-License-Identifier: MIT */
/* The replacements of mutexes, condition variables and pthread_once, for other files of posix. */
#ifndef GMP_POSIX_SYNC_H
#define GMP_POSIX_SYNC_H

#include "posix/parked.h"

static inline const void *mutex_key(const pthread_mutex_t *m)
{
	return parked_key(m, KEY_MUTEX);
}

/* Green threads may be parked for it: it is neither process-shared nor robust. */
bool mutex_is_parkable(const pthread_mutex_t *m);
int mutex_lock(pthread_mutex_t *m);
/* The clock is CLOCK_REALTIME. */
int mutex_timedlock(pthread_mutex_t *m, const struct timespec *abs);
int mutex_unlock(pthread_mutex_t *m);

/* clock: -1: that of c.  abs: NULL: no deadline. */
int cond_wait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock, const struct timespec *abs);
int cond_signal(pthread_cond_t *c);
int cond_broadcast(pthread_cond_t *c);

void once_call(pthread_once_t *once, void (*fn)(void));

#endif
