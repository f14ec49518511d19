/* SPDX-License-Identifier: MIT */
/* What of a green thread's life do the upper floors have to know?  See spawn.c. */
#ifndef GMP_SPAWN_H
#define GMP_SPAWN_H

#include "types.h"

/* A green thread, not yet runnable; NULL and *err.  klass 0: the default stack. */
struct g *green_new(gmp_fn fn, void *arg, unsigned klass, uintptr_t join, int *err);
/* sched.joinable_exit */
void green_exited(struct g *gp);
/* The runtime stops: whoever joins it gets -ESRCH. */
void green_release_joiner(struct g *gp);

/* sched.timer_run_end, of time/sleep.c: one that a timer started ends, or is dropped. */
void timer_run_ended(struct g *gp);

#endif
