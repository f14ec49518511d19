/* SPDX-License-Identifier: MIT */
/*
 * Replaces pthread_cancel and the functions that set how a thread is cancelled.
 *
 *   pthread_cancel(t)                            the thread
 *    1 lock the table; t has not ended            a a wait returns -ECANCELED, or a cancellation
 *    2 t->pending = true                            point finds its G cancelled
 *    3 gmp_cancel: the G's flag, and its          b lock the table, read pending, unlock
 *      present wait; sigwait: KILL-6              c if it is set: unwind to the base of the thread
 *    4 unlock
 *
 * Invariants
 *   - Whatever step 3 does, the thread sees the request in step b: it takes the lock
 *     after step 1, so after step 4.
 *   - A thread with PTHREAD_CANCEL_DISABLE has a gmp_cancel_mask, and so has a thread that
 *     ends: no wait is cut, and cancel_is_pending is false.
 *
 * Differences from POSIX: PTHREAD_CANCEL_ASYNCHRONOUS acts at the next cancellation point, and in
 * the calls of this file.  libc's own cancellation is disabled in blocks of green threads, so
 * functions of libc that are not replaced are no cancellation points.
 */
#include "posix/call/point.h"

#include "posix/thread/later.h"
#include "posix/thread/registry.h"

bool cancel_is_pending(const struct thread *t)
{
	if (t->disabled || t->exiting)
		return false;
	threads_lock();
	bool pending = t->pending;

	threads_unlock();
	return pending;
}

/* Steps b and c. */
static void act_if_pending(struct thread *t)
{
	if (!cancel_is_pending(t))
		return;
	thread_begin_exit(t);
	t->result = PTHREAD_CANCELED;
	LIBC(pthread_exit)(PTHREAD_CANCELED);
}

/* In the child of a fork the thread is libc's. */
static struct thread *cancellable_self(void)
{
	return getm() ? thread_self() : NULL;
}

noinline void gmp__cancel_act(void)
{
	struct thread *t = cancellable_self();

	if (t)
		act_if_pending(t);
}

/* Steps 1 to 4.  Returns 0, an errno value or NOT_GREEN. */
static int cancel(pthread_t self)
{
	threads_lock();
	struct thread *t = thread_find(self);
	int err = t ? 0 : NOT_GREEN;

	if (t && t->state != THREAD_ENDED) {
		t->pending = true;
		err = -gmp_cancel((gmp_g *)t->g);
		gmp__thread_up.cancelled(t);
	}
	threads_unlock();
	return err;
}

static int cancel_in_libc(pthread_t self)
{
	int err = LIBC(pthread_cancel)(self);

	if (run_has_threads())
		gmp__thread_up.cancelled_in_libc();
	return err;
}

HOOK int pthread_cancel(pthread_t self)
{
	struct thread *me = cancellable_self();
	int err = cancel(self);

	if (err == NOT_GREEN)
		return cancel_in_libc(self);
	if (me && me->self == self && me->async)
		act_if_pending(me);
	return err;
}

HOOK void pthread_testcancel(void)
{
	if (hook_how() == HOOK_PARK)
		cancel_point();
	else
		LIBC(pthread_testcancel)();
}

bool is_spawned(void)
{
	return hook_parks() && hook_has_own_tls() && !thread_self();
}

/* Set the flag of t, that of a state or of a type; *old: its former value.  t, flag: NULL: the
 * caller is_spawned: pthread_cancel does not reach it, and libc must not cancel it. */
static int set_flag(struct thread *t, bool *flag, int value, int *old)
{
	bool was = t && *flag;

	if (value != false && value != true)
		return EINVAL;
	if (old)
		*old = was;
	if (!t)
		return 0;
	*flag = value;
	if (flag == &t->disabled && value != was)
		gmp_cancel_mask(value);
	if (t->async)
		act_if_pending(t);
	return 0;
}

_Static_assert(PTHREAD_CANCEL_ENABLE == false && PTHREAD_CANCEL_DISABLE == true, "a flag");
_Static_assert(PTHREAD_CANCEL_DEFERRED == false && PTHREAD_CANCEL_ASYNCHRONOUS == true, "a flag");

HOOK int pthread_setcancelstate(int state, int *old)
{
	struct thread *t = cancellable_self();

	return t || is_spawned() ? set_flag(t, t ? &t->disabled : NULL, state, old)
				 : LIBC(pthread_setcancelstate)(state, old);
}

HOOK int pthread_setcanceltype(int type, int *old)
{
	struct thread *t = cancellable_self();

	return t || is_spawned() ? set_flag(t, t ? &t->async : NULL, type, old)
				 : LIBC(pthread_setcanceltype)(type, old);
}
