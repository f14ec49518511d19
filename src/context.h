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
 *  CONTEXT-1  Restored are the callee-saved registers of the ABI: rbx rbp r12-r15 rsp, the x87
 *             control word, and the control bits of mxcsr.  The sticky exception flags of mxcsr are
 *             not compared: otherwise mxcsr would be reloaded (50 ns) whenever one green thread has
 *             divided and the other has not.
 *  CONTEXT-2  gogo leaves by an indirect jump, never by `ret`: the CPU predicts a `ret` from its
 *             stack of return addresses, which a switch makes wrong.
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

#include <errno.h>
#include <ucontext.h>

#include "base/base.h"
#include "base/os.h"

struct context {
	void *sp;
};

/* What mcall saves at sp, lowest address first.  Debuggers unwind a parked G by it (debuggers/). */
struct context_frame {
	uint32_t x87cw, mxcsr;
	uint64_t r15, r14, r13, r12, rbx, rbp;
	uint64_t pc;
};

_Static_assert(sizeof(struct context_frame) == 64, "as context_<arch>.S has it");

enum { G0_HEAD = 8 }; /* CONTEXT-3 */

/* g0: the top of the stack to run fn on, aligned to 16; the same for the next gogo or gstart. */
int gmp__mcall(struct context *save, int (*fn)(void *arg), void *arg, void *g0);
int gmp__gogo(struct context *ctx, int result, void *g0);
/* fpwords: the first control words of the new stack, as gmp__fpwords packs them. */
int gmp__gstart(void *arg, int (*fn)(void *arg), void *stack, uint64_t fpwords, void *g0);

/* Returns the pc at which a signal interrupted the thread; context is the handler's argument. */
static inline uintptr_t context_pc_sig(const void *context)
{
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

/* Returns the stack pointer at that moment. */
static inline uintptr_t context_sp_sig(const void *context)
{
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
}

/* If the signal has ended this system call with EINTR, begins the call again when the handler
 * returns. */
static inline void context_restart_sig(void *context, const struct os_sleep *s)
{
	greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	const uintptr_t arg[] = { (uintptr_t)r[REG_RDI], (uintptr_t)r[REG_RSI],
				  (uintptr_t)r[REG_RDX], (uintptr_t)r[REG_R10],
				  (uintptr_t)r[REG_R8],  (uintptr_t)r[REG_R9] };
	const unsigned char *at = (const unsigned char *)s->pc - 2;

	if (s->nr < 0 || r[REG_RAX] != -EINTR || (uintptr_t)r[REG_RIP] != s->pc ||
	    (uintptr_t)r[REG_RSP] != s->sp || at[0] != 0x0f || at[1] != 0x05) /* syscall */
		return;
	for (int i = 0; i < 6; i++)
		if (arg[i] != s->arg[i])
			return;
	if (s->once && s->sleeps != os_own_sleeps())
		return;
	r[REG_RAX] = s->nr;
	r[REG_RIP] -= 2;
}

/* Returns the control words of the calling thread: x87 in the low half, mxcsr in the high half. */
static inline uint64_t gmp__fpwords(void)
{
	uint32_t mxcsr;
	uint16_t cw;

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(cw));
	return (uint64_t)mxcsr << 32 | cw;
}

#endif
