/* SPDX-License-Identifier: MIT */
/* gmp_unlock_thread on a thread that the runtime did not make. */
#include <gmp.h>

int main(void)
{
	if (gmp_start(NULL) != 0)
		return 1;
	gmp_unlock_thread();
	return 0;
}
