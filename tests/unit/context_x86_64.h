/* SPDX-License-Identifier: MIT */
/* The part of unit/context.c for x86-64. */
#ifndef TESTS_UNIT_CONTEXT_X86_64_H
#define TESTS_UNIT_CONTEXT_X86_64_H

#include "context.h"

enum { SAVED = 6, ENTRY_SP = 8, RELOAD_SETS_FLAGS = 1 };

#define X87_MXCSR(cw, mxcsr) (UINT64_C(mxcsr) << 32 | (cw))
#define WORDS_PLAIN X87_MXCSR(0x37f, 0x1f80)
#define WORDS_STICKY X87_MXCSR(0, 0x3f)
#define WORDS_DIVIDED X87_MXCSR(0, 0x21)

/* In the x87 word: precision, rounding.  In mxcsr: rounding, flush to zero (its highest bit),
 * denormals are zero (its lowest). */
static const uint64_t words_other[] = {
	X87_MXCSR(0x27f, 0x3f80), X87_MXCSR(0x27f, 0x1f80), X87_MXCSR(0x37f, 0x3f80),
	X87_MXCSR(0x37f, 0x9f80), X87_MXCSR(0x37f, 0x1fc0), X87_MXCSR(0xb7f, 0x5f80),
};

static inline uint64_t cpu_words(void)
{
	return gmp__fpwords();
}

static inline void set_cpu_words(uint64_t words)
{
	uint16_t cw = (uint16_t)words;
	uint32_t mxcsr = (uint32_t)(words >> 32);

	__asm__ volatile("fldcw %0\n\tldmxcsr %1" : : "m"(cw), "m"(mxcsr));
}

static inline uint64_t packed(uint64_t words)
{
	return words;
}

static inline uint64_t frame_register(const struct context_frame *f, unsigned i)
{
	const uint64_t all[SAVED] = { f->rbx, f->rbp, f->r12, f->r13, f->r14, f->r15 };

	return all[i];
}

static inline uint64_t frame_words(const struct context_frame *f)
{
	return (uint64_t)f->mxcsr << 32 | (f->x87cw & 0xffff);
}

__asm__(".text\n"
	"across:\n"
	"	pushq %rbx\n	pushq %rbp\n	pushq %r12\n"
	"	pushq %r13\n	pushq %r14\n	pushq %r15\n"
	"	pushq %r8\n"
	"	movq $0x1111, %rbx\n	movq $0x2222, %rbp\n	movq $0x3333, %r12\n"
	"	movq $0x4444, %r13\n	movq $0x5555, %r14\n	movq $0x6666, %r15\n"
	"	call gmp__mcall\n"
	"	popq %r8\n"
	"	movq %rbx, (%r8)\n	movq %rbp, 8(%r8)\n	movq %r12, 16(%r8)\n"
	"	movq %r13, 24(%r8)\n	movq %r14, 32(%r8)\n	movq %r15, 40(%r8)\n"
	"	popq %r15\n	popq %r14\n	popq %r13\n"
	"	popq %r12\n	popq %rbp\n	popq %rbx\n"
	"	ret\n"
	"destroy:\n"
	"	movq $-1, %rbx\n	movq $-1, %rbp\n	movq $-1, %r12\n"
	"	movq $-1, %r13\n	movq $-1, %r14\n	movq $-1, %r15\n"
	"	jmp destroyed\n"
	"enter:\n"
	"	movq %rsp, enter_sp(%rip)\n"
	"	movq (%rsp), %rax\n"
	"	movq %rax, enter_return(%rip)\n"
	"	movq %rbp, enter_fp(%rip)\n"
	"	jmp entered\n");

#endif
