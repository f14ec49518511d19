/* SPDX-License-Identifier: MIT */
/* A program outside the project: does what is installed compile, link and run? */
#include <gmp.h>
#include <stdio.h>

static void sleeper(void *arg)
{
	if (gmp_sleep(1000000) == 0)
		*(int *)arg = 42;
}

static void app(void *arg)
{
	gmp_g *g;

	if (gmp_spawn(&g, sleeper, arg, NULL) == 0)
		gmp_join(g);
}

int main(void)
{
	int answer = 0;

	if (gmp_run(app, &answer, NULL) != 0 || answer != 42)
		return 1;
	puts("ran");
	return 0;
}
