/* SPDX-License-Identifier: MIT */
/* Tests that gmp_set_procs changes the number of Ps while everything runs, and waits for nobody. */
#include "util.h"

static atomic_int together, most, release_all;

/* Notes how many run at the same instant. */
static void occupy(UNUSED void *arg)
{
	int n = atomic_fetch_add(&together, 1) + 1;
	int seen = atomic_load(&most);

	while (seen < n && !atomic_compare_exchange_weak(&most, &seen, n))
		;
	while (!atomic_load(&release_all))
		gmp_checkpoint();
}

RT(set_procs_returns_the_old_number)
{
	int old = procs;

	for (int n = 1; n <= 8; n++) {
		CHECK_EQ(gmp_set_procs(n), old);
		CHECK_EQ(gmp_procs(), n);
		CHECK_EQ(stats().procs, n);
		old = n;
	}
	for (int n = 8; n >= 1; n--) {
		CHECK_EQ(gmp_set_procs(n), old);
		CHECK_EQ(gmp_procs(), n);
		old = n;
		gmp_yield();
	}
	CHECK_EQ(gmp_set_procs(1), 1);
}

RT(set_procs_out_of_range_is_einval)
{
	CHECK_EQ(gmp_set_procs(0), -EINVAL);
	CHECK_EQ(gmp_set_procs(-1), -EINVAL);
	CHECK_EQ(gmp_set_procs(INT_MIN), -EINVAL);
	CHECK_EQ(gmp_set_procs(1025), -EINVAL);
	CHECK_EQ(gmp_set_procs(INT_MAX), -EINVAL);
	CHECK_EQ(gmp_procs(), procs);
}

TEST(set_procs_without_a_runtime_is_esrch)
{
	CHECK_EQ(gmp_set_procs(2), -ESRCH);
}

RT(after_growth_that_many_run_at_once)
{
	gmp_g *g[7];

	CHECK_EQ(gmp_set_procs(8), procs);
	for (int i = 0; i < 7; i++)
		g[i] = spawn(occupy, NULL);
	/* Each of the seven keeps its P to itself until all have been seen together. */
	WAIT_FOR(atomic_load(&together) == 7);
	atomic_store(&release_all, 1);
	for (int i = 0; i < 7; i++)
		join(g[i]);
}

static atomic_int inside, most_inside, inside_stop;

/* Counts those that run between two yields, and its own turns. */
static void count_inside(void *arg)
{
	atomic_long *turns = arg;

	while (!atomic_load(&inside_stop)) {
		int n = atomic_fetch_add(&inside, 1) + 1;
		int seen = atomic_load(&most_inside);

		while (seen < n && !atomic_compare_exchange_weak(&most_inside, &seen, n))
			;
		for (int i = 0; i < 200; i++)
			__asm__ volatile("" ::: "memory");
		atomic_fetch_sub(&inside, 1);
		atomic_fetch_add(turns, 1);
		gmp_yield();
	}
}

/* Each of them has been through n more switches. */
static void wait_turns(atomic_long *turns, int count, long n)
{
	for (int i = 0; i < count; i++) {
		long seen = atomic_load(&turns[i]);

		WAIT_FOR(atomic_load(&turns[i]) >= seen + n);
	}
}

RT(after_shrinking_no_more_than_that_many_run_at_once)
{
	static atomic_long turns[16];
	gmp_g *g[16];

	CHECK_EQ(gmp_set_procs(4), procs);
	for (int i = 0; i < 16; i++)
		g[i] = spawn(count_inside, &turns[i]);
	wait_turns(turns, 16, 10);
	CHECK_EQ(gmp_set_procs(1), 4);
	/* The Ps that are to go go at their next switch. */
	wait_turns(turns, 16, 3);
	atomic_store(&most_inside, 0);
	wait_turns(turns, 16, 100);
	CHECK(atomic_load(&most_inside) == 1 || stats().spares > 0); /* for one that stood still */
	atomic_store(&inside_stop, 1);
	for (int i = 0; i < 16; i++)
		join(g[i]);
}

static atomic_int spinning, spin_stop;

static void spin_hard(UNUSED void *arg)
{
	atomic_fetch_add(&spinning, 1);
	while (!atomic_load(&spin_stop))
		;
	atomic_fetch_sub(&spinning, 1);
}

TEST(set_procs_does_not_wait_for_a_running_green_thread)
{
	gmp_config c = GMP_CONFIG_INIT;
	gmp_g *g[3], *h;

	c.procs = 4;
	CHECK_EQ(gmp_start(&c), 0);
	for (int i = 0; i < 3; i++)
		g[i] = spawn(spin_hard, NULL);
	WAIT_FOR(atomic_load(&spinning) == 3);
	/* Three Ps are busy with threads that never switch: neither call may wait for them. */
	CHECK_EQ(gmp_set_procs(1), 4);
	CHECK_EQ(gmp_procs(), 1);
	CHECK_EQ(gmp_set_procs(6), 1);
	CHECK_EQ(gmp_procs(), 6);
	h = spawn(occupy, NULL);
	WAIT_FOR(atomic_load(&together) == 1);
	atomic_store(&release_all, 1);
	join(h);
	CHECK_EQ(atomic_load(&spinning), 3);
	atomic_store(&spin_stop, 1);
	for (int i = 0; i < 3; i++)
		join(g[i]);
	CHECK_EQ(gmp_stop(), 0);
}

static void add_one(void *arg)
{
	gmp_yield();
	atomic_fetch_add((atomic_int *)arg, 1);
}

RT(what_was_queued_on_a_p_that_goes_still_runs)
{
	static atomic_int count;
	enum { N = 1000 };
	static gmp_g *g[N];

	for (int round = 0; round < (SLOW ? 3 : 10); round++) {
		atomic_store(&count, 0);
		CHECK(gmp_set_procs(4) > 0);
		for (int i = 0; i < N; i++) {
			g[i] = spawn(add_one, &count);
			if (i % 100 == 50)
				CHECK(gmp_set_procs(1 + i / 100 % 4) > 0);
		}
		CHECK(gmp_set_procs(1) > 0);
		for (int i = 0; i < N; i++)
			join(g[i]);
		CHECK_EQ(atomic_load(&count), N);
	}
}

static atomic_int asleep;

static void sleep_a_little(void *arg)
{
	atomic_fetch_add(&asleep, 1);
	gmp_sleep(20 * MS);
	atomic_fetch_add((atomic_int *)arg, 1);
}

RT(timers_of_a_p_that_goes_still_fire)
{
	static atomic_int count;
	enum { N = 200 };
	static gmp_g *g[N];

	CHECK(gmp_set_procs(4) > 0);
	for (int i = 0; i < N; i++)
		g[i] = spawn(sleep_a_little, &count);
	WAIT_FOR(atomic_load(&asleep) == N);
	CHECK_EQ(gmp_set_procs(1), 4);
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&count), N);
}

static void burn(int64_t ns)
{
	int64_t until = gmp_now() + ns;

	while (gmp_now() < until)
		;
}

static void nap(UNUSED void *arg)
{
	gmp_sleep(5 * MS);
}

RT(a_green_thread_on_a_p_that_goes_is_no_deadlock)
{
	for (int i = 0; i < 30; i++) {
		CHECK(gmp_set_procs(4) > 0);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(gmp_go(nap, NULL), 0);
		gmp_sleep(100 * US);
		burn(MS);
		CHECK_EQ(gmp_set_procs(1), 4);
		/* The others fall asleep meanwhile; this one runs, though perhaps on none of the
		 * Ps that count. */
		burn(10 * MS);
		gmp_yield();
	}
}

static void spin_till_stop(UNUSED void *arg)
{
	atomic_fetch_add(&spinning, 1);
	while (!atomic_load(&spin_stop))
		;
	atomic_fetch_sub(&spinning, 1);
}

RT(timers_fire_after_the_other_p_has_gone)
{
	for (int i = 0; i < 300; i++) {
		gmp_g *g;

		CHECK(gmp_set_procs(2) > 0);
		gmp_yield(); /* a P that was alone is open to thieves from its next switch on */
		atomic_store(&spin_stop, 0);
		g = spawn(spin_till_stop, NULL);
		while (!atomic_load(&spinning)) /* on the other P: this loop gives way to nobody */
			;
		CHECK_EQ(gmp_set_procs(1), 2);
		atomic_store(&spin_stop, 1);
		burn(300 * US);
		gmp_sleep(MS);
		join(g);
	}
}

static atomic_int resize_stop;

static void resize(void *arg)
{
	unsigned n = (unsigned)(uintptr_t)arg;

	while (!atomic_load(&resize_stop)) {
		CHECK(gmp_set_procs((int)(1 + n++ % 6)) > 0);
		gmp_yield();
	}
}

RT(resizing_from_several_threads_at_once_loses_nothing)
{
	static atomic_int count;
	static gmp_g *g[100];
	gmp_g *r[2];
	struct ext_thread f;

	r[0] = spawn(resize, (void *)1);
	r[1] = spawn(resize, (void *)3);
	ext_thread_start(&f, resize, (void *)5);
	for (int round = 0; round < (SLOW ? 20 : 200); round++) {
		for (int i = 0; i < 100; i++)
			g[i] = spawn(i % 10 ? add_one : occupy, &count);
		atomic_store(&release_all, 1);
		for (int i = 0; i < 100; i++)
			join(g[i]);
	}
	CHECK_EQ(atomic_load(&count), 90 * (SLOW ? 20 : 200));
	atomic_store(&resize_stop, 1);
	join(r[0]);
	join(r[1]);
	ext_thread_join(&f);
}

static atomic_int met;

static void meet(void *arg)
{
	atomic_fetch_add(&met, 1);
	while (atomic_load(&met) < *(int *)arg)
		;
}

RT(all_ps_are_there_after_resizing_from_several_threads)
{
	int all = 6;

	for (int round = 0; round < (SLOW ? 5 : 50); round++) {
		gmp_g *r[3], *g[6];
		struct ext_thread f;

		atomic_store(&resize_stop, 0);
		for (int i = 0; i < 3; i++)
			r[i] = spawn(resize, (void *)(intptr_t)i);
		ext_thread_start(&f, resize, (void *)5);
		for (int i = 0; i < 100; i++)
			gmp_sleep(20 * US);
		atomic_store(&resize_stop, 1);
		for (int i = 0; i < 3; i++)
			join(r[i]);
		ext_thread_join(&f);
		CHECK(gmp_set_procs(all) > 0);
		CHECK_EQ(gmp_procs(), all);
		/* Each keeps its P until all six have one. */
		atomic_store(&met, 0);
		for (int i = 0; i < all; i++)
			g[i] = spawn(meet, &all);
		for (int i = 0; i < all; i++)
			join(g[i]);
	}
}

static void resize_once(void *arg)
{
	*(int *)arg = gmp_set_procs(3);
}

RT(set_procs_works_from_a_foreign_thread)
{
	struct ext_thread f;
	int old = 0;

	ext_thread_start(&f, resize_once, &old);
	ext_thread_join(&f);
	CHECK_EQ(old, procs);
	CHECK_EQ(gmp_procs(), 3);
}
