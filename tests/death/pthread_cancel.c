/* SPDX-License-Identifier: MIT */
/*
 * A green thread enables pthread cancellation and is cancelled on its stack, which cannot be
 * unwound as a thread: fatal error.
 */
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
