/* SPDX-License-Identifier: MIT */
/* Upcalls: the types of calls from the scheduler into higher floors. */
#ifndef GMP_UPCALLS_H
#define GMP_UPCALLS_H

#include "base/base.h"

struct g;
struct m;

/* A joinable G has ended; on g0. */
typedef void (*exit_fn)(struct g *gp);

/* An OS thread that runs one G is about to jump out of its calls; on its stack, no locks held. */
typedef void (*kill_fn)(const struct m *m);

/* An M, in its outermost P section and on the stack of its G, was asked for its P; locks before
 * LR_SCHED may be held.  Returns true if it has given the P up. */
typedef bool (*give_fn)(struct m *m);

/* A G ends; on its stack; may wait. */
typedef void (*end_fn)(struct g *gp);

/* No G can run, no timer is armed, no waiter waits for an fd.  Reports a deadlock and ends the
 * process, or returns after how many ns to call it again (NEVER: no need). */
typedef int64_t (*stall_fn)(void);

/* On sysmon, no locks held. */
typedef void (*delegated_fn)(void);

/* The same; returns when to call again.  now: os_now. */
typedef int64_t (*sched_fn)(int64_t now);

/* The same; true: call again in a second. */
typedef bool (*watch_fn)(void);

/* Observes a G that has just left its stack, to wait or to end; on g0, no locks held. */
typedef void (*observe_fn)(struct g *gp);

#endif
