/* SPDX-License-Identifier: MIT */
/*
 * Delayed tasks: a pool's 4-ary heap of tasks that are not due, and the timer `due` for the
 * earliest.
 *
 * When the timer fires, it sets `due_pending` and brings a worker. Workers take due tasks, one for
 * each free place, and bring the next worker if more are left (POOL-2). If the earliest task is not
 * due, pool_due arms the timer for it and clears `due_pending`.
 *
 * The timer has a period, so it fires again if no green thread could be started for its callback.
 * The callback stops it.
 */
#include "service/pool.h"

static inline void delayed_place(struct delayed *heap, size_t i, struct delayed d)
{
	heap[i] = d;
}

HEAP4_DEFINE(delayed_sift, struct delayed, size_t, delayed_place)

static int delayed_push(gmp_pool *p, struct delayed d)
{
	size_t i = p->delayed;
	struct delayed *heap = array_grow(p->heap, &p->heap_size, i + 1, sizeof(*heap));

	if (!heap)
		return -ENOMEM;
	p->heap = heap;
	delayed_sift_up(heap, i, d);
	st_rlx(&p->delayed, p->delayed + 1);
	return 0;
}

struct task pool_delayed_pop(gmp_pool *p)
{
	struct task t = p->heap[0].task;
	size_t n = p->delayed - 1;

	st_rlx(&p->delayed, n);
	delayed_sift_down(p->heap, n, 0, p->heap[n]);
	return t;
}

bool pool_due(gmp_pool *p)
{
	if (!p->due_pending)
		return false;
	if (p->delayed) {
		int64_t when = p->heap[0].when;

		if (when <= p->until || when <= (p->until = gmp_now()))
			return true;
		gmp_timer_set(p->due, when, RETRY_NS);
	}
	p->due_pending = false;
	return false;
}

/* A delayed task is due, or a worker must be started that could not be before (POOL-2). */
void pool_due_fired(void *arg)
{
	gmp_pool *p = arg;

	pool_lock(p);
	gmp_timer_stop(p->due);
	p->due_pending = true;
	if (!has_memory(p))
		pool_grow(p);
	pool_settle(p, NULL);
}

int gmp_pool_submit_at(gmp_pool *p, int64_t deadline, gmp_fn fn, void *arg)
{
	int refused = pool_check(p, __func__);

	if (refused)
		return refused;
	pool_lock(p);
	bool first = !p->delayed || deadline < p->heap[0].when;
	int err = p->closed ? -EPIPE : fn ? 0 : -EINVAL;

	if (!err)
		err = delayed_push(p, (struct delayed){ deadline, { fn, arg } });
	/* POOL-2: the timer also starts a worker again for tasks that wait */
	if (!err && first && !p->due_pending && (p->coming || !p->queued))
		gmp_timer_set(p->due, deadline, RETRY_NS);
	pool_unlock(p);
	return err;
}

int64_t gmp_pool_delayed(gmp_pool *p)
{
	int refused = pool_check(p, __func__);

	return refused ? refused : (int64_t)ld_rlx(&p->delayed);
}
