/* SPDX-License-Identifier: MIT */
/*
 * Measures the cost of scheduling by the benchmarks that Go ships for its scheduler.
 *
 * The rows have the names of runtime/proc_test.go without "Benchmark", and do the same work.
 *   CreateGoroutines  a chain of green threads, each of which starts the next; ...Single starts all
 *                     from one, ...Capture starts four at a time
 *   WakeupParallel    two green threads alternately compute (Spinning) or sleep in the kernel
 *                     (Syscall) for the given time, and then pass an element; each finds the other
 *                     parked and must wake it
 *   PingPongHog       two green threads pass an element back and forth beside a third that never
 *                     waits.  The third calls gmp_checkpoint in each iteration: preemption would
 *                     only take its P, and leave it to compute on its OS thread.
 */
#include "parallel.h"

#include <errno.h>
#include <gmp.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

static gmp_wg done;

/* --- PingPongHog --- */

static gmp_chan *ping, *pong, *over;

static void hog(void *arg)
{
	(void)arg;
	while (gmp_chan_try_recv(over, NULL) == -EAGAIN)
		gmp_checkpoint();
	gmp_wg_done(&done);
}

static void ponger(void *arg)
{
	char v;

	for (int64_t i = *(int64_t *)arg; i > 0; i--) {
		gmp_chan_recv(ping, &v);
		gmp_chan_send(pong, &v);
	}
	gmp_chan_close(over);
	gmp_wg_done(&done);
}

static void pinger(void *arg)
{
	char v;

	for (int64_t i = *(int64_t *)arg; i > 0; i--) {
		gmp_chan_recv(pong, &v);
		gmp_chan_send(ping, &v);
	}
	gmp_wg_done(&done);
}

static void ping_pong_hog(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t n = c->count, t0;
	char v = 42;

	ping = bench_make(1, 0);
	pong = bench_make(1, 0);
	over = bench_make(1, 0);
	gmp_wg_add(&done, 3);
	bench_start(hog, NULL);
	bench_start(ponger, &n);
	bench_start(pinger, &n);
	t0 = bench_clock();
	gmp_chan_send(ping, &v);
	gmp_chan_recv(over, NULL);
	bench_time(st, bench_clock() - t0, n);
	v = 0;
	gmp_chan_recv(ping, &v);
	bench_check(v == 42, "got %d", v);
	gmp_wg_wait(&done);
	gmp_chan_free(ping);
	gmp_chan_free(pong);
	gmp_chan_free(over);
}

BENCH(ping_pong_hog, "PingPongHog", .procs = 1, .count = 400000);

/* --- CreateGoroutines --- */

static int64_t started;

static void chain(void *arg)
{
	int64_t left = (intptr_t)arg;

	if (left == 0) {
		gmp_wg_done(&done);
		return;
	}
	bench_add(&started, 1);
	bench_start(chain, (void *)(intptr_t)(left - 1));
}

static void chains(int n, int64_t count)
{
	gmp_wg_add(&done, n);
	for (int i = 0; i < n; i++)
		bench_start(chain, (void *)(intptr_t)(count / n));
	gmp_wg_wait(&done);
}

/* n chains, or with n = 0 one for each P. */
static void create(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int n = c->n ? (int)c->n : c->procs;
	int64_t warm, t0;

	chains(n, c->count / 8);
	warm = started;
	t0 = bench_clock();
	chains(n, c->count);
	bench_time(st, bench_clock() - t0, c->count);
	bench_check(started - warm == c->count / n * n, "%lld ran", (long long)(started - warm));
}

BENCH(create, "CreateGoroutines", .procs = 1, .n = 1, .count = 2000000);
BENCH(create, "CreateGoroutines", .procs = 2, .n = 1, .count = 2000000);
BENCH(create, "CreateGoroutinesParallel", .procs = 1, .n = 0, .count = 2000000);
BENCH(create, "CreateGoroutinesParallel", .procs = 2, .n = 0, .count = 2000000);

static void end(void *wg)
{
	gmp_wg_done(wg);
}

static void fours(int64_t count)
{
	for (int64_t i = 0; i < count; i++) {
		gmp_wg wg = GMP_WG_INIT;

		gmp_wg_add(&wg, 4);
		for (int k = 0; k < 4; k++)
			bench_start(end, &wg);
		gmp_wg_wait(&wg);
	}
}

static void capture(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0;

	fours(c->count / 8);
	t0 = bench_clock();
	fours(c->count);
	bench_time(st, bench_clock() - t0, c->count);
}

BENCH(capture, "CreateGoroutinesCapture", .procs = 1, .count = 300000);
BENCH(capture, "CreateGoroutinesCapture", .procs = 2, .count = 300000);

static void single(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int64_t t0;

	bench_all_ps(c->procs);
	t0 = bench_clock();
	gmp_wg_add(&done, (int)c->count);
	for (int64_t i = 0; i < c->count; i++)
		bench_start(end, &done);
	gmp_wg_wait(&done);
	bench_time(st, bench_clock() - t0, c->count);
}

BENCH(single, "CreateGoroutinesSingle", .procs = 1, .count = 1000000);
BENCH(single, "CreateGoroutinesSingle", .procs = 2, .count = 1000000);

/* --- WakeupParallel --- */

#define US INT64_C(1000)

static void sleep_in_kernel(int64_t ns)
{
	struct timespec ts = { .tv_nsec = ns };

	gmp_block_enter();
	nanosleep(&ts, NULL);
	gmp_block_leave();
}

struct wakeup {
	void (*spend)(int64_t ns);
	int64_t delay, n;
};

static int64_t handed;

static void first(void *arg)
{
	const struct wakeup *w = arg;

	for (int64_t i = 0; i < w->n; i++) {
		w->spend(w->delay + 5 * US);
		gmp_chan_send(ping, "");
		w->spend(w->delay);
		gmp_chan_recv(pong, NULL);
	}
	gmp_wg_done(&done);
}

static void second(void *arg)
{
	const struct wakeup *w = arg;

	for (int64_t i = 0; i < w->n; i++) {
		w->spend(w->delay);
		handed += gmp_chan_recv(ping, NULL) == 0;
		w->spend(w->delay + 5 * US);
		gmp_chan_send(pong, "");
	}
	gmp_wg_done(&done);
}

static void wakeup(struct bench_state *st, void (*spend)(int64_t))
{
	const struct bench_case *c = bench_this(st);
	struct wakeup w = { spend, c->mode * US, c->count };
	int64_t t0 = bench_clock();

	ping = bench_make(0, 0);
	pong = bench_make(0, 0);
	gmp_wg_add(&done, 2);
	bench_start(first, &w);
	bench_start(second, &w);
	gmp_wg_wait(&done);
	bench_time(st, bench_clock() - t0, c->count);
	bench_check(handed == c->count, "%lld handed over", (long long)handed);
	gmp_chan_free(ping);
	gmp_chan_free(pong);
}

static void spinning(struct bench_state *st)
{
	wakeup(st, bench_spin);
}

static void in_syscall(struct bench_state *st)
{
	wakeup(st, sleep_in_kernel);
}

BENCH(spinning, "WakeupParallelSpinning/0s", .procs = 2, .count = 10000, .mode = 0);
BENCH(spinning, "WakeupParallelSpinning/1us", .procs = 2, .count = 10000, .mode = 1);
BENCH(spinning, "WakeupParallelSpinning/2us", .procs = 2, .count = 10000, .mode = 2);
BENCH(spinning, "WakeupParallelSpinning/5us", .procs = 2, .count = 10000, .mode = 5);
BENCH(spinning, "WakeupParallelSpinning/10us", .procs = 2, .count = 5000, .mode = 10);
BENCH(spinning, "WakeupParallelSpinning/20us", .procs = 2, .count = 3000, .mode = 20);
BENCH(spinning, "WakeupParallelSpinning/50us", .procs = 2, .count = 1000, .mode = 50);
BENCH(spinning, "WakeupParallelSpinning/100us", .procs = 2, .count = 500, .mode = 100);
BENCH(in_syscall, "WakeupParallelSyscall/0s", .procs = 2, .count = 500, .mode = 0);
BENCH(in_syscall, "WakeupParallelSyscall/1us", .procs = 2, .count = 500, .mode = 1);
BENCH(in_syscall, "WakeupParallelSyscall/2us", .procs = 2, .count = 500, .mode = 2);
BENCH(in_syscall, "WakeupParallelSyscall/5us", .procs = 2, .count = 500, .mode = 5);
BENCH(in_syscall, "WakeupParallelSyscall/10us", .procs = 2, .count = 500, .mode = 10);
BENCH(in_syscall, "WakeupParallelSyscall/20us", .procs = 2, .count = 500, .mode = 20);
BENCH(in_syscall, "WakeupParallelSyscall/50us", .procs = 2, .count = 500, .mode = 50);
BENCH(in_syscall, "WakeupParallelSyscall/100us", .procs = 2, .count = 500, .mode = 100);

/* --- Matmult: halves of a product of matrices, one of them on a green thread of its own --- */

struct product {
	double **a, **b, **c;
	int i0, i1, j0, j1, k0, k1;
	gmp_wg *done;
};

enum { SMALL = 8 };

static void multiply(const struct product *p);

static void half(void *arg)
{
	struct product *p = arg;

	multiply(p);
	gmp_wg_done(p->done);
}

/* Multiply the lower half on a new green thread, and the upper half on the caller. */
static void both(const struct product *lower, const struct product *upper)
{
	gmp_wg wg = GMP_WG_INIT;
	struct product p = *lower;

	p.done = &wg;
	gmp_wg_add(&wg, 1);
	bench_start(half, &p);
	multiply(upper);
	gmp_wg_wait(&wg);
}

static void multiply(const struct product *p)
{
	int di = p->i1 - p->i0, dj = p->j1 - p->j0, dk = p->k1 - p->k0;
	struct product lower = *p, upper = *p;

	if (di >= dj && di >= dk && di >= SMALL) {
		lower.i1 = upper.i0 = p->i0 + di / 2;
		both(&lower, &upper);
	} else if (dj >= dk && dj >= SMALL) {
		lower.j1 = upper.j0 = p->j0 + dj / 2;
		both(&lower, &upper);
	} else if (dk >= SMALL) {
		/* both halves add to the same elements, so they are sequential */
		lower.k1 = upper.k0 = p->k0 + dk / 2;
		multiply(&lower);
		multiply(&upper);
	} else {
		for (int i = p->i0; i < p->i1; i++)
			for (int j = p->j0; j < p->j1; j++)
				for (int k = p->k0; k < p->k1; k++)
					p->c[i][j] += p->a[i][k] * p->b[k][j];
	}
}

/* As in Go, each row has its own block. If `fill`, each element is its index in the matrix. */
static double **new_matrix(int n, int fill)
{
	double **m = calloc((size_t)n, sizeof(*m));

	bench_check(m, "no memory");
	for (int i = 0; i < n; i++) {
		m[i] = calloc((size_t)n, sizeof(double));
		bench_check(m[i], "no memory");
		for (int j = 0; fill && j < n; j++)
			m[i][j] = i * n + j;
	}
	return m;
}

static void free_matrix(double **m, int n)
{
	for (int i = 0; i < n; i++)
		free(m[i]);
	free(m);
}

static void matmult(struct bench_state *st)
{
	const struct bench_case *c = bench_this(st);
	int n = (int)cbrt((double)c->count) + 1;
	struct product p = {
		new_matrix(n, 1), new_matrix(n, 1), new_matrix(n, 0), 0, n, 0, n, 0, n, NULL
	};
	double want = 0;
	int64_t t0;

	t0 = bench_clock();
	multiply(&p);
	bench_time(st, bench_clock() - t0, c->count);
	for (int k = 0; k < n; k++)
		want += p.a[n - 1][k] * p.b[k][n - 1];
	bench_check(fabs(p.c[n - 1][n - 1] / want - 1) < 1e-9, "a wrong product");
	free_matrix(p.a, n);
	free_matrix(p.b, n);
	free_matrix(p.c, n);
}

BENCH(matmult, "Matmult", .procs = 1, .count = 20000000);
BENCH(matmult, "Matmult", .procs = 2, .count = 20000000);
