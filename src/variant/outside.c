/* SPDX-License-Identifier: MIT */
/* Threads outside of the scheduler: the M of a G that runs as an OS thread, and the end of a thread
 * that was abandoned. */
#include <unistd.h>

#include "enter.h"
#include "variant/variant.h"

leaves_by_jump static int leave_abandoned_g0(void *arg)
{
	struct m *m = arg;

	if (m->abandon.block)
		owntls_unload(m);
	san_arrive(&m->san);
	return gmp__gogo(&m->base, 0, m->g0);
}

/* Step 4 of the thread in variant/abandon.h. */
_Noreturn void gmp__abandoned_end(void)
{
	struct m *m = gmp__abandonedm();
	struct context left;

	if (!m)
		_exit(0); /* a child that fork made from this G: it ends as an OS thread */
	san_leave(NULL, &m->san);
	gmp__mcall(&left, leave_abandoned_g0, m, m->g0);
	__builtin_unreachable();
}

void end_if_abandoned(void)
{
	if (unlikely(gmp__abandonedm()))
		gmp__abandoned_end();
}

noinline struct m *self_m_slow(void)
{
	struct m *m = gmp__blockedm();

	if (!m)
		end_if_abandoned();
	return m && m->as_thread.alone ? m : NULL;
}
