/* SPDX-License-Identifier: MIT */
/* Machine interface of the switch for riscv64: see machine/frame.h. */
#ifndef GMP_FRAME_RISCV64_H
#define GMP_FRAME_RISCV64_H

#include <errno.h>
#include <ucontext.h>

#include "base/base.h"
#include "base/os.h"

struct context_frame {
	uint64_t pc;
	uint64_t s[12];
	double fs[12];
	uint64_t frm; /* the rounding mode */
};

_Static_assert(sizeof(struct context_frame) == 208, "as context_riscv64.S has it");

/* fp: the address of the caller's frame pointer and return address; s0 points above them. */
static inline void context_frame_set_fp(struct context_frame *f, uintptr_t fp)
{
	f->s[0] = fp + 2 * sizeof(uintptr_t);
}

static inline uintptr_t context_pc_sig(const void *context)
{
	return ((const ucontext_t *)context)->uc_mcontext.__gregs[REG_PC];
}

static inline uintptr_t context_sp_sig(const void *context)
{
	return ((const ucontext_t *)context)->uc_mcontext.__gregs[REG_SP];
}

/* The result of a call replaces its first argument only. */
static inline void context_restart_sig(void *context, const struct os_sleep *s)
{
	enum { A7 = REG_A0 + 7, ECALL = 0x73 };
	unsigned long *r = ((ucontext_t *)context)->uc_mcontext.__gregs;
	uint32_t insn;

	if (s->nr < 0 || r[A7] != (unsigned long)s->nr || r[REG_A0] != (unsigned long)-EINTR ||
	    r[REG_PC] != s->pc || r[REG_SP] != s->sp)
		return;
	__builtin_memcpy(&insn, (const char *)s->pc - sizeof(insn), sizeof(insn));
	if (insn != ECALL)
		return;
	for (int i = 1; i < 6; i++)
		if (r[REG_A0 + i] != s->arg[i])
			return;
	if (s->once && s->sleeps != os_own_sleeps())
		return;
	r[REG_A0] = s->arg[0];
	r[REG_PC] -= sizeof(insn);
}

/* the rounding mode */
static inline uint64_t gmp__fpwords(void)
{
	uint64_t frm;

	__asm__ volatile("frrm %0" : "=r"(frm));
	return frm;
}

#endif
