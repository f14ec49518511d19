/* SPDX-License-Identifier: MIT */
/*
 * Tests that call_target finds the callee of a call instruction, and returns 0 for unreadable code.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "machine/calltarget.h"

#include <string.h>
#include <sys/mman.h>

/*
 * The machine's part, in calltarget_<arch>.h:
 *
 *   put_call, put_slot_call, put_register_call  write a call of `to`, one through a slot, and one
 *                                               through a register, and return the end
 *   put_stub                                    writes one of STUBS forms of a stub
 *   put_jump, put_branch                        write a jump and a conditional jump
 *   forms[]                                     instructions: is it a call?
 *   STEP                                        bytes from an instruction to the next, at least
 *   SLOT_CALLS                                  the function of a call through a slot is found
 *   FILL                                        a byte of which no call consists
 */
#if defined(__x86_64__)
#include "calltarget_x86_64.h"
#elif defined(__aarch64__)
#include "calltarget_aarch64.h"
#elif defined(__riscv)
#include "calltarget_riscv64.h"
#endif

enum { SIZE = 4096, STUB = 1024, SLOT = 2048, FUNCTION = 0x1234 };

static uint8_t *code;

/* Map two pages; the second is unreadable. */
static void begin(void)
{
	code = mmap(NULL, 2 * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(code != MAP_FAILED);
	CHECK_EQ(mprotect(code + SIZE, SIZE, PROT_NONE), 0);
}

static uintptr_t at(size_t offset)
{
	return (uintptr_t)code + offset;
}

static uintptr_t call_of(size_t offset, size_t to)
{
	return call_target((uintptr_t)put_call(code + offset, code + to));
}

static uintptr_t slot_call(size_t offset, size_t slot)
{
	return call_target((uintptr_t)put_slot_call(code + offset, code + slot));
}

TEST(calltarget_direct_call_is_found)
{
	begin();
	CHECK_EQ(call_of(100, 700), at(700));
	CHECK_EQ(call_of(900, 300), at(300));
	CHECK_EQ(call_of(100, 700 + STEP), at(700 + STEP));
	CHECK_EQ(call_of(900, 300 + STEP), at(300 + STEP));
}

TEST(calltarget_call_through_got_is_found)
{
	uintptr_t function = FUNCTION;

	begin();
	memcpy(code + SLOT, &function, sizeof(function));
	CHECK_EQ(slot_call(100, SLOT), SLOT_CALLS ? FUNCTION : 0);
	CHECK_EQ(slot_call(SLOT + 100, SLOT), SLOT_CALLS ? FUNCTION : 0);
}

TEST(calltarget_call_through_plt_stub_is_found)
{
	uintptr_t function = FUNCTION;

	begin();
	memcpy(code + SLOT, &function, sizeof(function));
	for (int i = 0; i < STUBS; i++) {
		put_stub(code + STUB, i, code + SLOT);
		CHECK_EQ(call_of(100, STUB), FUNCTION);
	}
}

TEST(calltarget_call_through_register_is_unknown)
{
	begin();
	CHECK_EQ(call_target((uintptr_t)put_register_call(code + 96)), 0);
}

TEST(calltarget_unreadable_code_is_unknown)
{
	begin();
	CHECK_EQ(call_target(at(SIZE + 100)), 0);
	CHECK_EQ(call_target(4096), 0);
	/* a target that cannot be read is no stub */
	CHECK_EQ(call_of(100, SIZE + 8), at(SIZE + 8));
	CHECK_EQ(slot_call(100, SIZE + 8), 0);
}

static uintptr_t came_from;

static noinline void callee(void)
{
	came_from = (uintptr_t)__builtin_return_address(0);
}

TEST(calltarget_jump_in_function_is_found)
{
	begin();
	memset(code, FILL, SIZE);
	put_jump(code + 220, code + 900);
	put_branch(code + 240, code + 1000);
	CHECK(jumps_to(at(200), at(900)));
	CHECK(jumps_to(at(200), at(1000)));
	CHECK(!jumps_to(at(200), at(900 + STEP)));
	CHECK(!jumps_to(at(300), at(900)));
	CHECK(!jumps_to(at(SIZE + 100), at(900)));
}

TEST(calltarget_call_of_any_form_is_recognized)
{
	begin();
	for (size_t i = 0; i < countof(forms); i++) {
		memset(code, FILL, SIZE);
		memcpy(code + 100 - forms[i].n, forms[i].bytes, forms[i].n);
		CHECK_EQ(call_ends_at(at(100)), forms[i].call);
	}
	CHECK(!call_ends_at(at(SIZE + 100)));
	CHECK(!call_ends_at(3));
}

TEST(calltarget_compiled_call_is_found)
{
	callee();
	CHECK_EQ(call_target(came_from), (uintptr_t)callee);
}
