/* SPDX-License-Identifier: MIT */
/*
 * Parking table: wait queues, by address, for objects that have no room for a queue of their own.
 *
 * A fixed number of buckets, each with a lock and a tree of the addresses that have waiters; each address
 * has a FIFO queue.  An object (a mutex of 8 bytes, a wait group, a join) keeps its state in a word of its
 * own; its address is the key.
 *
 *   bucket[hash(address)]: lock, root ──> address A: sudog - sudog - sudog
 *                                    ╱  ╲
 *                         address B: sudog   address C: sudog - sudog
 *
 * Invariants
 *  K1 The waiters bit of a word is set under the bucket's lock, together with the enqueueing.  So a thread
 *     that reads it as set and then takes the lock finds the waiter in the queue, or the queue emptier.
 *  K2 Under the lock, a waker changes the word and claims waiters in any order: none of them
 *     returns before it is readied, which is after the lock was dropped.
 *  K3 After the lock is dropped the object is not touched (it may be gone); the address serves only
 *     as a key.
 *  K4 Addresses in a bucket: O(log n), by a treap whose priorities are a hash of the address.
 *     Waiters on an address: O(1) at both ends and out of the middle.
 *  K5 If a bucket is calm, no mutex waiter hashes to it, so an unlock may use a plain store (mutex.c).
 *     lot_mark_contended, under the bucket's lock, ends that before a mutex waiter is enqueued; sysmon, under that
 *     lock, makes a bucket calm again when it is empty.
 *
 * Rejected: a queue head in each object (a mutex of 24 bytes); Go's semaphores under a mutex (they
 * grant by a second word, which a freed object no longer has).
 */
#ifndef GMP_PARKINGLOT_H
#define GMP_PARKINGLOT_H

#include "park.h"
#include "types.h"

struct bucket;

enum { LOT_BUCKETS = 512 };

/* (a) written under the bucket's lock; apart from the buckets, whose lines are written all the time */
extern uint8_t gmp__lot_uncontended[LOT_BUCKETS];

static inline uint64_t lot_hash(const void *key)
{
	return ((uintptr_t)key >> 3) * 0x9e3779b97f4a7c15u;
}

static inline bool lot_is_uncontended(const void *key)
{
	return ld_rlx(&gmp__lot_uncontended[lot_hash(key) >> 55]);
}

/* Under the bucket's lock: b is not calm any more.  On return, all stores that another thread made before it
 * read b as calm are visible, and all later reads see that b is not calm. */
void lot_mark_contended(struct bucket *b);
/* K5: makes every empty bucket calm; of use only if os_membarrier works. */
void lot_reset(void);

/* Lock the bucket of an address.  Keys that differ in their lowest three bits share a bucket. */
struct bucket *lot_lock(const void *key);
void lot_unlock(struct bucket *b);

/* All under the bucket's lock: */
void lot_enqueue(struct bucket *b, const void *key, struct sudog *sg, bool front);
void lot_dequeue(struct bucket *b, struct sudog *sg);
struct sudog *lot_first(struct bucket *b, const void *key);
/* Dequeue the first waiter that can be claimed, and add it to out.  False: there is none. */
bool lot_wake_first(struct bucket *b, const void *key, int result, struct glist *out);
/* The same for all of the queue; how many. */
unsigned lot_wake_all(struct bucket *b, const void *key, struct glist *out);

/* Wait with sg enqueued in b: drops the bucket's lock.  Returns as wait_on. */
int lot_wait(struct bucket *b, struct sudog *sg, unsigned why, unwait_fn unwait, int64_t deadline);

/* The unwait of an object whose waiters bit may be set although no waiter is queued. */
void lot_unwait(struct waiter *w);

#endif
