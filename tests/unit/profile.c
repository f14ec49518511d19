/* SPDX-License-Identifier: MIT */
/*
 * Tests that CPU profiles leave nothing behind, also if memory or a timer is refused.
 *
 * Linked with floors 0..6
 * wrap: os_reserve os_cpu_timer_begin os_timer_end realloc calloc
 */
#define _GNU_SOURCE 1
#include "rt.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/san.h"
#include "observe/cpusample.h"
#include "observe/profile/profile.h"

enum { MANY = 100 };

static int refuse_reserve, refuse_timer, timers_made, timers_ended;
static long refuse_alloc = -1; /* number of allocations until one fails; -1: none does */

void *__real_os_reserve(size_t bytes);
void *__wrap_os_reserve(size_t bytes)
{
	return ld_rlx(&refuse_reserve) && bytes > 1 << 20 ? NULL : __real_os_reserve(bytes);
}

int __real_os_cpu_timer_begin(int tid, int signo, int64_t first, int64_t ns);
int __wrap_os_cpu_timer_begin(int tid, int signo, int64_t first, int64_t ns)
{
	if (ld_rlx(&refuse_timer))
		return -EAGAIN;
	int timer = __real_os_cpu_timer_begin(tid, signo, first, ns);

	if (timer >= 0)
		add_rlx(&timers_made, 1);
	return timer;
}

void __real_os_timer_end(int timer);
void __wrap_os_timer_end(int timer)
{
	add_rlx(&timers_ended, 1);
	__real_os_timer_end(timer);
}

static bool alloc_fails(void)
{
	return ld_rlx(&refuse_alloc) >= 0 && add_rlx(&refuse_alloc, -1L) == 0;
}

void *__real_realloc(void *p, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes)
{
	return alloc_fails() ? NULL : __real_realloc(p, bytes);
}

void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
	return alloc_fails() ? NULL : __real_calloc(n, bytes);
}

static void need_profiles(void)
{
	if (pprof_available())
		check_skip("no protobuf-c");
}

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	CHECK(d != NULL);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int lines_of(const char *path)
{
	FILE *f = fopen(path, "r");
	int n = 0;

	CHECK(f != NULL);
	for (int c; (c = getc(f)) != EOF;)
		n += c == '\n';
	fclose(f);
	return n;
}

/* No timer is left, and SIGPROF is as before. */
static void check_default(void)
{
	struct sigaction sa;

	CHECK_EQ(sigaction(SIGPROF, NULL, &sa), 0);
	CHECK(sa.sa_handler == SIG_DFL);
	CHECK_EQ(ld_rlx(&timers_made), ld_rlx(&timers_ended));
}

static void profile_some(int n)
{
	struct pprof_out out;

	for (int i = 0; i < n; i++) {
		CHECK_EQ(profile_take("cpu", 1000, MS, NULL, &out), 0);
		CHECK(out.n > 0);
		free(out.data);
	}
}

static int end_burning;

static void burn(void *arg)
{
	(void)arg;
	while (!ld_rlx(&end_burning))
		gmp_checkpoint();
}

/* libdw keeps the objects open in which a sample was, until the run ends: at most so many fds and
 * mappings.  A leak would have one for each of MANY profiles. */
enum { FDS = 10, MAPS = 60 };

static void profile_often(void *arg)
{
	gmp_g *g[2];

	(void)arg;
	st_rlx(&end_burning, 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_spawn(&g[i], burn, NULL, NULL), 0);
	profile_some(5);
	int fds = entries("/proc/self/fd"), maps = lines_of("/proc/self/maps");

	profile_some((int)check_scaled(MANY));
	CHECK(entries("/proc/self/fd") <= fds + FDS);
#if !defined(SAN_ADDRESS) && !defined(SAN_THREAD)
	CHECK(lines_of("/proc/self/maps") <= maps + MAPS);
#endif
	(void)maps;
	check_default();
	st_rlx(&end_burning, 1);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

TEST_PROCS(profile_cpu_repeated_leaves_nothing)
{
	need_profiles();
	run_procs(procs, profile_often, NULL);
	int fds = entries("/proc/self/fd");

	run_procs(procs, profile_often, NULL);
	CHECK_EQ(entries("/proc/self/fd"), fds);
	check_default();
}

static void profile_refused(void *arg)
{
	struct pprof_out out;

	(void)arg;
	st_rlx(&refuse_reserve, 1);
	CHECK_EQ(profile_take("cpu", 100, MS, NULL, &out), -ENOMEM);
	st_rlx(&refuse_reserve, 0);
	CHECK(!out.data);
	check_default();
	st_rlx(&refuse_timer, 1);
	CHECK_EQ(profile_take("cpu", 100, MS, NULL, &out), -EAGAIN);
	st_rlx(&refuse_timer, 0);
	check_default();
	profile_some(1);
}

TEST(profile_cpu_without_memory_or_timer_returns_error)
{
	need_profiles();
	run_procs(2, profile_refused, NULL);
}

static void nothing(void *arg)
{
	(void)arg;
}

/* Each allocation of a profile fails once. */
static void profile_each_fails(void *arg)
{
	struct pprof_out out;
	int failed = 0, err;
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, NULL), 0);
	CHECK_EQ(gmp_join(g), 0);
	for (long n = 0;; n++) {
		st_rlx(&refuse_alloc, n);
		err = profile_take("green", 100, 0, NULL, &out);
		bool reached = ld_rlx(&refuse_alloc) < 0;

		st_rlx(&refuse_alloc, -1L);
		if (!reached)
			break;
		CHECK(err == 0 || err == -ENOMEM || err == -EAGAIN);
		CHECK(!err == !!out.data);
		failed += err != 0;
		free(out.data);
	}
	CHECK_EQ(err, 0);
	free(out.data);
	CHECK(failed > 10);
}

TEST(profile_green_without_memory_returns_error)
{
	need_profiles();
	run_procs(1, profile_each_fails, NULL);
}

static void profile_wrong(void *arg)
{
	struct pprof_out out;

	(void)arg;
	CHECK_EQ(profile_take("cpu", 0, MS, NULL, &out), -EINVAL);
	CHECK_EQ(profile_take("cpu", 1001, MS, NULL, &out), -EINVAL);
	CHECK_EQ(profile_take("cpu", 100, 0, NULL, &out), -EINVAL);
	CHECK_EQ(profile_take("wait", 100, -1, NULL, &out), -EINVAL);
	CHECK_EQ(profile_take("mutex", 100, -1, NULL, &out), -EINVAL);
}

TEST(profile_number_out_of_range_returns_einval)
{
	run_procs(1, profile_wrong, NULL);
}
