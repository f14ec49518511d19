/* SPDX-License-Identifier: MIT */
/* Machine interface of the switch for x86-64: see machine/frame.h. */
#ifndef GMP_FRAME_X86_64_H
#define GMP_FRAME_X86_64_H

#include <errno.h>
#include <ucontext.h>

#include "base/base.h"
#include "base/os.h"

struct context_frame {
	uint32_t x87cw, mxcsr;
	uint64_t r15, r14, r13, r12, rbx, rbp;
	uint64_t pc;
};

_Static_assert(sizeof(struct context_frame) == 64, "as context_x86_64.S has it");

static inline void context_frame_set_fp(struct context_frame *f, uintptr_t fp)
{
	f->rbp = fp;
}

static inline uintptr_t context_pc_sig(const void *context)
{
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

static inline uintptr_t context_sp_sig(const void *context)
{
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
}

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

/* x87 in the low half, mxcsr in the high half */
static inline uint64_t gmp__fpwords(void)
{
	uint32_t mxcsr;
	uint16_t cw;

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(cw));
	return (uint64_t)mxcsr << 32 | cw;
}

#endif
