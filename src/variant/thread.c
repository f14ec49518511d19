/* SPDX-License-Identifier: MIT */
/* Thread mode.  thread.h has the protocol and the invariants. */
#include "variant/thread.h"

#include <errno.h>
#include <setjmp.h>
#include <unistd.h>

#include "base/os.h"
#include "enter.h"
#include "g.h"
#include "idle.h"
#include "proc.h"
#include "ready.h"
#include "variant/variant.h"
#include "waiter.h"

/* How a green thread ended; the value of its longjmp.  RETURNED: its entry function returns; 0, as
 * the first return of setjmp. */
enum { RETURNED = 0, EXITED = 1, KILLED = 2 };

#define AWAITS_HELD ((struct waiter *)1)

/* m->blocks outside of gmp_block_enter. */
enum { BLOCKS_OUTSIDE = INT32_MAX };

static int (*timer_begin)(int tid);
static void (*timer_end)(int timer);

/* --- start --- */

/* Reserves an M, unless the run ends.  Returns 0; the end of the run then waits for the new
 * thread.  Called without locks. */
static int thread_announce(void)
{
	lock(&sched.lock, LR_SCHED);
	int err = ld_rlx(&sched.state) != RUN_ON ? -ESRCH : m_reserve_locked() ? 0 : -EAGAIN;

	if (!err)
		sched.nstarting++;
	unlock(&sched.lock, LR_SCHED);
	return err;
}

static void count_blocked(int n)
{
	st_rlx(&sched.nblocked, sched.nblocked + n); /* THREAD-2 */
}

void variant_adopt(struct m *m, struct g *gp)
{
	gp->awaits = NULL;
	g_set_status(gp, G_RUNNING);
	g_set_status(gp, G_BLOCKED);
	lock(&sched.lock, LR_SCHED);
	m->as_thread.alone = true;
	m->curg = gp;
	count_blocked(1);
	unlock(&sched.lock, LR_SCHED);
}

/* The caller's wait has ended: step 5.  w: its awaits. */
static void stop_awaiting(struct g *gp, struct waiter *w)
{
	struct waiter *mine = w;

	while (!cas_acq(&gp->awaits, &mine, (struct waiter *)NULL)) { /* ORD(awaits) */
		mine = w;
		cpu_relax();
	}
}

/* Steps 5 and 6, if there is a call. */
static bool call_leave(struct m *m)
{
	if (likely(!m->as_thread.call.gp)) /* THREAD-4 */
		return false;
	stop_awaiting(m->curg, &m->as_thread.call);
	int timer = m->as_thread.timer;

	m->as_thread.call.gp = NULL;
	m->as_thread.timer = 0;
	if (unlikely(timer))
		timer_end(timer - 1);
	return timer;
}

/* Takes the green thread from m.  THREAD-3. */
static void thread_release_g(struct m *m)
{
	call_leave(m);
	lock(&sched.lock, LR_SCHED);
	m->curg = NULL;
	count_blocked(-1);
	unlock(&sched.lock, LR_SCHED);
}

int variant_start(struct g *gp)
{
	if (variant_gs_switch())
		return -EAGAIN;
	for (int i = 0; i < 2; i++) /* two ended threads for each new one: the backlog shrinks */
		m_join_one(true);
	int err = thread_announce();

	if (err)
		return err;
	struct m *m = m_new();

	err = m ? 0 : -EAGAIN;
	if (m) {
		variant_adopt(m, gp);
		err = m_start(m) ? -EAGAIN : 0;
	}
	if (err && m) {
		thread_release_g(m);
		m_free(m);
		g_set_status(gp, G_RUNNABLE);
	}
	lock(&sched.lock, LR_SCHED);
	sched.nstarting--;
	unlock(&sched.lock, LR_SCHED);
	return err;
}

/* --- end --- */

/* Final step of an exiting green thread, as sched_exit_g0 is for others. */
static void thread_end(struct m *m, struct g *gp)
{
	if (gp == sched.main)
		sched_stop(); /* first: with nblocked 0 a deadlock would be reported */
	thread_release_g(m);
	g_set_status(gp, G_RUNNING);
	g_set_status(gp, G_DEAD);
	add_rlx(&sched.total.external_exits, 1);
	if (gp->stack_class != sched.stack_class)
		stack_unpromise(gp->stack_class, 1); /* reserved, and never used */
	if (ld_acq(&gp->join))                       /* ORD(join) */
		sched.up.joinable_exit(gp);
	else
		g_free(NULL, gp);
}

static _Noreturn void thread_leave(struct m *m, int how)
{
	if (how == KILLED)
		sched.up.thread_killed(m);
	longjmp(*(jmp_buf *)m->as_thread.way_out, how);
}

bool variant_run(struct m *m)
{
	struct g *gp = m->curg;
	jmp_buf way_out;

	if (!m->as_thread.alone)
		return false;
	m->as_thread.way_out = &way_out;
	st_rlx(&m->tid, os_thread_id());
	m->blocks = BLOCKS_OUTSIDE; /* gmp_block_leave never decrements it to 0 */
	st_rlx(&m->inside, 0);      /* it has no P: it is never in a P section */
	gmp__setm_blocked(m);
	switch (setjmp(way_out)) {
	case RETURNED:
		gp->fn(gp->arg);
		if (!gmp__blockedm())
			_exit(0); /* the child of a fork, which has no green threads */
		run_exit_hooks(gp);
		/* fallthrough */
	case EXITED: thread_end(m, gp); break;
	case KILLED: thread_release_g(m); break;
	}
	gmp__setm(NULL);
	return true;
}

noinline void variant_exit(struct m *m)
{
	run_exit_hooks(m->curg);
	thread_leave(m, EXITED);
}

static bool run_ends(void)
{
	return ld_acq(&sched.state) != RUN_ON; /* ORD(external) */
}

void variant_checkpoint(void)
{
	struct m *m = self_m_slow();

	if (m && run_ends())
		thread_leave(m, KILLED);
}

/* --- waiting --- */

static bool thread_is_cancelled(const struct g *gp)
{
	return ld_rlx(&gp->cancelled) && !gp->masked && !gp->uncancellable;
}

/* Claims w and wakes its thread.  The caller keeps w from going away: it is w's thread, or holds
 * w. */
static void thread_claim(struct waiter *w, int result)
{
	if (waiter_claim(w, result))
		sched_wake_external(w);
}

void variant_arm(struct m *m, struct waiter *w, unsigned why)
{
	struct g *gp = m->curg;

	st_rlx(&gp->reason, (uint8_t)(why & ~(unsigned)UNCANCELLABLE));
	call_leave(m); /* before the flag, which a canceller reads while it holds a call */
	gp->uncancellable = why & UNCANCELLABLE;
	st_rel(&w->state, WAITER_ARMED); /* ORD(waiter.claim) */
	st_rel(&gp->awaits, w);          /* ORD(awaits) */
	fence_seq();                     /* ORD(cancel) */
	if (run_ends())
		thread_claim(w, -ESRCH);
	else if (thread_is_cancelled(gp))
		thread_claim(w, -ECANCELED);
}

int variant_resume(struct m *m, struct waiter *w, unwait_fn unwait, int result)
{
	struct g *gp = m->curg;

	stop_awaiting(gp, w);
	m->as_thread.killed =
		result && run_ends(); /* read once: unwait checks m->as_thread.killed too */
	if (result && unwait)
		unwait(w);
	if (m->as_thread.killed)
		thread_leave(m, KILLED);
	return result == -ETIMEDOUT && thread_is_cancelled(gp) ? -ECANCELED : result;
}

bool thread_killed(void)
{
	struct m *m = self_m_slow();

	return m && m->as_thread.killed;
}

/* THREAD-1, step 3 of a canceller.  Returns gp's waiter, which the caller must release (step 5);
 * NULL if gp does not wait. */
static struct waiter *hold_waiter(struct g *gp)
{
	struct waiter *w = ld_acq(&gp->awaits); /* ORD(awaits) */

	while (w) {
		if (w != AWAITS_HELD && cas_acq(&gp->awaits, &w, AWAITS_HELD)) /* ORD(awaits) */
			return w;
		cpu_relax();
		w = ld_acq(&gp->awaits); /* ORD(awaits) */
	}
	return NULL;
}

/* Step 4 of a canceller, or of the end of the run. */
static void end_held(struct waiter *w, int result)
{
	struct m *m = container_of(w, struct m, as_thread.call);

	if (!w->gp)
		thread_claim(w, result);
	else if (!m->as_thread.timer) /* a call of libc */
		m->as_thread.timer = max_of(timer_begin(m->tid) + 1, 0);
}

static void thread_end_wait(struct g *gp, bool all, int result)
{
	struct waiter *w = hold_waiter(gp);

	if (!w)
		return;
	if (all || thread_is_cancelled(gp)) /* held: the flags are those of this wait */
		end_held(w, result);
	st_rel(&gp->awaits, w); /* ORD(awaits) */
}

void variant_cancel_wait(struct g *gp)
{
	fence_seq(); /* ORD(cancel) */
	thread_end_wait(gp, false, -ECANCELED);
}

/* --- calls of libc --- */

bool libc_call_begin(void)
{
	struct m *m = self_m_slow();
	struct g *gp = m ? m->curg : NULL;

	/* the child of a vfork has the parent's M: a timer is of one process */
	if (!m || m->blocks != BLOCKS_OUTSIDE || m->tid != os_thread_id())
		return false;
	call_leave(m);
	m->as_thread.call.gp = gp;
	st_rlx(&gp->reason, (uint8_t)WAIT_CALL);
	gp->uncancellable = false;
	st_rel(&gp->awaits, &m->as_thread.call); /* ORD(awaits) */
	fence_seq();                             /* ORD(cancel) */
	if (unlikely(run_ends() || thread_is_cancelled(gp)))
		thread_end_wait(gp, true, 0);
	return true;
}

bool libc_call_end(void)
{
	struct m *m = gmp__blockedm(); /* NULL: in a handler in the call, the program has forked */

	return m && call_leave(m);
}

void libc_call_interrupted_by(int (*begin)(int tid), void (*end)(int timer))
{
	timer_begin = begin;
	timer_end = end;
}

/* --- shutdown --- */

static bool thread_wake_all(void)
{
	lock(&sched.lock, LR_SCHED);
	bool any = sched.nstarting > 0;

	for (struct m *m = sched.allm; m; m = m->alllink) {
		if (!m->as_thread.alone || !m->curg)
			continue;
		any = true;
		thread_end_wait(m->curg, true, -ESRCH);
	}
	unlock(&sched.lock, LR_SCHED);
	return any;
}

void variant_end(void)
{
	while (!variant_gs_switch() && thread_wake_all()) /* repeated until all have ended */
		os_nap(200 * US);
}
