/* SPDX-License-Identifier: MIT */
/*
 * Reader/writer lock: the paced mutex of mutex.c between writers, and a reader count in its word.
 *
 * State word: mutex.h.  A writer holds the lock while LOCKED is set and the count is 0.
 *
 * Invariants
 *   RW-1  LOCKED is set and cleared as that of a mutex (MUTEX-1 to MUTEX-5).  A thread that has set
 *         it while readers hold the lock waits for them (DRAIN).  There is at most one such thread.
 *   RW-2  While LOCKED is set, no reader gets the lock: it parks (RPARKED).  So a writer waits only
 *         for the readers that held the lock when it set LOCKED.
 *   RW-3  LOCKED is cleared, or handed over, only together with letting in all queued readers
 *         (mutex_unlock_slow, under the bucket lock).  So a reader waits for at most one writer,
 *         and for the readers that this writer waits for.
 *   -     Lifetime: a thread that changes the word after its hold has ended does so under the
 *         bucket lock, before any thread that it has let in runs.  Every other release is one
 *         compare-and-swap, the last access.
 *
 * Last reader and writer
 *
 *   gmp_rwmutex_runlock                         rw_wait_readers, LOCKED set by the writer or for it
 *    1 this is the last reader, and DRAIN set?   1 the count is 0?  done
 *      no: count - 1 by compare-and-swap; done   2 lock the bucket
 *    2 lock the bucket                           3 the count is 0?  done; otherwise set DRAIN by
 *    3 still so?  claim the writer; count - 1      compare-and-swap
 *      and clear DRAIN                           4 enqueue; unlock the bucket, park
 *    4 unlock the bucket, ready the writer       5 timeout or cancelled: dequeue;
 *                                                  mutex_unlock_slow clears DRAIN and LOCKED
 *
 *   No lost wakeup: both sides change one word by compare-and-swap, so either step 1 of the reader
 *   sees DRAIN, or step 3 of the writer sees the count at 0.  While the bucket is locked and DRAIN
 *   is set, only the last reader changes the count, since no other reader gets in (RW-2).  In step
 *   3 of the reader, the writer may have been claimed by its timeout already.  It then still owns
 *   LOCKED, and clears it in step 5.
 *
 * Fairness
 *   Between writers: MUTEX-4, where an unlock is one by a writer, or by a writer that gives up.  A
 *   writer in the queue of the mutex holds no reader off until LOCKED is its own: by its
 *   compare-and-swap when it runs, or by hand-over.
 *   Between readers and writers: RW-2 and RW-3.  If readers are queued during each hold, a writer
 *   that is not overdue yet waits for the readers of several writers.
 *   Bound: with k writers ahead of it, a writer has the lock at the latest STARVING_NS + k * pace
 *   (MUTEX-4) after its call, rounded up k + 1 times to the next unlock by a writer, and then waits
 *   for the readers that hold the lock.  As in MUTEX-4, an unlock does not count until the woken
 *   writer has run.
 *
 * Verified by model/rwmutex.pml.
 *
 * Rejected
 *   A FIFO queue of writers, each granted the lock by the last, that holds readers off while it is
 *   not empty: once all threads are parked, every lock is a switch.  20,000 green threads on 2 Ps
 *   took 563 ns per write, and 257 ns per lock with one write in ten (one run each).  Now 29 and
 *   27, Go 41 and 25 (medians of nine runs).
 *   Readers that park without spinning: 15 ns, not 11 (2,000 green threads, one write in ten).
 *   A writer that spins before it parks in rw_wait_readers: 315 ns.  A reader that was let in has
 *   mostly not run yet, and may be next on the P of the spinning writer.
 *   A first compare-and-swap in rlock and runlock without a read before it: readers alone take 0.91
 *   of the time at 2 Ps, but with one write in ten 1.34: it takes the cache line from a writer.
 *   A prefetch for writing instead of the read: 0.95 and 1.00 (medians of seven interleaved runs).
 *   A gmp_mutex next to a word for readers: after the first of two releases it may be freed.
 */
#include <errno.h>

#include "base/throw.h"
#include "variant/variant.h"
#include "wait/mutex.h"
#include "wait/sync.h"
#include "waiter.h"

enum { LOCKED = MUTEX_LOCKED, STUCK = MUTEX_STUCK };
enum { RPARKED = RW_RPARKED, DRAIN = RW_DRAIN, READER = RW_READER };

/* --- readers --- */

/* Count the caller as a reader; false if LOCKED is set.  *s: the word as read before, updated. */
static inline bool rw_take_read(gmp_mutex *m, uint32_t *s)
{
	while (!(*s & LOCKED))
		if (cas_acq(&m->state, s, *s + READER)) /* ORD(rwmutex) */
			return true;
	return false;
}

/*
 * Undo the wait of a reader: dequeue it if it gave up; if it was let in but is killed at shutdown,
 * unlock.
 */
static void reader_unwait(struct waiter *w)
{
	gmp_mutex *m = wait_key_mutex(waiter_sudog(w)->key);

	/* Caution: if m was on the stack of a G that has ended, its word is arbitrary by now */
	if (waiter_result(ld_rlx(&w->state)))
		lot_unwait(w);
	else if (ld_rlx(&m->state) >= READER)
		gmp_rwmutex_runlock(container_of(m, gmp_rwmutex, m));
}

/* Lock for reading: spin, then park until a writer unlocks. */
static noinline int rlock_slow(gmp_mutex *m, unsigned uncancellable, int64_t deadline)
{
	struct external f;
	uint32_t s = ld_rlx(&m->state);

	for (int spins = 0; s & LOCKED && mutex_spin(s, &spins);)
		s = ld_rlx(&m->state);
	if (rw_take_read(m, &s))
		return 0;
	struct bucket *b = lot_lock(m);

	s = ld_rlx(&m->state);
	do {
		if (rw_take_read(m, &s)) {
			lot_unlock(b);
			return 0;
		}
	} while (!cas_rlx(&m->state, &s, s | RPARKED | STUCK));
	struct sudog *sg = self_sudog(&f);

	lot_enqueue(b, rw_readers(m), sg, false);
	return lot_wait(b, sg, WAIT_RLOCK | uncancellable, reader_unwait, deadline);
}

int gmp_rwmutex_rlock(gmp_rwmutex *rw)
{
	chaos_point();
	uint32_t s = ld_rlx(&rw->m.state);

	return likely(rw_take_read(&rw->m, &s)) ? 0 : rlock_slow(&rw->m, UNCANCELLABLE, NEVER);
}

int gmp_rwmutex_try_rlock(gmp_rwmutex *rw)
{
	uint32_t s = ld_rlx(&rw->m.state);

	return rw_take_read(&rw->m, &s) ? 0 : -EAGAIN;
}

int gmp_rwmutex_rlock_until(gmp_rwmutex *rw, int64_t deadline)
{
	chaos_point();
	uint32_t s = ld_rlx(&rw->m.state);

	if (rw_take_read(&rw->m, &s))
		return 0;
	int late = too_late(deadline);

	return late ? late : rlock_slow(&rw->m, 0, deadline);
}

/* True if the word s has one reader, the caller, and a parked writer waits for it. */
static bool is_awaited_reader(uint32_t s)
{
	return s & DRAIN && s - READER < READER;
}

/* Steps 2 to 4 of the reader. */
static noinline int runlock_slow(gmp_mutex *m)
{
	uint32_t s = ld_rlx(&m->state);

	if (s < READER)
		gmp__fatal("runlock of rwmutex %p, which is not read-locked (unlocked twice, or "
			   "locked for writing?)",
			   (void *)m);
	struct glist out = { 0 };
	struct bucket *b = lot_lock(m);

	for (;;) {
		/* ORD(rwmutex): accesses of earlier readers happen before those of the writer */
		s = ld_acq(&m->state);
		if (is_awaited_reader(s))
			break;
		if (cas_rel(&m->state, &s, s - READER)) { /* ORD(rwmutex) */
			lot_unlock(b);
			return 0;
		}
	}
	lot_wake_first(b, rw_drain(m), 0, &out);
	while (!cas_rel(&m->state, &s, (s - READER) & ~(uint32_t)DRAIN)) /* ORD(rwmutex) */
		; /* the writer is giving up */
	lot_unlock_ready(b, &out);
	return 0;
}

int gmp_rwmutex_runlock(gmp_rwmutex *rw)
{
	uint32_t s = ld_rlx(&rw->m.state);

	while (s >= READER && !is_awaited_reader(s))
		if (cas_rel(&rw->m.state, &s, s - READER)) /* ORD(rwmutex): the last access */
			return 0;
	return runlock_slow(&rw->m);
}

/* --- writers --- */

/*
 * Undo the wait of a writer for readers, which owns LOCKED: unlock.  It gave up, or is killed at
 * shutdown after the last reader has left.
 */
static void drain_unwait(struct waiter *w)
{
	gmp_mutex *m = wait_key_mutex(waiter_sudog(w)->key);

	if (waiter_result(ld_rlx(&w->state)))
		lot_unwait(w);
	if (!(ld_rlx(&m->state) & LOCKED)) /* as in reader_unwait */
		return;
	st_rlx(&m->owner, 0);
	mutex_unlock_slow(m);
}

/*
 * Wait until no reader holds m.  The caller owns LOCKED.  Returns 0; or the result of wait_on, and
 * LOCKED is cleared.
 */
static int rw_wait_readers(gmp_mutex *m, unsigned uncancellable, int64_t deadline)
{
	if (ld_acq(&m->state) < READER) /* ORD(rwmutex) */
		return 0;
	struct external f;
	struct bucket *b = lot_lock(m);
	uint32_t s;

	do {
		s = ld_acq(&m->state); /* ORD(rwmutex) */
		if (s < READER) {
			lot_unlock(b);
			return 0;
		}
	} while (!cas_acq(&m->state, &s, s | DRAIN | STUCK)); /* ORD(rwmutex) */
	struct sudog *sg = self_sudog(&f);

	lot_enqueue(b, rw_drain(m), sg, false);
	return lot_wait(b, sg, WAIT_WLOCK | uncancellable, drain_unwait, deadline);
}

static noinline int wlock_slow(gmp_mutex *m, unsigned uncancellable, int64_t deadline)
{
	int result = mutex_lock_slow(m, WAIT_WLOCK | uncancellable, deadline);

	return result ? result : rw_wait_readers(m, uncancellable, deadline);
}

/* Lock for writing; false if a thread holds the lock. */
static inline bool rw_take_write(gmp_mutex *m)
{
	uint32_t s = ld_rlx(&m->state);

	while (!(s & LOCKED) && s < READER) {
		if (cas_acq(&m->state, &s, s | LOCKED)) { /* ORD(rwmutex) */
			st_rlx(&m->owner, gmp__self_token());
			return true;
		}
	}
	return false;
}

int gmp_rwmutex_lock(gmp_rwmutex *rw)
{
	chaos_point();
	return likely(rw_take_write(&rw->m)) ? 0 : wlock_slow(&rw->m, UNCANCELLABLE, NEVER);
}

int gmp_rwmutex_try_lock(gmp_rwmutex *rw)
{
	return rw_take_write(&rw->m) ? 0 : -EAGAIN;
}

int gmp_rwmutex_lock_until(gmp_rwmutex *rw, int64_t deadline)
{
	chaos_point();
	if (rw_take_write(&rw->m))
		return 0;
	int late = too_late(deadline);

	return late ? late : wlock_slow(&rw->m, 0, deadline);
}

int gmp_rwmutex_unlock(gmp_rwmutex *rw)
{
	uint32_t s = LOCKED;

	st_rlx(&rw->m.owner, 0);
	if (likely(cas_rel(&rw->m.state, &s, 0))) /* ORD(rwmutex): the last access */
		return 0;
	if (!(s & LOCKED) || s >= READER)
		gmp__fatal("unlock of rwmutex %p, which is not write-locked (unlocked twice, or "
			   "locked for reading?)",
			   (void *)rw);
	return mutex_unlock_slow(&rw->m);
}
