/* SPDX-License-Identifier: MIT */
/*
 * Once: the first caller runs a function, the others wait until it has returned.
 *
 * Invariants
 *  O1 NEW -> RUNNING by one compare-and-swap; its winner runs fn.
 *  O2 RUNNING -> WAITED under the bucket lock, together with the enqueueing.  WAITED may stay set
 *     although no waiter is queued: a waiter that gives up touches only the queue.
 *  O3 DONE is the last touch: a caller that reads it may free the object.  From WAITED it is set under the
 *     bucket lock, and the waiters are claimed after it, by the address alone.
 *  O4 A green thread that ends in fn (gmp_exit) has done it: the end runs `finish` (struct cleanup).
 *     One that the end of the run drops in fn has not, and never will: it stays RUNNING, as what is
 *     held stays held.
 *  O5 Callers look for DONE themselves (gmp.h), so its value never changes.
 *  O6 pthread_cancel takes effect after fn has returned: a thread that ended in fn would leave RUNNING.
 */
#define GMP_NO_INLINE 1

#include "base/os.h"
#include "base/throw.h"
#include "mode/chaos.h"
#include "parkinglot.h"
#include "sync/sync.h"

enum { NEW, RUNNING, WAITED, DONE = GMP_ONCE_DONE_ };

static void finish(void *arg)
{
	gmp_once *o = arg;
	struct glist out = { 0 };
	uint32_t s = RUNNING;

	st_rlx(&o->owner, 0);
	if (likely(cas_rel(&o->state, &s, DONE))) /* ORD(once) */
		return;
	struct bucket *b = lot_lock(o);

	st_rel(&o->state, DONE); /* ORD(once) */
	lot_wake_all(b, o, &out);
	lot_unlock(b);
	ready_list(&out);
}

/* The caller is in the function that o runs.  (The owner would not do: one that was dropped in the
 * middle by the end of a run leaves its number to another, and external threads have one token.) */
static bool runs_it(const gmp_once *o)
{
	struct g *gp = self_green();

	for (const struct cleanup *c = gp ? gp->cleanups : gmp__foreign_cleanups(); c; c = c->next)
		if (c->fn == finish && c->arg == o)
			return true;
	return false;
}

static void run(gmp_once *o, gmp_fn fn, void *arg)
{
	struct g *gp = self_green();
	struct cleanup c = { .fn = finish, .arg = o };

	st_rlx(&o->owner, gmp__self_token());
	c.next = gp ? gp->cleanups : gmp__foreign_cleanups();
	if (gp)
		gp->cleanups = &c;
	else
		gmp__set_foreign_cleanups(&c);
	cancel_hold(); /* O6 */
	fn(arg);
	if (gp)
		gp->cleanups = c.next;
	else
		gmp__set_foreign_cleanups(c.next);
	finish(o);
	cancel_release();
}

/* A compare-and-swap that fails has read without an order. */
static bool is_done(gmp_once *o)
{
	return ld_acq(&o->state) == DONE; /* ORD(once) */
}

/* Wait until it is done: 0, or why the wait ended before: -ETIMEDOUT, -ECANCELED.  `why` may carry UNCANCELLABLE. */
static int await(gmp_once *o, unsigned why, int64_t deadline)
{
	struct external f;
	struct bucket *b = lot_lock(o);
	uint32_t s = RUNNING;

	if (!cas_acq(&o->state, &s, WAITED) && is_done(o)) { /* ORD(once) */
		lot_unlock(b);
		return 0;
	}
	struct sudog *sg = self_sudog(&f);

	lot_enqueue(b, o, sg, false);
	return lot_wait(b, sg, why, lot_unwait, deadline);
}

static noinline int do_slow(gmp_once *o, gmp_fn fn, void *arg, unsigned why, int64_t deadline)
{
	uint32_t s = NEW;

	if (cas_acq(&o->state, &s, RUNNING)) { /* ORD(once) */
		run(o, fn, arg);
		return 0;
	}
	if (is_done(o))
		return 0;
	if (runs_it(o))
		gmp__fatal("gmp_once_do from the function that it runs");
	int late = too_late(deadline);

	return late ? late : await(o, why, deadline);
}

int gmp_once_do(gmp_once *o, gmp_fn fn, void *arg)
{
	chaos_point();
	if (likely(is_done(o)))
		return 0;
	return do_slow(o, fn, arg, WAIT_ONCE | UNCANCELLABLE, NEVER);
}

int gmp_once_do_until(gmp_once *o, gmp_fn fn, void *arg, int64_t deadline)
{
	chaos_point();
	if (likely(is_done(o)))
		return 0;
	return do_slow(o, fn, arg, WAIT_ONCE, deadline);
}
