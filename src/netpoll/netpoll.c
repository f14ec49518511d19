/* SPDX-License-Identifier: MIT */
/* Queues and events of the poller, and entries of gmp_poll: see netpoll.h, netpoll/multi.c. */
#include "netpoll/netpoll.h"

#include <poll.h>

#include "waiter.h"

/* The key of netpoll_watch; the lower half of an fd's key is 1 to 2^24. */
#define WATCH_KEY UINT64_MAX

enum { BATCH = 128 }; /* events per call of the poller */

enum {
	ASKS_READ = POLLIN | POLLPRI | POLLRDHUP | POLLRDNORM | POLLRDBAND,
	ASKS_WRITE = POLLOUT | POLLWRNORM | POLLWRBAND,
};

static void (*on_watched)(struct glist *out); /* (a) netpoll_watch */

/* --- queues; under pd->lock --- */

void netpoll_enqueue(struct pollside *s, struct sudog *sg, bool front)
{
	sg->next = sg->prev = NULL;
	if (!s->head) {
		s->tail = sg;
		st_rlx(&s->head, sg);
	} else if (front) {
		sg->next = s->head;
		s->head->prev = sg;
		st_rlx(&s->head, sg);
	} else {
		sg->prev = s->tail;
		s->tail->next = sg;
		s->tail = sg;
	}
	st_rlx(&sg->queued, true);
	const struct g *gp = sg->w->gp;

	if (likely(gp != NULL)) {
		s->user = gp->token;
		s->user_generation = (uint16_t)ld_rlx(&gp->generation);
	}
	netpoll_add_waiter();
}

void netpoll_dequeue(struct pollside *s, struct sudog *sg)
{
	if (sg->prev)
		sg->prev->next = sg->next;
	else
		st_rlx(&s->head, sg->next);
	if (sg->next)
		sg->next->prev = sg->prev;
	else
		s->tail = sg->prev;
	st_rel(&sg->queued, false); /* ORD(sudog.queued): out of the queue before it says so */
	add_rlx(&sched.npollwait, -1u);
}

/* Claim the first waiter that was not claimed otherwise.  Returns false if there is none. */
static inline bool wake_first(struct pollside *s, int result, struct glist *out)
{
	struct sudog *sg;

	while ((sg = s->head)) {
		bool won = waiter_claim(sg->w, result);

		netpoll_dequeue(s, sg); /* PARK-5: after the claim */
		if (!won)
			continue;
		sg->chosen = true; /* for a waiter that is in both queues */
		glist_claimed(out, sg);
		return true;
	}
	return false;
}

noinline void netpoll_wake_side(struct pollside *s, int result, struct glist *out)
{
	while (wake_first(s, result, out))
		;
}

void netpoll_wake_all(struct polldesc *pd, int result, struct glist *out)
{
	for (int i = 0; i < 2; i++)
		netpoll_wake_side(&pd->side[i], result, out);
}

void netpoll_pass(struct polldesc *pd, uint32_t seq, int side, struct glist *out)
{
	struct pollside *s = &pd->side[side];

	lock(&pd->lock, LR_POLLDESC);
	if (likely(pd->seq == seq))
		st_rlx(&s->token_out, wake_first(s, 0, out));
	unlock(&pd->lock, LR_POLLDESC);
}

/* --- entries; under pd->lock, except multi_forgotten --- */

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

void multi_event(struct polldesc *pd, unsigned events, int result, struct glist *out)
{
	for (struct multi_entry *e = oldest(pd); e; e = e->prev) {
		if (pd->polled)
			e->all = 0; /* MULTI-6 */
		if (pd->polled || events & POLL_HUNG ||
		    (events & POLL_READ && e->events & ASKS_READ) ||
		    (events & POLL_WRITE && e->events & ASKS_WRITE))
			multi_fire_entry(e->of, result, out);
	}
}

void multi_close(struct polldesc *pd, bool closed, struct glist *out)
{
	for (struct multi_entry *e = pd->entries; e; e = e->next)
		e->closed |= closed; /* a release of the number may come after its close */
	multi_event(pd, POLL_HUNG, 0, out);
}

void multi_forgotten(struct polldesc *pd, bool closed, struct glist *out)
{
	lock(&pd->lock, LR_POLLDESC);
	multi_close(pd, closed, out);
	unlock(&pd->lock, LR_POLLDESC);
}

/* --- events --- */

static int event_fd(const struct poll_event *e)
{
	return (int)(uint32_t)e->key - 1;
}

/* One event of a side (NETPOLL-1, NETPOLL-3); under pd->lock. */
static void side_ready(struct pollside *s, struct glist *out)
{
	st_rel(&s->events, s->events + 1); /* ORD(pd.events) */
	if (!s->token_out)
		st_rlx(&s->token_out, wake_first(s, 0, out));
}

void netpoll_shut_down(struct polldesc *pd, enum pd_end end, struct glist *out)
{
	lock(&pd->lock, LR_POLLDESC);
	if (end != PD_GOES_ON)
		st_rlx(&pd->ended, (uint8_t)end);
	for (int i = 0; i < 2; i++)
		side_ready(&pd->side[i], out);
	multi_event(pd, POLL_READ | POLL_WRITE, 0, out);
	unlock(&pd->lock, LR_POLLDESC);
}

/* One event of the kernel. */
static void netpoll_event(const struct poll_event *e, struct glist *out)
{
	struct polldesc *pd = netpoll_find(event_fd(e));

	if (!pd)
		return;
	lock(&pd->lock, LR_POLLDESC);
	if (pd->seq == (uint32_t)(e->key >> 32)) { /* NETPOLL-5 */
		if (e->events & POLL_HUNG)
			st_rlx(&pd->hup, true);
		for (int i = 0; i < 2; i++)
			if (e->events & (i == SIDE_READ ? POLL_READ : POLL_WRITE))
				side_ready(&pd->side[i], out);
		if (unlikely(pd->multi))
			multi_event(pd, e->events, 0, out);
	}
	unlock(&pd->lock, LR_POLLDESC);
}

/* With more connections than the caches hold, an event misses the cache for the record and for the
 * waiter.  So both are prefetched, the waiter through the record. */
static inline void prefetch_record(const struct poll_event *e)
{
	struct polldesc *pd = netpoll_find(event_fd(e));

	if (pd) {
		__builtin_prefetch(pd, 1);
		__builtin_prefetch(&pd->side[1], 1);
	}
}

static inline void prefetch_waiter(const struct poll_event *e)
{
	struct polldesc *pd = netpoll_find(event_fd(e));
	struct sudog *sg = pd ? ld_rlx(&pd->side[SIDE_READ].head) : NULL;

	if (pd && ld_rlx(&pd->entries)) /* also of a call that has ended: nothing is read */
		__builtin_prefetch(ld_rlx(&pd->entries), 1);
	if (sg) { /* it may be gone by now, or not be a G's: nothing is read */
		__builtin_prefetch(&sg->w, 1);
		__builtin_prefetch(container_of(sg, struct g, sudog), 1);
	}
}

static void watch_event(struct glist *out)
{
	void (*fn)(struct glist * out) = ld_acq(&on_watched); /* ORD(np.own) */

	fn(out);
}

int netpoll_poll(int64_t ns, struct glist *out)
{
	struct poll_event events[BATCH];
	int n = gmp__poller.wait(events, BATCH, ns);

	for (int i = 0; i < n && i < 8; i++)
		prefetch_record(&events[i]);
	for (int i = 0; i < n; i++) {
		if (i + 8 < n)
			prefetch_record(&events[i + 8]);
		if (i + 4 < n)
			prefetch_waiter(&events[i + 4]);
		if (unlikely(events[i].key == WATCH_KEY))
			watch_event(out);
		else
			netpoll_event(&events[i], out);
	}
	glist_prefetch(out);
	return n;
}

void netpoll_rest(int64_t deadline)
{
	st_seq(&sched.ignores_fds, true); /* ORD(ignores_fds): before npollwait is read */
	if (!ld_seq(&sched.npollwait))    /* ORD(ignores_fds) */
		gmp__poller.rest(deadline);
	st_rlx(&sched.ignores_fds, false);
}

void netpoll_add_waiter(void)
{
	add_seq(&sched.npollwait, 1); /* ORD(ignores_fds): before `ignores_fds` is read */
	if (unlikely(ld_seq(&sched.ignores_fds))) /* ORD(ignores_fds) */
		gmp__poller.wake();
}

int netpoll_watch(int fd, void (*fn)(struct glist *out))
{
	/* the system calls that register and report fd order this too, which ThreadSanitizer
	 * ignores */
	st_rel(&on_watched, fn); /* ORD(np.own) */
	return gmp__poller.add(fd, WATCH_KEY);
}

/* --- the end of a run --- */

void netpoll_cancel_all(struct glist *out)
{
	for (int i = 0; i < POLL_CHUNKS; i++) {
		struct polldesc *chunk = netpoll_find(i * POLL_CHUNK);

		for (int k = 0; chunk && k < POLL_CHUNK; k++) {
			struct polldesc *pd = &chunk[k];

			lock(&pd->lock, LR_POLLDESC);
			netpoll_wake_all(pd, -ESRCH, out);
			multi_event(pd, POLL_HUNG, -ESRCH, out);
			unlock(&pd->lock, LR_POLLDESC);
		}
	}
}
