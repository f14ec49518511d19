/* SPDX-License-Identifier: MIT */
/*
 * The switch, for x86-64 and the System V ABI.  context.h says what each entry point promises.
 *
 *   frame that mcall leaves, and gogo takes away (offsets from the saved sp):
 *     0 x87 control word   4 mxcsr   8 r15  16 r14  24 r13  32 r12  40 rbx  48 rbp  56 return pc
 */
	.text

/* Reload the control words from \src(%rsp) if they differ from the CPU's in more than the sticky
 * flags (the low six bits of mxcsr).  Uses eax, ecx and 8 bytes of the red zone. */
	.macro	RESTORE_FP src
	stmxcsr	-8(%rsp)
	fnstcw	-16(%rsp)
	movl	-8(%rsp), %ecx
	movzwl	-16(%rsp), %eax
	xorl	4+\src(%rsp), %ecx
	xorw	\src(%rsp), %ax
	andl	$0xffc0, %ecx
	movzwl	%ax, %eax
	orl	%ecx, %eax
	jnz	.Lreload\@
.Lsame\@:
	.subsection 1
.Lreload\@:
	ldmxcsr	4+\src(%rsp)
	fldcw	\src(%rsp)
	jmp	.Lsame\@
	.previous
	.endm

/* int gmp__mcall(struct context *save, int (*fn)(void *), void *arg, void *stack) */
	.globl	gmp__mcall
	.hidden	gmp__mcall
	.type	gmp__mcall, @function
	.p2align 5
gmp__mcall:
	.cfi_startproc
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbx, 0
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r12, 0
	pushq	%r13
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r13, 0
	pushq	%r14
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r14, 0
	pushq	%r15
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset r15, 0
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	stmxcsr	4(%rsp)
	fnstcw	(%rsp)
	movq	%rsp, (%rdi)
	/* From here on the caller is saved: on the other stack there is nobody above fn. */
	movq	%rcx, %rsp
	.cfi_def_cfa rsp, 0
	.cfi_undefined rip
	.cfi_undefined rbp
	xorl	%ebp, %ebp
	pushq	$0
	.cfi_adjust_cfa_offset 8
	movq	%rdx, %rdi
	jmp	*%rsi
	.cfi_endproc
	.size	gmp__mcall, . - gmp__mcall

/* int gmp__gogo(struct context *ctx, int result) */
	.globl	gmp__gogo
	.hidden	gmp__gogo
	.type	gmp__gogo, @function
	.p2align 5
gmp__gogo:
	.cfi_startproc
	movq	(%rdi), %rsp
	.cfi_def_cfa rsp, 64
	.cfi_offset rip, -8
	.cfi_offset rbp, -16
	.cfi_offset rbx, -24
	.cfi_offset r12, -32
	.cfi_offset r13, -40
	.cfi_offset r14, -48
	.cfi_offset r15, -56
	RESTORE_FP 0
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%r15
	.cfi_adjust_cfa_offset -8
	.cfi_restore r15
	popq	%r14
	.cfi_adjust_cfa_offset -8
	.cfi_restore r14
	popq	%r13
	.cfi_adjust_cfa_offset -8
	.cfi_restore r13
	popq	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore r12
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbx
	popq	%rbp
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbp
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	.cfi_register rip, rcx
	movl	%esi, %eax
	jmp	*%rcx
	.cfi_endproc
	.size	gmp__gogo, . - gmp__gogo

/* int gmp__gstart(void *arg, int (*fn)(void *), void *stack, uint64_t fpwords) */
	.globl	gmp__gstart
	.hidden	gmp__gstart
	.type	gmp__gstart, @function
	.p2align 5
gmp__gstart:
	.cfi_startproc
	.cfi_undefined rip
	.cfi_undefined rbp
	movq	%rdx, %rsp
	.cfi_def_cfa rsp, 0
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	pushq	$0
	.cfi_adjust_cfa_offset 8
	RESTORE_FP 8
	xorl	%ebp, %ebp
	call	*%rsi
	ud2
	.cfi_endproc
	.size	gmp__gstart, . - gmp__gstart

	.section .note.GNU-stack, "", @progbits
