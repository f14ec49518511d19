/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a green thread whose OS thread is runnable while other threads have the CPU
 * is reported as not given a CPU, and not as computing.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <gmp.h>

#include "told.h"

enum { OTHERS = 8 };

static atomic_int over;

static void *other(void *arg)
{
	while (!atomic_load(&over))
		;
	return arg;
}

__attribute__((noinline)) void compute(void)
{
	for (int i = 0; i < 100; i++) {
		for (int64_t end = gmp_deadline(100000000); gmp_now() < end;)
			;
		if (told(" was not given a CPU"))
			break;
	}
}

static void app(void *arg)
{
	(void)arg;
	gmp_yield();
	compute();
	atomic_store(&over, 1);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;
	pthread_t t[OTHERS];
	cpu_set_t one, all;

	CPU_ZERO(&one);
	if (sched_getaffinity(0, sizeof(all), &all))
		return 2;
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return 2;
	setenv("GMP_DEBUG", "check", 1);
	c.procs = 1;
	for (int i = 0; i < OTHERS; i++)
		if (pthread_create(&t[i], NULL, other, NULL))
			return 2;
	int err = gmp_run(app, NULL, &c);

	for (int i = 0; i < OTHERS; i++)
		pthread_join(t[i], NULL);
	return err != 0;
}
