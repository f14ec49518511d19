/* SPDX-License-Identifier: MIT */
/*
 * Join, detach: which thread frees the g struct of a G that has ended, by a word that joins it.
 *
 * The join word of a G (gp->join, enum joinstate) says which:
 *
 *   JOIN_DETACHED ── its own end frees it
 *   JOIN_JOINABLE ── gmp_detach ──> JOIN_DETACHED
 *      │  └───────── end ─────────> JOIN_DONE ── gmp_join or gmp_detach frees it ──> JOIN_DETACHED
 *      └─ gmp_join ──> joined ── end: claims the joiner, which frees it ──> JOIN_DETACHED
 *                        └────── timeout ──> JOIN_JOINABLE
 *
 * Invariants
 *  JOIN-1  The join word changes under the lock of its bucket in the parking table.  The table
 *          holds no queue for it: a G has one joiner at most, and the word is the address of its
 *          sudog.
 *  JOIN-2  JOIN_DONE is set on g0, so no thread frees a g struct whose stack is still in use.
 *  JOIN-3  Exactly one thread frees a g struct: the end of the G if the word is JOIN_DETACHED, the
 *          claimed joiner, or the first join or detach that finds JOIN_DONE.  Each leaves the word
 *          at JOIN_DETACHED: until the g struct is reused, a further join or detach is -EINVAL.
 */
#include "wait/join.h"

#include <errno.h>

#include "enter.h"
#include "g.h"
#include "park.h"
#include "proc.h"
#include "ready.h"
#include "spawn.h"
#include "variant/variant.h"
#include "wait/parkinglot.h"
#include "waiter.h"

_Static_assert(_Alignof(struct sudog) > JOIN_DONE, "no sudog has the address of a state");

/* With the lock of the word's bucket held.  If a joiner waits, claims it and then dequeues it
 * (park.h).  Returns true if the joiner gets the result. */
static bool wake_joiner(struct g *gp, int result, struct glist *out)
{
	uintptr_t join = ld_rlx(&gp->join);

	if (join <= JOIN_DONE)
		return false;
	struct sudog *sg = (struct sudog *)join;
	bool claimed = waiter_claim(sg->w, result);

	if (claimed)
		glist_claimed(out, sg);
	st_rlx(&gp->join, JOIN_DONE);
	st_rel(&sg->queued, false); /* ORD(sudog.queued) */
	return claimed;
}

void green_exited(struct g *gp)
{
	struct glist out = { 0 };
	struct bucket *b = lot_lock(&gp->join);
	bool detached = gp->join == JOIN_DETACHED;

	if (!detached) {
		bool joined = wake_joiner(gp, 0, &out);

		/* JOIN-3: a joiner that was claimed frees gp */
		st_rlx(&gp->join, joined ? JOIN_DETACHED : JOIN_DONE);
	}
	lot_unlock(b);
	if (detached)
		g_free(getp(), gp);
	ready_list(&out);
}

void green_release_joiner(struct g *gp)
{
	struct glist out = { 0 };
	struct bucket *b = lot_lock(&gp->join);

	wake_joiner(gp, -ESRCH, &out);
	lot_unlock(b);
	out.head = NULL; /* a green joiner is killed too */
	ready_list(&out);
}

static void join_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);

	if (!ld_acq(&sg->queued)) /* ORD(sudog.queued) */
		return;
	uintptr_t *join = (uintptr_t *)(uintptr_t)sg->key;
	struct bucket *b = lot_lock(join);

	if (sg->queued) {
		sg->queued = false;
		st_rlx(join, JOIN_JOINABLE);
	}
	lot_unlock(b);
}

static void commit_join(void *b)
{
	lot_unlock(b);
}

/* Waits for the end of gp, which is JOIN_JOINABLE.  Drops b's lock. */
static int join_wait(struct g *gp, struct bucket *b, int64_t deadline)
{
	struct external f;
	struct sudog *sg = self_sudog(&f);

	sched_run_next(gp);
	sg->key = &gp->join;
	st_rlx(&sg->queued, true);
	st_rlx(&gp->join, (uintptr_t)sg);
	return wait_on(sg->w, WAIT_JOIN, join_unwait, commit_join, b, deadline);
}

/* Frees gp on behalf of the joiner or of gmp_detach. */
static void free_ended(struct g *gp)
{
	struct m *m = getm();

	g_free(likely(m != NULL) && p_hold(m) ? m->p : NULL, gp);
	if (likely(m != NULL))
		p_drop(m);
}

static int join_until(struct g *gp, int64_t deadline)
{
	struct bucket *b = lot_lock(&gp->join);
	bool joinable = gp->join == JOIN_JOINABLE;
	int result = joinable ? too_late(deadline) : gp->join == JOIN_DONE ? 0 : -EINVAL;

	if (joinable && !result) {
		result = join_wait(gp, b, deadline);
	} else {
		if (!result) /* it was JOIN_DONE */
			st_rlx(&gp->join, JOIN_DETACHED);
		lot_unlock(b);
	}
	if (result == 0)
		free_ended(gp);
	return result;
}

int gmp_join_until(gmp_g *g, int64_t deadline)
{
	chaos_point();
	if (!g)
		return -EINVAL;
	if ((struct g *)g == own_green()) /* also in blocking code */
		return -EDEADLK;
	if (!rt_enter())
		return -ESRCH;
	int result = join_until((struct g *)g, deadline);

	rt_leave();
	return result;
}

int gmp_join(gmp_g *g)
{
	return gmp_join_until(g, NEVER);
}

int gmp_detach(gmp_g *g)
{
	struct g *gp = (struct g *)g;
	int result = 0;

	if (!g)
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	struct bucket *b = lot_lock(&gp->join);
	bool over = gp->join == JOIN_DONE;

	if (gp->join == JOIN_JOINABLE)
		st_rel(&gp->join, JOIN_DETACHED); /* ORD(join): its end reads this unlocked */
	else if (over)
		st_rlx(&gp->join, JOIN_DETACHED);
	else
		result = -EINVAL;
	lot_unlock(b);
	if (over)
		free_ended(gp);
	rt_leave();
	return result;
}
