/* SPDX-License-Identifier: MIT */
/* Tests that srcline_find returns the file and line of a code address, if libdw is available. */
#define _GNU_SOURCE 1
#include "check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/srcline.h"
#include "base/trace.h"

static noinline uintptr_t here(void)
{
	return trace_caller() - 1;
}

/* A call of its own function: clang gives line 0 to calls that it moves. */
static noinline uintptr_t probe(int *line)
{
	*line = __LINE__ + 1;
	uintptr_t pc = here();

	__asm__ volatile("" : "+r"(pc));
	return pc;
}

static void need_library(void)
{
	void *handle = dlopen("libdw.so.1", RTLD_NOW);

#ifndef GMP_HAVE_LIBDW
	check_skip("built without libdw's header");
#endif
	if (!handle)
		check_skip("libdw is not installed");
	dlclose(handle);
}

TEST(srcline_of_code_address_is_file_and_line)
{
	char text[128], want[32];

	need_library();
	srcline_begin();
	for (int i = 0; i < 2; i++) { /* the second run reads the file again */
		int line;
		uintptr_t pc = probe(&line);

		snprintf(want, sizeof(want), "srcline.c:%d", line);
		CHECK(srcline_find(pc, text, sizeof(text)));
		CHECK_STR(text, want);
		srcline_end();
	}
}

TEST(srcline_of_other_address_is_not_found)
{
	char text[128];

	srcline_begin();
	CHECK(!srcline_find(8, text, sizeof(text)));
	CHECK(!srcline_find((uintptr_t)text, text, sizeof(text)));
	srcline_end();
}
