/* SPDX-License-Identifier: MIT */
/* Parks green threads that wait for an object of libc, and wakes them: see posix/sync/parked.h. */
#include "posix/sync/parked.h"

#include "base/policy.h"

uint32_t gmp__parked[LOT_BUCKETS];

void parked_unwait(struct waiter *w)
{
	add_rlx(parked_at(park_key(w)), -1u);
	lot_unwait(w);
}

int parked_once(const struct park_wait *w, parked_try try, void *object, int busy)
{
	add_seq(parked_at(w->key), 1); /* ORD(parked): before the try */
	fence_after_rmw_seq();         /* ORD(parked) */
	struct bucket *b = lot_lock(w->key);
	int result = try(object);

	if (result != busy) {
		lot_unlock(b);
		parked_woken(w->key);
		return result;
	}
	int err = park_in(b, w);

	if (err)
		return -err;
	parked_woken(w->key);
	return busy;
}

/* Inside a pair of handler_wait_begin and _end.  EINTR: a handler must run.  due: from the first
 * wait on. */
static int acquire(struct park_wait *w, parked_try try, void *object, int busy, int64_t due)
{
	int result;

	do {
		result = parked_once(w, try, object, busy);
		w->front = true;
		w->due = due; /* PARKED-5 */
	} while (result == busy);
	return result;
}

int parked_acquire(const void *key, parked_try try, void *object, int busy, unsigned why,
		   int64_t deadline)
{
	int saved = errno, result;
	int64_t due = rt_now() + STARVING_NS;
	struct park_wait w = {
		.key = key,
		.why = why,
		.due = NEVER,
		.unwait = parked_unwait,
		.deadline = deadline,
	};

	do
		result = HANDLER_WAIT(acquire(&w, try, object, busy, due));
	while (result == EINTR && why & UNCANCELLABLE);
	errno = saved;
	return result;
}

unsigned parked_wake_some(const void *key, unsigned most, bool *overdue)
{
	int saved = errno;
	unsigned n = 0;
	struct glist out = { 0 };

	signals_hold();
	struct bucket *b = lot_lock(key);
	int64_t *due = lot_first_due(b, key), now = due && *due != NEVER ? rt_now() : 0;

	*overdue = now && now > *due;
	while (n < most && lot_wake_first(b, key, 0, &out))
		n++;
	due = *overdue ? lot_first_due(b, key) : NULL;
	if (due)
		*due = max_of(*due, now + PACE_GREEN_NS);
	lot_unlock_ready(b, &out);
	signals_release();
	errno = saved;
	return n;
}

noinline unsigned parked_wake_from(const void *key, unsigned most)
{
	int saved = errno;
	bool overdue;

	if (is_unsafe()) {
		parked_wake_later(key);
		return 0;
	}
	unsigned n = parked_wake_some(key, most, &overdue);

	if (overdue && hook_parks())
		hook_yield();
	errno = saved;
	return n;
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
			parked_wake_from(key[i], UINT_MAX);
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
