/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a wait is fatal when a frame larger than the guard has put the stack
 * pointer below the green thread's stack.
 *
 * Compiled without -fstack-clash-protection.
 */
#include <stdlib.h>

#include "neighbour.h"

static void there(void)
{
	gmp_yield();
}

int main(void)
{
	setenv("GMP_DEBUG", "check", 1);
	return run_digger();
}
