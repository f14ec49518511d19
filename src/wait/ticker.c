/* SPDX-License-Identifier: MIT */
/*
 * Tick: a timer that at each expiry tries to send its due time to a channel of capacity 1.
 *
 * A slow reader finds one tick and has lost the others; the phase stays.  An expiry starts no green
 * thread: a waiting reader is made runnable in the same batch as the waiters of other timers.
 *
 * Invariants
 *  TICK-1  The timer is armed for the first period that has not been sent, or for a later one, and
 *          its expiries run one after the other (timerheap.h).  So times are sent in order, and
 *          none twice.
 *  TICK-2  The ticks of the present run are in a list.  At the end of the run, when no timer can
 *          expire any more, external threads that wait for a tick get -ESRCH.  A later receive
 *          compares the run of the channel (chan.c:tick_run_ended).
 *  TICK-3  Lock order: a receive with a deadline locks the channel, then a heap.  An expiry holds
 *          the heap's lock and needs the channel's, so it only tries the lock; if that fails, it
 *          is retried after TIMER_RETRY_NS.
 *
 * Rejected: a green thread for each tick.  It costs a switch more, and a scheduling round of its
 * own for each tick that is late.
 */
#include "wait/ticker.h"

#include <stdlib.h>

#include "base/dlist.h"
#include "base/mem.h"
#include "base/object.h"
#include "base/throw.h"
#include "chan.h"
#include "enter.h"
#include "timer/timerheap.h"
#include "waiter.h"

struct tick {
	struct timer timer;
	gmp_chan *c;             /* (c) */
	int64_t first, period;   /* (c) */
	struct tick *next, **at; /* under the list's lock */
};

static struct {
	struct lock lock;
	uint32_t run; /* number of the run that the ticks belong to */
	struct tick *first;
} list;

static void tick_list(struct tick *t)
{
	lock(&list.lock, LR_TICKS);
	if (list.run != t->c->run) { /* the list is that of an ended run */
		list.run = t->c->run;
		list.first = NULL;
	}
	dlist_add(&list.first, t);
	unlock(&list.lock, LR_TICKS);
}

static void tick_unlist(struct tick *t)
{
	lock(&list.lock, LR_TICKS);
	if (list.run == t->c->run)
		dlist_del(t);
	unlock(&list.lock, LR_TICKS);
}

void ticks_release(struct glist *out)
{
	lock(&list.lock, LR_TICKS);
	if (list.run == sched.run)
		for (struct tick *t = list.first; t; t = t->next)
			chan_release_external(t->c, out);
	unlock(&list.lock, LR_TICKS);
}

void ticks_forget(void)
{
	list.lock = (struct lock){ 0 };
	list.run = 0;
	list.first = NULL;
}

static bool tick_fires(struct timer *base, int64_t now, struct glist *out)
{
	struct tick *t = container_of(base, struct tick, timer);
	struct sudog *reader = NULL;
	uint64_t n = 0;

	if (!try_lock_against(&t->c->lock, LR_CHAN)) { /* TICK-3 */
		base->when = now + TIMER_RETRY_NS;
		return true;
	}
	/* unsigned: the difference of any two times is correct */
	if (t->period)
		n = ((uint64_t)now - (uint64_t)t->first) / (uint64_t)t->period;
	int64_t due = (int64_t)((uint64_t)t->first + n * (uint64_t)t->period);

	chan_send_locked(t->c, &due, &reader); /* if the channel is full, the tick is lost */
	unlock(&t->c->lock, LR_CHAN);
	if (reader)
		glist_claimed(out, reader);
	if (!t->period || due >= NEVER - t->period) /* the next is beyond the end of the clock */
		return false;
	base->when = due + t->period;
	return true;
}

static gmp_chan *tick_make(int64_t first, int64_t period)
{
	struct tick *t = malloc_zeroed(sizeof(*t));
	gmp_chan *c = t ? gmp_chan_new(sizeof(int64_t), 1) : NULL;

	if (!c) {
		free(t);
		return NULL;
	}
	*t = (struct tick){ .timer.fire = tick_fires, .c = c, .first = first, .period = period };
	c->owner = t;
	c->run = sched.run;
	tick_list(t);
	if (first != NEVER)
		timer_arm(&t->timer, first);
	return c;
}

gmp_chan *gmp_tick_new(int64_t first, int64_t period)
{
	gmp_chan *c = NULL;

	if (period < 0 || !rt_enter())
		return NULL;
	if (timer_take_place() && !(c = tick_make(first, period)))
		timer_give_place();
	rt_leave();
	return c;
}

void gmp_tick_free(gmp_chan *c)
{
	if (!c)
		return;
	object_claim(c, &c->kind, OBJECT_CHAN, "gmp_tick_free");
	struct tick *t = c->owner;

	if (!t)
		gmp__fatal("gmp_tick_free of channel %p, which is not a tick\n"
			   "free it by gmp_chan_free",
			   (void *)c);
	if (timer_enter_to_free(t->c->run)) {
		timer_del(&t->timer); /* on return, no expiry is running (timerheap.h) */
		rt_leave();
	}
	tick_unlist(t);
	timer_give_place();
	c->owner = NULL;
	if (!chan_destroy(c))
		gmp__fatal("gmp_tick_free of channel %p, on which a thread waits\n"
			   "end the green threads that receive from the tick first",
			   (void *)c);
	free(t);
}
