/* SPDX-License-Identifier: MIT */
/*
 * Deadlines of fds: a word per side, and a timer per side that ends the waits under way
 * (NETPOLL-6).
 *
 * All functions except the firing of a timer run under pd->lock.
 *
 * Invariants
 *   NETPOLL-6  A side's deadline is a word, written under pd->lock and read before each try and,
 *              under the lock, before each wait.  The side's timer only ends the waits under way.
 *              It is armed for a time not after the next deadline, so moving a deadline later is a
 *              store; a timer that fires too early reads the word, and arms itself again or not.
 *              After it has ended the waits, the word is in the distant past, so a clock that is
 *              behind lets no wait begin.  If no waiter waits, the timer is no event (stall.c).
 *   NETPOLL-7  Lock order: pd->lock, then the lock of a gmp_poll call (netpoll/multi.c) or of a
 *              timer heap.  Firing a side's timer holds the heap's lock and needs pd->lock, so it
 *              only tries to lock, and retries TIMER_RETRY_NS later.
 */
#include "netpoll/deadline.h"

#include <errno.h>

#include "netpoll/netpoll.h"
#include "timer/timerheap.h"

static uint32_t armed; /* (a) timers of sides that are in a heap, or about to be */

/* Disarm the timer of a side. */
static void deadline_disarm(struct polldesc *pd, int side)
{
	if (pd->armed[side] == NEVER)
		return;
	/* this ends, since firing only tries the lock (NETPOLL-7) */
	timer_del(&pd->timer[side]);
	pd->armed[side] = NEVER;
	add_rlx(&armed, -1u);
}

void deadlines_clear(struct polldesc *pd)
{
	for (int i = 0; i < 2; i++) {
		deadline_disarm(pd, i);
		st_rlx(&pd->side[i].deadline, NEVER);
	}
}

/* The deadline of s has passed. */
static void deadline_end_waits(struct pollside *s, struct glist *out)
{
	st_rlx(&s->deadline, INT64_MIN);
	netpoll_wake_side(s, -ETIMEDOUT, out);
}

/* timer_fire of a side. */
static bool deadline_fire(struct polldesc *pd, int side, int64_t now, struct glist *out)
{
	struct pollside *s = &pd->side[side];

	if (!try_lock_against(&pd->lock, LR_POLLDESC)) { /* NETPOLL-7 */
		pd->timer[side].when = now + TIMER_RETRY_NS;
		return true;
	}
	int64_t deadline = ld_rlx(&s->deadline);
	bool later = deadline > now && deadline != NEVER;

	if (later) {
		pd->timer[side].when = pd->armed[side] = deadline;
	} else {
		if (deadline <= now)
			deadline_end_waits(s, out);
		pd->armed[side] = NEVER;
		add_rlx(&armed, -1u);
	}
	unlock(&pd->lock, LR_POLLDESC);
	return later;
}

static bool deadline_fire_read(struct timer *t, int64_t now, struct glist *out)
{
	return deadline_fire(container_of(t, struct polldesc, timer[SIDE_READ]), SIDE_READ, now,
			     out);
}

static bool deadline_fire_write(struct timer *t, int64_t now, struct glist *out)
{
	return deadline_fire(container_of(t, struct polldesc, timer[SIDE_WRITE]), SIDE_WRITE, now,
			     out);
}

/* Make sure that the timer of a side fires at that time or earlier.  Returns 0 or -ENOMEM. */
static int deadline_arm(struct polldesc *pd, int side, int64_t deadline)
{
	if (pd->armed[side] <= deadline)
		return 0;
	if (pd->armed[side] == NEVER && add_rlx(&armed, 1) >= DEADLINES_MAX) {
		add_rlx(&armed, -1u);
		return -ENOMEM;
	}
	/* Race: also delete a timer that has fired.  deadline_fire marks it under pd->lock, but the
	 * heap holds it until fire has returned (TIMER-3), and would remove it after it was armed
	 * again. */
	timer_del(&pd->timer[side]);
	pd->timer[side].fire = side == SIDE_READ ? deadline_fire_read : deadline_fire_write;
	pd->armed[side] = deadline;
	timer_arm(&pd->timer[side], deadline);
	return 0;
}

/* Set the deadline of a side.  Returns 0 or -ENOMEM. */
static int deadline_set_side(struct polldesc *pd, int side, int64_t deadline, struct glist *out)
{
	struct pollside *s = &pd->side[side];
	int err = 0;

	if (deadline == NEVER || deadline <= rt_now())
		deadline_disarm(pd, side);
	else
		err = deadline_arm(pd, side, deadline);
	if (err)
		return err;
	st_rlx(&s->deadline, deadline);
	if (netpoll_late(s))
		deadline_end_waits(s, out);
	return 0;
}

int netpoll_deadline(struct polldesc *pd, unsigned sides, int64_t deadline, struct glist *out)
{
	int err = -EBADF;

	lock(&pd->lock, LR_POLLDESC);
	if ((ld_rlx(&pd->use) & (PD_OPEN | PD_CLOSING)) == PD_OPEN) {
		err = ld_rlx(&pd->file) ? -EPERM : 0;
		for (int i = 0; i < 2 && !err; i++)
			if (sides & 1u << i)
				err = deadline_set_side(pd, i, deadline, out);
	}
	unlock(&pd->lock, LR_POLLDESC);
	return err;
}

void deadlines_reset(void)
{
	st_rlx(&armed, 0u);
}

uint32_t netpoll_deadlines(void)
{
	return ld_rlx(&armed);
}
