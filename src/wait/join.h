/* SPDX-License-Identifier: MIT */
/* The end of a G that is joined, or that a timer started.  join.c has the invariants of joins. */
#ifndef GMP_JOIN_H
#define GMP_JOIN_H

#include "types.h"

/* sched.up.joinable_exit: gp, which was joinable when it was made, has ended.  On g0. */
void green_exited(struct g *gp);
/* Shutdown: if a thread waits to join gp, claims it with -ESRCH. */
void green_release_joiner(struct g *gp);
/* sched.up.timer_run_end, in sleep.c: gp, which a gmp_timer started, has ended or is killed. */
void timer_run_ended(struct g *gp);

#endif
