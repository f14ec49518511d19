/* SPDX-License-Identifier: MIT */
/* Starts three green threads, each of which prints a line, and joins them. */
#include <gmp.h>

#include <stdio.h>

static void greet(void *arg)
{
	printf("hello from green thread %s\n", (const char *)arg);
}

static void app(void *arg)
{
	static char *const names[] = { "one", "two", "three" };
	gmp_g *greens[3];
	int started = 0;

	(void)arg;
	while (started < 3 && gmp_spawn(&greens[started], greet, names[started], NULL) == 0)
		started++;
	while (started > 0)
		gmp_join(greens[--started]);
}

int main(void)
{
	return gmp_run(app, NULL, NULL) != 0;
}
