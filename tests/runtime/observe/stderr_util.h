/* SPDX-License-Identifier: MIT */
/* Helpers that read what the process under test writes to stderr. */
#ifndef TESTS_RUNTIME_STDERR_UTIL_H
#define TESTS_RUNTIME_STDERR_UTIL_H

#include "dump_util.h"

static int saved_stderr = -1, file = -1;

/* Redirect stderr to a file. */
static void catch_stderr(void)
{
	saved_stderr = dup(2);
	file = memfd_create("stderr", MFD_CLOEXEC);
	CHECK(saved_stderr >= 0 && file >= 0);
	CHECK_EQ(dup2(file, 2), 2);
}

static void restore_stderr(void)
{
	CHECK_EQ(dup2(saved_stderr, 2), 2);
	close(saved_stderr);
}

static const char *caught(void)
{
	static char text[65536];
	ssize_t n = pread(file, text, sizeof(text) - 1, 0);

	CHECK(n >= 0);
	text[n] = '\0';
	return text;
}

#endif
