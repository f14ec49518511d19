/* SPDX-License-Identifier: MIT */
/*
 * Context switch: moves an OS thread from one stack to another, and saves the callee-saved
 * registers.
 *
 * A context is a stack pointer.  The registers that the ABI asks a callee to preserve are on the
 * stack, from that address upwards (struct context_frame).  Three entry points, in
 * context_<arch>.S:
 *
 *   mcall   saves the caller and runs fn(arg) on another stack; fn must not return.  mcall returns
 *           when gogo resumes the context that it saved, possibly on another OS thread, with the
 *           result that gogo was given.
 *   gogo    resumes a saved context.  Does not return.
 *   gstart  runs fn(arg) on a new stack; fn must not return.  Does not return.
 *
 * Invariants
 *  CONTEXT-1  Restored are the callee-saved registers of the ABI, and the control bits of its
 *             floating-point units.  x86-64: rbx rbp r12-r15 rsp, the x87 control word, mxcsr.
 *             aarch64: x19-x30 sp d8-d15, fpcr.  riscv64: ra sp s0-s11 fs0-fs11, frm.  The sticky
 *             exception flags of mxcsr are not compared: otherwise mxcsr would be reloaded (50 ns)
 *             whenever one green thread has divided and the other has not.
 *  CONTEXT-2  x86-64: gogo leaves by an indirect jump, never by `ret`: the CPU predicts a `ret`
 *             from its stack of return addresses, which a switch makes wrong.  riscv64: the same;
 *             the jump is by t2, since one by ra or t0 is a return for the CPU.  aarch64: gogo
 *             leaves by `ret`.  With BTI an indirect jump needs a landing pad, and there is none at
 *             the address after a call.
 *  CONTEXT-3  The eight bytes below the top of g0 hold the control words that the CPU has while the
 *             thread is on g0: mcall writes them there, gogo and gstart compare with them.
 *  CONTEXT-4  Callers reach mcall by a tail call where possible: each frame between the program's
 *             call and the switch costs one mispredicted `ret` afterwards.
 *
 * gogo and gstart are not declared noreturn: in tail position a compiler uses a call for a noreturn
 * function and a jump for other functions, and CONTEXT-2 needs the jump.
 */
#ifndef GMP_CONTEXT_H
#define GMP_CONTEXT_H

#include "machine/frame.h"

struct context {
	void *sp;
};

enum { G0_HEAD = 8 }; /* CONTEXT-3 */

/* g0: the top of the stack to run fn on, aligned to 16; the same for the next gogo or gstart. */
int gmp__mcall(struct context *save, int (*fn)(void *arg), void *arg, void *g0);
int gmp__gogo(struct context *ctx, int result, void *g0);
/* fpwords: the first control words of the new stack, as gmp__fpwords packs them. */
int gmp__gstart(void *arg, int (*fn)(void *arg), void *stack, uint64_t fpwords, void *g0);

#endif
