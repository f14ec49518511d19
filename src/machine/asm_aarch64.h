/* SPDX-License-Identifier: MIT */
/*
 * Assembler macros for aarch64: landing pads (BTI), and the unwind rules of the frame of mcall.
 */
#ifndef GMP_ASM_AARCH64_H
#define GMP_ASM_AARCH64_H

/* clang-format off */
#ifdef __ARM_FEATURE_BTI_DEFAULT

#define LANDING_PAD hint #34 /* bti c */

/* GNU property: BTI, all indirect branches arrive at a landing pad.  Not PAC: x30 is stored
 * unsigned. */
	.macro	BTI_NOTE
	.section .note.gnu.property, "a", %note
	.p2align 3
	.word	4, 16, 5
	.asciz	"GNU"
	.word	0xc0000000, 4, 1, 0
	.endm

#else

#define LANDING_PAD
	.macro	BTI_NOTE
	.endm

#endif

/* The caller's registers are in a frame of 176 bytes at \reg: fpcr is between x28 and x29. */
	.macro	CFI_FRAME reg
	.cfi_def_cfa \reg, 176
	.set	cfi_at, -176
	.irp r, d8, d9, d10, d11, d12, d13, d14, d15
	.cfi_offset \r, cfi_at
	.set	cfi_at, cfi_at + 8
	.endr
	.irp r, x19, x20, x21, x22, x23, x24, x25, x26, x27, x28
	.cfi_offset \r, cfi_at
	.set	cfi_at, cfi_at + 8
	.endr
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	.endm

/* The caller's registers are in the registers. */
	.macro	CFI_REGISTERS
	.irp n, 8, 9, 10, 11, 12, 13, 14, 15
	.cfi_restore d\n
	.endr
	.irp n, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30
	.cfi_restore x\n
	.endr
	.endm
/* clang-format on */

#endif
