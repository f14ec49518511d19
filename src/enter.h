/* SPDX-License-Identifier: MIT */
/*
 * Enter: what kind of thread calls, and how an external thread keeps the runtime's memory during a
 * call.
 */
#ifndef GMP_ENTER_H
#define GMP_ENTER_H

#include "types.h"

/* self_m, if getm() is NULL.  Does not return to a thread that has left the runtime
 * (variant/outside.c). */
struct m *self_m_slow(void);

/* The M of the calling G, also if that is an OS thread (getm() is NULL then); NULL for an external
 * thread and in blocking code. */
static inline struct m *self_m(void)
{
	struct m *m = getm();

	return likely(m != NULL) ? m : self_m_slow();
}

/* The calling G; NULL for an external thread and in blocking code. */
static inline struct g *self_green(void)
{
	struct m *m = self_m();

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

/* --- P sections: monitor/preempt.h has the protocol --- */

/* Has sysmon asked for the P of m, the caller's M, or taken it?  After a compiler barrier a plain
 * read is as good as an atomic one, and an instruction less. */
static inline bool p_is_asked(const struct m *m)
{
#ifdef SAN_THREAD
	return ld_rlx(&m->taken) != P_KEPT;
#else
	return m->taken != P_KEPT;
#endif
}

/* End a request of sysmon for the P of m, since the G of m leaves its stack or its run ends
 * otherwise.  Returns true if m keeps its P, false if the P was taken. */
bool m_end_request(struct m *m);
/* Steps 3 and 4 of monitor/preempt.h for an M in a P section: the same, but the request stays, and
 * an M that has just begun its outermost section gives its P up. */
bool m_defer_request(struct m *m);

/*
 * Begin a P section of m, the caller's M: until p_drop the P is not taken.  Returns false if it was
 * taken, or if m has just given it up: the caller then acts as a thread without a P, and calls
 * p_drop too.  Sections nest.  A section must not enclose a wait or a call into the program.  The
 * caller of an outermost section holds no lock that is listed after LR_SCHED.
 */
static inline bool p_hold(struct m *m)
{
	own_inc(&m->inside);
	fence_light(); /* ORD(preempt): before `taken` is read */
	return likely(!p_is_asked(m)) || m_defer_request(m);
}

/* The same for a caller that ends the run of its G by itself: it does not give the P up. */
static inline bool p_hold_last(struct m *m)
{
	own_inc(&m->inside);
	fence_light(); /* ORD(preempt) */
	return likely(!p_is_asked(m)) || m_end_request(m);
}

static inline void p_drop(struct m *m)
{
	own_dec(&m->inside); /* ORD(preempt): after the last use of the P */
}

/* The same for any thread.  Returns the P; NULL also for an external thread, in blocking code, and
 * for an M that is stopping. */
static inline struct p *hold_p(void)
{
	struct m *m = getm();

	return likely(m != NULL) && p_hold(m) ? m->p : NULL;
}

static inline void drop_p(void)
{
	struct m *m = getm();

	if (likely(m != NULL))
		p_drop(m);
}

/*
 * Defer pthread_cancel of an external thread, outside rt_enter, until cancel_release.  No effect on
 * an M: Ms are not cancelled.
 */
static inline void cancel_hold(void)
{
	if (unlikely(!self_m()))
		gmp__cancel_hold();
}

static inline void cancel_release(void)
{
	if (unlikely(!self_m()))
		gmp__cancel_release();
}

/*
 * Begin a call of an external thread that uses the runtime's memory.  Returns false if no run is
 * on.  The end of a run waits for external threads inside, so pthread_cancel is deferred until
 * rt_leave.  No effect for Gs.
 */
static inline bool rt_enter(void)
{
	if (likely(self_m() != NULL))
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
	if (unlikely(!self_m())) {
		sub_seq(&sched.external, 1); /* ORD(external) */
		gmp__cancel_release();
	}
}

#endif
