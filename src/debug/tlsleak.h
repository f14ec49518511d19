/* SPDX-License-Identifier: MIT */
/*
 * Does a green thread that has moved hold the address of a thread-local of the thread that it has left?
 *
 * A compiler takes the address of a thread-local once in a function and keeps it, in a register or on the
 * stack, past calls that may wait.  While a green thread is parked all that it keeps lies on its stack, the
 * registers below everything else (struct context_frame).  So when it comes up on another thread, each
 * word there is looked at that lies among the thread-locals of the former one.
 *
 *  found      what the program and the libraries that came with it have of thread-locals, errno too
 *  not found  what a library has that was loaded later; an address that is nowhere on the stack (in the
 *             heap; behind a pointer into the middle of a variable it is found, behind one past the end not);
 *             a variable that is reached without its address being kept: that is no fault
 *  in vain    a word that nobody will read any more: left in a frame's unused part by an earlier call
 *
 * Invariants
 *  A1 A thread-local of a module that came with the program lies as far from pthread_self() in each
 *     thread: what a thread without a past says of itself holds for all.
 */
#ifndef GMP_TLSLEAK_H
#define GMP_TLSLEAK_H

#include "base/throw.h"
#include "types.h"

/* The thread-locals of a program or library. */
struct tls_module {
	ptrdiff_t at; /* from pthread_self(): A1 */
	size_t size;
	uintptr_t there; /* an address in the object itself */
	bool programs;   /* the program's, or that of a library that is none of the system's */
	char name[32];   /* of the object; "" for the program */
};
/* Of the program and of the libraries that it was started with. */
int astray_modules(const struct tls_module **modules);
/* Is this place, from pthread_self(), one of the runtime's own thread-locals? */
bool astray_is_own(ptrdiff_t at);

/* 0, or -ENOMEM, -EAGAIN. */
int astray_begin(void);
void astray_end(void);

/* gp leaves its stack, on this thread, on which alone it goes on if it is pinned or bound. */
void astray_leave(struct g *gp);
/* It goes on on this one.  Appends what it holds of the former one's to l; false: nothing, or it has not
 * moved. */
bool astray_find(struct g *gp, struct line *l);

#endif
