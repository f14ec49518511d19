/* SPDX-License-Identifier: MIT */
/*
 * Shared functions of the experiments: check arguments, start a runtime and report figures.
 *
 * bench/experiments/run starts a program again for every point of a table: `exp-NAME ARGUMENTS`.
 * The program checks the result of its work, and prints one line for each figure,
 * "FIGURE<tab>UNIT<tab>VALUE".  If the result is wrong, it ends with status 1 and prints no figure.
 * GMP_SCHED chooses the scheduler.
 */
#ifndef EXP_H
#define EXP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <gmp.h>

#define exp_check(cond, ...)                                                                       \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
			_Exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static inline void exp_figure(const char *figure, const char *unit, double value)
{
	printf("%s\t%s\t%.4f\n", figure, unit, value);
}

static inline int64_t exp_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline struct rusage exp_usage(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u;
}

/* Returns the ns of CPU time of all threads, in the program and in the kernel. */
static inline int64_t exp_cpu(void)
{
	struct rusage u = exp_usage();

	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000000) +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * INT64_C(1000);
}

/* Returns the i-th argument, a count of at least 1. */
static inline int exp_count(int argc, char **argv, int i, const char *usage)
{
	long n = i < argc ? strtol(argv[i], NULL, 10) : 0;

	exp_check(n >= 1 && n <= 1000000000, "usage: %s", usage);
	return (int)n;
}

/* Run fn as the first green thread, with `procs` Ps. */
static inline void exp_run(gmp_fn fn, int procs)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.max_threads = 100000;
	int err = gmp_run(fn, NULL, &cfg);

	exp_check(err == 0, "gmp_run: %s", strerror(-err));
}

static inline void exp_go(gmp_fn fn, void *arg)
{
	int err = gmp_go(fn, arg);

	exp_check(err == 0, "gmp_go: %s", strerror(-err));
}

static inline gmp_chan *exp_chan(size_t size, size_t capacity)
{
	gmp_chan *c = gmp_chan_new(size, capacity);

	exp_check(c, "gmp_chan_new");
	return c;
}

/* Returns the value of a line of /proc/self/status, in KiB. */
static inline int64_t exp_status(const char *what)
{
	char line[256];
	int64_t kib = -1;
	FILE *f = fopen("/proc/self/status", "r");

	exp_check(f, "/proc/self/status cannot be opened");
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, what, strlen(what)) && line[strlen(what)] == ':')
			kib = strtoll(line + strlen(what) + 1, NULL, 10);
	fclose(f);
	exp_check(kib >= 0, "/proc/self/status lacks %s", what);
	return kib;
}

/* For counters that several green threads share. */
#define exp_add(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define exp_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)

#endif
