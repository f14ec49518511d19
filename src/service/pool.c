/* SPDX-License-Identifier: MIT */
/* Pools: places, workers and submitting (pool.h). */
#include "service/pool.h"

#include <unistd.h>

#include "service/delegate.h"

gmp_key pool_worker_key;

noinline int pool_allocate(gmp_pool *p, bool chunk, bool block)
{
	pool_unlock(p);
	struct chunk *c = chunk ? malloc(sizeof(*c)) : NULL;
	struct block *b = block ? malloc(sizeof(*b)) : NULL;

	pool_lock(p);
	if (c)
		add_chunk(p, c);
	if (b)
		add_block(p, b);
	return (chunk && !c) || (block && !b) ? -ENOMEM : 0;
}

/* --- places; under the lock --- */

static inline void pool_take_place(gmp_pool *p)
{
	if (p->idle > 0) {
		st_rlx(&p->idle, p->idle - 1);
		if (p->idle < p->idle_min[0])
			p->idle_min[0] = p->idle;
	}
	st_rlx(&p->running, p->running + 1);
}

static noinline void tidy_start(gmp_pool *p)
{
	int64_t quarter = p->idle_ns / QUARTERS;

	if (p->idle_ns == GMP_FOREVER)
		return;
	if (quarter < QUARTER_MIN_NS)
		quarter = QUARTER_MIN_NS;
	p->tidy_armed = true;
	memset(p->idle_min, 0, sizeof(p->idle_min));
	p->idle_min[0] = p->idle;
	gmp_timer_set(p->tidy, gmp_deadline(quarter), quarter);
}

/* Step 1: a task has ended, and its worker continues. */
static inline void pool_free_place(gmp_pool *p)
{
	int running = p->running - 1;
	bool stays = running + p->idle < p->capacity && !p->closed;

	if (stays)
		st_rlx(&p->idle, p->idle + 1);
	/* ORD(pool.running): a reader of the new `running` sees the new `idle` */
	st_rel(&p->running, running);
	if (unlikely(stays && !p->tidy_armed))
		tidy_start(p);
}

void pool_end_wait(gmp_pool *p, struct node *n, int result, struct node **wake)
{
	list_remove(&p->waiters, n);
	st_rlx(&p->waiting, p->waiting - 1);
	n->result = result;
	wake_later(wake, n);
}

noinline void pool_admit_slow(gmp_pool *p, struct node **wake)
{
	bool once = true;

	pool_wake_joiners(p, wake);
	while (has_place(p)) {
		struct node *n = p->waiters.first;

		if ((p->due_first || !n) && once && has_slot(p) && pool_due(p)) {
			queue_push(p, pool_delayed_pop(p));
			p->due_first = once = false;
		} else if (n) {
			queue_push(p, n->task);
			pool_end_wait(p, n, 0, wake);
			p->due_first = true;
		} else {
			return;
		}
		pool_take_place(p);
	}
}

/* --- workers --- */

static void pool_worker(void *arg);

static int spawn_worker(gmp_pool *p, struct node *w)
{
	gmp_g *g;

	if (!p->has_attr)
		return gmp_go(pool_worker, w);
	int err = gmp_spawn(&g, pool_worker, w, &p->attr);

	return err ? err : gmp_detach(g);
}

static noinline int bring_worker(gmp_pool *p, struct node **wake)
{
	struct node *w = p->parked.first;
	int err;

	if (w) {
		list_remove(&p->parked, w);
		p->parked_count--;
		wake_later(wake, w);
	} else {
		if (!p->free)
			return -ENOMEM;
		w = node_get(p);
		err = spawn_worker(p, w);
		if (err) {
			node_put(p, w);
			return err;
		}
		w->worker = true;
		p->threads++;
	}
	w->coming = p->coming = true;
	return 0;
}

/* POOL-2: makes sure that a worker is coming. */
static inline int ensure_worker(gmp_pool *p, struct node **wake)
{
	return likely(p->coming) ? 0 : bring_worker(p, wake);
}

static inline bool work_left(gmp_pool *p)
{
	return p->queued || (unlikely(p->due_pending) && has_place(p) && pool_due(p));
}

/* POOL-2. If no worker can be started, the timer `due` tries again. */
static void pool_bring_worker(gmp_pool *p, struct node **wake)
{
	if (!p->coming && work_left(p) && bring_worker(p, wake))
		gmp_timer_set(p->due, gmp_deadline(RETRY_NS / 10), RETRY_NS);
}

void pool_settle(gmp_pool *p, struct node *wake)
{
	pool_admit(p, &wake);
	pool_bring_worker(p, &wake);
	pool_unlock_and_wake(p, wake);
}

static void clear_coming(gmp_pool *p, struct node *w)
{
	if (w->coming)
		p->coming = w->coming = false;
}

void pool_dismiss_parked(gmp_pool *p, struct node **wake)
{
	while (p->parked_count > p->idle) {
		struct node *w = p->parked.last;

		list_remove(&p->parked, w);
		p->parked_count--;
		w->leaving = true;
		wake_later(wake, w);
	}
}

/* Waits until woken, with cancellation masked: the cancel was meant for the last task. */
static noinline void pool_park_masked(struct node *w)
{
	int masked = gmp_cancel_mask(1);

	while (gmp_sem_acquire(&w->wake))
		gmp_yield();
	if (masked == 0)
		gmp_cancel_mask(0);
}

/* Returns false if a late cancel of the last task has hit the worker; it must end then. */
static bool pool_park(gmp_pool *p, struct node *w)
{
	list_push_first(&p->parked, w);
	p->parked_count++;
	pool_unlock(p);
	bool cut = gmp_sem_acquire(&w->wake) != 0;

	if (cut)
		pool_park_masked(w);
	pool_lock(p);
	return !cut;
}

/* Steps 2 to 4. Drops the lock, which is held. Returns false if the worker must end. */
static inline bool next_task(gmp_pool *p, struct node *w, struct task *t)
{
	struct node *wake = NULL;

	for (;;) {
		clear_coming(p, w);
		if (unlikely(!has_memory(p)))
			pool_grow(p); /* without memory the next round tries again */
		pool_admit(p, &wake);
		if (p->queued) {
			*t = queue_pop(p);
			w->busy = true;
			pool_bring_worker(p, &wake);
			pool_unlock_and_wake(p, wake);
			return true;
		}
		if (unlikely(wake)) { /* joiners that waited for the last task */
			pool_unlock_and_wake(p, wake);
			wake = NULL;
			pool_lock(p);
			continue;
		}
		if (w->leaving || p->parked_count >= p->idle) {
			pool_unlock(p);
			return false;
		}
		if (!pool_park(p, w)) { /* pool_worker_ended brings another */
			clear_coming(p, w);
			pool_unlock(p);
			return false;
		}
	}
}

static void pool_worker(void *arg)
{
	struct node *w = arg;
	gmp_pool *p = w->pool;
	struct task t;
	int err = gmp_key_set(pool_worker_key, w);

	pool_lock(p);
	if (err) { /* no memory: the timer tries again */
		clear_coming(p, w);
		gmp_timer_set(p->due, gmp_deadline(RETRY_NS), RETRY_NS);
		pool_retire(p, w);
		return;
	}
	while (next_task(p, w, &t)) {
		run_program(t.fn, t.arg);
		if (unlikely(gmp_run_id() != p->run))
			_exit(0); /* the child of a fork in this task: the queue is the parent's */
		if (unlikely(gmp_cancelled()))
			return; /* the next task would be cancelled too */
		gmp_checkpoint();
		pool_lock(p);
		w->busy = false;
		pool_free_place(p);
	}
}

void pool_worker_ended(void *arg)
{
	struct node *w = arg;
	gmp_pool *p = w->pool;

	pool_lock(p);
	if (w->busy)
		st_rlx(&p->running, p->running - 1);
	pool_settle(p, NULL);
	pool_lock(p);
	pool_retire(p, w);
}

/* --- submitting --- */

static int pool_give_up(struct node *n, int result)
{
	gmp_pool *p = n->pool;

	pool_lock(p);
	if (n->listed) {
		list_remove(&p->waiters, n);
		st_rlx(&p->waiting, p->waiting - 1);
	} else {
		pool_unlock(p);
		while (gmp_sem_acquire(&n->wake)) /* the release is under way */
			gmp_yield();
		result = n->result;
		pool_lock(p);
	}
	pool_retire(p, n);
	return result;
}

static int await_place(void *submitter, int64_t deadline)
{
	struct node *n = submitter;
	gmp_pool *p = n->pool;
	int result = gmp_sem_acquire_until(&n->wake, deadline);

	if (result)
		return pool_give_up(n, result);
	result = n->result;
	pool_lock(p);
	pool_retire(p, n);
	return result;
}

static bool may_wait(const gmp_pool *p, int64_t deadline)
{
	return deadline != INT64_MIN && !p->nonblocking &&
	       (p->max_waiting <= 0 || p->waiting < p->max_waiting);
}

static int wait_for_place(gmp_pool *p, struct task t, int64_t deadline)
{
	struct node *n = node_get(p);
	int result;

	n->task = t;
	list_push_last(&p->waiters, n);
	st_rlx(&p->waiting, p->waiting + 1);
	p->node_waiters++;
	pool_unlock(p);
	return delegate(await_place, n, deadline, &result) ? result : pool_give_up(n, result);
}

/* Steps 1 and 2, under the lock. */
static inline int pool_enqueue(gmp_pool *p, struct task t, struct node **wake)
{
	int err = ensure_worker(p, wake);

	if (likely(err == 0)) {
		queue_push(p, t);
		pool_take_place(p);
	}
	return err;
}

static inline bool can_enqueue(const gmp_pool *p)
{
	return has_place(p) && !p->waiters.first;
}

/* Drops the lock, which is held. */
static noinline int pool_submit_slow(gmp_pool *p, struct task t, int64_t deadline)
{
	struct node *wake = NULL;
	int err = p->closed ? -EPIPE : t.fn ? 0 : -EINVAL;

	while (!err && !has_memory(p)) {
		err = pool_grow(p);
		if (p->closed)
			err = -EPIPE;
	}
	if (!err && can_enqueue(p))
		err = pool_enqueue(p, t, &wake);
	else if (!err && may_wait(p, deadline))
		return wait_for_place(p, t, deadline);
	else if (!err)
		err = -EAGAIN;
	pool_unlock_and_wake(p, wake);
	return err;
}

static always_inline int pool_submit(gmp_pool *p, gmp_fn fn, void *arg, int64_t deadline,
				     const char *call)
{
	struct node *wake = NULL;
	struct task t = { fn, arg };

	int refused = pool_check(p, call);

	if (unlikely(refused))
		return refused;
	pool_lock(p);
	if (unlikely(p->closed || !fn || !has_memory(p) || !can_enqueue(p))) {
		int err = pool_submit_slow(p, t, deadline);

		__asm__ volatile(""); /* no tail call: dumps name the public function that waits */
		return err;
	}
	int err = pool_enqueue(p, t, &wake);

	pool_unlock(p);
	if (wake)
		pool_wake_all(wake);
	return err;
}

int gmp_pool_submit(gmp_pool *p, gmp_fn fn, void *arg)
{
	return pool_submit(p, fn, arg, GMP_FOREVER, __func__);
}

int gmp_pool_submit_until(gmp_pool *p, gmp_fn fn, void *arg, int64_t deadline)
{
	return pool_submit(p, fn, arg, deadline > INT64_MIN ? deadline : INT64_MIN + 1, __func__);
}

int gmp_pool_try_submit(gmp_pool *p, gmp_fn fn, void *arg)
{
	return pool_submit(p, fn, arg, INT64_MIN, __func__);
}

int gmp_pool_invoke(gmp_pool *p, void *arg)
{
	return pool_submit(p, p ? p->fn : NULL, arg, GMP_FOREVER, __func__);
}

/* --- counts --- */

int gmp_pool_running(gmp_pool *p)
{
	int refused = pool_check(p, __func__);

	return refused ? refused : ld_acq(&p->running); /* ORD(pool.running) */
}

int gmp_pool_idle(gmp_pool *p)
{
	int refused = pool_check(p, __func__);

	return refused ? refused : ld_acq(&p->idle); /* ORD(pool.running) */
}

int gmp_pool_waiting(gmp_pool *p)
{
	int refused = pool_check(p, __func__);

	return refused ? refused : ld_acq(&p->waiting); /* ORD(pool.running) */
}

int gmp_pool_capacity(gmp_pool *p)
{
	int refused = pool_check(p, __func__);

	if (refused)
		return refused;
	int n = ld_rlx(&p->capacity);

	return n == INT_MAX ? -1 : n;
}
