/* SPDX-License-Identifier: MIT */
/*
 * Reader/writer lock: the paced mutex of mutex.c between writers, and a count of readers in its word.
 *
 * The word is that of sync/mutex.h.  A writer holds the lock while LOCKED is set and the count is 0.
 *
 * Invariants
 *  RW-1  LOCKED is set and cleared as that of a mutex (X1 to X6).  A thread that has set it while readers are
 *        in waits for them (DRAIN).  There is at most one such thread.
 *  RW-2  While LOCKED is set no reader comes in: it parks (RPARKED).  So a writer waits only for the readers
 *        that were in when it set LOCKED.
 *  RW-3  LOCKED is cleared, or handed over, only with all queued readers let in: mutex_unlock_slow, under the
 *        bucket's lock.  So a reader waits for one writer at most, and for the readers that writer waits for.
 *  RW-4  A thread that changes the word after its turn has ended does so under the bucket's lock, before any
 *        thread that it has let in runs.  Every other way out is one compare-and-swap, the last touch.
 *
 * The last reader and the writer
 *
 *   reader that leaves                        writer, LOCKED set (by compare-and-swap or by hand-over)
 *    1 the last one, and DRAIN is set?         1 the count is 0? done
 *      no: count - 1, by compare-and-swap;     2 lock the bucket
 *      done                                    3 the count is 0? done; else set DRAIN, by
 *    2 yes: lock the bucket                      compare-and-swap
 *    3 still so? claim the writer; count - 1,  4 queue up; unlock the bucket, sleep
 *      clear DRAIN                             5 the deadline has passed: dequeue; mutex_unlock_slow
 *    4 unlock the bucket, ready the writer       clears DRAIN and LOCKED
 *
 *   Both change one word by compare-and-swap, so either step 1 sees DRAIN or step 3 sees the count at 0.  While
 *   the bucket is locked and DRAIN set, only the last reader changes the count: no other one comes in
 *   (RW-2).  In step 3 of the reader the writer may be claimed by its deadline already.  Then it has LOCKED
 *   still, and gives it up in step 5.
 *
 * Fairness
 *   Between writers: X5, where an unlock is that of a writer, or a writer that gives up.  A writer that waits
 *   in the mutex's queue does not hold readers off until it has LOCKED: by its own hand when it runs, or by
 *   the unlocker's, if it is handed over.
 *   Between readers and writers: RW-2 and RW-3.  If readers queue up during each hold, a writer that is not
 *   overdue yet waits for the readers of several writers.
 *   Bound: with k writers ahead of it a writer has the lock at the latest 1 ms + k × 20 us after its call (k ×
 *   500 us with external threads), rounded up k + 1 times to the next unlock of a writer, and then waits for the
 *   readers that are in.  As in X5, an unlock does not count until the woken writer has run.
 *
 * Rejected
 *   A queue of writers in FIFO order, each granted the lock by the last, which holds readers off while it is not
 *   empty: once all threads are parked every lock is a switch.  20,000 green threads on 2 Ps took 563 ns for each
 *   write, and 257 ns for each lock with one write in ten (one run each).  Now 29 and 27, Go 41 and 25 (medians of
 *   nine runs).
 *   Readers that park without spinning: with 2,000 green threads and one write in ten 15 ns a lock, not 11.
 *   A writer that spins before it parks in drain: 315 ns.  A reader that was let in has mostly not run yet, and
 *   may be next on the P of the writer that spins.
 *   A first compare-and-swap in rlock and runlock without a read before it: readers alone take 0.91 of the time
 *   at 2 Ps, but with one write in ten 1.34, since it takes the line from a writer.  A prefetch for writing in
 *   place of it: 0.95 and 1.00 (medians of seven interleaved runs).
 *   A gmp_mutex beside a word for readers: two releases, and after the first the lock may be gone.
 */
#include <errno.h>

#include "base/os.h"
#include "base/throw.h"
#include "mode/chaos.h"
#include "sync/mutex.h"
#include "sync/sync.h"

enum { LOCKED = MUTEX_LOCKED, STUCK = MUTEX_STUCK };
enum { RPARKED = RW_RPARKED, DRAIN = RW_DRAIN, READER = RW_READER };

/* --- readers --- */

static inline bool rtake(gmp_mutex *m, uint32_t *s)
{
	while (!(*s & LOCKED))
		if (cas_acq(&m->state, s, *s + READER)) /* ORD(rwmutex) */
			return true;
	return false;
}

/* A reader gives up, or is dropped after it was let in. */
static void reader_unwait(struct waiter *w)
{
	gmp_mutex *m = wait_key_mutex(waiter_sudog(w)->key);

	/* Tricky: what lay on the stack of a G that has ended may hold anything by now */
	if (waiter_result(ld_rlx(&w->state)))
		lot_unwait(w);
	else if (ld_rlx(&m->state) >= READER)
		gmp_rwmutex_runlock(container_of(m, gmp_rwmutex, m));
}

static noinline int rlock_slow(gmp_mutex *m, unsigned uncancellable, int64_t deadline)
{
	struct external f;
	uint32_t s = ld_rlx(&m->state);

	for (int spins = 0; s & LOCKED && mutex_spin(s, &spins);)
		s = ld_rlx(&m->state);
	if (rtake(m, &s))
		return 0;
	struct bucket *b = lot_lock(m);

	s = ld_rlx(&m->state);
	do {
		if (rtake(m, &s)) {
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

	return likely(rtake(&rw->m, &s)) ? 0 : rlock_slow(&rw->m, UNCANCELLABLE, NEVER);
}

int gmp_rwmutex_try_rlock(gmp_rwmutex *rw)
{
	uint32_t s = ld_rlx(&rw->m.state);

	return rtake(&rw->m, &s) ? 0 : -EAGAIN;
}

int gmp_rwmutex_rlock_until(gmp_rwmutex *rw, int64_t deadline)
{
	chaos_point();
	uint32_t s = ld_rlx(&rw->m.state);

	if (rtake(&rw->m, &s))
		return 0;
	int late = too_late(deadline);

	if (late)
		return late;
	return rlock_slow(&rw->m, 0, deadline);
}

/* The caller is the last reader, and a parked writer waits for it. */
static bool is_awaited(uint32_t s)
{
	return s & DRAIN && s - READER < READER;
}

static noinline int runlock_slow(gmp_mutex *m)
{
	uint32_t s = ld_rlx(&m->state);

	if (s < READER)
		gmp__fatal("runlock of an rwmutex that is not read-locked");
	struct glist out = { 0 };
	struct bucket *b = lot_lock(m);

	for (;;) {
		/* ORD(rwmutex): what the readers before us did comes before what the writer does */
		s = ld_acq(&m->state);
		if (is_awaited(s))
			break;
		if (cas_rel(&m->state, &s, s - READER)) { /* ORD(rwmutex) */
			lot_unlock(b);
			return 0;
		}
	}
	lot_wake_first(b, rw_drain(m), 0, &out);
	while (!cas_rel(&m->state, &s, (s - READER) & ~(uint32_t)DRAIN)) /* ORD(rwmutex) */
		;                                                        /* the writer gives up */
	lot_unlock(b);
	ready_list(&out);
	return 0;
}

int gmp_rwmutex_runlock(gmp_rwmutex *rw)
{
	uint32_t s = ld_rlx(&rw->m.state);

	while (s >= READER && !is_awaited(s))
		if (cas_rel(&rw->m.state, &s, s - READER)) /* ORD(rwmutex): the last touch */
			return 0;
	return runlock_slow(&rw->m);
}

/* --- writers --- */

/* LOCKED is the waiter's, and it gives it up, or is dropped after the last reader has left. */
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

/* With LOCKED set: wait until the readers are gone, or give LOCKED up. */
static int drain(gmp_mutex *m, unsigned uncancellable, int64_t deadline)
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

static noinline int lock_slow(gmp_mutex *m, unsigned uncancellable, int64_t deadline)
{
	int result = mutex_lock_slow(m, WAIT_WLOCK | uncancellable, deadline);

	return result ? result : drain(m, uncancellable, deadline);
}

/* If no thread holds it. */
static inline bool wtake(gmp_mutex *m)
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
	return likely(wtake(&rw->m)) ? 0 : lock_slow(&rw->m, UNCANCELLABLE, NEVER);
}

int gmp_rwmutex_try_lock(gmp_rwmutex *rw)
{
	return wtake(&rw->m) ? 0 : -EAGAIN;
}

int gmp_rwmutex_lock_until(gmp_rwmutex *rw, int64_t deadline)
{
	chaos_point();
	if (wtake(&rw->m))
		return 0;
	int late = too_late(deadline);

	if (late)
		return late;
	return lock_slow(&rw->m, 0, deadline);
}

int gmp_rwmutex_unlock(gmp_rwmutex *rw)
{
	uint32_t s = LOCKED;

	st_rlx(&rw->m.owner, 0);
	if (likely(cas_rel(&rw->m.state, &s, 0))) /* ORD(rwmutex): the last touch */
		return 0;
	if (!(s & LOCKED) || s >= READER)
		gmp__fatal("unlock of an rwmutex that is not locked");
	return mutex_unlock_slow(&rw->m);
}
