/* SPDX-License-Identifier: MIT */
/*
 * gmp_fd_wait: waits for readiness alone; another library reads and writes.
 *
 *   1 count the events of each side (N2)     5 else a sudog into the queue of each side, and park
 *   2 ask the kernel: poll(2), without       6 woken: dequeue the sudogs that are still queued;
 *     waiting                                  after an event, the call has that side's turn (N3)
 *   3 ready: pass the turn on, return        7 from the start
 *   4 compare the file with the registered one (N8)
 *
 * It asks before each wait, so it goes by levels although the poller goes by edges, and whoever else
 * reads the descriptor meanwhile does no harm.
 *
 * Another library may close the number and open it again, as libpq does from one host to the next.  The
 * kernel drops the registration with the close, without an event:
 *
 *   the waiter                                      the library
 *    1 lock pd                                       1 close(fd): the kernel forgets the registration
 *    2 EPOLL_CTL_ADD with the next seq               2 socket(), dup2(): fd is another file
 *      EEXIST: the file is registered: 3
 *      0: it was not, and is now: cancel the         a waiter of before
 *         waiters of the former file, unlock,          is woken with -ECANCELED by the 2 of a later
 *         begin again                                  waiter, by an adoption, or by sysmon within
 *    3 enqueue, unlock, park                           a second (netpoll/check.c)
 *
 * The library works in the caller's green thread, or in another that waits for the caller: between 2 and 3
 * nothing closes the number that is not misuse, and sysmon ends such a wait, too.
 *
 * Verified by model/reopen.pml.
 *
 * Cost: one epoll_ctl for each wait that parks, about 0.3 us where a poll(2) is 0.4 us; nothing where the
 * descriptor is ready.  Reads and writes do not pay for it.
 * Rejected: EPOLL_CTL_MOD (0.5 us, and it reports a writable socket each time that a reader waits);
 * comparing inode numbers (fstat costs as much, and the registration is gone also when dup2() has brought
 * the same file back).
 *
 * Invariants
 *  I1 Both sudogs have one waiter, so one claim wins, and the sudog that it was won by is `chosen`;
 *     a side that finds the other's winner goes to its next waiter.
 *  I2 The second sudog lies on the caller's stack; both have left their queues, under pd->lock,
 *     before the call goes on.
 *  I3 Readiness is not used up: who has the turn and found the side ready passes it on.
 *  I4 A wait parks only on a registration that was the file's, under pd->lock, when it was enqueued.
 */
#include <errno.h>
#include <poll.h>

#include "io/fd.h"
#include "netpoll/owner.h"
#include "park.h"

struct ready_wait {
	struct polldesc *pd;
	uint32_t seq;
	unsigned sides; /* a mask */
	uint32_t seen[2];
	int turn;    /* the side whose turn it has, or -1 */
	bool parked; /* it has waited for this registration */
	struct external f;
	struct sudog second;
	struct sudog *sg[2]; /* by side */
};

/* What of the sides is ready: a mask, 0, or -EBADF. */
static int ask_kernel(int fd, unsigned sides)
{
	struct pollfd p = { .fd = fd };

	if (sides & GMP_READ)
		p.events |= POLLIN | POLLRDHUP;
	if (sides & GMP_WRITE)
		p.events |= POLLOUT;
	while (poll(&p, 1, 0) < 0)
		if (errno != EINTR)
			return -errno;
	unsigned ready = 0;

	if (p.revents & POLLNVAL)
		return -EBADF; /* closed behind our back */
	if (p.revents & (POLLIN | POLLRDHUP | POLLHUP | POLLERR))
		ready |= GMP_READ;
	if (p.revents & (POLLOUT | POLLHUP | POLLERR))
		ready |= GMP_WRITE;
	return (int)(ready & sides);
}

#define FOR_SIDES(i, sides)                                                                        \
	for (int i = 0; i < 2; i++)                                                                \
		if ((sides)&1u << i)

static void leave_both(struct ready_wait *rw)
{
	lock(&rw->pd->lock, LR_POLLDESC);
	FOR_SIDES(i, rw->sides)
	{
		if (rw->sg[i]->queued)
			netpoll_dequeue(&rw->pd->side[i], rw->sg[i]);
	}
	unlock(&rw->pd->lock, LR_POLLDESC);
}

static void ready_unwait(struct waiter *w)
{
	leave_both(waiter_sudog(w)->elem);
}

static void commit_unlock(void *pd)
{
	unlock(&((struct polldesc *)pd)->lock, LR_POLLDESC);
}

/* Under pd->lock: nothing has happened since step 1. */
static bool unchanged(struct ready_wait *rw)
{
	FOR_SIDES(i, rw->sides)
	{
		if (rw->pd->side[i].events != rw->seen[i] || netpoll_late(&rw->pd->side[i]))
			return false;
	}
	return true;
}

static int done(struct ready_wait *rw, int result)
{
	if (rw->turn >= 0)
		fd_pass_turn(rw->pd, rw->turn);
	return result;
}

/* OWNER-4: for the threads of the connection that had the number before. */
static int make_room(struct polldesc *pd)
{
	int err = owner_lock(pd);

	if (!err)
		unlock(&pd->lock, LR_POLLDESC);
	return err;
}

/* Step 4, with pd->lock held.  False: the file is the registered one.  True: the lock has been dropped, and
 * *result is what the call returns; 0: it begins again, with the file that is registered now. */
static noinline bool moved_slow(struct ready_wait *rw, int renewed, struct glist *out, int *result)
{
	struct polldesc *pd = rw->pd;

	if (renewed > 0) {
		rw->seq = ld_rlx(&pd->seq);
		rw->turn = -1; /* it was the former file's */
	}
	unlock(&pd->lock, LR_POLLDESC);
	ready_list(out);
	if (renewed == NEEDS_ROOM)
		renewed = make_room(pd);
	*result = renewed >= 0 || renewed == -EPERM ? 0 : done(rw, renewed);
	return true;
}

static bool moved(struct ready_wait *rw, int *result)
{
	struct glist out = { 0 };
	int renewed = netpoll_renew(rw->pd, &out);

	return unlikely(renewed) ? moved_slow(rw, renewed, &out, result) : false;
}

/* True: the registration is another one, but of the same adoption, and the call has not waited for the former
 * one.  So it is as good as begun after the netpoll_renew of another call. */
static bool follow(struct ready_wait *rw)
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

/* Steps 5 and 6: 0, or an error. */
static int wait_both(struct ready_wait *rw, int64_t deadline)
{
	struct polldesc *pd = rw->pd;
	int result;

	lock(&pd->lock, LR_POLLDESC);
	if (!fd_same(pd, rw->seq) || !unchanged(rw)) {
		unlock(&pd->lock, LR_POLLDESC);
		return 0; /* the next round finds out */
	}
	if (unlikely(moved(rw, &result)))
		return result;
	struct sudog *first = self_sudog(&rw->f), *sg = first;

	first->key = pd; /* for dumps */
	first->elem = rw;
	rw->second = (struct sudog){ .w = first->w };
	FOR_SIDES(i, rw->sides)
	{
		sg->chosen = false;
		rw->sg[i] = sg;
		if (rw->turn == i)
			st_rlx(&pd->side[i].token_out, false);
		netpoll_enqueue(&pd->side[i], sg, rw->turn == i);
		sg = &rw->second;
	}
	rw->turn = -1;
	rw->parked = true;
	result = wait_on(first->w, side_reasons[rw->sides], ready_unwait, commit_unlock, pd,
			 deadline);

	if (result)
		return result; /* ready_unwait has */
	leave_both(rw);
	FOR_SIDES(i, rw->sides)
	{
		if (rw->sg[i]->chosen)
			rw->turn = i;
	}
	return 0;
}

static int wait_ready(struct ready_wait *rw, int64_t deadline)
{
	struct polldesc *pd = rw->pd;

	for (;;) {
		FOR_SIDES(i, rw->sides)
		{
			rw->seen[i] = ld_acq(&pd->side[i].events); /* ORD(pd.events) */
			if (netpoll_late(&pd->side[i]))
				return done(rw, fd_late(pd, i, false));
		}
		while (!fd_use(pd, rw->seq))
			if (!follow(rw))
				return fd_lost(pd, rw->seq);
		int result = ask_kernel(pd->fd, rw->sides);

		netpoll_unuse(pd);
		if (!result)
			result = too_late(deadline);
		if (result)
			return done(rw, result);
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
		struct ready_wait rw = {
			.pd = pd, .seq = ld_rlx(&pd->seq), .sides = (unsigned)events, .turn = -1
		};
		result = wait_ready(&rw, deadline);
	}
	rt_leave();
	return result;
}
