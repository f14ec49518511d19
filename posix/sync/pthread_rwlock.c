/* SPDX-License-Identifier: MIT */
/*
 * Read-write locks: an implementation for all threads, in the memory of pthread_rwlock_t.
 *
 * The state is guarded by the bucket lock of the parking table.  Readers and writers have a queue
 * each.  A lock and an unlock cost one locked instruction each, as libc's do.
 *
 *   an unlock leaves the lock free, and                             it wakes
 *    a writer has unlocked; the kind prefers readers (default)       all readers, the first writer
 *    a writer has unlocked; the kind prefers writers                 the first writer; if there is
 *                                                                    none, all readers
 *    the last reader has unlocked                                    the same as the line above
 *
 * Invariants
 *   -      The state changes, and waiters are queued and claimed, under the bucket lock only.  A
 *          woken waiter owns nothing: it tries again, and enqueues at the front if it loses.
 *   -      If the kind prefers readers, a reader is queued only while a writer holds the lock, and
 *          that writer's unlock wakes it.  So readers never wait for each other, and a reader may
 *          lock again although writers wait.  Writers may starve, as with libc.
 *   PRW-3  If the kind is PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, no reader gets in while a
 *          writer is queued or `coming`: woken, and not tried again yet.  If the last such writer
 *          gives up, it wakes the readers.
 *   -      Lifetime: after the bucket is unlocked, an unlock does not touch the object.
 *
 * Process-shared locks are libc's alone; green threads lock them as blocking code.
 *
 * Rejected
 *   libc's try functions and a queue beside them: a writer in that queue would hold no reader off.
 */
#include "base/os.h"
#include "posix/sync/parked.h"

struct rwlock {
	uint32_t readers;
	uint32_t writer;  /* 0 or 1 */
	uint64_t owner;   /* self_id of the writer */
	uint32_t coming;  /* PRW-3 */
	uint32_t of_libc; /* 0 */
};

_Static_assert(sizeof(struct rwlock) <= offsetof(struct __pthread_rwlock_arch_t, __pad4) + 4,
	       "the attributes of libc stay as they are");

enum { READERS_MOST = 0x7fffffff };

static struct rwlock *state_of(pthread_rwlock_t *rw)
{
	return (struct rwlock *)(void *)rw;
}

static bool is_shared(const pthread_rwlock_t *rw)
{
	return rw->__data.__shared;
}

static bool prefers_writers(const pthread_rwlock_t *rw)
{
	return rw->__data.__flags == PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;
}

static const void *readers_of(const pthread_rwlock_t *rw)
{
	return parked_key(rw, KEY_READERS);
}

static const void *writers_of(const pthread_rwlock_t *rw)
{
	return rw;
}

/* In blocking code that of the green thread, which may have been on another OS thread before.  With
 * own thread-locals pthread_self() is the green thread's, and that of the OS thread which becomes
 * one (PROGRAM-3). */
static uint64_t self_id(void)
{
	struct g *gp = own_green();

	return gp && !green_has_own_tls(gp) ? (uintptr_t)gp : (uint64_t)pthread_self();
}

/* --- under the bucket lock --- */

static int try_read(struct bucket *b, pthread_rwlock_t *rw)
{
	struct rwlock *s = state_of(rw);

	if (s->writer)
		return s->owner == self_id() ? EDEADLK : EBUSY;
	if (prefers_writers(rw) && (s->coming || lot_first(b, writers_of(rw))))
		return EBUSY;
	if (s->readers == READERS_MOST)
		return EAGAIN;
	s->readers++;
	return 0;
}

static int try_write(pthread_rwlock_t *rw)
{
	struct rwlock *s = state_of(rw);

	if (s->writer)
		return s->owner == self_id() ? EDEADLK : EBUSY;
	if (s->readers)
		return EBUSY;
	s->writer = 1;
	s->owner = self_id();
	return 0;
}

/* The lock is free.  written: a writer has unlocked it. */
static void wake_waiters(struct bucket *b, pthread_rwlock_t *rw, bool written, struct glist *out)
{
	bool any = lot_wake_first(b, writers_of(rw), 0, out);

	if (any)
		state_of(rw)->coming++;
	if (!any || (written && !prefers_writers(rw)))
		lot_wake_all(b, readers_of(rw), out);
}

/* --- locks --- */

/* A writer has timed out, or was interrupted. */
static void writer_unwait(struct waiter *w)
{
	pthread_rwlock_t *rw = (pthread_rwlock_t *)(uintptr_t)park_key(w);
	struct bucket *b = lot_leave(w);
	struct glist out = { 0 };

	if (!b)
		return;
	if (!state_of(rw)->writer && !state_of(rw)->coming && !lot_first(b, writers_of(rw)))
		lot_wake_all(b, readers_of(rw), &out); /* PRW-3 */
	lot_unlock_ready(b, &out);
}

/* Lock, or wait until the deadline.  Returns 0 or an errno value.  EINTR: a signal handler must
 * run.  front: the caller was interrupted by another one. */
static int rw_lock(pthread_rwlock_t *rw, bool writes, int64_t deadline, bool front)
{
	bool woken = false;

	for (;;) {
		struct bucket *b = lot_lock(rw);

		if (writes && woken)
			state_of(rw)->coming--;
		int err = writes ? try_write(rw) : try_read(b, rw);

		if (err != EBUSY) {
			lot_unlock(b);
			return err;
		}
		if (is_unsafe()) {
			lot_unlock(b);
			os_yield();
			woken = false;
			continue;
		}
		err = park_in(b,
			      &(struct park_wait){ .key = writes ? writers_of(rw) : readers_of(rw),
						   .why = WAIT_PTHREAD_RWLOCK | UNCANCELLABLE,
						   .front = woken || front,
						   .unwait = writes ? writer_unwait : lot_unwait,
						   .deadline = deadline });
		if (err)
			return -err;
		woken = true;
	}
}

static int rw_try(pthread_rwlock_t *rw, bool writes)
{
	signals_hold();
	struct bucket *b = lot_lock(rw);
	int err = writes ? try_write(rw) : try_read(b, rw);

	lot_unlock(b);
	signals_release();
	return err;
}

/* libc's try functions are its own also for a process-shared lock. */
static int try_shared(pthread_rwlock_t *rw, bool writes)
{
	return writes ? LIBC(pthread_rwlock_trywrlock)(rw) : LIBC(pthread_rwlock_tryrdlock)(rw);
}

/* In the kernel. */
static int wait_shared(pthread_rwlock_t *rw, bool writes, clockid_t clock,
		       const struct timespec *abs)
{
	if (abs)
		return writes ? LIBC(pthread_rwlock_clockwrlock)(rw, clock, abs)
			      : LIBC(pthread_rwlock_clockrdlock)(rw, clock, abs);
	return writes ? LIBC(pthread_rwlock_wrlock)(rw) : LIBC(pthread_rwlock_rdlock)(rw);
}

/* abs: NULL: no deadline. */
static int rw_lock_until(pthread_rwlock_t *rw, bool writes, clockid_t clock,
			 const struct timespec *abs)
{
	bool shared = is_shared(rw), front = false;
	int saved = errno;

	if (abs && (!is_wait_clock(clock) || !has_valid_ns(abs)))
		return EINVAL;
	if (hook_parks())
		chaos_point();
	int err = unlikely(shared) ? try_shared(rw, writes) : rw_try(rw, writes);

	if (err != EBUSY)
		return err;
	if (shared)
		return HOOK_BLOCKING(wait_shared(rw, writes, clock, abs));
	int64_t deadline = deadline_at(clock, abs);

	do {
		err = HOOK_WAIT(rw_lock(rw, writes, deadline, front));
		front = true;
	} while (err == EINTR);
	errno = saved;
	return err;
}

HOOK int pthread_rwlock_rdlock(pthread_rwlock_t *rw)
{
	return rw_lock_until(rw, false, CLOCK_MONOTONIC, NULL);
}

HOOK int pthread_rwlock_wrlock(pthread_rwlock_t *rw)
{
	return rw_lock_until(rw, true, CLOCK_MONOTONIC, NULL);
}

HOOK int pthread_rwlock_clockrdlock(pthread_rwlock_t *rw, clockid_t clock,
				    const struct timespec *abs)
{
	return rw_lock_until(rw, false, clock, abs);
}

HOOK int pthread_rwlock_clockwrlock(pthread_rwlock_t *rw, clockid_t clock,
				    const struct timespec *abs)
{
	return rw_lock_until(rw, true, clock, abs);
}

HOOK int pthread_rwlock_timedrdlock(pthread_rwlock_t *rw, const struct timespec *abs)
{
	return rw_lock_until(rw, false, CLOCK_REALTIME, abs);
}

HOOK int pthread_rwlock_timedwrlock(pthread_rwlock_t *rw, const struct timespec *abs)
{
	return rw_lock_until(rw, true, CLOCK_REALTIME, abs);
}

/* The owner gets EBUSY. */
static int rw_trylock(pthread_rwlock_t *rw, bool writes)
{
	if (unlikely(is_shared(rw)))
		return try_shared(rw, writes);
	int err = rw_try(rw, writes);

	return err == EDEADLK ? EBUSY : err;
}

HOOK int pthread_rwlock_tryrdlock(pthread_rwlock_t *rw)
{
	return rw_trylock(rw, false);
}

HOOK int pthread_rwlock_trywrlock(pthread_rwlock_t *rw)
{
	return rw_trylock(rw, true);
}

/* A lock that is not locked is EPERM, which POSIX leaves undefined. */
HOOK int pthread_rwlock_unlock(pthread_rwlock_t *rw)
{
	if (unlikely(is_shared(rw)))
		return LIBC(pthread_rwlock_unlock)(rw);
	int saved = errno;
	struct glist out = { 0 };
	struct rwlock *s = state_of(rw);

	signals_hold();
	struct bucket *b = lot_lock(rw);
	bool written = s->writer, locked = written || s->readers;

	if (written)
		s->writer = 0;
	else if (likely(locked))
		s->readers--;
	if (locked && !s->readers)
		wake_waiters(b, rw, written, &out);
	lot_unlock_ready(b, &out);
	signals_release();
	errno = saved;
	return locked ? 0 : EPERM;
}
