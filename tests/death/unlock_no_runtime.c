/* SPDX-License-Identifier: MIT */
/* Unlock of an unlocked mutex on an external thread without a runtime: fatal error. */
#include <gmp.h>

int main(void)
{
	gmp_mutex m = GMP_MUTEX_INIT;

	gmp_mutex_unlock(&m);
	return 0;
}
