/* SPDX-License-Identifier: MIT */
/* What gmp_sem promises. */
#include "util.h"

enum { N = 16 };

static gmp_sem s;
static atomic_int inside, most, entered, order[N];

RT(as_many_as_there_are_permits_come_in)
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

RT(bad_numbers_are_refused)
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

static void acquire(void *arg)
{
	CHECK_EQ(gmp_sem_acquire(&s), 0);
	atomic_store(&order[atomic_fetch_add(&entered, 1)], (int)(intptr_t)arg);
}

RT(first_come_first_served)
{
	gmp_g *g[N];

	atomic_store(&entered, 0);
	for (int i = 0; i < N; i++) {
		g[i] = spawn(acquire, (void *)(intptr_t)i);
		wait_parked((uint64_t)i + 1);
	}
	for (int i = 0; i < N; i++) {
		CHECK_EQ(gmp_sem_release(&s, 1), 0);
		CHECK_EQ(gmp_sem_try_acquire(&s), -EAGAIN); /* it is not for newcomers */
		WAIT_FOR(atomic_load(&entered) == i + 1);
		CHECK_EQ(atomic_load(&order[i]), i);
	}
	for (int i = 0; i < N; i++)
		join(g[i]);
	CHECK_EQ(s.state, 0);
}

RT(a_release_of_many_serves_many_and_keeps_the_rest)
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

RT(no_permit_is_lost_to_one_who_gave_up)
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

static void come_and_go(UNUSED void *arg)
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

RT(never_more_inside_than_permits)
{
	gmp_g *g[8];
	struct foreign f[2];

	atomic_store(&most, 0);
	CHECK_EQ(gmp_sem_release(&s, 3), 0);
	for (int i = 0; i < 2; i++)
		foreign_start(&f[i], come_and_go, NULL);
	for (int i = 0; i < 8; i++)
		g[i] = spawn(come_and_go, NULL);
	for (int i = 0; i < 8; i++)
		join(g[i]);
	for (int i = 0; i < 2; i++)
		foreign_join(&f[i]);
	CHECK(atomic_load(&most) <= 3);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_sem_try_acquire(&s), 0);
	CHECK_EQ(s.state, 0);
}
