/* SPDX-License-Identifier: MIT */
/*
 * CPU samples: a timer of each M's CPU time sends SIGPROF, and the handler notes what the M runs.
 *
 *   reader: observe/profile/profile.c            handler, on an M
 *    1 cpusample_begin: buffer, handler, a        1 inside + 1; is sampling on?   ORD(sample.on)
 *      timer for each M                           2 take the next number; slot number % SLOTS:
 *    2 cpusample_drain: in the order of the         FREE -> FILLING by compare-and-swap; if that
 *      numbers, each slot that is FULL:             fails, count a lost sample
 *      use the sample, -> FREE                    3 fill it in, -> FULL           ORD(sample)
 *    3 cpusample_stop: off, timers freed,         4 inside - 1
 *      wait for inside == 0   ORD(sample.on)
 *    4 cpusample_drain, cpusample_end
 *
 * Invariants
 *   SAMPLE-1  The handler allocates nothing, takes no lock, makes no system call and leaves errno
 *             as it was.  So it may interrupt malloc, the dynamic linker, the scheduler and a
 *             switch.
 *   SAMPLE-2  The handler unwinds as observe/longrun.c does.  libgcc finds the tables by
 *             _dl_find_object, without a lock (glibc 2.35, gcc 12).  The first backtrace of a
 *             process initializes libgcc under a once, so cpusample_begin makes one.  The tables
 *             of the switch are right at each instruction (context_x86_64.S).
 *   SAMPLE-3  A sample belongs to a G only if the signal arrived on the G's side (LONGRUN-7).
 *             Otherwise its id is 0: the scheduler, or the start and the end of a thread.  The name
 *             of a G is copied by the thread that runs it, so it belongs to that G.
 *   SAMPLE-4  An M is in the list from signal_thread_begin to signal_thread_end, on its own thread.
 *             So its timer is made for a thread that exists, and freed before it ends.
 *   SAMPLE-5  A signal of a timer that was freed may be pending.  SIGPROF is ignored for a moment,
 *             which discards it; then the former disposition is restored.
 *
 * Rejected
 *   setitimer(ITIMER_PROF): the kernel chooses the thread that gets the signal.
 *   perf_event_open: not allowed in most containers.
 */
#ifndef GMP_CPUSAMPLE_H
#define GMP_CPUSAMPLE_H

#include "base/trace.h"
#include "types.h"

struct cpusample {
	uint64_t id;    /* of the G; 0: none ran */
	uint32_t token; /* of the G */
	uint32_t n;     /* periods that the sample stands for, at least 1 */
	gmp_fn fn;
	char name[G_NAME_MAX];
	struct trace trace; /* at least one pc */
};

/*
 * Begin to sample each M, hz times a second of its CPU time.  Returns 0; -EBUSY if sampling is on
 * or the program has a handler of SIGPROF; -ENOMEM; or -errno of the kernel.  In a run, no locks
 * held.  The Ms must not block SIGPROF.
 */
int cpusample_begin(int hz);
/* Call fn for each sample that has not been drained.  Not by several threads at a time. */
typedef void (*cpusample_fn)(void *arg, const struct cpusample *s);
void cpusample_drain(cpusample_fn fn, void *arg);
/* Stop sampling; what was sampled can still be drained. */
void cpusample_stop(void);
/* Free the buffer.  Returns how many samples were lost: no slot was free, or a thread that began
 * meanwhile got no timer (counted once). */
uint64_t cpusample_end(void);

/* The calling thread, M m, begins and ends. */
void cpusample_thread_begin(struct m *m);
void cpusample_thread_end(struct m *m);
/* The child of a fork. */
void cpusample_forget(void);

#endif
