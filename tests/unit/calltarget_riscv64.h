/* SPDX-License-Identifier: MIT */
/* The part of unit/calltarget.c for riscv64. */
#ifndef TESTS_UNIT_CALLTARGET_RISCV64_H
#define TESTS_UNIT_CALLTARGET_RISCV64_H

#include <stdint.h>
#include <string.h>

enum { STUBS = 1, STEP = 2, SLOT_CALLS = 1, FILL = 0x13 }; /* 0x1313: c.addi */

static inline uint8_t *put_insn(uint8_t *at, uint32_t insn)
{
	memcpy(at, &insn, 4);
	return at + 4;
}

/* auipc t1, hi; then the instruction with lo as its immediate */
static inline uint8_t *put_pair(uint8_t *at, uint32_t insn, const uint8_t *to)
{
	int32_t by = (int32_t)(to - at);

	put_insn(at, 0x00000317 | ((uint32_t)(by + 0x800) & 0xfffff000));
	return put_insn(at + 4, insn | (uint32_t)by << 20);
}

static inline uint32_t jal_bits(int32_t by)
{
	uint32_t b = (uint32_t)by;

	return (b >> 20 & 1) << 31 | (b >> 1 & 0x3ff) << 21 | (b >> 11 & 1) << 20 |
	       (b >> 12 & 0xff) << 12;
}

/* jal ra if the target is at an address that 4 divides; otherwise auipc t1; jalr ra, t1 */
static inline uint8_t *put_call(uint8_t *at, const uint8_t *to)
{
	if ((uintptr_t)to % 4 == 0)
		return put_insn(at, 0x000000ef | jal_bits((int32_t)(to - at)));
	return put_pair(at, 0x000300e7, to);
}

/* auipc t1; ld t1; c.jalr t1 */
static inline uint8_t *put_slot_call(uint8_t *at, const uint8_t *slot)
{
	at = put_pair(at, 0x00033303, slot);
	memcpy(at, "\x02\x93", 2);
	return at + 2;
}

/* auipc t1; ld t3, (t1); jalr t1, t3 */
static inline void put_stub(uint8_t *at, int which, const uint8_t *slot)
{
	(void)which;
	put_insn(put_pair(at, 0x00033e03, slot), 0x000e0367);
}

/* jalr ra, t1 behind an auipc of another register */
static inline uint8_t *put_register_call(uint8_t *at)
{
	return put_insn(put_insn(at, 0x00000397), 0x000300e7);
}

static inline void put_jump(uint8_t *at, const uint8_t *to)
{
	put_insn(at, 0x0000006f | jal_bits((int32_t)(to - at)));
}

/* beqz a0 */
static inline void put_branch(uint8_t *at, const uint8_t *to)
{
	uint32_t by = (uint32_t)(to - at);

	put_insn(at, 0x00050063 | (by >> 12 & 1) << 31 | (by >> 5 & 0x3f) << 25 |
			     (by >> 1 & 0xf) << 8 | (by >> 11 & 1) << 7);
}

static const struct form {
	const char *bytes;
	size_t n;
	bool call;
} forms[] = {
	{ "\xef\x00\x40\x01", 4, true },  /* jal ra, 20 */
	{ "\xe7\x00\x05\x00", 4, true },  /* jalr ra, a0 */
	{ "\xe7\x80\x45\x01", 4, true },  /* jalr ra, 20(a1) */
	{ "\x02\x95", 2, true },          /* c.jalr a0 */
	{ "\x02\x90", 2, false },         /* c.ebreak */
	{ "\x02\x85", 2, false },         /* c.jr a0 */
	{ "\x67\x00\x05\x00", 4, false }, /* jr a0 */
	{ "\x6f\x00\x40\x01", 4, false }, /* j 20 */
	{ "\x40\x01", 2, false },         /* cut off */
};

#endif
