/* SPDX-License-Identifier: MIT */
/*
 * Tests locks with programs of the same intent as Go's src/sync/{mutex,rwmutex}_test.go; each
 * section names its counterpart.
 */
#include "go_util.h"

static gmp_rwmutex rw;

/* --- mutex_test.go: TestSemaphore --- */

static gmp_sem sem;
static int counter; /* guarded by the lock under test */

static void hammer_sem(UNUSED void *arg)
{
	for (long i = 0, n = check_scaled(1000); i < n; i++) {
		CHECK_EQ(gmp_sem_acquire(&sem), 0);
		counter++;
		CHECK_EQ(gmp_sem_release(&sem, 1), 0);
	}
}

GO_MAIN(sem_of_one_acts_as_mutex)
{
	gmp_g *g[10];

	counter = 0;
	sem = (gmp_sem)GMP_SEM_INIT(1);
	spawn_all(hammer_sem, NULL, g, 10);
	join_all(g, 10);
	CHECK_EQ(counter, 10 * check_scaled(1000));
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
		counter++;
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
}

GO_MAIN(mutex_contended_lock_and_try_lock_exclude)
{
	gmp_g *g[10];
	long n = check_scaled(10000);

	counter = 0;
	CHECK_EQ(gmp_mutex_lock(&m), 0);
	CHECK_EQ(gmp_mutex_try_lock(&m), -EAGAIN);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
	spawn_all(hammer_mutex, &n, g, 10);
	join_all(g, 10);
	CHECK_EQ(counter, 10 * (n - (n + 2) / 3));
	CHECK_EQ(gmp_mutex_try_lock(&m), 0);
	CHECK_EQ(gmp_mutex_unlock(&m), 0);
}

/* --- TestMutexFairness --- */

static atomic_int enough;

/* Holds the mutex except between an unlock and the next lock. */
static void hold_repeatedly(UNUSED void *arg)
{
	while (!atomic_load(&enough)) {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		CHECK_EQ(gmp_sleep(100 * US), 0);
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
}

GO_MAIN(mutex_repeated_holder_does_not_starve_waiter)
{
	gmp_g *g = spawn(hold_repeatedly, NULL);

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

GO_MAIN(rwmutex_readers_hold_lock_together)
{
	for (int readers = 1; readers <= 10; readers++) {
		struct crowd *c = make_memory(sizeof(*c));

		*c = (struct crowd){ make_ints(0), make_ints(0), make_ints(0) };
		for (int i = 0; i < readers; i++)
			go(read_in_a_crowd, c);
		for (int i = 0; i < readers; i++)
			get_int(c->locked); /* all of them hold the lock */
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

enum { WRITER = 10000 }; /* weight of a writer; a reader has weight 1 */

static atomic_int activity;

static void count_holder(int weight)
{
	int now = atomic_fetch_add(&activity, weight) + weight;

	CHECK(weight == WRITER ? now == WRITER : now >= 1 && now < WRITER);
	for (volatile int i = 0; i < 100; i++)
		;
	atomic_fetch_sub(&activity, weight);
}

static void hammer_readers(void *rounds)
{
	for (long i = 0, n = *(long *)rounds; i < n; i++) {
		if (i % 4 == 3 ? gmp_rwmutex_try_rlock(&rw) : gmp_rwmutex_rlock(&rw))
			continue;
		count_holder(1);
		CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	}
}

static void hammer_writers(void *rounds)
{
	for (long i = 0, n = *(long *)rounds; i < n; i++) {
		if (i % 4 == 3 ? gmp_rwmutex_try_lock(&rw) : gmp_rwmutex_lock(&rw))
			continue;
		count_holder(WRITER);
		counter++;
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	}
}

/* Two writers; the readers are spawned between and after them. */
GO_MAIN(rwmutex_contended_readers_and_writers_exclude)
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

GO_MAIN(rwmutex_try_calls_return_eagain_if_held)
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

struct alternation {
	gmp_chan *written, *read;
	int n;
};

static void write_in_turn(void *arg)
{
	struct alternation *t = arg;

	for (int i = 0; i < t->n; i++) {
		CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_lock_until(&rw, 0), -ETIMEDOUT);
		put_int(t->written, i);
		put_int(t->written, i);
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
		get_int(t->read);
	}
}

GO_MAIN(rwmutex_writer_and_readers_alternate)
{
	struct alternation *t = make_memory(sizeof(*t));

	*t = (struct alternation){ make_ints(0), make_ints(0), 10 };
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
