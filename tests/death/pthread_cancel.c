/* SPDX-License-Identifier: MIT */
/* A thread is cancelled while it runs on a green stack, which it cannot unwind from. */
#include <pthread.h>

#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	pthread_cancel(pthread_self());
	pthread_testcancel();
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
