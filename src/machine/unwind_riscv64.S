/* SPDX-License-Identifier: MIT */
/*
 * The frame with a false unwind table of machine/unwind.c, for riscv64 and the ABI lp64d.
 *
 * While fn runs, s1 holds the saved sp, and the rules are those of the frame of mcall
 * (CFI_FRAME).  An unwinder finds the table of a frame by the byte before the return address, so
 * the rules change just before and just after the call.
 */
#include "machine/asm_riscv64.h"

	.text

/* void gmp__call_above(void (*fn)(void *), void *arg, const void *sp) */
	.globl	gmp__call_above
	.hidden	gmp__call_above
	.type	gmp__call_above, @function
	.p2align 4
gmp__call_above:
	.cfi_startproc
	addi	sp, sp, -16
	.cfi_def_cfa_offset 16
	sd	ra, 8(sp)
	.cfi_offset ra, -8
	sd	s1, 0(sp)
	.cfi_offset s1, -16
	mv	t1, a0
	mv	a0, a1
	mv	s1, a2
	.cfi_remember_state
	CFI_FRAME s1
	jalr	t1
	.cfi_restore_state
	ld	ra, 8(sp)
	.cfi_restore ra
	ld	s1, 0(sp)
	.cfi_restore s1
	addi	sp, sp, 16
	.cfi_def_cfa_offset 0
	ret
	.cfi_endproc
	.size	gmp__call_above, . - gmp__call_above

	.section .note.GNU-stack, "", @progbits
