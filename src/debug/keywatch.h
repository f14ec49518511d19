/* SPDX-License-Identifier: MIT */
/* Values of pthread keys that change during a wait, for GMP_DEBUG=check with libgmprtcheck: see keywatch.c. */
#ifndef GMP_KEYWATCH_H
#define GMP_KEYWATCH_H

#include "base/throw.h"
#include "types.h"

/* On the thread that starts the run. Without libgmprtcheck, or memory, nothing is watched. */
void keywatch_begin(void);
void keywatch_end(void);

/* On g0 of M m: gp leaves its stack to wait or yield; true: keywatch_arrive wants to see it. */
bool keywatch_leave(const struct m *m, const struct g *gp);
/* gp ends. */
void keywatch_exit(const struct m *m, const struct g *gp);
/*
 * gp continues. Appends the next key that it set and finds with another value to l; false: none left. Each
 * key is reported once in a run.
 */
bool keywatch_arrive(const struct m *m, const struct g *gp, struct line *l);

#endif
