/* SPDX-License-Identifier: MIT */
/* gmp_lock_thread on an external thread: fatal error. */
#include <gmp.h>

int main(void)
{
	if (gmp_start(NULL) != 0)
		return 1;
	gmp_lock_thread();
	return 0;
}
