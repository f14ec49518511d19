/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a wait with a pthread mutex held is not reported of green threads with
 * GMP_OWN_TLS, which own it; nor is a mutex that a green thread without the flag holds on the same
 * OS thread.
 *
 * needs libgmprtcheck
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <gmp.h>

static pthread_mutex_t own_mutex, shared_mutex = PTHREAD_MUTEX_INITIALIZER;
static gmp_wg may_unlock;

/* An error-checking mutex: only its owner may unlock it. */
static void hold_own(void *arg)
{
	(void)arg;
	if (pthread_mutex_lock(&own_mutex))
		abort();
	gmp_yield();
	if (pthread_mutex_unlock(&own_mutex))
		abort();
}

static void hold_shared(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&shared_mutex);
	gmp_wg_wait(&may_unlock);
	pthread_mutex_unlock(&shared_mutex);
}

static void app(void *unused)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *shared, *own;

	(void)unused;
	gmp_wg_add(&may_unlock, 1);
	if (gmp_spawn(&shared, hold_shared, NULL, NULL))
		exit(2);
	gmp_yield(); /* it waits with the mutex held */
	a.flags = GMP_OWN_TLS;
	int err = gmp_spawn(&own, hold_own, NULL, &a);

	if (err)
		exit(err == -ENOTSUP ? 77 : 2);
	gmp_join(own);
	gmp_wg_done(&may_unlock);
	gmp_join(shared);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&own_mutex, &a);
	setenv("GMP_DEBUG", "check", 1);
	setenv("GMP_SCHED", "local", 1); /* FIFO order */
	c.procs = 1;
	return gmp_run(app, NULL, &c) != 0;
}
