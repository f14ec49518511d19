/* SPDX-License-Identifier: MIT */
/* Parks green threads that wait for an object of libc, and wakes them: see posix/sync/parked.h. */
#include "posix/sync/parked.h"

/* PARKED-5.  As STARVING_NS and PACE_GREEN_NS of wait/mutex.c, not measured here. */
enum { STARVING_NS = MS, PACE_NS = 20 * US };

uint32_t gmp__parked[LOT_BUCKETS];

void parked_unwait(struct waiter *w)
{
	add_rlx(parked_at(park_key(w)), -1u);
	lot_unwait(w);
}

/* Inside a pair of handler_wait_begin and _end.  EINTR: a handler must run.  lost: the caller has
 * been in the queue before, and did not get the object.  due: of such a caller. */
static int acquire(const void *key, parked_try try, void *object, int busy, unsigned why,
		   int64_t deadline, bool lost, int64_t due)
{
	for (;;) {
		add_seq(parked_at(key), 1); /* ORD(parked): before the try */
		fence_after_rmw_seq();      /* ORD(parked) */
		struct bucket *b = lot_lock(key);
		int result = try(object);

		if (result != busy) {
			lot_unlock(b);
			parked_woken(key);
			return result;
		}
		result = park_in(b, &(struct park_wait){ .key = key,
							 .why = why,
							 .front = lost,
							 .due = lost ? due : NEVER, /* PARKED-5 */
							 .unwait = parked_unwait,
							 .deadline = deadline });
		if (result)
			return -result;
		parked_woken(key);
		lost = true;
	}
}

int parked_acquire(const void *key, parked_try try, void *object, int busy, unsigned why,
		   int64_t deadline)
{
	int saved = errno, result;
	int64_t due = rt_now() + STARVING_NS;
	bool interrupted = false;

	do {
		result = HANDLER_WAIT(
			acquire(key, try, object, busy, why, deadline, interrupted, due));
		interrupted = true;
	} while (result == EINTR && why & UNCANCELLABLE);
	errno = saved;
	return result;
}

noinline unsigned parked_wake_some(const void *key, unsigned most)
{
	int saved = errno;
	unsigned n = 0;
	struct glist out = { 0 };

	signals_hold();
	struct bucket *b = lot_lock(key);

	while (n < most && lot_wake_first(b, key, 0, &out))
		n++;
	lot_unlock_ready(b, &out);
	signals_release();
	errno = saved;
	return n;
}

/* Steps 4 and 5.  Returns whether the waiter was overdue. */
static bool wake_one(const void *key)
{
	int saved = errno;
	struct glist out = { 0 };

	signals_hold();
	struct bucket *b = lot_lock(key);
	int64_t *due = lot_first_due(b, key), now = due ? rt_now() : 0;
	bool overdue = due && now > *due;

	lot_wake_first(b, key, 0, &out);
	due = overdue ? lot_first_due(b, key) : NULL;
	if (due)
		*due = max_of(*due, now + PACE_NS);
	lot_unlock_ready(b, &out);
	signals_release();
	errno = saved;
	return overdue;
}

noinline void parked_wake_from(const void *key)
{
	if (is_unsafe()) {
		parked_wake_later(key);
		return;
	}
	if (!wake_one(key) || hook_how() != HOOK_PARK)
		return;
	int saved = errno;

	hook_yield();
	errno = saved;
}

/* --- by sysmon --- */

/*
 * A waker that must not lock a bucket passes the wakeup on to sysmon: a signal handler, which may
 * have interrupted the holder, and a library that the runtime itself calls (libgcc's unwinder), on
 * g0 or in a P section.
 *
 *   such a waker                                    sysmon
 *    1 steps 1 to 3 of parked.h                      1 delegated = 0
 *    2 a slot that is NULL or has the key = the      2 takes the key of each slot: slot = NULL
 *      key, by compare-and-swap     ORD(posted)      3 wakes all waiters of these keys
 *    3 delegated = 1, wakes sysmon     ORD(sysmon), also from its pause (DUMPSIG-1)
 *
 *   LATER-1  A slot is written before delegated is set, and sysmon clears it before it reads the
 *            slots.  So no wakeup is lost.
 *   LATER-2  A slot holds no count, so sysmon wakes all waiters of the object.  A waiter that does
 *            not get it parks again.
 *   LATER-3  sysmon empties the slots before it locks a bucket.  A waker that finds all slots in
 *            use delegates the work and waits for sysmon.  That would be forever if sysmon waited
 *            for a bucket that the interrupted thread has locked, and the handler released 64
 *            other objects meanwhile: no handler may release so many.
 */

enum { SLOTS = 64 };
static const void *slots[SLOTS]; /* (a) LATER-1 */

static bool put_into(const void **slot, const void *key)
{
	const void *old = NULL;

	return cas_seq(slot, &old, key) || old == key; /* ORD(posted) */
}

noinline void parked_wake_later(const void *key)
{
	int saved = errno;
	unsigned i = (unsigned)(lot_hash(key) >> 32) % SLOTS;

	while (!put_into(&slots[i], key)) {
		delegate_sig(); /* LATER-3 */
		i = (i + 1) % SLOTS;
	}
	delegate_sig();
	errno = saved;
}

/* On sysmon. */
static void wake_posted(void)
{
	const void *key[SLOTS];

	for (int i = 0; i < SLOTS; i++)
		key[i] = ld_seq(&slots[i]) ? xchg_seq(&slots[i], NULL) : NULL; /* ORD(posted) */
	for (int i = 0; i < SLOTS; i++)
		if (key[i])
			parked_wake_all(key[i]);
}

/* The child of a fork has none of the parent's green threads. */
static void forget_parked(void)
{
	for (int i = 0; i < LOT_BUCKETS; i++)
		st_rlx(&gmp__parked[i], 0);
	for (int i = 0; i < SLOTS; i++)
		st_rlx(&slots[i], (const void *)NULL);
}

__attribute__((constructor)) static void parked_begin(void)
{
	run_on_delegated(wake_posted);
	pthread_atfork(NULL, NULL, forget_parked);
}
