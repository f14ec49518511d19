/* SPDX-License-Identifier: MIT */
/*
 * Findings of GMP_DEBUG=check and sched: selects which are reported, and writes them to stderr.
 *
 *   gmp: check: green thread 9 "render" (entry work) computed for 12 ms ..., in blur+0x1c4 (x.c:88)
 *        call gmp_checkpoint() in the loop, ...
 *        #0 0x557c74bca259 blur+0x1c4 (app+0x3259) at x.c:88
 */
#ifndef GMP_FINDING_H
#define GMP_FINDING_H

#include "base/os.h"
#include "base/throw.h"
#include "base/trace.h"

/* At most this many findings of a kind are written in a run. */
enum { FINDINGS_MOST = 10 };

/* The places at which findings of a kind were written. All-zero bytes are an empty set. */
struct findings {
	uint64_t place[FINDINGS_MOST]; /* (a) 0: free; filled in order of the index */
};

/* Add the place to the set. Returns false if the set holds it already or is full: then the finding
 * is not written. */
bool finding_wanted(struct findings *f, uint64_t place);
/* Return whether FINDINGS_MOST places are noted. */
bool finding_full(const struct findings *f);
/* Return the place of a wait: the program's call of gmp, combined with the subject of the finding
 * (about; NULL: the call alone). */
uint64_t finding_wait(const struct trace *t, const void *about);

/*
 * A counter of searches for source positions. Its value changes when a search begins; the bits
 * FINDING_SEARCH are not 0 while one runs. libdw may use much of a CPU, which other OS threads then
 * lack.
 */
enum { FINDING_SEARCH = 0xff };
uint32_t finding_searches(void);

/*
 * Return the entry function to show for a green thread with entry function fn and backtrace t. The
 * entry function of a service (gmp_group, gmp_pool, gmp_timer) belongs to gmp: then it is the
 * function of the program that the service calls.
 */
uintptr_t finding_entry(uintptr_t fn, const struct trace *t);

/* Append `take_it+0x11 (lock.c:15)`; without the position if it is not known. */
void finding_place(struct line *l, uintptr_t pc);

/* Append `in read() of fd 3 (pipe:[1234])`: the system call that a thread sleeps in. */
void finding_call(struct line *l, const struct os_call *call);

/* Return the index of the innermost frame that belongs neither to a system library nor to gmp. */
int finding_frame(const struct trace *t);

/*
 * Write the headline l, the advice (what to do) and the backtrace. Both lines are empty afterwards.
 * sig: the caller may have interrupted malloc; source positions are then left out.
 */
void finding_write(struct line *l, struct line *advice, const struct trace *t, bool sig);

/* Return whether the file with this base name is a library of the system, of its compiler, or
 * gmp. */
bool object_is_systems(const char *base);

/* Return whether the code at pc belongs neither to a system library nor to gmp. */
bool code_is_programs(uintptr_t pc);
/* Return whether pc is in the code of the runtime. */
bool code_is_gmps(uintptr_t pc);

#endif
