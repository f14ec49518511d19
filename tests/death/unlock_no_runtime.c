/* SPDX-License-Identifier: MIT */
/* Unlock of an unlocked mutex on a plain thread. */
#include <gmp.h>

int main(void)
{
	gmp_mutex m = GMP_MUTEX_INIT;

	gmp_mutex_unlock(&m);
	return 0;
}
