/* SPDX-License-Identifier: MIT */
/*
 * Interface of the C benchmarks to Google Benchmark: registers rows and reports their figures.
 *
 * A file of benchmarks has functions of the form `void fn(struct bench_state *)`, and registers
 * each with BENCH, once for every row of the table:
 *
 *	BENCH(yield, "yield/1000", .procs = 1, .n = 1000, .count = 2000000);
 *
 * shim.cc starts a runtime with .procs Ps and calls fn on its first green thread (.procs = 0: no
 * runtime, fn is called on the main thread).  fn does its work .count times, checks the result, and
 * reports once, by bench_time() or by one or more calls of bench_value().  Google Benchmark counts
 * this as one batch of .count iterations with the time that fn reports, so that no C++ code runs
 * between two operations.
 */
#ifndef BENCH_SHIM_H
#define BENCH_SHIM_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench_state;

struct bench_case {
	const char *name;
	void (*fn)(struct bench_state *);
	int procs;      /* Ps; 0 = without a runtime */
	int64_t n;      /* number of green threads, or another size of the benchmark */
	int64_t count;  /* operations; the peers do as many */
	size_t stack;   /* bytes reserved for a stack; 0 = the default */
	int mode;       /* distinguishes rows of one function */
	unsigned flags; /* gmp_config.flags */
	struct bench_case *next;
};

void bench_register(struct bench_case *c);

#define BENCH_CAT_(a, b) a##b
#define BENCH_CAT(a, b) BENCH_CAT_(a, b)
#define BENCH(fn_, name_, ...)                                                                     \
	static struct bench_case BENCH_CAT(case_,                                                  \
					   __LINE__) = { .name = name_, .fn = fn_, __VA_ARGS__ };  \
	__attribute__((constructor)) static void BENCH_CAT(register_, __LINE__)(void)              \
	{                                                                                          \
		bench_register(&BENCH_CAT(case_, __LINE__));                                       \
	}                                                                                          \
	struct bench_case

/* The row that is being measured. */
const struct bench_case *bench_this(const struct bench_state *st);

/* Report that ops operations took ns nanoseconds. */
void bench_time(struct bench_state *st, int64_t ns, int64_t ops);

/* Report a figure that is not a time per operation.  `what` (may be "") is added to the row's name
 * after a colon; unit is "ns", "bytes", "percent" or "ms". */
void bench_value(struct bench_state *st, const char *what, const char *unit, double v);

/* Sorts n values and returns the median, which a slow moment of the machine hardly changes. */
double bench_median(double *v, size_t n);

/* Report that the result of the work is wrong, and end the process with status 1. */
void bench_fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

#define bench_check(cond, ...)                                                                     \
	do {                                                                                       \
		if (!(cond))                                                                       \
			bench_fail(__VA_ARGS__);                                                   \
	} while (0)

static inline int64_t bench_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* For flags and counters that several green threads share: plain moves on x86-64. */
#define bench_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define bench_store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define bench_add(p, v) __atomic_add_fetch((p), (v), __ATOMIC_RELAXED)

#ifdef __cplusplus
}
#endif

#endif
