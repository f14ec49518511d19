/* SPDX-License-Identifier: MIT */
/*
 * Machine interface of the lowest floor: what each arch_<arch>.h defines for its CPU.
 *
 *   cpu_relax()       hint that this thread spins
 *   cpu_ticks()       the CPU's tick counter, for a third of the cost of reading the clock or less.
 *                     A tick lasts about 0.2 to 1 ns, so ticks order events roughly, and do not
 *                     measure durations.
 *   fetch_own(p)      prefetches the cache line of *p for writing.  For a word that is read and
 *                     then exchanged: the read alone would fetch the line in shared state, and the
 *                     exchange would have to fetch it again.
 *   ARCH_OWN_INC(p)   own_inc and own_dec (base/atomic.h) in one instruction each; need not be
 *   ARCH_OWN_DEC(p)     defined
 *   ARCH_RMW_IS_FENCE defined if an atomic read-modify-write is a full fence (base/atomic.h)
 *   arch_getm(m)      statement: loads gmp__tls_m (base/tls.h) into m, opaque to the compiler
 *   arch_tp()         the thread pointer; arch_set_tp(tp) changes it (machine/tlsblock.h)
 *   ARCH_HAS_SYSCALL  defined if there is arch_msg_call: the six-argument form of recvfrom and
 *                     sendto without an address, as an inline system call (base/os_msg.h)
 *   ARCH_RETURN_REG   the number, for an unwinder, of the register that a call leaves its return
 *                     address in; -1 if a call pushes it (base/trace.c)
 *   arch_resign()     `to` with the signature that `saved`, the saved form of return address
 *                     `from`, has; 0: `saved` is no form of `from` (base/trace.c)
 *   ARCH_SHADOW_CALL  the system call of Linux, and its first argument, that store the status of
 *   ARCH_SHADOW_STATUS  the thread's shadow stack at the second argument (os_shadow_stack)
 *
 * Files of the machine, in src/floors.cmake: base/arch_<arch>.h, context_<arch>.S, and
 * machine/frame_, machine/unwind_, machine/calltarget_ and variant/abandon_<arch>.  Only this file,
 * machine/frame.h and base/glibc_floor.h test which machine it is.
 */
#ifndef GMP_ARCH_H
#define GMP_ARCH_H

#if defined(__x86_64__)
#include "base/arch_x86_64.h"
#elif defined(__aarch64__)
#include "base/arch_aarch64.h"
#elif defined(__riscv)
#include "base/arch_riscv64.h"
#else
#error "gmp has no port to this machine: see base/arch.h"
#endif

#endif
