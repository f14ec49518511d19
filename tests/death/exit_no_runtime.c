/* SPDX-License-Identifier: MIT */
/* gmp_exit without a runtime: fatal error. */
#include <gmp.h>

int main(void)
{
	gmp_exit();
}
