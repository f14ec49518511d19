/* SPDX-License-Identifier: MIT */
/*
 * Measures locks, conditions and wait groups by the benchmarks of Go's sync package.
 *
 * The rows have the names of Go's benchmarks without "Benchmark", and do the same work.  "Work": a
 * loop of a hundred iterations per operation.  "Slack": ten green threads for each P.  The counters
 * under the locks are not in Go: without mutual exclusion their sum would be wrong.
 */
#include "parallel.h"

#include <gmp.h>

enum { WORK = 100 };

/* --- mutex --- */

/* Alone in its cache lines. */
struct padded {
	gmp_mutex m;
	gmp_rwmutex rw;
	gmp_wg wg;
	char pad[128];
};

static gmp_mutex m;
static int64_t locked;

static void mutex_own(struct bench_loop *l)
{
	struct padded p = { 0 };

	while (bench_more(l)) {
		gmp_mutex_lock(&p.m);
		gmp_mutex_unlock(&p.m);
	}
}

static void mutex_shared(struct bench_loop *l)
{
	while (bench_more(l)) {
		gmp_mutex_lock(&m);
		locked++;
		gmp_mutex_unlock(&m);
		bench_work(l->c->mode);
	}
}

static void mutex_uncontended(struct bench_state *st)
{
	bench_parallel(st, 1, mutex_own);
}

static void mutex(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);

	locked = 0;
	bench_parallel(st, (int)c->n, mutex_shared);
	bench_check(locked == c->count / 8 + 1 + c->count, "locked %lld times", (long long)locked);
}

BENCH(mutex_uncontended, "MutexUncontended", .procs = 1, .count = 10000000);
BENCH(mutex_uncontended, "MutexUncontended", .procs = 2, .count = 10000000);
BENCH(mutex, "Mutex", .procs = 1, .n = 1, .count = 10000000);
BENCH(mutex, "Mutex", .procs = 2, .n = 1, .count = 3000000);
BENCH(mutex, "MutexSlack", .procs = 1, .n = 10, .count = 10000000);
BENCH(mutex, "MutexSlack", .procs = 2, .n = 10, .count = 3000000);
BENCH(mutex, "MutexWork", .procs = 1, .n = 1, .count = 1000000, .mode = WORK);
BENCH(mutex, "MutexWork", .procs = 2, .n = 1, .count = 1000000, .mode = WORK);
BENCH(mutex, "MutexWorkSlack", .procs = 1, .n = 10, .count = 1000000, .mode = WORK);
BENCH(mutex, "MutexWorkSlack", .procs = 2, .n = 10, .count = 1000000, .mode = WORK);

/* Two words that the lock keeps in step; as in Go, not in the cache line of the lock. */
static struct {
	_Alignas(128) uint64_t less, more;
} accounts;

static void transfer(void)
{
	gmp_mutex_lock(&m);
	accounts.less -= 100;
	accounts.more += 100;
	gmp_mutex_unlock(&m);
}

/* As in Go, the loop is in one cache line of code. */
static __attribute__((noinline, aligned(64))) void touch(uint64_t *data, int n)
{
	for (int i = 0; i < n; i += 4)
		data[i]++;
	__asm__ volatile("" : : "r"(data) : "memory");
}

static void say_so(void *c)
{
	char yes = 1;

	gmp_chan_send(c, &yes);
}

/* More green threads than Ps; they mostly do other work, and wait in it. */
static void no_spin_body(struct bench_loop *l)
{
	gmp_chan *c = gmp_chan_new(1, 0);
	uint64_t data[4 << 10] = { 0 };

	bench_check(c, "no memory");
	for (int64_t i = 0; bench_more(l); i++) {
		if (i % 4 == 0) {
			transfer();
			continue;
		}
		touch(data, 4 << 10);
		bench_check(gmp_go(say_so, c) == 0, "gmp_go");
		gmp_chan_recv(c, NULL);
	}
	gmp_chan_free(c);
}

/* One green thread for each P, with data that another CPU would have to fetch. */
static void spin_body(struct bench_loop *l)
{
	uint64_t data[16 << 10] = { 0 };

	while (bench_more(l)) {
		transfer();
		touch(data, 16 << 10);
	}
}

static void spin(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);

	bench_parallel(st, (int)c->n, c->n == 1 ? spin_body : no_spin_body);
	bench_check(accounts.more && accounts.less + accounts.more == 0, "a transfer is lost");
}

BENCH(spin, "MutexNoSpin", .procs = 1, .n = 4, .count = 300000);
BENCH(spin, "MutexNoSpin", .procs = 2, .n = 4, .count = 300000);
BENCH(spin, "MutexSpin", .procs = 1, .n = 1, .count = 100000);
BENCH(spin, "MutexSpin", .procs = 2, .n = 1, .count = 100000);

/* --- rwmutex --- */

static gmp_rwmutex rw;
static int64_t written, read_of;

static void rw_own(struct bench_loop *l)
{
	struct padded p = { 0 };

	while (bench_more(l)) {
		gmp_rwmutex_rlock(&p.rw);
		gmp_rwmutex_rlock(&p.rw);
		gmp_rwmutex_runlock(&p.rw);
		gmp_rwmutex_runlock(&p.rw);
		gmp_rwmutex_lock(&p.rw);
		gmp_rwmutex_unlock(&p.rw);
	}
}

/* Every n-th iteration writes; mode is the work of a reader under the lock, as in Go. */
static void rw_shared(struct bench_loop *l)
{
	int64_t reads = 0;

	for (int64_t i = 1; bench_more(l); i++) {
		if (i % l->c->n == 0) {
			gmp_rwmutex_lock(&rw);
			written++;
			gmp_rwmutex_unlock(&rw);
		} else {
			gmp_rwmutex_rlock(&rw);
			if (l->c->mode)
				i = bench_halves(i, l->c->mode);
			gmp_rwmutex_runlock(&rw);
			reads++;
		}
	}
	bench_add(&read_of, reads);
}

static void rw_uncontended(struct bench_state *st)
{
	bench_parallel(st, 1, rw_own);
}

static void rwmutex(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);

	written = read_of = 0;
	bench_parallel(st, 1, rw_shared);
	bench_check(written + read_of == c->count / 8 + 1 + c->count, "%lld and %lld",
		    (long long)written, (long long)read_of);
}

BENCH(rw_uncontended, "RWMutexUncontended", .procs = 1, .count = 3000000);
BENCH(rw_uncontended, "RWMutexUncontended", .procs = 2, .count = 3000000);
BENCH(rwmutex, "RWMutexWrite100", .procs = 1, .n = 100, .count = 5000000);
BENCH(rwmutex, "RWMutexWrite100", .procs = 2, .n = 100, .count = 2000000);
BENCH(rwmutex, "RWMutexWrite10", .procs = 1, .n = 10, .count = 5000000);
BENCH(rwmutex, "RWMutexWrite10", .procs = 2, .n = 10, .count = 2000000);
BENCH(rwmutex, "RWMutexWorkWrite100", .procs = 1, .n = 100, .count = 1000000, .mode = WORK);
BENCH(rwmutex, "RWMutexWorkWrite100", .procs = 2, .n = 100, .count = 1000000, .mode = WORK);
BENCH(rwmutex, "RWMutexWorkWrite10", .procs = 1, .n = 10, .count = 1000000, .mode = WORK);
BENCH(rwmutex, "RWMutexWorkWrite10", .procs = 2, .n = 10, .count = 1000000, .mode = WORK);

/* --- n green threads wait for the last to arrive, repeatedly --- */

static gmp_cond cond;
static gmp_wg done;
static int64_t waiters, turns, arrived, meetings;

static void meet(void *arg)
{
	(void)arg;
	for (int64_t i = 0; i < turns; i++) {
		gmp_mutex_lock(&m);
		if (arrived == -1) {
			gmp_mutex_unlock(&m);
			break;
		}
		if (++arrived == waiters + 1) {
			arrived = 0;
			meetings++;
			gmp_cond_broadcast(&cond);
		} else {
			gmp_cond_wait(&cond, &m);
		}
		gmp_mutex_unlock(&m);
	}
	gmp_mutex_lock(&m);
	arrived = -1;
	gmp_cond_broadcast(&cond);
	gmp_mutex_unlock(&m);
	gmp_wg_done(&done);
}

static void cond_of(int64_t n, int64_t count)
{
	waiters = n;
	turns = count;
	arrived = meetings = 0;
	gmp_wg_add(&done, (int)n + 1);
	for (int64_t i = 0; i <= n; i++)
		bench_check(gmp_go(meet, NULL) == 0, "gmp_go");
	gmp_wg_wait(&done);
	/* the first G to end stops the others, so there may be fewer meetings than `count` */
	bench_check(meetings > 0 && meetings <= count, "%lld meetings", (long long)meetings);
}

static void condition(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0;

	cond_of(c->n, c->count / 8);
	t0 = bench_clock();
	cond_of(c->n, c->count);
	bench_time(st, bench_clock() - t0, c->count);
}

BENCH(condition, "Cond1", .procs = 1, .n = 1, .count = 1000000);
BENCH(condition, "Cond1", .procs = 2, .n = 1, .count = 300000);
BENCH(condition, "Cond2", .procs = 1, .n = 2, .count = 500000);
BENCH(condition, "Cond2", .procs = 2, .n = 2, .count = 200000);
BENCH(condition, "Cond4", .procs = 1, .n = 4, .count = 300000);
BENCH(condition, "Cond4", .procs = 2, .n = 4, .count = 100000);
BENCH(condition, "Cond8", .procs = 1, .n = 8, .count = 200000);
BENCH(condition, "Cond8", .procs = 2, .n = 8, .count = 50000);
BENCH(condition, "Cond16", .procs = 1, .n = 16, .count = 100000);
BENCH(condition, "Cond16", .procs = 2, .n = 16, .count = 30000);
BENCH(condition, "Cond32", .procs = 1, .n = 32, .count = 50000);
BENCH(condition, "Cond32", .procs = 2, .n = 32, .count = 20000);

/* --- wait groups --- */

static gmp_wg wg;

static void wg_own(struct bench_loop *l)
{
	struct padded p = { 0 };

	while (bench_more(l)) {
		gmp_wg_add(&p.wg, 1);
		gmp_wg_done(&p.wg);
		gmp_wg_wait(&p.wg);
	}
}

static void wg_add_done(struct bench_loop *l)
{
	while (bench_more(l)) {
		gmp_wg_add(&wg, 1);
		bench_work(l->c->mode);
		gmp_wg_done(&wg);
	}
}

static void wg_wait(struct bench_loop *l)
{
	while (bench_more(l)) {
		gmp_wg_wait(&wg);
		bench_work(l->c->mode);
	}
}

static void ends(void *w)
{
	gmp_wg_done(w);
}

static void wg_really(struct bench_loop *l)
{
	while (bench_more(l)) {
		gmp_wg w = GMP_WG_INIT;

		gmp_wg_add(&w, 1);
		bench_check(gmp_go(ends, &w) == 0, "gmp_go");
		gmp_wg_wait(&w);
	}
}

enum { OWN, ADD_DONE, WAIT, REALLY };

static void wait_group(struct bench_state *st)
{
	static const bench_body bodies[] = { wg_own, wg_add_done, wg_wait, wg_really };

	bench_parallel(st, 1, bodies[bench_this(st)->n]);
	bench_check(gmp_wg_wait_until(&wg, 0) == 0, "it is not at zero");
}

BENCH(wait_group, "WaitGroupUncontended", .procs = 1, .n = OWN, .count = 5000000);
BENCH(wait_group, "WaitGroupUncontended", .procs = 2, .n = OWN, .count = 5000000);
BENCH(wait_group, "WaitGroupAddDone", .procs = 1, .n = ADD_DONE, .count = 5000000);
BENCH(wait_group, "WaitGroupAddDone", .procs = 2, .n = ADD_DONE, .count = 3000000);
BENCH(wait_group, "WaitGroupAddDoneWork", .procs = 1, .n = ADD_DONE, .count = 1000000,
      .mode = WORK);
BENCH(wait_group, "WaitGroupAddDoneWork", .procs = 2, .n = ADD_DONE, .count = 1000000,
      .mode = WORK);
BENCH(wait_group, "WaitGroupWait", .procs = 1, .n = WAIT, .count = 10000000);
BENCH(wait_group, "WaitGroupWait", .procs = 2, .n = WAIT, .count = 10000000);
BENCH(wait_group, "WaitGroupWaitWork", .procs = 1, .n = WAIT, .count = 1000000, .mode = WORK);
BENCH(wait_group, "WaitGroupWaitWork", .procs = 2, .n = WAIT, .count = 1000000, .mode = WORK);
BENCH(wait_group, "WaitGroupActuallyWait", .procs = 1, .n = REALLY, .count = 1000000);
BENCH(wait_group, "WaitGroupActuallyWait", .procs = 2, .n = REALLY, .count = 1000000);

/* --- once --- */

static gmp_once once;
static int64_t did;

static void do_it(void *arg)
{
	(void)arg;
	did++;
}

static void once_body(struct bench_loop *l)
{
	while (bench_more(l))
		gmp_once_do(&once, do_it, NULL);
}

static void only_once(struct bench_state *st)
{
	bench_parallel(st, 1, once_body);
	bench_check(did == 1, "done %lld times", (long long)did);
}

BENCH(only_once, "Once", .procs = 1, .count = 20000000);
BENCH(only_once, "Once", .procs = 2, .count = 20000000);
