/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_rwmutex: many readers or one writer; a waiting writer holds off new readers; a write
 * unlock first admits all queued readers together.
 */
#include "util.h"

static gmp_rwmutex rw = GMP_RWMUTEX_INIT;
static atomic_int readers, writers, count, writer_in, let_go, timed_out;
static long data_a, data_b;
static int rounds = 1500;

static void read_section(int yield)
{
	atomic_fetch_add(&readers, 1);
	CHECK_EQ(atomic_load(&writers), 0);
	CHECK_EQ(data_a, data_b);
	if (yield)
		gmp_yield();
	CHECK_EQ(atomic_load(&writers), 0);
	atomic_fetch_sub(&readers, 1);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
}

static void write_section(int yield)
{
	CHECK_EQ(atomic_fetch_add(&writers, 1), 0);
	CHECK_EQ(atomic_load(&readers), 0);
	CHECK_EQ(data_a, data_b);
	data_a++;
	if (yield)
		gmp_yield();
	data_b++;
	CHECK_EQ(atomic_load(&readers), 0);
	CHECK_EQ(atomic_fetch_sub(&writers, 1), 1);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
}

static void hammer(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg * 2654435761u + 7;

	for (int i = 0; i < rounds; i++) {
		int yield, err, write;
		int64_t soon;

		seed = seed * 1103515245 + 12345;
		yield = (seed >> 24 & 7) == 0;
		write = (seed >> 16 & 7) < 2;
		soon = gmp_deadline((seed >> 20 & 63) * US);
		switch (seed >> 27 & 3) {
		case 0:
			err = write ? gmp_rwmutex_try_lock(&rw) : gmp_rwmutex_try_rlock(&rw);
			CHECK(err == 0 || err == -EAGAIN);
			break;
		case 1:
			err = write ? gmp_rwmutex_lock_until(&rw, soon)
				    : gmp_rwmutex_rlock_until(&rw, soon);
			CHECK(err == 0 || err == -ETIMEDOUT);
			break;
		default:
			err = write ? gmp_rwmutex_lock(&rw) : gmp_rwmutex_rlock(&rw);
			CHECK_EQ(err, 0);
		}
		if (err != 0)
			continue;
		if (write)
			write_section(yield);
		else
			read_section(yield);
	}
}

static void after_hammer(void)
{
	CHECK_EQ(data_a, data_b);
	CHECK(data_a > 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
}

RT(rwmutex_writer_excludes_green_threads)
{
	run_crowd(hammer, 0, 20);
	after_hammer();
}

RT(rwmutex_writer_excludes_green_and_external_threads)
{
	run_crowd(hammer, 3, 10);
	after_hammer();
}

TEST(rwmutex_writer_without_runtime_excludes_threads)
{
	run_crowd(hammer, 6, 0);
	after_hammer();
}

static void check_try_and_until(UNUSED void *arg)
{
	gmp_rwmutex m;
	int64_t t;

	memset(&m, 0, sizeof(m));
	CHECK_EQ(gmp_rwmutex_rlock(&m), 0);
	CHECK_EQ(gmp_rwmutex_try_rlock(&m), 0);
	CHECK_EQ(gmp_rwmutex_rlock_until(&m, 0), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&m), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_lock_until(&m, 0), -ETIMEDOUT);
	t = gmp_now();
	CHECK_EQ(gmp_rwmutex_lock_until(&m, t + 3 * MS), -ETIMEDOUT);
	CHECK(gmp_now() >= t + 3 * MS);
	/* A writer that timed out no longer holds off readers. */
	CHECK_EQ(gmp_rwmutex_try_rlock(&m), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(gmp_rwmutex_try_lock(&m), -EAGAIN);
		CHECK_EQ(gmp_rwmutex_runlock(&m), 0);
	}
	CHECK_EQ(gmp_rwmutex_try_lock(&m), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&m), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_try_rlock(&m), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_rlock_until(&m, 0), -ETIMEDOUT);
	t = gmp_now();
	CHECK_EQ(gmp_rwmutex_rlock_until(&m, t + 3 * MS), -ETIMEDOUT);
	CHECK(gmp_now() >= t + 3 * MS);
	CHECK_EQ(gmp_rwmutex_lock_until(&m, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_rwmutex_unlock(&m), 0);
	CHECK_EQ(gmp_rwmutex_lock_until(&m, 0), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&m), 0);
	CHECK_EQ(gmp_rwmutex_lock_until(&m, GMP_FOREVER), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&m), 0);
	CHECK_EQ(gmp_rwmutex_rlock_until(&m, GMP_FOREVER), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&m), 0);
}

RT(rwmutex_try_and_until_return_eagain_and_etimedout)
{
	struct ext_thread f;

	check_try_and_until(NULL);
	ext_thread_start(&f, check_try_and_until, NULL);
	ext_thread_join(&f);
}

TEST(rwmutex_try_and_until_without_runtime_work)
{
	check_try_and_until(NULL);
}

/* Stay in the read section until `*arg` readers are inside. */
static void read_together(void *arg)
{
	CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
	atomic_fetch_add(&readers, 1);
	CHECK_EQ(atomic_load(&writers), 0);
	WAIT_FOR(atomic_load(&readers) == *(int *)arg);
	CHECK_EQ(atomic_load(&writers), 0);
	atomic_fetch_add(&count, 1);
	WAIT_FOR(atomic_load(&count) >= *(int *)arg);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
}

RT(rwmutex_30_readers_hold_lock_together)
{
	int n = 30;
	gmp_g *g[30];

	for (int i = 0; i < n; i++)
		g[i] = spawn(read_together, &n);
	for (int i = 0; i < n; i++)
		join(g[i]);
}

static void write_and_wait(UNUSED void *arg)
{
	CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
	atomic_fetch_add(&writers, 1);
	atomic_store(&writer_in, 1);
	WAIT_FOR(atomic_load(&let_go));
	atomic_fetch_sub(&writers, 1);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
}

static void read_once(UNUSED void *arg)
{
	CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
	atomic_fetch_add(&count, 1);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
}

RT(rwmutex_waiting_writer_holds_off_new_readers)
{
	gmp_g *w, *r;

	CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
	w = spawn(write_and_wait, NULL);
	wait_parked(1);
	CHECK_EQ(gmp_rwmutex_try_rlock(&rw), -EAGAIN);
	CHECK_EQ(gmp_rwmutex_rlock_until(&rw, gmp_deadline(2 * MS)), -ETIMEDOUT);
	r = spawn(read_once, NULL);
	wait_parked(2);
	CHECK_EQ(atomic_load(&count), 0);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	WAIT_FOR(atomic_load(&writer_in));
	CHECK_EQ(atomic_load(&count), 0);
	atomic_store(&let_go, 1);
	join(w);
	join(r);
	CHECK_EQ(atomic_load(&count), 1);
}

/* No writer that queued meanwhile has held the lock. */
static void read_together_first(void *arg)
{
	CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
	CHECK_EQ(atomic_load(&writer_in), 0);
	atomic_fetch_add(&readers, 1);
	WAIT_FOR(atomic_load(&readers) == *(int *)arg);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
}

RT(rwmutex_write_unlock_admits_all_queued_readers_first)
{
	int n = 20;
	gmp_g *g[20], *w[3];

	for (int round = 0; round < 10; round++) {
		atomic_store(&readers, 0);
		atomic_store(&count, 0);
		atomic_store(&writer_in, 0);
		atomic_store(&let_go, 1);
		CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
		/* Writers queue before and among the readers: the readers still go first. */
		w[0] = spawn(write_and_wait, NULL);
		wait_parked(1);
		for (int i = 0; i < n; i++) {
			g[i] = spawn(read_together_first, &n);
			if (i == 10)
				w[1] = spawn(write_and_wait, NULL);
		}
		w[2] = spawn(write_and_wait, NULL);
		wait_parked((uint64_t)n + 3);
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
		for (int i = 0; i < n; i++)
			join(g[i]);
		for (int i = 0; i < 3; i++)
			join(w[i]);
		CHECK_EQ(atomic_load(&writer_in), 1);
	}
}

static void write_until(UNUSED void *arg)
{
	CHECK_EQ(gmp_rwmutex_lock_until(&rw, gmp_deadline(20 * MS)), -ETIMEDOUT);
	atomic_store(&timed_out, 1);
}

RT(rwmutex_writer_timeout_admits_queued_readers)
{
	gmp_g *w, *r[5];

	CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
	w = spawn(write_until, NULL);
	WAIT_FOR(gmp_rwmutex_try_rlock(&rw) == -EAGAIN || gmp_rwmutex_runlock(&rw) != 0 ||
		 atomic_load(&timed_out));
	for (int i = 0; i < 5; i++)
		r[i] = spawn(read_once, NULL);
	/* The caller still holds a read lock: only the writer's timeout admits the readers. */
	for (int i = 0; i < 5; i++)
		join(r[i]);
	join(w);
	CHECK_EQ(atomic_load(&timed_out), 1);
	CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_try_lock(&rw), 0);
	CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
}

static atomic_int stop;

static void read_nearly_always(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		CHECK_EQ(gmp_rwmutex_rlock(&rw), 0);
		gmp_yield();
		CHECK_EQ(gmp_rwmutex_runlock(&rw), 0);
	}
}

static void write_nearly_always(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
		gmp_yield();
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	}
}

RT(rwmutex_readers_do_not_starve_writer)
{
	gmp_g *g[10];

	for (int i = 0; i < 10; i++)
		g[i] = spawn(read_nearly_always, NULL);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(gmp_rwmutex_lock(&rw), 0);
		CHECK_EQ(gmp_rwmutex_unlock(&rw), 0);
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < 10; i++)
		join(g[i]);
}

RT(rwmutex_writers_do_not_starve_reader)
{
	gmp_g *g[10];

	for (int i = 0; i < 10; i++)
		g[i] = spawn(write_nearly_always, NULL);
	for (int i = 0; i < 100; i++)
		read_once(NULL);
	atomic_store(&stop, 1);
	for (int i = 0; i < 10; i++)
		join(g[i]);
}

struct object {
	gmp_rwmutex rw;
	atomic_int refs;
	char pad[48];
};

static void drop(void *arg)
{
	struct object *o = arg;
	int left;

	CHECK_EQ(gmp_rwmutex_rlock(&o->rw), 0);
	gmp_yield();
	CHECK_EQ(gmp_rwmutex_runlock(&o->rw), 0);
	CHECK_EQ(gmp_rwmutex_lock(&o->rw), 0);
	left = atomic_fetch_sub(&o->refs, 1) - 1;
	CHECK_EQ(gmp_rwmutex_unlock(&o->rw), 0);
	if (left == 0) {
		memset((void *)o, 0xff, sizeof(*o));
		free(o);
		atomic_fetch_add(&count, 1);
	}
}

RT(rwmutex_freed_after_last_unlock_is_not_used_again)
{
	int n = SLOW ? 300 : 3000;

	for (int i = 0; i < n; i++) {
		struct object *o = calloc(1, sizeof(*o));
		gmp_g *g[3];

		CHECK(o != NULL);
		atomic_store(&o->refs, 4);
		for (int k = 0; k < 3; k++)
			g[k] = spawn(drop, o);
		drop(o);
		for (int k = 0; k < 3; k++)
			join(g[k]);
	}
	CHECK_EQ(atomic_load(&count), n);
}
