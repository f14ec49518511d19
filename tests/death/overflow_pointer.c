/* SPDX-License-Identifier: MIT */
/* The program faults elsewhere while a frame larger than the guard has its stack pointer on a neighbour's stack: the
 * line says where the stack pointer is.  Compiled without -fstack-clash-protection. */
#include "neighbour.h"

static int *volatile where = (int *)8;

static void there(void)
{
	*where = 1;
}

int main(void)
{
	return run_digger();
}
