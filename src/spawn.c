/* SPDX-License-Identifier: MIT */
/*
 * How does a green thread begin, and how does its end reach the one who waits for it?
 *
 * gp->join says who will give the descriptor back:
 *
 *   DETACHED ── its own end frees it
 *   JOINABLE ── gmp_detach ──> DETACHED
 *      │  └──── end ─────────> DONE ── gmp_join, gmp_detach: they free it
 *      └─ gmp_join ──> JOINED ── end: wakes the joiner ──> DONE, and the joiner frees it
 *                        └── timeout ──> JOINABLE
 *
 * Invariants
 *  E1 join changes under the lock of its bucket in the parking table, but not the table: there is one
 *     joiner at most, and JOINED is the address of its sudog.
 *  E2 DONE is set on g0: nobody frees a descriptor whose stack is still in use.
 */
#include "spawn.h"

#include <errno.h>

#include "base/os.h"
#include "base/throw.h"
#include "g.h"
#include "mode/chaos.h"
#include "park.h"
#include "parkinglot.h"
#include "pin.h"
#include "proc.h"
#include "ready.h"
#include "sched.h"

enum joinstate { DETACHED, JOINABLE, DONE }; /* JOINED: greater */

/* --- beginning --- */

/* sysmon may rest, and coarse_now with it. */
static noinline void foreign_spawned(struct g *gp)
{
	add_rlx(&sched.external_spawns, 1);
	st_rlx(&gp->born, g_born_at(os_now()));
}

struct g *green_new(gmp_fn fn, void *arg, unsigned klass, uintptr_t join, int *err)
{
	struct p *pp = getp();
	struct g *gp = g_alloc(pp, err);

	if (unlikely(!gp))
		return NULL;
	g_init(gp, fn, arg, g_new_id(pp), klass ? klass : sched.stack_class);
	st_rlx(&gp->join, join); /* the end of the run looks for joiners */
	if (likely(pp))
		bump(&pp->count.spawns, 1);
	else
		foreign_spawned(gp);
	return gp;
}

/* 0: not yet set up.  Stacks that are not of the default class are reserved at the spawn. */
static int class_of(size_t size, unsigned *klass)
{
	*klass = 0;
	if (size == 0)
		return 0;
	if (size > (size_t)1 << STACK_CLASS_MAX)
		return -EINVAL;
	*klass = max_of(log2_ceil(size), (unsigned)STACK_CLASS_MIN);
	if (*klass == sched.stack_class)
		return 0;
	return stack_promise(*klass, 1);
}

/* As a thread of its own; where there can be none, it has never been.  At the end of the run the caller is
 * told, and not dropped here: it may hold a lock (a pool's). */
static noinline int launch_thread(struct g *gp)
{
	g_set_status(gp, G_RUNNABLE);
	int err = thread_start(gp);

	if (!err)
		return 0;
	add_rlx(&sched.thread_exits, 1);
	if (gp->stack_class != sched.stack_class)
		stack_unpromise(gp->stack_class, 1);
	g_set_status(gp, G_RUNNING); /* for the sake of the edges */
	g_set_status(gp, G_DEAD);
	g_free(NULL, gp);
	return err;
}

static inline int launch(struct g *gp)
{
	if (unlikely(sched.threads))
		return launch_thread(gp);
	sched_submit(gp, true);
	return 0;
}

/* Everything but the usual case. */
static noinline int spawn_with(gmp_g **g, gmp_fn fn, void *arg, const gmp_attr *attr, uintptr_t pc)
{
	unsigned klass;
	int err;

	if (attr->size < sizeof(*attr) || attr->flags & ~GMP_PINNED)
		return -EINVAL;
	err = class_of(attr->stack_size, &klass);
	if (err)
		return err;
	struct g *gp = green_new(fn, arg, klass, JOINABLE, &err);

	if (!gp) {
		if (klass && klass != sched.stack_class)
			stack_unpromise(klass, 1);
		return err;
	}
	if (attr->name && attr->name[0])
		g_set_name(gp, attr->name);
	if (attr->flags & GMP_PINNED) {
		gp->pins = 1;
		gp->turn = RESUME_PINNED;
	}
	st_rlx(&gp->made_at, pc);
	*g = (gmp_g *)gp;
	return launch(gp);
}

static inline int spawn_plain(gmp_g **g, gmp_fn fn, void *arg, enum joinstate join, uintptr_t pc)
{
	int err = -ESRCH;
	struct g *gp = green_new(fn, arg, 0, join, &err);

	if (unlikely(!gp))
		return err;
	st_rlx(&gp->made_at, pc);
	if (g)
		*g = (gmp_g *)gp;
	else
		gp->turn = RESUME_UNSHARED;
	return launch(gp);
}

int gmp_go(gmp_fn fn, void *arg)
{
	if (unlikely(!fn))
		return -EINVAL;
	if (unlikely(!rt_enter()))
		return -ESRCH;
	int err = spawn_plain(NULL, fn, arg, DETACHED, (uintptr_t)__builtin_return_address(0));

	rt_leave();
	return err;
}

int gmp_spawn(gmp_g **g, gmp_fn fn, void *arg, const gmp_attr *attr)
{
	uintptr_t pc = (uintptr_t)__builtin_return_address(0);

	if (unlikely(!fn || !g))
		return -EINVAL;
	if (unlikely(!rt_enter()))
		return -ESRCH;
	int err = attr ? spawn_with(g, fn, arg, attr, pc) : spawn_plain(g, fn, arg, JOINABLE, pc);

	rt_leave();
	return err;
}

/* --- ending, and waiting for it --- */

/* Under the lock.  Claims the joiner, if one waits, before it is dequeued (W5).  Returns false if no joiner
 * has got the result. */
static bool wake_joiner(struct g *gp, int result, struct glist *out)
{
	uintptr_t join = ld_rlx(&gp->join);

	if (join <= DONE)
		return false;
	struct sudog *sg = (struct sudog *)join;
	bool claimed = waiter_claim(sg->w, result);

	if (claimed)
		glist_claimed(out, sg);
	st_rlx(&gp->join, DONE);
	st_rel(&sg->queued, false); /* ORD(sudog.queued) */
	return claimed;
}

void green_exited(struct g *gp)
{
	struct glist out = { 0 };
	struct bucket *b = lot_lock(&gp->join);
	bool detached = gp->join == DETACHED;

	if (!detached) {
		bool joined = wake_joiner(gp, 0, &out);

		/* the joiner frees it: a further join or detach of the handle must not */
		st_rlx(&gp->join, joined ? DETACHED : DONE);
	}
	lot_unlock(b);
	if (detached)
		g_free(getp(), gp);
	ready_list(&out);
}

void green_release_joiner(struct g *gp)
{
	struct glist out = { 0 };
	struct bucket *b = lot_lock(&gp->join);

	wake_joiner(gp, -ESRCH, &out);
	lot_unlock(b);
	out.head = NULL; /* a green one is dropped too */
	ready_list(&out);
}

static void join_unwait(struct waiter *w)
{
	struct sudog *sg = waiter_sudog(w);

	if (!ld_acq(&sg->queued)) /* ORD(sudog.queued) */
		return;
	uintptr_t *join = (uintptr_t *)(uintptr_t)sg->key;
	struct bucket *b = lot_lock(join);

	if (sg->queued) {
		sg->queued = false;
		st_rlx(join, JOINABLE);
	}
	lot_unlock(b);
}

static void commit_join(void *b)
{
	lot_unlock(b);
}

/* JOINABLE, under the lock, which is dropped. */
static int wait_for_end(struct g *gp, struct bucket *b, int64_t deadline)
{
	struct external f;
	struct sudog *sg = self_sudog(&f);

	sched_run_next(gp);
	sg->key = &gp->join;
	st_rlx(&sg->queued, true);
	st_rlx(&gp->join, (uintptr_t)sg);
	return wait_on(sg->w, WAIT_JOIN, join_unwait, commit_join, b, deadline);
}

static int join_until(struct g *gp, int64_t deadline)
{
	struct bucket *b = lot_lock(&gp->join);
	bool joinable = gp->join == JOINABLE;
	int result = joinable ? too_late(deadline) : gp->join == DONE ? 0 : -EINVAL;

	if (joinable && !result) {
		result = wait_for_end(gp, b, deadline);
	} else {
		if (!result)
			st_rlx(&gp->join, DETACHED); /* DONE, and the caller frees it */
		lot_unlock(b);
	}
	if (result == 0)
		g_free(getp(), gp);
	return result;
}

int gmp_join_until(gmp_g *g, int64_t deadline)
{
	chaos_point();
	if (!g)
		return -EINVAL;
	if ((struct g *)g == own_green()) /* in blocking code, too */
		return -EDEADLK;
	if (!rt_enter())
		return -ESRCH;
	int result = join_until((struct g *)g, deadline);

	rt_leave();
	return result;
}

int gmp_join(gmp_g *g)
{
	return gmp_join_until(g, NEVER);
}

int gmp_detach(gmp_g *g)
{
	struct g *gp = (struct g *)g;
	int result = 0;

	if (!g)
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	struct bucket *b = lot_lock(&gp->join);
	bool over = gp->join == DONE;

	if (gp->join == JOINABLE)
		st_rel(&gp->join, DETACHED); /* ORD(join): at its end nobody takes the lock */
	else if (over)
		st_rlx(&gp->join, DETACHED);
	else
		result = -EINVAL;
	lot_unlock(b);
	if (over)
		g_free(getp(), gp);
	rt_leave();
	return result;
}

void gmp_exit(void)
{
	struct m *m = getm();

	if (!m && thread_m())
		thread_exit(thread_m());
	if (!m && gmp__blockedm())
		gmp__fatal("gmp_exit in blocking code\n"
			   "call gmp_block_leave before gmp_exit");
	if (!m)
		gmp__fatal("gmp_exit on a thread that is not a green thread\n"
			   "return from the function of the OS thread, or call pthread_exit");
	if (m->cxx)
		cxx_move(g_cxx(m->curg),
			 m->cxx); /* X1: it may be in a catch block, and never leaves it */
	sched_exit();
}

/* --- cancellation --- */

/* park.h has the protocol. */
static void cancel(struct g *gp)
{
	st_rlx(&gp->cancelled, true);
	if (unlikely(sched.threads)) {
		thread_cut(gp);
		return;
	}
	if (!cancel_wait(gp)) {
		sched_heavy_fence(); /* ORD(cancel) */
		if (!cancel_wait(gp))
			return;
	}
	ready(&gp->w);
}

int gmp_cancel(gmp_g *g)
{
	if (!g)
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	cancel((struct g *)g);
	rt_leave();
	return 0;
}

int gmp_cancelled(void)
{
	struct g *gp = self_green();

	return gp && ld_rlx(&gp->cancelled);
}

int gmp_cancel_mask(int on)
{
	struct g *gp = self_green();

	if (!gp)
		return 0;
	uint8_t *masked = &gp->masked;

	if (*masked == (on ? UINT8_MAX : 0))
		return -EINVAL;
	*masked = (uint8_t)(*masked + (on ? 1 : -1));
	return 0;
}

/* --- while it lives --- */

void gmp_yield(void)
{
	if (unlikely(!getm())) {
		thread_checkpoint();
		os_yield();
		return;
	}
	park_yield();
}

void gmp_checkpoint(void)
{
	self_checkpoint();
}

int gmp_lock_thread(void)
{
	struct m *m = getm(), *its = m ? m : thread_m();

	if (!its && gmp__blockedm())
		gmp__fatal("gmp_lock_thread in blocking code\n"
			   "call gmp_block_leave before gmp_lock_thread");
	if (!its)
		gmp__fatal("gmp_lock_thread on a thread that is not a green thread\n"
			   "call it in a green thread only");
	int err = its->locks || !m ? 0 : sched_bind(m); /* mode/thread.c: it is as if it were */

	if (err || its->locks == UINT32_MAX)
		return -EAGAIN;
	its->locks++;
	if (!m)
		return 0;
	m->curg->lockedm = m;
	m->curg->turn |= RESUME_BOUND;
	return 0;
}

int gmp_unlock_thread(void)
{
	struct m *m = getm(), *its = m ? m : thread_m();

	if (!its && gmp__blockedm())
		gmp__fatal("gmp_unlock_thread in blocking code\n"
			   "call gmp_block_leave before gmp_unlock_thread");
	if (!its)
		gmp__fatal("gmp_unlock_thread on a thread that is not a green thread\n"
			   "call it in a green thread only");
	if (!its->locks)
		gmp__fatal("gmp_unlock_thread of a green thread that is not locked to its thread");
	if (--its->locks == 0 && m) {
		m->curg->turn &= (uint8_t)~RESUME_BOUND;
		sched_unbind(m);
	}
	return 0;
}

int gmp_pin(void)
{
	struct m *m = getm() ? getm() : gmp__blockedm();

	if (!m)
		return 0;
	if (m->curg->pins == UINT8_MAX)
		return -EAGAIN;
	if (m->curg->pins++ == 0)
		sched_pin(m);
	return 0;
}

int gmp_unpin(void)
{
	struct m *m = getm() ? getm() : gmp__blockedm();

	if (!m)
		return 0;
	if (m->curg->pins == 0)
		return -EINVAL;
	if (--m->curg->pins == 0)
		sched_unpin(m);
	return 0;
}

gmp_g *gmp_self(void)
{
	return (gmp_g *)self_green();
}

uint64_t gmp_id(const gmp_g *g)
{
	return g ? ((const struct g *)g)->id : 0;
}

const char *gmp_name(const gmp_g *g)
{
	return g ? g_name((const struct g *)g) : "";
}
