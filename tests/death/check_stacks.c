/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a run ends with a table of the deepest stacks, also of green threads that
 * never ended.
 */
#include <stdlib.h>

#include <gmp.h>

__attribute__((noinline)) int fill(volatile char *room, int bytes)
{
	for (int i = 0; i < bytes; i++)
		room[i] = 1;
	__asm__ volatile("" ::: "memory");
	return room[0];
}

static void deep(void *arg)
{
	char room[100000];

	(void)arg;
	fill(room, sizeof(room));
}

static void shallow(void *arg)
{
	(void)arg;
	gmp_yield();
}

static void stays(void *arg)
{
	char room[20000];

	(void)arg;
	fill(room, sizeof(room));
	gmp_sleep_until(GMP_FOREVER);
	fill(room, sizeof(room));
}

static void app(void *arg)
{
	gmp_g *g;

	(void)arg;
	for (int i = 0; i < 20; i++) {
		if (gmp_spawn(&g, i % 4 ? shallow : deep, NULL, NULL) == 0)
			gmp_join(g);
	}
	gmp_go(stays, NULL);
	gmp_yield();
	gmp_sleep(1000000);
}

int main(void)
{
	setenv("GMP_DEBUG", "check", 1);
	return gmp_run(app, NULL, NULL) != 0;
}
