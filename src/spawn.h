/* SPDX-License-Identifier: MIT */
/* Spawn and end of green threads, for the files that start and stop them.  spawn.c has the rest. */
#ifndef GMP_SPAWN_H
#define GMP_SPAWN_H

#include "types.h"

/*
 * Makes a green thread that is not runnable yet, with fn(arg) as its entry.  klass: the size class
 * of its stack, 0 for the default.  join: enum joinstate, as the first state of the join word; 0 is
 * detached.  Returns NULL and sets *err if there is no g struct.
 */
struct g *green_new(gmp_fn fn, void *arg, unsigned klass, uintptr_t join, int *err);
/* sched.joinable_exit: gp, which was joinable when it was made, has ended.  On g0. */
void green_exited(struct g *gp);
/* Shutdown: if a thread waits to join gp, claims it with -ESRCH. */
void green_release_joiner(struct g *gp);

/* sched.timer_run_end, in sleep.c: gp, which a gmp_timer started, has ended or is killed. */
void timer_run_ended(struct g *gp);

#endif
