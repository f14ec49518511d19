/* SPDX-License-Identifier: MIT */
/* Call target for x86-64. */
#include "machine/calltarget.h"

#include <string.h>

#include "base/os.h"

enum { CALL_MOST = 7 }; /* bytes before the return address that are read */

/* Returns the address that the 32-bit displacement at d gives for an instruction that ends at
 * `end`. */
static uintptr_t rel32_target(uintptr_t end, const uint8_t *d)
{
	int32_t by;

	memcpy(&by, d, sizeof(by));
	return end + (uintptr_t)(intptr_t)by;
}

static uintptr_t word_at(uintptr_t at)
{
	uintptr_t word;

	return os_peek(at, &word, sizeof(word)) ? word : 0;
}

/* If target is a stub of the procedure linkage table, [endbr64] [bnd] jmp *slot(%rip), returns the
 * function that it jumps to; otherwise target. */
static uintptr_t stub_target(uintptr_t target)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	uint8_t code[16];
	size_t i = 0;

	if (!target || !os_peek(target, code, sizeof(code)))
		return target;
	if (memcmp(code, endbr64, sizeof(endbr64)) == 0)
		i = sizeof(endbr64);
	if (code[i] == 0xf2) /* bnd */
		i++;
	if (code[i] != 0xff || code[i + 1] != 0x25)
		return target;
	return word_at(rel32_target(target + i + 6, code + i + 2));
}

uintptr_t call_target(uintptr_t pc)
{
	uint8_t at[CALL_MOST];

	if (!os_peek(pc - sizeof(at), at, sizeof(at)))
		return 0;
	if (at[5] == 0xff && (at[6] & 0xf8) == 0xd0) /* call *%reg */
		return 0;
	if (at[1] == 0xff && at[2] == 0x15) /* call *slot(%rip) */
		return word_at(rel32_target(pc, at + 3));
	if (at[2] == 0xe8) /* call target */
		return stub_target(rel32_target(pc, at + 3));
	return 0;
}

bool jumps_to(uintptr_t fn, uintptr_t to)
{
	uint8_t code[JUMP_BYTES];

	if (!os_peek(fn, code, sizeof(code)))
		return false;
	for (size_t i = 1; i + 5 <= sizeof(code); i++) {
		bool jump = code[i] == 0xe9 || (code[i - 1] == 0x0f && (code[i] & 0xf0) == 0x80);

		if (jump && rel32_target(fn + i + 5, &code[i + 1]) == to)
			return true;
	}
	return false;
}

/* ModRM of ff /2, the indirect call; the instruction has n bytes from there to its end. */
static bool is_indirect_call(const uint8_t *modrm, int n)
{
	int mod = *modrm >> 6, rm = *modrm & 7, sib = mod != 3 && rm == 4;

	if ((*modrm & 0x38) != 0x10)
		return false;
	if (mod == 3)
		return n == 1;
	if (mod == 0)
		return n == 1 + sib + (rm == 5 ? 4 : 0);
	return n == 1 + sib + (mod == 1 ? 1 : 4);
}

bool call_ends_at(uintptr_t pc)
{
	uint8_t at[CALL_MOST];

	if (pc < sizeof(at) || !os_peek(pc - sizeof(at), at, sizeof(at)))
		return false;
	if (at[2] == 0xe8)
		return true;
	for (int i = 0; i < CALL_MOST - 1; i++)
		if (at[i] == 0xff && is_indirect_call(&at[i + 1], CALL_MOST - 1 - i))
			return true;
	return false;
}
