/* SPDX-License-Identifier: MIT */
/*
 * How does a green thread wait for a disk, and no thread with it?
 *
 * By io_uring: one ring for the runtime, set up by the first call that wants it.  The ring's own
 * descriptor is with the poller, so whoever polls reaps.
 *
 *  the G                                          who reaps: a G that has just submitted, or the poller
 *   1 the use of the record begins                  1 lock the ring
 *   2 lock the ring; an entry that names the        2 of each completion, the call: the use of the
 *     call, which lies on its stack; submit           record ends, the result is noted, and if the G
 *   3 reap: the others' and, if the kernel had        waits, claim it
 *     the answer at hand, its own                   3 unlock; make them ready (or hand them to the
 *   4 no answer yet: wait (park.h), with the          one who polled)
 *     ring's lock in the place of X's
 *
 * Invariants
 *  R1 The call and the caller's buffer stay where they are until the completion has been reaped: the
 *     wait has no deadline and is not cut short, and the end of a run waits for what is under way
 *     before it drops anybody.
 *  R2 The use of the record lasts as long as the kernel works on the file, and no longer, whatever
 *     becomes of the G.
 *  R3 An entry is submitted in the section that fills it.  One that the kernel does not take is made
 *     a no-op, and the call goes the other way.
 *  R4 A G that waits counts in sched.npollwait: somebody polls, and nobody takes it for a deadlock.
 *  R5 Each result that says less than the call itself would (the thread that submitted has ended, the
 *     kernel cannot do it so) sends the call the other way: reads and writes have a position, so to
 *     begin again does no harm.
 *
 * liburing is looked for when the ring is set up (dlopen): the library itself needs libc alone.
 *
 * Rejected: opening by the ring.  The kernel tries it without waiting first, and a FIFO is then open
 * before its other end is; told not to try, it hands each to a thread of its own, 13 us where the call
 * itself takes 2.
 */
#ifndef GMP_URING_H
#define GMP_URING_H

#include <sys/types.h>

#include "netpoll.h"

enum uring_kind { URING_READ, URING_WRITE, URING_FSYNC };

struct uring_op {
	enum uring_kind kind;
	void *buf;
	size_t n; /* at most IO_MOST */
	off_t at; /* not negative */
};

/* Is there a ring for a green thread's calls?  Sets it up if need be. */
bool uring_on(void);
/* Do it by the ring: what the system call would return, -EBADF if it is closed; or -EAGAIN: do it in
 * blocking code.  From green threads, after uring_on. */
ssize_t uring_call(struct polldesc *pd, const struct uring_op *op);

void uring_fini(void);   /* after the last G has run: waits for what is under way */
void uring_forget(void); /* the child of a fork */

#endif
