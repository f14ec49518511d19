/* SPDX-License-Identifier: MIT */
/*
 * Runs that end at a random moment while green threads wait, run and block.
 *
 * Checks that shutdown does not hang, that no G runs after it, and that objects which outlive a run
 * work in the next one.
 */
#include "stress.h"

static gmp_mutex mu;
static gmp_rwmutex rw;
static gmp_wg wg;
static atomic_long steps;
static atomic_uint runs;

/* The green thread stays locked until it ends. */
static void check_lock_thread(void)
{
	int err = gmp_lock_thread();

	CHECK(err == 0 || err == -EAGAIN);
}

static void busy(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);

	for (;;) {
		atomic_fetch_add(&steps, 1);
		switch (draw(&r, 12)) {
		case 8: in_blocking_code(draw(&r, 4) ? 0 : draw(&r, 300)); break;
		case 9: check_lock_thread(); break;
		case 10:
			if (draw(&r, 100) == 0)
				kernel_sleep(draw(&r, 500)); /* outside of blocking code */
			break;
		case 0: gmp_sleep((int64_t)draw(&r, 200) * US); break;
		case 1:
			CHECK_EQ(gmp_mutex_lock(&mu), 0);
			gmp_yield();
			CHECK_EQ(gmp_mutex_unlock(&mu), 0);
			break;
		case 2:
			CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
			gmp_yield();
			CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
			break;
		case 3:
			if (gmp_rwmutex_lock_until(&rw, gmp_deadline(100 * US)) == 0) {
				gmp_yield();
				CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
			}
			break;
		case 4: gmp_wg_wait_until(&wg, gmp_deadline(draw(&r, 200) * US)); break;
		case 5:
			if (gmp_go(busy, (void *)(uintptr_t)draw(&r, 1 << 20)) == 0)
				return;
			break;
		case 6: gmp_checkpoint(); break;
		default: gmp_yield();
		}
	}
}

static void tick(UNUSED void *arg)
{
	atomic_fetch_add(&steps, 1);
}

static void app(UNUSED void *arg)
{
	struct rng r = rng_for(100000 + atomic_fetch_add(&runs, 1));
	unsigned n = draw(&r, 60);
	int a, b;

	gmp_wg_add(&wg, 1);
	for (unsigned i = 0; i < n; i++)
		CHECK_EQ(gmp_go(busy, (void *)(uintptr_t)(i + 1)), 0);
	make_pair(nets[draw(&r, 2)], &a, &b);
	reset_on_close(a);
	if (draw(&r, 3) == 0)
		gmp_sleep((int64_t)draw(&r, 3000) * US);
	for (unsigned i = draw(&r, 20); i > 0; i--)
		gmp_yield();
	close_pair(a, b);
}

TEST_PROCS(run_end_at_random_moment_leaves_objects_usable)
{
	int threads = count_threads(), fds = -1, n = 0;
	struct rng main_rng;

	stress_begin();
	main_rng = rng_for(0);
	do {
		gmp_timer *t = NULL;
		long seen;

		/* A lock whose owner was killed at shutdown stays locked: reset all. */
		memset(&mu, 0, sizeof(mu));
		memset(&rw, 0, sizeof(rw));
		memset(&wg, 0, sizeof(wg));
		if (draw(&main_rng, 2)) {
			run_procs(procs, app, NULL);
		} else {
			gmp_config c = GMP_CONFIG_INIT;
			gmp_g *g;

			c.procs = procs;
			CHECK_EQ(gmp_start(&c), 0);
			t = gmp_timer_new(tick, NULL);
			CHECK_EQ(gmp_timer_set(t, 0, (SANITIZED ? 2000 : 50) * US), 0);
			g = spawn(app, NULL);
			if (draw(&main_rng, 2))
				join(spawn(app, NULL));
			join(g);
			CHECK_EQ(gmp_stop(), 0);
			gmp_timer_free(t);
		}
		seen = atomic_load(&steps);
		if (n % 16 == 0)
			gmp_sleep(2 * MS);
		CHECK_EQ(atomic_load(&steps), seen);
		CHECK_EQ(gmp_wg_wait_until(&wg, 0), -ETIMEDOUT);
		WAIT_FOR(count_threads() == threads);
		if (fds < 0)
			fds = count_fds();
		CHECK_EQ(count_fds(), fds);
		n++;
	} while (!stress_over());
	fprintf(stderr, "%d runs\n", n);
}
