/* SPDX-License-Identifier: MIT */
/*
 * Parked waiters: queues of green threads that wait for an object of libc.
 *
 * Of a mutex or a semaphore libc keeps the state.  A green thread in HOOK_PARK tries it by libc's
 * function and parks in the parking table (parkinglot.h) while it is not available.  An external
 * thread waits inside libc.  The call that makes the object available is replaced for all threads:
 * after libc's function it wakes the first green thread that is parked.
 *
 *   waiter, a green thread                          waker, any thread
 *    1 parked[bucket] + 1                            1 libc's unlock or post
 *    2 full fence                   ORD(parked)      2 full fence                   ORD(parked)
 *    3 lock the bucket                               3 parked[bucket] is 0?  done
 *    4 try libc's object; if that succeeds, unlock   4 lock the bucket; claim and dequeue the first
 *      the bucket, parked[bucket] - 1, done            waiter of the object
 *    5 enqueue, unlock the bucket, park              5 unlock the bucket, ready the waiter
 *    6 woken: parked[bucket] - 1, from 1; if it
 *      loses again, enqueue at the front
 *
 * Invariants
 *   PARKED-1  No lost wakeup.  By the fences the waiter's try sees the unlock, or the waker reads
 *             parked[bucket] as not 0.  In that case it locks the bucket: after the waiter's
 *             section it finds the waiter, and before it the waiter's try sees the unlock.
 *   PARKED-2  parked[bucket] counts the waiters in steps 1 to 6 of all objects in the bucket.  It
 *             may count a waiter that was dequeued; it must count each that is queued.
 *   PARKED-3  A woken waiter tries the object before it gives up because of its deadline.  So a
 *             wakeup is never consumed by a timeout.
 *             A signal handler runs before step 1 or after the last try, never in between: by
 *             siglongjmp it would lose the wakeup.
 *   -         Lifetime: after step 1 of the waker the object may be freed.  From then on its
 *             address is a key only.  If another object of libc lives there, its first waiter gets
 *             a spurious wakeup: all waiters with these keys try again (a condition variable may
 *             have spurious wakeups).  The offsets of the keys differ from those of gmp's own
 *             objects, whose waiters own what they are woken with.
 *   PARKED-5  Starvation: a waiter that has left the queue without the object, woken or by a
 *             handler, is overdue STARVING_NS after the start of its call.  A caller in HOOK_PARK
 *             whose unlock or post (parked_wake) wakes an overdue waiter yields: the waiter is the
 *             next G of the waker's P.  The waiter that is then first is overdue PACE_GREEN_NS
 *             later at the earliest.
 *
 * A futex is such an object, except that its word is the program's (futex.c).  The steps are the
 * same, but a woken waiter returns and does not try again.
 *
 * Fairness: an unlock frees the object, and any thread may take it before the woken waiter runs.
 * Green threads park in FIFO order; a waiter that was woken and does not get the object parks in
 * front, so after LATER-2 the order may be the reverse.  libc's queue of external threads and this
 * one are independent: an unlock wakes the first of each.
 * The woken waiter is the next G of the waker's P.  Without PARKED-5 a thread that takes the object
 * again at once, and waits only while it has it, keeps it from the waiter: whenever the waiter runs
 * the object is taken.  An OS thread would try on another CPU meanwhile.  A mutex cannot be handed
 * over, since the owner that libc notes is its locker.  A futex does not know what its waiters have
 * lost, so a lock that a program makes of one has no such rule.
 *
 * Verified by model/posix_mutex.pml.
 *
 * Rejected
 *   A membarrier in step 2 of the waiter instead of the fence of the waker: a system call for each
 *   park, against 5 ns for each unlock.
 */
#ifndef GMP_POSIX_PARKED_H
#define GMP_POSIX_PARKED_H

#include <limits.h>
#include <sys/single_threaded.h>

#include "posix/call/hook.h"
#include "posix/call/times.h"

/* Keys: the address of the object plus an offset that gmp's objects do not use (wait/mutex.h). */
enum { KEY_MUTEX = 4, KEY_COND = 5, KEY_SEM = 6, KEY_READERS = 7 };

_Static_assert(_Alignof(pthread_mutex_t) == 8 && _Alignof(pthread_cond_t) == 8 &&
		       _Alignof(sem_t) == 8 && _Alignof(pthread_rwlock_t) == 8,
	       "the keys of neighbours differ");

static inline const void *parked_key(const void *object, unsigned offset)
{
	return (const char *)object + offset;
}

static inline const void *mutex_key(const pthread_mutex_t *m)
{
	return parked_key(m, KEY_MUTEX);
}

/* Green threads may be parked for it: it is neither process-shared nor robust.  In
 * pthread_mutex.c. */
bool mutex_is_parkable(const pthread_mutex_t *m);

/* The key of a futex word.  An offset would give two neighbouring words the keys of other objects;
 * no object has an address in this range. */
static inline const void *futex_key(const uint32_t *word)
{
	return (const void *)~(uintptr_t)word;
}

extern uint32_t gmp__parked[LOT_BUCKETS]; /* (a) PARKED-2 */

static inline uint32_t *parked_at(const void *key)
{
	return &gmp__parked[lot_index(key)];
}

/* Returns 0, busy, or another errno value. */
typedef int (*parked_try)(void *object);

/*
 * Steps 1 to 5, for a green thread in HOOK_PARK.  busy: what try, which is called with the bucket
 * locked, returns if the caller must wait.  Returns busy if the caller was woken; otherwise try's
 * other results, ETIMEDOUT, ECANCELED or EINTR.  w->unwait is parked_unwait.
 */
int parked_once(const struct park_wait *w, parked_try try, void *object, int busy);
/*
 * Steps 1 to 6 for such a thread.  why: the wait reason, with UNCANCELLABLE or without.  Returns
 * as parked_once, except busy.  The handlers of the caller run inside.  After them an
 * UNCANCELLABLE wait continues, at the front of the queue.
 */
int parked_acquire(const void *key, parked_try try, void *object, int busy, unsigned why,
		   int64_t deadline);

/* The caller is a signal handler, or code that the runtime calls: it must not lock a bucket. */
static inline bool is_unsafe(void)
{
	return unlikely(is_in_runtime_sig()) || unlikely(handler_runs());
}

/* Pass a wakeup of all waiters on to sysmon. */
void parked_wake_later(const void *key);

/* The functions below wake the first `most` waiters, return how many were claimed, and leave errno
 * as it was. */

/* Steps 4 and 5.  *overdue: the first one was overdue (PARKED-5). */
unsigned parked_wake_some(const void *key, unsigned most, bool *overdue);
/* The same, by sysmon if the caller is_unsafe: 0; and PARKED-5. */
unsigned parked_wake_from(const void *key, unsigned most);

/* Steps 3 to 5. */
static inline unsigned parked_wake_counted(const void *key, unsigned most)
{
	return unlikely(ld_rlx(parked_at(key))) ? parked_wake_from(key, most) : 0;
}

/* Steps 2 to 5, after libc's function.  While a run has green threads the process has several OS
 * threads. */
static inline unsigned parked_wake(const void *key, unsigned most)
{
	if (__libc_single_threaded)
		return 0;
	fence_seq(); /* ORD(parked): after libc's unlock */
	return parked_wake_counted(key, most);
}

/* The unwait of a waiter that counts in parked[bucket]. */
void parked_unwait(struct waiter *w);
/* Such a waiter has returned from wait_on with 0. */
static inline void parked_woken(const void *key)
{
	add_rlx(parked_at(key), -1u);
}

#endif
