/* SPDX-License-Identifier: MIT */
/* Values of pthread keys that change during a wait, for GMP_DEBUG=check with libgmprtcheck:
 * keywatch.c. */
#ifndef GMP_KEYWATCH_H
#define GMP_KEYWATCH_H

#include "base/throw.h"
#include "types.h"

/* Start of a run, on its first OS thread; end of the run. Without libgmprtcheck, or without memory,
 * nothing is compared. */
void keywatch_begin(void);
void keywatch_end(void);

/* On g0 of m: gp leaves its stack to wait or yield. Returns whether keywatch_arrive must be called
 * when it continues. */
bool keywatch_leave(const struct m *m, const struct g *gp);
/* On g0 of m: gp ends. */
void keywatch_exit(const struct m *m, const struct g *gp);
/*
 * On g0 of m: gp is about to continue. Appends to l the next key that gp set and that has another
 * value now. Returns false if there is none left. Each key is reported once in a run.
 */
bool keywatch_arrive(const struct m *m, const struct g *gp, struct line *l);

#endif
