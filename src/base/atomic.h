/* SPDX-License-Identifier: MIT */
/*
 * Which order does an atomic access have?  Its name says so: rlx, acq, rel, or seq for both and a
 * place in the one total order.  Every access that is not rlx carries a tag, ORD(name), that
 * stands at its partner too and is explained in docs/internals/memory-order.md.
 *
 * They work on plain fields: a field that is shared is marked (a) where it is declared.
 */
#ifndef GMP_ATOMIC_H
#define GMP_ATOMIC_H

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
/* compare-and-swap: *old is updated on failure; strong, since loops are written out */
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
/* keeps the compiler from moving accesses; the CPU may: the light side of os_membarrier() */
#define fence_light() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* Of a word that is looked at and then exchanged: its cache line, to write.  The look alone would have it
 * shared, and the exchange come for it again. */
#if defined(__x86_64__)
#define fetch_own(p) __asm__ volatile("prefetchw %0" : : "m"(*(p)))
#else
#define fetch_own(p) __builtin_prefetch((p), 1)
#endif

/* A counter that one thread writes and any may read: no locked instruction. */
#define bump(p, n) st_rlx((p), ld_rlx(p) + (n))

#endif
