/* SPDX-License-Identifier: MIT */
/* Tests the order in which green threads run, and that none is starved. */
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

TEST(the_last_spawned_runs_next_then_the_others_in_order)
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

TEST(yields_go_round_in_order_on_one_p)
{
	run_procs(1, fifo_app, NULL);
}

static atomic_int stop;
static atomic_int pair_over;
static gmp_wg ping, pong;

static void play_ping(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		gmp_wg_add(&ping, 1);
		gmp_wg_done(&pong);
		gmp_wg_wait(&ping);
	}
	atomic_store(&pair_over, 1);
	gmp_wg_done(&pong);
}

static void play_pong(UNUSED void *arg)
{
	for (;;) {
		gmp_wg_wait(&pong);
		if (atomic_load(&pair_over))
			return;
		gmp_wg_add(&pong, 1);
		gmp_wg_done(&ping);
	}
}

RT(a_pair_that_wakes_each_other_cannot_starve_the_others)
{
	gmp_g *a[8], *b, *c;

	gmp_wg_add(&pong, 1);
	b = spawn(play_pong, NULL);
	c = spawn(play_ping, NULL);
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

static void spawn_the_next(UNUSED void *arg)
{
	if (atomic_load(&stop))
		atomic_fetch_sub(&chains, 1);
	else
		CHECK_EQ(gmp_go(spawn_the_next, NULL), 0);
}

RT(a_chain_of_spawns_cannot_starve_the_others)
{
	for (int i = 0; i < procs; i++) {
		atomic_fetch_add(&chains, 1);
		CHECK_EQ(gmp_go(spawn_the_next, NULL), 0);
	}
	for (int i = 0; i < 5; i++)
		gmp_yield();
	join(spawn(add_one, NULL));
	gmp_sleep(MS);
	atomic_store(&stop, 1);
	WAIT_FOR(atomic_load(&chains) == 0);
}

#ifdef __SANITIZE_THREAD__
enum { COMING = 30, TURNS = 10 }; /* to it each new green thread is some 50 us */
#else
enum { COMING = 300, TURNS = 100 };
#endif

static void spawn_now_and_then(UNUSED void *arg)
{
	for (int i = 0; i < COMING; i++) {
		CHECK_EQ(gmp_go(add_one, NULL), 0);
		gmp_yield();
	}
}

RT(a_yielder_is_not_starved_by_those_that_keep_coming)
{
	struct ext_thread f;

	/* There is always one more ready, here and in the global queue. */
	for (int i = 0; i < 3 * procs; i++) {
		atomic_fetch_add(&chains, 1);
		CHECK_EQ(gmp_go(spawn_the_next, NULL), 0);
	}
	ext_thread_start(&f, spawn_now_and_then, NULL);
	ext_thread_join(&f);
	for (int i = 0; i < TURNS; i++)
		gmp_yield();
	atomic_store(&stop, 1);
	WAIT_FOR(atomic_load(&chains) == 0 && atomic_load(&count) == COMING);
}

/* More than a ring holds, so that many wait in the global queue. */
enum { FLOOD = 5000, TURNS_OF_EACH = 8, RINGS = 2, IN_A_RING = 20 };

static gmp_sem all_came = GMP_SEM_INIT(0);
static gmp_barrier at[RINGS] = { GMP_BARRIER_INIT(IN_A_RING), GMP_BARRIER_INIT(IN_A_RING) };

static void come(UNUSED void *arg)
{
	if (atomic_fetch_add(&count, 1) == FLOOD - 1)
		gmp_sem_release(&all_came, 1);
}

/* Who comes last puts the others at the ring's tail; those of the other barrier stand there then. */
static void meet_for_ever(void *barrier)
{
	while (gmp_barrier_wait(barrier) >= 0 && !atomic_load(&stop))
		;
}

static uint64_t turns(void)
{
	gmp_stats s = GMP_STATS_INIT;

	CHECK_EQ(gmp_stats_get(&s), 0);
	return s.switches;
}

static void flood_app(UNUSED void *arg)
{
	uint64_t began;

	for (int i = 0; i < RINGS * IN_A_RING; i++)
		CHECK_EQ(gmp_go(meet_for_ever, &at[i % RINGS]), 0);
	began = turns();
	for (int i = 0; i < FLOOD; i++)
		CHECK_EQ(gmp_go(come, NULL), 0);
	CHECK_EQ(gmp_sem_acquire(&all_came), 0);
	CHECK(turns() - began < (uint64_t)TURNS_OF_EACH * FLOOD);
	atomic_store(&stop, 1);
}

/* On one P: of two, one may have its share while the kernel lets it wait. */
TEST(a_ring_that_never_runs_dry_does_not_put_off_who_is_in_the_global_queue)
{
	run_procs(1, flood_app, NULL);
}

static void yield_for_ever(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		gmp_yield();
}

RT(yielders_do_not_starve_what_foreign_threads_spawn)
{
	struct ext_thread f;
	gmp_g *g[20];
	void spawn_and_join_here(void *arg);

	for (int i = 0; i < 20; i++)
		g[i] = spawn(yield_for_ever, NULL);
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

static void check_for_ever(UNUSED void *arg)
{
	while (!atomic_load(&stop))
		gmp_checkpoint();
}

RT(a_loop_with_checkpoints_lets_the_others_run)
{
	gmp_g *g[5];

	for (int i = 0; i < 5; i++)
		g[i] = spawn(check_for_ever, NULL);
	/* Each of these comes back only because the loops give way. */
	for (int i = 0; i < 5; i++)
		gmp_yield();
	join(spawn(add_one, NULL));
	atomic_store(&stop, 1);
	for (int i = 0; i < 5; i++)
		join(g[i]);
}

RT(a_ready_green_thread_is_taken_from_a_p_that_is_busy)
{
	int64_t limit = gmp_deadline(PATIENCE);
	gmp_g *g[3];

	if (procs == 1)
		check_skip("takes a second P");
	for (int i = 0; i < 3; i++)
		g[i] = spawn(add_one, NULL);
	/* This loop never gives way: another P has to take all three, the runnext too. */
	while (atomic_load(&count) < 3)
		CHECK(gmp_now() < limit);
	for (int i = 0; i < 3; i++)
		join(g[i]);
}

static atomic_int met;

static void meet(void *arg)
{
	atomic_fetch_add(&met, 1);
	while (atomic_load(&met) < *(int *)arg)
		;
}

RT(as_many_run_at_once_as_there_are_ps)
{
	gmp_g *g[4];

	for (int round = 0; round < 20; round++) {
		atomic_store(&met, 0);
		for (int i = 0; i < procs; i++)
			g[i] = spawn(meet, &procs);
		for (int i = 0; i < procs; i++)
			join(g[i]);
	}
}
