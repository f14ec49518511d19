/* SPDX-License-Identifier: MIT */
/* What posix/ uses of the runtime: see door.h. */
#include "run/door.h"

#include <errno.h>

#include "base/os.h"
#include "g.h"
#include "m.h"
#include "machine/frame.h"
#include "machine/tlslayout.h"
#include "monitor/sysmon.h"
#include "netpoll/netpoll.h"
#include "observe/dump/running.h"
#include "policy/spare.h"
#include "spawn.h"
#include "variant/owntls.h"
#include "variant/owntls_spawn.h"
#include "waiter.h"

/* --- the run --- */

void run_ends_by_signals(void)
{
	sched.never_deadlocked = true;
}

void signal_wait_begin(void)
{
	netpoll_add_waiter();
}

void signal_wait_end(void)
{
	add_rlx(&sched.npollwait, -1u);
}

int run_m_tids(int *tids, int n)
{
	return m_tids(tids, n);
}

int run_tids(int *tids, int n)
{
	int others[] = { sysmon_tid(), spare_tid() };
	int found = m_tids(tids, n - (int)countof(others));

	for (size_t i = 0; i < countof(others); i++)
		tids[found++] = others[i];
	return found;
}

void child_attributes_begin(void)
{
	os_timer_slack(sched.slack);
	if (sched.preempts)
		os_thread_slice(0, 0);
}

void child_attributes_end(void)
{
	if (sched.preempts)
		os_thread_slice(0, m_slice());
	os_timer_slack(1); /* as in m_main */
}

void run_on_delegated(void (*fn)(void))
{
	gmp__posix_delegated = fn;
}

/* --- making and ending --- */

/* A G with the block b.  If that fails, the promise of its stack is taken back. */
static int make_with(struct tlsblock *b, gmp_fn fn, void *arg, size_t stack, struct g **made)
{
	unsigned klass;
	int err = b ? stack_class_of(stack, &klass) : -ENOMEM;

	if (err)
		return err;
	*made = green_new(fn, arg, klass, JOIN_JOINABLE, &err);
	if (*made)
		owntls_attach(*made, b);
	else if (klass && klass != sched.stack_class)
		stack_unpromise(klass, 1);
	return *made ? 0 : err;
}

int green_make(gmp_fn fn, void *arg, size_t stack, struct g **made, pthread_t *self)
{
	int err = owntls_enable(); /* the program may have started the runtime itself */

	if (err)
		return err;
	struct tlsblock *b = owntls_take(hold_p());

	drop_p();
	err = make_with(b, fn, arg, stack, made);
	if (err)
		green_give_block(b);
	else
		*self = (pthread_t)((uintptr_t)b + (uintptr_t)gmp__tls_layout.self);
	return err;
}

void green_submit(struct g *gp)
{
	sched_submit(gp, true);
}

void green_set_name(struct g *gp, const char *name)
{
	g_set_name(gp, name);
}

void green_end_locals(void)
{
	owntls_end();
}

void green_on_end(bool (*fn)(struct g *gp, struct tlsblock *b))
{
	gmp__owntls_keep = fn;
}

void green_give_block(struct tlsblock *b)
{
	if (!b)
		return;
	owntls_give(hold_p(), b);
	drop_p();
}

struct tlsblock *block_of_self(pthread_t self)
{
	return (struct tlsblock *)((uintptr_t)self - (uintptr_t)gmp__tls_layout.self);
}

/* --- stacks --- */

char *green_stack(const struct g *gp, size_t *size)
{
	*size = (size_t)1 << (gp->stack_class ? gp->stack_class : sched.stack_class);
	return ld_rlx(&gp->stack);
}

bool is_on_stack_sig(const struct g *gp, uintptr_t at)
{
	uintptr_t low = (uintptr_t)ld_rlx(&gp->stack);

	return low && at - low < (size_t)1 << gp->stack_class;
}

/* The thread pointer tells for a G with own thread-locals, which may run on a stack that the
 * program has made. */
struct g *interrupted_green_sig(const void *context)
{
	struct m *m = getm();
	struct g *gp = m ? m->curg : NULL;

	if (gmp__blockedm())
		return gmp__blockedm()->curg;
	if (!gp || gmp__tls_host())
		return gp;
	return is_on_stack_sig(gp, context_sp_sig(context)) ? gp : NULL;
}

/* --- where a G is --- */

int green_tid_sig(const struct g *gp)
{
	uint64_t ran_from;
	int64_t since;
	int tid = 0;

	return m_of_running(gp, &tid, &since, &ran_from) ? tid : 0;
}

int green_tid(const struct g *gp)
{
	int tid = 0;

	lock(&sched.lock, LR_SCHED);
	for (const struct m *m = sched.allm; m && !tid; m = m->alllink)
		if (ld_rlx(&m->curg) == gp)
			tid = ld_rlx(&m->tid);
	unlock(&sched.lock, LR_SCHED);
	return tid;
}

bool green_waits(const struct g *gp, int *tid)
{
	uint8_t status = ld_rlx(&gp->status);

	*tid = 0;
	if (status == G_WAITING || status == G_DEAD)
		return true;
	*tid = green_tid_sig(gp);
	return false;
}

/* As cancel_wait of park.c.  All waits that are no cancellation points and that a handler cuts,
 * except those for a futex, continue after it. */
bool green_cut_wait(struct g *gp)
{
	if (waiter_hold(&gp->w) != WAITER_ARMED)
		return false;
	bool cut = !gp->uncancellable || g_wait_kind(gp)->cut_by_handlers;

	st_rel(&gp->w.state, cut ? CLAIMED_WITH(-EINTR) : WAITER_ARMED); /* ORD(waiter.claim) */
	return cut;
}

void green_ready(struct g *gp)
{
	ready(&gp->w);
}

int park_result(const struct waiter *w)
{
	return waiter_result(ld_rlx(&w->state));
}
