/* SPDX-License-Identifier: MIT */
/*
 * Waiter: claim one, and collect the claimed in a list (the wait protocol: park.h; the states:
 * waiter_state.h).
 */
#ifndef GMP_WAITER_H
#define GMP_WAITER_H

#include "types.h"

/* The state word of a waiter whose wait returns `result`. */
#define CLAIMED_WITH(result) (WAITER_CLAIMED | (uint32_t) - (result) << WAITER_RESULT_SHIFT)

/*
 * Claim: win the right to wake w, with the result that its wait returns (0 or a negative errno).
 * Returns false if another thread has won.  Exactly one claim of a wait succeeds; only the winner
 * then readies w.  An external waiter returns only after WAITER_DONE, so its sudog lives until
 * ready().
 */
static inline bool waiter_claim(struct waiter *w, int result)
{
	uint32_t claimed = CLAIMED_WITH(result);

	for (;;) {
		uint32_t old = WAITER_ARMED;

		if (likely(cas_seq(&w->state, &old, claimed))) /* ORD(waiter.claim) */
			return true;
		if (old != WAITER_BUSY)
			return false;
		cpu_relax(); /* another thread inspects it: microseconds */
	}
}

/*
 * Hold w (WAITER_BUSY) for microseconds, to inspect it and its stack; claimers spin meanwhile.
 * Returns the state that it found.  Only if that is WAITER_ARMED the caller holds w, and must
 * release or claim it.
 */
static inline uint32_t waiter_hold(struct waiter *w)
{
	uint32_t state = WAITER_ARMED;

	cas_seq(&w->state, &state, WAITER_BUSY); /* ORD(waiter.claim) */
	return state;
}

static inline void waiter_release(struct waiter *w)
{
	st_rel(&w->state, WAITER_ARMED); /* ORD(waiter.claim) */
}

static inline int waiter_result(uint32_t state)
{
	return -(int)(state >> WAITER_RESULT_SHIFT);
}

/* --- lists of claimed waiters, and of Gs that they make runnable --- */

static inline void glist_push(struct glist *l, struct g *gp)
{
	gp->schedlink = NULL;
	if (l->tail)
		l->tail->schedlink = gp;
	else
		l->head = gp;
	l->tail = gp;
	l->n++;
}

/* Append the waiter of sg, which the caller has claimed and dequeued. */
static inline void glist_claimed(struct glist *l, struct sudog *sg)
{
	if (likely(sg->w->gp != NULL)) {
		glist_push(l, sg->w->gp);
		return;
	}
	sg->next = l->external;
	l->external = sg;
}

static inline struct g *glist_pop(struct glist *l)
{
	struct g *gp = l->head;

	if (!gp)
		return NULL;
	l->head = gp->schedlink;
	if (!l->head)
		l->tail = NULL;
	l->n--;
	return gp;
}

/* Prefetch the stack tops of a list.  The stacks are far apart, so each costs a page-table walk;
 * without a locked instruction in between the walks overlap. */
static inline void glist_prefetch(const struct glist *l)
{
	for (struct g *gp = l->head; gp; gp = gp->schedlink) {
		uintptr_t sp = (uintptr_t)gp->ctx.sp; /* 0: it has not begun */

		__builtin_prefetch((const void *)sp);
		__builtin_prefetch((const void *)(sp + CACHE_LINE));
	}
}

#endif
