/* SPDX-License-Identifier: MIT */
/*
 * Tests that call_target finds the callee of a call instruction, and returns 0 for unreadable code.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "machine/calltarget.h"

#include <string.h>
#include <sys/mman.h>

enum { SIZE = 4096, STUB = 1024, SLOT = 2048, FUNCTION = 0x1234 };

static uint8_t *code;

/* Map two pages; the second is unreadable. */
static void begin(void)
{
	code = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(code != MAP_FAILED);
	CHECK_EQ(mprotect(code + SIZE, SIZE, PROT_NONE), 0);
}

/* Write an instruction that ends with a displacement to `to`; returns its end. */
static uintptr_t put(size_t at, const char *bytes, size_t n, size_t to)
{
	int32_t by = (int32_t)((int64_t)to - (int64_t)(at + n + 4));

	memcpy(code + at, bytes, n);
	memcpy(code + at + n, &by, 4);
	return (uintptr_t)code + at + n + 4;
}

static uintptr_t at(size_t offset)
{
	return (uintptr_t)code + offset;
}

TEST(calltarget_direct_call_is_found)
{
	begin();
	CHECK_EQ(call_target(put(100, "\xe8", 1, 700)), at(700));
	CHECK_EQ(call_target(put(900, "\xe8", 1, 300)), at(300));
}

TEST(calltarget_call_through_got_is_found)
{
	uintptr_t function = FUNCTION;

	begin();
	memcpy(code + SLOT, &function, sizeof(function));
	CHECK_EQ(call_target(put(100, "\xff\x15", 2, SLOT)), FUNCTION);
}

TEST(calltarget_call_through_plt_stub_is_found)
{
	uintptr_t function = FUNCTION;

	begin();
	memcpy(code + SLOT, &function, sizeof(function));
	put(STUB, "\xff\x25", 2, SLOT);
	CHECK_EQ(call_target(put(100, "\xe8", 1, STUB)), FUNCTION);
	put(STUB, "\xf3\x0f\x1e\xfa\xff\x25", 6, SLOT);
	CHECK_EQ(call_target(put(100, "\xe8", 1, STUB)), FUNCTION);
	put(STUB, "\xf3\x0f\x1e\xfa\xf2\xff\x25", 7, SLOT);
	CHECK_EQ(call_target(put(100, "\xe8", 1, STUB)), FUNCTION);
}

TEST(calltarget_call_through_register_is_unknown)
{
	begin();
	put(95, "\xe8", 1, 700); /* the bytes before it are no call */
	memcpy(code + 98, "\xff\xd0", 2);
	CHECK_EQ(call_target(at(100)), 0);
}

TEST(calltarget_unreadable_code_is_unknown)
{
	begin();
	CHECK_EQ(call_target(at(SIZE + 100)), 0);
	CHECK_EQ(call_target(4096), 0);
	/* a target that cannot be read is no stub */
	CHECK_EQ(call_target(put(100, "\xe8", 1, SIZE + 8)), at(SIZE + 8));
	CHECK_EQ(call_target(put(100, "\xff\x15", 2, SIZE + 8)), 0);
}

static uintptr_t came_from;

static noinline void callee(void)
{
	came_from = (uintptr_t)__builtin_return_address(0);
}

TEST(calltarget_compiled_call_is_found)
{
	callee();
	CHECK_EQ(call_target(came_from), (uintptr_t)callee);
}
