/* SPDX-License-Identifier: MIT */
/*
 * How do many readers share what one writer changes?
 *
 * The word: WRITER (held for writing), W_PARKED and R_PARKED (writers, readers in the table's
 * queues), and the number of readers that hold it, above.
 *
 * Invariants
 *  Y1 WRITER and a number of readers above 0 exclude each other.
 *  Y2 With W_PARKED no new reader comes in: it parks (R_PARKED).  So writers do not starve.
 *  Y3 Waiters are granted, not woken to compete: whoever gives the lock up settles, under the
 *     bucket's lock, who has it next: after a writer the readers queued by then, all of them, else
 *     the next writer; after the last reader the next writer.
 *  Y4 The parked bits are set and cleared under the bucket's lock.  The word itself may change by
 *     fast paths at any time, so every change is a compare-and-swap; but with W_PARKED set there
 *     are no fast paths, and with WRITER none but the writer's own.
 *
 * The two queues are two keys of one bucket: the object's address, and one byte further.
 */
#include <errno.h>

#include "base/os.h"
#include "base/throw.h"
#include "chaos.h"
#include "sema.h"
#include "sync/sync.h"

enum { WRITER = 1, W_PARKED = 2, R_PARKED = 4, READER = 8 };

static const void *writers(gmp_rwmutex *rw)
{
	return rw;
}

static const void *readers(gmp_rwmutex *rw)
{
	return (char *)rw + 1;
}

/* Under the bucket's lock: the parked bits as the queues are. */
static uint32_t parked_bits(struct bucket *b, gmp_rwmutex *rw)
{
	return (sema_first(b, writers(rw)) ? W_PARKED : 0) |
	       (sema_first(b, readers(rw)) ? R_PARKED : 0);
}

/* Y3, under the bucket's lock, with the word free but for parked bits: the word that follows. */
static uint32_t grant(struct bucket *b, gmp_rwmutex *rw, bool readers_first, struct glist *out)
{
	uint32_t n = readers_first ? sema_wake_all(b, readers(rw), out) : 0;

	if (n == 0 && sema_wake_first(b, writers(rw), 0, out))
		return WRITER | parked_bits(b, rw);
	if (n == 0)
		n = sema_wake_all(b, readers(rw), out);
	return n * READER | parked_bits(b, rw);
}

/* --- readers --- */

/* What a wait was granted whose green thread is dropped before it could go on.  Tricky: what lay on the stack
 * of one that has ended may hold anything by now. */
static void give_back(gmp_rwmutex *rw, const void *key)
{
	uint32_t s = ld_rlx(&rw->state);

	if (key == writers(rw) && s & WRITER)
		gmp_rwmutex_unlock(rw);
	else if (key == readers(rw) && s >= READER)
		gmp_rwmutex_runlock(rw);
}

/* A waiter of either kind gives up; if it was the last writer, the readers it held off may go. */
static void rw_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);
	gmp_rwmutex *rw = (gmp_rwmutex *)((uintptr_t)sg->key & ~(uintptr_t)1);
	struct glist out = { 0 };

	if (!ld_acq(&sg->queued)) { /* ORD(sudog.queued) */
		if (waiter_result(ld_rlx(&w->state)) == 0)
			give_back(rw, sg->key);
		return;
	}
	struct bucket *b = sema_lock(rw);

	if (sg->queued) {
		sema_dequeue(b, sg);
		/* ORD(rwmutex) */
		uint32_t s = ld_acq(&rw->state), held = s & ~(uint32_t)(W_PARKED | R_PARKED);

		/* readers hold it, and no writer waits: those who were held off come in */
		uint32_t n = held & WRITER || sema_first(b, writers(rw))
				     ? 0
				     : sema_wake_all(b, readers(rw), &out);
		uint32_t bits = parked_bits(b, rw);

		do
			held = s & ~(uint32_t)(W_PARKED | R_PARKED);
		while (!cas_rel(&rw->state, &s, (held + n * READER) | bits)); /* ORD(rwmutex) */
	}
	sema_unlock(b);
	ready_list(&out);
}

static inline bool rtake(gmp_rwmutex *rw, uint32_t *s)
{
	while (!(*s & (WRITER | W_PARKED)))
		if (cas_acq(&rw->state, s, *s + READER)) /* ORD(rwmutex) */
			return true;
	return false;
}

static noinline int rlock_slow(gmp_rwmutex *rw, unsigned uncut, int64_t deadline)
{
	struct foreign f;
	struct bucket *b = sema_lock(rw);
	uint32_t s = ld_rlx(&rw->state);

	do {
		if (rtake(rw, &s)) {
			sema_unlock(b);
			return 0;
		}
	} while (!cas_rlx(&rw->state, &s, s | R_PARKED));
	struct sudog *sg = self_sudog(&f);

	sema_enqueue(b, readers(rw), sg, false);
	return sema_wait(b, sg, WAIT_RLOCK | uncut, rw_unwait, deadline);
}

int gmp_rwmutex_rlock(gmp_rwmutex *rw)
{
	chaos_point();
	uint32_t s = ld_rlx(&rw->state);

	return likely(rtake(rw, &s)) ? 0 : rlock_slow(rw, UNCUT, NEVER);
}

int gmp_rwmutex_try_rlock(gmp_rwmutex *rw)
{
	uint32_t s = ld_rlx(&rw->state);

	return rtake(rw, &s) ? 0 : -EAGAIN;
}

int gmp_rwmutex_rlock_until(gmp_rwmutex *rw, int64_t deadline)
{
	chaos_point();
	uint32_t s = ld_rlx(&rw->state);

	if (rtake(rw, &s))
		return 0;
	int late = too_late(deadline);

	if (late)
		return late;
	return rlock_slow(rw, 0, deadline);
}

static noinline int runlock_slow(gmp_rwmutex *rw)
{
	struct glist out = { 0 };
	struct bucket *b = sema_lock(rw);
	/* ORD(rwmutex): what the readers before us did comes before what the one we grant it to does */
	uint32_t s = ld_acq(&rw->state), next;

	/* the claims come with the decision, once: while W_PARKED stands, nothing changes the word
	 * but those who hold this lock (Y4) */
	if (s < READER)
		gmp__fatal("runlock of an rwmutex that is not read-locked");
	if (s - READER >= READER || !(s & W_PARKED)) {
		while (!cas_rel(&rw->state, &s, s - READER)) /* ORD(rwmutex) */
			;
	} else {
		next = grant(b, rw, false, &out);
		st_rel(&rw->state, next); /* ORD(rwmutex) */
	}
	sema_unlock(b);
	ready_list(&out);
	return 0;
}

int gmp_rwmutex_runlock(gmp_rwmutex *rw)
{
	uint32_t s = ld_rlx(&rw->state);

	while (s >= READER && !(s & W_PARKED))
		if (cas_rel(&rw->state, &s, s - READER)) /* ORD(rwmutex): the last touch */
			return 0;
	return runlock_slow(rw);
}

/* --- writers --- */

static bool wtake(gmp_rwmutex *rw)
{
	uint32_t s = 0;

	if (!cas_acq(&rw->state, &s, WRITER)) /* ORD(rwmutex) */
		return false;
	st_rlx(&rw->owner, gmp__self_token());
	return true;
}

static noinline int lock_slow(gmp_rwmutex *rw, unsigned uncut, int64_t deadline)
{
	struct foreign f;
	struct bucket *b = sema_lock(rw);
	uint32_t s = ld_rlx(&rw->state);

	while (s == 0 || !cas_rlx(&rw->state, &s, s | W_PARKED)) {
		if (wtake(rw)) {
			sema_unlock(b);
			return 0;
		}
		s = ld_rlx(&rw->state);
	}
	struct sudog *sg = self_sudog(&f);

	sema_enqueue(b, writers(rw), sg, false);
	int result = sema_wait(b, sg, WAIT_WLOCK | uncut, rw_unwait, deadline);

	if (result == 0)
		st_rlx(&rw->owner, gmp__self_token());
	return result;
}

int gmp_rwmutex_lock(gmp_rwmutex *rw)
{
	chaos_point();
	return likely(wtake(rw)) ? 0 : lock_slow(rw, UNCUT, NEVER);
}

int gmp_rwmutex_try_lock(gmp_rwmutex *rw)
{
	return wtake(rw) ? 0 : -EAGAIN;
}

int gmp_rwmutex_lock_until(gmp_rwmutex *rw, int64_t deadline)
{
	chaos_point();
	if (wtake(rw))
		return 0;
	int late = too_late(deadline);

	if (late)
		return late;
	return lock_slow(rw, 0, deadline);
}

int gmp_rwmutex_unlock(gmp_rwmutex *rw)
{
	struct glist out = { 0 };
	uint32_t s = WRITER;

	st_rlx(&rw->owner, 0);
	if (likely(cas_rel(&rw->state, &s, 0))) /* ORD(rwmutex): the last touch */
		return 0;
	if (!(s & WRITER))
		gmp__fatal("unlock of an rwmutex that is not locked");
	struct bucket *b = sema_lock(rw);

	/* WRITER is ours, and the parked bits change under the lock that we hold (Y4) */
	st_rel(&rw->state, grant(b, rw, true, &out)); /* ORD(rwmutex) */
	sema_unlock(b);
	ready_list(&out);
	return 0;
}
