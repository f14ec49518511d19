/* SPDX-License-Identifier: MIT */
/* A SIGSEGV that somebody sends is no fault that would come again: it ends the program all the same. */
#include <signal.h>
#include <unistd.h>

#include <gmp.h>

static void app(void *arg)
{
	(void)arg;
	(void)!write(2, "about to raise\n", 15);
	raise(SIGSEGV);
	(void)!write(2, "it goes on\n", 11);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
