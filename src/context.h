/* SPDX-License-Identifier: MIT */
/*
 * How does a thread leave one stack and go on on another?
 *
 * A context is a stack pointer; everything else that the ABI asks a callee to keep lies on the
 * stack below it.  Three entry points, in context_<arch>.S:
 *
 *   mcall   saves the caller and runs fn(arg) on another stack.  It "returns" when somebody
 *           resumes the context that it saved: possibly on another thread, with the value given
 *           there.  fn must not return.
 *   gogo    resumes a saved context.  Does not come back.
 *   gstart  begins a new stack: fn(arg), which must not return.  Does not come back.
 *
 * Invariants
 *  C1 What is restored is what the ABI calls callee-saved: rbx rbp r12-r15 rsp, the x87 control
 *     word, and the control bits of mxcsr.  The sticky exception flags of mxcsr are not: comparing
 *     them would reload mxcsr (50 ns) whenever one green thread has divided and the other has not.
 *  C2 gogo leaves by an indirect jump, never by `ret`: the CPU predicts a `ret` from its own record
 *     of calls, which a switch makes wrong.
 *  C3 The eight bytes below g0's top hold the control words that the CPU has while the thread is on
 *     g0: mcall leaves them there, gogo and gstart compare with them.
 *  C4 Callers reach mcall by a tail call where they can: each frame between the user's call and
 *     the switch costs one mispredicted `ret` after it.
 *
 * gogo and gstart are not declared noreturn on purpose: a compiler calls a noreturn function where
 * it would jump to an ordinary one in tail position, and a call is what C2 wants to avoid.
 */
#ifndef GMP_CONTEXT_H
#define GMP_CONTEXT_H

#include <ucontext.h>

#include "base/base.h"

struct context {
	void *sp;
};

/* What mcall leaves at sp, lowest address first: what a debugger needs to unwind a parked one. */
struct context_frame {
	uint32_t x87cw, mxcsr;
	uint64_t r15, r14, r13, r12, rbx, rbp;
	uint64_t pc;
};

_Static_assert(sizeof(struct context_frame) == 64, "as context_<arch>.S has it");

enum { G0_HEAD = 8 }; /* C3 */

/* g0: the top of the stack to run fn on, 16-aligned; the same for the gogo or gstart that follows */
int gmp__mcall(struct context *save, int (*fn)(void *arg), void *arg, void *g0);
int gmp__gogo(struct context *ctx, int result, void *g0);
/* fpwords: the control words to begin with, as gmp__fpwords packs them */
int gmp__gstart(void *arg, int (*fn)(void *arg), void *stack, uint64_t fpwords, void *g0);

/* Where the thread was when the signal came whose handler got this context. */
static inline uintptr_t context_pc_sig(const void *context)
{
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

/* And its stack pointer. */
static inline uintptr_t context_sp_sig(const void *context)
{
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
}

/* x87 control word in the low half, mxcsr in the high half, of the calling thread */
static inline uint64_t gmp__fpwords(void)
{
	uint32_t mxcsr;
	uint16_t cw;

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(cw));
	return (uint64_t)mxcsr << 32 | cw;
}

#endif
