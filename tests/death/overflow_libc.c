/* SPDX-License-Identifier: MIT */
/*
 * Stack overflow by recursion inside libc with hundreds of frames: the report shows the function of
 * the program that called libc.
 */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include <gmp.h>

enum { DEEP = 20000 };

static char pattern[DEEP + 1];

__attribute__((noinline)) int compiles(void)
{
	regex_t r;
	int err = regcomp(&r, pattern, REG_EXTENDED);

	__asm__ volatile("" : : "r"(&r) : "memory");
	return err;
}

static void miner(void *arg)
{
	*(int *)arg = compiles();
}

static void app(void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.stack_size = 64 << 10;
	if (gmp_spawn(&g, miner, arg, &a) == 0)
		gmp_join(g);
}

int main(void)
{
	int err = 0;

	memset(pattern, '(', DEEP);
	gmp_run(app, &err, NULL);
	return err != 0;
}
