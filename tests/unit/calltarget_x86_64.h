/* SPDX-License-Identifier: MIT */
/* The part of unit/calltarget.c for x86-64. */
#ifndef TESTS_UNIT_CALLTARGET_X86_64_H
#define TESTS_UNIT_CALLTARGET_X86_64_H

#include <stdint.h>
#include <string.h>

enum { STUBS = 3, STEP = 1, SLOT_CALLS = 1, FILL = 0x90 };

/* Write an instruction that ends with a displacement to `to`; returns its end. */
static inline uint8_t *put(uint8_t *at, const char *bytes, size_t n, const uint8_t *to)
{
	int32_t by = (int32_t)(to - (at + n + 4));

	memcpy(at, bytes, n);
	memcpy(at + n, &by, 4);
	return at + n + 4;
}

static inline uint8_t *put_call(uint8_t *at, const uint8_t *to)
{
	return put(at, "\xe8", 1, to);
}

static inline uint8_t *put_slot_call(uint8_t *at, const uint8_t *slot)
{
	return put(at, "\xff\x15", 2, slot);
}

static inline void put_stub(uint8_t *at, int which, const uint8_t *slot)
{
	static const char *const bytes[STUBS] = { "\xff\x25", "\xf3\x0f\x1e\xfa\xff\x25",
						  "\xf3\x0f\x1e\xfa\xf2\xff\x25" };

	put(at, bytes[which], strlen(bytes[which]), slot);
}

/* call *%rax, behind bytes that look like a call. */
static inline uint8_t *put_register_call(uint8_t *at)
{
	put(at, "\xe8", 1, at + 600);
	memcpy(at + 3, "\xff\xd0", 2);
	return at + 5;
}

static inline void put_jump(uint8_t *at, const uint8_t *to)
{
	put(at, "\xe9", 1, to);
}

static inline void put_branch(uint8_t *at, const uint8_t *to)
{
	put(at, "\x0f\x84", 2, to);
}

static const struct form {
	const char *bytes;
	size_t n;
	bool call;
} forms[] = {
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

#endif
