/* SPDX-License-Identifier: MIT */
/* The part of unit/unwind.c for x86-64. */
#ifndef TESTS_UNIT_UNWIND_X86_64_H
#define TESTS_UNIT_UNWIND_X86_64_H

/* rbx rbp r12 r13 r14 r15 */
static const int saved[] = { 3, 6, 12, 13, 14, 15 };

/* STEPS_OWN: push, three moves; pop, ret */
enum { ENTRY_FRAME = 8 };
#define STEPS_OWN 6

__asm__(".text\n"
	".type leave, @function\n"
	"leave:\n"
	"	.cfi_startproc\n"
	"	pushq %rbx\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset rbx, -16\n"
	"	pushq %rbp\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset rbp, -24\n"
	"	pushq %r12\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset r12, -32\n"
	"	pushq %r13\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset r13, -40\n"
	"	pushq %r14\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset r14, -48\n"
	"	pushq %r15\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset r15, -56\n"
	"	pushq %rax\n	.cfi_adjust_cfa_offset 8\n"
	"	movq $0x1111, %rbx\n	movq $0x2222, %rbp\n	movq $0x3333, %r12\n"
	"	movq $0x4444, %r13\n	movq $0x5555, %r14\n	movq $0x6666, %r15\n"
	"	call gmp__mcall\n"
	"	popq %rcx\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %r15\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %r14\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %r13\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %r12\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %rbp\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %rbx\n	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size leave, . - leave\n");

__asm__(".text\n"
	"keep:\n"
	"	pushq %rbx\n	pushq %rbp\n	pushq %r12\n"
	"	pushq %r13\n	pushq %r14\n	pushq %r15\n"
	"	pushq %rcx\n"
	"	movq $0x1111, %rbx\n	movq $0x2222, %rbp\n	movq $0x3333, %r12\n"
	"	movq $0x4444, %r13\n	movq $0x5555, %r14\n	movq $0x6666, %r15\n"
	"	call gmp__call_above\n"
	"	popq %rcx\n"
	"	movq %rbx, (%rcx)\n	movq %rbp, 8(%rcx)\n	movq %r12, 16(%rcx)\n"
	"	movq %r13, 24(%rcx)\n	movq %r14, 32(%rcx)\n	movq %r15, 40(%rcx)\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n"
	"	popq %r12\n	popq %rbp\n	popq %rbx\n"
	"	ret\n");

__asm__(".text\n"
	"step_through:\n"
	"	.cfi_startproc\n"
	"	pushq %rbp\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset rbp, -16\n"
	"	pushfq\n	.cfi_adjust_cfa_offset 8\n"
	"	orq $0x100, (%rsp)\n"
	"	popfq\n	.cfi_adjust_cfa_offset -8\n"
	"	call gmp__call_above\n"
	"stepped_call_returns:\n"
	"	pushfq\n	.cfi_adjust_cfa_offset 8\n"
	"	andq $~0x100, (%rsp)\n"
	"	popfq\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %rbp\n	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n");

#endif
