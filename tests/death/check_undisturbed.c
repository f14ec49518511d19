/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a green thread that sleeps in the kernel is reported with the call in the
 * program that leads to the sleep, and the sleep is not interrupted: no call returns EINTR.
 */
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <gmp.h>

#include "told.h"

static volatile int failed; /* so that no call is a jump */

__attribute__((noinline)) void sleep_here(void)
{
	struct timespec t = { .tv_nsec = 100000000 };

	failed |= nanosleep(&t, NULL) != 0;
}

__attribute__((noinline)) void usleep_here(void)
{
	failed |= usleep(100000) != 0;
}

__attribute__((noinline)) void poll_here(void)
{
	failed |= poll(NULL, 0, 100) != 0;
}

/* At least three times, and until it is reported: sysmon may get the CPU late. */
static void repeat(void (*fn)(void), const char *text)
{
	for (int i = 0; i < 3 || (i < 100 && !told(text)); i++)
		fn();
}

static void app(void *arg)
{
	(void)arg;
	repeat(sleep_here, " sleep_here+");
	repeat(usleep_here, " usleep_here+");
	repeat(poll_here, " poll_here+");
}

int main(void)
{
	setenv("GMP_DEBUG", "check", 1);
	return gmp_run(app, NULL, NULL) || failed;
}
