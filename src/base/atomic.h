/* SPDX-License-Identifier: MIT */
/*
 * Atomic accesses: macros whose suffix names the memory order.
 *
 *   rlx   relaxed
 *   acq   acquire
 *   rel   release
 *   seq   sequentially consistent: acquire, release, and a place in the total order
 *
 * Every access except rlx carries a tag ORD(name). Its partners carry the same tag, and
 * docs/internals/memory-order.md explains it.
 *
 * The macros access plain fields. A shared field is marked (a) in its declaration.
 */
#ifndef GMP_ATOMIC_H
#define GMP_ATOMIC_H

#include "base/base.h"

#define ld_rlx(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define ld_acq(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define ld_seq(p) __atomic_load_n((p), __ATOMIC_SEQ_CST)
#define st_rlx(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define st_rel(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define st_seq(p, v) __atomic_store_n((p), (v), __ATOMIC_SEQ_CST)
#define xchg_acq(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define xchg_seq(p, v) __atomic_exchange_n((p), (v), __ATOMIC_SEQ_CST)
#define add_rlx(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define add_rel(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELEASE)
#define or_rlx(p, v) __atomic_fetch_or((p), (v), __ATOMIC_RELAXED)
#define and_rlx(p, v) __atomic_fetch_and((p), (v), __ATOMIC_RELAXED)
#define add_seq(p, v) __atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST)
#define sub_seq(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_SEQ_CST)
#define or_seq(p, v) __atomic_fetch_or((p), (v), __ATOMIC_SEQ_CST)
#define and_seq(p, v) __atomic_fetch_and((p), (v), __ATOMIC_SEQ_CST)
/* Strong compare-and-swap. If it fails, *old is set to the value found. */
#define cas_rlx(p, old, new)                                                                       \
	__atomic_compare_exchange_n((p), (old), (new), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define cas_acq(p, old, new)                                                                       \
	__atomic_compare_exchange_n((p), (old), (new), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)
#define cas_rel(p, old, new)                                                                       \
	__atomic_compare_exchange_n((p), (old), (new), 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define cas_seq(p, old, new)                                                                       \
	__atomic_compare_exchange_n((p), (old), (new), 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)
#define fence_acq() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define fence_rel() __atomic_thread_fence(__ATOMIC_RELEASE)
#define fence_seq() __atomic_thread_fence(__ATOMIC_SEQ_CST)
/* A full fence directly behind a seq or relaxed read-modify-write. On x86 the locked instruction is
 * one. Elsewhere, and in the C11 model, an atomic access is no fence for other accesses: without
 * this, a later load may be executed before the new value is visible. */
#if defined(ARCH_RMW_IS_FENCE)
#define fence_after_rmw_seq() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#else
#define fence_after_rmw_seq() fence_seq()
#endif
/* The light side of os_membarrier(): stops the compiler, but not the CPU, from reordering. */
#define fence_light() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Add n to a counter that one thread writes and any thread may read: no locked instruction. */
#define bump(p, n) st_rlx((p), ld_rlx(p) + (n))

/* Add 1 to such a counter; subtract 1 with release order.  The compiler moves no access across
 * either.  One instruction each where the machine has it and the sanitizer need not see it. */
#if defined(ARCH_OWN_INC) && !defined(SAN_THREAD)
#define own_inc(p) ARCH_OWN_INC(p)
#define own_dec(p) ARCH_OWN_DEC(p)
#else
#define own_inc(p) (bump((p), 1), fence_light())
#define own_dec(p) (st_rel((p), ld_rlx(p) - 1), fence_light()) /* ORD(preempt) */
#endif

/* Raise *p to v, unless it is larger. */
#define raise_rlx(p, v)                                                                            \
	do {                                                                                       \
		__auto_type raise_v = (v);                                                         \
		__typeof__(raise_v) raise_was = ld_rlx(p);                                         \
                                                                                                   \
		while (raise_was < raise_v && !cas_rlx((p), &raise_was, raise_v))                  \
			;                                                                          \
	} while (0)

#endif
