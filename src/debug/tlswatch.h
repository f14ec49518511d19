/* SPDX-License-Identifier: MIT */
/* Thread-locals of the program that change during a wait, for GMP_DEBUG=check: see tlswatch.c. */
#ifndef GMP_TLSWATCH_H
#define GMP_TLSWATCH_H

#include "base/throw.h"
#include "types.h"

/* After astray_begin, on the thread that starts the run. Without memory nothing is watched. */
void tlswatch_begin(void);
void tlswatch_end(void);

/* On g0 of M m: gp leaves its stack to wait or yield; true: tlswatch_arrive wants to see it. */
bool tlswatch_leave(struct m *m, const struct g *gp);
/* gp ends. */
void tlswatch_exit(struct m *m, const struct g *gp);
/*
 * gp continues. Appends the next variable that it wrote and finds changed to l, with where the other value
 * comes from; false: none left. Each variable is reported once in a run.
 */
bool tlswatch_arrive(struct m *m, const struct g *gp, struct line *l);

#endif
