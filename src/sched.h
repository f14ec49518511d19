/* SPDX-License-Identifier: MIT */
/*
 * Which green thread runs next, and where?
 *
 * Every function that ends in _g0 runs on a thread's own stack and does not come back: it ends in
 * a jump into a green thread, or out of the scheduler.
 */
#ifndef GMP_SCHED_H
#define GMP_SCHED_H

#include "base/os.h"
#include "runtime.h"

/* Let the calling thread serve as m until the runtime stops. */
void mstart(struct m *m);

/* The M has nothing on it: find a green thread and go on with it. */
int schedule_g0(void);

/* There is work that another P could take: see that one looks for it. */
void wakep(void);

/* The cheap side of a pair whose other side is os_membarrier: no instruction, where that works. */
static inline void sched_light_fence(void)
{
	if (likely(sched.asymmetric))
		fence_light();
	else
		fence_seq(); /* ORD(idle), ORD(cancel) */
}

/* The other side. */
static inline void sched_heavy_fence(void)
{
	if (likely(sched.asymmetric))
		os_membarrier();
	else
		fence_seq(); /* ORD(idle), ORD(cancel) */
}

/* Cheap guard of wakep, for a P that has just put something where thieves may take it. */
static inline void wake_if_idle(void)
{
	sched_light_fence(); /* ORD(idle): see "waking" in sched.c */
	if (likely(ld_rlx(&sched.npidle) == 0))
		return;
	fence_seq(); /* ORD(idle): who ends its search has no heavy fence for us */
	if (ld_rlx(&sched.nmspinning) == 0)
		wakep();
}

/* Make it runnable: as this P's next, at its ring's tail, or, from a foreign thread, globally. */
void sched_submit(struct g *gp, bool next);
/* All of a list, foreign threads too: at the tail. */
void sched_submit_list(struct glist *list);
void sched_wake_foreign(struct waiter *w);

/* Somebody waits for a descriptor, and no M sleeps in the poller; ask the kernel without waiting. */
bool sched_should_poll(void);
void sched_poll_now(void);

/* The last that is heard of a green thread. */
int sched_exit_g0(void *gp);

/* Nothing can run, as far as the scheduler knows: looked at under its lock. */
bool sched_stalled_locked(void);

bool sched_all_idle(void);
/* Nothing runs, and nobody waits for a descriptor or is in blocking code: only time can go on. */
bool sched_only_time(void);
int64_t sched_earliest_timer(void);

/* Ms do not block these signals (bit signo - 1): the caller's at once, others from their next turn on. */
void sched_admit(uint64_t signals);

/* The green thread on m runs there only, from now on and not any more (D5). */
void sched_pin(struct m *m);
void sched_unpin(struct m *m);

/* The green thread on m and its thread belong together from now on (D4): -EAGAIN if no thread would
 * be left for the others, or for those that are pinned to it. */
int sched_bind(struct m *m);
void sched_unbind(struct m *m);

/* A P whose M cannot keep it (it is bound, or in blocking code) and which belongs to the caller: it
 * goes to an M that is asleep, or to a new one; or to rest, if there is nothing to do for it, or
 * nobody. */
void sched_hand_off(struct p *pp, bool blocked);
/* The M of a G in blocking code whose P was taken: that P or another, if one is idle. */
bool sched_regain_p(struct m *m);
/* On g0: else the G waits for its turn in the global queue, and the M sleeps. */
int sched_without_p_g0(void *gp);

/* gp, on whose thread the caller is, leaves its stack: what a C++ runtime has there goes with it. */
static inline void sched_leave_cxx(struct m *m, struct g *gp)
{
	if (unlikely(m->cxx && cxx_any(m->cxx))) {
		cxx_move(g_cxx(gp), m->cxx);
		gp->turn |= TURN_CXX;
	}
}

/* Tell every M to leave. */
void sched_stop(void);
/* Ask the green thread that runs on pp to yield at its next checkpoint. */
void sched_ask_yield(struct p *pp);

#endif
