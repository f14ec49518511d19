/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, a green thread that sleeps in read() without gmp_blocking is reported, with
 * the system call, the fd and advice. A sleep in gmp_blocking is not reported.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <gmp.h>

#include "told.h"

static int ends[2];
static volatile long got, written; /* so that no call is a jump */

__attribute__((noinline)) void read_it(void)
{
	char c;

	got += read(ends[0], &c, 1);
}

__attribute__((noinline)) void read_declared(void)
{
	char c;

	got += gmp_blocking(read(ends[0], &c, 1));
}

/* Overwrites what the calls of gmp_blocking have left on the stack.  Where libc's read has no frame
 * pointer (AddressSanitizer's), the report takes the first return address for a likely caller. */
__attribute__((noinline)) static void overwrite_stack(void)
{
	volatile char below[8192];

	for (size_t i = 0; i < sizeof(below); i++)
		below[i] = 0;
}

static void *writer(void *arg)
{
	struct timespec declared = { .tv_nsec = 50000000 };

	(void)arg;
	nanosleep(&declared, NULL);
	written += write(ends[1], "x", 1);
	await_told(" sleeps in the kernel");
	written += write(ends[1], "x", 1);
	return NULL;
}

static void app(void *arg)
{
	(void)arg;
	read_declared();
	overwrite_stack();
	read_it();
	got++;
}

int main(void)
{
	pthread_t t;

	setenv("GMP_DEBUG", "check", 1);
	if (pipe(ends) || pthread_create(&t, NULL, writer, NULL))
		return 2;
	return gmp_run(app, NULL, NULL) || pthread_join(t, NULL) || got != 3 || written != 2;
}
