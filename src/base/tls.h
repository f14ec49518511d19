/* SPDX-License-Identifier: MIT */
/*
 * Which M runs this code?
 *
 * A green thread may go to sleep on one thread and wake on another.  Compilers keep the address of
 * a thread-local in a register across calls, and the switch restores that register faithfully: the
 * code would go on with the former thread's variable.  So thread-locals live in this header and
 * tls.c alone, and are read by opaque accessors: an asm that the compiler can neither cache nor
 * move past another volatile access, or, on other machines, a function it cannot see into.
 */
#ifndef GMP_TLS_H
#define GMP_TLS_H

#include "base/base.h"

struct m;

/* initial-exec: one load from %fs, also from the shared library */
extern _Thread_local struct m *gmp__tls_m __attribute__((tls_model("initial-exec")));

static inline struct m *getm(void)
{
#if defined(__x86_64__)
	struct m *m;

	__asm__ volatile("movq gmp__tls_m@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(m));
	return m;
#else
	struct m *gmp__getm(void);

	return gmp__getm();
#endif
}

void gmp__setm(struct m *m);

/* In blocking code (blocking.c) getm() is NULL, so that every call behaves as on an external thread; the M
 * is found here. */
struct m *gmp__blockedm(void);
/* From the one to the other: m's green thread is in blocking code now, or not any more. */
void gmp__setm_blocked(struct m *m);
void gmp__setm_unblocked(struct m *m);

/* The locals of an external thread: see fls.c. */
struct locals;
struct locals *gmp__foreign_locals(void);
void gmp__set_foreign_locals(struct locals *l);

/* What an external thread does once at present, the innermost first: see sync/once.c. */
struct cleanup;
struct cleanup *gmp__foreign_cleanups(void);
void gmp__set_foreign_cleanups(struct cleanup *c);

/*
 * Around code that pthread_cancel must not end in the middle, since it holds a count, a lock or a place in a
 * queue: a request that comes meanwhile stays pending. Pairs nest; they belong to the thread, so none of them
 * encloses a switch to another thread.
 */
void gmp__cancel_hold(void);
void gmp__cancel_release(void);

/* Where this thread has the runtime's own thread-locals: for debug/tlsleak.c, which leaves them out. */
enum { OWN_LOCALS = 6 };
struct own_local {
	const void *at;
	size_t size;
};
int gmp__own_locals(struct own_local *own);

#ifdef GMP_DEBUG_CHECKS
/* The ranks of the locks that this thread holds, innermost last; see lock.h. */
struct held_locks {
	int n;
	unsigned char rank[16];
	const void *last; /* the innermost; NULL: not known */
};
struct held_locks *gmp__held_locks(void);
#endif

#endif
