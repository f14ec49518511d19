/* SPDX-License-Identifier: MIT */
/*
 * Stack overflow by a frame larger than the guard: a SIGSEGV handler that the program installed
 * before is called after the report.
 *
 * Compiled without -fstack-clash-protection.
 */
#include <signal.h>
#include <unistd.h>

#include <gmp.h>

static int __attribute__((noinline)) huge(volatile int depth)
{
	volatile char array[1 << 20];

	__asm__ volatile("" : : "r"(array) : "memory"); /* clang would make it smaller */
	array[0] = (char)depth;
	return array[0];
}

static void app(void *arg)
{
	(void)arg;
	huge(1);
}

static void own(int sig)
{
	(void)sig;
	(void)!write(2, "own handler\n", 12);
	_exit(7);
}

int main(void)
{
	struct sigaction sa = { .sa_handler = own };

	sigaction(SIGSEGV, &sa, NULL);
	gmp_run(app, NULL, NULL);
	return 0;
}
