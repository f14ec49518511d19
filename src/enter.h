/* SPDX-License-Identifier: MIT */
/*
 * Enter: what kind of thread calls, and how an external thread keeps the runtime's memory during a
 * call.
 */
#ifndef GMP_ENTER_H
#define GMP_ENTER_H

#include "types.h"

/* The M of the calling OS thread, if that runs one G (mode/thread.c); otherwise NULL. */
struct m *thread_m(void);

/* The calling G; NULL for an external thread and in blocking code. */
static inline struct g *self_green(void)
{
	struct m *m = getm();

	if (unlikely(!m))
		m = thread_m();
	return m ? m->curg : NULL;
}

/* The calling G, also in blocking code, where calls otherwise behave as on an external thread. */
static inline struct g *own_green(void)
{
	struct m *m = getm();

	if (unlikely(!m))
		m = gmp__blockedm();
	return m ? m->curg : NULL;
}

/*
 * Begin a pause: work of the runtime for GMP_DEBUG=check on the calling M.  A lookup of source
 * positions takes libdw many milliseconds and a thread, so mode/longrun.c must not count it as the
 * G's run. Returns the argument of run_resume: NULL without a P, or inside another pause.
 */
static inline struct p *run_pause(void)
{
	struct m *m = getm();
	struct p *pp = m ? m->p : NULL;

	if (!pp || pp->pauses & 1)
		return NULL;
	bump(&pp->pauses, 1);
	fence_light(); /* a signal of mode/longrun.c may come from here on */
	return pp;
}

static inline void run_resume(struct p *pp)
{
	if (!pp)
		return;
	fence_light();
	bump(&pp->pauses, 1);
}

/*
 * Defer pthread_cancel of an external thread, outside rt_enter, until cancel_release.  No effect on
 * an M: Ms are not cancelled.
 */
static inline void cancel_hold(void)
{
	if (unlikely(!getm()) && !thread_m())
		gmp__cancel_hold();
}

static inline void cancel_release(void)
{
	if (unlikely(!getm()) && !thread_m())
		gmp__cancel_release();
}

/*
 * Begin a call of an external thread that uses the runtime's memory.  Returns false if no run is
 * on. The end of a run waits for external threads inside, so pthread_cancel is deferred until
 * rt_leave.  No effect for Gs.
 */
static inline bool rt_enter(void)
{
	if (likely(getm() != NULL) || thread_m())
		return true;
	gmp__cancel_hold();
	add_seq(&sched.external, 1);        /* ORD(external): counted before the state is read */
	if (ld_seq(&sched.state) == RUN_ON) /* ORD(run): the runtime's memory is there */
		return true;
	sub_seq(&sched.external, 1); /* ORD(external) */
	gmp__cancel_release();
	return false;
}

static inline void rt_leave(void)
{
	if (unlikely(!getm()) && !thread_m()) {
		sub_seq(&sched.external, 1); /* ORD(external) */
		gmp__cancel_release();
	}
}

#endif
