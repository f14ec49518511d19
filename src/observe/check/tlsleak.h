/* SPDX-License-Identifier: MIT */
/*
 * Stale addresses of thread-locals: finds addresses that a green thread keeps across a migration.
 *
 * A compiler takes the address of a thread-local once in a function and keeps it, in a register or
 * on the stack, across calls that may wait. While a green thread is parked, all its kept values are
 * on its stack; the registers are at the lowest addresses (struct context_frame). So when it
 * continues on another OS thread, each word of its stack is checked: a word is stale if it is an
 * address among the thread-locals of the former OS thread.
 *
 *   found           addresses of thread-locals of the program and of the libraries that it was
 *                   started with, and of errno; also addresses inside a variable
 *   not found       thread-locals of libraries loaded later; addresses that are kept in the heap;
 *                   addresses past the end of a variable
 *   false positive  a word that is never read again, left by an earlier call in an unused part of a
 *                   frame
 *
 * Invariant
 *   TLSLEAK-1  The distance of a thread-local from pthread_self() is the same on each OS thread, if
 *              its module was loaded at the start. So the distances on a new OS thread hold for
 *              all.
 */
#ifndef GMP_TLSLEAK_H
#define GMP_TLSLEAK_H

#include "base/throw.h"
#include "types.h"

/* The thread-locals of a program or library. */
struct tls_module {
	ptrdiff_t at; /* from pthread_self(): TLSLEAK-1 */
	size_t size;
	uintptr_t there; /* an address in the object itself */
	bool programs;   /* of the program, or of a library that is not the system's */
	char name[32];   /* of the object; "" for the program */
};
/* Set *modules to those of the program and of the libraries that it was started with. Returns their
 * number. */
int tlsleak_modules(const struct tls_module **modules);
/* Return whether a thread-local of the runtime contains the byte at this distance from
 * pthread_self(). */
bool tlsleak_is_own(ptrdiff_t at);

/* Start and end of a run. Returns 0, -ENOMEM or -EAGAIN. */
int tlsleak_begin(void);
void tlsleak_end(void);

/* On g0: gp leaves its stack. A pinned or bound G is not observed: it continues on this OS thread.
 */
void tlsleak_leave(struct g *gp);
/* On g0: gp is about to continue on this OS thread. Appends the name of the first stale
 * thread-local to l. Returns false if there is none, or gp has not migrated. */
bool tlsleak_find(struct g *gp, struct line *l);

#endif
