/* SPDX-License-Identifier: MIT */
/* Leave steps: their variants, and which of them are in use; see variant/leave.h. */
#include "variant/leave.h"

#include <string.h>

#include "park.h"
#include "sched.h"
#include "variant/owntls.h"

static struct {
	bool observed, exits_observed; /* (c) */
	struct lock lock;
	const struct leave_steps *traced; /* under the lock; NULL: traces are off */
} leave;

/* --- observed --- */

static void observe(struct m *m)
{
	struct g *gp = m->curg;

	sched_leave_cxx(m, gp);
	if (sched.up.on_leave)
		sched.up.on_leave(gp);
}

leaves_by_jump static noinline int park_observed_g0(void *m)
{
	observe(m);
	return park_g0(m);
}

leaves_by_jump static noinline int yield_observed_g0(void *m)
{
	observe(m);
	return yield_g0(m);
}

leaves_by_jump static noinline int exit_observed_g0(void *arg)
{
	struct m *m = arg;

	sched.up.on_exit(m->curg);
	return sched_exit_g0(m);
}

leaves_by_jump static noinline int without_p_observed_g0(void *m)
{
	observe(m);
	return sched_without_p_g0(m);
}

/* What the G wrote on this OS thread is recorded here.  No code of the program follows, so nothing
 * is compared when it continues. */
leaves_by_jump static noinline int exit_without_p_observed_g0(void *arg)
{
	struct m *m = arg;
	struct g *gp = m->curg;

	if (sched.up.on_leave) {
		sched.up.on_leave(gp);
		gp->resume &= (uint8_t)~RESUME_OBSERVED;
	}
	return sched_without_p_g0(m);
}

/* --- own thread-locals: step 4 of variant/owntls.h.  No access by getm() follows the write of the
 * thread pointer at once: it would wait for the write. --- */

/* Unloads the block of the G of m.  Returns the G, or NULL if it has no block. */
static inline struct g *leave_block(struct m *m)
{
	struct g *gp = m->curg;

	if (!(gp->resume & RESUME_OWN_TLS))
		return NULL;
	owntls_unload(m);
	return gp;
}

leaves_by_jump static int park_own_g0(void *m)
{
	leave_block(m);
	return unlikely(leave.observed) ? park_observed_g0(m) : park_g0(m);
}

leaves_by_jump static int yield_own_g0(void *m)
{
	leave_block(m);
	return unlikely(leave.observed) ? yield_observed_g0(m) : yield_g0(m);
}

leaves_by_jump static int exit_own_g0(void *arg)
{
	struct m *m = arg;
	struct g *gp = leave_block(m);

	if (gp)
		owntls_release(m->p, gp);
	return unlikely(leave.exits_observed) ? exit_observed_g0(m) : sched_exit_g0(m);
}

leaves_by_jump static int without_p_own_g0(void *m)
{
	leave_block(m);
	return unlikely(leave.observed) ? without_p_observed_g0(m) : sched_without_p_g0(m);
}

leaves_by_jump static int exit_without_p_own_g0(void *m)
{
	leave_block(m);
	return unlikely(leave.observed) ? exit_without_p_observed_g0(m) : sched_without_p_g0(m);
}

/* --- which of them are in use --- */

static const struct leave_steps own_steps = {
	.park = park_own_g0,
	.yield = yield_own_g0,
	.exit = exit_own_g0,
	.without_p = without_p_own_g0,
	.exit_without_p = exit_without_p_own_g0,
};

static void set_steps(struct leave_steps *to, const struct leave_steps *from)
{
	st_rlx(&to->park, from->park);
	st_rlx(&to->yield, from->yield);
	st_rlx(&to->exit, from->exit);
	st_rlx(&to->without_p, from->without_p);
	st_rlx(&to->exit_without_p, from->exit_without_p);
}

static void use_steps_locked(void)
{
	struct leave_steps first = sched.untraced;

	if (leave.traced) {
		first.park = leave.traced->park;
		first.yield = leave.traced->yield;
		first.exit = leave.traced->exit;
	}
	set_steps(&sched.leave, &first);
}

void leave_trace(const struct leave_steps *traced)
{
	lock(&leave.lock, LR_STEPS);
	leave.traced = traced;
	use_steps_locked();
	unlock(&leave.lock, LR_STEPS);
}

static void use_own_steps(void)
{
	lock(&leave.lock, LR_STEPS);
	set_steps(&sched.untraced, &own_steps);
	use_steps_locked();
	unlock(&leave.lock, LR_STEPS);
}

int leave_own_tls(const char **why)
{
	if (likely(owntls_is_used()))
		return 0;
	int err = owntls_prepare(why);

	if (!err) {
		use_own_steps();
		owntls_set_used();
	}
	return err;
}

void leave_init(void)
{
	memset(&leave, 0, sizeof(leave)); /* a parent of this process may have held the lock */
	leave.observed = sched.up.on_leave || cxx_of_thread();
	leave.exits_observed = sched.up.on_exit != NULL;

	bool observed = leave.observed;

	sched.untraced = (struct leave_steps){
		.park = observed ? park_observed_g0 : park_g0,
		.yield = observed ? yield_observed_g0 : yield_g0,
		.exit = leave.exits_observed ? exit_observed_g0 : sched_exit_g0,
		.without_p = observed ? without_p_observed_g0 : sched_without_p_g0,
		.exit_without_p = observed ? exit_without_p_observed_g0 : sched_without_p_g0,
	};
	use_steps_locked(); /* no other thread uses them yet */
}
