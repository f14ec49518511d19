/* SPDX-License-Identifier: MIT */
/*
 * The frame with a false unwind table of machine/unwind.c, for x86-64 and the System V ABI.
 *
 * While fn runs, rbx holds the saved sp.  The offsets below are those of the frame of mcall
 * (context_x86_64.S), counted from its upper end, 64 bytes above.  The return address is the
 * highest word, as in every frame, so its rule stays.  An unwinder finds the table of a frame by
 * the byte before the return address, so the rules change just before and just after the call.
 */
#include "machine/ibt_x86_64.h"

	.text

/* void gmp__call_above(void (*fn)(void *), void *arg, const void *sp) */
	.globl	gmp__call_above
	.hidden	gmp__call_above
	.type	gmp__call_above, @function
	.p2align 4
gmp__call_above:
	.cfi_startproc
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_offset rbx, -16
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rbx
	.cfi_def_cfa rbx, 64
	.cfi_offset rbp, -16
	.cfi_offset rbx, -24
	.cfi_offset r12, -32
	.cfi_offset r13, -40
	.cfi_offset r14, -48
	.cfi_offset r15, -56
	call	*%rax
	.cfi_def_cfa rsp, 16
	.cfi_restore rbp
	.cfi_offset rbx, -16
	.cfi_restore r12
	.cfi_restore r13
	.cfi_restore r14
	.cfi_restore r15
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbx
	ret
	.cfi_endproc
	.size	gmp__call_above, . - gmp__call_above

	IBT_NOTE
	.section .note.GNU-stack, "", @progbits
