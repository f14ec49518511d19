/* SPDX-License-Identifier: MIT */
/* Machine interface for riscv64: see base/arch.h. */
#ifndef GMP_ARCH_RISCV64_H
#define GMP_ARCH_RISCV64_H

#include <stdint.h>
#include <sys/types.h>

/* The instruction pause (Zihintpause) by its encoding: a hint, which CPUs without it ignore. */
static inline void cpu_relax(void)
{
	__asm__ volatile(".4byte 0x0100000f");
}

/* log2 of the ticks of cpu_ticks in a period of the time CSR: ticks_riscv64.c. */
extern unsigned char gmp__ticks_shift __attribute__((visibility("hidden")));

/* The time CSR has 1 to 100 MHz, so its steps are 10 ns to 1 us. */
static inline uint64_t cpu_ticks(void)
{
	uint64_t t;

	__asm__ volatile("rdtime %0" : "=r"(t));
	return t << gmp__ticks_shift;
}

/* prefetch.w (Zicbop) by its encoding: a hint, which CPUs without it ignore. */
#define fetch_own(p) __asm__ volatile(".insn i 0x13, 6, x0, %0, 3" : : "r"(p))

#define arch_getm(m)                                                                               \
	__asm__ volatile("la.tls.ie %0, gmp__tls_m\n\tadd %0, %0, tp\n\tld %0, 0(%0)" : "=r"(m))

/* The thread pointer. */
static inline void *arch_tp(void)
{
	void *tp;

	__asm__ volatile("mv %0, tp" : "=r"(tp));
	return tp;
}

static inline void arch_set_tp(void *tp)
{
	__asm__ volatile("mv tp, %0" : : "r"(tp) : "memory");
}

#if defined(__linux__)
#define ARCH_HAS_SYSCALL 1

/* PR_GET_SHADOW_STACK_STATUS, since Linux 6.13; newer than many headers. */
#define ARCH_SHADOW_CALL SYS_prctl
#define ARCH_SHADOW_STATUS 74UL

static inline ssize_t arch_msg_call(long call, int fd, const void *buf, size_t n, int flags)
{
	register long a0 __asm__("a0") = fd;
	register long a1 __asm__("a1") = (long)buf;
	register long a2 __asm__("a2") = (long)n;
	register long a3 __asm__("a3") = flags;
	register long a4 __asm__("a4") = 0; /* no address */
	register long a5 __asm__("a5") = 0;
	register long a7 __asm__("a7") = call;

	__asm__ volatile("ecall"
			 : "+r"(a0)
			 : "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5), "r"(a7)
			 : "memory");
	return a0;
}
#endif

/* ra, unsigned. */
enum { ARCH_RETURN_REG = 1 };

static inline uintptr_t arch_resign(uintptr_t saved, uintptr_t from, uintptr_t to, uintptr_t sp)
{
	(void)sp;
	return saved == from ? to : 0;
}

#endif
