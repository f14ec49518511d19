/* SPDX-License-Identifier: MIT */
/*
 * Which green thread runs next, and where?
 *
 * Every function that ends in _g0 runs on a thread's own stack and does not come back: it ends in
 * a jump into a green thread, or out of the scheduler.
 */
#ifndef GMP_SCHED_H
#define GMP_SCHED_H

#include "types.h"

/* Let the calling thread serve as m until the runtime stops. */
void mstart(struct m *m);

/* The M has nothing on it: find a green thread and go on with it. */
int schedule_g0(void);

/* Final scheduler step of an exiting G. */
int sched_exit_g0(void *gp);
/* gp leaves blocking code and has no P: it is queued, and the M waits for a P. */
int sched_without_p_g0(void *gp);
/* End the calling green thread, on its stack: exit hooks, then sched.exit on g0. */
void sched_exit(void) __attribute__((noreturn));

/* gp, on whose thread the caller is, leaves its stack: what a C++ runtime has there goes with it. */
static inline void sched_leave_cxx(struct m *m, struct g *gp)
{
	if (unlikely(m->cxx && cxx_any(m->cxx))) {
		cxx_move(g_cxx(gp), m->cxx);
		gp->resume |= RESUME_CXX;
	}
}

/* Ask the green thread that runs on pp to yield at its next checkpoint. */
void sched_ask_yield(struct p *pp);

/* SCHED-9, for debug checks.  Returns true if less than 4 KiB of g0 is in use at the caller's frame, on the
 * M's g0. */
static inline bool is_near_base(struct m *m)
{
	return (uintptr_t)m->g0 - (uintptr_t)__builtin_frame_address(0) < 4096;
}

#endif
