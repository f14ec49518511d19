/* SPDX-License-Identifier: MIT */
/* Stack overflow by endless recursion in a signal handler of the program. */
#include <signal.h>

#include <gmp.h>

#include "dig.h"

static void handler(int signo)
{
	dig(signo);
}

static void app(void *arg)
{
	(void)arg;
	raise(SIGUSR1);
}

int main(void)
{
	struct sigaction sa = { .sa_handler = handler };

#ifdef __SANITIZE_ADDRESS__
	return 77; /* an OS thread has an alternate stack of the sanitizer, which the M keeps */
#endif
	sigaction(SIGUSR1, &sa, NULL);
	gmp_run(app, NULL, NULL);
	return 0;
}
