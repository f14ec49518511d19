/* SPDX-License-Identifier: MIT */
/* A deadlock is not reported while an external thread exists, and is reported after its end. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include <gmp.h>

static gmp_wg never = GMP_WG_INIT;

static void *external(void *arg)
{
	(void)arg;
	usleep(1500000); /* the runtime checks once a second: at least one check must stay quiet */
	fprintf(stderr, "the external thread ends\n");
	return NULL;
}

static void app(void *arg)
{
	pthread_t t;

	(void)arg;
	gmp_wg_add(&never, 1);
	if (pthread_create(&t, NULL, external, NULL) == 0 && pthread_detach(t) == 0)
		gmp_wg_wait(&never);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
