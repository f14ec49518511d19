/* SPDX-License-Identifier: MIT */
/*
 * What does a C++ runtime keep in a thread that belongs to a green thread?
 *
 * The exceptions that it has caught and not yet done with, and how many are on their way: two words
 * in a thread-local, __cxa_eh_globals of the C++ ABI.  A green thread may wait in a catch block, or
 * in a destructor that an exception has brought about, and another may throw on the same thread
 * meanwhile.  So the words go with the green thread:
 *
 *   it leaves its stack, on g0, before anybody can claim it    words to the G (g_cxx), the thread's 0
 *   it is resumed                                              words to the thread
 *
 * Invariants
 *  X1 While a thread is on g0, its words are 0: a green thread that begins finds none.  What the
 *     thread had of its own (it may have called gmp_run in a catch block) is kept in its M.
 *  X2 Without a C++ runtime nothing of this is run: wait and yield go to g0 by a pointer (sched.park,
 *     sched.yield, set by park_init), and only with one it points to a step that looks.  With one, a
 *     green thread whose words are 0 is resumed as any other (RESUME_CXX).
 *  X3 libstdc++ is not linked with, nor is libc++abi: the symbol is a weak one, looked at once a run.
 */
#ifndef GMP_CXX_H
#define GMP_CXX_H

#include "base/base.h"

struct cxx_globals {
	void *caught;
	unsigned uncaught;
};

/* The calling thread's; NULL without a C++ runtime. */
struct cxx_globals *cxx_of_thread(void);

static inline bool cxx_any(const struct cxx_globals *x)
{
	return x->caught || x->uncaught;
}

/* Words of `from` to `to`; `from` is empty then. */
static inline void cxx_move(struct cxx_globals *to, struct cxx_globals *from)
{
	*to = *from;
	from->caught = NULL;
	from->uncaught = 0;
}

#endif
