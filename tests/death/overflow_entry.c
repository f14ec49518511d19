/* SPDX-License-Identifier: MIT */
/* Stack overflow of the first green thread in a program that installed a SIGSEGV handler before. */
#include <signal.h>
#include <unistd.h>

#include <gmp.h>

#include "dig.h"

static void app(void *arg)
{
	(void)arg;
	dig(0);
}

static void own(int sig)
{
	(void)sig;
	(void)!write(2, "own handler\n", 12);
	_exit(7);
}

int main(void)
{
	signal(SIGSEGV, own);
	gmp_run(app, NULL, NULL);
	return 0;
}
