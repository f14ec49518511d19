/* SPDX-License-Identifier: MIT */
/*
 * Multipool: spreads tasks over several pools, in rotation or to the least busy pool.
 *
 * If the pool in rotation is full, the task goes to the least busy pool. If that is full too, the
 * submitter waits for a place there. Submitters share only `next` and `closed`.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#include "service/service.h"

struct gmp_multipool {
	uint32_t kind;          /* (c) enum object_kind */
	int n;                  /* (c) */
	enum gmp_spread spread; /* (c) */
	gmp_fn fn;              /* (c) */
	uint32_t next;          /* (a) */
	bool closed;            /* (a) */
	gmp_pool *pool[];
};

/* Returns false without a multipool. Ends the process on a freed one. */
static inline bool multipool_check(const gmp_multipool *m, const char *call)
{
	if (m)
		service_check(m, &m->kind, OBJECT_MULTIPOOL, call);
	return m;
}

static void free_pools(gmp_multipool *m)
{
	while (m->n > 0)
		gmp_pool_free(m->pool[--m->n]);
	object_free(m, sizeof(*m));
}

gmp_multipool *gmp_multipool_new(int pools, int capacity, gmp_spread spread, const gmp_pool_opts *o)
{
	bool known = spread == GMP_ROUND_ROBIN || spread == GMP_LEAST_BUSY;
	gmp_multipool *m;

	if (pools < 1 || !known || !(m = malloc(sizeof(*m) + (size_t)pools * sizeof(*m->pool))))
		return NULL;
	*m = (gmp_multipool){ .kind = OBJECT_MULTIPOOL, .spread = spread, .fn = o ? o->fn : NULL };
	for (; m->n < pools; m->n++) {
		if (!(m->pool[m->n] = gmp_pool_new(capacity, o))) {
			free_pools(m);
			return NULL;
		}
	}
	return m;
}

/* Returns INT_MAX if the sum is larger. */
static int add_saturated(int a, int b)
{
	int sum;

	return __builtin_add_overflow(a, b, &sum) ? INT_MAX : sum;
}

static int pool_load(gmp_pool *p)
{
	return add_saturated(gmp_pool_running(p), gmp_pool_waiting(p));
}

static gmp_pool *least_busy(gmp_multipool *m)
{
	gmp_pool *least = m->pool[0];
	int busy = pool_load(least);

	for (int i = 1; i < m->n && busy > 0; i++) {
		int b = pool_load(m->pool[i]);

		if (b < busy) {
			least = m->pool[i];
			busy = b;
		}
	}
	return least;
}

/* Returns -ESRCH after the run that made m, otherwise -EPIPE. */
static int why_closed(gmp_multipool *m)
{
	return gmp_pool_running(m->pool[0]) == -ESRCH ? -ESRCH : -EPIPE;
}

static int multipool_submit(gmp_multipool *m, gmp_fn fn, void *arg)
{
	if (ld_rlx(&m->closed))
		return why_closed(m);
	if (!fn)
		return -EINVAL;
	if (m->spread == GMP_ROUND_ROBIN) {
		uint32_t next = add_rlx(&m->next, 1);
		int err = gmp_pool_try_submit(m->pool[next % (uint32_t)m->n], fn, arg);

		if (err != -EAGAIN)
			return err;
	}
	return gmp_pool_submit(least_busy(m), fn, arg);
}

int gmp_multipool_submit(gmp_multipool *m, gmp_fn fn, void *arg)
{
	return multipool_check(m, __func__) ? multipool_submit(m, fn, arg) : -EINVAL;
}

int gmp_multipool_invoke(gmp_multipool *m, void *arg)
{
	return multipool_check(m, __func__) ? multipool_submit(m, m->fn, arg) : -EINVAL;
}

gmp_pool *gmp_multipool_at(gmp_multipool *m, int i)
{
	return multipool_check(m, __func__) && i >= 0 && i < m->n ? m->pool[i] : NULL;
}

static int multipool_sum(gmp_multipool *m, int (*count)(gmp_pool *p), const char *call)
{
	int n = 0;

	if (!multipool_check(m, call))
		return -EINVAL;
	for (int i = 0; i < m->n; i++) {
		int k = count(m->pool[i]);

		if (k < 0)
			return k; /* no bound, or the run is over */
		n = add_saturated(n, k);
	}
	return n;
}

int gmp_multipool_running(gmp_multipool *m)
{
	return multipool_sum(m, gmp_pool_running, __func__);
}

int gmp_multipool_idle(gmp_multipool *m)
{
	return multipool_sum(m, gmp_pool_idle, __func__);
}

int gmp_multipool_waiting(gmp_multipool *m)
{
	return multipool_sum(m, gmp_pool_waiting, __func__);
}

int gmp_multipool_capacity(gmp_multipool *m)
{
	return multipool_sum(m, gmp_pool_capacity, __func__);
}

int gmp_multipool_resize(gmp_multipool *m, int capacity)
{
	int err = multipool_check(m, __func__) ? 0 : -EINVAL;

	for (int i = 0; !err && i < m->n; i++)
		err = gmp_pool_resize(m->pool[i], capacity);
	return err;
}

/* Releases one pool after the other, each until the same deadline. */
int gmp_multipool_release(gmp_multipool *m, int64_t deadline)
{
	bool open = false;
	int result = 0;

	if (!multipool_check(m, __func__))
		return -EINVAL;
	if (!cas_rlx(&m->closed, &open, true))
		return why_closed(m);
	for (int i = 0; i < m->n; i++) {
		int err = gmp_pool_release(m->pool[i], deadline);

		if (err && err != -EPIPE)
			result = err;
	}
	return result;
}

int gmp_multipool_reboot(gmp_multipool *m)
{
	int err = multipool_check(m, __func__) ? 0 : -EINVAL;

	for (int i = 0; !err && i < m->n; i++)
		err = gmp_pool_reboot(m->pool[i]);
	if (!err)
		st_rlx(&m->closed, false);
	return err;
}

/*
 * Tasks of one pool may submit to the others, so no pool is freed before all tasks have ended. Only
 * the first release of a pool waits for its tasks, so each pool is reopened and released again.
 */
void gmp_multipool_free(gmp_multipool *m)
{
	if (!m)
		return;
	object_claim(m, &m->kind, OBJECT_MULTIPOOL, "gmp_multipool_free");
	st_rlx(&m->closed, true);
	for (int i = 0; i < m->n; i++) {
		gmp_pool_reboot(m->pool[i]);
		gmp_pool_release(m->pool[i], GMP_FOREVER);
	}
	free_pools(m);
}
