/* SPDX-License-Identifier: MIT */
/*
 * Findings of GMP_DEBUG=check and sched: how they are written to stderr.
 *
 *   gmp: check: green thread 9 "render" (entry work) computed for 12 ms without a wait, in blur+0x1c4 (image.c:88)
 *        call gmp_checkpoint() in the loop, ...
 *        #0 0x557c74bca259 blur+0x1c4 (app+0x3259) at image.c:88
 */
#ifndef GMP_FINDING_H
#define GMP_FINDING_H

#include "base/throw.h"
#include "base/trace.h"

/* Most findings of a kind that are written in a run. */
enum { FINDINGS_MOST = 10 };

/* Those of a kind that were written: by place. Zero bytes are an empty one. */
struct findings {
	uint64_t place[FINDINGS_MOST]; /* (a) 0: free; filled from the first on */
};

/* Is this the first finding of the kind at this place, and one of the first FINDINGS_MOST? Notes the place. */
bool finding_wanted(struct findings *f, uint64_t place);
/* FINDINGS_MOST places are noted. */
bool finding_full(const struct findings *f);
/* The place of a wait: what the program called gmp from, and what the finding is about (NULL: that alone). */
uint64_t finding_wait(const struct trace *t, const void *about);

/*
 * Changes when a search for a source position begins, FINDING_SEARCH is set during it: libdw may take much of
 * a CPU, which other threads then wait for.
 */
enum { FINDING_SEARCH = 0xff };
uint32_t finding_searches(void);

/*
 * The entry function to show of a green thread that began with fn and has these calls: a service (gmp_group,
 * gmp_pool, gmp_timer) begins with a function of gmp's, which calls the program's.
 */
uintptr_t finding_entry(uintptr_t fn, const struct trace *t);

/* Append `take_it+0x11 (lock.c:15)`, without the position where it is not known. */
void finding_place(struct line *l, uintptr_t pc);

/* The number of the innermost frame that is neither a system library's nor gmp's own. */
int finding_frame(const struct trace *t);

/*
 * Write the headline l, the advice (what to do) and the calls; both lines are empty afterwards. sig: the
 * caller may have interrupted malloc, so no source positions.
 */
void finding_write(struct line *l, struct line *advice, const struct trace *t, bool sig);

/* Is the file of this base name one of the libraries that come with the system's compiler, or gmp's? */
bool object_is_systems(const char *base);

/* Is the code at pc neither a system library's nor gmp's own? */
bool code_is_programs(uintptr_t pc);

#endif
