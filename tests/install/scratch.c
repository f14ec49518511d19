/* SPDX-License-Identifier: MIT */
/* A program outside the project that checks that the installed library compiles, links and runs. */
#include <gmp.h>
#include <stdio.h>

/*
 * The library uses these names internally (the second is also a name of GLib). Here they belong to
 * the program.
 */
int ready = 42;

void g_free(void *p)
{
	*(int *)p = 0;
}

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

	if (gmp_run(app, &answer, NULL) != 0 || answer != ready)
		return 1;
	g_free(&answer);
	if (answer != 0 || ready != 42)
		return 1;
	puts("ran");
	return 0;
}
