/* SPDX-License-Identifier: MIT */
/* Parking table: buckets, treaps and queues.  parkinglot.h has the invariants. */
#include "wait/parkinglot.h"

#include "base/os.h"
#include "waiter.h"

struct bucket {
	struct lock lock;
	struct sudog *root; /* treap of the first sudog of each address */
} aligned_to(CACHE_LINE);

static struct bucket buckets[LOT_BUCKETS];
uint8_t gmp__lot_uncontended[LOT_BUCKETS];

struct bucket *lot_bucket(const void *key)
{
	return &buckets[lot_hash(key) >> 55];
}

struct bucket *lot_lock(const void *key)
{
	struct bucket *b = lot_bucket(key);

	lock(&b->lock, LR_LOT);
	return b;
}

void lot_unlock(struct bucket *b)
{
	unlock(&b->lock, LR_LOT);
}

void lot_unlock_ready(struct bucket *b, struct glist *claimed)
{
	lot_unlock(b);
	ready_list(claimed);
}

/* In the child of a fork none of the parent's waiters and lock holders exist.  Registered by a
 * constructor, since external threads may use the table without a runtime. */
static void lot_reset_in_child(void)
{
	for (int i = 0; i < LOT_BUCKETS; i++) {
		buckets[i] = (struct bucket){ 0 };
		gmp__lot_uncontended[i] = false;
	}
}

__attribute__((constructor)) static void lot_register_fork_handler(void)
{
	pthread_atfork(NULL, NULL, lot_reset_in_child);
}

/* --- uncontended buckets --- */

/* The system call is made with the lock held: otherwise another waiter could find the bucket marked
 * as contended, and check its mutex before the fence is complete.  It is made at most once a second
 * for each bucket: lot_reset sets the uncontended mark no more often (monitor/memory.c). */
void lot_mark_contended(struct bucket *b)
{
	uint8_t *uncontended = &gmp__lot_uncontended[b - buckets];

	if (likely(!ld_rlx(uncontended)))
		return;
	st_rlx(uncontended, false);
	os_membarrier(); /* ORD(uncontended) */
}

/* An empty bucket has no mutex waiter until the lock is released: mutex_enqueue clears the mark and
 * enqueues in one critical section.  Waiters for other objects do not clear it. */
void lot_reset(void)
{
	for (int i = 0; i < LOT_BUCKETS; i++) {
		if (ld_rlx(&gmp__lot_uncontended[i]))
			continue;
		lock(&buckets[i].lock, LR_LOT);
		st_rlx(&gmp__lot_uncontended[i], !buckets[i].root);
		unlock(&buckets[i].lock, LR_LOT);
	}
}

/* --- the treap --- */

/* Returns the link that leads to the first sudog of the address, or a link that is NULL. */
static struct sudog **treap_find(struct bucket *b, const void *key)
{
	struct sudog **at = &b->root;

	while (*at && (*at)->key != key)
		at = (uintptr_t)key < (uintptr_t)(*at)->key ? &(*at)->left : &(*at)->right;
	return at;
}

/* Splits t into the addresses below key and the addresses above it. */
static void treap_split(struct sudog *t, const void *key, struct sudog **below,
			struct sudog **above)
{
	while (t) {
		if ((uintptr_t)t->key < (uintptr_t)key) {
			*below = t;
			below = &t->right;
			t = t->right;
		} else {
			*above = t;
			above = &t->left;
			t = t->left;
		}
	}
	*below = *above = NULL;
}

static struct sudog *treap_merge(struct sudog *below, struct sudog *above)
{
	struct sudog *root, **at = &root;

	while (below && above) {
		if (below->priority > above->priority) {
			*at = below;
			at = &below->right;
			below = below->right;
		} else {
			*at = above;
			at = &above->left;
			above = above->left;
		}
	}
	*at = below ? below : above;
	return root;
}

static void treap_insert(struct bucket *b, struct sudog *sg)
{
	struct sudog **at = &b->root;

	sg->priority = (uint32_t)(lot_hash(sg->key) * 0xd1342543de82ef95u >> 32);
	while (*at && (*at)->priority >= sg->priority)
		at = (uintptr_t)sg->key < (uintptr_t)(*at)->key ? &(*at)->left : &(*at)->right;
	treap_split(*at, sg->key, &sg->left, &sg->right);
	*at = sg;
}

/* Replaces the first sudog of an address, at *at, by sg. */
static void treap_replace(struct sudog **at, struct sudog *sg)
{
	struct sudog *old = *at;

	sg->left = old->left;
	sg->right = old->right;
	sg->priority = old->priority;
	sg->tail = old->tail;
	*at = sg;
}

/* --- queues --- */

void lot_enqueue(struct bucket *b, const void *key, struct sudog *sg, bool front)
{
	struct sudog **at = treap_find(b, key), *first = *at;

	sg->key = key;
	sg->next = sg->prev = NULL;
	st_rlx(&sg->queued, true);
	if (!first) {
		sg->tail = sg;
		treap_insert(b, sg);
	} else if (front) {
		treap_replace(at, sg);
		sg->next = first;
		first->prev = sg;
	} else {
		sg->prev = first->tail;
		first->tail->next = sg;
		first->tail = sg;
	}
}

/* sg is queued in b, and its waiter is claimed, by the caller or otherwise (PARK-5). */
void lot_dequeue(struct bucket *b, struct sudog *sg)
{
	struct sudog **at = treap_find(b, sg->key), *first = *at;

	if (sg == first) {
		if (sg->next) {
			sg->next->prev = NULL;
			treap_replace(at, sg->next);
		} else {
			*at = treap_merge(sg->left, sg->right);
		}
	} else {
		sg->prev->next = sg->next;
		if (sg->next)
			sg->next->prev = sg->prev;
		else
			first->tail = sg->prev;
	}
	st_rel(&sg->queued, false); /* ORD(sudog.queued) */
}

struct sudog *lot_first(struct bucket *b, const void *key)
{
	return *treap_find(b, key);
}

/* --- waking and waiting --- */

bool lot_wake_first(struct bucket *b, const void *key, int result, struct glist *out)
{
	struct sudog *sg;

	while ((sg = lot_first(b, key))) {
		bool won = waiter_claim(sg->w, result);

		lot_dequeue(b, sg); /* after the claim: PARK-5 */
		if (!won)
			continue;
		glist_claimed(out, sg);
		return true;
	}
	return false;
}

unsigned lot_wake_all(struct bucket *b, const void *key, struct glist *out)
{
	unsigned n = 0;

	while (lot_wake_first(b, key, 0, out))
		n++;
	return n;
}

/*
 * Commit step of lot_wait, with the waiter armed; on g0 for a G.  No lost wakeup: the bucket lock,
 * which is released only here, is held from the waiter's last check of the object's word.  That
 * check sees an earlier change of the word.  A later one finds the waiters bit set, so the waker
 * locks the bucket and finds sg (LOT-1; a mutex that is unlocked by a plain store: LOT-5).
 */
static void lot_commit(void *b)
{
	lot_unlock(b);
}

int lot_wait(struct bucket *b, struct sudog *sg, unsigned why, unwait_fn unwait, int64_t deadline)
{
	return wait_on(sg->w, why, unwait, lot_commit, b, deadline);
}

struct bucket *lot_leave(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);

	/* ORD(sudog.queued): a waker has dequeued sg, and does not use it any more (PARK-5) */
	if (!ld_acq(&sg->queued))
		return NULL;
	struct bucket *b = lot_lock(sg->key);

	if (sg->queued) {
		lot_dequeue(b, sg);
		return b;
	}
	lot_unlock(b);
	return NULL;
}

void lot_unwait(struct waiter *w)
{
	struct bucket *b = lot_leave(w);

	if (b)
		lot_unlock(b);
}
