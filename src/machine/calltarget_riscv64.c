/* SPDX-License-Identifier: MIT */
/*
 * Call target for riscv64, with the compressed instructions (C).
 *
 * A function is called in four forms:
 *
 *   jal   ra, target                              within 1 MiB
 *   auipc x, hi;                 jalr ra, lo(x)   within 2 GiB, also to a stub
 *   auipc x, hi;  ld x, lo(x);   jalr ra, x       through a slot (-fno-plt)
 *   jalr  ra, lo(x)                               through a pointer
 *
 * jalr ra, 0(x) has a compressed form of two bytes, c.jalr.
 */
#include "machine/calltarget.h"

#include <string.h>

#include "base/os.h"

enum { OP_LOAD = 0x03, OP_AUIPC = 0x17, OP_BRANCH = 0x63, OP_JALR = 0x67, OP_JAL = 0x6f };
enum { ZERO = 0, RA = 1 };         /* registers */
enum { PAIR = 8, CALL_MOST = 12 }; /* bytes: of auipc and ld; before the return address */

/* --- fields of an instruction --- */

static uint32_t half_at(const uint8_t *code)
{
	uint16_t half;

	memcpy(&half, code, sizeof(half));
	return half;
}

static uint32_t insn_at(const uint8_t *code)
{
	uint32_t insn;

	memcpy(&insn, code, sizeof(insn));
	return insn;
}

static uint32_t bits(uint32_t insn, int high, int low)
{
	return (insn >> low) & ((UINT32_C(2) << (high - low)) - 1);
}

static uint32_t op_of(uint32_t insn)
{
	return bits(insn, 6, 0);
}

static uint32_t rd_of(uint32_t insn)
{
	return bits(insn, 11, 7);
}

static uint32_t rs1_of(uint32_t insn)
{
	return bits(insn, 19, 15);
}

/* Extends the sign of a number of n bits. */
static uintptr_t extend(uint32_t number, int n)
{
	return (uintptr_t)(intptr_t)((int32_t)(number << (32 - n)) >> (32 - n));
}

static uintptr_t imm_i(uint32_t insn)
{
	return extend(bits(insn, 31, 20), 12);
}

static uintptr_t imm_u(uint32_t insn)
{
	return extend(insn & 0xfffff000, 32);
}

static uintptr_t imm_j(uint32_t insn)
{
	return extend(bits(insn, 31, 31) << 20 | bits(insn, 19, 12) << 12 |
			      bits(insn, 20, 20) << 11 | bits(insn, 30, 21) << 1,
		      21);
}

static uintptr_t imm_b(uint32_t insn)
{
	return extend(bits(insn, 31, 31) << 12 | bits(insn, 7, 7) << 11 | bits(insn, 30, 25) << 5 |
			      bits(insn, 11, 8) << 1,
		      13);
}

static uintptr_t imm_cj(uint32_t half)
{
	return extend(bits(half, 12, 12) << 11 | bits(half, 8, 8) << 10 | bits(half, 10, 9) << 8 |
			      bits(half, 6, 6) << 7 | bits(half, 7, 7) << 6 |
			      bits(half, 2, 2) << 5 | bits(half, 11, 11) << 4 |
			      bits(half, 5, 3) << 1,
		      12);
}

static uintptr_t imm_cb(uint32_t half)
{
	return extend(bits(half, 12, 12) << 8 | bits(half, 6, 5) << 6 | bits(half, 2, 2) << 5 |
			      bits(half, 11, 10) << 3 | bits(half, 4, 3) << 1,
		      9);
}

static bool is_jalr(uint32_t insn)
{
	return op_of(insn) == OP_JALR && bits(insn, 14, 12) == 0;
}

static bool is_ld(uint32_t insn)
{
	return op_of(insn) == OP_LOAD && bits(insn, 14, 12) == 3;
}

/* --- calls --- */

static uintptr_t load_word(uintptr_t at)
{
	uintptr_t word;

	return os_peek(at, &word, sizeof(word)) ? word : 0;
}

/* auipc x, hi; ld y, lo(x) at `at`: returns the address that it loads y from, or 0. */
static uintptr_t slot_of(uintptr_t at, const uint8_t *code, uint32_t y)
{
	uint32_t hi = insn_at(code), lo = insn_at(code + 4);

	if (op_of(hi) != OP_AUIPC || !is_ld(lo) || rs1_of(lo) != rd_of(hi) || rd_of(lo) != y)
		return 0;
	return at + imm_u(hi) + imm_i(lo);
}

/* If target is a stub of the procedure linkage table, auipc x; ld x; jalr x, returns the function
 * that it jumps to; otherwise target. */
static uintptr_t behind_stub(uintptr_t target)
{
	uint8_t code[PAIR + 4];

	if (!target || !os_peek(target, code, sizeof(code)))
		return target;
	uint32_t jump = insn_at(code + PAIR);
	uintptr_t slot = is_jalr(jump) ? slot_of(target, code, rs1_of(jump)) : 0;

	return slot ? load_word(slot) : target;
}

/* The call before a return address. */
struct call {
	int size;      /* 2 or 4 bytes; 0: no call */
	uint32_t insn; /* jal or jalr; c.jalr is expanded */
};

/* end: just behind the call; the four bytes before it are read. */
static struct call call_before(const uint8_t *end)
{
	uint32_t insn = insn_at(end - 4), half = half_at(end - 2);

	if ((op_of(insn) == OP_JAL || is_jalr(insn)) && rd_of(insn) == RA)
		return (struct call){ 4, insn };
	if ((half & 0xf07f) == 0x9002 && rd_of(half) != ZERO) /* c.jalr */
		return (struct call){ 2, rd_of(half) << 15 | RA << 7 | OP_JALR };
	return (struct call){ 0, 0 };
}

uintptr_t call_target(uintptr_t pc)
{
	uint8_t at[CALL_MOST];

	if (pc < sizeof(at) || !os_peek(pc - sizeof(at), at, sizeof(at)))
		return 0;
	struct call call = call_before(at + CALL_MOST);
	const uint8_t *code = at + CALL_MOST - call.size;
	uintptr_t begin = pc - (uintptr_t)call.size;
	uint32_t x = rs1_of(call.insn);

	if (call.size == 0)
		return 0;
	if (op_of(call.insn) == OP_JAL)
		return behind_stub(begin + imm_j(call.insn));
	uint32_t hi = insn_at(code - 4);
	uintptr_t slot = imm_i(call.insn) == 0 ? slot_of(begin - PAIR, code - PAIR, x) : 0;

	if (slot)
		return load_word(slot);
	if (op_of(hi) == OP_AUIPC && rd_of(hi) == x)
		return behind_stub(begin - 4 + imm_u(hi) + imm_i(call.insn));
	return 0;
}

bool call_ends_at(uintptr_t pc)
{
	uint8_t at[4];

	return pc >= sizeof(at) && os_peek(pc - sizeof(at), at, sizeof(at)) &&
	       call_before(at + sizeof(at)).size != 0;
}

/* --- jumps --- */

/* Returns the target of a jump or branch of two bytes, or 0. */
static uintptr_t short_jump(uintptr_t at, uint32_t half)
{
	switch (half & 0xe003) {
	case 0xa001: return at + imm_cj(half); /* c.j */
	case 0xc001:                           /* c.beqz */
	case 0xe001: return at + imm_cb(half); /* c.bnez */
	default: return 0;
	}
}

/* Returns the target of a jump or branch of four or eight bytes, or 0. */
static uintptr_t long_jump(uintptr_t at, uint32_t insn, uint32_t next)
{
	if (op_of(insn) == OP_JAL && rd_of(insn) == ZERO)
		return at + imm_j(insn);
	if (op_of(insn) == OP_BRANCH)
		return at + imm_b(insn);
	if (op_of(insn) == OP_AUIPC && is_jalr(next) && rd_of(next) == ZERO &&
	    rs1_of(next) == rd_of(insn))
		return at + imm_u(insn) + imm_i(next);
	return 0;
}

bool jumps_to(uintptr_t fn, uintptr_t to)
{
	uint8_t code[JUMP_BYTES];

	if (!os_peek(fn, code, sizeof(code)))
		return false;
	for (size_t i = 0; i + 8 <= sizeof(code); i += 2) {
		if (short_jump(fn + i, half_at(code + i)) == to ||
		    long_jump(fn + i, insn_at(code + i), insn_at(code + i + 4)) == to)
			return true;
	}
	return false;
}
