/* SPDX-License-Identifier: MIT */
/* Tests Gs of gmp_go that wait for their first run, in compact form, in the global queue. */
#include "rt.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

#define UNUSED __attribute__((unused))

static gmp_wg all;
static int64_t ran, begun;

static int64_t resident_bytes(void)
{
	long pages = 0, ignored;
	FILE *f = fopen("/proc/self/statm", "r");

	CHECK(f != NULL);
	CHECK_EQ(fscanf(f, "%ld %ld", &ignored, &pages), 2);
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

static void count(UNUSED void *arg)
{
	__atomic_add_fetch(&ran, 1, __ATOMIC_RELAXED);
	gmp_wg_done(&all);
}

static void flood(UNUSED void *arg)
{
	enum { N = SANITIZED ? 5000 : 500000 };
	gmp_stats s = GMP_STATS_INIT;
	int64_t before = resident_bytes();

	CHECK_EQ(gmp_wg_add(&all, N), 0);
	for (int i = 0; i < N; i++)
		CHECK_EQ(gmp_go(count, NULL), 0);
	int64_t each = (resident_bytes() - before) / N;

	CHECK_EQ(gmp_stats_get(&s), 0);
	CHECK_EQ(s.greens_runnable, N);
	CHECK(each < 64 || SANITIZED);
	CHECK_EQ(gmp_wg_wait(&all), 0);
	CHECK_EQ(ran, N);
	CHECK_EQ(gmp_stats_get(&s), 0);
	CHECK_EQ(s.greens_runnable, 0);
}

TEST(unstarted_flood_takes_less_than_64_bytes_each)
{
	run_cooperative(1, flood, NULL);
}

enum { MANY = 20000 };

static struct seen {
	int64_t runs;
	uint64_t id;
} seen[MANY];

static void see(void *arg)
{
	struct seen *s = arg;

	s->id = gmp_id(gmp_self());
	__atomic_add_fetch(&s->runs, 1, __ATOMIC_RELAXED);
	gmp_wg_done(&all);
}

static int by_id(const void *a, const void *b)
{
	uint64_t x = ((const struct seen *)a)->id, y = ((const struct seen *)b)->id;

	return (x > y) - (x < y);
}

static void go_all(UNUSED void *arg)
{
	CHECK_EQ(gmp_wg_add(&all, MANY), 0);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(gmp_go(see, &seen[i]), 0);
	CHECK_EQ(gmp_wg_wait(&all), 0);
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(seen[i].runs, 1);
	qsort(seen, MANY, sizeof(seen[0]), by_id);
	for (int i = 1; i < MANY; i++)
		CHECK(seen[i - 1].id < seen[i].id);
}

TEST_PROCS(unstarted_runs_once_with_its_argument_and_a_unique_id)
{
	run_procs(procs, go_all, NULL);
}

static void spawn_all(UNUSED void *arg)
{
	enum { N = 5000 };
	static gmp_g *g[N];

	CHECK_EQ(gmp_wg_add(&all, N), 0);
	for (int i = 0; i < N; i++)
		CHECK_EQ(gmp_spawn(&g[i], count, NULL, NULL), 0);
	for (int i = 0; i < N; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
	CHECK_EQ(ran, N);
}

TEST_PROCS(unstarted_with_a_handle_keeps_its_g_struct)
{
	run_procs(procs, spawn_all, NULL);
}

/* Each waits until all have begun, so that none gives its g struct back. */
static void wait_for_all(UNUSED void *arg)
{
	__atomic_add_fetch(&begun, 1, __ATOMIC_RELAXED);
	gmp_wg_done(&all);
	CHECK_EQ(gmp_wg_wait(&all), 0);
	__atomic_add_fetch(&ran, 1, __ATOMIC_RELAXED);
}

static void fill_to_the_limit(UNUSED void *arg)
{
	enum { LIMIT = 5000 };
	int n = 0, err;

	CHECK_EQ(gmp_wg_add(&all, LIMIT), 0);
	while ((err = gmp_go(wait_for_all, NULL)) == 0)
		n++;
	CHECK_EQ(err, -EAGAIN);
	CHECK_EQ(n, LIMIT - 1); /* and the caller */
	gmp_wg_done(&all);
	while (__atomic_load_n(&ran, __ATOMIC_RELAXED) < n)
		gmp_yield();
	CHECK_EQ(begun, n);
}

/* Several times, so that a reservation that is not given back shows. */
static void fill_again(void *arg)
{
	for (int i = 0; i < 3; i++) {
		ran = begun = 0;
		fill_to_the_limit(arg);
	}
}

TEST(unstarted_all_begin_although_max_green_is_reached)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = 1;
	c.flags = GMP_COOPERATIVE; /* the caller spawns them all before one runs */
	c.max_green = 5000;
	CHECK_EQ(gmp_run(fill_again, NULL, &c), 0);
}

static void fill_stack_memory(void *arg)
{
	int most = *(int *)arg;

	for (int round = 0; round < 3; round++) {
		int n = 0, err;

		ran = 0;
		CHECK_EQ(gmp_wg_add(&all, most), 0);
		while ((err = gmp_go(count, NULL)) == 0 && n <= most)
			n++;
		CHECK_EQ(err, -EAGAIN);
		CHECK(n >= most - 256 && n < most); /* batches that other Ps and the pool keep */
		for (int i = n; i < most; i++)
			gmp_wg_done(&all);
		CHECK_EQ(gmp_wg_wait(&all), 0);
		CHECK_EQ(ran, n);
	}
}

TEST(unstarted_counts_in_max_stack_memory)
{
	gmp_config c = GMP_CONFIG_INIT;
	int most = 6000;

	c.procs = 1;
	c.flags = GMP_COOPERATIVE; /* the caller spawns them all before one runs */
	c.stack_size = 64 << 10;
	c.max_stack_memory = (uint64_t)most * c.stack_size;
	CHECK_EQ(gmp_run(fill_stack_memory, &most, &c), 0);
}

static void leave_them(UNUSED void *arg)
{
	for (int i = 0; i < MANY; i++)
		CHECK_EQ(gmp_go(count, NULL), 0);
}

TEST(unstarted_is_killed_at_shutdown)
{
	for (int i = 0; i < 3; i++)
		run_cooperative(1, leave_them, NULL);
	CHECK_EQ(ran, 0);
	run_procs(2, go_all, NULL);
}
