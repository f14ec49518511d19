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

	/* AddressSanitizer gives each OS thread an alternate stack, which the M keeps;
	 * ThreadSanitizer calls handlers by a function of its own, which does not survive this */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return 77;
#endif
	sigaction(SIGUSR1, &sa, NULL);
	gmp_run(app, NULL, NULL);
	return 0;
}
