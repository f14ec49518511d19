/* SPDX-License-Identifier: MIT */
/* With GMP_DEBUG=check, a run without any green thread ends without a table of stacks. */
#include <stdlib.h>

#include <gmp.h>

int main(void)
{
	setenv("GMP_DEBUG", "check", 1);
	return gmp_start(NULL) != 0 || gmp_stop() != 0;
}
