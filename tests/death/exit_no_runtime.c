/* SPDX-License-Identifier: MIT */
/* gmp_exit where no runtime runs. */
#include <gmp.h>

int main(void)
{
	gmp_exit();
}
