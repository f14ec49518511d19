/* SPDX-License-Identifier: MIT */
/* The names of two functions do not fit into a line of the report: it is cut, and still a line. */
#include <gmp.h>

#define FIFTY "_and_on_and_on_and_on_and_on_and_on_and_on_and_on_"
#define LONG FIFTY FIFTY FIFTY FIFTY FIFTY FIFTY

void wait_for_ever(void *arg) __asm__("entry" LONG);
void app(void *arg) __asm__("maker" LONG);

void wait_for_ever(void *arg)
{
	(void)arg;
	gmp_sleep_until(GMP_FOREVER);
}

void app(void *arg)
{
	gmp_g *g;

	(void)arg;
	if (gmp_spawn(&g, wait_for_ever, NULL, NULL) == 0)
		gmp_join(g);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
