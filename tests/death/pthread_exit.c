/* SPDX-License-Identifier: MIT */
/* pthread_exit on a green stack, which is no thread's. */
#include <pthread.h>

#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	pthread_exit(NULL);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
