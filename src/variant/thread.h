/* SPDX-License-Identifier: MIT */
/*
 * Thread mode (GMP_SCHED_THREAD): runs each green thread as an OS thread.
 *
 * From its start to its end a green thread is in what wait/blocking.c calls blocking code: it has
 * an M of its own (m->as_thread.alone) without a P, getm() is NULL, and every call behaves as on an
 * external thread, whose waits sleep in the kernel.  gmp__blockedm() returns its M, so it has its
 * gmp_self, its thread-local values and its cancellation.  Other Ms serve the poller and timers; an
 * M that finds a green thread in a queue (a timer's) starts an OS thread for it.
 *
 *   spawned ── variant_start: an M and an OS thread ──> runs, waits, runs ──> ends, as any G
 *                                                           └──> killed: jumps to variant_run
 *
 * How other threads end its wait (gp->awaits: the waiter, which is on the stack of its thread)
 *
 *  the waiting thread                              a canceller, or the end of the run
 *   1 awaits = w, and arm w                         1 cancelled = true, or the state of the run
 *   2 full fence                 ORD(cancel)        2 full fence                      ORD(cancel)
 *   3 if cancelled or the run ends: claim itself    3 awaits: w -> AWAITS_HELD
 *   4 commit, and sleep until w is claimed          4 claim w, wake the thread
 *   5 awaits: w -> NULL; while AWAITS_HELD, spin    5 awaits: AWAITS_HELD -> w
 *   6 if the run ends: unwait, and leave
 *
 * How other threads end its call of libc, if libgmprt_posix has begun it by libc_call_begin
 *
 *  the calling thread                              a canceller, or the end of the run
 *   1 awaits = m's call                             1 cancelled = true, or the state of the run
 *   2 full fence                 ORD(cancel)        2 full fence                      ORD(cancel)
 *   3 if cancelled or the run ends: 3 to 5 of       3 awaits: call -> AWAITS_HELD
 *     a canceller                                   4 if the call has no timer: make a timer
 *   4 libc's function                                 of signals to the thread, each ms
 *   5 awaits: call -> NULL; while AWAITS_HELD,      5 awaits: AWAITS_HELD -> call
 *     spin
 *   6 if there is a timer: delete it; EINTR is
 *     ECANCELED; a checkpoint
 *
 * Invariants
 *  A killed thread leaves only while it is in no queue: at a yield or checkpoint, or in step 6,
 *  after unwait.  The calls on its stack are not completed.
 *  THREAD-1  While awaits is not NULL the waiter exists: its thread does not pass step 5 while
 *            awaits is AWAITS_HELD.
 *  THREAD-2  Each green thread counts in sched.nblocked while it exists, so the run is never
 *            reported as deadlocked meanwhile.
 *  THREAD-3  m->curg is set to NULL, under sched.lock, before the g struct is freed.  The end of a
 *            run reads m->curg under that lock, so it finds only green threads that exist.
 *  THREAD-4  The awaits of a call of libc is in the M, not on the stack: a signal handler may leave
 *            the call by siglongjmp.  Then it stays until the next such call, wait or the end of
 *            the green thread, which make steps 5 and 6 first.
 *  THREAD-5  No lost wakeup: a signal that comes in 4 before the system call ends nothing, and the
 *            next one ends it.  A signal ends no later call: a timer is made only while awaits is
 *            AWAITS_HELD, so before 5 ends; when 6 returns from the kernel no signal of it is
 *            pending.
 */
#ifndef GMP_THREAD_H
#define GMP_THREAD_H

#include "types.h"

/* Makes gp, which is runnable, the green thread of m. */
void variant_adopt(struct m *m, struct g *gp);
/* If m is the OS thread of one G, runs that to its end, and returns true. */
bool variant_run(struct m *m);

/* For libgmprt_posix.  Around a call of libc that may wait, if the caller is a G that is an OS
 * thread, outside of blocking code: otherwise libc_call_begin returns false.  libc_call_end returns
 * true if gmp_cancel or the end of the run has ended the call, or would have: EINTR is ECANCELED,
 * after a checkpoint.  No signal handler may leave them by siglongjmp. */
bool libc_call_begin(void);
bool libc_call_end(void);
/* Before the first run.  begin: make a timer that ends system calls of the OS thread tid with
 * EINTR; returns its number, or a negative errno.  end: delete it, on that thread. */
void libc_call_interrupted_by(int (*begin)(int tid), void (*end)(int timer));

/* Shutdown: wakes all green threads that wait, until none is left. */
void variant_end(void);

#endif
