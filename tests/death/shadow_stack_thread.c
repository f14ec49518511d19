/* SPDX-License-Identifier: MIT */
/*
 * An M that an external thread with a shadow stack starts: fatal error.  In thread mode each gmp_go
 * starts one on the calling thread.
 */
#include "shadow.h"

#include <gmp.h>
#include <stdio.h>
#include <stdlib.h>

static void nothing(void *arg)
{
	(void)arg;
}

static void *external(void *arg)
{
	(void)arg;
	if (!shadow_stack_fake())
		exit(77);
	gmp_go(nothing, NULL);
	return NULL;
}

static void app(void *arg)
{
	pthread_t t;

	(void)arg;
	if (pthread_create(&t, NULL, external, NULL) != 0)
		exit(1);
	pthread_join(t, NULL);
	gmp_sleep(GMP_FOREVER);
}

int main(void)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.sched = GMP_SCHED_THREAD;
	return gmp_run(app, NULL, &cfg);
}
