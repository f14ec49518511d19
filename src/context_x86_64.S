/* SPDX-License-Identifier: MIT */
/*
 * Context switch for x86-64 and the System V ABI.  context.h has the contract of each entry point.
 *
 *   frame that mcall saves and gogo restores (struct context_frame; offsets from the saved sp):
 *     0 x87 control word   4 mxcsr   8 r15  16 r14  24 r13  32 r12  40 rbx  48 rbp  56 return pc
 *
 *   head of g0's stack (the 8 bytes below its top): the control words of the CPU, as mcall read
 *   them. No code on g0 changes them, so gogo and gstart do not read them from the CPU again:
 *   stmxcsr is the most expensive instruction of the switch.
 *
 * mov is used instead of push and pop: it needs fewer dependent updates of rsp.
 */
#include "machine/ibt_x86_64.h"

	.text

/* Reload the control words from \src if they differ from those at g0's head, -8(\g0), in more than
 * the sticky flags (the low six bits of mxcsr).  Uses ecx and r8d. */
	.macro	RESTORE_FP src, base, g0
	movl	-4(\g0), %ecx
	movl	-8(\g0), %r8d
	xorl	4+\src(\base), %ecx
	xorl	\src(\base), %r8d
	andl	$0xffc0, %ecx
	movzwl	%r8w, %r8d
	orl	%r8d, %ecx
	jnz	.Lreload\@
.Lsame\@:
	.subsection 1
.Lreload\@:
	ldmxcsr	4+\src(\base)
	fldcw	\src(\base)
	jmp	.Lsame\@
	.previous
	.endm

/* int gmp__mcall(struct context *save, int (*fn)(void *), void *arg, void *g0) */
	.globl	gmp__mcall
	.hidden	gmp__mcall
	.type	gmp__mcall, @function
	.p2align 5
gmp__mcall:
	.cfi_startproc
	stmxcsr	-52(%rsp)
	fnstcw	-56(%rsp)
	movq	%r15, -48(%rsp)
	movq	%r14, -40(%rsp)
	movq	%r13, -32(%rsp)
	movq	%r12, -24(%rsp)
	movq	%rbx, -16(%rsp)
	movq	%rbp, -8(%rsp)
	leaq	-56(%rsp), %rax
	movq	%rax, (%rdi)
	movl	-52(%rsp), %r8d
	movzwl	-56(%rsp), %r9d
	movl	%r8d, -4(%rcx)
	movl	%r9d, -8(%rcx)
	/* The caller is saved.  On the other stack fn has no caller: its return address is 0. */
	leaq	-24(%rcx), %rsp
	.cfi_def_cfa rsp, 8
	.cfi_undefined rip
	.cfi_undefined rbp
	movq	$0, (%rsp)
	movq	%rdx, %rdi
	xorl	%ebp, %ebp
	jmp	*%rsi
	.cfi_endproc
	.size	gmp__mcall, . - gmp__mcall

/* int gmp__gogo(struct context *ctx, int result, void *g0) */
	.globl	gmp__gogo
	.hidden	gmp__gogo
	.type	gmp__gogo, @function
	.p2align 5
gmp__gogo:
	.cfi_startproc
	movl	%esi, %eax
	movq	(%rdi), %rsi
	.cfi_def_cfa rsi, 64
	.cfi_offset rip, -8
	.cfi_offset rbp, -16
	.cfi_offset rbx, -24
	.cfi_offset r12, -32
	.cfi_offset r13, -40
	.cfi_offset r14, -48
	.cfi_offset r15, -56
	RESTORE_FP 0, %rsi, %rdx
	movq	8(%rsi), %r15
	movq	16(%rsi), %r14
	movq	24(%rsi), %r13
	movq	32(%rsi), %r12
	movq	40(%rsi), %rbx
	movq	48(%rsi), %rbp
	movq	56(%rsi), %rcx
	leaq	64(%rsi), %rsp
	IBT_NOTRACK jmp	*%rcx
	.cfi_endproc
	.size	gmp__gogo, . - gmp__gogo

/* int gmp__gstart(void *arg, int (*fn)(void *), void *stack, uint64_t fpwords, void *g0) */
	.globl	gmp__gstart
	.hidden	gmp__gstart
	.type	gmp__gstart, @function
	.p2align 5
gmp__gstart:
	.cfi_startproc
	/* reached by an exception that no frame above catches: machine/cxx.c */
	.cfi_personality 0x1b, gmp__leaves_entry
	.cfi_undefined rip
	.cfi_undefined rbp
	movq	%r8, %rax
	movq	%rdx, %rsp
	.cfi_def_cfa rsp, 0
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	pushq	$0
	.cfi_adjust_cfa_offset 8
	RESTORE_FP 8, %rsp, %rax
	xorl	%ebp, %ebp
	call	*%rsi
	ud2
	.cfi_endproc
	.size	gmp__gstart, . - gmp__gstart

	IBT_NOTE
	.section .note.GNU-stack, "", @progbits
