/* SPDX-License-Identifier: MIT */
/*
 * Replaces pthread_create: a thread is a green thread with thread-locals of its own; registry.h has
 * the protocol, pthread_join.c the other functions.
 *
 * pthread_exit and cancellation unwind by libc's own unwinder, which runs the handlers of
 * pthread_cleanup_push and the destructors of C++ frames and stops at the buffer that thread_main
 * registers, as libc's does for an OS thread.
 */
#include "posix/thread/registry.h"

#include <string.h>

#include "posix/call/sigset.h"
#include "posix/thread/alive.h"
#include "posix/thread/later.h"

struct thread *thread_of(const struct g *gp)
{
	void *t = gp ? green_arg(gp, thread_main) : NULL;

	return gp && !t ? green_arg(gp, gmp__thread_up.main) : t;
}

struct thread *thread_self(void)
{
	if (!getm())
		return gmp__blockedm() ? NULL : forked_self();
	return thread_of(own_green());
}

/* --- the thread --- */

void thread_end_blocking(void)
{
	while (gmp__blockedm())
		gmp_block_leave();
}

void thread_begin_exit(struct thread *t)
{
	if (t->exiting)
		return;
	t->exiting = true;
	gmp_cancel_mask(1); /* what it calls from now on may wait */
}

void *thread_call(void *(*fn)(void *), void *arg, bool c11)
{
	return c11 ? (void *)(intptr_t)((thrd_start_t)(uintptr_t)fn)(arg) : fn(arg);
}

/* Steps 3 and 4.  pthread_exit arrives at the second return of setjmp, also that of a destructor,
 * after which the other destructors run.  The first thread of the child of a fork stays in
 * program_thread_left. */
void thread_main(void *arg)
{
	struct thread *t = arg;
	__pthread_unwind_buf_t base;

	gmp__thread_up.mask_inherit(t->mask);
	if (!__sigsetjmp_cancel(base.__cancel_jmp_buf, 0)) {
		__pthread_register_cancel(&base);
		t->result = thread_call(t->fn, t->arg, t->c11);
	}
	thread_end_blocking();
	thread_begin_exit(t);
	if (getm())
		green_end_locals();
	program_thread_left(t);
	__pthread_unregister_cancel(&base);
}

/* Step 2.  *out is written before the thread can run. */
static void enter(struct thread *t, pthread_t *out)
{
	t->run = run_number();
	if (t->name[0])
		green_set_name(t->g, t->name);
	program_thread_new();
	threads_lock();
	thread_enter(t);
	threads_unlock();
	*out = t->self;
	green_submit(t->g);
}

/* Returns 0 or a negative errno; then t is unused. */
static int start(struct thread *t, size_t stack, pthread_t *out)
{
	if (!rt_enter())
		return -ESRCH;
	int err = green_make(thread_main, t, stack, &t->g, &t->self);

	if (!err)
		enter(t, out);
	rt_leave();
	return err;
}

/* The mask of the attribute, or that of the creator. */
static uint64_t mask_by(const pthread_attr_t *attr)
{
	sigset_t set;

	if (attr && pthread_attr_getsigmask_np(attr, &set) == 0)
		return mask_of(&set);
	return gmp__thread_up.mask_to_inherit();
}

/* Reads the attributes that a green thread has: state and size.  Returns 0 or an errno value. */
static int read_attr(const pthread_attr_t *attr, struct thread *t, size_t *stack)
{
	pthread_attr_t none;
	const pthread_attr_t *from = attr ? attr : &none;
	int state = PTHREAD_CREATE_JOINABLE, err;

	if (!attr && gmp__thread_up.program_runs())
		return 0; /* the default of the run is that of the system */
	if (!attr && (err = pthread_attr_init(&none)))
		return err;
	err = pthread_attr_getstacksize(from, stack);
	if (!err)
		err = pthread_attr_getdetachstate(from, &state);
	if (!attr)
		pthread_attr_destroy(&none);
	t->state = state == PTHREAD_CREATE_DETACHED ? THREAD_DETACHED : THREAD_JOINABLE;
	return err;
}

static int create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg,
		  bool c11)
{
	struct thread *t = thread_record(), *self = thread_self();
	size_t stack = 0;

	if (!t)
		return EAGAIN;
	int err = read_attr(attr, t, &stack);

	t->fn = fn;
	t->arg = arg;
	t->c11 = c11;
	t->mask = mask_by(attr);
	if (self) {
		memcpy(t->name, self->name, sizeof(t->name));
		t->policy = ld_rlx(&self->policy);
	}
	if (!err)
		err = -start(t, stack, out);
	if (!err)
		return 0; /* a detached thread may have ended, and t is another's */
	threads_lock();
	thread_unused(t);
	threads_unlock();
	return err == EINVAL ? EINVAL : EAGAIN;
}

/* --- which threads are green --- */

/* A stack of the program, one above 1 GiB, or a real-time policy: only an OS thread can have it. */
static bool needs_os_thread(const pthread_attr_t *attr)
{
	void *at = NULL;
	size_t size = 0;
	int inherit = PTHREAD_INHERIT_SCHED, policy = SCHED_OTHER;

	if (pthread_attr_getstack(attr, &at, &size) == 0 && (uintptr_t)at + size != 0)
		return true;
	if (pthread_attr_getstacksize(attr, &size) == 0 && size > (size_t)1 << STACK_CLASS_MAX)
		return true;
	pthread_attr_getinheritsched(attr, &inherit);
	pthread_attr_getschedpolicy(attr, &policy);
	return inherit == PTHREAD_EXPLICIT_SCHED && policy != SCHED_OTHER;
}

/* True if pthread_create of the caller makes a green thread. */
static bool makes_green(const pthread_attr_t *attr)
{
	const struct g *gp = running_green();
	bool own = gp && green_has_own_tls(gp) && !handler_runs();

	return (own || gmp__thread_up.program_runs()) && !(attr && needs_os_thread(attr));
}

int thread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg,
		  bool c11)
{
	if (!makes_green(attr))
		return alive_counts() ? alive_create(out, attr, fn, arg, c11) : NOT_GREEN;
	signals_hold(); /* no handler leaves a lock of the runtime by siglongjmp */
	int err = create(out, attr, fn, arg, c11);

	signals_release();
	return err;
}

HOOK int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	int err = thread_create(out, attr, fn, arg, false);

	return err == NOT_GREEN ? LIBC(pthread_create)(out, attr, fn, arg) : err;
}
