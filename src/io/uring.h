/* SPDX-License-Identifier: MIT */
/*
 * File calls through io_uring: one ring for the runtime, so that a G waits for a disk without an M.
 *
 * The first call that wants the ring sets it up.  The ring's own fd is registered with the poller,
 * so the polling M reaps completions.
 *
 *   caller (a G)                               reaper: a G that has submitted, or the poller
 *    1 begin a use of the record                1 lock the ring
 *    2 lock the ring; fill an entry that        2 for each completion: end the use of the record,
 *      names the request, which lies on its       store the result; if the G waits, claim it
 *      stack; submit                            3 unlock; ready the claimed Gs (the poller: append
 *    3 reap: completions of other Gs, and its     them to the list of netpoll_poll)
 *      own if the kernel has finished at once
 *    4 not finished: wait (park.h), with the
 *      ring lock in the place of X's lock
 *
 * Invariants
 *   URING-1  The request and the caller's buffer stay valid until the completion has been reaped:
 *            the wait has no deadline and cannot be cancelled, and the end of a run waits for
 *            requests in flight before it kills Gs.
 *   URING-2  The use of the record lasts as long as the kernel works on the file, and no longer,
 *            whatever happens to the G.
 *   URING-3  An entry is submitted in the critical section that fills it.  If the kernel does not
 *            accept it, it becomes a no-op, and the call falls back to a blocking section.
 *   -        A G that waits counts in sched.npollwait: an M polls, and the wait is no deadlock.
 *   URING-5  A result that says less than the system call itself would (the submitting OS thread
 *            has ended, the kernel cannot do it asynchronously) makes the call fall back to a
 *            blocking section.  Reads and writes have a position, so a repetition is harmless.
 *
 * liburing is loaded with dlopen when the ring is set up: the library itself depends on libc only.
 *
 * Rejected: opening through the ring.  The kernel tries it without waiting first, and a FIFO is
 * then open before its other end is.  With IOSQE_ASYNC it hands each open to a kernel thread, which
 * takes 13 us; the system call takes 2 us.
 */
#ifndef GMP_URING_H
#define GMP_URING_H

#include <sys/types.h>

#include "netpoll/netpoll.h"

enum uring_kind { URING_READ, URING_WRITE, URING_FSYNC };

struct uring_op {
	enum uring_kind kind;
	void *buf;
	size_t n; /* at most IO_MOST */
	off_t at; /* not negative */
};

/* True if the caller is a G and there is a ring; sets it up at the first call of a run. */
bool uring_on(void);
/*
 * Make the call on registration seq of pd through the ring.  From a G, after uring_on.  Returns
 * what the system call would return; -ECANCELED if that registration has ended; -EAGAIN: make the
 * call in a blocking section instead.
 */
ssize_t uring_call(struct polldesc *pd, uint32_t seq, const struct uring_op *op);

/* After the last G has run: wait for requests in flight, free the ring. */
void uring_fini(void);
/* In the child of a fork: close the ring. */
void uring_forget(void);

#endif
