/* SPDX-License-Identifier: MIT */
/* The part of stacks.c for riscv64. */
#ifndef TESTS_RUNTIME_STACKS_RISCV64_H
#define TESTS_RUNTIME_STACKS_RISCV64_H

#include <stdint.h>

/* fcsr: the rounding mode, and five sticky flags below. */
#define CONTROL_STICKY UINT64_C(0x1f)
#define CONTROL_PLAIN UINT64_C(0)
#define CONTROL_UP (UINT64_C(3) << 5)

static inline uint64_t control_of(unsigned i)
{
	return (i % 5) << 5 | (i & 8 ? CONTROL_STICKY : 0);
}

static inline uint64_t control(void)
{
	uint64_t fcsr;

	__asm__ volatile("frcsr %0" : "=r"(fcsr));
	return fcsr & ~CONTROL_STICKY;
}

static inline void set_control(uint64_t words)
{
	__asm__ volatile("fscsr %0" : : "r"(words));
}

__asm__(".pushsection .text\n"
	".globl registers_lost\n"
	".hidden registers_lost\n"
	".type registers_lost, @function\n"
	"registers_lost:\n"
	"	.cfi_startproc\n"
	"	addi sp, sp, -208\n	.cfi_adjust_cfa_offset 208\n"
	"	sd s0, 0(sp)\n	sd s1, 8(sp)\n	sd s2, 16(sp)\n"
	"	sd s3, 24(sp)\n	sd s4, 32(sp)\n	sd s5, 40(sp)\n"
	"	sd s6, 48(sp)\n	sd s7, 56(sp)\n	sd s8, 64(sp)\n"
	"	sd s9, 72(sp)\n	sd s10, 80(sp)\n	sd s11, 88(sp)\n"
	"	fsd fs0, 96(sp)\n	fsd fs1, 104(sp)\n	fsd fs2, 112(sp)\n"
	"	fsd fs3, 120(sp)\n	fsd fs4, 128(sp)\n	fsd fs5, 136(sp)\n"
	"	fsd fs6, 144(sp)\n	fsd fs7, 152(sp)\n	fsd fs8, 160(sp)\n"
	"	fsd fs9, 168(sp)\n	fsd fs10, 176(sp)\n	fsd fs11, 184(sp)\n"
	"	sd ra, 192(sp)\n	.cfi_offset ra, -16\n	sd a0, 200(sp)\n"
	"	addi s0, a0, 1\n	addi s1, a0, 2\n	addi s2, a0, 3\n"
	"	addi s3, a0, 4\n	addi s4, a0, 5\n	addi s5, a0, 6\n"
	"	addi s6, a0, 7\n	addi s7, a0, 8\n	addi s8, a0, 9\n"
	"	addi s9, a0, 10\n	addi s10, a0, 11\n	addi s11, a0, 12\n"
	"	addi t0, a0, 13\n	fmv.d.x fs0, t0\n"
	"	addi t0, a0, 14\n	fmv.d.x fs1, t0\n"
	"	addi t0, a0, 15\n	fmv.d.x fs2, t0\n"
	"	addi t0, a0, 16\n	fmv.d.x fs3, t0\n"
	"	addi t0, a0, 17\n	fmv.d.x fs4, t0\n"
	"	addi t0, a0, 18\n	fmv.d.x fs5, t0\n"
	"	addi t0, a0, 19\n	fmv.d.x fs6, t0\n"
	"	addi t0, a0, 20\n	fmv.d.x fs7, t0\n"
	"	addi t0, a0, 21\n	fmv.d.x fs8, t0\n"
	"	addi t0, a0, 22\n	fmv.d.x fs9, t0\n"
	"	addi t0, a0, 23\n	fmv.d.x fs10, t0\n"
	"	addi t0, a0, 24\n	fmv.d.x fs11, t0\n"
	"	jalr a1\n"
	"	ld a1, 200(sp)\n	li a0, 0\n"
	"	addi t0, a1, 1\n	xor t0, t0, s0\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 2\n	xor t0, t0, s1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 3\n	xor t0, t0, s2\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 4\n	xor t0, t0, s3\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 5\n	xor t0, t0, s4\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 6\n	xor t0, t0, s5\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 7\n	xor t0, t0, s6\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 8\n	xor t0, t0, s7\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 9\n	xor t0, t0, s8\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 10\n	xor t0, t0, s9\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 11\n	xor t0, t0, s10\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 12\n	xor t0, t0, s11\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 13\n	fmv.x.d t1, fs0\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 14\n	fmv.x.d t1, fs1\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 15\n	fmv.x.d t1, fs2\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 16\n	fmv.x.d t1, fs3\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 17\n	fmv.x.d t1, fs4\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 18\n	fmv.x.d t1, fs5\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 19\n	fmv.x.d t1, fs6\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 20\n	fmv.x.d t1, fs7\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 21\n	fmv.x.d t1, fs8\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 22\n	fmv.x.d t1, fs9\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 23\n	fmv.x.d t1, fs10\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	addi t0, a1, 24\n	fmv.x.d t1, fs11\n	xor t0, t0, t1\n"
	"	snez t0, t0\n	add a0, a0, t0\n"
	"	ld s0, 0(sp)\n	ld s1, 8(sp)\n	ld s2, 16(sp)\n"
	"	ld s3, 24(sp)\n	ld s4, 32(sp)\n	ld s5, 40(sp)\n"
	"	ld s6, 48(sp)\n	ld s7, 56(sp)\n	ld s8, 64(sp)\n"
	"	ld s9, 72(sp)\n	ld s10, 80(sp)\n	ld s11, 88(sp)\n"
	"	fld fs0, 96(sp)\n	fld fs1, 104(sp)\n	fld fs2, 112(sp)\n"
	"	fld fs3, 120(sp)\n	fld fs4, 128(sp)\n	fld fs5, 136(sp)\n"
	"	fld fs6, 144(sp)\n	fld fs7, 152(sp)\n	fld fs8, 160(sp)\n"
	"	fld fs9, 168(sp)\n	fld fs10, 176(sp)\n	fld fs11, 184(sp)\n"
	"	ld ra, 192(sp)\n	addi sp, sp, 208\n	.cfi_adjust_cfa_offset -208\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size registers_lost, . - registers_lost\n"
	".popsection\n");

#endif
