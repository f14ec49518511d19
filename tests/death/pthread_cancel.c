/* SPDX-License-Identifier: MIT */
/* A green thread enables cancellation and is cancelled on its green stack, from which a thread cannot unwind. */
#include <pthread.h>

#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL); /* gmp_run disables it */
	pthread_cancel(pthread_self());
	pthread_testcancel();
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
