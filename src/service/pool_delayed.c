/* SPDX-License-Identifier: MIT */
/*
 * Where do tasks wait whose time has not clear_coming?
 *
 * In a heap (base/heap4.h) of 24 bytes each; the timer `due` is set to the
 * earliest.  When it fires, `due_pending` says so, and a worker comes, which takes what is due, one task for
 * each free place, and brings on the next worker if more is left (O2).  Whoever finds that the earliest
 * is not due sets the timer, and `due_pending` is over.  The timer has a period until it has been heard: a run
 * that finds no green thread for itself is dropped, the next may find one.
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

	if (i == p->heap_size) {
		size_t size = i ? 2 * i : 64;
		struct delayed *heap = realloc(p->heap, size * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		p->heap = heap;
		p->heap_size = size;
	}
	delayed_sift_up(p->heap, i, d);
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

/* A delayed task is due, or no worker could be started when one was needed. */
void pool_due_fired(void *arg)
{
	gmp_pool *p = arg;
	struct node *wake = NULL;

	pool_lock(p);
	gmp_timer_stop(p->due);
	p->due_pending = true;
	if (!has_memory(p))
		pool_grow(p);
	pool_admit(p, &wake);
	pool_bring_worker(p, &wake);
	pool_unlock(p);
	pool_wake_all(wake);
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
	if (!err && first && !p->due_pending)
		gmp_timer_set(p->due, deadline, RETRY_NS);
	pool_unlock(p);
	return err;
}

int64_t gmp_pool_delayed(gmp_pool *p)
{
	int refused = pool_check(p, __func__);

	return refused ? refused : (int64_t)ld_rlx(&p->delayed);
}
