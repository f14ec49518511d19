/* SPDX-License-Identifier: MIT */
/*
 * How does time become elements of a channel?
 *
 * A tick is a timer whose runs try to send the time at which they were due to a channel of capacity
 * 1: a reader that is late finds one tick and has lost the others, the phase stays.
 *
 * Invariants
 *  K1 Runs take turns, and look at the clock in their turn: times are sent in order, and none
 *     twice, though several runs may be late together.
 *  K2 The ticks of the present run are listed.  At its end, when nothing can tick any more, foreign
 *     threads that wait for one get -ESRCH; those that come later are told by the channel's run.
 */
#include "tick.h"

#include <errno.h>
#include <stdlib.h>

#include "base/throw.h"
#include "chan.h"

struct tick {
	gmp_timer *timer;
	gmp_chan *c;
	gmp_mutex turn;
	uint64_t next; /* under turn: the number of the first period that has not been sent */
	int64_t first, period;
	struct tick *link, **from; /* under the list's lock */
};

static struct {
	struct lock lock;
	uint32_t run; /* whose ticks these are */
	struct tick *first;
} list;

static void tick_list(struct tick *t)
{
	lock(&list.lock, LR_TICKS);
	if (list.run != t->c->run) { /* the others are of a run that is over */
		list.run = t->c->run;
		list.first = NULL;
	}
	t->link = list.first;
	t->from = &list.first;
	if (t->link)
		t->link->from = &t->link;
	list.first = t;
	unlock(&list.lock, LR_TICKS);
}

static void tick_unlist(struct tick *t)
{
	lock(&list.lock, LR_TICKS);
	if (list.run == t->c->run) {
		*t->from = t->link;
		if (t->link)
			t->link->from = t->from;
	}
	unlock(&list.lock, LR_TICKS);
}

void ticks_release(struct glist *out)
{
	lock(&list.lock, LR_TICKS);
	if (list.run == sched.run)
		for (struct tick *t = list.first; t; t = t->link)
			chan_release_foreign(t->c, out);
	unlock(&list.lock, LR_TICKS);
}

void ticks_forget(void)
{
	list.lock = (struct lock){ 0 };
	list.run = 0;
	list.first = NULL;
}

static void tick(void *arg)
{
	struct tick *t = arg;
	uint64_t n = 0;

	gmp_mutex_lock(&t->turn);
	/* unsigned, the difference is right for any two times */
	if (t->period)
		n = ((uint64_t)gmp_now() - (uint64_t)t->first) / (uint64_t)t->period;
	if (n >= t->next) {
		int64_t due = (int64_t)((uint64_t)t->first + n * (uint64_t)t->period);

		t->next = n + 1;
		gmp_chan_try_send(t->c, &due);
	}
	gmp_mutex_unlock(&t->turn);
}

static gmp_chan *make(int64_t first, int64_t period)
{
	struct tick *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->first = first;
	t->period = period;
	t->timer = gmp_timer_new(tick, t);
	t->c = t->timer ? gmp_chan_new(sizeof(int64_t), 1) : NULL;
	if (!t->c) {
		gmp_timer_free(t->timer);
		free(t);
		return NULL;
	}
	t->c->owner = t;
	t->c->run = sched.run;
	tick_list(t);
	gmp_timer_set(t->timer, first, period);
	return t->c;
}

gmp_chan *gmp_tick_new(int64_t first, int64_t period)
{
	if (period < 0 || !rt_enter())
		return NULL;
	gmp_chan *c = make(first, period);

	rt_leave();
	return c;
}

void gmp_tick_free(gmp_chan *c)
{
	if (!c)
		return;
	struct tick *t = c->owner;

	if (!t)
		gmp__fatal("gmp_tick_free of a channel that is not a tick");
	gmp_timer_free(t->timer);
	tick_unlist(t);
	c->owner = NULL;
	gmp_chan_free(c);
	free(t);
}
