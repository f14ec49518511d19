/* SPDX-License-Identifier: MIT */
/*
 * Conformance tests: each case runs four times, on an OS thread without a runtime, where the
 * functions are libc's, and on a green thread with own thread-locals at 1, 2 and 4 Ps.
 *
 *   POSIX_TEST(nanosleep_bad_time_is_einval)
 *   {
 *           CHECK_EQ(nanosleep(&bad, NULL), -1);
 *   }
 *
 * A case must not ask on which of both it runs, except by on_green() where docs/api/posix.md names
 * a difference.
 */
#ifndef TESTS_POSIX_H
#define TESTS_POSIX_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rt.h"

__attribute__((unused)) static bool on_green(void)
{
	return gmp_self() != NULL;
}

/* GMP_DEBUG=chaos ends system calls that the kernel does not restart with EINTR. */
__attribute__((unused)) static void skip_under_chaos(void)
{
	const char *debug = getenv("GMP_DEBUG");

	if (debug && strstr(debug, "chaos"))
		check_skip("chaos interrupts blocking code");
}

struct posix_case {
	void (*fn)(void);
	int procs;
};

__attribute__((unused)) static void posix_green(void *c)
{
	((struct posix_case *)c)->fn();
}

/* Run fn(arg) and what it spawns with own thread-locals, on so many Ps; 0: the default.  Returns 0
 * or a negative errno: fn was not called. */
__attribute__((unused)) static int try_own(int procs, unsigned flags, gmp_fn fn, void *arg)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.flags = GMP_OWN_TLS | flags;
	return gmp_run(fn, arg, &cfg);
}

__attribute__((unused)) static void run_own(int procs, unsigned flags, gmp_fn fn, void *arg)
{
	int err = try_own(procs, flags, fn, arg);

	if (err == -ENOTSUP)
		check_skip("no own thread-locals on this machine");
	CHECK_EQ(err, 0);
}

__attribute__((unused)) static void posix_run(void (*fn)(void), int procs)
{
	struct posix_case c = { fn, procs };

	if (procs == 0)
		fn();
	else
		run_own(procs, 0, posix_green, &c);
}

/* Yield until n green threads wait. */
__attribute__((unused)) static void until_waiting(unsigned n)
{
	gmp_stats s = GMP_STATS_INIT;

	do {
		gmp_yield();
		CHECK_EQ(gmp_stats_get(&s), 0);
	} while (s.greens_waiting < n);
}

#define POSIX_TEST(name)                                                                           \
	static void posix_##name##_(void);                                                         \
	static void test_##name##_(int procs)                                                      \
	{                                                                                          \
		posix_run(posix_##name##_, procs);                                                 \
	}                                                                                          \
	CHECK_CASE_(case_##name##_0_, #name "/native", test_##name##_, 0)                          \
	CHECK_CASE_(case_##name##_1_, #name "/1p", test_##name##_, 1)                              \
	CHECK_CASE_(case_##name##_2_, #name "/2p", test_##name##_, 2)                              \
	CHECK_CASE_(case_##name##_4_, #name "/4p", test_##name##_, 4)                              \
	static void posix_##name##_(void)

#endif
