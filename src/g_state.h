/* SPDX-License-Identifier: MIT */
/* G state: the states of a G, and the bits that ask for work at its next switch and at its end. */
#ifndef GMP_G_STATE_H
#define GMP_G_STATE_H

#include "base/base.h"

enum gstatus {
#define GSTATUS(name, text, edges) name,
#include "gstatus.def"
#undef GSTATUS
};

enum { G_NAME_MAX = 64 };

/*
 * g.resume: work of the next switch to the G.  Any bit sends the switch to the slow path
 * (sched.c: begin_g0, resume_slow_g0).  Written by the owner of the G only, so never stale.
 */
enum {
	/* The wait has a deadline, so its timer may be armed.  Set by park_g0, cleared by
	 * end_wait_g0. */
	RESUME_TIMED = 1 << 0,
	/* Only its own M may run it (PIN-1).  Set and cleared by gmp_lock_thread and its
	 * inverse. */
	RESUME_BOUND = 1 << 1,
	/* It has exception state of a C++ runtime on its stack, see machine/cxx.h.  Set by
	 * sched_leave_cxx, cleared by end_wait_g0. */
	RESUME_CXX = 1 << 2,
	/* It runs only on one M, which runs others too (PIN-2).  Set by gmp_pin and for GMP_PINNED,
	 * cleared by gmp_unpin. */
	RESUME_PINNED = 1 << 3,
	/* Call sched.up.on_arrive once.  Set by observe/, cleared by resume_slow_g0. */
	RESUME_OBSERVED = 1 << 4,
	/* Made by gmp_go and has not run, so that only the run queue has a pointer to it (G-3).
	 * Set by gmp_go, cleared by begin_g0. */
	RESUME_UNSHARED = 1 << 5,
	/* The time since ready_at must be recorded: observe/latency.h, which sets and clears it. */
	RESUME_MEASURED = 1 << 6,
	/* It has thread-locals of its own: variant/owntls.h.  Set at the spawn or the first run,
	 * never cleared. */
	RESUME_OWN_TLS = 1 << 7,
};

/* g.at_end: work of the G's end.  Set by the G's M, cleared when the work is done. */
enum {
	AT_END_LOCALS = 1 << 0,    /* it has locals: sched.up.locals_end */
	AT_END_TIMER_RUN = 1 << 1, /* a timer started it: sched.up.timer_run_end */
	AT_END_OWN_TLS = 1 << 2,   /* destructors of its own thread-locals: owntls_end */
};

/* A function that runs on the G's stack when it ends, also by gmp_exit. */
struct cleanup {
	struct cleanup *next;
	void (*fn)(void *arg);
	void *arg;
};

/* The unit of `born`: 17 ms; it wraps after two years. */
enum { BORN_SHIFT = 24 };

static inline uint32_t g_born_at(int64_t ns)
{
	return (uint32_t)((uint64_t)ns >> BORN_SHIFT);
}

/* What a P keeps for new Gs. */
enum { GFREE_CACHE = 64 };
struct gcache {
	uint32_t n;
	uint64_t id_next, id_end;
	struct g *free[GFREE_CACHE]; /* free g structs, LIFO */
};

#endif
