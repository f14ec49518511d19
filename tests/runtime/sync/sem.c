/* SPDX-License-Identifier: MIT */
/* Tests gmp_sem: permits, FIFO order, races with cancel and timeout, lifetime, shutdown. */
#include "util.h"

enum { N = 16 };

static gmp_sem s;
static atomic_int inside, most, next_place, entered, order[N];

RT(sem_acquire_succeeds_once_per_permit)
{
	gmp_sem three = GMP_SEM_INIT(3), zero = { 0 };

	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_sem_acquire(&three), 0);
	CHECK_EQ(gmp_sem_try_acquire(&three), -EAGAIN);
	CHECK_EQ(gmp_sem_acquire_until(&three, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_sem_acquire_until(&three, 0), -ETIMEDOUT);
	CHECK_EQ(gmp_sem_release(&three, 2), 0);
	CHECK_EQ(gmp_sem_acquire_until(&three, 0), 0);
	CHECK_EQ(gmp_sem_try_acquire(&three), 0);
	CHECK_EQ(gmp_sem_try_acquire(&three), -EAGAIN);
	CHECK_EQ(gmp_sem_try_acquire(&zero), -EAGAIN);
}

RT(sem_release_bad_count_is_rejected)
{
	gmp_sem x = GMP_SEM_INIT(5);

	CHECK_EQ(gmp_sem_release(&x, 0), -EINVAL);
	CHECK_EQ(gmp_sem_release(&x, -3), -EINVAL);
	CHECK_EQ(gmp_sem_release(&x, INT32_MAX), -EOVERFLOW);
	CHECK_EQ(gmp_sem_release(&x, INT32_MAX - 5), 0);
	CHECK_EQ(gmp_sem_release(&x, 1), -EOVERFLOW);
	CHECK_EQ(gmp_sem_acquire(&x), 0);
	CHECK_EQ(gmp_sem_release(&x, 1), 0);
}

/* order[] is written before `entered` counts it. */
static void acquire(void *arg)
{
	CHECK_EQ(gmp_sem_acquire(&s), 0);
	atomic_store(&order[atomic_fetch_add(&next_place, 1)], (int)(intptr_t)arg);
	atomic_fetch_add(&entered, 1);
}

RT(sem_waiters_are_served_in_fifo_order)
{
	gmp_g *g[N];

	atomic_store(&entered, 0);
	for (int i = 0; i < N; i++) {
		g[i] = spawn(acquire, (void *)(intptr_t)i);
		wait_parked((uint64_t)i + 1);
	}
	for (int i = 0; i < N; i++) {
		CHECK_EQ(gmp_sem_release(&s, 1), 0);
		/* the permit is reserved for the waiter */
		CHECK_EQ(gmp_sem_try_acquire(&s), -EAGAIN);
		WAIT_FOR(atomic_load(&entered) == i + 1);
		CHECK_EQ(atomic_load(&order[i]), i);
	}
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(s.state, 0);
}

RT(sem_release_n_wakes_n_waiters_and_keeps_rest)
{
	gmp_g *g[N];

	atomic_store(&entered, 0);
	for (int i = 0; i < N; i++)
		g[i] = spawn(acquire, (void *)(intptr_t)i);
	wait_parked(N);
	CHECK_EQ(gmp_sem_release(&s, N + 2), 0);
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(gmp_sem_acquire(&s), 0);
	CHECK_EQ(gmp_sem_acquire(&s), 0);
	CHECK_EQ(gmp_sem_try_acquire(&s), -EAGAIN);
}

static void be_cancelled(UNUSED void *arg)
{
	CHECK_EQ(gmp_sem_acquire(&s), -ECANCELED);
}

RT(sem_cancelled_waiter_takes_no_permit)
{
	gmp_g *g[N];

	for (int i = 0; i < N; i++)
		g[i] = spawn(be_cancelled, NULL);
	wait_parked(N);
	for (int i = 0; i < N; i++)
		CHECK_EQ(gmp_cancel(g[i]), 0);
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(gmp_sem_acquire_until(&s, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_sem_release(&s, 1), 0);
	CHECK_EQ(gmp_sem_try_acquire(&s), 0);
	CHECK_EQ(s.state, 0);
}

static void acquire_and_release(UNUSED void *arg)
{
	for (int i = 0; i < 1000; i++) {
		int err = i % 3 ? gmp_sem_acquire(&s)
				: gmp_sem_acquire_until(&s, gmp_deadline(50 * US));

		if (err) {
			CHECK_EQ(err, -ETIMEDOUT);
			continue;
		}
		int now = atomic_fetch_add(&inside, 1) + 1;

		if (now > atomic_load(&most))
			atomic_store(&most, now);
		if (i % 7 == 0)
			gmp_yield();
		atomic_fetch_sub(&inside, 1);
		CHECK_EQ(gmp_sem_release(&s, 1), 0);
	}
}

RT(sem_holders_never_exceed_permits)
{
	gmp_g *g[8];
	struct ext_thread f[2];

	atomic_store(&most, 0);
	CHECK_EQ(gmp_sem_release(&s, 3), 0);
	for (int i = 0; i < 2; i++)
		ext_thread_start(&f[i], acquire_and_release, NULL);
	for (int i = 0; i < 8; i++)
		g[i] = spawn(acquire_and_release, NULL);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	for (int i = 0; i < 2; i++)
		ext_thread_join(&f[i]);
	CHECK(atomic_load(&most) <= 3);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_sem_try_acquire(&s), 0);
	CHECK_EQ(s.state, 0);
}

RT(sem_release_of_int32_max_serves_waiter)
{
	gmp_g *g = spawn(acquire, NULL);

	wait_parked(1);
	CHECK_EQ(gmp_sem_release(&s, INT32_MAX), 0);
	join(g);
	CHECK_EQ(gmp_sem_release(&s, 2), -EOVERFLOW);
	CHECK_EQ(gmp_sem_release(&s, 1), 0);
	CHECK_EQ(gmp_sem_release(&s, 1), -EOVERFLOW);
	s = (gmp_sem)GMP_SEM_INIT(0);
}

static void acquire_until_timeout(UNUSED void *arg)
{
	CHECK_EQ(gmp_sem_acquire_until(&s, gmp_deadline(MS)), -ETIMEDOUT);
}

RT(sem_cancel_keeps_fifo_order_of_other_waiters)
{
	gmp_g *g[N], *gone[N];

	atomic_store(&entered, 0);
	for (int i = 0; i < N; i++) {
		g[i] = spawn(acquire, (void *)(intptr_t)i);
		gone[i] = i % 2 ? spawn(be_cancelled, NULL) : NULL;
		WAIT_FOR(stats().greens_waiting == (uint64_t)i + 1 + (uint64_t)(i + 1) / 2);
	}
	for (int i = 1; i < N; i += 2)
		CHECK_EQ(gmp_cancel(gone[i]), 0);
	for (int i = 1; i < N; i += 2)
		join(gone[i]);
	join(spawn(acquire_until_timeout, NULL));
	for (int i = 0; i < N; i++) {
		CHECK_EQ(gmp_sem_release(&s, 1), 0);
		WAIT_FOR(atomic_load(&entered) == i + 1);
		CHECK_EQ(atomic_load(&order[i]), i);
	}
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(s.state, 0);
}

/* --- a release that races with cancel or timeout --- */

static atomic_int result;

static void acquire_with(void *patience)
{
	int64_t d = patience ? gmp_deadline((int64_t)(intptr_t)patience * US) : GMP_FOREVER;

	atomic_store(&result, gmp_sem_acquire_until(&s, d));
}

static void release_one(UNUSED void *arg)
{
	CHECK_EQ(gmp_sem_release(&s, 1), 0);
}

static void cancel_g(void *g)
{
	CHECK_EQ(gmp_cancel(g), 0);
}

/* The permit was either taken or is still free. */
static void check_permit(int otherwise)
{
	int r = atomic_load(&result);

	CHECK(r == 0 || r == otherwise);
	CHECK_EQ(gmp_sem_try_acquire(&s), r ? 0 : -EAGAIN);
	CHECK_EQ(s.state, 0);
}

RT(sem_release_racing_cancel_loses_no_permit)
{
	for (long i = 0, n = check_scaled(2000); i < n; i++) {
		gmp_g *g = spawn(acquire_with, NULL), *one, *two;

		if (i % 3)
			wait_parked(1);
		one = i % 2 ? spawn(release_one, NULL) : spawn(cancel_g, g);
		two = i % 2 ? spawn(cancel_g, g) : spawn(release_one, NULL);
		join(one);
		join(two);
		join(g);
		check_permit(-ECANCELED);
	}
}

RT(sem_release_racing_timeout_loses_no_permit)
{
	for (long i = 0, n = check_scaled(2000); i < n; i++) {
		gmp_g *g = spawn(acquire_with, (void *)(1 + i % 30));

		while (gmp_sem_release(&s, 1) != 0)
			;
		join(g);
		check_permit(-ETIMEDOUT);
	}
}

RT(sem_release_racing_external_timeout_loses_no_permit)
{
	for (long i = 0, n = check_scaled(200); i < n; i++) {
		struct ext_thread f;

		ext_thread_start(&f, acquire_with, (void *)(1 + i % 100));
		if (i % 2)
			gmp_sleep(50 * US);
		CHECK_EQ(gmp_sem_release(&s, 1), 0);
		ext_thread_join(&f);
		check_permit(-ETIMEDOUT);
	}
}

/* --- cancelled --- */

static void use_cancelled(UNUSED void *arg)
{
	CHECK_EQ(gmp_cancel(gmp_self()), 0);
	CHECK_EQ(gmp_sem_release(&s, 2), 0);
	CHECK_EQ(gmp_sem_acquire(&s), 0);
	CHECK_EQ(gmp_sem_acquire_until(&s, 0), 0);
	CHECK_EQ(gmp_sem_try_acquire(&s), -EAGAIN);
	CHECK_EQ(gmp_sem_acquire_until(&s, 0), -ECANCELED);
	CHECK_EQ(gmp_sem_acquire(&s), -ECANCELED);
	CHECK_EQ(gmp_cancel_mask(1), 0);
	CHECK_EQ(gmp_sem_acquire_until(&s, gmp_deadline(MS)), -ETIMEDOUT);
	atomic_store(&entered, 1);
	CHECK_EQ(gmp_sem_acquire(&s), 0);
	CHECK_EQ(gmp_cancel_mask(0), 0);
}

RT(sem_acquire_by_cancelled_g_takes_free_permit)
{
	atomic_store(&entered, 0);
	gmp_g *g = spawn(use_cancelled, NULL);

	WAIT_FOR(atomic_load(&entered));
	CHECK_EQ(gmp_join_until(g, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_sem_release(&s, 1), 0);
	join(g);
	CHECK_EQ(s.state, 0);
}

/* --- lifetime --- */

static void acquire_and_free(void *arg)
{
	gmp_sem *x = arg;

	CHECK_EQ(gmp_sem_acquire(x), 0);
	memset(x, 0xee, sizeof(*x));
	free(x);
}

RT(sem_freed_by_acquirer_is_not_used_again)
{
	for (long i = 0, n = check_scaled(3000); i < n; i++) {
		gmp_sem *x = calloc(1, sizeof(*x));
		struct ext_thread f;
		gmp_g *g = NULL;

		CHECK(x != NULL);
		if (i % 30)
			g = spawn(acquire_and_free, x);
		else
			ext_thread_start(&f, acquire_and_free, x);
		if (i % 3)
			gmp_yield();
		CHECK_EQ(gmp_sem_release(x, 1), 0);
		if (g)
			join(g);
		else
			ext_thread_join(&f);
	}
}

/* --- without a runtime, and across shutdown --- */

TEST(sem_without_runtime_works_for_external_threads)
{
	struct ext_thread f[4];

	CHECK_EQ(gmp_sem_release(&s, 2), 0);
	for (int i = 0; i < 4; i++)
		ext_thread_start(&f[i], acquire_and_release, NULL);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(f[i].thread, NULL), 0);
	CHECK(atomic_load(&most) <= 2);
	CHECK_EQ(gmp_sem_try_acquire(&s), 0);
	CHECK_EQ(gmp_sem_try_acquire(&s), 0);
	CHECK_EQ(gmp_sem_acquire_until(&s, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(s.state, 0);
}

static void acquire_forever(UNUSED void *arg)
{
	gmp_sem_acquire(&s);
	CHECK(!"a green thread that was killed at shutdown ran on");
}

static void acquire_external(UNUSED void *arg)
{
	atomic_store(&result, gmp_sem_acquire(&s));
}

static struct ext_thread external;

static void leave_waiters(UNUSED void *arg)
{
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_go(acquire_forever, NULL), 0);
	wait_parked(3);
	ext_thread_start(&external, acquire_external, NULL);
}

TEST_PROCS(sem_killed_waiters_take_no_permit)
{
	for (int i = 0; i < 5; i++) {
		run_procs(procs, leave_waiters, NULL);
		CHECK_EQ(gmp_sem_release(&s, 1), 0);
		CHECK_EQ(pthread_join(external.thread, NULL), 0);
		CHECK_EQ(atomic_load(&result), 0);
		CHECK_EQ(s.state, 0);
	}
}
