/* SPDX-License-Identifier: MIT */
#include "netpoll.h"

#include <errno.h>

#include "base/os.h"

enum { CHUNK = 1024, CHUNKS = 16 * 1024, BATCH = 128 };

static struct {
	struct lock lock;         /* growth */
	struct polldesc **chunks; /* (c) address space for CHUNKS of them; (a) entries */
	uint32_t open;            /* (a) records open */
	uint32_t seq;             /* (a) */
} np;

static size_t chunk_bytes(void)
{
	return round_up(CHUNK * sizeof(struct polldesc), PAGE);
}

int netpoll_init(void)
{
	np.chunks = os_reserve(CHUNKS * sizeof(*np.chunks));
	if (!np.chunks)
		return -ENOMEM;
	st_rlx(&np.open, 0);
	return gmp__poller.open();
}

void netpoll_fini(void)
{
	if (!np.chunks)
		return;
	gmp__poller.close();
	for (int i = 0; i < CHUNKS; i++)
		if (np.chunks[i])
			os_release(np.chunks[i], chunk_bytes());
	os_release(np.chunks, CHUNKS * sizeof(*np.chunks));
	np.chunks = NULL;
}

struct polldesc *netpoll_find(int fd)
{
	if (unlikely(fd < 0 || fd >= CHUNK * CHUNKS))
		return NULL;
	struct polldesc *chunk = ld_acq(&np.chunks[fd / CHUNK]); /* ORD(pd.chunk) */

	return chunk ? &chunk[fd % CHUNK] : NULL;
}

static struct polldesc *find_or_make(int fd)
{
	struct polldesc *pd = netpoll_find(fd), *chunk;

	if (pd || fd < 0 || fd >= CHUNK * CHUNKS)
		return pd;
	lock(&np.lock, LR_FDTABLE);
	if (!np.chunks[fd / CHUNK] && (chunk = os_reserve(chunk_bytes()))) {
		for (int i = 0; i < CHUNK; i++)
			chunk[i].fd = fd / CHUNK * CHUNK + i;
		st_rel(&np.chunks[fd / CHUNK], chunk); /* ORD(pd.chunk): the records first */
	}
	unlock(&np.lock, LR_FDTABLE);
	return netpoll_find(fd);
}

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
	add_rlx(&sched.npollwait, 1);
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

/* Wake the first who has not been claimed otherwise; false if nobody waits. */
static bool wake_first(struct pollside *s, int result, struct glist *out)
{
	struct sudog *sg;

	while ((sg = s->head)) {
		bool won = waiter_claim(sg->w, result);

		netpoll_dequeue(s, sg); /* W5 */
		if (!won)
			continue;
		glist_claimed(out, sg);
		return true;
	}
	return false;
}

static void wake_all(struct polldesc *pd, int result, struct glist *out)
{
	for (int i = 0; i < 2; i++)
		while (wake_first(&pd->side[i], result, out))
			;
}

void netpoll_pass(struct polldesc *pd, int side, struct glist *out)
{
	struct pollside *s = &pd->side[side];

	lock(&pd->lock, LR_POLLDESC);
	st_rlx(&s->turn, wake_first(s, 0, out));
	unlock(&pd->lock, LR_POLLDESC);
}

/* --- open and close --- */

int netpoll_open(int fd, bool tcp, struct glist *out)
{
	struct polldesc *pd = find_or_make(fd);

	if (!pd)
		return fd < 0 ? -EBADF : -ENOMEM;
	lock(&pd->lock, LR_POLLDESC);
	uint32_t seq = add_rlx(&np.seq, 1);
	/* key: never 0; the number is below 2^24 */
	int err = gmp__poller.add(fd, (uint64_t)seq << 32 | (uint32_t)(fd + 1));

	if (!err) {
		if (ld_rlx(&pd->use) & PD_OPEN) /* left behind by a plain close() */
			wake_all(pd, -ECANCELED, out);
		else
			add_rlx(&np.open, 1);
		st_rlx(&pd->seq, seq);
		st_rlx(&pd->tcp, tcp);
		st_rlx(&pd->hup, false);
		for (int i = 0; i < 2; i++) {
			st_rlx(&pd->side[i].drained, pd->side[i].events - 1);
			st_rlx(&pd->side[i].turn, false);
		}
		or_seq(&pd->use, PD_OPEN); /* ORD(pd.use): the record first */
	}
	unlock(&pd->lock, LR_POLLDESC);
	return err;
}

int netpoll_shut(struct polldesc *pd, struct glist *out)
{
	int err = -EBADF;

	lock(&pd->lock, LR_POLLDESC);
	if ((ld_rlx(&pd->use) & (PD_OPEN | PD_CLOSING)) == PD_OPEN) {
		or_seq(&pd->use, PD_CLOSING); /* ORD(pd.use): no use begins from here on */
		wake_all(pd, -ECANCELED, out);
		/* a registration would outlive the number if the file has other numbers */
		gmp__poller.del(pd->fd);
		err = 0;
	}
	unlock(&pd->lock, LR_POLLDESC);
	return err;
}

void netpoll_forget(struct polldesc *pd)
{
	and_seq(&pd->use, ~(uint32_t)(PD_OPEN | PD_CLOSING)); /* ORD(pd.use): free for the next */
	add_rlx(&np.open, -1u);
}

/* --- events --- */

static void event(const struct poll_event *e, struct glist *out)
{
	struct polldesc *pd = netpoll_find((int)(uint32_t)e->key - 1);

	if (!pd)
		return;
	lock(&pd->lock, LR_POLLDESC);
	if (pd->seq == (uint32_t)(e->key >> 32) && (ld_rlx(&pd->use) & PD_OPEN)) { /* N5 */
		if (e->events & POLL_HUP)
			st_rlx(&pd->hup, true);
		for (int i = 0; i < 2; i++) {
			struct pollside *s = &pd->side[i];

			if (!(e->events & (i == SIDE_READ ? POLL_READ : POLL_WRITE)))
				continue;
			st_rel(&s->events, s->events + 1); /* ORD(pd.events) */
			if (!s->turn)
				st_rlx(&s->turn, wake_first(s, 0, out));
		}
	}
	unlock(&pd->lock, LR_POLLDESC);
}

int netpoll_poll(int64_t ns, struct glist *out)
{
	struct poll_event events[BATCH];
	int n = gmp__poller.wait(events, BATCH, ns);

	for (int i = 0; i < n; i++)
		event(&events[i], out);
	return n;
}

/* --- the end --- */

void netpoll_cancel_all(struct glist *out)
{
	for (int i = 0; i < CHUNKS; i++) {
		for (int k = 0; np.chunks[i] && k < CHUNK; k++) {
			struct polldesc *pd = &np.chunks[i][k];

			lock(&pd->lock, LR_POLLDESC);
			wake_all(pd, -ESRCH, out);
			unlock(&pd->lock, LR_POLLDESC);
		}
	}
}

void netpoll_forget_all(void)
{
	__builtin_memset(&np, 0, sizeof(np));
}

uint32_t netpoll_count(void)
{
	return ld_rlx(&np.open);
}
