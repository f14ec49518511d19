/* SPDX-License-Identifier: MIT */
/*
 * The frame with a false unwind table of machine/unwind.c, for aarch64 and the AAPCS64.
 *
 * While fn runs, x19 holds the saved sp, and the rules are those of the frame of mcall
 * (CFI_FRAME).  An unwinder finds the table of a frame by the byte before the return address, so
 * the rules change just before and just after the call.
 */
#include "machine/asm_aarch64.h"

	.text

/* void gmp__call_above(void (*fn)(void *), void *arg, const void *sp) */
	.globl	gmp__call_above
	.hidden	gmp__call_above
	.type	gmp__call_above, %function
	.p2align 4
gmp__call_above:
	.cfi_startproc
	LANDING_PAD
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset x29, -32
	.cfi_offset x30, -24
	str	x19, [sp, #16]
	.cfi_offset x19, -16
	mov	x29, sp
	mov	x9, x0
	mov	x0, x1
	mov	x19, x2
	.cfi_remember_state
	CFI_FRAME x19
	blr	x9
	.cfi_restore_state
	ldr	x19, [sp, #16]
	.cfi_restore x19
	ldp	x29, x30, [sp], #32
	.cfi_def_cfa_offset 0
	.cfi_restore x29
	.cfi_restore x30
	ret
	.cfi_endproc
	.size	gmp__call_above, . - gmp__call_above

	BTI_NOTE
	.section .note.GNU-stack, "", %progbits
