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

/* Somebody waits for a descriptor, and no M sleeps in the poller; ask the kernel without waiting. */
bool sched_should_poll(void);
void sched_poll_now(void);

int64_t sched_earliest_timer(void);

/* The last that is heard of a green thread. */
int sched_exit_g0(void *gp);

/* gp, on whose thread the caller is, leaves its stack: what a C++ runtime has there goes with it. */
static inline void sched_leave_cxx(struct m *m, struct g *gp)
{
	if (unlikely(m->cxx && cxx_any(m->cxx))) {
		cxx_move(g_cxx(gp), m->cxx);
		gp->turn |= RESUME_CXX;
	}
}

/* Ask the green thread that runs on pp to yield at its next checkpoint. */
void sched_ask_yield(struct p *pp);

/* --- for idle.c, pin.c and handoff.c --- */

/* Ask the kernel, and wait for ns at most. */
void sched_poll(int64_t ns, struct glist *out);

/* The M has got a P by another way than its search: look for a green thread, from the base of g0 (SCHED-9
 * of sched.c). */
leaves_by_jump int restart_search_g0(struct m *m);

/* SCHED-9, for debug checks.  Returns true if less than 4 KiB of g0 is in use at the caller's frame, on the
 * M's g0. */
static inline bool is_near_base(struct m *m)
{
	return (uintptr_t)m->g0 - (uintptr_t)__builtin_frame_address(0) < 4096;
}

/* Step 3 of a bound G's turn: gp goes on, on its m. */
leaves_by_jump int resume_bound_g0(struct m *m, struct g *gp);

#endif
