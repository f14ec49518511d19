/* SPDX-License-Identifier: MIT */
/* Spawn, exit, cancel, yield: what a green thread and its makers call.  Join: wait/join.c; calls
 * that bind a G to its M: policy/pin.c. */
#include "spawn.h"

#include <errno.h>
#include <string.h>

#include "base/emit.h"
#include "base/os.h"
#include "base/throw.h"
#include "enter.h"
#include "g.h"
#include "park.h"
#include "proc.h"
#include "ready.h"
#include "sched.h"
#include "variant/variant.h"
#include "waiter.h"

/* --- spawn --- */

/* The age of gp cannot come from coarse_now, which is out of date while sysmon sleeps. */
static noinline void count_external_spawn(struct g *gp)
{
	add_rlx(&sched.total.external_spawns, 1);
	st_rlx(&gp->born, g_born_at(os_now()));
}

static inline void green_init(struct p *pp, struct g *gp, gmp_fn fn, void *arg, unsigned klass,
			      uintptr_t join)
{
	g_init(gp, fn, arg, g_new_id(pp), klass ? klass : sched.stack_class);
	st_rlx(&gp->join, join); /* atomic: shutdown reads it (green_release_joiner) */
	if (likely(pp))
		bump(&pp->count.spawns, 1);
	else
		count_external_spawn(gp);
}

/* green_new in a P section, or with pp NULL on a thread without a P. */
static inline struct g *green_new_here(struct p *pp, gmp_fn fn, void *arg, unsigned klass,
				       uintptr_t join, int *err)
{
	struct g *gp = g_alloc(pp, err);

	if (likely(gp != NULL))
		green_init(pp, gp, fn, arg, klass, join);
	return gp;
}

struct g *green_new(gmp_fn fn, void *arg, unsigned klass, uintptr_t join, int *err)
{
	struct g *gp = green_new_here(hold_p(), fn, arg, klass, join, err);

	drop_p();
	return gp;
}

struct g *green_new_deferred(gmp_fn fn, void *arg, int *err)
{
	struct p *pp = hold_p();
	struct g *gp = g_alloc_deferred(err);

	if (gp)
		green_init(pp, gp, fn, arg, 0, JOIN_DETACHED);
	drop_p();
	return gp;
}

int stack_class_of(size_t size, unsigned *klass)
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

/* Frees gp, which is runnable for the caller alone and will not run.  Returns err. */
static noinline int spawn_undo(struct g *gp, int err)
{
	add_rlx(&sched.total.external_exits, 1);
	if (gp->stack_class != sched.stack_class)
		stack_unpromise(gp->stack_class, 1);
	g_set_status(gp, G_RUNNING); /* gstatus.def has no edge from runnable to dead */
	g_set_status(gp, G_DEAD);
	g_free(NULL, gp);
	return err;
}

/* On an OS thread of its own.  If that fails, gp is freed.  At the end of the run the result is
 * -ESRCH: the caller is not killed here, since it may hold a lock (a pool's). */
static noinline int spawn_launch_thread(struct g *gp)
{
	g_set_status(gp, G_RUNNABLE);
	int err = variant_start(gp);

	return err ? spawn_undo(gp, err) : 0;
}

static inline int spawn_launch(struct g *gp)
{
	if (unlikely(!variant_gs_switch()))
		return spawn_launch_thread(gp);
	sched_submit(gp, true);
	return 0;
}

/* gmp_spawn with attributes. */
static noinline int spawn_with_attr(gmp_g **g, gmp_fn fn, void *arg, const gmp_attr *attr,
				    uintptr_t pc)
{
	unsigned klass;
	int err;

	if (attr->size < sizeof(*attr) || attr->flags & ~(GMP_PINNED | GMP_OWN_TLS))
		return -EINVAL;
	err = stack_class_of(attr->stack_size, &klass);
	if (err)
		return err;
	struct g *gp = green_new(fn, arg, klass, JOIN_JOINABLE, &err);

	if (!gp) {
		if (klass && klass != sched.stack_class)
			stack_unpromise(klass, 1);
		return err;
	}
	if (attr->flags & GMP_OWN_TLS && (err = owntls_spawn(gp)) != 0) {
		g_set_status(gp, G_RUNNABLE);
		return spawn_undo(gp, err);
	}
	if (attr->name && attr->name[0])
		g_set_name(gp, attr->name);
	if (unlikely(recording()) && g_name(gp)[0])
		gmp__emit_text(recording(), EVENT_NAME, gp->id, g_name(gp), strlen(g_name(gp)));
	if (attr->flags & GMP_PINNED) {
		gp->pins = 1;
		gp->resume |= RESUME_PINNED;
	}
	st_rlx(&gp->made_at, pc);
	*g = (gmp_g *)gp;
	return spawn_launch(gp);
}

/* In a P section if pp is not NULL. */
static inline int spawn_default_here(struct p *pp, gmp_g **g, gmp_fn fn, void *arg,
				     enum joinstate join, uintptr_t pc)
{
	int err = -ESRCH;
	struct g *gp = green_new_here(pp, fn, arg, 0, join, &err);

	if (unlikely(!gp))
		return err;
	st_rlx(&gp->made_at, pc);
	if (g)
		*g = (gmp_g *)gp;
	else
		gp->resume = RESUME_UNSHARED;
	if (unlikely(!pp))
		return spawn_launch(gp);
	sched_submit_here(pp, gp, true);
	return 0;
}

static noinline int spawn_default_bare(gmp_g **g, gmp_fn fn, void *arg, enum joinstate join,
				       uintptr_t pc)
{
	return spawn_default_here(NULL, g, fn, arg, join, pc);
}

static inline int spawn_default(gmp_g **g, gmp_fn fn, void *arg, enum joinstate join, uintptr_t pc)
{
	struct m *m = getm();

	if (unlikely(!m))
		return spawn_default_bare(g, fn, arg, join, pc);
	int err = likely(p_hold(m)) ? spawn_default_here(m->p, g, fn, arg, join, pc)
				    : spawn_default_bare(g, fn, arg, join, pc);

	p_drop(m);
	return err;
}

int gmp_go(gmp_fn fn, void *arg)
{
	if (unlikely(!fn))
		return -EINVAL;
	if (unlikely(!rt_enter()))
		return -ESRCH;
	int err =
		spawn_default(NULL, fn, arg, JOIN_DETACHED, (uintptr_t)__builtin_return_address(0));

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
	int err = attr ? spawn_with_attr(g, fn, arg, attr, pc)
		       : spawn_default(g, fn, arg, JOIN_JOINABLE, pc);

	rt_leave();
	return err;
}

int green_start(gmp_fn fn, void *arg, const char *name, size_t stack_size)
{
	gmp_attr attr = GMP_ATTR_INIT;
	gmp_g *g;

	attr.name = name;
	attr.stack_size = stack_size;
	int err = gmp_spawn(&g, fn, arg, &attr);

	if (!err)
		gmp_detach(g); /* fails if the run has just ended: g has run or is killed */
	return err;
}

/* --- end --- */

void gmp_exit(void)
{
	struct m *m = self_m();

	if (m && !getm())
		variant_exit(m);
	if (!m && gmp__blockedm())
		gmp__fatal("gmp_exit in blocking code\n"
			   "call gmp_block_leave before gmp_exit");
	if (!m)
		gmp__fatal("gmp_exit on a thread that is not a green thread\n"
			   "return from the function of the OS thread, or call pthread_exit");
	if (m->cxx) /* CXX-1: a catch block that called gmp_exit is never left */
		cxx_move(g_cxx(m->curg), m->cxx);
	sched_exit();
}

/* --- cancellation --- */

/* Sets the flag and ends gp's present wait, if there is one.  park.h has the protocol. */
static void cancel_g(struct g *gp)
{
	st_rlx(&gp->cancelled, true);
	if (variant_cancels(gp))
		return;
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
	cancel_g((struct g *)g);
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

/* --- calls of a running green thread --- */

void gmp_yield(void)
{
	if (unlikely(!getm())) {
		self_checkpoint();
		os_yield();
		return;
	}
	park_yield();
}

void gmp_checkpoint(void)
{
	self_checkpoint();
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
