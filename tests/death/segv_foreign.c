/* SPDX-License-Identifier: MIT */
/* A foreign thread's own stack overflow is not a green thread's. */
#include <unistd.h>

#include <gmp.h>

int dig(volatile int depth);

__attribute__((noinline)) int dig(volatile int depth)
{
	volatile char earth[2000];

	earth[0] = (char)depth;
	return depth < 0 ? 0 : dig(depth + 1) + earth[0];
}

int main(void)
{
	if (gmp_start(NULL) != 0)
		return 1;
	(void)!write(2, "about to fault\n", 15);
	return dig(0);
}
