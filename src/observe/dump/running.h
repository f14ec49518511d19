/* SPDX-License-Identifier: MIT */
/*
 * Places of running green threads, for a dump: asks each OS thread that computes where it is.
 *
 * Only its own thread can walk the stack of a running G (SNAPSHOT-2).  So the dump sends a signal
 * to that thread, whose handler stores the backtrace (the protocol: observe/longrun.c).  All
 * threads are asked at once, before the first green thread is shown.
 *
 * Invariants
 *   RUNNING-1  A thread that sleeps in the kernel is not signalled: usleep, poll and epoll_wait
 *              would return EINTR.  The state of the thread is read immediately before the signal
 *              is sent.  If the thread begins to sleep in these microseconds, its call is
 *              interrupted.
 *   RUNNING-2  A dump waits for all answers together for at most ANSWER_NS and a time slice for
 *              each of them on each CPU (running.c).  A thread that is starved, or blocks the
 *              signal, does not answer; its G is shown without a location.
 *   RUNNING-3  Without a question, nothing is done: no handler is installed, and the caller keeps
 *              its P.  While it waits, the caller is in blocking code, so it keeps no P (DUMP-1),
 *              and shutdown does not kill it before it has called signal_ask_end.
 */
#ifndef GMP_RUNNING_H
#define GMP_RUNNING_H

#include "base/trace.h"
#include "types.h"

/* Further running Gs are shown without a location. */
enum { LOCATIONS_MOST = 1024 };

struct location {
	uint64_t id;        /* of the G */
	int tid;            /* of its OS thread */
	int question;       /* a number of longrun_ask; -1: none */
	bool over;          /* not asked any more */
	struct trace trace; /* no frames: the location is not known */
};

/* All-zero bytes have no location. */
struct locations {
	unsigned n;
	struct location of[LOCATIONS_MOST];
};

/* Ask all running Gs except self, the caller (NULL: an external thread).  In a run; no locks
 * held. */
void locations_ask(struct locations *p, const struct g *self);
/* Return the backtrace of the running G with this id; NULL: not known.  p may be NULL. */
const struct trace *locations_find(const struct locations *p, uint64_t id);

/* Does an M run gp?  Then *tid is its OS thread, and *since the time from which gp has run without
 * a P; 0: it has a P.  For dumps: false also if sched.lock is taken. */
bool m_of_running(const struct g *gp, int *tid, int64_t *since, uint64_t *ran_from);
/* Writes the OS threads of at most n Ms to *tids, and returns their number. */
int m_tids(int *tids, int n);

#endif
