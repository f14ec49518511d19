/* SPDX-License-Identifier: MIT */
/* Endless recursion in blocking code, when the thread runs no green thread for the scheduler. */
#include <gmp.h>

int dig(volatile int depth);

__attribute__((noinline)) int dig(volatile int depth)
{
	volatile char earth[200];

	earth[0] = (char)depth;
	return depth < 0 ? 0 : dig(depth + 1) + earth[0];
}

static void app(void *arg)
{
	(void)arg;
	gmp_block_enter();
	dig(0);
	gmp_block_leave();
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
