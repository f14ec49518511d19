/* SPDX-License-Identifier: MIT */
/*
 * A fault elsewhere while a frame larger than the guard has put the stack pointer on a neighbour's
 * stack: the report says where the stack pointer is.
 *
 * Compiled without -fstack-clash-protection.
 */
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
