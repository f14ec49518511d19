/* SPDX-License-Identifier: MIT */
/*
 * Interface between benchmarks written in C and Google Benchmark.
 *
 * A file of benchmarks holds functions of the form `void fn(struct bench_state *)` and registers
 * each with BENCH, once for every row of the table that it makes:
 *
 *	BENCH(yield, "yield/1000", .procs = 1, .n = 1000, .count = 2000000);
 *
 * shim.cc starts a runtime with .procs Ps and calls fn on its first green thread (.procs = 0: no
 * runtime, fn is called on the main thread).  fn does its work .count times, checks what came of
 * it, and reports once, by bench_time() or by one or more bench_value()s.  Google Benchmark sees
 * one batch of .count iterations whose time is what fn reported, so that no C++ code
 * runs between two operations.
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
	int procs;     /* Ps; 0 = without a runtime */
	int64_t n;     /* how many green threads, or whatever size the benchmark has */
	int64_t count; /* operations; the peers do as many, bench/run compares */
	size_t stack;  /* bytes reserved for a stack; 0 = the default */
	int mode;      /* what tells two rows of one function apart */
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

/* ops operations took ns nanoseconds. */
void bench_time(struct bench_state *st, int64_t ns, int64_t ops);

/* A figure that is not a time for each operation.  `what` (may be "") is added to the row's name
 * after a colon; unit is "ns", "bytes", "percent" or "ms". */
void bench_value(struct bench_state *st, const char *what, const char *unit, double v);

/* The median of n values, which it sorts: a slow moment of the machine may hit some. */
double bench_median(double *v, size_t n);

/* The work was not done as it should have been: say so and end the process with status 1. */
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
