/* SPDX-License-Identifier: MIT */
/*
 * A call that an unwinder takes for one from elsewhere, for x86-64 and the System V ABI; machine/unwind.c
 * says what for.
 *
 * While fn runs, rbx holds the saved sp, and the offsets below are those of mcall's frame
 * (context_x86_64.S), counted from its upper end, 64 bytes above; the return address is the highest
 * word of that as of every frame, so its rule stays.  An unwinder looks a frame up by the byte before
 * its return address: the table changes right before and right behind the call.
 */
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

	.section .note.GNU-stack, "", @progbits
