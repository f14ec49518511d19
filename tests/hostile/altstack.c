/* SPDX-License-Identifier: MIT */
/*
 * Calls gmp_run on a thread with an alternate signal stack of 8 KiB, above an inaccessible page.
 *
 *   altstack             the run ends, and the thread has its alternate stack again
 *   altstack overflow    a green thread on the caller's M overflows its stack
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <gmp.h>

enum { SIZE = 8192 };

static int down(int depth)
{
	volatile char frame[512];

	frame[0] = (char)depth;
	return down(depth + 1) + frame[0];
}

static void app(void *arg)
{
	if (*(bool *)arg)
		down(0);
}

int main(int argc, char **argv)
{
	bool overflow = argc > 1 && strcmp(argv[1], "overflow") == 0;
	char *pages =
		mmap(NULL, 4096 + SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t ss = { .ss_size = SIZE }, now;
	gmp_config cfg = GMP_CONFIG_INIT;

	if (pages == MAP_FAILED || mprotect(pages, 4096, PROT_NONE))
		return 2;
	ss.ss_sp = pages + 4096;
	if (sigaltstack(&ss, NULL))
		return 2;
	cfg.procs = 1;
	if (gmp_run(app, &overflow, &cfg))
		return 2;
	if (sigaltstack(NULL, &now) || now.ss_sp != ss.ss_sp || now.ss_size != SIZE) {
		fputs("altstack: not the one from before the run\n", stderr);
		return 1;
	}
	return 0;
}
