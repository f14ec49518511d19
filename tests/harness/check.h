/* SPDX-License-Identifier: MIT */
/*
 * Test framework on top of cmocka: each case registers itself and runs in its own process (main.c).
 *
 *   #include "check.h"
 *
 *   TEST(queue_new_is_empty)
 *   {
 *           CHECK_EQ(queue_len(&q), 0);
 *   }
 *
 *   TEST_PROCS(spawn_runs_each_green_thread)  // three cases, with procs = 1, 2 and 4
 *   {
 *           run_procs(procs, app, NULL);      // see rt.h
 *   }
 *
 * The CHECK macros may be used on any OS thread and any green thread: a failure prints one line and
 * ends the process. The assertions of cmocka leave by longjmp, so they are only for code on the
 * stack of main.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#include <cmocka.h>
/* cmocka's shortest names, which tests use themselves */
#undef fail
#undef skip

struct check_case {
	const char *name;
	void (*fn)(int procs);
	int procs; /* 0: the case does not depend on the number of Ps */
	struct check_case *next;
};

void check_register(struct check_case *c);

/* Skips the calling case, with the reason. */
void check_skip(const char *why) __attribute__((noreturn));

/* Returns nonzero if Valgrind runs the program; the second function then skips the case. */
int check_on_valgrind(void);
void check_skip_on_valgrind(const char *why);

/* Returns n, or that percentage of n if $CHECK_SCALE is set (under sanitizers); at least 1. */
long check_scaled(long n);

#ifdef __cplusplus
}
#endif

#define CHECK_CASE_(id, text, body, n)                                                             \
	__attribute__((constructor)) static void id(void)                                          \
	{                                                                                          \
		static struct check_case c = { text, body, n, NULL };                              \
		check_register(&c);                                                                \
	}

#define TEST(name)                                                                                 \
	static void test_##name##_(int procs);                                                     \
	CHECK_CASE_(case_##name##_, #name, test_##name##_, 0)                                      \
	static void test_##name##_(__attribute__((unused)) int procs)

#define TEST_PROCS(name)                                                                           \
	static void test_##name##_(int procs);                                                     \
	CHECK_CASE_(case_##name##_1_, #name "/1p", test_##name##_, 1)                              \
	CHECK_CASE_(case_##name##_2_, #name "/2p", test_##name##_, 2)                              \
	CHECK_CASE_(case_##name##_4_, #name "/4p", test_##name##_, 4)                              \
	static void test_##name##_(__attribute__((unused)) int procs)

/* one case that runs with each number of Ps: FOR_PROCS(n) { ... } */
#define FOR_PROCS(n) for (int n = 1; n <= 4; n *= 2)

__attribute__((unused, noinline, cold, noreturn, format(printf, 1, 2))) static void
check_failed(const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	if (n > (int)sizeof(text) - 2)
		n = sizeof(text) - 2;
	text[n++] = '\n';
	if (write(2, text, (size_t)n) < 0)
		_exit(3);
	_exit(1);
}

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			check_failed("%s:%d: CHECK(%s) failed", __FILE__, __LINE__, #cond);        \
	} while (0)

#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long check_a_ = (long long)(a), check_b_ = (long long)(b);                    \
		if (check_a_ != check_b_)                                                          \
			check_failed("%s:%d: CHECK_EQ(%s, %s) failed: %lld, %lld", __FILE__,       \
				     __LINE__, #a, #b, check_a_, check_b_);                        \
	} while (0)

#define CHECK_STR(a, b)                                                                            \
	do {                                                                                       \
		const char *check_a_ = (a), *check_b_ = (b);                                       \
		if (!check_a_ || !check_b_ || strcmp(check_a_, check_b_) != 0)                     \
			check_failed("%s:%d: CHECK_STR(%s, %s) failed: \"%s\", \"%s\"", __FILE__,  \
				     __LINE__, #a, #b, check_a_ ? check_a_ : "(null)",             \
				     check_b_ ? check_b_ : "(null)");                              \
	} while (0)

#endif
