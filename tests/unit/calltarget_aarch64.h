/* SPDX-License-Identifier: MIT */
/* The part of unit/calltarget.c for aarch64. */
#ifndef TESTS_UNIT_CALLTARGET_AARCH64_H
#define TESTS_UNIT_CALLTARGET_AARCH64_H

#include <stdint.h>
#include <string.h>

enum { STUBS = 2, STEP = 4, SLOT_CALLS = 0, FILL = 0 };

static inline uint8_t *put_insn(uint8_t *at, uint32_t insn)
{
	memcpy(at, &insn, 4);
	return at + 4;
}

static inline uint32_t distance(const uint8_t *at, const uint8_t *to, int n)
{
	return (uint32_t)((to - at) / 4) & ((UINT32_C(1) << n) - 1);
}

/* bl */
static inline uint8_t *put_call(uint8_t *at, const uint8_t *to)
{
	return put_insn(at, 0x94000000 | distance(at, to, 26));
}

/* adrp x16; ldr x17, [x16, #] */
static inline uint8_t *put_load(uint8_t *at, const uint8_t *slot)
{
	uint32_t pages =
		(uint32_t)((int64_t)((uintptr_t)slot >> 12) - (int64_t)((uintptr_t)at >> 12));

	at = put_insn(at, 0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7ffff) << 5);
	return put_insn(at, 0xf9400211 | (uint32_t)((uintptr_t)slot & 0xfff) / 8 << 10);
}

/* blr x17 behind the load */
static inline uint8_t *put_slot_call(uint8_t *at, const uint8_t *slot)
{
	return put_insn(put_load(at, slot), 0xd63f0220);
}

/* [bti c]; load; br x17 */
static inline void put_stub(uint8_t *at, int which, const uint8_t *slot)
{
	if (which == 1)
		at = put_insn(at, 0xd503245f);
	put_insn(put_load(at, slot), 0xd61f0220);
}

/* blr x0 */
static inline uint8_t *put_register_call(uint8_t *at)
{
	return put_insn(at, 0xd63f0000);
}

/* b */
static inline void put_jump(uint8_t *at, const uint8_t *to)
{
	put_insn(at, 0x14000000 | distance(at, to, 26));
}

/* cbz x0 */
static inline void put_branch(uint8_t *at, const uint8_t *to)
{
	put_insn(at, 0xb4000000 | distance(at, to, 19) << 5);
}

static const struct form {
	const char *bytes;
	size_t n;
	bool call;
} forms[] = {
	{ "\x05\x00\x00\x94", 4, true },  /* bl 20 */
	{ "\x00\x00\x3f\xd6", 4, true },  /* blr x0 */
	{ "\x1f\x08\x3f\xd6", 4, true },  /* blraaz x0 */
	{ "\x05\x00\x00\x14", 4, false }, /* b 20 */
	{ "\x00\x00\x1f\xd6", 4, false }, /* br x0 */
	{ "\xc0\x03\x5f\xd6", 4, false }, /* ret */
};

#endif
