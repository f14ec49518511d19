/* SPDX-License-Identifier: MIT */
/* Helpers of all runtime tests: waiting for a condition, external threads, counting resources. */
#ifndef TESTS_RUNTIME_UTIL_H
#define TESTS_RUNTIME_UTIL_H

#include <dirent.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmp.h>

#include "check.h"
#include "rt.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/*
 * True if the program runs at least ten times slower than usual: under a sanitizer, Valgrind or an
 * emulator.  Also used to reduce counts.
 */
#define SLOW (SANITIZED || check_on_valgrind() || check_scaled(100) < 100)

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define SEC INT64_C(1000000000)

/* A bound on failure only: a correct run never waits this long. */
#define PATIENCE (100 * SEC)

/* Preemption needs membarrier(2). */
static inline void need_preemption(void)
{
	long known = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	if (known < 0 || !(known & MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		check_skip("no membarrier: no preemption");
	check_skip_on_valgrind("Valgrind runs one thread at a time");
}

/* Yield until cond holds. Callable on green and external threads. */
#define WAIT_FOR(cond)                                                                             \
	do {                                                                                       \
		int64_t wait_for_limit_ = gmp_deadline(PATIENCE);                                  \
		while (!(cond)) {                                                                  \
			CHECK(gmp_now() < wait_for_limit_ && #cond);                               \
			gmp_yield();                                                               \
		}                                                                                  \
	} while (0)

/*
 * Acquires a permit.  Polls first, so that the caller continues at the same time as the releaser,
 * if both have a CPU; if not, waits, which leaves the CPU to it.
 */
static inline void poll_and_acquire(gmp_sem *s)
{
	for (int i = 0; i < 1000; i++)
		if (gmp_sem_try_acquire(s) == 0)
			return;
	CHECK_EQ(gmp_sem_acquire(s), 0);
}

/*
 * RT(name) { ... }: a case at 1, 2 and 4 Ps whose body runs on the first green thread; `procs` is
 * the number of Ps. RT_THEN(name, last) also calls last() after the run.
 */
#define RT(name) RT_RUN(name, run_procs, nothing_then)
#define RT_THEN(name, last) RT_RUN(name, run_procs, last)
/* Without preemption. */
#define RT_COOPERATIVE(name) RT_RUN(name, run_cooperative, nothing_then)
#define RT_RUN(name, run, last)                                                                    \
	static void name##_body(int procs);                                                        \
	static void name##_app(void *arg)                                                          \
	{                                                                                          \
		name##_body(*(int *)arg);                                                          \
	}                                                                                          \
	TEST_PROCS(name)                                                                           \
	{                                                                                          \
		run(procs, name##_app, &procs);                                                    \
		last();                                                                            \
	}                                                                                          \
	static void name##_body(__attribute__((unused)) int procs)

#define UNUSED __attribute__((unused))

static inline void nothing_then(void)
{
}

static inline gmp_g *spawn(gmp_fn fn, void *arg)
{
	gmp_g *g = NULL;

	CHECK_EQ(gmp_spawn(&g, fn, arg, NULL), 0);
	CHECK(g != NULL);
	return g;
}

static inline void join(gmp_g *g)
{
	CHECK_EQ(gmp_join(g), 0);
}

static inline gmp_stats stats(void)
{
	gmp_stats s = GMP_STATS_INIT;

	CHECK_EQ(gmp_stats_get(&s), 0);
	return s;
}

/* Returns the bytes allocated by malloc; 0 if malloc does not report them. */
static inline size_t allocated(void)
{
#if SANITIZED || !defined(__GLIBC__)
	return 0;
#else
	return mallinfo2().uordblks;
#endif
}

/* Wait until exactly n Gs wait. */
static inline void wait_parked(uint64_t n)
{
	WAIT_FOR(stats().greens_waiting == n);
}

/* An external thread. */
struct ext_thread {
	pthread_t thread;
	gmp_fn fn;
	void *arg;
	atomic_int done;
};

static inline void *ext_thread_main(void *p)
{
	struct ext_thread *f = p;

	f->fn(f->arg);
	atomic_store(&f->done, 1);
	return NULL;
}

static inline void ext_thread_start(struct ext_thread *f, gmp_fn fn, void *arg)
{
	f->fn = fn;
	f->arg = arg;
	atomic_store(&f->done, 0);
	CHECK_EQ(pthread_create(&f->thread, NULL, ext_thread_main, f), 0);
}

/* In blocking code, since the thread may wait for other Gs. */
static inline void ext_thread_join(struct ext_thread *f)
{
	CHECK_EQ(gmp_blocking(pthread_join(f->thread, NULL)), 0);
}

/*
 * Run fn on n_external external threads and `green` Gs at once, each with its number; returns once
 * all have ended.
 */
static inline void run_crowd(gmp_fn fn, int n_external, int green)
{
	struct ext_thread f[8];
	gmp_g *g[32];

	CHECK(n_external <= 8 && green <= 32);
	for (int i = 0; i < n_external; i++)
		ext_thread_start(&f[i], fn, (void *)(intptr_t)(100 + i));
	for (int i = 0; i < green; i++)
		g[i] = spawn(fn, (void *)(intptr_t)i);
	for (int i = 0; i < green; i++)
		join(g[i]);
	for (int i = 0; i < n_external; i++)
		ext_thread_join(&f[i]);
}

static inline int count_dir(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	CHECK(d != NULL);
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

#ifdef __SANITIZE_THREAD__
static void *no_op(void *arg)
{
	return arg;
}
#endif

static inline int count_threads(void)
{
#ifdef __SANITIZE_THREAD__
	/* ThreadSanitizer starts its own thread with the first thread of the process. */
	static int begun;
	pthread_t t;

	if (!begun++ && pthread_create(&t, NULL, no_op, NULL) == 0)
		pthread_join(t, NULL);
#endif
	return count_dir("/proc/self/task");
}

/* Excludes fds below /proc, which this function or sysmon opens for a moment. */
static inline int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	char target[64];
	int count = 0;

	CHECK(d != NULL);
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target));

		count += n > 0 && (n < 6 || memcmp(target, "/proc/", 6) != 0);
	}
	closedir(d);
	return count;
}

static inline int count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	int n = 0;

	CHECK(f != NULL);
	for (int c; (c = getc(f)) != EOF;)
		n += c == '\n';
	fclose(f);
	return n;
}

/* One line of /proc/self/status or /proc/meminfo, in KiB. */
static inline long proc_kb(const char *path, const char *key)
{
	FILE *f = fopen(path, "re");
	char line[256];
	long kb = -1;

	CHECK(f != NULL);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':') {
			kb = strtol(line + strlen(key) + 1, NULL, 10);
			break;
		}
	}
	fclose(f);
	CHECK(kb >= 0);
	return kb;
}

static inline long rss_kb(void)
{
	return proc_kb("/proc/self/status", "VmRSS");
}

/* Run fn in a child process and return its wait status. */
static inline int in_child(void (*fn)(void))
{
	int status = -1;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		fn();
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0)
		CHECK(errno == EINTR);
	return status;
}

static inline int cmp_i64(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

#endif
