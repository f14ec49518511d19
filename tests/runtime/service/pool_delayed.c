/* SPDX-License-Identifier: MIT */
/* Tests delayed tasks of gmp_pool: deadlines, places, capacity, and release. */
#include "pool_util.h"

struct late {
	int64_t deadline;
	_Atomic int64_t at;
};

static void note_time(void *arg)
{
	struct late *l = arg;

	atomic_store(&l->at, gmp_now());
	count_task(NULL);
}

RT(pool_delayed_task_begins_not_before_deadline)
{
	enum { N = 200 };
	static struct late l[N];
	gmp_pool *p = pool_new(10);

	for (int i = 0; i < N; i++) {
		l[i].deadline = gmp_deadline((i * 37 % N) * 100 * US);
		CHECK_EQ(gmp_pool_submit_at(p, l[i].deadline, note_time, &l[i]), 0);
	}
	WAIT_FOR(atomic_load(&ended) == N);
	for (int i = 0; i < N; i++)
		CHECK(l[i].at >= l[i].deadline);
	CHECK_EQ(gmp_pool_delayed(p), 0);
	release_and_free(p);
}

RT(pool_delayed_task_uses_no_place_before_deadline)
{
	gmp_pool *p = pool_new(2);

	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_pool_submit_at(p, gmp_deadline(3600 * SEC), count_task, NULL), 0);
	CHECK_EQ(gmp_pool_delayed(p), 100);
	CHECK_EQ(gmp_pool_running(p), 0);
	fill_up(p, 2);
	let_through(2);
	WAIT_FOR(gmp_pool_running(p) == 0);
	CHECK_EQ(gmp_pool_delayed(p), 100);
	/* A task with an earlier deadline runs first. */
	CHECK_EQ(gmp_pool_submit_at(p, gmp_deadline(MS), count_task, NULL), 0);
	WAIT_FOR(atomic_load(&ended) == 3);
	CHECK_EQ(gmp_pool_delayed(p), 100);
	release_and_free(p);
	CHECK_EQ(atomic_load(&ended), 3);
}

RT(pool_delayed_tasks_due_respect_capacity)
{
	gmp_pool *p = pool_new(3);

	for (int i = 0; i < 50; i++)
		CHECK_EQ(gmp_pool_submit_at(p, 0, gate_task, NULL), 0);
	WAIT_FOR(atomic_load(&begun) == 3);
	gmp_sleep(5 * MS);
	CHECK_EQ(atomic_load(&begun), 3);
	CHECK_EQ(gmp_pool_running(p), 3);
	CHECK_EQ(gmp_pool_delayed(p), 47);
	let_through(50);
	WAIT_FOR(atomic_load(&ended) == 50);
	CHECK_EQ(atomic_load(&most_inside), 3);
	release_and_free(p);
}

RT(pool_delayed_tasks_and_submitters_alternate)
{
	gmp_pool *p = pool_new(1);
	struct submitter s[5];

	fill_up(p, 1);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(gmp_pool_submit_at(p, 0, gate_task, NULL), 0);
	submitters_start(s, 5, p, gate_task);
	/* `alone`: submitters served before the pool sees that the delayed tasks are due. */
	gmp_sleep(5 * MS);
	for (int i = 1, alone = 0; i <= 10; i++) {
		let_through(1);
		WAIT_FOR(atomic_load(&begun) == 1 + i);
		int submitted = 5 - gmp_pool_waiting(p), delayed = 5 - (int)gmp_pool_delayed(p);

		CHECK_EQ(submitted + delayed, i);
		if (delayed == 0)
			alone = submitted - 1;
		if (delayed > 0 && submitted < 5)
			CHECK(submitted - alone - delayed <= 1 && delayed - submitted + alone <= 1);
	}
	for (int i = 0; i < 5; i++)
		join(s[i].g);
	let_through(1);
	release_and_free(p);
}

RT(pool_delayed_tasks_that_wait_get_a_worker_each)
{
	gmp_pool *p = pool_new(0);

	for (int i = 0; i < 300; i++)
		CHECK_EQ(gmp_pool_submit_at(p, gmp_deadline(MS), gate_task, NULL), 0);
	WAIT_FOR(atomic_load(&inside) == 300);
	CHECK_EQ(gmp_pool_running(p), 300);
	let_through(300);
	release_and_free(p);
}

static void submit_again(void *arg)
{
	gmp_pool *p = arg;

	if (atomic_fetch_add(&ended, 1) < 100)
		CHECK_EQ(gmp_pool_submit_at(p, gmp_deadline(10 * US), submit_again, p), 0);
}

RT(pool_delayed_task_may_submit_next)
{
	gmp_pool *p = pool_new(1);

	CHECK_EQ(gmp_pool_submit_at(p, 0, submit_again, p), 0);
	WAIT_FOR(atomic_load(&ended) == 101);
	release_and_free(p);
}

static atomic_int drops;
static char tags[100];

static void dropped(gmp_fn fn, void *arg)
{
	CHECK(fn == count_task);
	CHECK_EQ((*(char *)arg)++, 0);
	atomic_fetch_add(&drops, 1);
}

RT(pool_release_drops_delayed_tasks_not_begun)
{
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;

	o.dropped = dropped;
	gmp_pool *p = gmp_pool_new(4, &o);

	for (int i = 0; i < 100; i++)
		CHECK_EQ(gmp_pool_submit_at(p, gmp_deadline(3600 * SEC), count_task, &tags[i]), 0);
	CHECK_EQ(gmp_pool_release(p, GMP_FOREVER), 0);
	CHECK_EQ(gmp_pool_delayed(p), 0);
	CHECK_EQ(atomic_load(&drops), 100);
	CHECK_EQ(gmp_pool_reboot(p), 0);
	CHECK_EQ(gmp_pool_submit_at(p, 0, count_task, NULL), 0);
	WAIT_FOR(atomic_load(&ended) == 1);
	for (int i = 0; i < 100; i++)
		tags[i] = 0;
	CHECK_EQ(gmp_pool_submit_at(p, GMP_FOREVER, count_task, tags), 0);
	gmp_pool_free(p);
	CHECK_EQ(atomic_load(&drops), 101);
	CHECK_EQ(atomic_load(&ended), 1);
}

RT(pool_delayed_extreme_deadlines_work)
{
	gmp_pool *p = pool_new(4);

	CHECK_EQ(gmp_pool_submit_at(p, GMP_FOREVER, count_task, NULL), 0);
	CHECK_EQ(gmp_pool_submit_at(p, INT64_MIN, count_task, NULL), 0);
	CHECK_EQ(gmp_pool_submit_at(p, -1, count_task, NULL), 0);
	CHECK_EQ(gmp_pool_submit_at(p, GMP_FOREVER - 1, count_task, NULL), 0);
	WAIT_FOR(atomic_load(&ended) == 2);
	CHECK_EQ(gmp_pool_delayed(p), 2);
	release_and_free(p);
}

static void external_delays(void *arg)
{
	for (int i = 0; i < 200; i++)
		CHECK_EQ(gmp_pool_submit_at(arg, gmp_deadline(i % 7 * 100 * US), count_task, NULL),
			 0);
}

RT(pool_delayed_submit_by_external_thread_works)
{
	gmp_pool *p = pool_new(4);
	struct ext_thread f;

	ext_thread_start(&f, external_delays, p);
	ext_thread_join(&f);
	WAIT_FOR(atomic_load(&ended) == 200);
	release_and_free(p);
}

static void wait_on(void *arg)
{
	CHECK_EQ(gmp_sem_acquire(arg), 0);
}

static void delay_at_max_green(UNUSED void *arg)
{
	gmp_pool *p = pool_new(4);
	gmp_g *g[8];
	static gmp_sem stop;

	for (int i = 0; i < 8; i++)
		g[i] = spawn(wait_on, &stop);
	CHECK_EQ(gmp_pool_submit_at(p, gmp_deadline(2 * MS), count_task, NULL), 0);
	gmp_sleep(10 * MS); /* at its deadline max_green is reached */
	CHECK_EQ(atomic_load(&ended), 0);
	gmp_sem_release(&stop, 8);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	WAIT_FOR(atomic_load(&ended) == 1);
	release_and_free(p);
}

TEST_PROCS(pool_delayed_task_at_max_green_is_not_lost)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.max_green = 9;
	CHECK_EQ(gmp_run(delay_at_max_green, NULL, &cfg), 0);
}
