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

/* The caller's registers are in a frame of 176 bytes at \reg. */
	.macro	CFI_FRAME reg
	.cfi_def_cfa \reg, 176
	.cfi_offset d8, -176
	.cfi_offset d9, -168
	.cfi_offset d10, -160
	.cfi_offset d11, -152
	.cfi_offset d12, -144
	.cfi_offset d13, -136
	.cfi_offset d14, -128
	.cfi_offset d15, -120
	.cfi_offset x19, -112
	.cfi_offset x20, -104
	.cfi_offset x21, -96
	.cfi_offset x22, -88
	.cfi_offset x23, -80
	.cfi_offset x24, -72
	.cfi_offset x25, -64
	.cfi_offset x26, -56
	.cfi_offset x27, -48
	.cfi_offset x28, -40
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
