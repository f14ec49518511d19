/* SPDX-License-Identifier: MIT */
/* The part of stacks.c for x86-64. */
#ifndef TESTS_RUNTIME_STACKS_X86_64_H
#define TESTS_RUNTIME_STACKS_X86_64_H

#include <stdint.h>

/* The x87 word, and mxcsr in the high half. */
#define CONTROL_STICKY (UINT64_C(0x3f) << 32)
#define CONTROL_PLAIN (UINT64_C(0x1f80) << 32 | 0x37f)
#define CONTROL_UP (UINT64_C(0x5f80) << 32 | 0x37f)

/* Rounding, flush to zero; rounding and precision on the x87. */
static inline uint64_t control_of(unsigned i)
{
	uint64_t mxcsr = 0x1f80u | (i & 3) << 13 | (i & 4 ? 0x8000u : 0) | (i & 8 ? 0x3f : 0);

	return mxcsr << 32 | (0x037f & ~0x0f00) | (i & 3) << 10 | (i & 4 ? 0x300 : 0x200);
}

static inline uint64_t control(void)
{
	uint32_t mxcsr;
	uint16_t cw;

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(cw));
	return ((uint64_t)mxcsr << 32 | cw) & ~CONTROL_STICKY;
}

static inline void set_control(uint64_t words)
{
	uint16_t cw = (uint16_t)words;
	uint32_t mxcsr = (uint32_t)(words >> 32);

	__asm__ volatile("fldcw %0\n\tldmxcsr %1" : : "m"(cw), "m"(mxcsr));
}

__asm__(".pushsection .text\n"
	".globl registers_lost\n"
	".hidden registers_lost\n"
	".type registers_lost, @function\n"
	"registers_lost:\n"
	"	.cfi_startproc\n"
	"	pushq %rbx\n	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rbp\n	.cfi_adjust_cfa_offset 8\n"
	"	pushq %r12\n	.cfi_adjust_cfa_offset 8\n"
	"	pushq %r13\n	.cfi_adjust_cfa_offset 8\n"
	"	pushq %r14\n	.cfi_adjust_cfa_offset 8\n"
	"	pushq %r15\n	.cfi_adjust_cfa_offset 8\n"
	"	pushq %rdi\n	.cfi_adjust_cfa_offset 8\n"
	"	leaq 1(%rdi), %rbx\n"
	"	leaq 2(%rdi), %rbp\n"
	"	leaq 3(%rdi), %r12\n"
	"	leaq 4(%rdi), %r13\n"
	"	leaq 5(%rdi), %r14\n"
	"	leaq 6(%rdi), %r15\n"
	"	call *%rsi\n"
	"	popq %rdi\n	.cfi_adjust_cfa_offset -8\n"
	"	xorl %eax, %eax\n"
	"	xorl %edx, %edx\n"
	"	incq %rdi\n	cmpq %rdi, %rbx\n	setne %dl\n	addl %edx, %eax\n"
	"	incq %rdi\n	cmpq %rdi, %rbp\n	setne %dl\n	addl %edx, %eax\n"
	"	incq %rdi\n	cmpq %rdi, %r12\n	setne %dl\n	addl %edx, %eax\n"
	"	incq %rdi\n	cmpq %rdi, %r13\n	setne %dl\n	addl %edx, %eax\n"
	"	incq %rdi\n	cmpq %rdi, %r14\n	setne %dl\n	addl %edx, %eax\n"
	"	incq %rdi\n	cmpq %rdi, %r15\n	setne %dl\n	addl %edx, %eax\n"
	"	popq %r15\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %r14\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %r13\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %r12\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %rbp\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %rbx\n	.cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size registers_lost, . - registers_lost\n"
	".popsection\n");

#endif
