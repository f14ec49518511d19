/* SPDX-License-Identifier: MIT */
/* gmp_exit on an external thread: fatal error. */
#include <gmp.h>

int main(void)
{
	if (gmp_start(NULL) != 0)
		return 1;
	gmp_exit();
}
