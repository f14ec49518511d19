/* SPDX-License-Identifier: MIT */
/*
 * The names of two functions do not fit into a line of the deadlock report: the line is truncated.
 */
#include <gmp.h>

#define FIFTY "_and_on_and_on_and_on_and_on_and_on_and_on_and_on_"
#define LONG FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY

void wait_forever(void *arg) __asm__("entry" LONG);
void app(void *arg) __asm__("maker" LONG);

void wait_forever(void *arg)
{
	(void)arg;
	gmp_sleep_until(GMP_FOREVER);
}

void app(void *arg)
{
	gmp_g *g;

	(void)arg;
	if (gmp_spawn(&g, wait_forever, NULL, NULL) == 0)
		gmp_join(g);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
