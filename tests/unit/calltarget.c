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

TEST(calltarget_jump_in_function_is_found)
{
	begin();
	memset(code, 0x90, SIZE);
	put(220, "\xe9", 1, 900);
	put(240, "\x0f\x84", 2, 1000);
	CHECK(jumps_to(at(200), at(900)));
	CHECK(jumps_to(at(200), at(1000)));
	CHECK(!jumps_to(at(200), at(901)));
	CHECK(!jumps_to(at(300), at(900)));
	CHECK(!jumps_to(at(SIZE + 100), at(900)));
}

TEST(calltarget_call_of_any_form_is_recognized)
{
	static const struct {
		const char *bytes;
		size_t n;
		bool call;
	} of[] = {
		{ "\xe8\1\2\3\4", 5, true },         /* call f */
		{ "\xff\xd0", 2, true },             /* call *%rax */
		{ "\x41\xff\xd4", 3, true },         /* call *%r12 */
		{ "\xff\x10", 2, true },             /* call *(%rax) */
		{ "\xff\x14\xc3", 3, true },         /* call *(%rbx,%rax,8) */
		{ "\xff\x53\x10", 3, true },         /* call *16(%rbx) */
		{ "\xff\x54\xc3\x10", 4, true },     /* call *16(%rbx,%rax,8) */
		{ "\xff\x15\1\2\3\4", 6, true },     /* call *slot(%rip) */
		{ "\xff\x93\1\2\3\4", 6, true },     /* call *d(%rbx) */
		{ "\xff\x94\xc3\1\2\3\4", 7, true }, /* call *d(%rbx,%rax,8) */
		{ "\xff\xe0", 2, false },            /* jmp *%rax */
		{ "\xe9\1\2\3\4", 5, false },        /* jmp f */
		{ "\xff\x53", 2, false },            /* cut off */
	};

	begin();
	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		memset(code, 0x90, SIZE);
		memcpy(code + 100 - of[i].n, of[i].bytes, of[i].n);
		CHECK_EQ(call_ends_at(at(100)), of[i].call);
	}
	CHECK(!call_ends_at(at(SIZE + 100)));
	CHECK(!call_ends_at(3));
}

TEST(calltarget_compiled_call_is_found)
{
	callee();
	CHECK_EQ(call_target(came_from), (uintptr_t)callee);
}
