/* SPDX-License-Identifier: MIT */
/* Machine interface for x86-64: see base/arch.h. */
#ifndef GMP_ARCH_X86_64_H
#define GMP_ARCH_X86_64_H

#include <stdint.h>
#include <sys/types.h>

static inline void cpu_relax(void)
{
	__builtin_ia32_pause();
}

static inline uint64_t cpu_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

#define fetch_own(p) __asm__ volatile("prefetchw %0" : : "m"(*(p)))

#define ARCH_OWN_INC(p) __asm__ volatile("incl %0" : "+m"(*(p)) : : "memory", "cc")
#define ARCH_OWN_DEC(p) __asm__ volatile("decl %0" : "+m"(*(p)) : : "memory", "cc")

/* The locked instruction. */
#define ARCH_RMW_IS_FENCE 1

#define arch_getm(m)                                                                               \
	__asm__ volatile("movq gmp__tls_m@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(m))

/* The thread pointer.  Writing it needs FSGSBASE: bit 1 of AT_HWCAP2. */
static inline void *arch_tp(void)
{
	void *tp;

	__asm__ volatile("movq %%fs:0, %0" : "=r"(tp));
	return tp;
}

static inline void arch_set_tp(void *tp)
{
	__asm__ volatile("wrfsbase %0" : : "r"(tp) : "memory");
}

#if defined(__linux__)
#define ARCH_HAS_SYSCALL 1

/* ARCH_SHSTK_STATUS, since Linux 6.6; newer than many headers. */
#define ARCH_SHADOW_CALL SYS_arch_prctl
#define ARCH_SHADOW_STATUS 0x5005UL

static inline ssize_t arch_msg_call(long call, int fd, const void *buf, size_t n, int flags)
{
	register long r10 __asm__("r10") = flags;
	register long r8 __asm__("r8") = 0; /* no address */
	register long r9 __asm__("r9") = 0;
	ssize_t result = call;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"((long)fd), "S"(buf), "d"(n), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
#endif

/* A call pushes its return address, unsigned. */
enum { ARCH_RETURN_REG = -1 };

static inline uintptr_t arch_resign(uintptr_t saved, uintptr_t from, uintptr_t to, uintptr_t sp)
{
	(void)sp;
	return saved == from ? to : 0;
}

#endif
