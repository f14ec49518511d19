/* SPDX-License-Identifier: MIT */
/*
 * Tests that a fatal error prints one whole line and a backtrace and raises SIGABRT, also if
 * several threads fail at once.
 *
 * wrap: write
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/throw.h"

#include <errno.h>
#include <pthread.h>

#include "base/errtext.h"
#include "base/os.h"
#include "child.h"

ssize_t __real_write(int fd, const void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n);

static bool disturbed; /* alternately interrupt a write, and write one byte */

ssize_t __wrap_write(int fd, const void *buf, size_t n)
{
	static unsigned calls;

	if (disturbed && calls++ % 2 == 0) {
		errno = EINTR;
		return -1;
	}
	return __real_write(fd, buf, disturbed && n > 1 ? 1 : n);
}

static void check_aborted(int status)
{
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGABRT);
}

static noinline void fail_here(void)
{
	gmp__fatal("%d %s", 42, "reasons");
}

TEST(fatal_prints_message_then_backtrace)
{
	char text[8192];

	check_aborted(child_says(fail_here, text, sizeof(text)));
	CHECK(strncmp(text, "gmp: fatal: 42 reasons\n    #0 0x", 32) == 0);
	CHECK(strstr(text, " fail_here+0x") != NULL);
	CHECK(strstr(text, " fail_here+0x") < strstr(text, "    #1 0x"));
}

static void die_disturbed(void)
{
	disturbed = true;
	fail_here();
}

TEST(fatal_with_short_or_interrupted_writes_loses_nothing)
{
	char text[8192];

	check_aborted(child_says(die_disturbed, text, sizeof(text)));
	CHECK(strncmp(text, "gmp: fatal: 42 reasons\n    #0 0x", 32) == 0);
	CHECK(strstr(text, " fail_here+0x") < strstr(text, "    #1 0x"));
}

static noinline void assert_something(void)
{
	gmp_assert(1 + 1 == 3);
}

TEST(assert_failed_prints_expression_and_position)
{
	char text[8192];

	check_aborted(child_says(assert_something, text, sizeof(text)));
	CHECK(strstr(text, "throw.c:") != NULL);
	CHECK(strstr(text, ": assertion failed: 1 + 1 == 3\n") != NULL);
}

static size_t describe_short(char *buf, size_t n)
{
	return (size_t)snprintf(buf, n, " in green thread 17 \"worker\" (entry f)");
}

static void die_described(void)
{
	gmp__fatal_describe(describe_short);
	gmp__fatal("oh");
}

TEST(fatal_describe_hook_adds_green_thread)
{
	char text[8192];

	check_aborted(child_says(die_described, text, sizeof(text)));
	CHECK(strncmp(text, "gmp: fatal: oh in green thread 17 \"worker\" (entry f)\n", 53) == 0);
}

static size_t describe_too_much(char *buf, size_t n)
{
	memset(buf, 'y', n);
	return n + 100;
}

static void die_at_length(void)
{
	char x[2000];

	memset(x, 'x', sizeof(x) - 1);
	x[sizeof(x) - 1] = '\0';
	gmp__fatal_describe(describe_too_much);
	gmp__fatal("%s", x);
}

static void die_described_at_length(void)
{
	gmp__fatal_describe(describe_too_much);
	gmp__fatal("x");
}

TEST(fatal_too_long_message_is_truncated_with_newline)
{
	char text[8192];

	check_aborted(child_says(die_at_length, text, sizeof(text)));
	CHECK(strstr(text, "xxx\n    #0 0x") != NULL);
	check_aborted(child_says(die_described_at_length, text, sizeof(text)));
	CHECK(strstr(text, "yyy\n    #0 0x") != NULL);
}

static size_t describe_and_die(char *buf, size_t n)
{
	(void)buf;
	(void)n;
	gmp__fatal("inner");
}

static void die_while_dying(void)
{
	gmp__fatal_describe(describe_and_die);
	gmp__fatal("outer");
}

TEST(fatal_inside_fatal_aborts_at_once)
{
	char text[8192];

	check_aborted(child_says(die_while_dying, text, sizeof(text)));
	CHECK_STR(text, "");
}

static void *die_in_thread(void *arg)
{
	gmp__fatal("thread %d", *(int *)arg);
}

static void die_together(void)
{
	static int number[8];
	pthread_t t;

	for (int i = 0; i < 8; i++) {
		number[i] = i;
		if (os_thread_start(&t, die_in_thread, &number[i], 65536, NULL) != 0)
			_exit(9);
	}
	os_nap(NEVER);
}

TEST(fatal_on_several_threads_prints_one_message)
{
	char text[8192], *first;

	for (int i = 0; i < 20; i++) {
		check_aborted(child_says(die_together, text, sizeof(text)));
		first = strstr(text, "gmp: fatal: ");
		CHECK(first == text);
		CHECK(strstr(first + 1, "gmp: fatal: ") == NULL);
	}
}

static noinline void show_trace(void)
{
	gmp__dying("dying");
	__asm__ volatile("");
}

TEST(backtrace_starts_at_caller)
{
	char text[8192];

	CHECK_EQ(child_says(show_trace, text, sizeof(text)), 0);
	CHECK(strncmp(text, "gmp: fatal: dying\n    #0 0x", 27) == 0);
	CHECK(strstr(text, " show_trace+0x") != NULL);
	CHECK(strstr(text, " show_trace+0x") < strstr(text, "    #1 0x"));
}

static void recurse(int n);
static void (*volatile recurse_again)(int n) = recurse; /* prevents a loop */

static void recurse(int n)
{
	if (n > 0)
		recurse_again(n - 1);
	else
		gmp__dying("dying");
	__asm__ volatile("");
}

static void show_deep_trace(void)
{
	recurse(200);
}

TEST(backtrace_deep_is_limited)
{
	char text[16384];

	CHECK_EQ(child_says(show_deep_trace, text, sizeof(text)), 0);
	CHECK(strstr(text, "    #50 0x") != NULL);
	CHECK(strstr(text, "    #64 0x") == NULL);
}

TEST(errtext_has_a_text_of_each_common_error)
{
	static const int common[] = {
		EOVERFLOW,    ELOOP,        EISDIR,       EDQUOT,        EFBIG,
		ENAMETOOLONG, EXDEV,        ENOTTY,       ESPIPE,        EMLINK,
		ENOTSOCK,     EADDRINUSE,   ENETDOWN,     EADDRNOTAVAIL, EALREADY,
		ENETUNREACH,  ECONNREFUSED, EHOSTUNREACH, EINPROGRESS,
	};

	for (size_t i = 0; i < countof(common); i++)
		CHECK(strcmp(errtext(common[i]), "another error") != 0);
	CHECK_STR(errtext(100000), "another error");
	CHECK_STR(errtext(-1), "another error");
}
