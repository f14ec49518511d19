/* SPDX-License-Identifier: MIT */
/*
 * Do locks do what Go's public tests ask of them?  Programs of the same intent as those of
 * src/sync/{mutex,rwmutex}_test.go; each section names its own.
 */
#include "go_util.h"

static gmp_rwmutex rw;

/* --- mutex_test.go: TestSemaphore --- */

static gmp_sem sem;
static int plain; /* guarded by whatever is tested */

static void hammer_sem(UNUSED void *arg)
{
	for (long i = 0, n = check_scaled(1000); i < n; i++) {
		CHECK_EQ(gmp_sem_acquire(&sem), 0);
		plain++;
		CHECK_EQ(gmp_sem_release(&sem, 1), 0);
	}
}

GO_MAIN(a_semaphore_of_one_is_a_lock)
{
	gmp_g *g[10];

	plain = 0;
	sem = (gmp_sem)GMP_SEM_INIT(1);
	spawn_all(hammer_sem, NULL, g, 10);
	join_all(g, 10);
	CHECK_EQ(plain, 10 * check_scaled(1000));
	CHECK_EQ(gmp_sem_try_acquire(&sem), 0);
	CHECK_EQ(gmp_sem_try_acquire(&sem), -EAGAIN);
}

/* --- TestMutex --- */

static gmp_mutex m;

static void hammer_mutex(void *rounds)
{
	for (long i = 0, n = *(long *)rounds; i < n; i++) {
		if (i % 3 == 0) {
			int err = gmp_mutex_try_lock(&m);

			CHECK(err == 0 || err == -EAGAIN);
			if (err == 0)
				CHECK_EQ(gmp_mutex_unlock(&m), 0);
			continue;
		}
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		plain++;
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
}

GO_MAIN(a_hammered_mutex_holds)
{
	gmp_g *g[10];
	long n = check_scaled(10000);

	plain = 0;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_mutex_try_lock(&m), -EAGAIN);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	spawn_all(hammer_mutex, &n, g, 10);
	join_all(g, 10);
	CHECK_EQ(plain, 10 * (n - (n + 2) / 3));
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

/* --- TestMutexFairness --- */

static atomic_int enough;

/* Holds it all the time, but for the instant between an unlock and the next lock. */
static void hog(UNUSED void *arg)
{
	while (!atomic_load(&enough)) {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_sleep(100 * US), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
}

GO_MAIN(a_hog_does_not_starve_the_others)
{
	gmp_g *g = spawn(hog, NULL);

	atomic_store(&enough, 0);
	for (int i = 0; i < 10; i++) {
		CHECK_EQ(gmp_sleep(100 * US), 0);
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
	atomic_store(&enough, 1);
	join(g);
}

/* --- rwmutex_test.go: TestParallelReaders --- */

struct crowd {
	gmp_chan *locked, *unlock, *done;
};

static void read_in_a_crowd(void *arg)
{
	struct crowd *c = arg;

	CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
	put_int(c->locked, 1);
	get_int(c->unlock);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	put_int(c->done, 1);
}

GO_MAIN(readers_are_inside_together)
{
	for (int readers = 1; readers <= 10; readers++) {
		struct crowd *c = make_memory(sizeof(*c));

		*c = (struct crowd){ make_ints(0), make_ints(0), make_ints(0) };
		for (int i = 0; i < readers; i++)
			go(read_in_a_crowd, c);
		for (int i = 0; i < readers; i++)
			get_int(c->locked); /* all of them are in */
		CHECK_EQ(gmp_rwmutex_try_lock(&rw), -EAGAIN);
		for (int i = 0; i < readers; i++)
			put_int(c->unlock, 1);
		for (int i = 0; i < readers; i++)
			get_int(c->done);
		CHECK_EQ(gmp_rwmutex_try_lock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	}
}

/* --- HammerRWMutex, TestRLocker --- */

enum { WRITER = 10000 }; /* what a writer counts for */

static atomic_int activity;

static void stay_for(int of_what)
{
	int now = atomic_fetch_add(&activity, of_what) + of_what;

	CHECK(of_what == WRITER ? now == WRITER : now >= 1 && now < WRITER);
	for (volatile int i = 0; i < 100; i++)
		;
	atomic_fetch_sub(&activity, of_what);
}

static void hammer_readers(void *rounds)
{
	for (long i = 0, n = *(long *)rounds; i < n; i++) {
		if (i % 4 == 3 ? gmp_rwmutex_try_rlock(&rw) : gmp_rwmutex_rlock(&rw))
			continue;
		stay_for(1);
		CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	}
}

static void hammer_writers(void *rounds)
{
	for (long i = 0, n = *(long *)rounds; i < n; i++) {
		if (i % 4 == 3 ? gmp_rwmutex_try_lock(&rw) : gmp_rwmutex_lock(&rw))
			continue;
		stay_for(WRITER);
		plain++;
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	}
}

/* Two writers, as many readers before, between, and after them. */
GO_MAIN(a_hammered_rwmutex_holds)
{
	long n = check_scaled(500);

	for (int readers = 1; readers <= 10; readers++) {
		gmp_g *g[12];
		int k = 0;

		g[k++] = spawn(hammer_writers, &n);
		for (int i = 0; i < readers / 2; i++)
			g[k++] = spawn(hammer_readers, &n);
		g[k++] = spawn(hammer_writers, &n);
		for (int i = readers / 2; i < readers; i++)
			g[k++] = spawn(hammer_readers, &n);
		join_all(g, k);
		CHECK_EQ(atomic_load(&activity), 0);
		CHECK_EQ(gmp_rwmutex_try_lock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	}
}

GO_MAIN(tries_at_an_rwmutex_say_what_holds_it)
{
	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
}

struct turns {
	gmp_chan *written, *read;
	int n;
};

static void write_in_turn(void *arg)
{
	struct turns *t = arg;

	for (int i = 0; i < t->n; i++) {
		CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_lock_until(&rw, 0), -ETIMEDOUT);
		put_int(t->written, i);
		put_int(t->written, i);
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
		get_int(t->read);
	}
}

GO_MAIN(readers_and_a_writer_take_turns)
{
	struct turns *t = make_memory(sizeof(*t));

	*t = (struct turns){ make_ints(0), make_ints(0), 10 };
	go(write_in_turn, t);
	for (int i = 0; i < t->n; i++) {
		CHECK_EQ(get_int(t->written), i);
		CHECK_EQ(gmp_rwmutex_try_rlock(&rw), -EAGAIN);
		CHECK_EQ(get_int(t->written), i);
		CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_try_lock(&rw), -EAGAIN);
		CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
		put_int(t->read, i);
	}
}
