/* SPDX-License-Identifier: MIT */
/* The part of unit/context.c for aarch64. */
#ifndef TESTS_UNIT_CONTEXT_AARCH64_H
#define TESTS_UNIT_CONTEXT_AARCH64_H

#include "context.h"

/* x19 to x29, d8 to d15 */
enum { SAVED = 19, ENTRY_SP = 0, RELOAD_SETS_FLAGS = 0 };

/* fpcr in the low half; fpsr, which has the sticky flags, in the high half. */
#define WORDS_PLAIN UINT64_C(0)
#define WORDS_STICKY (UINT64_C(0x9f) << 32)
#define WORDS_DIVIDED (UINT64_C(0x10) << 32)

/* rounding (bits 22 and 23), flush to zero, default NaN */
static const uint64_t words_other[] = { 0x3c00000, 0x400000, 0x800000, 0x1000000, 0x2000000 };

static inline uint64_t cpu_words(void)
{
	uint64_t fpcr, fpsr;

	__asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(fpcr), "=r"(fpsr));
	return fpsr << 32 | fpcr;
}

static inline void set_cpu_words(uint64_t words)
{
	uint64_t fpcr = (uint32_t)words, fpsr = words >> 32;

	__asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(fpcr), "r"(fpsr));
}

static inline uint64_t packed(uint64_t words)
{
	return (uint32_t)words;
}

static inline uint64_t frame_register(const struct context_frame *f, unsigned i)
{
	if (i < countof(f->x))
		return f->x[i];
	return i == countof(f->x) ? f->x29 : f->d[i - countof(f->x) - 1];
}

static inline uint64_t frame_words(const struct context_frame *f)
{
	return f->fpcr;
}

/* The table of addresses that position-independent code uses has no entry for a local label. */
__asm__(".text\n"
	".globl across, destroy, enter\n"
	".hidden across, destroy, enter\n"
	"across:\n"
	"	sub sp, sp, #176\n"
	"	stp x19, x20, [sp]\n	stp x21, x22, [sp, #16]\n"
	"	stp x23, x24, [sp, #32]\n	stp x25, x26, [sp, #48]\n"
	"	stp x27, x28, [sp, #64]\n	stp x29, x30, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n	stp d14, d15, [sp, #144]\n"
	"	str x4, [sp, #160]\n"
	"	mov x19, #0x1111 * 1\n	mov x20, #0x1111 * 2\n	mov x21, #0x1111 * 3\n"
	"	mov x22, #0x1111 * 4\n	mov x23, #0x1111 * 5\n	mov x24, #0x1111 * 6\n"
	"	mov x25, #0x1111 * 7\n	mov x26, #0x1111 * 8\n	mov x27, #0x1111 * 9\n"
	"	mov x28, #0x1111 * 10\n	mov x29, #0x1111 * 11\n"
	"	mov w9, #0xcccc\n	fmov d8, x9\n	mov w9, #0xdddd\n	fmov d9, x9\n"
	"	mov w9, #0xeeee\n	fmov d10, x9\n	mov w9, #0xffff\n	fmov d11, x9\n"
	"	ldr w9, =0x11110\n	fmov d12, x9\n	ldr w9, =0x12221\n	fmov d13, x9\n"
	"	ldr w9, =0x13332\n	fmov d14, x9\n	ldr w9, =0x14443\n	fmov d15, x9\n"
	"	bl gmp__mcall\n"
	"	ldr x9, [sp, #160]\n"
	"	stp x19, x20, [x9]\n	stp x21, x22, [x9, #16]\n"
	"	stp x23, x24, [x9, #32]\n	stp x25, x26, [x9, #48]\n"
	"	stp x27, x28, [x9, #64]\n	str x29, [x9, #80]\n"
	"	stp d8, d9, [x9, #88]\n	stp d10, d11, [x9, #104]\n"
	"	stp d12, d13, [x9, #120]\n	stp d14, d15, [x9, #136]\n"
	"	ldp x19, x20, [sp]\n	ldp x21, x22, [sp, #16]\n"
	"	ldp x23, x24, [sp, #32]\n	ldp x25, x26, [sp, #48]\n"
	"	ldp x27, x28, [sp, #64]\n	ldp x29, x30, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n	ldp d10, d11, [sp, #112]\n"
	"	ldp d12, d13, [sp, #128]\n	ldp d14, d15, [sp, #144]\n"
	"	add sp, sp, #176\n	ret\n"
	"destroy:\n"
	"	mov x19, #-1\n	mov x20, #-1\n	mov x21, #-1\n"
	"	mov x22, #-1\n	mov x23, #-1\n	mov x24, #-1\n"
	"	mov x25, #-1\n	mov x26, #-1\n	mov x27, #-1\n"
	"	mov x28, #-1\n	mov x29, #-1\n"
	"	fmov d8, x19\n	fmov d9, x19\n"
	"	fmov d10, x19\n	fmov d11, x19\n"
	"	fmov d12, x19\n	fmov d13, x19\n"
	"	fmov d14, x19\n	fmov d15, x19\n"
	"	b destroyed\n"
	"enter:\n"
	"	mov x10, sp\n"
	"	adrp x9, enter_sp\n	str x10, [x9, #:lo12:enter_sp]\n"
	"	adrp x9, enter_return\n	str x30, [x9, #:lo12:enter_return]\n"
	"	adrp x9, enter_fp\n	str x29, [x9, #:lo12:enter_fp]\n"
	"	b entered\n"
	".ltorg\n");

/* The firmware may leave the frequency of the counter at 0. */
TEST(context_ticks_have_a_scale_at_any_frequency)
{
	CHECK_EQ(arch_ticks_shift(1000000000), 2);
	CHECK_EQ(arch_ticks_shift(24000000), 7);
	CHECK_EQ(arch_ticks_shift(1000000), 12);
	CHECK_EQ(arch_ticks_shift(999999), ARCH_TICKS_SHIFT);
	CHECK_EQ(arch_ticks_shift(0), ARCH_TICKS_SHIFT);
}

#endif
