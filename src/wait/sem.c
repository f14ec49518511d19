/* SPDX-License-Identifier: MIT */
/*
 * Counting semaphore: permits are granted in FIFO order, by a word and a queue in the parking
 * table.
 *
 * State word
 *   bit  0       WAITERS: a waiter is queued (SEM-1)
 *   bits 1..31   0
 *   bits 32..63  number of free permits, at most INT32_MAX; 0 while WAITERS is set
 *
 * Invariants
 *   SEM-1  WAITERS is set if and only if the queue is not empty; both change under the bucket lock.
 *   SEM-2  Fairness: while WAITERS is set there are no free permits, and the word changes only
 *          under the bucket lock; the fast paths need WAITERS to be clear.  So no later caller gets
 *          a permit before a waiter.
 *   SEM-3  A release grants its permits to the first waiters, and adds the rest to the word.
 *          Lifetime: it does not access the semaphore after it has unlocked the bucket, so a waiter
 *          that got a permit may free it.
 *
 * A waiter that was granted a permit and is killed at shutdown before it could run keeps the
 * permit: the semaphore may have been freed by then.  (A mutex that was handed over cannot have
 * been freed: it is locked.)
 */
#include <errno.h>

#include "variant/variant.h"
#include "wait/parkinglot.h"

enum { WAITERS = 1 };
#define ONE_PERMIT (1ull << 32)

_Static_assert(WAITERS < ONE_PERMIT, "the permits are above the flag");

static uint32_t permits(uint64_t s)
{
	return (uint32_t)(s >> 32);
}

/* Take a free permit; false if there is none, or a waiter is queued. */
static bool acquire_now(gmp_sem *s)
{
	uint64_t w = ld_rlx(&s->state);

	while (permits(w) && !(w & WAITERS))
		if (cas_acq(&s->state, &w, w - ONE_PERMIT)) /* ORD(sem) */
			return true;
	return false;
}

/* Dequeue a waiter that was cancelled or has timed out. */
static void sem_unwait(struct waiter *w)
{
	gmp_sem *s = (gmp_sem *)(uintptr_t)waiter_sudog(w)->key;
	struct bucket *b = lot_leave(w);

	if (!b) /* a waker dequeued it; s may be freed */
		return;
	if (!lot_first(b, s))
		st_rlx(&s->state, 0); /* SEM-2: only WAITERS was set */
	lot_unlock(b);
}

static noinline int acquire_slow(gmp_sem *s, int64_t deadline)
{
	struct external f;
	struct bucket *b = lot_lock(s);
	uint64_t w = ld_rlx(&s->state);

	while (!(w & WAITERS)) {
		uint64_t to = permits(w) ? w - ONE_PERMIT : WAITERS;

		if (!cas_acq(&s->state, &w, to)) /* ORD(sem) */
			continue;
		if (to != WAITERS) {
			lot_unlock(b);
			return 0;
		}
		break;
	}
	struct sudog *sg = self_sudog(&f);

	lot_enqueue(b, s, sg, false);
	return lot_wait(b, sg, WAIT_SEM, sem_unwait, deadline);
}

int gmp_sem_acquire(gmp_sem *s)
{
	return likely(acquire_now(s)) ? 0 : acquire_slow(s, NEVER);
}

int gmp_sem_acquire_until(gmp_sem *s, int64_t deadline)
{
	chaos_point();
	if (acquire_now(s))
		return 0;
	int late = too_late(deadline);

	return late ? late : acquire_slow(s, deadline);
}

int gmp_sem_try_acquire(gmp_sem *s)
{
	return acquire_now(s) ? 0 : -EAGAIN;
}

/* SEM-3, under the bucket lock. */
static noinline int release_slow(gmp_sem *s, uint32_t n)
{
	struct glist out = { 0 };
	struct bucket *b = lot_lock(s);
	uint64_t w = ld_rlx(&s->state);

	while (!(w & WAITERS)) { /* all waiters gave up meanwhile */
		if (permits(w) > INT32_MAX - n) {
			lot_unlock(b);
			return -EOVERFLOW;
		}
		if (cas_rel(&s->state, &w, w + ((uint64_t)n << 32))) { /* ORD(sem) */
			lot_unlock(b);
			return 0;
		}
	}
	while (n > 0 && lot_wake_first(b, s, 0, &out))
		n--;
	st_rel(&s->state, lot_first(b, s) ? WAITERS : (uint64_t)n << 32); /* ORD(sem) */
	lot_unlock_ready(b, &out);
	return 0;
}

int gmp_sem_release(gmp_sem *s, int n)
{
	uint64_t w = ld_rlx(&s->state);

	if (unlikely(n < 1))
		return -EINVAL;
	while (!(w & WAITERS)) {
		if (permits(w) > INT32_MAX - (uint32_t)n)
			return -EOVERFLOW;
		if (cas_rel(&s->state, &w, w + ((uint64_t)n << 32))) /* ORD(sem): the last access */
			return 0;
	}
	return release_slow(s, (uint32_t)n);
}
