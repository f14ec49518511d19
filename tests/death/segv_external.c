/* SPDX-License-Identifier: MIT */
/* The stack overflow of an external thread is not reported as a green thread's. */
#include <unistd.h>

#include <gmp.h>

#define DIG_BYTES 2000
#include "dig.h"

int main(void)
{
	if (gmp_start(NULL) != 0)
		return 1;
	(void)!write(2, "about to fault\n", 15);
	return dig(0);
}
