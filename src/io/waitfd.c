/* SPDX-License-Identifier: MIT */
/*
 * gmp_fd_wait: waits for readiness only; another library reads and writes the fd.
 *
 *   1 read the counts of events (NETPOLL-2)
 *   2 poll the kernel: poll(2) without timeout
 *   3 ready: pass the token on, return
 *   4 compare the file with the registered one (NETPOLL-8)
 *   5 enqueue a sudog at each side, and park
 *   6 woken: dequeue the sudogs that are still queued; after an event, the call has the token of
 *     that side
 *   7 from 1
 *
 * The call polls the kernel before each wait.  So it is level-triggered although the poller is
 * edge-triggered, and other readers of the fd do no harm.
 *
 * Another library may close the fd and open it again, as libpq does from one host to the next.  The
 * kernel drops the registration with the close, without an event:
 *
 *   waiter                                       library
 *    1 lock pd                                    1 close(fd): the kernel drops the registration
 *    2 EPOLL_CTL_ADD with the next seq            2 socket(), dup2(): fd is another file
 *      EEXIST: the file is registered: 3
 *      0: it was not, and is now: cancel the      waiter from before
 *         waiters of the former file, unlock,      is woken with -ECANCELED by step 2 of a later
 *         from the start                           waiter, by an adoption, or by sysmon within a
 *    3 enqueue, unlock, park                       second (netpoll/check.c)
 *
 * The library runs in the caller's G, or in a G that waits for the caller.  So between
 * steps 2 and 3 only misuse closes the fd, and sysmon ends such a wait, too.
 *
 * Verified by model/reopen.pml.
 *
 * Cost: one epoll_ctl per wait that parks, about 0.3 us where a poll(2) is 0.4 us; none if the fd
 * is ready.  Reads and writes do not pay for it.
 *
 * Rejected
 *   EPOLL_CTL_MOD: 0.5 us, and it reports a writable socket each time that a reader waits.
 *   Comparing inode numbers: fstat costs as much, and the registration is also gone after dup2()
 *   has brought the same file back.
 *
 * Invariants
 *   -         Both sudogs have one waiter, so one claim wins; the sudog that was claimed is
 *             `chosen`.  A side whose claim fails continues with its next waiter.
 *   WAITFD-2  The second sudog lies on the caller's stack.  Both are dequeued, under pd->lock,
 *             before the call continues.
 *   WAITFD-3  Readiness is not consumed: a call that has the token and reads the side as ready
 *             passes the token on.
 *   -         A wait parks only if the registration was that of the present file when it was
 *             enqueued, under pd->lock.
 */
#include <errno.h>
#include <poll.h>

#include "base/os.h"
#include "enter.h"
#include "io/fd.h"
#include "netpoll/owner.h"
#include "park.h"

struct waitfd {
	struct polldesc *pd;
	uint32_t seq;
	unsigned sides; /* a mask */
	uint32_t seen[2];
	int token;   /* the side whose token the call has; -1: none */
	bool parked; /* the call has parked on this registration */
	struct external f;
	struct sudog second;
	struct sudog *sg[2]; /* by side */
};

/* Returns the mask of the sides that are ready, or -EBADF. */
static int poll_sides(int fd, unsigned sides)
{
	struct pollfd p = { .fd = fd };

	if (sides & GMP_READ)
		p.events |= POLLIN | POLLRDHUP;
	if (sides & GMP_WRITE)
		p.events |= POLLOUT;
	int err = os_retry(poll(&p, 1, 0));
	unsigned ready = 0;

	if (err < 0)
		return err;
	if (p.revents & POLLNVAL)
		return -EBADF; /* closed by a plain close() */
	if (p.revents & (POLLIN | POLLRDHUP | POLLHUP | POLLERR))
		ready |= GMP_READ;
	if (p.revents & (POLLOUT | POLLHUP | POLLERR))
		ready |= GMP_WRITE;
	return (int)(ready & sides);
}

#define FOR_SIDES(i, sides)                                                                        \
	for (int i = 0; i < 2; i++)                                                                \
		if ((sides)&1u << i)

/* WAITFD-2 */
static void dequeue_both(struct waitfd *rw)
{
	lock(&rw->pd->lock, LR_POLLDESC);
	FOR_SIDES(i, rw->sides)
	{
		if (rw->sg[i]->queued)
			netpoll_dequeue(&rw->pd->side[i], rw->sg[i]);
	}
	unlock(&rw->pd->lock, LR_POLLDESC);
}

/* Undo a wait that was cancelled, has timed out or is killed at shutdown. */
static void waitfd_unwait(struct waiter *w)
{
	dequeue_both(waiter_sudog(w)->elem);
}

/* True if no event has come and no deadline expired since step 1.  Under pd->lock. */
static bool unchanged(struct waitfd *rw)
{
	FOR_SIDES(i, rw->sides)
	{
		if (rw->pd->side[i].events != rw->seen[i] || netpoll_late(&rw->pd->side[i]))
			return false;
	}
	return true;
}

/* End the call with result; pass the token on (WAITFD-3). */
static int waitfd_finish(struct waitfd *rw, int result)
{
	if (rw->token >= 0)
		fd_pass_token(rw->pd, rw->seq, rw->token);
	return result;
}

/* OWNER-4: allocate room to remember the threads of the former connection. */
static int make_owner_room(struct polldesc *pd)
{
	int err = owner_lock(pd);

	if (!err)
		unlock(&pd->lock, LR_POLLDESC);
	return err;
}

/* Slow path of is_reopened: the file is not the registered one. */
static noinline bool is_reopened_slow(struct waitfd *rw, int renewed, struct glist *out,
				      int *result)
{
	struct polldesc *pd = rw->pd;

	if (renewed > 0) {
		rw->seq = ld_rlx(&pd->seq);
		rw->token = -1; /* it was that of the former file */
	}
	unlock(&pd->lock, LR_POLLDESC);
	ready_list(out);
	if (renewed == NEEDS_ROOM)
		renewed = make_owner_room(pd);
	*result = renewed >= 0 || renewed == -EPERM ? 0 : waitfd_finish(rw, renewed);
	return true;
}

/*
 * Step 4, with pd->lock held.  Returns false if the file is the registered one.  Otherwise drops
 * the lock and returns true; *result is the result of the call, or 0: from 1, with the file that is
 * registered now.
 */
static bool is_reopened(struct waitfd *rw, int *result)
{
	struct glist out = { 0 };
	int renewed = netpoll_renew(rw->pd, &out);

	return unlikely(renewed) ? is_reopened_slow(rw, renewed, &out, result) : false;
}

/*
 * Continue with the present registration if it belongs to the same adoption and the call has not
 * parked on the former one: the call counts as begun after the netpoll_renew of another one.
 * Returns false if that does not hold.
 */
static bool follow_renewal(struct waitfd *rw)
{
	uint32_t seq = ld_rlx(&rw->pd->seq);

	if (rw->parked || seq == rw->seq || (int32_t)(rw->seq - ld_rlx(&rw->pd->opened)) < 0)
		return false;
	rw->seq = seq;
	owner_join(rw->pd); /* as a call that begins now */
	return true;
}

static const unsigned side_reasons[] = {
	[GMP_READ] = WAIT_READ, [GMP_WRITE] = WAIT_WRITE, [GMP_READ | GMP_WRITE] = WAIT_READ_WRITE
};

/* Steps 4 to 6.  Returns 0 or an error. */
static int wait_both(struct waitfd *rw, int64_t deadline)
{
	struct polldesc *pd = rw->pd;
	int result;

	lock(&pd->lock, LR_POLLDESC);
	if (!fd_same(pd, rw->seq) || !unchanged(rw)) {
		unlock(&pd->lock, LR_POLLDESC);
		return 0; /* from 1 */
	}
	if (unlikely(is_reopened(rw, &result)))
		return result;
	struct sudog *first = self_sudog(&rw->f), *sg = first;

	first->key = pd; /* for dumps */
	first->elem = rw;
	rw->second = (struct sudog){ .w = first->w };
	FOR_SIDES(i, rw->sides)
	{
		sg->chosen = false;
		rw->sg[i] = sg;
		if (rw->token == i)
			st_rlx(&pd->side[i].token_out, false);
		netpoll_enqueue(&pd->side[i], sg, rw->token == i);
		sg = &rw->second;
	}
	rw->token = -1;
	rw->parked = true;
	result = wait_on(first->w, side_reasons[rw->sides], waitfd_unwait, fd_commit_unlock, pd,
			 deadline);

	if (result)
		return result; /* waitfd_unwait has dequeued them */
	dequeue_both(rw);
	FOR_SIDES(i, rw->sides)
	{
		if (rw->sg[i]->chosen)
			rw->token = i;
	}
	return 0;
}

/* The call: steps 1 to 7. */
static int waitfd_call(struct waitfd *rw, int64_t deadline)
{
	struct polldesc *pd = rw->pd;

	for (;;) {
		FOR_SIDES(i, rw->sides)
		{
			rw->seen[i] = ld_acq(&pd->side[i].events); /* ORD(pd.events) */
			if (netpoll_late(&pd->side[i])) {
				follow_renewal(rw);
				return waitfd_finish(rw, fd_expired(pd, rw->seq, i, false));
			}
		}
		while (!fd_use(pd, rw->seq))
			if (!follow_renewal(rw))
				return fd_lost(pd, rw->seq);
		int result = poll_sides(pd->fd, rw->sides);

		netpoll_unuse(pd);
		if (!result)
			result = too_late(deadline);
		if (result)
			return waitfd_finish(rw, result);
		result = wait_both(rw, deadline);
		if (result)
			return result == -ECANCELED ? fd_lost(pd, rw->seq) : result;
	}
}

int gmp_fd_wait(int fd, int events, int64_t deadline)
{
	if (!events || events & ~(GMP_READ | GMP_WRITE))
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = fd_find(fd);
	int result = -EBADF;

	if (pd) {
		struct waitfd rw = {
			.pd = pd, .seq = ld_rlx(&pd->seq), .sides = (unsigned)events, .token = -1
		};
		result = waitfd_call(&rw, deadline);
	}
	rt_leave();
	return result;
}
