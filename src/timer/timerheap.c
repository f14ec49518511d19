/* SPDX-License-Identifier: MIT */
/* Timer heaps; see timerheap.h. */
#include "timer/timerheap.h"

#include <errno.h>

#include "base/heap4.h"
#include "base/os.h"
#include "base/throw.h"
#include "poller.h"

/* --- room: TIMER-4 --- */

/* All timers of the program are fewer than 2^30, so a heap has fewer than 2^32. */
enum { PLACES_MOST = 1 << 30, PLACES_LEAST = 1024 };

static struct {
	struct lock lock;
	struct timers *first; /* under the lock: all heaps */
	uint32_t n;           /* (a) places for timers of the program, written under the lock */
	uint32_t taken;       /* (a) */
} places;

static size_t heap_bytes(const struct timers *ts, uint32_t n)
{
	return round_up(((size_t)ts->limit + n) * sizeof(struct timer_slot), PAGE);
}

int timers_init(struct timers *ts, uint32_t limit)
{
	*ts = (struct timers){ .next = NEVER, .limit = limit };
	lock(&places.lock, LR_PLACES);
	ts->bytes = heap_bytes(ts, places.n);
	ts->heap = os_reserve(ts->bytes);
	if (ts->heap) {
		ts->link = places.first;
		places.first = ts;
	}
	unlock(&places.lock, LR_PLACES);
	return ts->heap ? 0 : -ENOMEM;
}

void timers_fini(struct timers *ts)
{
	lock(&places.lock, LR_PLACES);
	for (struct timers **at = &places.first; *at; at = &(*at)->link) {
		if (*at != ts)
			continue;
		*at = ts->link;
		break;
	}
	unlock(&places.lock, LR_PLACES);
	os_release(ts->heap, ts->bytes);
	*ts = (struct timers){ .next = NEVER };
}

void timers_set_places(uint32_t n)
{
	st_rlx(&places.n, n);
}

void timers_forget(void)
{
	places.lock = (struct lock){ 0 };
	places.first = NULL;
}

/* Returns false without memory. */
static bool heap_grow(struct timers *ts, size_t bytes)
{
	struct timer_slot *more = os_reserve(bytes), *old = ts->heap;
	size_t old_bytes = ts->bytes;

	if (!more)
		return false;
	lock(&ts->lock, LR_TIMERS);
	__builtin_memcpy(more, old, ts->n * sizeof(*more));
	ts->heap = more;
	ts->bytes = bytes;
	unlock(&ts->lock, LR_TIMERS);
	os_release(old, old_bytes);
	return true;
}

/* Make room for n timers of the program.  Returns false without memory. */
static bool places_grow(uint32_t n)
{
	bool ok = n <= PLACES_MOST;

	lock(&places.lock, LR_PLACES);
	if (ok && n > places.n) {
		n = max_of(n, min_of(places.n * 2, (uint32_t)PLACES_MOST));
		n = max_of(n, (uint32_t)PLACES_LEAST);
		for (struct timers *ts = places.first; ts && ok; ts = ts->link)
			if (heap_bytes(ts, n) > ts->bytes)
				ok = heap_grow(ts, heap_bytes(ts, n));
		if (ok)
			st_rlx(&places.n, n);
	}
	unlock(&places.lock, LR_PLACES);
	return ok;
}

/* --- the heap; under ts->lock --- */

static inline void timers_place(struct timer_slot *heap, uint32_t i, struct timer_slot s)
{
	heap[i] = s;
	s.t->at = i;
}

HEAP4_DEFINE(timers_sift, struct timer_slot, uint32_t, timers_place)

static void set_next(struct timers *ts)
{
	st_rlx(&ts->next, ts->n ? ts->heap[0].when : NEVER);
}

static void heap_add(struct timers *ts, struct timer *t)
{
	uint32_t i = ts->n;

	st_rlx(&ts->n, i + 1);

	timers_sift_up(ts->heap, i, (struct timer_slot){ t->when, t });
	if (t->at == 0)
		set_next(ts);
}

/* Put s at its place, beginning at i, which is free. */
static void heap_sift(struct timers *ts, uint32_t i, struct timer_slot s)
{
	if (i > 0 && ts->heap[(i - 1) / HEAP4_ARITY].when > s.when)
		timers_sift_up(ts->heap, i, s);
	else
		timers_sift_down(ts->heap, ts->n, i, s);
}

static void heap_del(struct timers *ts, uint32_t i)
{
	struct timer_slot last = ts->heap[ts->n - 1];

	st_rlx(&ts->n, ts->n - 1);
	if (i < ts->n)
		heap_sift(ts, i, last);
	if (i == 0)
		set_next(ts);
}

/* --- arm and disarm --- */

bool timer_add(struct p *pp, struct timer *t, int64_t when)
{
	struct timers *ts = &pp->timers;

	lock(&ts->lock, LR_TIMERS);
	gmp_debug_assert(!t->pp);
	t->when = when;
	st_rlx(&t->pp, pp);
	heap_add(ts, t);
	bool first = t->at == 0;
	unlock(&ts->lock, LR_TIMERS);
	return first;
}

/* Wake the M in the poller if it would miss a timer at `when`. */
static void notify_sleeper(int64_t when)
{
	if (timer_is_missed(when, ld_rlx(&sched.poll_until)))
		gmp__poller.wake();
}

void timer_arm(struct timer *t, int64_t when)
{
	struct p *mine = hold_p(); /* a former P may be RETIRED: other Ps rarely run its timers */
	bool first = timer_add(mine ? mine : sched.allp[0], t, when);

	drop_p();
	if (!first)
		return;
	fence_seq(); /* ORD(poll.until): the timer before poll_until is read */
	notify_sleeper(when);
}

bool timer_hold(struct timer *t)
{
	struct p *mine = getp();

	if (!mine || ld_rlx(&t->pp) != mine)
		return false;
	lock(&mine->timers.lock, LR_TIMERS);
	if (likely(ld_rlx(&t->pp) == mine))
		return true;
	unlock(&mine->timers.lock, LR_TIMERS); /* another thread has run or moved it */
	return false;
}

void timer_rearm(struct timer *t, int64_t when)
{
	struct timers *ts = &ld_rlx(&t->pp)->timers;
	int64_t before = ts->next;

	t->when = when;
	heap_sift(ts, t->at, (struct timer_slot){ when, t });
	set_next(ts);
	bool first = t->at == 0;
	unlock(&ts->lock, LR_TIMERS);

	if (!first)
		return;
	/* otherwise an M that is about to sleep reads an earlier time, or this one */
	if (when < before)
		fence_seq(); /* ORD(poll.until): as above */
	notify_sleeper(when);
}

bool timer_del(struct timer *t)
{
	for (;;) {
		struct p *pp = ld_acq(&t->pp); /* ORD(timer.pp) */

		if (!pp)
			return false;
		lock(&pp->timers.lock, LR_TIMERS);
		if (ld_rlx(&t->pp) == pp) { /* otherwise it fired or moved meanwhile */
			heap_del(&pp->timers, t->at);
			st_rlx(&t->pp, (struct p *)NULL);
			unlock(&pp->timers.lock, LR_TIMERS);
			return true;
		}
		unlock(&pp->timers.lock, LR_TIMERS);
	}
}

/* Prefetch the due timers among the root's children, and the Gs that contain them (if they are
 * timers of waits): they have been idle for long. */
static inline void prefetch_due(struct timers *ts, int64_t now)
{
	for (uint32_t i = 1; i < min_of(ts->n, 1u + HEAP4_ARITY); i++) {
		if (ts->heap[i].when <= now) {
			__builtin_prefetch(ts->heap[i].t, 1);
			__builtin_prefetch(container_of(ts->heap[i].t, struct g, timer), 1);
		}
	}
}

/* Record the deadline of a timer in the Gs that it appended behind `last`. */
static inline void note_deadline(const struct glist *out, const struct g *last, int64_t when)
{
	for (struct g *gp = last ? last->schedlink : out->head; gp; gp = gp->schedlink)
		st_rlx(&gp->ready_at, (uint64_t)when);
}

unsigned timers_run_some(struct p *pp, int64_t now, unsigned most, struct glist *out)
{
	struct timers *ts = &pp->timers;
	unsigned fired = 0;

	lock(&ts->lock, LR_TIMERS);
	while (ts->n && ts->heap[0].when <= now && out->n < most) {
		struct timer_slot due = ts->heap[0];
		struct timer *t = due.t;
		struct g *last = out->tail;

		prefetch_due(ts, now);
		heap_del(ts, 0);
		if (t->fire(t, now, out))
			heap_add(ts, t);
		else
			st_rel(&t->pp, (struct p *)NULL); /* ORD(timer.pp): after fire's effects */
		note_deadline(out, last, due.when);
		fired++;
	}
	unlock(&ts->lock, LR_TIMERS);
	return fired;
}

unsigned timers_run(struct p *pp, int64_t now, struct glist *out)
{
	return timers_run_some(pp, now, UINT32_MAX, out);
}

int64_t timers_wake_with(struct p *pp, int64_t first)
{
	/* the root, its children and grandchildren */
	enum { NEAR_ROOT = 1 + HEAP4_ARITY + HEAP4_ARITY * HEAP4_ARITY };
	struct timers *ts = &pp->timers;
	int64_t latest = first, end = first + timer_slack();

	lock(&ts->lock, LR_TIMERS);
	for (uint32_t i = 0; i < min_of(ts->n, (uint32_t)NEAR_ROOT); i++)
		if (ts->heap[i].when <= end)
			latest = max_of(latest, ts->heap[i].when);
	unlock(&ts->lock, LR_TIMERS);
	return latest;
}

void timers_move(struct p *from, struct p *to)
{
	struct p *first = from < to ? from : to, *second = from < to ? to : from;

	lock(&first->timers.lock, LR_TIMERS);
	lock(&second->timers.lock, LR_TIMERS);
	int64_t next = from->timers.next;

	for (uint32_t i = 0; i < from->timers.n; i++) {
		struct timer *t = from->timers.heap[i].t;

		st_rlx(&t->pp, to);
		heap_add(&to->timers, t);
	}
	st_rlx(&from->timers.n, 0u);
	set_next(&from->timers);
	unlock(&second->timers.lock, LR_TIMERS);
	unlock(&first->timers.lock, LR_TIMERS);
	/* An M on its way into the poller may have read to's heap before the move and from's after
	 * it; and the M that releases from's P finds nothing to notify that M of. */
	fence_seq(); /* ORD(poll.until): the move before poll_until is read */
	notify_sleeper(next);
}

uint32_t timers_count(struct p *pp)
{
	lock(&pp->timers.lock, LR_TIMERS);
	uint32_t n = pp->timers.n;
	unlock(&pp->timers.lock, LR_TIMERS);
	return n;
}

/* --- timers of the program --- */

bool timer_take_place(void)
{
	uint32_t n = add_rlx(&places.taken, 1) + 1;

	if (likely(n <= ld_rlx(&places.n)) || places_grow(n))
		return true;
	timer_give_place();
	return false;
}

void timer_give_place(void)
{
	add_rlx(&places.taken, -1u);
}

bool timer_enter_to_free(uint32_t run)
{
	/* while its run stops, heaps and killed Gs may still point to the timer */
	while (!timer_enter(&run)) {
		uint32_t state = ld_seq(&sched.state); /* ORD(run): its heaps are gone */

		if ((state != RUN_STOPPING && state != RUN_ON) || run != ld_rlx(&sched.run))
			return false; /* of an earlier run, or that run has ended */
		os_nap(100 * US);
	}
	return true;
}

int64_t timers_earliest(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */
	int64_t least = NEVER;

	for (int i = 0; i < n; i++)
		least = min_of(least, timers_next(sched.allp[i]));
	return least;
}
