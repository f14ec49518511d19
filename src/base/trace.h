/* SPDX-License-Identifier: MIT */
/*
 * Backtraces: the code addresses of a call chain. The lines of base/throw.h name them.
 *
 * The unwinder is called directly instead of by backtrace(), which would load it first. So there is
 * neither an allocation nor a lock.
 */
#ifndef GMP_TRACE_H
#define GMP_TRACE_H

#include "base/base.h"

enum { TRACE_MOST = 64 };

struct trace {
	/* input; 0: no condition */
	uintptr_t first;  /* start at the frame that resumes at this address */
	uintptr_t lo, hi; /* stop at a frame whose stack pointer is outside */
	/* result */
	int n;
	bool more;                /* the chain has more than TRACE_MOST frames */
	bool in_handler;          /* a signal arrived between two frames */
	uintptr_t pc[TRACE_MOST]; /* inside the call instruction of each frame; innermost first */
};

/* Set by a higher floor: the function that calls the entry functions of green threads. Backtraces
 * end before it. */
void trace_ends_at(uintptr_t fn);

/* Fill t with the frames above the caller. t->first, lo and hi are set. */
void trace_walk(struct trace *t);
/* Fill t with the frames from the frame that resumes at `first`; all frames if there is none. */
void trace_own(struct trace *t, uintptr_t first);
/* Fill t with the frames from the frame that resumes at `first`, without `skip` of them: continues
 * a backtrace that ended with `more`. No frames if `first` is not found. */
void trace_own_from(struct trace *t, uintptr_t first, int skip);

/* Return the start of the function at pc, or pc if it has no unwind table. */
uintptr_t trace_function(uintptr_t pc);

/* Call a function of the program in a call of the runtime.  It is the only call in here, so
 * trace_program_return finds it. */
void run_program(void (*fn)(void *), void *arg);
int run_program_child(int (*fn)(void *), void *arg);
int run_program_flight(int (*fn)(void *, void *), void *arg, void *value);
/*
 * From the frame that resumes at pc outwards: find the first frame of the runtime (is_runtimes).
 * Replaces the return address that leads there by `to` (0: leaves it) and returns true, if that
 * frame is run_program or the like, or the function of trace_ends_at; otherwise returns false.
 * Returns false, too, if the unwinder has not changed the saved address.  For a signal handler.
 */
bool trace_program_return(uintptr_t pc, bool (*is_runtimes)(uintptr_t pc), uintptr_t to);

/* The address at which the caller of the calling function resumes. */
#define trace_caller() ((uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)))

#endif
