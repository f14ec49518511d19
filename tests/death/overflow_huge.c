/* SPDX-License-Identifier: MIT */
/*
 * Stack overflow of the first green thread by a frame four times as large as its stack.
 *
 * Compiled without -fstack-clash-protection.
 */
#include <gmp.h>

static int __attribute__((noinline)) huge(volatile int depth)
{
	volatile char array[1 << 20];

	__asm__ volatile("" : : "r"(array) : "memory"); /* clang would make it smaller */
	array[0] = (char)depth;
	return array[0];
}

static void app(void *arg)
{
	(void)arg;
	huge(1);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.stack_size = 256 << 10;
	gmp_run(app, NULL, &c);
	return 0;
}
