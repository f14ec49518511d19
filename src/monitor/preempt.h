/* SPDX-License-Identifier: MIT */
/*
 * Preemption: takes the P of an M whose G computes for a time slice, or sleeps in the kernel
 * outside of blocking code, and gives it to another M.
 *
 * A C function cannot be moved off its stack at an arbitrary instruction: it may be inside malloc
 * or stdio, hold a pthread mutex, or keep the address of a thread-local in a register.  So the G
 * stays on its OS thread, which the kernel schedules from then on, and only its P is taken: the G
 * is preempted, it runs without a P.  No signal is sent: a signal would end a usleep or a poll
 * with EINTR.
 *
 *   the M, on its G's stack or on g0                sysmon, under sched.lock
 *    1 inside + 1                                    1 pp has an M m, taken is KEPT or WANTED, and
 *    2 light fence             ORD(preempt)            an M can run pp
 *    3 if taken is ASKED: ASKED -> WANTED by         2 taken = ASKED, by compare-and-swap
 *      compare-and-swap.  If taken is KEPT or        3 heavy fence (membarrier)     ORD(preempt)
 *      WANTED then, by either side, the M keeps      4 read inside, then the status.  If pp is not
 *      its P; if it is TAKEN, the M has no P           RUNNING, or no longer the M's, or has begun
 *    4 if taken is WANTED, inside is 1, an M is        another run: ASKED -> KEPT, return.  If
 *      stopped, and a try for sched.lock               inside is not 0: ASKED -> WANTED, return
 *      succeeds: if it is the run that sysmon        5 ASKED -> TAKEN by compare-and-swap; if that
 *      asked in, taken = TAKEN, nblocked + 1;          fails, return.  nblocked + 1
 *      unlock, hand pp off                           6 unlock, hand pp off (handoff.h)
 *    5 use the P, or act without one                 6 unlock, hand pp off (handoff.h)
 *    6 inside - 1, release     ORD(preempt)
 *
 * Store-buffering (Dekker): the M writes `inside` and reads `taken` (P_KEPT, P_ASKED, P_TAKEN,
 * P_WANTED of handoff_state.h); sysmon writes `taken` and reads `inside`.  At least one sees the
 * other's write.  If the M sees ASKED and sysmon sees inside == 0, the compare-and-swap decides.
 * sysmon reads `inside` before the status: an M that enters blocking code changes the status inside
 * of a section, so if that section is over, sysmon sees what it has left.
 *
 * Steps 1 to 6 of the M are a P section: p_hold and p_drop of enter.h.  All of g0 is one section,
 * from to_g0 (park.c) until the M jumps to a G (leave_section of sched.c).  An M whose G leaves the
 * stack, enters blocking code or ends has no step 4: in step 3 it ends the request (-> KEPT), since
 * its run is over.  Code of the runtime outside of sections uses no P, and may lose it: it runs on
 * as on an external thread that the kernel has descheduled.  sysmon could not recognize a section
 * by the M's program counter: sections call malloc, and inline functions of the public headers are
 * in the program.
 *
 * What a G without a P does
 *   wake a G, spawn, send   as an external thread: the global queue
 *   wait                    park.c: the wait as usual, with its timer in the heap of P 0;
 *                           park_slow_g0 finds that the P is gone, and the M joins the stopped Ms,
 *                           or sleeps on its futex if it is bound
 *   yield, checkpoint       the global queue; the M likewise.  After a checkpoint it may instead
 *                           continue without a P: PREEMPT-6 (take.c)
 *   end                     yields first, until it has a P (sched.c:sched_exit)
 *   blocking code           enters without a P, and leaves as if it had been taken there (BLOCK-6)
 *   gmp_self, keys, cancellation, owner of locks: unchanged
 *
 * Policy
 *   A P is wanted if work waits (its own Gs or due timers, a G in the global queue or in the open
 *   ring of another P, or fds that must be polled), and either no P is idle or its own ring is
 *   closed to thieves (p.open).
 *   The P of a G that computes is taken if it is wanted, the G has run for a time slice, and an
 *   earlier poll has asked the G to yield, so that it could reach a checkpoint.  A time slice is
 *   measured from the poll at which sysmon first sees the G, up to BUSY_NS late.
 *   If no P has switched since the last poll, and events wait (Gs that they made runnable, or due
 *   timers), the P with the earliest due timer, or any P if only Gs wait, is taken after
 *   slice_short: no other P can serve them.
 *   Fast polling: once it has taken the P of a thread that sleeps in the kernel, sysmon polls every
 *   SHORT_NS for a while, and takes each wanted P that has not switched since the last poll and
 *   whose thread sleeps.
 *
 * Invariants
 *   PREEMPT-1  A P is used by its M inside of sections only, and taken outside of them only, or by
 *              the M itself before it uses it.
 *   PREEMPT-2  A section encloses no wait and no call into the program.  A G that holds a lock of
 *              the runtime never waits for a P: commit unlocks before the M stops.
 *   PREEMPT-3  A preempted G counts in sched.nblocked and sched.npreempted until its M stops or has
 *              a P: BLOCK-3 of blocking.c, so a program with a preempted G is not reported as
 *              deadlocked.
 *   PREEMPT-4  Any number of Gs may be preempted, and the kernel rotates their OS threads: with n
 *              of them, n + 1 threads and at most one for each further P are in state R.  sysmon,
 *              the Ms that it makes, and beside many an M that gets a P again, ask the kernel for
 *              OS_SLICE_SHORT, so that they run soon after a wakeup.  For a preempted thread sysmon
 *              asks for a time slice; its M asks for m_slice before it takes a scheduler lock.
 *   -          If no OS thread can be had for the P (max_threads, EAGAIN), the G keeps it:
 *              total.refused counts that.  Threads for many Ps are made by spare.h.
 *   PREEMPT-5  Preemption is off (sched.preempts) without membarrier, in virtual time (a replay
 *              depends on no clock), in thread mode, and with GMP_COOPERATIVE.
 *   PREEMPT-7  A request stays while its run lasts, up to the next checkpoint: sysmon leaves WANTED
 *              if it finds the M in a section, and the M gives the P up when it begins the next
 *              one. Without this, a loop of gmp_select with a ready case kept its P for up to 5.6 s
 *              beside a sleeper, since sysmon found the M inside of a section at nearly every poll.
 *
 * Verified by model/preempt.pml.
 *
 * Rejected
 *   A signal that switches the G away (Go): see above.
 *   A signal in whose handler a preempted thread stops, to bound the threads in state R: it may
 *   hold a lock of malloc or stdio that the Ps need, and usleep, poll and raw system calls return
 *   EINTR. A bound on preempted Gs that compute (3 for each P, more after 1, 2, 4 ... s): the
 *   sleeper above waited for 2 s beside 16, and a spin barrier of 12 pthreads on two Ps for 15 s.
 *   A longer time slice in PREEMPT-4 than the program's: see os_task_linux.c.
 *   More Ps while some have a G that sleeps: a P whose G computes stays unusable.
 */
#ifndef GMP_PREEMPT_H
#define GMP_PREEMPT_H

#include "types.h"

/* P number i is RUNNING and has not switched for `ran` ns.  Take it if it is wanted.  asked: an
 * earlier poll has asked its G to yield; otherwise the P is taken by fast polling only, and only if
 * its thread sleeps.  urgent: no P has switched, and this one would serve the events that wait.
 * Returns true if the P was taken. */
bool preempt_poll(int i, int64_t ran, bool asked, bool urgent, int64_t now);

#endif
