/* SPDX-License-Identifier: MIT */
/*
 * Measures locks without contention, and with 8, 2,000 and 20,000 contending green threads.
 *
 * The figure is the time per lock and unlock; with contention, the wall time of all green threads
 * divided by all operations.  The counter under the lock is not atomic, so without mutual exclusion
 * its value would be wrong.
 *
 * "pthread": the same with pthread_mutex_t between OS threads, without a runtime.
 */
#include "shim.h"

#include <gmp.h>
#include <pthread.h>
#include <unistd.h>

static gmp_mutex m;
static gmp_rwmutex rw;
static gmp_wg arrived, gate, done;
static int64_t counter, each, seen;

static void alone(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, t0 = 0, t1;

	counter = 0;
	for (int64_t i = -warm; i < c->count; i++) {
		if (i == 0)
			t0 = bench_clock();
		gmp_mutex_lock(&m);
		counter++;
		gmp_mutex_unlock(&m);
	}
	t1 = bench_clock();
	bench_check(counter == c->count + warm, "counter is %lld", (long long)counter);
	bench_check(gmp_mutex_try_lock(&m) == 0, "still locked");
	gmp_mutex_unlock(&m);
	bench_time(st, t1 - t0, c->count);
}

static void wait_at_gate(void)
{
	gmp_wg_done(&arrived);
	gmp_wg_wait(&gate);
}

static void locker(void *arg)
{
	(void)arg;
	wait_at_gate();
	for (int64_t i = 0; i < each; i++) {
		gmp_mutex_lock(&m);
		counter++;
		gmp_mutex_unlock(&m);
	}
	gmp_wg_done(&done);
}

static void reader(void *arg)
{
	int64_t sum = 0;

	(void)arg;
	wait_at_gate();
	for (int64_t i = 0; i < each; i++) {
		gmp_rwmutex_rlock(&rw);
		sum += bench_load(&counter);
		gmp_rwmutex_runlock(&rw);
	}
	bench_add(&seen, sum);
	gmp_wg_done(&done);
}

/* One lock in this many is for writing. */
static int64_t write_one_in;

static void writer(void *arg)
{
	int64_t sum = 0, writes = 0;

	(void)arg;
	wait_at_gate();
	for (int64_t i = 0; i < each; i++) {
		if (i % write_one_in == 0) {
			gmp_rwmutex_lock(&rw);
			bench_store(&counter, bench_load(&counter) + 1);
			gmp_rwmutex_unlock(&rw);
			writes++;
		} else {
			gmp_rwmutex_rlock(&rw);
			sum += bench_load(&counter) > 0;
			gmp_rwmutex_runlock(&rw);
		}
	}
	bench_add(&seen, sum + writes);
	gmp_wg_done(&done);
}

/* Let n green threads do `each` operations; returns the wall time of all. */
static int64_t contend(int64_t n, gmp_fn fn)
{
	int64_t t0;

	gmp_wg_add(&arrived, (int)n);
	gmp_wg_add(&gate, 1);
	gmp_wg_add(&done, (int)n);
	for (int64_t i = 0; i < n; i++)
		bench_check(gmp_go(fn, NULL) == 0, "gmp_go");
	gmp_wg_wait(&arrived);
	gmp_sleep(1000000);
	t0 = bench_clock();
	gmp_wg_done(&gate);
	gmp_wg_wait(&done);
	return bench_clock() - t0;
}

static void contended(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t ns;

	each = c->count / c->n;
	counter = 0;
	ns = contend(c->n, locker);
	bench_check(counter == c->count, "counter is %lld, not %lld", (long long)counter,
		    (long long)c->count);
	bench_time(st, ns, c->count);
}

static void readers(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t ns;

	each = c->count / c->n;
	counter = 1;
	seen = 0;
	ns = contend(c->n, reader);
	bench_check(seen == c->count, "%lld reads, not %lld", (long long)seen, (long long)c->count);
	bench_check(gmp_rwmutex_try_lock(&rw) == 0, "still locked");
	gmp_rwmutex_unlock(&rw);
	bench_time(st, ns, c->count);
}

static void writers(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t ns;

	write_one_in = c->mode;
	each = c->count / c->n;
	counter = 1;
	seen = 0;
	ns = contend(c->n, writer);
	bench_check(counter - 1 == c->n * ((each + c->mode - 1) / c->mode), "counter is %lld",
		    (long long)counter);
	bench_check(seen == each * c->n, "%lld locks", (long long)seen);
	bench_check(gmp_rwmutex_try_lock(&rw) == 0, "still locked");
	gmp_rwmutex_unlock(&rw);
	bench_time(st, ns, each * c->n);
}

/* --- threads --- */

static pthread_mutex_t pm = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;

/* While a process has one thread, glibc locks without locked instructions. */
static void *onlooker(void *arg)
{
	(void)arg;
	for (;;)
		pause();
	return NULL;
}

static void alone_pthread(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t warm = c->count / 8, t0 = 0, t1;
	pthread_t t;

	counter = 0;
	bench_check(pthread_create(&t, NULL, onlooker, NULL) == 0, "pthread_create");
	for (int64_t i = -warm; i < c->count; i++) {
		if (i == 0)
			t0 = bench_clock();
		pthread_mutex_lock(&pm);
		counter++;
		pthread_mutex_unlock(&pm);
	}
	t1 = bench_clock();
	bench_check(counter == c->count + warm, "counter is %lld", (long long)counter);
	bench_time(st, t1 - t0, c->count);
}

static void *thread_locker(void *arg)
{
	pthread_barrier_wait(&barrier);
	for (int64_t i = 0; i < each; i++) {
		pthread_mutex_lock(&pm);
		counter++;
		pthread_mutex_unlock(&pm);
	}
	pthread_barrier_wait(&barrier);
	return arg;
}

static void contended_pthread(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0, t1;

	each = c->count / c->n;
	counter = 0;
	pthread_barrier_init(&barrier, NULL, (unsigned)c->n + 1);
	for (int64_t i = 0; i < c->n; i++) {
		pthread_t t;

		bench_check(pthread_create(&t, NULL, thread_locker, NULL) == 0, "pthread_create");
		pthread_detach(t);
	}
	t0 = bench_clock();
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	t1 = bench_clock();
	bench_check(counter == c->count, "counter is %lld", (long long)counter);
	bench_time(st, t1 - t0, c->count);
}

BENCH(alone, "mutex/alone", .procs = 1, .count = 10000000);
BENCH(contended, "mutex/8", .procs = 1, .n = 8, .count = 4000000);
BENCH(contended, "mutex/8", .procs = 2, .n = 8, .count = 4000000);
BENCH(contended, "mutex/2000", .procs = 2, .n = 2000, .count = 2000000);
BENCH(contended, "mutex/20000", .procs = 2, .n = 20000, .count = 2000000);
BENCH(readers, "rwmutex/8 readers", .procs = 1, .n = 8, .count = 4000000);
BENCH(readers, "rwmutex/8 readers", .procs = 2, .n = 8, .count = 4000000);
BENCH(writers, "rwmutex/8 writers", .procs = 2, .n = 8, .count = 4000000, .mode = 1);
BENCH(writers, "rwmutex/8 mixed", .procs = 2, .n = 8, .count = 4000000, .mode = 10);
BENCH(writers, "rwmutex/2000 writers", .procs = 2, .n = 2000, .count = 2000000, .mode = 1);
BENCH(writers, "rwmutex/2000 mixed", .procs = 2, .n = 2000, .count = 2000000, .mode = 10);
BENCH(writers, "rwmutex/20000 writers", .procs = 2, .n = 20000, .count = 2000000, .mode = 1);
BENCH(writers, "rwmutex/20000 mixed", .procs = 2, .n = 20000, .count = 2000000, .mode = 10);
BENCH(alone_pthread, "mutex/alone pthread", .procs = 0, .count = 10000000);
BENCH(contended_pthread, "mutex/8 pthread", .procs = 0, .n = 8, .count = 4000000);
