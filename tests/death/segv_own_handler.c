/* SPDX-License-Identifier: MIT */
/* A SIGSEGV other than a stack overflow goes to the handler that the program installed before. */
#include <signal.h>
#include <unistd.h>

#include <gmp.h>

static volatile int *volatile where = (int *)8;

static void own(int sig, siginfo_t *si, void *uc)
{
	if (sig == SIGSEGV && si->si_addr == (void *)where && uc)
		(void)!write(2, "own handler\n", 12);
	_exit(7);
}

static void fault(void *arg)
{
	(void)arg;
	gmp_yield();
	*where = 1;
}

static void app(void *arg)
{
	gmp_g *g;

	(void)arg;
	if (gmp_spawn(&g, fault, NULL, NULL) == 0)
		gmp_join(g);
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = own, .sa_flags = SA_SIGINFO };

	sigaction(SIGSEGV, &sa, NULL);
	gmp_run(app, NULL, NULL);
	return 0;
}
