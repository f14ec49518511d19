/* SPDX-License-Identifier: MIT */
/*
 * Network poller: waiters of file descriptors, made runnable by edge-triggered events of the
 * kernel.
 *
 * Each fd number has a record (struct polldesc, netpoll/record.h), found by the number and never
 * freed while the runtime runs.  Each direction is a side: a count of readiness events, and a FIFO
 * queue of waiters.
 *
 *            registered with the poller (edge-triggered)
 *   fd ──> polldesc { use, seq, side[READ], side[WRITE] }
 *                              │ events: n    │ queue: sudog - sudog - ...
 *
 * The calls that wait are in io/fd.c.
 *
 * Wait for readiness
 *   caller (io/fd.c)                               event (netpoll_event)
 *    1 e = side.events          ORD(pd.events)      1 lock pd
 *    2 system call: EAGAIN                          2 drop it unless its seq is the record's
 *    3 lock pd; side.events != e and no waiter      3 side.events + 1         ORD(pd.events)
 *      is ahead (NETPOLL-2): unlock, from 1         4 if no token is out: claim the first waiter
 *    4 enqueue its sudog                              and give it the token
 *    5 park; the commit step (on g0) unlocks pd     5 unlock pd, make it runnable
 *    6 with the token: from 1
 *
 * Invariants
 *   NETPOLL-1  side.events grows with every event that the kernel reports for the side, under
 *              pd->lock.
 *   NETPOLL-2  No lost wakeup: a caller reads events == e and then tries.  Under pd->lock it is
 *              enqueued in two cases.  If it has tried and events is still e, a later event finds
 *              it in the queue.  If waiters are ahead of it (it has no token, and another waiter
 *              is queued or has the token), these have tried since the last event or will try,
 *              and pass the token on (NETPOLL-3).  Otherwise it tries again: an event came, or the
 *              holder of the token has left data without a waiter to pass it to.
 *   NETPOLL-3  Fairness: a side has at most one token.  An event gives it to the first waiter of
 *              the queue, unless it is out; newcomers are enqueued while it is out or a waiter is
 *              queued.  Its holder tries.  If it got nothing, it gives the token up and goes back
 *              to the front (unless an event came meanwhile: NETPOLL-2).  If it got something, the
 *              token goes to the next waiter.  So one event serves every waiter that it can, in
 *              FIFO order.
 *   NETPOLL-4  Lifetime of the number: pd->use counts the system calls under way, and says whether
 *              the record is open.  close(2) is called only at 0, so no call ever reaches the
 *              number's next file.
 *   NETPOLL-5  An event carries the seq of its registration; events of a former registration are
 *              dropped.
 *   NETPOLL-8  A plain close() removes the registration without an event.  Two checks find it: that
 *              of gmp_fd_wait before it parks (netpoll_renew, io/waitfd.c), and that of sysmon for
 *              waits that have lasted (netpoll/check.c).  Both hold pd->lock of an open record, so
 *              neither meets a gmp_close or an adoption halfway, and each wakes the waiters of the
 *              registration that it has checked.
 *   NETPOLL-9  The number of a registration is the `seq` of its record; each new one is the former
 *              plus 1, under pd->lock.
 *
 * Verified by model/netpoll.pml, fd.pml, reopen.pml and poller.pml.
 *
 * Rejected
 *   Re-arming with EPOLLONESHOT: a system call per wait.
 *   Waking the whole queue: a thundering herd for each connection on a shared listener.
 *   A timer per wait: two changes of a heap per call, where a deadline that is set once serves many
 *   calls.
 */
#ifndef GMP_NETPOLL_H
#define GMP_NETPOLL_H

#include "netpoll/record.h"
#include "poller.h"

/* --- begin, end and records: netpoll/register.c, except netpoll_cancel_all --- */

/* Open the poller.  Returns 0 or -errno. */
int netpoll_init(void);
void netpoll_fini(void);
/* In the child of a fork: forget the parent's records. */
void netpoll_forget_all(void);
/* The runtime stops: end all waits with -ESRCH; waiters are appended to out. */
void netpoll_cancel_all(struct glist *out);

/* The record of the number, made if there is none; NULL: no memory, or no such number. */
struct polldesc *netpoll_record(int fd);
/* No record has this number or a higher one. */
uint32_t netpoll_end(void);
/* How many records are open. */
uint32_t netpoll_count(void);

/* --- registration: netpoll/register.c --- */

/*
 * Open the record of fd: register the number and, if the file was opened elsewhere, make it
 * non-blocking.  how:
 *   OPEN_TCP        a TCP connection
 *   OPEN_ELSEWHERE  an adoption
 *   OPEN_PATH       opened by a path, with flags: its kind is checked before the poller is asked
 * A file that cannot be polled gets a record but no registration, and its flags stay.  A record
 * that a plain close() left behind is dropped; its waiters are appended to out with -ECANCELED.
 * Returns 0; -EEXIST: it is registered already; -EAGAIN: the record is being closed or released;
 * another error of the system.
 */
enum { OPEN_TCP = 1, OPEN_ELSEWHERE = 2, OPEN_PATH = 4, OPEN_TO_DISK = 4 /* shift */ };
#define OPEN_PATH_FLAGS(flags) (OPEN_PATH | os_flags_to_disk(flags) << OPEN_TO_DISK)
int netpoll_open(int fd, unsigned how, struct glist *out);
/*
 * Under pd->lock, of an open record: compare the number's present file with the registered one
 * (NETPOLL-8).  Returns 0: it is the same.  1: it was not, and is registered now: seq has changed,
 * O_NONBLOCK is set, and all waiters of the former file are in out with -ECANCELED; deadlines stay.
 * NEEDS_ROOM: it was not; call owner_lock, and this again.  Otherwise nothing has changed: -EBADF:
 * the number is closed; -EPERM: its file cannot be polled; -ENOMEM, -ENOSPC: no room for it.
 */
enum { NEEDS_ROOM = 2 };
int netpoll_renew(struct polldesc *pd, struct glist *out);
/* Begin to close: all waiters are appended to out with -ECANCELED.  Returns 0; -EBADF: it is not
 * open; -ESTALE: the caller has lost the number to another connection (netpoll/owner.c). */
int netpoll_shut(struct polldesc *pd, struct glist *out);
/* End of closing, after the last use (netpoll_used returns 0): the record is free. */
void netpoll_forget(struct polldesc *pd);
/* Under pd->lock, of an open record: false if the kernel has no registration of the number's
 * present file. */
bool netpoll_is_registered(struct polldesc *pd);
/* For gmp_poll, under pd->lock: compare the file of an open record with the registered one.
 * Returns -EEXIST: it is the same; otherwise it is another one (0), or the error of the system. */
int netpoll_ask(struct polldesc *pd);
/* For gmp_poll, under pd->lock: register the number's file for one report of these events
 * (poll(2)'s), instead of what the record has of a former file, whose waiters are appended to out.
 * Returns 0 or the error of the system. */
int netpoll_arm(struct polldesc *pd, short events, struct glist *out);
/* A replaced call is about to close the number, or to give it another file: the one place where all
 * is forgotten that replaced calls know of it (MULTI-7).  Its entries are fired as closed.  The
 * registration for polls is removed, so it does not outlive the number if the file has others, and
 * the next netpoll_arm need not find out that it is gone: the poller cannot tell that from the loss
 * of its own fds, and wakes its M (EPOLL-2). */
void netpoll_close_number(struct polldesc *pd, struct glist *out);

/* --- entries of gmp_poll (netpoll/multi.c); under pd->lock, except multi_forgotten --- */

/* Fire the entries that wait for one of the sides (a mask of enum poll_events; POLL_HUNG: all). */
void multi_event(struct polldesc *pd, unsigned events, int result, struct glist *out);
/* Fire all entries; closed: they find the number closed. */
void multi_close(struct polldesc *pd, bool closed, struct glist *out);
/* The record is free: entries that were linked meanwhile poll again, or find the number closed. */
void multi_forgotten(struct polldesc *pd, bool closed, struct glist *out);

/* --- deadlines: netpoll/deadline.c --- */

/* Set the deadline of the sides of a mask (1 << SIDE_...).  If it has passed, their waiters are
 * appended to out with -ETIMEDOUT.  Returns 0; -EBADF: not open; -EPERM: it cannot be polled;
 * -ENOMEM: DEADLINES_MAX are armed. */
int netpoll_deadline(struct polldesc *pd, unsigned sides, int64_t deadline, struct glist *out);
/* How many sides have an armed timer; exact while no thread sets deadlines and none fires. */
uint32_t netpoll_deadlines(void);

/* --- waiting; the first four under pd->lock --- */

/* Enqueue a waiter; front: it was woken before. */
void netpoll_enqueue(struct pollside *s, struct sudog *sg, bool front);
void netpoll_dequeue(struct pollside *s, struct sudog *sg);
/* End all waits of a side, or of both, with `result`, an error: these waiters get no token.  They
 * are appended to out. */
void netpoll_wake_side(struct pollside *s, int result, struct glist *out);
void netpoll_wake_all(struct polldesc *pd, int result, struct glist *out);
/* NETPOLL-3: the caller, which has the token of registration seq, is done: give it to the next
 * waiter, if any.  No effect if that registration has ended, and its token with it.  Locks pd. */
void netpoll_pass(struct polldesc *pd, uint32_t seq, int side, struct glist *out);
/* Count one more waiter for an fd (sched.npollwait), and wake the M in the poller if it
 * ignores fds. */
void netpoll_add_waiter(void);

/* --- events --- */

/* Poll, waiting ns at most (0: not at all; NEVER: indefinitely).  Several threads may poll at once,
 * of which one may wait.  Waiters are appended to out.  Returns the number of events. */
int netpoll_poll(int64_t ns, struct glist *out);
/* For the M that sleeps in the poller: ignore fds, for which there is no waiter, until a wakeup,
 * the deadline, or the first waiter.  May return early. */
void netpoll_rest(int64_t deadline);
/* The fd was shut down: make both sides try again, as by an event, since the kernel may report
 * none. */
void netpoll_shut_down(struct polldesc *pd, enum pd_end end, struct glist *out);
/* Watch an fd of the runtime: each poll that finds it readable calls fn.  At most one is watched,
 * until it is closed.  Returns 0 or -errno. */
int netpoll_watch(int fd, void (*fn)(struct glist *out));
/*
 * End the waits of fds that were closed by a plain close() (netpoll/check.c).  No locks held; from
 * sysmon.
 *
 * from  the number to begin with
 * most  how many records with a waiter to check, at a system call each
 * now   on the clock of os_now: waits that began less than CHECK_YOUNG_NS before it are left out
 *
 * Waiters whose wait has ended are appended to out.  Returns the number to begin the next call
 * with; 0: all records have been checked.
 */
enum { CHECK_YOUNG_NS = 100 * MS };
uint32_t netpoll_check(uint32_t from, unsigned most, int64_t now, struct glist *out);

#endif
