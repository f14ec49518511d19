/* SPDX-License-Identifier: MIT */
/* Thread-locals of the program that change during a wait, for GMP_DEBUG=check: tlswatch.c. */
#ifndef GMP_TLSWATCH_H
#define GMP_TLSWATCH_H

#include "base/throw.h"
#include "types.h"

/* Start of a run, on its first OS thread, after tlsleak_begin; end of the run. Without memory
 * nothing is compared. */
void tlswatch_begin(void);
void tlswatch_end(void);

/* On g0 of m: gp leaves its stack to wait or yield. Returns whether tlswatch_arrive must be called
 * when it continues. */
bool tlswatch_leave(struct m *m, const struct g *gp);
/* On g0 of m: gp ends. */
void tlswatch_exit(struct m *m, const struct g *gp);
/*
 * On g0 of m: gp is about to continue. Appends to l the next variable that gp wrote and that has
 * another value now, with the origin of that value. Returns false if there is none left. Each
 * variable is reported once in a run.
 */
bool tlswatch_arrive(struct m *m, const struct g *gp, struct line *l);
/* Append the origin of the other value, for a key of keywatch.c, too: ` and finds another value
 * after a wait: green thread 5 wrote it on this OS thread`. writer 0: no green thread did; moved:
 * the wait ended on another OS thread than it began. */
void tlswatch_name_writer(struct line *l, const char *did, uint64_t writer, bool moved);
/* At the end of a run: appends to l the name of the next variable, from number *i on, that has
 * changed during waits, and returns how often. 0: there is none left. */
uint32_t tlswatch_changes(int *i, struct line *l);

#endif
