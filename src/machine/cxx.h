/* SPDX-License-Identifier: MIT */
/*
 * C++ exception state: moves the two words of __cxa_eh_globals between OS thread and green thread.
 *
 * A C++ runtime keeps in a thread-local the list of caught exceptions that are not finished, and
 * the number of exceptions in flight.  A green thread may wait in a catch block, or in a
 * destructor that runs during unwinding, while another one throws on the same OS thread.  So the
 * words move with the green thread:
 *
 *   it has left its stack, on g0, before any waker can claim it    words to the G (g_cxx), the
 *                                                                  thread's become 0
 *   it is resumed                                                  words to the thread
 *
 * Invariants
 *  CXX-1  While an OS thread is on g0, its words are 0, so a new green thread starts with none.
 *         The words that the thread had before (gmp_run may be called in a catch block) are kept
 *         in its M.
 *  -      Without a C++ runtime none of this code runs: wait and yield reach g0 through a pointer
 *         (sched.leave, set by leave_init), which leads to a step that checks the words
 *         only with a C++ runtime.  A green thread whose words are 0 is resumed without this check
 *         (RESUME_CXX is clear).
 *  CXX-3  gmp is linked with neither libstdc++ nor libc++abi: the symbol is weak, and read once a
 *         run.
 */
#ifndef GMP_CXX_H
#define GMP_CXX_H

#include "base/base.h"

struct cxx_globals {
	void *caught;
	unsigned uncaught;
};

/* Returns the words of the calling thread; NULL without a C++ runtime. */
struct cxx_globals *cxx_of_thread(void);

static inline bool cxx_any(const struct cxx_globals *x)
{
	return x->caught || x->uncaught;
}

/* Moves the words of `from` to `to`, and clears `from`. */
static inline void cxx_move(struct cxx_globals *to, struct cxx_globals *from)
{
	*to = *from;
	from->caught = NULL;
	from->uncaught = 0;
}

#endif
