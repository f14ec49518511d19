/* SPDX-License-Identifier: MIT */
/*
 * How does time become elements of a channel?
 *
 * A tick is a timer whose runs try to send the time at which they were due to a channel of capacity
 * 1: a reader that is late finds one tick and has lost the others, the phase stays.  Written on the
 * public interface, but for the pointer from the channel to its timer.
 */
#include <stdlib.h>

#include "chan.h"
#include "gmp.h"

struct tick {
	gmp_timer *timer;
	gmp_chan *c;
	int64_t first, period;
};

static void tick(void *arg)
{
	struct tick *t = arg;
	int64_t now = gmp_now(), due = t->first;

	if (t->period && now > due)
		due += (now - due) / t->period * t->period;
	gmp_chan_try_send(t->c, &due);
}

gmp_chan *gmp_tick_new(int64_t first, int64_t period)
{
	struct tick *t = period < 0 ? NULL : calloc(1, sizeof(*t));

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
	gmp_timer_set(t->timer, first, period);
	return t->c;
}

void gmp_tick_free(gmp_chan *c)
{
	if (!c)
		return;
	struct tick *t = c->owner;

	gmp_timer_free(t->timer);
	gmp_chan_free(c);
	free(t);
}
