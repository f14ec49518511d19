/* SPDX-License-Identifier: MIT */
/*
 * Thread-locals of the runtime: the current M, and data of external threads.
 *
 * Invariant
 *   TLS-1  Only this header and tls.c have thread-locals, and only opaque accessors read them: an
 *          asm that the compiler can neither cache nor move past another volatile access, or a
 *          function that it cannot inline.
 *   TLS-2  In the block of a green thread with own thread-locals (machine/tlsblock.h), tls_host is
 *          the thread pointer of the OS thread that runs it, and gmp__tls_m its M. What belongs to
 *          the OS thread (the ring of trace events, the locks held) is found by tls_host.
 *
 * A green thread may park on one OS thread and continue on another. A compiler keeps the address of
 * a thread-local in a register across calls, and the switch restores that register. Without TLS-1
 * the code would then use the variable of the former OS thread.
 */
#ifndef GMP_TLS_H
#define GMP_TLS_H

#include "base/base.h"

struct m;

/* initial-exec: one load relative to the thread pointer, also in the shared library. */
extern _Thread_local struct m *gmp__tls_m __attribute__((tls_model("initial-exec")));

static inline struct m *getm(void)
{
	struct m *m;

	arch_getm(m);
	return m;
}

void gmp__setm(struct m *m);

/* Return the M whose green thread is in blocking code on this OS thread (wait/blocking.c), or NULL.
 * There getm() is NULL, so that each call behaves as on an external thread. */
struct m *gmp__blockedm(void);
/* The green thread of m enters blocking code; it leaves it. */
void gmp__setm_blocked(struct m *m);
void gmp__setm_unblocked(struct m *m);

/* Return the M of the calling thread if that has left the runtime (variant/abandon.h), or NULL. Set
 * it; getm() is NULL from then on. */
struct m *gmp__abandonedm(void);
void gmp__setm_abandoned(struct m *m);

/* The thread pointer of the OS thread, if a block of a green thread is loaded; otherwise NULL.
 * Async-signal-safe. gmp__forget_host: the child of a fork, whose only thread has that block. */
void *gmp__tls_host(void);
void gmp__forget_host(void);
/* Where gmp__tls_m and the host are, from the thread pointer. */
void gmp__tls_offsets(ptrdiff_t *m, ptrdiff_t *host);

/* Where the green-thread locals of an external thread are: see wait/fls.c. */
struct locals;
struct locals **gmp__external_locals(void);

/* The gmp_once_do calls that an external thread is in, the innermost first: see wait/once.c. */
struct cleanup;
struct cleanup *gmp__external_cleanups(void);
void gmp__set_external_cleanups(struct cleanup *c);

/* The ring that this OS thread emits trace events to, and the session for which it has it: see
 * base/emit.h. */
struct ring;
struct ring_ref {
	struct ring *ring;
	uint32_t session; /* 0: none */
};
struct ring_ref *gmp__ring_ref(void);

/*
 * Defer pthread_cancel around code that holds a count, a lock or a place in a queue: a request
 * stays pending until the release. Pairs nest. They belong to the OS thread, so a pair must not
 * enclose a switch to another OS thread.
 */
void gmp__cancel_hold(void);
void gmp__cancel_release(void);
/* On an M, before a call on g0 that is a cancellation point: a green thread may have enabled the
 * cancellation of its OS thread, and a request that acts on g0 would end the M silently. */
void gmp__cancel_renew(void);

/* The clocks of the CPU time of a green thread: posix/call/cputime.c. In ns. */
enum cpu_clock_kind { CPU_CLOCK, CPU_USAGE, CPU_CLOCKS };
struct cpu_times {
	int64_t all;          /* of CPU_CLOCK */
	int64_t user, system; /* of CPU_USAGE */
};
struct cpu_clock {
	struct cpu_times last, offset;
	int tid; /* the OS thread that offset is for; 0: the thread does not use the clock */
};

/*
 * What libgmprt_posix keeps of signals for the calling thread.  It is in the block of a green
 * thread with own thread-locals, and moves with it; otherwise it is the OS thread's.
 *
 * Only that thread, and handlers that interrupt it, read and write it.  So no field needs a lock or
 * an atomic access.
 *
 * field            written by                               read by
 * low, high        trampoline, around the program's         handler_runs: the caller runs on the
 *                  handler; vfork.c clears them             stack between: it must not park
 * mask, has_mask   mask.c, by pthread_sigmask and at the    mask.c; trampoline (RECEIVER-10)
 *                  start of a thread; fork: has_mask
 * receiver         receiver.c, under its lock               receiver.c, without; trampoline
 * ours             faultsig.c and the signal thread, at     trampoline: a signal that is blocked
 *                  their start                              goes to the process; mask.c
 * ran, restarts    the end of a wait and the start of a     that wait or call: EINTR, or again
 *                  call reset them; trampoline
 * holds            signals_hold, signals_release            trampoline: SIGTAB-7
 * deferred         trampoline; signals_release clears it    signals_release
 * alternate...     altstack.c, by sigaltstack               the same
 * before_child     vfork.c, in the parent before the child  vfork.c, after it
 * cpu              cputime.c, also at the ends of waits     cputime.c
 * changed          rights.c, also in its handler            rights.c
 */
struct receiver;
struct signal_state {
	uintptr_t low, high;       /* the stack of the handler that runs; high 0: none has run */
	uint64_t mask;             /* of a green thread with own thread-locals, with has_mask */
	struct receiver *receiver; /* NULL: none, or the main one */
	bool has_mask;
	bool ours;          /* the OS thread is an M, or was made by libgmprt_posix */
	bool ran, restarts; /* handlers since the reset; all with SA_RESTART */
	uint32_t holds;     /* sections in which signals are deferred */
	uint64_t deferred;  /* signals that came in such a section: the OS thread blocks them */
	/* of a green thread with own thread-locals; size 0: nothing is set */
	void *alternate;
	size_t alternate_size;
	int alternate_flags;
	uint64_t before_child; /* the OS thread's mask */
	struct cpu_clock cpu[CPU_CLOCKS];
	uint32_t changed; /* of an OS thread: the last change of rights that it has made */
};
struct signal_state *gmp__signal_state(void);

/* Fill own with the addresses of the runtime's thread-locals on this OS thread, for
 * observe/check/tlsleak.c, which ignores them. Returns their number. */
enum { OWN_LOCALS = 10 };
struct own_local {
	const void *at;
	size_t size;
};
int gmp__own_locals(struct own_local *own);

#ifdef GMP_DEBUG_CHECKS
/* The locks that this OS thread holds; see lock.h. */
struct held_locks {
	int n;                  /* may exceed the size of rank */
	unsigned char rank[16]; /* innermost last */
	const void *last;       /* the innermost; NULL: not known */
};
struct held_locks *gmp__held_locks(void);
#endif

#endif
