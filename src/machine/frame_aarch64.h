/* SPDX-License-Identifier: MIT */
/* Machine interface of the switch for aarch64: see machine/frame.h. */
#ifndef GMP_FRAME_AARCH64_H
#define GMP_FRAME_AARCH64_H

#include <errno.h>
#include <string.h>
#include <ucontext.h>

#include "base/base.h"
#include "base/os.h"

struct context_frame {
	uint64_t d[8];  /* d8 to d15 */
	uint64_t x[10]; /* x19 to x28 */
	uint64_t fpcr, unused;
	uint64_t x29;
	uint64_t pc; /* x30 */
};

_Static_assert(sizeof(struct context_frame) == 176, "as context_aarch64.S has it");

static inline void context_frame_set_fp(struct context_frame *f, uintptr_t fp)
{
	f->x29 = fp;
}

static inline uintptr_t context_pc_sig(const void *context)
{
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc;
}

static inline uintptr_t context_sp_sig(const void *context)
{
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.sp;
}

/* The kernel has overwritten x0, the first argument, with the result. */
static inline void context_restart_sig(void *context, const struct os_sleep *s)
{
	mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;
	const uint32_t svc = 0xd4000001;

	if (s->nr < 0 || (int64_t)m->regs[0] != -EINTR || m->regs[8] != (uint64_t)s->nr ||
	    m->pc != s->pc || m->sp != s->sp ||
	    memcmp((const char *)s->pc - sizeof(svc), &svc, sizeof(svc)) != 0)
		return;
	for (int i = 1; i < 6; i++)
		if (m->regs[i] != s->arg[i])
			return;
	if (s->once && s->sleeps != os_own_sleeps())
		return;
	m->regs[0] = s->arg[0];
	m->pc -= sizeof(svc);
}

/* fpcr: rounding, flush-to-zero, trap enables.  The sticky flags are in another register, fpsr. */
static inline uint64_t gmp__fpwords(void)
{
	uint64_t fpcr;

	__asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
	return fpcr;
}

#endif
