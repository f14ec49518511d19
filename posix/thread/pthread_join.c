/* SPDX-License-Identifier: MIT */
/* Replaces the functions that join, detach and end threads: see registry.h. */
#include "posix/call/point.h"
#include "posix/call/times.h"
#include "posix/thread/alive.h"

/* Step 6.  me: the caller's record, or NULL.  once: EBUSY if the thread has not ended; its joiner,
 * which may be another thread, stays.  Returns 0, an errno value or NOT_GREEN. */
static int claim(pthread_t self, struct thread *me, bool once, struct thread **out)
{
	int err = 0;

	threads_lock();
	struct thread *t = thread_find(self);

	if (!t && !once && hook_has_own_tls() && pthread_equal(self, pthread_self())) {
		err = EDEADLK; /* not made by pthread_create: libc's function finds it detached */
	} else if (!t) {
		err = NOT_GREEN;
	} else if (t == me || (me && t->joins == me->self)) {
		err = EDEADLK;
	} else if (once && t->state == THREAD_JOINABLE) {
		err = EBUSY;
	} else if (t->state == THREAD_DETACHED || t->joiner) {
		err = EINVAL;
	} else {
		t->joiner = pthread_self();
		if (me)
			me->joins = self;
	}
	threads_unlock();
	*out = t;
	return err;
}

static int wait_once(struct thread *t, int64_t deadline)
{
	if (t->is_main)
		return -gmp_sem_acquire_until(&main_ended, deadline);
	return -gmp_join_until((gmp_g *)t->g, deadline);
}

/* Step 7.  Returns 0 or an errno value.  After signal handlers the wait continues. */
static int wait_for(struct thread *t, int64_t deadline)
{
	int err;

	if (!deadline || hook_how() == HOOK_LIBC)
		return wait_once(t, deadline);
	do
		err = HANDLER_WAIT(wait_once(t, deadline));
	while (err == EINTR);
	return err;
}

/* Step 8; err: the wait has failed, and t stays joinable. */
static void end_claim(struct thread *t, struct thread *me, int err, void **value)
{
	struct tlsblock *b = NULL;

	threads_lock();
	t->joiner = 0;
	if (me)
		me->joins = 0;
	if (!err && value)
		*value = t->result;
	if (!err)
		b = thread_remove(t);
	threads_unlock();
	green_give_block(b);
}

/* pthread_join and its relatives.  once: EBUSY instead of a wait. */
static int join(pthread_t self, void **value, clockid_t clock, const struct timespec *until,
		bool once)
{
	bool polls = once || (until && !has_valid_ns(until));
	struct thread *me = thread_self(), *t;

	if (!once && getm())
		cancel_point();
	int err = claim(self, me, once, &t);

	if (err)
		return err;
	err = wait_for(t, polls ? 0 : deadline_at(clock, until));
	if (polls && (err == ETIMEDOUT || err == ECANCELED))
		err = once ? EBUSY : EINVAL;
	end_claim(t, me, err, value);
	if (err == ECANCELED)
		cancel_waited();
	return err;
}

HOOK int pthread_join(pthread_t self, void **value)
{
	int err = join(self, value, CLOCK_MONOTONIC, NULL, false);

	return err == NOT_GREEN ? HOOK_BLOCKING(LIBC(pthread_join)(self, value)) : err;
}

HOOK int pthread_tryjoin_np(pthread_t self, void **value)
{
	int err = join(self, value, CLOCK_MONOTONIC, NULL, true);

	return err == NOT_GREEN ? LIBC(pthread_tryjoin_np)(self, value) : err;
}

HOOK int pthread_clockjoin_np(pthread_t self, void **value, clockid_t clock,
			      const struct timespec *until)
{
	int err = EINVAL;

	if (is_wait_clock(clock))
		err = join(self, value, clock, until, false);
	return err == NOT_GREEN
		       ? HOOK_BLOCKING(LIBC(pthread_clockjoin_np)(self, value, clock, until))
		       : err;
}

HOOK int pthread_timedjoin_np(pthread_t self, void **value, const struct timespec *until)
{
	return pthread_clockjoin_np(self, value, CLOCK_REALTIME, until);
}

static int detach(pthread_t self)
{
	struct tlsblock *b = NULL;
	struct g *g = NULL;
	int err = 0;

	threads_lock();
	struct thread *t = thread_find(self);

	if (!t) {
		err = NOT_GREEN;
	} else if (t->state == THREAD_DETACHED) {
		err = EINVAL;
	} else if (!t->joiner) { /* otherwise the joiner takes it, as with libc */
		g = t->is_main ? NULL : t->g;
		if (t->state == THREAD_JOINABLE)
			t->state = THREAD_DETACHED;
		else
			b = thread_remove(t);
	}
	threads_unlock();
	green_give_block(b);
	if (g) {
		signals_hold();
		gmp_detach((gmp_g *)g);
		signals_release();
	}
	return err;
}

HOOK int pthread_detach(pthread_t self)
{
	int err = detach(self);

	return err == NOT_GREEN ? LIBC(pthread_detach)(self) : err;
}

HOOK void pthread_exit(void *value)
{
	struct thread *t = thread_self();
	struct thread *blocked = gmp__blockedm() ? thread_of(own_green()) : NULL;

	if (t) {
		thread_begin_exit(t);
		t->result = value;
	} else if (blocked) {
		blocked->result = value; /* thread_main does the rest */
	} else if (is_spawned()) {
		gmp_exit(); /* no base for the unwinder */
	}
	LIBC(pthread_exit)(value);
	__builtin_unreachable();
}
