/* SPDX-License-Identifier: MIT */
/* Fires entries of gmp_poll; see netpoll/fire.h. */
#include "netpoll/fire.h"

#include <poll.h>

#include "poller.h"
#include "waiter.h"

enum {
	ASKS_READ = POLLIN | POLLPRI | POLLRDHUP | POLLRDNORM | POLLRDBAND,
	ASKS_WRITE = POLLOUT | POLLWRNORM | POLLWRBAND,
};

/* MULTI-2. */
static void multi_fire_entry(struct multi *m, int result, struct glist *out)
{
	lock(&m->lock, LR_MULTI);
	if (!m->fired) {
		m->fired = true; /* MULTI-2 */
		m->result = result;
		if (waiter_claim(m->sg->w, result))
			glist_claimed(out, m->sg);
	}
	unlock(&m->lock, LR_MULTI);
}

/* MULTI-9 */
static struct multi_entry *oldest(const struct polldesc *pd)
{
	struct multi_entry *e = pd->entries;

	while (e && e->next)
		e = e->next;
	return e;
}

void multi_fire(struct polldesc *pd, int result, struct glist *out)
{
	for (struct multi_entry *e = oldest(pd); e; e = e->prev)
		multi_fire_entry(e->of, result, out);
}

void multi_event(struct polldesc *pd, unsigned events, struct glist *out)
{
	for (struct multi_entry *e = oldest(pd); e; e = e->prev) {
		if (pd->polled)
			e->all = 0; /* MULTI-6 */
		if (pd->polled || events & POLL_HUNG ||
		    (events & POLL_READ && e->events & ASKS_READ) ||
		    (events & POLL_WRITE && e->events & ASKS_WRITE))
			multi_fire_entry(e->of, 0, out);
	}
}

void multi_close(struct polldesc *pd, bool closed, struct glist *out)
{
	for (struct multi_entry *e = oldest(pd); e; e = e->prev) {
		e->closed = closed;
		multi_fire_entry(e->of, 0, out);
	}
}

void multi_forgotten(struct polldesc *pd, bool closed, struct glist *out)
{
	lock(&pd->lock, LR_POLLDESC);
	multi_close(pd, closed, out);
	unlock(&pd->lock, LR_POLLDESC);
}
