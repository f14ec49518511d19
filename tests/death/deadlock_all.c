/* SPDX-License-Identifier: MIT */
/* Deadlock of many green threads that wait alike: with GMP_DEBUG=dumpall each has its own block. */
#include <stdlib.h>

#include "alike.h"

int main(void)
{
	setenv("GMP_DEBUG", "dumpall", 1);
	return run_alike();
}
