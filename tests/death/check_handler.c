/* SPDX-License-Identifier: MIT */
/* With GMP_DEBUG=check, a wait in a signal handler on the stack of the green thread is fatal. */
#include <signal.h>
#include <stdlib.h>

#include <gmp.h>

static void on_signal(int signo)
{
	(void)signo;
	gmp_yield();
}

static void app(void *arg)
{
	(void)arg;
	gmp_yield();
	raise(SIGPROF);
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	setenv("GMP_DEBUG", "check", 1);
	sigaction(SIGPROF, &sa, NULL);
	gmp_run(app, NULL, NULL);
	return 0;
}
