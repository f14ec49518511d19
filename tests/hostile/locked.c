/* SPDX-License-Identifier: MIT */
/*
 * Runs green threads in a process that locks its memory, and prints the cost.
 *
 *   locked MODE COUNT [USER]
 *
 * MODE: full (mlockall(MCL_CURRENT | MCL_FUTURE) before the run), fault (with MCL_ONFAULT), middle
 * (full, by the first green thread), overflow (full; a green thread overflows its stack), guards
 * (no run; exits with 0 if the kernel has light guards). COUNT green threads exist at the same
 * time; 0: as many as possible. USER: the run has this user id, with the current RLIMIT_MEMLOCK.
 * Prints "threads N lck KIB rss KIB maps N".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <gmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CYCLES = 10000, DEPTH = 32 << 10 };

static const char *mode;
static int count, made;
static gmp_chan *go;

/*
 * Returns true if the kernel has light guards (Linux 6.13), which keep a reservation from being
 * populated during a run.
 */
static bool light_guards(void)
{
	long page = sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	return p != MAP_FAILED && madvise(p, (size_t)page, 102 /* MADV_GUARD_INSTALL */) == 0;
}

/* Returns the KiB of a line of /proc/self/status. */
static long kib(const char *name)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");
	long v = -1;

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			v = atol(line + strlen(name) + 1);
	if (f)
		fclose(f);
	return v;
}

/* Returns the number of mappings. */
static int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	int n = 0, c;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static void lock_all(int more)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE | more) != 0) {
		perror("mlockall");
		exit(3);
	}
}

static void waits(void *arg)
{
	(void)arg;
	gmp_chan_recv(go, NULL);
}

static void deep(void *arg)
{
	char a[DEPTH];

	(void)arg;
	memset(a, 1, sizeof(a));
	__asm__ volatile("" : : "r"(a) : "memory");
}

static int down(volatile int *at)
{
	volatile int here[256];

	here[0] = *at + 1;
	return here[0] == 0 ? 0 : down(here) + here[0];
}

static void overflows(void *arg)
{
	volatile int zero = 0;

	(void)arg;
	exit(down(&zero) == 1);
}

static void detached(gmp_g *g)
{
	if (gmp_detach(g) != 0)
		exit(4);
}

static void entry(void *arg)
{
	gmp_g *g;
	int err = 0;

	(void)arg;
	if (strcmp(mode, "middle") == 0)
		lock_all(0);
	go = gmp_chan_new(0, 0);
	if (!go)
		exit(5);
	if (strcmp(mode, "overflow") == 0) {
		err = gmp_spawn(&g, overflows, NULL, NULL);
		exit(err == 0 ? gmp_join(g) : 6);
	}
	for (made = 0; count == 0 || made < count; made++) {
		err = gmp_spawn(&g, waits, NULL, NULL);
		if (err != 0)
			break;
		detached(g);
	}
	gmp_yield();
	printf("threads %d lck %ld rss %ld maps %d err %d\n", made, kib("VmLck"), kib("VmRSS"),
	       mappings(), err);
	if (count > 0 ? err != 0 : err != -ENOMEM)
		exit(7);
	gmp_chan_close(go);
	/* spawn and exit, deep stacks: freed stacks can be used again */
	for (int i = 0; i < CYCLES; i++) {
		while ((err = gmp_spawn(&g, i % 100 ? waits : deep, NULL, NULL)) == -ENOMEM)
			gmp_yield();
		if (err != 0 || gmp_join(g) != 0)
			exit(8);
	}
	printf("afterwards lck %ld rss %ld\n", kib("VmLck"), kib("VmRSS"));
}

int main(int argc, char **argv)
{
	int err;

	mode = argc > 1 ? argv[1] : "full";
	if (strcmp(mode, "guards") == 0)
		return !light_guards();
	count = argc > 2 ? atoi(argv[2]) : 1;
	if (argc > 3 && (setgid((gid_t)atoi(argv[3])) != 0 || setuid((uid_t)atoi(argv[3])) != 0))
		return 9;
	if (strcmp(mode, "middle") != 0)
		lock_all(strcmp(mode, "fault") == 0 ? MCL_ONFAULT : 0);
	err = gmp_run(entry, NULL, NULL);
	if (err != 0)
		fprintf(stderr, "gmp_run: %s\n", strerror(-err));
	return err != 0;
}
