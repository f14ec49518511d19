/* SPDX-License-Identifier: MIT */
/*
 * Who waits for which descriptor, and who is it that an event makes ready?
 *
 * A record (struct polldesc) for each descriptor number, found by the number, never freed while
 * the runtime runs.  Each direction is a side: a count of readiness events, and a queue of those
 * who wait.
 *
 *            registered with the poller (edge-triggered)
 *   fd ──> polldesc { use, seq, side[READ], side[WRITE] }
 *                              │ events: n    │ queue: sudog - sudog - ...
 *
 * Invariants
 *  N1 side.events grows with every event that the kernel reports for the side, under pd->lock.
 *  N2 Who wants to wait has seen events == e before its system call said EAGAIN, and goes to the
 *     queue only if it still is e (checked under pd->lock).  So an event either finds it in the
 *     queue or makes it try again: none is lost.  Who has not tried, because others stood before it,
 *     goes to the queue only if they still do: the one with the turn may have left something and
 *     found nobody to pass it to.
 *  N3 A side has at most one turn out.  An event gives it to the first of the queue, unless it is out
 *     already; newcomers queue up while it is out or somebody waits.  Its holder tries: if it got
 *     nothing, it goes back to the front, with the turn given up (unless an event came meanwhile:
 *     N2); if it got something, the turn goes to the next, who tries in turn.  So one event serves
 *     all that it can, in order.
 *  N4 pd->use counts the system calls under way, and says whether the record is open.  close(2)
 *     is called only when it has fallen to none, so no call ever reaches the number's next owner.
 *  N5 An event carries the seq of the registration; one of a former owner is dropped.
 *  N6 A side's deadline is a word: written under pd->lock, and looked at before each try and, under
 *     the lock, before each wait.  The side's timer only ends the waits that are under way.  It is
 *     armed for no later than a deadline that is to come, so that moving one later is a store; one
 *     that fires too early, or for a deadline that is no more, goes by the word and arms itself
 *     again or not.  When it has ended the waits, the word is set to long ago: no clock that is
 *     behind lets one begin.  Where nobody waits for a descriptor, these timers do nothing: then a
 *     runtime in which nothing else is to come is deadlocked (idle.c).
 *  N8 A plain close() takes the registration away, and the kernel sends no event for it.  Two checks find
 *     it: gmp_fd_wait's before it parks (netpoll_renew, io/waitfd.c), and sysmon's of waits that have
 *     lasted (netpoll/check.c).  Both run under pd->lock while the record is open, so neither of them
 *     meets a gmp_close or an adoption halfway, and each finds the waiters of the registration that it
 *     has checked, never those of a later one.
 *  N9 A registration is `seq` of its record; each new one is the old one's plus 1, under pd->lock.
 *  N7 Who arms a side's timer holds pd->lock and wants the heap's; its firing holds the heap's and
 *     wants pd->lock.  It only tries, and comes again a little later.
 *
 * Rejected: re-arming with EPOLLONESHOT (a system call a wait); waking all of a queue (a herd for
 * each connection on a listener that many accept from); a timer for each wait (two changes of a heap
 * a call, where a deadline set once serves many calls).
 */
#ifndef GMP_NETPOLL_H
#define GMP_NETPOLL_H

#include "netpoll/record.h"
#include "poller.h"

int netpoll_init(void);
void netpoll_fini(void);
void netpoll_forget_all(void); /* the child of a fork */

/* Take the number over: register it, and make it non-blocking if it was opened elsewhere.  -EEXIST if
 * it is registered already, -EAGAIN while the record is being closed or released.  A file that cannot be polled gets a
 * record but no registration, and its flags stay.  OPEN_PATH: it was opened by a path, with those flags, so its kind
 * is checked before the poller is asked.  A record left behind by a plain close() is dropped, and its waiters go to
 * `out` with -ECANCELED. */
enum { OPEN_TCP = 1, OPEN_ELSEWHERE = 2, OPEN_PATH = 4, OPEN_TO_DISK = 4 };
#define OPEN_PATH_FLAGS(flags) (OPEN_PATH | os_flags_to_disk(flags) << OPEN_TO_DISK)
int netpoll_open(int fd, unsigned how, struct glist *out);
/* With pd->lock held, of an open record: compare the number's present file with the registered one (N8).
 * 0: it is the same.  1: it was not, and is registered now: seq has changed, O_NONBLOCK is set, and all
 * waiters of the former file are in `out` with -ECANCELED; deadlines stay.  NEEDS_ROOM: as before, with another seq:
 * call owner_lock, and this again.  Else nothing has changed:
 * -EBADF: the number is closed; -EPERM: its file cannot be polled; -ENOMEM, -ENOSPC: no room for it. */
enum { NEEDS_ROOM = 2 };
int netpoll_renew(struct polldesc *pd, struct glist *out);

/* Begin to close: -EBADF unless it is open; -ESTALE: the caller has lost the number to another connection
 * (netpoll/owner.c).  All waiters go to `out` with -ECANCELED. */
int netpoll_shut(struct polldesc *pd, struct glist *out);
/* After the last use has ended (netpoll_used says 0): the record is free. */
void netpoll_forget(struct polldesc *pd);

/* Set the deadline of the sides of that mask (1 << SIDE_...).  Who waits there while it has passed goes
 * to `out` with -ETIMEDOUT.  -EBADF unless it is open; -EPERM if it cannot be polled; -ENOMEM:
 * DEADLINES_MAX are armed. */
int netpoll_deadline(struct polldesc *pd, unsigned sides, int64_t deadline, struct glist *out);
/* Under pd->lock: queue up, at the front if it was woken before; leave. */
void netpoll_enqueue(struct pollside *s, struct sudog *sg, bool front);
void netpoll_dequeue(struct pollside *s, struct sudog *sg);
/* N3: the caller, who has the turn, is done: it goes to the next, if any. */
void netpoll_pass(struct polldesc *pd, int side, struct glist *out);

/* It has been shut down.  Both sides are to try again, as at an event of both: the kernel may have nothing to
 * say. */
void netpoll_shut_down(struct polldesc *pd, enum pd_end end, struct glist *out);

/* Ask the kernel; wait ns at most.  Those who became ready are appended to out.  How many events
 * there were. */
int netpoll_poll(int64_t ns, struct glist *out);

/* Sleep as the one in the poller, deaf to descriptors, for which nobody waits: until a wake or the deadline,
 * or until somebody does wait for one.  May return early. */
void netpoll_rest(int64_t deadline);
/* One more waits for a descriptor from now on (sched.npollwait). */
void netpoll_add_waiter(void);

/* A descriptor of the runtime's own: fn is called by whoever polls, when it has become readable.  There
 * is one; closing it ends this.  0 or -errno. */
int netpoll_watch(int fd, void (*fn)(struct glist *out));

/* Everybody who waits, with -ESRCH: the runtime stops. */
void netpoll_cancel_all(struct glist *out);
uint32_t netpoll_count(void);
/*
 * netpoll_check - end the waits of descriptors that were closed by a plain close() (netpoll/check.c)
 *
 * from  the number to begin with
 * most  how many records with a waiter to check, at a system call each
 * now   on the clock of os_now: waits that began less than CHECK_YOUNG_NS before it are left out
 *
 * Waiters whose wait has ended are appended to out.  Returns the number to begin the next call with; 0: all
 * have been checked.  No locks held; from sysmon.
 */
enum { CHECK_YOUNG_NS = 100000000 };
uint32_t netpoll_check(uint32_t from, unsigned most, int64_t now, struct glist *out);
/* Under pd->lock, of an open record: false if the kernel has no registration of the number's present file. */
bool netpoll_is_registered(struct polldesc *pd);
/* For gmp_poll (netpoll/multi.c), under pd->lock.  Compare the file of an open record with the registered one:
 * -EEXIST: it is the same; else it is not, or the error of the system. */
int netpoll_ask(struct polldesc *pd);
/* Register the number's file for one report of these events (poll(2)'s), instead of what the record knows of a
 * former file; waiters of that go to out.  0, or the error of the system. */
int netpoll_arm(struct polldesc *pd, short events, struct glist *out);
/* The record of the number, made if there is none; NULL: no memory, or no such number. */
struct polldesc *netpoll_record(int fd);
/* Under pd->lock: all waiters of both sides, with that result. */
void netpoll_wake_all(struct polldesc *pd, int result, struct glist *out);
/* No record has this number or a higher one. */
uint32_t netpoll_end(void);

/* How many sides have an armed timer; exact while nobody sets deadlines and none fires. */
uint32_t netpoll_deadlines(void);

#endif
