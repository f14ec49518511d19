/* SPDX-License-Identifier: MIT */
/*
 * A green thread enables the cancellation of its OS thread and cancels that thread.
 *
 *   cancel_self caller|own
 *
 * caller: the green thread runs on the thread that called gmp_run; own: on an M of the runtime.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <gmp.h>

static void cancel_own_thread(void *arg)
{
	(void)arg;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_cancel(pthread_self());
	gmp_sleep(20 * GMP_MS);
}

static void start_another(void *arg)
{
	gmp_g *g;

	(void)arg;
	if (gmp_lock_thread() == 0 && gmp_spawn(&g, cancel_own_thread, NULL, NULL) == 0)
		gmp_join(g);
	gmp_sleep(20 * GMP_MS);
}

int main(int argc, char **argv)
{
	int old, err = gmp_run(argc > 1 && strcmp(argv[1], "own") == 0 ? start_another
								       : cancel_own_thread,
			       NULL, NULL);

	/* the request acts on this thread at its next cancellation point */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	printf("returned %d\n", err);
	return 0;
}
