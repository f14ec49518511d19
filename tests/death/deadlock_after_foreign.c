/* SPDX-License-Identifier: MIT */
/* Quiet while a foreign thread lives, reported once it has gone. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include <gmp.h>

static gmp_wg never = GMP_WG_INIT;

static void *foreign(void *arg)
{
	(void)arg;
	usleep(1500000); /* the runtime checks once a second: at least one check must stay quiet */
	fprintf(stderr, "the foreign thread ends\n");
	return NULL;
}

static void app(void *arg)
{
	pthread_t t;

	(void)arg;
	gmp_wg_add(&never, 1);
	if (pthread_create(&t, NULL, foreign, NULL) == 0 && pthread_detach(t) == 0)
		gmp_wg_wait(&never);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
