/* SPDX-License-Identifier: MIT */
/*
 * A SIGSEGV other than a stack overflow, in a program without a handler, ends the program by
 * SIGSEGV.
 */
#include <unistd.h>

#include <gmp.h>

static volatile int *volatile where = (int *)8;

static void app(void *arg)
{
	(void)arg;
	(void)!write(2, "about to fault\n", 15);
	*where = 1;
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
