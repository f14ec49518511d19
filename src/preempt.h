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
 *    1 inside + 1                                    1 pp has an M m, inside is 0, taken is KEPT,
 *    2 light fence             ORD(preempt)            and an M can run pp
 *    3 if taken is ASKED: ASKED -> KEPT by           2 taken = ASKED
 *      compare-and-swap.  If taken is KEPT           3 heavy fence (membarrier)     ORD(preempt)
 *      then, by either side, the M keeps its P;      4 if inside is not 0, or pp is not RUNNING or
 *      if it is TAKEN, the M has no P                  no longer the M's: ASKED -> KEPT, return
 *    4 use the P, or act without one                 5 ASKED -> TAKEN by compare-and-swap; if that
 *    5 inside - 1, release     ORD(preempt)            fails, return.  nblocked + 1
 *                                                    6 unlock, hand pp off (handoff.h)
 *
 * Store-buffering (Dekker): the M writes `inside` and reads `taken` (P_KEPT, P_ASKED, P_TAKEN of
 * types.h); sysmon writes `taken` and reads `inside`.  At least one sees the other's write.  If the
 * M sees ASKED and sysmon sees inside == 0, the compare-and-swap decides.
 *
 * Steps 1 to 5 of the M are a P section: p_hold and p_drop of enter.h.  All of g0 is one section,
 * from to_g0 (park.c) until the M jumps to a G (leave_section of sched.c).  Code of the runtime
 * outside of sections uses no P, and may lose it: it runs on as on an external thread that the
 * kernel has descheduled.  sysmon could not recognize a section by the M's program counter:
 * sections call malloc, and inline functions of the public headers are in the program.
 *
 * What a G without a P does
 *   wake a G, spawn, send   as an external thread: the global queue
 *   wait                    park.c: the wait as usual, with its timer in the heap of P 0;
 *                           park_slow_g0 finds that the P is gone, and the M joins the stopped Ms,
 *                           or sleeps on its futex if it is bound
 *   yield, checkpoint       the global queue; the M likewise.  After a checkpoint it may instead
 *                           continue without a P: PREEMPT-6
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
 *   measured from the poll at which sysmon first sees the G, up to 10 ms late.
 *   If no P has switched since the last poll, and events wait (Gs that they made runnable, or due
 *   timers), one P is taken after 2 ms instead of 10: no other P can serve them.  With two Gs
 *   that compute for 20 ms on two Ps, the 99th percentile of other requests is then 6.6 ms
 *   instead of 8.3 (mixed/kv/50 of bench/net, medians of 17 runs).
 *   Once it has taken the P of a thread that sleeps in the kernel, sysmon hunts for a while: it
 *   polls every 20 us, and takes each wanted P that has not switched since the last poll and whose
 *   thread sleeps.
 *
 * Invariants
 *   PREEMPT-1  A P is used by its M inside of sections only, and taken outside of them only.
 *   PREEMPT-2  A section encloses no wait and no call into the program.  A G that holds a lock of
 *              the runtime never waits for a P: commit unlocks before the M stops.
 *   PREEMPT-3  A preempted G counts in sched.nblocked and sched.npreempted until its M stops or has
 *              a P: BLOCK-3 of blocking.c, so a program with a preempted G is not reported as
 *              deadlocked.
 *   PREEMPT-4  Parallelism is bounded: while COMPUTING times procs preempted Gs compute, another G
 *              that computes keeps its P, until there is room.  If there is none for PATIENCE_NS,
 *              one more P is taken; for twice as long, a second one, and so on: the number of
 *              computing Gs grows by the logarithm of the time, and Gs that never end delay others
 *              for a bounded time.  Of the wanted Ps, the P with the earliest timer is taken: an M
 *              fires the due timers of other Ps only after the global queue is empty.  Gs that are
 *              preempted in a sleep are bounded by max_threads; all may compute when they wake.
 *   PREEMPT-5  Preemption is off without membarrier, in virtual time (a replay depends on no
 *              clock), in thread mode, and with GMP_COOPERATIVE.
 *   PREEMPT-6  A checkpoint that is asked to yield does not if the kernel seems to have descheduled
 *              the M for most of the run: since sysmon last saw the P switch, less than 20 ms have
 *              passed, and the M has used less than 2 ms of CPU time and less than half of the
 *              time.  sysmon reads the CPU time at the first poll that is 0.5 ms after that; what
 *              the M used before counts as the real time, 1 ms at most.  This does not apply if no
 *              such reading of this M exists, if the P has another reason to switch, with
 *              preemption off (PREEMPT-5), or at the end of blocking code (BLOCK-4).
 *              A G that sleeps in the kernel between its checkpoints looks the same: it yields at
 *              the first checkpoint for which sysmon asks after these 20 ms.
 *              Without this, a G of an event waits behind all Gs that compute if other processes
 *              use the CPUs: with two such processes, one of 100 reads beside 200 Gs took 97 ms in
 *              half of all runs of loaded/fd.  The P may be taken nevertheless: others can use it
 *              meanwhile.  The decision is park_checkpoint of park.c.
 *
 * Verified by model/preempt.pml.
 *
 * Rejected
 *   A signal that switches the G away (Go): see above.
 *   More Ps while some have a G that sleeps: a P whose G computes stays unusable.
 */
#ifndef GMP_PREEMPT_H
#define GMP_PREEMPT_H

#include "types.h"

/* Before the first poll of a run. */
void preempt_begin(void);
/* P number i is RUNNING and has not switched for `ran` ns.  Take it if it is wanted, and if
 * PREEMPT-4 leaves room.  asked: an earlier poll has asked its G to yield; otherwise the P is taken
 * in a hunt only, and only if its thread sleeps.  urgent: no P has switched, and events wait.
 * Returns true if the P was taken. */
bool preempt_poll(int i, int64_t ran, bool asked, bool urgent, int64_t now);
/* After preempt_poll of all Ps: if there was no room for some, and the patience is over, take a P
 * (PREEMPT-4). */
void preempt_without_room(int64_t now);
/* GMP_DEBUG=chaos: take a random P if its M is outside of a section. */
void preempt_chaos(void);
/* The OS thread of a random preempted G; 0: there is none. */
int preempt_draw_tid(void);
/* At the end of a poll.  Returns true if sysmon must poll again soon. */
bool preempt_hunts(void);

#endif
