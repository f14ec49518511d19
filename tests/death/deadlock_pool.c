/* SPDX-License-Identifier: MIT */
/* Deadlock of tasks that submit to their own pool, which is full of such tasks. */
#include <gmp.h>

static gmp_pool *pool;
static gmp_wg done;
static gmp_barrier full = GMP_BARRIER_INIT(2);

static void other(void *arg)
{
	(void)arg;
}

static void task(void *arg)
{
	(void)arg;
	gmp_barrier_wait(&full);
	gmp_pool_submit(pool, other, NULL);
	gmp_wg_done(&done);
}

static void app(void *arg)
{
	(void)arg;
	pool = gmp_pool_new(2, NULL);
	gmp_wg_add(&done, 2);
	gmp_pool_submit(pool, task, NULL);
	gmp_pool_submit(pool, task, NULL);
	gmp_wg_wait(&done);
}

int main(void)
{
	gmp_run(app, NULL, NULL);
	return 0;
}
