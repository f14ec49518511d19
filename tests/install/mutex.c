/* SPDX-License-Identifier: MIT */
/*
 * A program outside the project that waits while it holds a pthread mutex; libgmprtcheck must
 * report it.
 */
#include <gmp.h>
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void app(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&mutex);
	gmp_sleep(GMP_MS);
	pthread_mutex_unlock(&mutex);
}

int main(void)
{
	return gmp_run(app, NULL, NULL) != 0;
}
