/* SPDX-License-Identifier: MIT */
/* Assembler macros for riscv64: the unwind rules of the frame of mcall. */
#ifndef GMP_ASM_RISCV64_H
#define GMP_ASM_RISCV64_H

/* clang-format off */
/* The caller's registers are in a frame of 208 bytes at \reg: ra first, fs11 below the frm. */
	.macro	CFI_FRAME reg
	.cfi_def_cfa \reg, 208
	.set	cfi_at, -208
	.irp r, ra, s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11
	.cfi_offset \r, cfi_at
	.set	cfi_at, cfi_at + 8
	.endr
	.irp r, fs0, fs1, fs2, fs3, fs4, fs5, fs6, fs7, fs8, fs9, fs10, fs11
	.cfi_offset \r, cfi_at
	.set	cfi_at, cfi_at + 8
	.endr
	.endm

/* The caller's registers, except ra, are in the registers. */
	.macro	CFI_REGISTERS
	.irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	.cfi_restore s\n
	.cfi_restore fs\n
	.endr
	.endm
/* clang-format on */

#endif
