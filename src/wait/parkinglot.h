/* SPDX-License-Identifier: MIT */
/*
 * Parking table: FIFO wait queues in a hash table, keyed by the address of the object waited for.
 *
 * An object (a mutex of 8 bytes, a wait group, a join) keeps its state in a word of its own and has
 * no queue.  Its address is the key.  Each bucket has a lock and a treap of the addresses that have
 * waiters; each address has a queue of sudogs.
 *
 *   bucket[hash(address)]: lock, root ──> address A: sudog - sudog - sudog
 *                                    ╱  ╲
 *                         address B: sudog   address C: sudog - sudog
 *
 * Invariants
 *  LOT-1  The waiters bit of an object's word is set under the bucket's lock, in the critical
 *         section that enqueues the waiter.  A thread that reads the bit as set and then takes the
 *         lock therefore finds that waiter, unless it was dequeued meanwhile.
 *  LOT-2  Under the lock, a waker may change the word and claim waiters in any order: a waiter
 *         returns only after it was made ready, and that happens after the unlock.
 *  LOT-3  After the unlock the waker does not touch the object, which may be freed.  The address
 *         then serves as a key only.
 *  -      Finding an address costs O(log n) of the addresses in the bucket: the priorities of the
 *         treap are a hash of the address.  Enqueueing at both ends, and dequeueing any waiter of
 *         an address, costs O(1) after that.
 *  LOT-5  If a bucket is uncontended, no mutex waiter hashes to it, so an unlock may use a plain
 *         store (wait/mutex.c).  lot_mark_contended clears the mark under the bucket's lock before
 *         a mutex waiter is enqueued; lot_reset, which sysmon calls, sets it under that lock if the
 *         bucket is empty.  The mark may be clear although the bucket is empty.
 *
 * Rejected
 *   A queue head in each object: a mutex of 24 bytes.
 *   Go's semaphores below a mutex: they grant by a second word, and the object that holds it may be
 *   freed.
 */
#ifndef GMP_PARKINGLOT_H
#define GMP_PARKINGLOT_H

#include "park.h"
#include "types.h"

struct bucket;

enum { LOT_BUCKETS = 512 };

/* LOT-5: true if bucket i is uncontended.  (a) Written under the bucket's lock.  Apart from the
 * buckets, whose cache lines are written often. */
extern uint8_t gmp__lot_uncontended[LOT_BUCKETS];

static inline uint64_t lot_hash(const void *key)
{
	return ((uintptr_t)key >> 3) * 0x9e3779b97f4a7c15u;
}

static inline bool lot_is_uncontended(const void *key)
{
	return ld_rlx(&gmp__lot_uncontended[lot_hash(key) >> 55]);
}

/* Clears the uncontended mark of b, whose lock is held.  On return, the stores that another thread
 * made before it read the mark as set are visible, and all later reads find it clear. */
void lot_mark_contended(struct bucket *b);
/* LOT-5: marks every empty bucket as uncontended.  Of use only if os_membarrier works. */
void lot_reset(void);

struct bucket *lot_bucket(const void *key);
/* Locks the bucket of an address.  Keys that differ in their lowest three bits share a bucket. */
struct bucket *lot_lock(const void *key);
void lot_unlock(struct bucket *b);
/* Unlocks b, and then readies the waiters that were claimed under its lock. */
void lot_unlock_ready(struct bucket *b, struct glist *claimed);

/* All with the bucket's lock held: */
void lot_enqueue(struct bucket *b, const void *key, struct sudog *sg, bool front);
void lot_dequeue(struct bucket *b, struct sudog *sg);
struct sudog *lot_first(struct bucket *b, const void *key);
/* Claims the first waiter that can be claimed, dequeues it and appends it to out.  Waiters before
 * it that were claimed elsewhere are dequeued too.  Returns false if there is none. */
bool lot_wake_first(struct bucket *b, const void *key, int result, struct glist *out);
/* The same for the whole queue, with result 0.  Returns the number of claimed waiters. */
unsigned lot_wake_all(struct bucket *b, const void *key, struct glist *out);

/* Waits with sg enqueued in b.  Drops the bucket's lock.  Returns as wait_on. */
int lot_wait(struct bucket *b, struct sudog *sg, unsigned why, unwait_fn unwait, int64_t deadline);

/* In the unwait of w: dequeue it.  Returns its bucket, locked; NULL: a waker has dequeued it
 * before. */
struct bucket *lot_leave(struct waiter *w);
/* The unwait of an object whose waiters bit may be set although no waiter is queued. */
void lot_unwait(struct waiter *w);

#endif
