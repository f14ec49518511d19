/* SPDX-License-Identifier: MIT */
/* Tests that gmp_set_procs changes the number of Ps while Gs run, without waiting for any G. */
#include "util.h"

static atomic_int together, most, release_all;

/* Record the largest number of Gs that run at the same instant. */
static void occupy(UNUSED void *arg)
{
	int n = atomic_fetch_add(&together, 1) + 1;
	int seen = atomic_load(&most);

	while (seen < n && !atomic_compare_exchange_weak(&most, &seen, n))
		;
	while (!atomic_load(&release_all))
		gmp_checkpoint();
}

RT(set_procs_returns_previous_number)
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

RT(set_procs_out_of_range_returns_einval)
{
	CHECK_EQ(gmp_set_procs(0), -EINVAL);
	CHECK_EQ(gmp_set_procs(-1), -EINVAL);
	CHECK_EQ(gmp_set_procs(INT_MIN), -EINVAL);
	CHECK_EQ(gmp_set_procs(1025), -EINVAL);
	CHECK_EQ(gmp_set_procs(INT_MAX), -EINVAL);
	CHECK_EQ(gmp_procs(), procs);
}

TEST(set_procs_without_runtime_returns_esrch)
{
	CHECK_EQ(gmp_set_procs(2), -ESRCH);
}

RT(set_procs_up_runs_that_many_gs_at_once)
{
	gmp_g *g[7];

	CHECK_EQ(gmp_set_procs(8), procs);
	for (int i = 0; i < 7; i++)
		g[i] = spawn(occupy, NULL);
	/* Each of the seven Gs keeps its P until all seven run at once. */
	WAIT_FOR(atomic_load(&together) == 7);
	atomic_store(&release_all, 1);
	for (int i = 0; i < 7; i++)
		join(g[i]);
}

static atomic_int inside, most_inside, inside_stop;

/* Count the Gs that run at once between two yields, and the rounds of this G. */
static void count_inside(void *arg)
{
	atomic_long *rounds = arg;

	while (!atomic_load(&inside_stop)) {
		int n = atomic_fetch_add(&inside, 1) + 1;
		int seen = atomic_load(&most_inside);

		while (seen < n && !atomic_compare_exchange_weak(&most_inside, &seen, n))
			;
		for (int i = 0; i < 200; i++)
			__asm__ volatile("" ::: "memory");
		atomic_fetch_sub(&inside, 1);
		atomic_fetch_add(rounds, 1);
		gmp_yield();
	}
}

/* Wait until each G has made n more rounds. */
static void wait_rounds(atomic_long *rounds, int count, long n)
{
	for (int i = 0; i < count; i++) {
		long seen = atomic_load(&rounds[i]);

		WAIT_FOR(atomic_load(&rounds[i]) >= seen + n);
	}
}

RT(set_procs_down_runs_no_more_gs_at_once)
{
	static atomic_long rounds[16];
	gmp_g *g[16];

	CHECK_EQ(gmp_set_procs(4), procs);
	for (int i = 0; i < 16; i++)
		g[i] = spawn(count_inside, &rounds[i]);
	wait_rounds(rounds, 16, 10);
	CHECK_EQ(gmp_set_procs(1), 4);
	/* Removed Ps stop at their next switch. */
	wait_rounds(rounds, 16, 3);
	atomic_store(&most_inside, 0);
	wait_rounds(rounds, 16, 100);
	/* or a G that was descheduled inside has lost its P */
	CHECK(atomic_load(&most_inside) == 1 || stats().preemptions > 0);
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

TEST(set_procs_does_not_wait_for_running_green_thread)
{
	gmp_config c = GMP_CONFIG_INIT;
	gmp_g *g[3], *h;

	c.procs = 4;
	CHECK_EQ(gmp_start(&c), 0);
	for (int i = 0; i < 3; i++)
		g[i] = spawn(spin_hard, NULL);
	WAIT_FOR(atomic_load(&spinning) == 3);
	/* Three Gs never switch: neither call may wait for their Ps. */
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

RT(set_procs_down_keeps_queued_gs_of_removed_p)
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

RT(set_procs_down_keeps_timers_of_removed_p)
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

RT(set_procs_down_with_running_g_is_no_deadlock)
{
	for (int i = 0; i < 30; i++) {
		CHECK(gmp_set_procs(4) > 0);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(gmp_go(nap, NULL), 0);
		gmp_sleep(100 * US);
		burn(MS);
		CHECK_EQ(gmp_set_procs(1), 4);
		/* The other Gs sleep meanwhile; this G runs, perhaps on a removed P. */
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

RT(timer_fires_after_other_p_was_removed)
{
	for (int i = 0; i < 300; i++) {
		gmp_g *g;

		CHECK(gmp_set_procs(2) > 0);
		gmp_yield(); /* a single P can be stolen from only after its next switch */
		atomic_store(&spin_stop, 0);
		g = spawn(spin_till_stop, NULL);
		while (!atomic_load(&spinning)) /* on the other P: this loop never yields */
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

RT(set_procs_concurrent_loses_no_green_thread)
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

static atomic_int arrived;

static void arrive_and_wait(void *arg)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < *(int *)arg)
		;
}

RT(set_procs_concurrent_leaves_all_ps_usable)
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
		/* Each G keeps its P until all six run. */
		atomic_store(&arrived, 0);
		for (int i = 0; i < all; i++)
			g[i] = spawn(arrive_and_wait, &all);
		for (int i = 0; i < all; i++)
			join(g[i]);
	}
}

static void resize_once(void *arg)
{
	*(int *)arg = gmp_set_procs(3);
}

RT(set_procs_from_external_thread_works)
{
	struct ext_thread f;
	int old = 0;

	ext_thread_start(&f, resize_once, &old);
	ext_thread_join(&f);
	CHECK_EQ(old, procs);
	CHECK_EQ(gmp_procs(), 3);
}
