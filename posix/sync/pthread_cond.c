/* SPDX-License-Identifier: MIT */
/*
 * Condition variables: two queues, of green threads in the parking table and of OS threads in libc.
 *
 * libc's own wait unlocks the mutex inside libc, and would wake no green thread that is parked for
 * it.  So waits, signals and broadcasts of process-private condition variables are replaced for all
 * threads.  An OS thread (an external thread, or a green thread in blocking code) waits in libc,
 * which has the cancellation point, with a mutex of the bucket instead.
 *
 *   a green thread in HOOK_PARK        an OS thread                    signal
 *    1 parked[bucket] + 1, lock the     a lock outside[bucket],         A parked[bucket] > 0: lock
 *      bucket                             waiters + 1                     the bucket, claim the
 *    2 libc's unlock of the mutex       b unlock by pthread_mutex.c       first waiter, unlock,
 *    3 enqueue, wait_on: armed          c libc's wait, with               ready it.  Done if there
 *    4 commit: unlock the bucket, then    outside[bucket].lock            was one
 *      steps 2 to 5 of the waker in     d waiters - 1, unlock           B outside[bucket].waiters
 *      parked.h, for the mutex            outside[bucket]                 > 0: lock and unlock
 *    5 resumed: lock the mutex          e lock the mutex                  outside[bucket]
 *                                                                       C libc's signal
 *
 * A broadcast does B and C first, and then claims all waiters in A.
 *
 * Invariants
 *   PCOND-1  No lost wakeup: a thread that changes the condition under the mutex and then signals
 *            has locked the mutex after step 2 or b.  It sees the counts of steps 1 and a, which
 *            are before.  In A it gets the bucket lock after step 4, so the waiter is armed.  In B
 *            it gets outside[bucket].lock after the waiter is in libc's queue.
 *   -        A signal goes to one queue.  A waiter that has timed out or was cancelled is not
 *            claimed, so the signal goes to the next one.
 *   -        Lifetime: a woken waiter may destroy the object.  After a claim the signaller uses the
 *            address as a key only; libc does the same for its own waiters.
 *   -        The unlock in step 2 is on the waiter's own stack: on g0 the thread id is that of the
 *            M, and libc would find another owner.
 *
 * Green threads are woken before OS threads.  POSIX leaves the order open.
 *
 * Process-shared condition variables are libc's; green threads wait as blocking code.  If the mutex
 * is process-private, which green threads may be parked for, steps a to e and B apply to them too.
 * libc keeps no pointer to the mutex in the object.
 *
 * Rejected
 *   External threads in the parking table: pthread_cancel would not end their wait.
 */
#include <string.h>

#include "posix/call/point.h"
#include "posix/sync/attribute.h"
#include "posix/sync/parked.h"

static struct {
	pthread_mutex_t lock;
	uint32_t waiters;                      /* (a) written under the lock */
} aligned_to(CACHE_LINE) outside[LOT_BUCKETS]; /* zero bytes are glibc's initializer */

typedef typeof(&outside[0]) outside_ptr;

static outside_ptr outside_of(const void *c)
{
	return &outside[lot_index(c)];
}

/* --- attributes --- */

/* Where pthread_cond_init notes them.  glibc 2.41 has moved that word. */
static uint32_t shared_at, monotonic_at; /* (a) attribute_place; 0: not known yet */

static uint32_t place_of(const pthread_condattr_t *a)
{
	pthread_cond_t without, with;

	memset(&without, 0, sizeof(without));
	memset(&with, 0, sizeof(with));
	pthread_cond_init(&without, NULL);
	pthread_cond_init(&with, a);
	return attribute_place(&without, &with, sizeof(with));
}

static noinline void find_attributes(void)
{
	pthread_condattr_t a;

	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	st_rlx(&monotonic_at, place_of(&a));
	pthread_condattr_setclock(&a, CLOCK_REALTIME);
	pthread_condattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	st_rlx(&shared_at, place_of(&a));
	pthread_condattr_destroy(&a);
}

static bool has_attribute(const pthread_cond_t *c, const uint32_t *at)
{
	if (unlikely(!ld_rlx(at)))
		find_attributes();
	return attribute_is_set(c, ld_rlx(at));
}

static bool is_shared(const pthread_cond_t *c)
{
	return has_attribute(c, &shared_at);
}

static clockid_t clock_of(const pthread_cond_t *c)
{
	return has_attribute(c, &monotonic_at) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

/* --- libc's wait --- */

struct cond_wait {
	pthread_cond_t *c;
	pthread_mutex_t *m;
	clockid_t clock;
	const struct timespec *abs; /* NULL: no deadline */
	int err;                    /* of the lock after the wait; or of step 2 */
};

static int wait_in_libc(const struct cond_wait *w, pthread_mutex_t *m)
{
	return w->abs ? LIBC(pthread_cond_clockwait)(w->c, m, w->clock, w->abs)
		      : LIBC(pthread_cond_wait)(w->c, m);
}

/* Steps d and e, also of a thread that is cancelled. */
static void outside_end(void *arg)
{
	struct cond_wait *w = arg;
	outside_ptr o = outside_of(w->c);

	st_rlx(&o->waiters, o->waiters - 1);
	LIBC(pthread_mutex_unlock)(&o->lock);
	w->err = pthread_mutex_lock(w->m);
}

/* Steps a to e. */
static int wait_outside(struct cond_wait *w)
{
	outside_ptr o = outside_of(w->c);
	int err;

	LIBC(pthread_mutex_lock)(&o->lock);
	st_rlx(&o->waiters, o->waiters + 1);
	err = pthread_mutex_unlock(w->m);
	if (err) {
		st_rlx(&o->waiters, o->waiters - 1);
		LIBC(pthread_mutex_unlock)(&o->lock);
		return err;
	}
	pthread_cleanup_push(outside_end, w);
	err = wait_in_libc(w, &o->lock);
	pthread_cleanup_pop(1);
	return w->err ? w->err : err;
}

/* --- the wait of a green thread --- */

/* Step 4, on g0. */
static void cond_commit(void *arg)
{
	const struct cond_wait *w = arg;
	const void *mutex = mutex_key(w->m); /* *w is gone later: COND-3 of wait/cond.c */
	bool overdue;

	lot_unlock(lot_bucket(parked_key(w->c, KEY_COND)));
	fence_seq(); /* ORD(parked): step 2 of the waker */
	if (unlikely(ld_rlx(parked_at(mutex))))
		parked_wake_some(mutex, 1, &overdue);
}

/* Step 2.  Returns 0 if the waiter must wait. */
static int cond_unlock(void *arg)
{
	struct cond_wait *w = arg;

	return w->err = LIBC(pthread_mutex_unlock)(w->m);
}

static int wait_green(struct cond_wait *w)
{
	int saved = errno;
	const struct park_wait p = {
		.key = parked_key(w->c, KEY_COND),
		.why = WAIT_PTHREAD_COND,
		.due = NEVER,
		.unwait = parked_unwait,
		.commit = cond_commit,
		.commit_arg = w,
		.deadline = deadline_at(w->clock, w->abs),
	};

	cancel_point();
	/* the mutex is unlocked for handlers */
	int result = HANDLER_WAIT(parked_once(&p, cond_unlock, w, 0));

	if (w->err)
		return w->err;
	int err = pthread_mutex_lock(w->m);

	errno = saved;
	if (result == ECANCELED)
		cancel_waited();
	if (err)
		return err;
	return result == EINTR ? 0 : result; /* a handler has run: a spurious wakeup */
}

static int cond_wait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
		     const struct timespec *abs)
{
	struct cond_wait w = { .c = c, .m = m, .clock = clock, .abs = abs };
	bool shared = is_shared(c), of_libc = shared && !mutex_is_parkable(m);

	if (abs && !has_valid_ns(abs))
		return EINVAL;
	if (hook_parks() && !shared)
		return wait_green(&w);
	return HOOK_BLOCKING(of_libc ? wait_in_libc(&w, m) : wait_outside(&w));
}

HOOK int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
	return cond_wait(c, m, CLOCK_MONOTONIC, NULL);
}

HOOK int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *abs)
{
	return cond_wait(c, m, clock_of(c), abs);
}

HOOK int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
				const struct timespec *abs)
{
	return is_wait_clock(clock) ? cond_wait(c, m, clock, abs) : EINVAL;
}

/* --- signals --- */

/* Step B: false if no OS thread waits in the bucket. */
static bool is_awaited_outside(const pthread_cond_t *c)
{
	outside_ptr o = outside_of(c);

	if (likely(!ld_rlx(&o->waiters)))
		return false;
	signals_hold(); /* siglongjmp would leave it locked for the whole bucket */
	LIBC(pthread_mutex_lock)(&o->lock);
	LIBC(pthread_mutex_unlock)(&o->lock);
	signals_release();
	return true;
}

HOOK int pthread_cond_signal(pthread_cond_t *c)
{
	bool shared = is_shared(c);

	if (!shared && parked_wake_counted(parked_key(c, KEY_COND), 1))
		return 0;
	return is_awaited_outside(c) || shared ? LIBC(pthread_cond_signal)(c) : 0;
}

HOOK int pthread_cond_broadcast(pthread_cond_t *c)
{
	const void *key = parked_key(c, KEY_COND);
	bool shared = is_shared(c);

	if (is_awaited_outside(c) || shared)
		LIBC(pthread_cond_broadcast)(c);
	if (!shared)
		parked_wake_counted(key, UINT_MAX);
	return 0;
}

/* In the child of a fork no other thread waits, and none holds a lock. */
static void forget_outside(void)
{
	__builtin_memset(outside, 0, sizeof(outside));
}

IN_FORK_CHILD(forget_outside)
