/* SPDX-License-Identifier: MIT */
/*
 * How does one wait for readiness alone, and leave the reading to another library?
 *
 *   1 count the events of each side (N2)     4 else a sudog into the queue of each side, and park
 *   2 ask the kernel: poll(2), without       5 woken: what still stands in a queue leaves it, and
 *     waiting                                  if it was an event, it has that side's turn (N3)
 *   3 ready: pass the turn on, return        6 from the start
 *
 * It asks before each wait, so it goes by levels although the poller goes by edges, and whoever else
 * reads the descriptor meanwhile does no harm.
 *
 * Invariants
 *  I1 Both sudogs have one waiter, so one claim wins, and the sudog that it was won by is `chosen`;
 *     a side that finds the other's winner goes to its next waiter.
 *  I2 The second sudog lies on the caller's stack; both have left their queues, under pd->lock,
 *     before the call goes on.
 *  I3 Readiness is not used up: who has the turn and found the side ready passes it on.
 */
#include <errno.h>
#include <poll.h>

#include "io/fd.h"
#include "park.h"

struct ready_wait {
	struct polldesc *pd;
	uint32_t seq;
	unsigned sides; /* a mask */
	uint32_t seen[2];
	int turn; /* the side whose turn it has, or -1 */
	struct foreign f;
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

/* Steps 4 and 5: 0, or an error. */
static int wait_both(struct ready_wait *rw, int64_t deadline)
{
	struct polldesc *pd = rw->pd;

	lock(&pd->lock, LR_POLLDESC);
	if (!fd_same(pd, rw->seq) || !unchanged(rw)) {
		unlock(&pd->lock, LR_POLLDESC);
		return 0; /* the next round finds out */
	}
	struct sudog *first = self_sudog(&rw->f), *sg = first;

	first->key = pd; /* for dumps */
	first->elem = rw;
	rw->second = (struct sudog){ .w = first->w };
	FOR_SIDES(i, rw->sides)
	{
		sg->chosen = false;
		rw->sg[i] = sg;
		if (rw->turn == i)
			st_rlx(&pd->side[i].turn, false);
		netpoll_enqueue(&pd->side[i], sg, rw->turn == i);
		sg = &rw->second;
	}
	rw->turn = -1;
	int result = wait_on(first->w, rw->sides & GMP_READ ? WAIT_READ : WAIT_WRITE, ready_unwait,
			     commit_unlock, pd, deadline);

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

static int done(struct ready_wait *rw, int result)
{
	if (rw->turn >= 0)
		fd_pass_turn(rw->pd, rw->turn);
	return result;
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
		if (!fd_use(pd, rw->seq))
			return -ECANCELED;
		int result = ask_kernel(pd->fd, rw->sides);

		netpoll_unuse(pd);
		if (!result)
			result = too_late(deadline);
		if (result)
			return done(rw, result);
		result = wait_both(rw, deadline);
		if (result)
			return result;
	}
}

int gmp_wait_fd(int fd, int events, int64_t deadline)
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
