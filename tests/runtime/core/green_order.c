/* SPDX-License-Identifier: MIT */
/* Tests the order in which green threads run, and fairness: none of them is starved. */
#include "green_util.h"

static int order[64], norder;

static void note_order(void *arg)
{
	order[norder++] = (int)(intptr_t)arg;
}

static void order_app(UNUSED void *arg)
{
	gmp_g *g[10];

	for (int i = 0; i < 10; i++)
		g[i] = spawn(note_order, (void *)(intptr_t)i);
	for (int i = 0; i < 10; i++)
		join(g[i]);
	CHECK_EQ(norder, 10);
	CHECK_EQ(order[0], 9);
	for (int i = 1; i < 10; i++)
		CHECK_EQ(order[i], i - 1);
}

TEST(spawned_last_runs_first_and_the_others_in_fifo_order)
{
	run_procs(1, order_app, NULL);
}

static void yield_and_note(void *arg)
{
	for (int i = 0; i < 5; i++) {
		order[norder++] = (int)(intptr_t)arg;
		gmp_yield();
	}
}

static void fifo_app(UNUSED void *arg)
{
	gmp_g *g[8];

	for (int i = 0; i < 8; i++)
		g[i] = spawn(yield_and_note, (void *)(intptr_t)i);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	CHECK_EQ(norder, 40);
	for (int i = 8; i < 40; i++)
		CHECK_EQ(order[i], order[i - 8]);
	for (int i = 0; i < 8; i++) {
		for (int j = 0; j < i; j++)
			CHECK(order[i] != order[j]);
	}
}

/* In virtual time: if runs take a millisecond, PICK-4 mixes new Gs and Gs that have yielded. */
TEST(yield_on_one_p_is_round_robin)
{
	CHECK_EQ(run_configured(1, 0, GMP_VIRTUAL_TIME, fifo_app, NULL), 0);
}

static atomic_int stop;
static atomic_int pair_over;
static gmp_wg ping, pong;

static void run_ping(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		gmp_wg_add(&ping, 1);
		gmp_wg_done(&pong);
		gmp_wg_wait(&ping);
	}
	atomic_store(&pair_over, 1);
	gmp_wg_done(&pong);
}

static void run_pong(UNUSED void *arg)
{
	for (;;) {
		gmp_wg_wait(&pong);
		if (atomic_load(&pair_over))
			return;
		gmp_wg_add(&pong, 1);
		gmp_wg_done(&ping);
	}
}

RT(wakeup_pair_does_not_starve_other_green_threads)
{
	gmp_g *a[8], *b, *c;

	gmp_wg_add(&pong, 1);
	b = spawn(run_pong, NULL);
	c = spawn(run_ping, NULL);
	for (int i = 0; i < 20; i++)
		gmp_yield();
	for (int i = 0; i < 8; i++)
		a[i] = spawn(add_one, NULL);
	for (int i = 0; i < 8; i++)
		join(a[i]);
	gmp_sleep(MS);
	atomic_store(&stop, 1);
	join(c);
	join(b);
}

static atomic_int chains;

static void spawn_next(UNUSED void *arg)
{
	if (atomic_load(&stop))
		atomic_fetch_sub(&chains, 1);
	else
		CHECK_EQ(gmp_go(spawn_next, NULL), 0);
}

RT(spawn_chain_does_not_starve_other_green_threads)
{
	for (int i = 0; i < procs; i++) {
		atomic_fetch_add(&chains, 1);
		CHECK_EQ(gmp_go(spawn_next, NULL), 0);
	}
	for (int i = 0; i < 5; i++)
		gmp_yield();
	join(spawn(add_one, NULL));
	gmp_sleep(MS);
	atomic_store(&stop, 1);
	WAIT_FOR(atomic_load(&chains) == 0);
}

#ifdef __SANITIZE_THREAD__
enum { SPAWNS = 30, YIELDS = 10 }; /* it needs about 50 us per green thread */
#else
enum { SPAWNS = 300, YIELDS = 100 };
#endif

static void spawn_and_yield(UNUSED void *arg)
{
	for (int i = 0; i < SPAWNS; i++) {
		CHECK_EQ(gmp_go(add_one, NULL), 0);
		gmp_yield();
	}
}

RT(yield_is_not_starved_by_steady_spawns)
{
	struct ext_thread f;

	/* A G is always runnable, in the local queue and in the global queue. */
	for (int i = 0; i < 3 * procs; i++) {
		atomic_fetch_add(&chains, 1);
		CHECK_EQ(gmp_go(spawn_next, NULL), 0);
	}
	ext_thread_start(&f, spawn_and_yield, NULL);
	ext_thread_join(&f);
	for (int i = 0; i < YIELDS; i++)
		gmp_yield();
	atomic_store(&stop, 1);
	WAIT_FOR(atomic_load(&chains) == 0 && atomic_load(&count) == SPAWNS);
}

/* A ring holds fewer than FLOOD Gs, so many wait in the global queue. */
enum { FLOOD = 5000, SWITCHES_PER_G = 8, BARRIERS = 2, PER_BARRIER = 20 };

static gmp_sem all_ran = GMP_SEM_INIT(0);
static gmp_barrier barriers[BARRIERS] = { GMP_BARRIER_INIT(PER_BARRIER),
					  GMP_BARRIER_INIT(PER_BARRIER) };

static void count_run(UNUSED void *arg)
{
	if (atomic_fetch_add(&count, 1) == FLOOD - 1)
		gmp_sem_release(&all_ran, 1);
}

/* The last arrival puts the others at the ring's tail, behind those of the other barrier. */
static void loop_on_barrier(void *barrier)
{
	while (gmp_barrier_wait(barrier) >= 0 && !atomic_load(&stop))
		;
}

static uint64_t switch_count(void)
{
	gmp_stats s = GMP_STATS_INIT;

	CHECK_EQ(gmp_stats_get(&s), 0);
	return s.switches;
}

static void flood_app(UNUSED void *arg)
{
	uint64_t began;

	for (int i = 0; i < BARRIERS * PER_BARRIER; i++)
		CHECK_EQ(gmp_go(loop_on_barrier, &barriers[i % BARRIERS]), 0);
	began = switch_count();
	for (int i = 0; i < FLOOD; i++)
		CHECK_EQ(gmp_go(count_run, NULL), 0);
	CHECK_EQ(gmp_sem_acquire(&all_ran), 0);
	CHECK(switch_count() - began < (uint64_t)SWITCHES_PER_G * FLOOD);
	atomic_store(&stop, 1);
}

/* One P: with two, the kernel may preempt one of them while it holds its share of the Gs. */
TEST(global_queue_is_not_starved_by_nonempty_ring)
{
	run_procs(1, flood_app, NULL);
}

static void yield_until_stop(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		gmp_yield();
}

RT(external_spawn_is_not_starved_by_yielding_gs)
{
	struct ext_thread f;
	gmp_g *g[20];
	void spawn_and_join_here(void *arg);

	for (int i = 0; i < 20; i++)
		g[i] = spawn(yield_until_stop, NULL);
	ext_thread_start(&f, spawn_and_join_here, NULL);
	ext_thread_join(&f);
	atomic_store(&stop, 1);
	for (int i = 0; i < 20; i++)
		join(g[i]);
}

void spawn_and_join_here(UNUSED void *arg)
{
	for (int i = 0; i < 50; i++)
		join(spawn(add_one, NULL));
}

static void checkpoint_until_stop(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		gmp_checkpoint();
}

RT(checkpoint_loop_lets_other_green_threads_run)
{
	gmp_g *g[5];

	for (int i = 0; i < 5; i++)
		g[i] = spawn(checkpoint_until_stop, NULL);
	/* Each yield returns only because the loops yield at their checkpoints. */
	for (int i = 0; i < 5; i++)
		gmp_yield();
	join(spawn(add_one, NULL));
	atomic_store(&stop, 1);
	for (int i = 0; i < 5; i++)
		join(g[i]);
}

RT(runnable_g_of_busy_p_is_stolen)
{
	int64_t limit = gmp_deadline(PATIENCE);
	gmp_g *g[3];

	if (procs == 1)
		check_skip("needs a second P");
	for (int i = 0; i < 3; i++)
		g[i] = spawn(add_one, NULL);
	/* This loop never yields: another P must steal all three Gs, the runnext too. */
	while (atomic_load(&count) < 3)
		CHECK(gmp_now() < limit);
	for (int i = 0; i < 3; i++)
		join(g[i]);
}

static atomic_int arrived;

static void arrive_and_wait(void *arg)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < *(int *)arg)
		;
}

RT(green_threads_run_in_parallel_on_all_ps)
{
	gmp_g *g[4];

	for (int round = 0; round < 20; round++) {
		atomic_store(&arrived, 0);
		for (int i = 0; i < procs; i++)
			g[i] = spawn(arrive_and_wait, &procs);
		for (int i = 0; i < procs; i++)
			join(g[i]);
	}
}
