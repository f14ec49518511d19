/* SPDX-License-Identifier: MIT */
/*
 * Which calls have led here?  Addresses only; the lines of base/throw.h name them.
 *
 * The unwinder is called directly, and not through backtrace(), which loads it first: so there is
 * neither an allocation nor a lock here.
 */
#ifndef GMP_TRACE_H
#define GMP_TRACE_H

#include "base/base.h"

enum { TRACE_MOST = 64 };

struct trace {
	/* what to look for; 0: not asked for */
	uintptr_t first;  /* begin with the frame that goes on here */
	uintptr_t lo, hi; /* give up on a frame whose stack pointer is outside */
	/* what was found, the innermost first */
	int n;
	bool more;                /* it went on */
	bool in_handler;          /* a signal has come between two of them */
	uintptr_t pc[TRACE_MOST]; /* an address inside the instruction that the frame is at */
};

/* Set by a higher floor: the function that all green threads' entries are called by.  It is not shown,
 * nor is what stands above it. */
void trace_ends_at(uintptr_t fn);

/* Fill t with the frames that stand above the caller. */
void trace_walk(struct trace *t);
/* The same from the frame that goes on at `first`; all, where it is not found. */
void trace_own(struct trace *t, uintptr_t first);
/* The same without its first `skip` frames: it continues a walk that ended with `more`. No frames, if `first` is not
 * found. */
void trace_own_from(struct trace *t, uintptr_t first, int skip);

/* Where the function at pc begins; pc, if there is no unwind table for it. */
uintptr_t trace_function(uintptr_t pc);

/* Where the caller of the calling function goes on. */
#define trace_caller() ((uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)))

#endif
