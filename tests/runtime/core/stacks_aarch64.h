/* SPDX-License-Identifier: MIT */
/* The part of stacks.c for aarch64. */
#ifndef TESTS_RUNTIME_STACKS_AARCH64_H
#define TESTS_RUNTIME_STACKS_AARCH64_H

#include <stdint.h>

/* fpcr in the low half; fpsr, which has the sticky flags, in the high half. */
#define CONTROL_STICKY (UINT64_C(0x9f) << 32)
#define CONTROL_PLAIN UINT64_C(0)
#define CONTROL_UP UINT64_C(0x400000)

/* Rounding, flush to zero, default NaN. */
static inline uint64_t control_of(unsigned i)
{
	return (uint64_t)(i & 15) << 22 | (i & 8 ? CONTROL_STICKY : 0);
}

static inline uint64_t control(void)
{
	uint64_t fpcr;

	__asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
	return fpcr;
}

static inline void set_control(uint64_t words)
{
	uint64_t fpcr = (uint32_t)words, fpsr = words >> 32;

	__asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(fpcr), "r"(fpsr));
}

__asm__(".pushsection .text\n"
	".globl registers_lost\n"
	".hidden registers_lost\n"
	".type registers_lost, %function\n"
	"registers_lost:\n"
	"	.cfi_startproc\n"
	"	stp x29, x30, [sp, #-176]!\n	.cfi_def_cfa_offset 176\n"
	"	.cfi_offset x29, -176\n	.cfi_offset x30, -168\n"
	"	stp x19, x20, [sp, #16]\n"
	"	stp x21, x22, [sp, #32]\n"
	"	stp x23, x24, [sp, #48]\n"
	"	stp x25, x26, [sp, #64]\n"
	"	stp x27, x28, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n"
	"	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n"
	"	stp d14, d15, [sp, #144]\n"
	"	str x0, [sp, #160]\n"
	"	add x19, x0, #1\n"
	"	add x20, x0, #2\n"
	"	add x21, x0, #3\n"
	"	add x22, x0, #4\n"
	"	add x23, x0, #5\n"
	"	add x24, x0, #6\n"
	"	add x25, x0, #7\n"
	"	add x26, x0, #8\n"
	"	add x27, x0, #9\n"
	"	add x28, x0, #10\n"
	"	add x29, x0, #11\n"
	"	add x9, x0, #12\n	fmov d8, x9\n"
	"	add x9, x0, #13\n	fmov d9, x9\n"
	"	add x9, x0, #14\n	fmov d10, x9\n"
	"	add x9, x0, #15\n	fmov d11, x9\n"
	"	add x9, x0, #16\n	fmov d12, x9\n"
	"	add x9, x0, #17\n	fmov d13, x9\n"
	"	add x9, x0, #18\n	fmov d14, x9\n"
	"	add x9, x0, #19\n	fmov d15, x9\n"
	"	blr x1\n"
	"	ldr x10, [sp, #160]\n"
	"	mov w0, #0\n"
	"	add x10, x10, #1\n	cmp x19, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	cmp x20, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	cmp x21, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	cmp x22, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	cmp x23, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	cmp x24, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	cmp x25, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	cmp x26, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	cmp x27, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	cmp x28, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	cmp x29, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	fmov x9, d8\n	cmp x9, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	fmov x9, d9\n	cmp x9, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	fmov x9, d10\n	cmp x9, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	fmov x9, d11\n	cmp x9, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	fmov x9, d12\n	cmp x9, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	fmov x9, d13\n	cmp x9, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	fmov x9, d14\n	cmp x9, x10\n	cinc w0, w0, ne\n"
	"	add x10, x10, #1\n	fmov x9, d15\n	cmp x9, x10\n	cinc w0, w0, ne\n"
	"	ldp x19, x20, [sp, #16]\n"
	"	ldp x21, x22, [sp, #32]\n"
	"	ldp x23, x24, [sp, #48]\n"
	"	ldp x25, x26, [sp, #64]\n"
	"	ldp x27, x28, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n"
	"	ldp d10, d11, [sp, #112]\n"
	"	ldp d12, d13, [sp, #128]\n"
	"	ldp d14, d15, [sp, #144]\n"
	"	ldp x29, x30, [sp], #176\n	.cfi_def_cfa_offset 0\n"
	"	.cfi_restore x29\n	.cfi_restore x30\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size registers_lost, . - registers_lost\n"
	".popsection\n");

#endif
