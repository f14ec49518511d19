/* SPDX-License-Identifier: MIT */
/* Call target for aarch64: each instruction is one word of 32 bits. */
#include "machine/calltarget.h"

#include "base/os.h"

enum { INSN = 4 };

/* Returns the n low bits of `bits` as a signed number. */
static intptr_t signed_bits(uint32_t bits, int n)
{
	return (intptr_t)((int64_t)((uint64_t)bits << (64 - n)) >> (64 - n));
}

/* b and bl: a signed distance of 26 bits, in instructions. */
static uintptr_t branch_target(uintptr_t at, uint32_t insn)
{
	return at + (uintptr_t)(signed_bits(insn, 26) * INSN);
}

static bool is_bl(uint32_t insn)
{
	return insn >> 26 == 0x25;
}

static bool is_b(uint32_t insn)
{
	return insn >> 26 == 0x05;
}

/* blr, and its forms with pointer authentication: blraa, blrab, blraaz, blrabz. */
static bool is_blr(uint32_t insn)
{
	return (insn & 0xfffffc1f) == 0xd63f0000 || (insn & 0xfefff800) == 0xd63f0800;
}

/*
 * If target is a stub of the procedure linkage table, returns the function that it jumps to;
 * otherwise target.
 *
 *   [bti c]  adrp x16, page   ldr x17, [x16, offset]   add x16, x16, offset   [autia1716]  br x17
 */
static uintptr_t stub_target(uintptr_t target)
{
	uint32_t code[3];
	uintptr_t slot, page;
	size_t i = 0;

	if (!os_peek(target, code, sizeof(code)))
		return target;
	if (code[0] == 0xd503245f) /* bti c */
		i = 1;
	if ((code[i] & 0x9f00001f) != 0x90000010 ||   /* adrp x16 */
	    (code[i + 1] & 0xffc003ff) != 0xf9400211) /* ldr x17, [x16, #] */
		return target;
	page = (target + i * INSN) & ~(uintptr_t)0xfff;
	page += (uintptr_t)(signed_bits((code[i] >> 5 & 0x7ffff) << 2 | (code[i] >> 29 & 3), 21) *
			    0x1000);
	slot = page + (code[i + 1] >> 10 & 0xfff) * 8;
	return os_peek(slot, &slot, sizeof(slot)) ? slot : target;
}

uintptr_t call_target(uintptr_t pc)
{
	uint32_t insn;

	if (pc % INSN || !os_peek(pc - INSN, &insn, sizeof(insn)) || !is_bl(insn))
		return 0;
	return stub_target(branch_target(pc - INSN, insn));
}

/* b.cond, cbz and cbnz: a signed distance of 19 bits. */
static bool is_short_branch(uint32_t insn)
{
	return (insn & 0xff000010) == 0x54000000 || (insn & 0x7e000000) == 0x34000000;
}

bool jumps_to(uintptr_t fn, uintptr_t to)
{
	uint32_t code[JUMP_BYTES / INSN];

	if (!os_peek(fn, code, sizeof(code)))
		return false;
	for (size_t i = 0; i < countof(code); i++) {
		uintptr_t at = fn + i * INSN;

		if (is_b(code[i]) && branch_target(at, code[i]) == to)
			return true;
		if (is_short_branch(code[i]) &&
		    at + (uintptr_t)(signed_bits(code[i] >> 5 & 0x7ffff, 19) * INSN) == to)
			return true;
	}
	return false;
}

bool call_ends_at(uintptr_t pc)
{
	uint32_t insn;

	return pc % INSN == 0 && pc >= INSN && os_peek(pc - INSN, &insn, sizeof(insn)) &&
	       (is_bl(insn) || is_blr(insn));
}
