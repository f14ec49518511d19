/* SPDX-License-Identifier: MIT */
/*
 * Driver of the peers in C and C++: runs a row by name and prints its figures.
 *
 * A peer defines `rows`, a table of functions by name, and calls peer_main:
 *
 *	NAME ROW PROCS N COUNT		measures, and prints a line of JSON for each figure
 *	NAME --rows			prints the rows of the table
 *
 * A function does its work row->count times, checks the result, and reports.
 */
#ifndef PEER_H
#define PEER_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct row {
	const char *name;
	int procs;
	void (*fn)(struct row *row);
	int64_t n, count;
};

__attribute__((noreturn, format(printf, 1, 2))) static inline void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	fflush(stderr);
	_exit(1);
}

#define check(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond))                                                                       \
			fail(__VA_ARGS__);                                                         \
	} while (0)

static inline int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static inline void value(const struct row *row, const char *what, const char *unit, double v)
{
	printf("{\"name\": \"%s%s%s\", \"procs\": %d, \"count\": %lld, \"%s\": %.4f}\n", row->name,
	       *what ? ":" : "", what, row->procs, (long long)row->count, unit, v);
}

static inline void took(const struct row *row, int64_t ns, int64_t ops)
{
	value(row, "", "ns", (double)ns / (double)ops);
}

/* Limit the number of operations of a row that takes long in this peer. */
static inline void at_most(struct row *row, int64_t count)
{
	if (row->count > count)
		row->count = count;
}

/* Returns the memory of this process in bytes: resident pages and page tables. */
static inline int64_t memory_now(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	int64_t sum = 0;

	check(f, "no /proc/self/status");
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmRSS:", 6) || !strncmp(line, "VmPTE:", 6))
			sum += strtoll(line + 6, NULL, 10) * 1024;
	fclose(f);
	return sum;
}

/* Returns the largest n whose tree of calls has at most `most` spawns. Sets *result to fib(n), and
 * *spawns to their number. */
static inline int fib_tree(int64_t most, int64_t *result, int64_t *spawns)
{
	int64_t a = 0, b = 1, s = 0, before = 0;

	for (int n = 1;; n++) {
		int64_t next = 1 + s + before;

		if (next > most) {
			*result = b;
			*spawns = s;
			return n;
		}
		before = s;
		s = next;
		b += a;
		a = b - a;
	}
}

/* Returns the ns that the next sleeper sleeps; the sequence is the same in all peers. */
static inline int64_t next_sleep(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return 1000000 + (int64_t)(*x % 999000000);
}

#define FIRST_SLEEP 88172645463325252u

static inline int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static inline void report_lateness(const struct row *row, int64_t *late, int64_t n)
{
	qsort(late, (size_t)n, sizeof(*late), by_value);
	check(late[0] >= 0, "one woke %lld ns too early", (long long)-late[0]);
	value(row, "p50", "ns", (double)late[n / 2]);
	value(row, "p99", "ns", (double)late[n * 99 / 100]);
}

static inline int peer_main(struct row *rows, int n, int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--rows")) {
		for (int i = 0; i < n; i++)
			printf("%s\t%d\n", rows[i].name, rows[i].procs);
		return 0;
	}
	check(argc == 5, "usage: %s ROW PROCS N COUNT, or --rows", argv[0]);
	for (int i = 0; i < n; i++) {
		if (strcmp(rows[i].name, argv[1]) || rows[i].procs != atoi(argv[2]))
			continue;
		rows[i].n = atoll(argv[3]);
		rows[i].count = atoll(argv[4]);
		rows[i].fn(&rows[i]);
		fflush(stdout);
		_exit(0);
	}
	fail("no row %s with %s Ps", argv[1], argv[2]);
}

#endif
