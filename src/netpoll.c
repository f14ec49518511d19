/* SPDX-License-Identifier: MIT */
#include "netpoll.h"

#include <errno.h>

#include "base/os.h"
#include "mode/chaos.h"
#include "netpoll/fire.h"
#include "netpoll/owner.h"
#include "timerheap.h"

/* No descriptor's: their lower half is 1 to 2^24. */
#define WATCH_KEY UINT64_MAX

enum { BATCH = 128 };
enum { RETRY_NS = 20000 }; /* N7 */

static bool deadline_fire_read(struct timer *t, int64_t now, struct glist *out);
static bool deadline_fire_write(struct timer *t, int64_t now, struct glist *out);

static struct {
	struct lock lock;               /* growth */
	struct polldesc **chunks;       /* (c) address space for POLL_CHUNKS of them; (a) entries */
	uint32_t open;                  /* (a) records open */
	uint32_t end;                   /* (a) grows: past the last record */
	uint32_t armed;                 /* (a) timers of sides that are in a heap, or about to be */
	void (*own)(struct glist *out); /* (a) netpoll_watch */
} np;

struct polldesc **netpoll_chunks;

static size_t chunk_bytes(void)
{
	return round_up(POLL_CHUNK * sizeof(struct polldesc), PAGE);
}

int netpoll_init(void)
{
	netpoll_chunks = os_reserve(POLL_CHUNKS * sizeof(*netpoll_chunks));
	if (!netpoll_chunks)
		return -ENOMEM;
	st_rlx(&np.open, 0);
	st_rlx(&np.armed, 0);
	st_rlx(&np.end, 0u);
	return gmp__poller.open();
}

static void chunk_free(struct polldesc *chunk)
{
	for (int k = 0; k < POLL_CHUNK; k++)
		owner_free(&chunk[k]);
	os_release(chunk, chunk_bytes());
}

void netpoll_fini(void)
{
	if (!netpoll_chunks)
		return;
	gmp__poller.close();
	for (int i = 0; i < POLL_CHUNKS; i++)
		if (netpoll_chunks[i])
			chunk_free(netpoll_chunks[i]);
	os_release(netpoll_chunks, POLL_CHUNKS * sizeof(*netpoll_chunks));
	netpoll_chunks = NULL;
}

static void record_init(struct polldesc *pd, int fd)
{
	pd->fd = fd;
	for (int i = 0; i < 2; i++) {
		pd->side[i].deadline = pd->armed[i] = NEVER;
		pd->timer[i].fire = i == SIDE_READ ? deadline_fire_read : deadline_fire_write;
	}
}

struct polldesc *netpoll_record(int fd)
{
	struct polldesc *pd = netpoll_find(fd), *chunk;

	if (pd || fd < 0 || fd >= POLL_CHUNK * POLL_CHUNKS)
		return pd;
	lock(&np.lock, LR_FDTABLE);
	if (!netpoll_chunks[fd / POLL_CHUNK] && (chunk = os_reserve(chunk_bytes()))) {
		for (int i = 0; i < POLL_CHUNK; i++)
			record_init(&chunk[i], fd / POLL_CHUNK * POLL_CHUNK + i);
		st_rel(&netpoll_chunks[fd / POLL_CHUNK],
		       chunk); /* ORD(pd.chunk): the records first */
		st_rlx(&np.end, max_of(np.end, (uint32_t)(fd / POLL_CHUNK + 1) * POLL_CHUNK));
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

/* Wake the first who has not been claimed otherwise; false if nobody waits. */
static bool wake_first(struct pollside *s, int result, struct glist *out)
{
	struct sudog *sg;

	while ((sg = s->head)) {
		bool won = waiter_claim(sg->w, result);

		netpoll_dequeue(s, sg); /* W5 */
		if (!won)
			continue;
		sg->chosen = true; /* for one that stands in both queues */
		glist_claimed(out, sg);
		return true;
	}
	return false;
}

static void wake_side(struct pollside *s, int result, struct glist *out)
{
	while (wake_first(s, result, out))
		;
}

void netpoll_wake_all(struct polldesc *pd, int result, struct glist *out)
{
	for (int i = 0; i < 2; i++)
		wake_side(&pd->side[i], result, out);
}

void netpoll_pass(struct polldesc *pd, int side, struct glist *out)
{
	struct pollside *s = &pd->side[side];

	lock(&pd->lock, LR_POLLDESC);
	st_rlx(&s->token_out, wake_first(s, 0, out));
	unlock(&pd->lock, LR_POLLDESC);
}

/* --- deadlines; under pd->lock but for the firing --- */

static void deadline_disarm(struct polldesc *pd, int side)
{
	if (pd->armed[side] == NEVER)
		return;
	timer_del(&pd->timer[side]); /* T3: its firing waits for nobody (N7), so this ends */
	pd->armed[side] = NEVER;
	add_rlx(&np.armed, -1u);
}

static void deadlines_clear(struct polldesc *pd)
{
	for (int i = 0; i < 2; i++) {
		deadline_disarm(pd, i);
		st_rlx(&pd->side[i].deadline, NEVER);
	}
}

static void deadline_end_waits(struct pollside *s, struct glist *out)
{
	st_rlx(&s->deadline, INT64_MIN);
	wake_side(s, -ETIMEDOUT, out);
}

static bool deadline_fire(struct polldesc *pd, int side, int64_t now, struct glist *out)
{
	struct pollside *s = &pd->side[side];

	if (!try_lock_against(&pd->lock, LR_POLLDESC)) { /* N7 */
		pd->timer[side].when = now + RETRY_NS;
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
		add_rlx(&np.armed, -1u);
	}
	unlock(&pd->lock, LR_POLLDESC);
	return later;
}

static bool deadline_fire_read(struct timer *t, int64_t now, struct glist *out)
{
	return deadline_fire(container_of(t, struct polldesc, timer[SIDE_READ]), SIDE_READ, now, out);
}

static bool deadline_fire_write(struct timer *t, int64_t now, struct glist *out)
{
	return deadline_fire(container_of(t, struct polldesc, timer[SIDE_WRITE]), SIDE_WRITE, now, out);
}

/* The side is to have a timer for that time, or an earlier one. */
static int deadline_arm(struct polldesc *pd, int side, int64_t deadline)
{
	if (pd->armed[side] <= deadline)
		return 0;
	if (pd->armed[side] == NEVER && add_rlx(&np.armed, 1) >= DEADLINES_MAX) {
		add_rlx(&np.armed, -1u);
		return -ENOMEM;
	}
	/* Tricky: also one that has fired.  `late` says so under pd->lock, but the heap has it until it
	 * has come back from there (T3), and would take it out after it has been armed anew. */
	timer_del(&pd->timer[side]);
	pd->armed[side] = deadline;
	timer_arm(&pd->timer[side], deadline);
	return 0;
}

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

/* --- open and close --- */

/* The poller cannot tell whether the number is another's meanwhile, but another file is, and one that has been
 * opened anew bears no mark. */
static bool known_file(struct polldesc *pd, uint64_t file, bool marked)
{
	return marked && ld_rlx(&pd->use) & PD_OPEN && ld_rlx(&pd->file) == file;
}

static uint64_t key_of(const struct polldesc *pd, uint32_t seq)
{
	return (uint64_t)seq << 32 | (uint32_t)(pd->fd + 1); /* never 0; the number is below 2^24 */
}

/*
 * Register the number's present file with that seq; -EEXIST: it is registered.  Where an orphan may be
 * (polldesc.orphaned) the file may be one of before, which dup2() has brought back: its registration has
 * an old key, so events of it would be dropped.  It gets the present one.
 */
static int register_file(struct polldesc *pd, uint32_t seq)
{
	int err;

	if (unlikely(pd->polled)) {
		err = gmp__poller.rekey(pd->fd, key_of(pd, seq));
		if (err != -ENOENT)
			return err;
	}
	err = gmp__poller.add(pd->fd, key_of(pd, seq));
	if (likely(err != -EEXIST) || !pd->orphaned)
		return err;
	if (!(ld_rlx(&pd->use) & PD_OPEN))
		return gmp__poller.rekey(pd->fd, key_of(pd, seq));
	err = gmp__poller.rekey(pd->fd, key_of(pd, ld_rlx(&pd->seq)));
	return err ? err : -EEXIST;
}

/* 0: the poller knows it now.  Else which file it is, as it cannot be polled, or an error. */
static uint64_t ask_poller(struct polldesc *pd, unsigned how, uint32_t seq, int *err)
{
	uint64_t file = how & OPEN_PATH ? os_stored_file_id(pd->fd) : 0;

	*err = file ? 0 : register_file(pd, seq);
	if (*err == -EBADF && how & OPEN_PATH) /* it has just been opened: so with O_PATH */
		*err = -EPERM;
	if (*err != -EPERM)
		return file;
	*err = 0;
	return os_file_id(pd->fd);
}

/* Under pd->lock: the record's file went by a plain close(), and its registration with it unless a dup is
 * open. */
static void drop_file(struct polldesc *pd, struct glist *out)
{
	netpoll_wake_all(pd, -ECANCELED, out);
	multi_fire(pd, 0, out); /* they ask again */
	pd->orphaned = true;
}

/* Under pd->lock: what is known of the file begins anew. */
static void begin_file(struct polldesc *pd, uint32_t seq, uint64_t file, bool was_blocking)
{
	st_rlx(&pd->seq, seq);
	st_rlx(&pd->tcp, false);
	st_rlx(&pd->plain, (uint8_t)0);
	st_rlx(&pd->file, file);
	st_rlx(&pd->to_disk, (uint8_t)0);
	pd->blocking = was_blocking;
	pd->polled = false;
	st_rlx(&pd->ended, (uint8_t)PD_GOES_ON);
	st_rlx(&pd->hup, false);
	for (int i = 0; i < 2; i++) {
		st_rlx(&pd->side[i].drained, pd->side[i].events - 1);
		st_rlx(&pd->side[i].token_out, false);
	}
}

static unsigned to_disk(int fd, unsigned how)
{
	return how & OPEN_PATH ? how >> OPEN_TO_DISK : os_to_disk(fd);
}

int netpoll_open(int fd, unsigned how, struct glist *out)
{
	struct polldesc *pd = netpoll_record(fd);

	if (!pd)
		return os_is_open(fd) ? -ENOMEM : -EBADF;
	int err = owner_lock(pd);

	if (err)
		return err;
	/* ORD(pd.use): what the number's former owner did with the record is over */
	uint32_t before = ld_acq(&pd->use), seq = pd->seq + 1; /* N9 */

	if (before & PD_CLOSING) {
		unlock(&pd->lock, LR_POLLDESC);
		return -EAGAIN;
	}
	uint64_t file = ask_poller(pd, how, seq, &err);

	bool marked = file && os_mark(fd);

	if (file && how & OPEN_ELSEWHERE && known_file(pd, file, marked))
		err = -EEXIST;
	int changed = !err && !file && how & OPEN_ELSEWHERE ? os_nonblock(fd, true) : 0;

	if (changed < 0) { /* a call on it would keep the thread */
		gmp__poller.del(fd);
		pd->polled = false;
		multi_fire(pd, 0, out);
		err = changed;
	}
	if (!err) {
		bool cut = how & OPEN_TCP && chaos_on();

		if (before & PD_OPEN)
			drop_file(pd, out);
		else
			add_rlx(&np.open, 1);
		deadlines_clear(pd);
		begin_file(pd, seq, file, changed > 0);
		st_rlx(&pd->opened, seq);
		owner_change(pd, how & OPEN_ELSEWHERE, seq);
		st_rlx(&pd->tcp, how & OPEN_TCP && !cut);
		st_rlx(&pd->plain, (uint8_t)(cut ? PD_SHORT : 0));
		st_rlx(&pd->to_disk, (uint8_t)(file ? to_disk(fd, how) : 0));
		or_seq(&pd->use, PD_OPEN); /* ORD(pd.use): the record first */
	}
	unlock(&pd->lock, LR_POLLDESC);
	return err;
}

/* Take back a registration that a question has made, with the seq that it had. */
static void unregister(struct polldesc *pd, uint32_t seq)
{
	gmp__poller.del(pd->fd);
	pd->orphaned = true; /* another thread may have closed it meanwhile */
	pd->polled = false;
	st_rlx(&pd->seq, seq);
}

/* To register is also to ask: -EEXIST is the kernel's answer for a file that is registered, and it changes
 * nothing.  To modify costs more, and reports a socket that waits for data as writable each time. */
int netpoll_renew(struct polldesc *pd, struct glist *out)
{
	uint32_t seq = pd->seq + 1; /* N9 */
	int err = register_file(pd, seq);

	if (likely(err))
		return err == -EEXIST ? 0 : err;
	bool other = !owner_is_self(pd);

	if (other && !owner_has_room(pd)) {
		unregister(pd, seq);
		return NEEDS_ROOM;
	}
	int changed = os_nonblock(pd->fd, true);

	if (changed < 0) {
		gmp__poller.del(pd->fd);
		return changed;
	}
	drop_file(pd, out);
	begin_file(pd, seq, 0, changed > 0);
	if (other)
		owner_change(pd, true, seq);
	return 1;
}

int netpoll_ask(struct polldesc *pd)
{
	return register_file(pd, pd->seq + 1); /* N9 */
}

int netpoll_arm(struct polldesc *pd, short events, struct glist *out)
{
	uint32_t seq = pd->seq + 1; /* N9 */
	int err = -ENOENT;

	if (pd->polled)
		err = gmp__poller.once(pd->fd, key_of(pd, pd->seq), events, false);
	if (err != -ENOENT)
		return err;
	err = gmp__poller.once(pd->fd, key_of(pd, seq), events, true);
	if (err == -EEXIST) /* by netpoll_ask; or by an orphan that dup2() has brought back */
		err = gmp__poller.once(pd->fd, key_of(pd, seq), events, false);
	if (err)
		return err;
	if (pd->polled || (ld_rlx(&pd->use) & PD_OPEN))
		drop_file(pd, out);
	begin_file(pd, seq, 0, false);
	pd->polled = true;
	return 0;
}

bool netpoll_is_registered(struct polldesc *pd)
{
	uint32_t seq = pd->seq + 1; /* N9 */
	int err = pd->polled ? gmp__poller.add(pd->fd, key_of(pd, seq)) : register_file(pd, seq);

	if (likely(err))
		return err != -EBADF && err != -EPERM; /* no room: it cannot be told */
	unregister(pd, seq);
	return false;
}

/* Under pd->lock: true if the number's file is another one than the record's, or closed.  A registration would
 * outlive the number if the file has other numbers. */
static bool end_registration(struct polldesc *pd)
{
	if (ld_rlx(&pd->file))
		return false;                                   /* it cannot be told */
	bool gone = gmp__poller.del(pd->fd) != 0 || pd->polled; /* MULTI-5 */

	if (gone)
		pd->orphaned = true;
	return gone;
}

int netpoll_shut(struct polldesc *pd, struct glist *out)
{
	int err = -EBADF;

	lock(&pd->lock, LR_POLLDESC);
	if ((ld_rlx(&pd->use) & (PD_OPEN | PD_CLOSING)) == PD_OPEN)
		err = owner_lost(pd) ? -ESTALE : 0;
	if (!err) {
		or_seq(&pd->use, PD_CLOSING); /* ORD(pd.use): no use begins from here on */
		netpoll_wake_all(pd, -ECANCELED, out);
		deadlines_clear(pd);
		pd->gone = end_registration(pd);
		pd->taken = pd->gone && pd->entries;
		if (pd->gone)
			pd->blocking = false;
		owner_closes(pd);
		pd->polled = false;
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

static int event_fd(const struct poll_event *e)
{
	return (int)(uint32_t)e->key - 1;
}

/* What a side is told by the kernel, or by one who knows it better. */
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
	multi_event(pd, POLL_READ | POLL_WRITE, out);
	unlock(&pd->lock, LR_POLLDESC);
}

static void netpoll_event(const struct poll_event *e, struct glist *out)
{
	struct polldesc *pd = netpoll_find(event_fd(e));

	if (!pd)
		return;
	lock(&pd->lock, LR_POLLDESC);
	if (pd->seq == (uint32_t)(e->key >> 32)) { /* N5 */
		if (e->events & POLL_HUNG)
			st_rlx(&pd->hup, true);
		for (int i = 0; i < 2; i++)
			if (e->events & (i == SIDE_READ ? POLL_READ : POLL_WRITE))
				side_ready(&pd->side[i], out);
		if (unlikely(pd->multi))
			multi_event(pd, e->events, out);
	}
	unlock(&pd->lock, LR_POLLDESC);
}

/* With more connections than the caches hold, all that an event touches is a miss: the record, and the
 * one who waits.  So both are fetched ahead, the one through the other. */
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

	if (sg) { /* it may have gone since: nothing is read */
		__builtin_prefetch(&sg->w, 1);
		__builtin_prefetch(container_of(sg, struct g, sudog), 1);
	}
}

static void watch_event(struct glist *out)
{
	void (*fn)(struct glist * out) = ld_acq(&np.watch_fn); /* ORD(np.own) */

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
	st_seq(&sched.deaf, true); /* ORD(deaf): announced before the look */
	fence_seq();
	if (!ld_seq(&sched.npollwait)) /* ORD(deaf) */
		gmp__poller.rest(deadline);
	st_rlx(&sched.deaf, false);
}

void netpoll_add_waiter(void)
{
	add_seq(&sched.npollwait, 1);      /* ORD(deaf): counted before the look */
	if (unlikely(ld_seq(&sched.deaf))) /* ORD(deaf) */
		gmp__poller.wake();
}

int netpoll_watch(int fd, void (*fn)(struct glist *out))
{
	/* The system calls that register fd and report it order this too, but ThreadSanitizer does not know it. */
	st_rel(&np.watch_fn, fn); /* ORD(np.own) */
	return gmp__poller.add(fd, WATCH_KEY);
}

/* --- the end --- */

void netpoll_cancel_all(struct glist *out)
{
	for (int i = 0; i < POLL_CHUNKS; i++) {
		struct polldesc *chunk = netpoll_find(i * POLL_CHUNK);

		for (int k = 0; chunk && k < POLL_CHUNK; k++) {
			struct polldesc *pd = &chunk[k];

			lock(&pd->lock, LR_POLLDESC);
			netpoll_wake_all(pd, -ESRCH, out);
			multi_fire(pd, -ESRCH, out);
			unlock(&pd->lock, LR_POLLDESC);
		}
	}
}

void netpoll_forget_all(void)
{
	__builtin_memset(&np, 0, sizeof(np));
	netpoll_chunks = NULL;
}

uint32_t netpoll_deadlines(void)
{
	return ld_rlx(&np.armed);
}

uint32_t netpoll_end(void)
{
	return ld_rlx(&np.end);
}

uint32_t netpoll_count(void)
{
	return ld_rlx(&np.open);
}
