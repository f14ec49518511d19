/* SPDX-License-Identifier: MIT */
/*
 * Once: the first caller runs a function, the others wait until it has returned.
 *
 * State word: NEW -> RUNNING -> [WAITED ->] DONE
 *   NEW      no call yet
 *   RUNNING  fn runs, no caller waits
 *   WAITED   fn runs, callers may wait: may stay set although no waiter is queued, since a waiter
 *            that gives up changes only the queue; must be set if one is
 *   DONE     fn has returned; final
 * `owner` is the token of the thread that runs fn, for reports.
 *
 * Invariants
 *   -       NEW -> RUNNING is one compare-and-swap; the thread that wins it runs fn.
 *   -       RUNNING -> WAITED is made under the bucket lock, together with the enqueue.
 *   -       Lifetime: the store of DONE is the last access: a caller that reads DONE may free the
 *           object.  From WAITED it is stored under the bucket lock, and the waiters are claimed
 *           after it, by the address alone.
 *   -       If a green thread exits in fn (gmp_exit), fn counts as done: the exit runs once_finish
 *           (struct cleanup).  If shutdown kills it in fn, the word stays RUNNING or WAITED, as a
 *           lock held by a killed thread stays locked.
 *   -       Callers check for DONE inline (gmp.h), so its value is part of the ABI.
 *   ONCE-6  pthread_cancel takes effect after fn has returned.  A thread that ended in fn would
 *           leave RUNNING.
 */
#define GMP_NO_INLINE 1

#include "base/throw.h"
#include "base/trace.h"
#include "enter.h"
#include "variant/variant.h"
#include "wait/parkinglot.h"
#include "wait/sync.h"

enum { NEW = 0, RUNNING = 1, WAITED = 2, DONE = GMP_ONCE_DONE_ };

_Static_assert(DONE != NEW && DONE != RUNNING && DONE != WAITED, "states differ");

/* Set DONE and wake all waiters. */
static void once_finish(void *arg)
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
	lot_unlock_ready(b, &out);
}

/*
 * True if the caller is inside the function that o runs.  The owner token cannot tell: after
 * shutdown has killed the owner its index is reused, and all external threads share one token.
 */
static bool runs_it(const gmp_once *o)
{
	struct g *gp = self_green();

	for (const struct cleanup *c = gp ? gp->cleanups : gmp__external_cleanups(); c; c = c->next)
		if (c->fn == once_finish && c->arg == o)
			return true;
	return false;
}

/* Run fn, then set DONE. */
static void once_run(gmp_once *o, gmp_fn fn, void *arg)
{
	struct g *gp = self_green();
	struct cleanup c = { .fn = once_finish, .arg = o };

	st_rlx(&o->owner, gmp__self_token());
	c.next = gp ? gp->cleanups : gmp__external_cleanups();
	if (gp)
		gp->cleanups = &c;
	else
		gmp__set_external_cleanups(&c);
	cancel_hold(); /* ONCE-6 */
	run_program(fn, arg);
	if (gp)
		gp->cleanups = c.next;
	else
		gmp__set_external_cleanups(c.next);
	once_finish(o);
	cancel_release();
}

/* With acquire: a compare-and-swap that fails reads without an order. */
static bool is_done(gmp_once *o)
{
	return ld_acq(&o->state) == DONE; /* ORD(once) */
}

/*
 * Wait for DONE.  why: the wait reason, with UNCANCELLABLE or without.  Returns 0, -ETIMEDOUT or
 * -ECANCELED.
 */
static int once_await(gmp_once *o, unsigned why, int64_t deadline)
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

/* Run fn, or wait until another caller has run it. */
static noinline int once_do_slow(gmp_once *o, gmp_fn fn, void *arg, unsigned why, int64_t deadline)
{
	uint32_t s = NEW;

	if (cas_acq(&o->state, &s, RUNNING)) { /* ORD(once) */
		once_run(o, fn, arg);
		return 0;
	}
	if (is_done(o))
		return 0;
	if (runs_it(o))
		gmp__fatal("gmp_once_do of once object %p from the function that it runs (it would "
			   "wait for itself)",
			   (void *)o);
	int late = too_late(deadline);

	return late ? late : once_await(o, why, deadline);
}

int gmp_once_do(gmp_once *o, gmp_fn fn, void *arg)
{
	chaos_point();
	if (likely(is_done(o)))
		return 0;
	return once_do_slow(o, fn, arg, WAIT_ONCE | UNCANCELLABLE, NEVER);
}

int gmp_once_do_until(gmp_once *o, gmp_fn fn, void *arg, int64_t deadline)
{
	chaos_point();
	if (likely(is_done(o)))
		return 0;
	return once_do_slow(o, fn, arg, WAIT_ONCE, deadline);
}
