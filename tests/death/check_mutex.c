/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a wait with a pthread mutex held is reported, and the program continues.
 *
 * needs libgmprtcheck
 */
#include <pthread.h>
#include <stdlib.h>

#include <gmp.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) void take_it(void)
{
	pthread_mutex_lock(&m);
	__asm__ volatile("");
}

static void app(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&m);
	pthread_mutex_unlock(&m);
	gmp_yield();
	take_it();
	gmp_sleep(1000);
	pthread_mutex_unlock(&m);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	setenv("GMP_DEBUG", "check", 1);
	c.procs = 1;
	return gmp_run(app, NULL, &c) != 0;
}
