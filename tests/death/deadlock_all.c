/* SPDX-License-Identifier: MIT */
/* Many that wait alike: with GMP_DEBUG=dumpall each has a block of its own. */
#include <stdlib.h>

#include "alike.h"

int main(void)
{
	setenv("GMP_DEBUG", "dumpall", 1);
	return run_alike();
}
