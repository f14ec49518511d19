/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a pthread key that a green thread set and that has another value after a
 * wait is reported once, with the green thread that set it meanwhile. Not reported: a key that is
 * NULL at each wait, a deleted key, and a key that the waiting green thread never set.
 *
 * needs libgmprtcheck
 */
#include <pthread.h>

#include <gmp.h>
#include "pair.h"

static pthread_key_t session, reset, unset, deleted;
static char values[3];

__attribute__((noinline)) void set_session(int i)
{
	pthread_setspecific(session, &values[i]);
	__asm__ volatile("");
}

__attribute__((noinline)) void set_and_reset(int i)
{
	pthread_setspecific(reset, &values[i]);
	pthread_setspecific(reset, NULL);
	__asm__ volatile("");
}

__attribute__((noinline)) void wait_between(void)
{
	gmp_yield();
	__asm__ volatile("");
}

static void first(void *arg)
{
	(void)arg;
	set_session(1);
	set_and_reset(1);
	pthread_setspecific(deleted, &values[1]);
	wait_between();
}

static void second(void *arg)
{
	(void)arg;
	pthread_setspecific(unset, &values[2]);
	set_session(2);
	set_and_reset(2);
	if (pthread_key_delete(deleted) || pthread_key_create(&deleted, NULL))
		exit(2);
}

int main(void)
{
	if (pthread_key_create(&session, NULL) || pthread_key_create(&reset, NULL) ||
	    pthread_key_create(&unset, NULL) || pthread_key_create(&deleted, NULL))
		return 2;
	return run_pairs();
}
