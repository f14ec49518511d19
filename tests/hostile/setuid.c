/* SPDX-License-Identifier: MIT */
/* Prints the number of Ps and whether a sleep took real time; needs a stack of 256 KiB. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/auxv.h>
#include <time.h>

#include <gmp.h>

static long ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

__attribute__((noinline)) static int deep(int levels)
{
	volatile char frame[1024] = { 0 };

	return levels ? deep(levels - 1) + frame[levels % 1024] : 0;
}

static void app(void *arg)
{
	long from = ms();

	(void)arg;
	gmp_sleep(100 * GMP_MS);
	printf("secure %lu, %d Ps, a sleep %s, depth %d\n", getauxval(AT_SECURE), gmp_procs(),
	       ms() - from >= 100 ? "takes time" : "takes no time", deep(160));
}

int main(void)
{
	return -gmp_run(app, NULL, NULL);
}
