/* SPDX-License-Identifier: MIT */
/* Machine interface for aarch64: see base/arch.h. */
#ifndef GMP_ARCH_AARCH64_H
#define GMP_ARCH_AARCH64_H

#include <stdint.h>
#include <sys/types.h>

/* isb waits until the pipeline has drained, about as long as the pause of x86-64.  On most CPUs
 * `yield` does nothing. */
static inline void cpu_relax(void)
{
	__asm__ volatile("isb" : : : "memory");
}

/* The shift for a counter whose frequency is not known: a tick lasts 0.65 ns at 24 MHz, and less
 * if the frequency is higher. */
enum { ARCH_TICKS_SHIFT = 6 };

/* log2 of the ticks in a step of the counter.  hz: of the frequency register, which the firmware
 * sets; if it has not, this is 0 or another impossible value, below 1 MHz. */
static inline unsigned arch_ticks_shift(uint32_t hz)
{
	return hz < 1000000 ? ARCH_TICKS_SHIFT : (unsigned)__builtin_clz(hz);
}

/* The virtual counter, shifted so that a tick lasts 0.23 to 0.47 ns whatever its frequency (1 MHz
 * to 1 GHz) is.  The shift is computed at each call: reading the frequency is cheaper than a load
 * that misses, and needs no initialisation. */
static inline uint64_t cpu_ticks(void)
{
	uint64_t count, hz;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
	__asm__("mrs %0, cntfrq_el0" : "=r"(hz));
	return count << arch_ticks_shift((uint32_t)hz);
}

#define fetch_own(p) __builtin_prefetch((p), 1)

#define arch_getm(m)                                                                               \
	do {                                                                                       \
		uintptr_t arch_offset;                                                             \
                                                                                                   \
		__asm__ volatile("mrs %0, tpidr_el0\n\t"                                           \
				 "adrp %1, :gottprel:gmp__tls_m\n\t"                               \
				 "ldr %1, [%1, :gottprel_lo12:gmp__tls_m]\n\t"                     \
				 "ldr %0, [%0, %1]"                                                \
				 : "=&r"(m), "=&r"(arch_offset));                                  \
	} while (0)

/* The thread pointer. */
static inline void *arch_tp(void)
{
	void *tp;

	__asm__ volatile("mrs %0, tpidr_el0" : "=r"(tp));
	return tp;
}

static inline void arch_set_tp(void *tp)
{
	__asm__ volatile("msr tpidr_el0, %0" : : "r"(tp) : "memory");
}

#if defined(__linux__)
#define ARCH_HAS_SYSCALL 1

/* PR_GET_SHADOW_STACK_STATUS, since Linux 6.13; newer than many headers. */
#define ARCH_SHADOW_CALL SYS_prctl
#define ARCH_SHADOW_STATUS 74UL

static inline ssize_t arch_msg_call(long call, int fd, const void *buf, size_t n, int flags)
{
	register long x8 __asm__("x8") = call;
	register long x0 __asm__("x0") = fd;
	register const void *x1 __asm__("x1") = buf;
	register size_t x2 __asm__("x2") = n;
	register long x3 __asm__("x3") = flags;
	register long x4 __asm__("x4") = 0; /* no address */
	register long x5 __asm__("x5") = 0;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory", "cc");
	return x0;
}
#endif

/* A call leaves its return address in x30. */
enum { ARCH_RETURN_REG = 30 };

/* The signature that paciasp gives `address` where the stack pointer is sp; `address` itself on a
 * CPU without pointer authentication, to which the instruction is a nop. */
static inline uintptr_t arch_sign(uintptr_t address, uintptr_t sp)
{
	register uintptr_t x17 __asm__("x17") = address;
	register uintptr_t x16 __asm__("x16") = sp;

	__asm__("hint #8" : "+r"(x17) : "r"(x16)); /* pacia1716 */
	return x17;
}

/* Code that is compiled with -mbranch-protection=pac-ret saves x30 signed, other code as it is. */
static inline uintptr_t arch_resign(uintptr_t saved, uintptr_t from, uintptr_t to, uintptr_t sp)
{
	if (saved == from)
		return to;
	return saved == arch_sign(from, sp) ? arch_sign(to, sp) : 0;
}

#endif
