/* SPDX-License-Identifier: MIT */
/* Pools: creation, resizing, the joiners, release and free (pool.h). */
#include "service/pool.h"

#include "service/delegate.h"

/* --- creation --- */

/* Allocates memory for n more workers and their tasks. Returns 0 or -ENOMEM. */
static int pool_reserve(gmp_pool *p, int n)
{
	int err = 0;

	pool_lock(p);
	for (n = n / CHUNK + 1; n > 0 && !err; n--)
		err = pool_allocate(p, true, true);
	pool_unlock(p);
	return err;
}

static int pool_configure(gmp_pool *p, const gmp_pool_opts *opts)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	if (opts) {
		if (opts->size < offsetof(gmp_pool_opts, name))
			return -EINVAL;
		memcpy(&o, opts, opts->size < sizeof(o) ? opts->size : sizeof(o));
	}
	if (o.idle_ns < 0 || (o.prealloc && p->capacity == INT_MAX) ||
	    o.stack_size > (size_t)1 << 30)
		return -EINVAL;
	p->fn = o.fn;
	p->dropped = o.dropped;
	p->nonblocking = o.nonblocking;
	p->max_waiting = o.max_waiting;
	p->idle_ns = o.idle_ns ? o.idle_ns : IDLE_NS;
	p->prealloc = o.prealloc;
	p->has_attr = o.name || o.stack_size;
	p->attr = (gmp_attr)GMP_ATTR_INIT;
	if (o.name)
		strncpy(p->name, o.name, sizeof(p->name) - 1);
	p->attr.name = p->name;
	p->attr.stack_size = o.stack_size;
	return 0;
}

gmp_pool *gmp_pool_new(int capacity, const gmp_pool_opts *o)
{
	uint64_t run = gmp_run_id();
	gmp_pool *p = run && service_key_once(&pool_worker_key, pool_worker_ended)
			      ? calloc(1, sizeof(*p))
			      : NULL;

	if (!p)
		return NULL;
	p->kind = OBJECT_POOL;
	p->run = run;
	p->capacity = capacity > 0 ? capacity : INT_MAX;
	p->due = gmp_timer_new(pool_due_fired, p);
	p->tidy = gmp_timer_new(pool_tidy_fired, p);
	if (pool_configure(p, o) || !p->due || !p->tidy ||
	    pool_reserve(p, p->prealloc ? capacity : 0)) {
		pool_destroy(p);
		return NULL;
	}
	p->head = p->tail = p->spare;
	p->spare = p->spare->next;
	p->head->next = NULL;
	pool_lock(p);
	while (!has_slot(p)) { /* slots > 2 * BLOCK */
		if (pool_grow(p)) {
			pool_unlock(p);
			pool_destroy(p);
			return NULL;
		}
	}
	pool_unlock(p);
	return p;
}

/* --- resizing, tidying --- */

int gmp_pool_resize(gmp_pool *p, int capacity)
{
	struct node *wake = NULL;
	int err = 0;

	int refused = pool_check(p, __func__);

	if (refused)
		return refused;
	if (p->prealloc && capacity > ld_rlx(&p->capacity))
		err = pool_reserve(p, capacity - ld_rlx(&p->capacity));
	if (err)
		return err;
	pool_lock(p);
	st_rlx(&p->capacity, capacity > 0 ? capacity : INT_MAX);
	int surplus = p->idle - (p->capacity - p->running);

	if (p->idle && surplus > 0) {
		st_rlx(&p->idle, surplus < p->idle ? p->idle - surplus : 0);
		for (int i = 0; i < QUARTERS; i++)
			p->idle_min[i] = p->idle < p->idle_min[i] ? p->idle : p->idle_min[i];
	}
	pool_dismiss_parked(p, &wake);
	pool_settle(p, wake);
	return 0;
}

static struct block *take_spare_blocks(gmp_pool *p)
{
	struct block *b, *out = NULL;

	while (!p->prealloc && (b = p->spare) &&
	       p->slots > p->queued + (size_t)p->waiting + 8 * BLOCK) {
		p->spare = b->next;
		p->slots -= BLOCK;
		b->next = out;
		out = b;
	}
	return out;
}

/* POOL-4: a quarter of idle_ns is over. */
void pool_tidy_fired(void *arg)
{
	gmp_pool *p = arg;
	struct node *wake = NULL;
	int unused;

	pool_lock(p);
	unused = p->idle_min[0];
	for (int i = 1; i < QUARTERS; i++)
		unused = p->idle_min[i] < unused ? p->idle_min[i] : unused;
	st_rlx(&p->idle, p->idle - unused);
	for (int i = QUARTERS - 1; i > 0; i--)
		p->idle_min[i] = p->idle_min[i - 1] - unused;
	p->idle_min[0] = p->idle;
	pool_dismiss_parked(p, &wake);
	if (p->idle == 0) {
		p->tidy_armed = false;
		gmp_timer_stop(p->tidy);
	}
	struct block *spare = take_spare_blocks(p);

	pool_unlock_and_wake(p, wake);
	for (struct block *b; (b = spare); free(b))
		spare = b->next;
}

/* --- waiting --- */

/* The idle workers of a pool that is open again stay. */
static bool is_drained(const gmp_pool *p, int goal)
{
	if (goal < 0)
		return p->threads + p->node_waiters == 0;
	return p->running <= goal && (!p->closed || p->threads <= goal);
}

noinline void pool_wake_joiners(gmp_pool *p, struct node **wake)
{
	for (struct node *n = p->joiners.first, *next; n; n = next) {
		next = n->next;
		if (!is_drained(p, n->result))
			continue;
		list_remove(&p->joiners, n);
		wake_later(wake, n);
	}
}

/* Returns whether the caller is a task of p. */
static bool is_own_task(gmp_pool *p)
{
	struct node *w = gmp_key_get(pool_worker_key);

	return w && w->pool == p;
}

static int await_end(void *joiner, int64_t deadline)
{
	struct node *n = joiner;
	gmp_pool *p = n->pool;
	int goal = n->result, masked = gmp_cancel_mask(1);
	int result = gmp_sem_acquire_until(&n->wake, deadline);

	pool_lock(p);
	if (n->listed) {
		list_remove(&p->joiners, n);
		result = p->running > goal ? -ETIMEDOUT : 0; /* idle workers may still be ending */
	} else if (result) {
		pool_unlock(p);
		while (gmp_sem_acquire(&n->wake)) /* the release is under way */
			gmp_yield();
		result = 0;
		pool_lock(p);
	}
	if (goal < 0) {
		node_put(p, n);
		pool_unlock(p);
	} else {
		pool_retire(p, n);
	}
	if (masked == 0)
		gmp_cancel_mask(0);
	return result;
}

/* Sleeps before another attempt to get memory or a green thread. False: the deadline passed. */
static bool retry_before(int64_t deadline)
{
	int64_t next = gmp_deadline(RETRY_NS / 10);

	gmp_sleep_until(next < deadline ? next : deadline);
	return deadline == GMP_FOREVER || gmp_now() < deadline;
}

/*
 * Waits until at most `goal` tasks run; with -1, until no thread uses the pool. Drops the lock,
 * which is held.
 */
static int pool_drain(gmp_pool *p, int goal, int64_t deadline)
{
	struct node *wake = NULL;

	while (!p->free && pool_grow(p)) {
		pool_unlock(p);
		bool late = !retry_before(deadline);

		pool_lock(p);
		if (late && !p->free) {
			int result = p->running > goal ? -ETIMEDOUT : 0;

			pool_unlock(p);
			return result;
		}
	}
	struct node *n = node_get(p);
	uint64_t run = p->run; /* after its end the pool may be freed */
	int result;

	n->result = goal;
	if (goal >= 0)
		p->node_waiters++;
	list_push_last(&p->joiners, n);
	pool_wake_joiners(p, &wake);
	pool_unlock_and_wake(p, wake);
	while (!delegate(await_end, n, deadline, &result))
		if (!retry_before(deadline))
			return gmp_run_id() == run ? await_end(n, INT64_MIN) : -ESRCH;
	return result;
}

/* --- release, reboot, free --- */

void pool_destroy(gmp_pool *p)
{
	struct block *b;
	struct chunk *c;

	gmp_timer_free(p->due);
	gmp_timer_free(p->tidy);
	for (; (b = p->head); free(b))
		p->head = b->next;
	for (; (b = p->spare); free(b))
		p->spare = b->next;
	for (; (c = p->chunks); free(c))
		p->chunks = c->next;
	free(p->heap);
	object_free(p, sizeof(*p));
}

void pool_retire(gmp_pool *p, struct node *n)
{
	struct node *wake = NULL;

	if (n->worker)
		p->threads--;
	else
		p->node_waiters--;
	node_put(p, n);
	pool_wake_joiners(p, &wake);
	bool last = p->dying && p->threads + p->node_waiters == 0;

	pool_unlock_and_wake(p, wake);
	if (last)
		pool_destroy(p);
}

/* Closes p, with the lock held, which is dropped meanwhile. Gives delayed tasks to `dropped`. */
static void pool_close(gmp_pool *p)
{
	struct node *wake = NULL;
	struct delayed *heap = p->heap;
	size_t n = p->delayed;

	p->closed = true;
	st_rlx(&p->idle, 0);
	memset(p->idle_min, 0, sizeof(p->idle_min));
	pool_dismiss_parked(p, &wake);
	while (p->waiters.first)
		pool_end_wait(p, p->waiters.first, -EPIPE, &wake);
	p->heap = NULL;
	st_rlx(&p->delayed, 0);
	p->heap_size = 0;
	p->due_pending = false;
	p->node_waiters++; /* POOL-7: the caller locks again */
	pool_unlock_and_wake(p, wake);
	for (size_t i = 0; i < n && p->dropped; i++)
		p->dropped(heap[i].task.fn, heap[i].task.arg);
	free(heap);
	pool_lock(p);
	p->node_waiters--;
}

int gmp_pool_release(gmp_pool *p, int64_t deadline)
{
	int refused = pool_check(p, __func__);

	if (refused)
		return refused;
	pool_lock(p);
	if (p->closed) {
		pool_unlock(p);
		return -EPIPE;
	}
	pool_close(p);
	return pool_drain(p, is_own_task(p) ? 1 : 0, deadline);
}

int gmp_pool_reboot(gmp_pool *p)
{
	int refused = pool_check(p, __func__);

	if (refused)
		return refused;
	struct node *wake = NULL;

	pool_lock(p);
	p->closed = false;
	pool_wake_joiners(p, &wake);
	pool_unlock_and_wake(p, wake);
	return 0;
}

void gmp_pool_free(gmp_pool *p)
{
	if (!p)
		return;
	object_claim(p, &p->kind, OBJECT_POOL, "gmp_pool_free");
	if (gmp_run_id() == p->run) {
		pool_lock(p);
		if (!p->closed)
			pool_close(p);
		if (is_own_task(p)) {
			p->dying = true;
			pool_unlock(p);
			return;
		}
		pool_drain(p, -1, GMP_FOREVER);
	}
	pool_destroy(p);
}
