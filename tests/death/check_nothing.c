/* SPDX-License-Identifier: MIT */
/* With GMP_DEBUG=check: a run in which no green thread was ever made ends without a table. */
#include <stdlib.h>

#include <gmp.h>

int main(void)
{
	setenv("GMP_DEBUG", "check", 1);
	return gmp_start(NULL) != 0 || gmp_stop() != 0;
}
