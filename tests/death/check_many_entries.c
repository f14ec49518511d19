/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, the table of stacks holds 512 entry functions and reports how many it
 * omits.
 */
#include <stdlib.h>

#include <gmp.h>

#define ENTRY(n)                                                                                   \
	static void entry_##n(void *arg)                                                           \
	{                                                                                          \
		(void)arg;                                                                         \
	}
#define ADDRESS(n) entry_##n,

/* x for every number that begins with n and has that many more octal digits */
#define ONE(x, n) x(n##0) x(n##1) x(n##2) x(n##3) x(n##4) x(n##5) x(n##6) x(n##7)
#define TWO(x, n)                                                                                  \
	ONE(x, n##0)                                                                               \
	ONE(x, n##1) ONE(x, n##2) ONE(x, n##3) ONE(x, n##4) ONE(x, n##5) ONE(x, n##6) ONE(x, n##7)
#define THREE(x, n)                                                                                \
	TWO(x, n##0)                                                                               \
	TWO(x, n##1) TWO(x, n##2) TWO(x, n##3) TWO(x, n##4) TWO(x, n##5) TWO(x, n##6) TWO(x, n##7)

/* 520 entry functions; with app 9 more than the table holds */
THREE(ENTRY, a)
ONE(ENTRY, b)

static const gmp_fn entries[] = { THREE(ADDRESS, a) ONE(ADDRESS, b) };

static void app(void *arg)
{
	gmp_g *g;

	(void)arg;
	for (unsigned i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		if (gmp_spawn(&g, entries[i], NULL, NULL) == 0)
			gmp_join(g);
	}
}

int main(void)
{
	setenv("GMP_DEBUG", "check", 1);
	return gmp_run(app, NULL, NULL) != 0;
}
