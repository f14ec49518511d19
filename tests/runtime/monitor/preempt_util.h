/* SPDX-License-Identifier: MIT */
/*
 * Helpers of the tests of preemption: Gs that compute, a ticker that measures how long others wait
 * meanwhile, and Gs that want the Ps of the computing Gs.
 */
#ifndef TESTS_RUNTIME_PREEMPT_UTIL_H
#define TESTS_RUNTIME_PREEMPT_UTIL_H

#include "util.h"

#include <time.h>

enum { PROCS_MOST = 4 };

/* CPU time that a G computes; without preemption the ticker would wait as long. */
#define COMPUTE_NS ((SLOW ? 200 : 100) * MS)

/* --- time and what belongs to the OS thread: without calls of gmp --- */

static inline int64_t clock_of(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

UNUSED static int64_t clock_ns(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

/*
 * CPU time of the process: other programs may take both CPUs for hundreds of milliseconds, and this
 * clock then does not advance.
 */
UNUSED static int64_t cpu_ns(void)
{
	return clock_of(CLOCK_PROCESS_CPUTIME_ID);
}

static __attribute__((noinline)) int thread_id(void)
{
	__asm__ volatile("" ::: "memory");
	return (int)syscall(SYS_gettid);
}

static _Thread_local unsigned thread_mark;

static __attribute__((noinline)) unsigned *mark_here(void)
{
	__asm__ volatile("" ::: "memory");
	return &thread_mark;
}

static __attribute__((noinline)) int *errno_here(void)
{
	__asm__ volatile("" ::: "memory");
	return &errno;
}

/* Where a G runs, and what it left in the thread-locals there. */
struct place {
	int thread, error;
	unsigned mark;
};

static inline struct place place_mark(unsigned number)
{
	struct place here = { thread_id(), 1000 + (int)(number % 1000), number };

	*mark_here() = here.mark;
	*errno_here() = here.error;
	return here;
}

/* The caller has not changed errno since place_mark. */
static inline void place_check(const struct place *here)
{
	CHECK_EQ(*errno_here(), here->error);
	CHECK_EQ(*mark_here(), here->mark);
	CHECK_EQ(thread_id(), here->thread);
}

/* --- computing --- */

static __attribute__((noinline)) uint64_t crunch(uint64_t x, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

/* The same result, without computing so long: n steps of x -> a * x + c are one such step. */
UNUSED static uint64_t crunch_at_once(uint64_t x, uint64_t n)
{
	uint64_t a = UINT64_C(6364136223846793005), c = 1442695040888963407;

	for (; n > 0; n /= 2) {
		if (n % 2)
			x = a * x + c;
		c = a * c + c;
		a *= a;
	}
	return x;
}

/* The cpu_ns() until which the caller computes, if as many Gs as Ps do. */
static inline int64_t compute_end(void)
{
	return cpu_ns() + gmp_procs() * COMPUTE_NS;
}

static inline void compute_for(int64_t ns)
{
	for (int64_t end = clock_ns() + ns; clock_ns() < end;)
		crunch(1, 1000);
}

/* --- the ticker: a G that sleeps for 1 ms repeatedly, and records the gaps between its runs --- */

enum { GAPS_MOST = 1 << 14 };

struct ticker {
	int64_t (*clock)(void);
	int64_t gap[GAPS_MOST];
	int n;
	atomic_int began, stop;
	gmp_g *g;
};

UNUSED static void ticker_run(void *arg)
{
	struct ticker *t = arg;
	int64_t last = t->clock(), now;

	atomic_store(&t->began, 1);
	while (!atomic_load(&t->stop) && t->n < GAPS_MOST) {
		CHECK_EQ(gmp_sleep(MS), 0);
		now = t->clock();
		t->gap[t->n++] = now - last;
		last = now;
	}
}

/* clock: cpu_ns beside Gs that compute, clock_ns beside Gs that sleep in the kernel. */
static inline void ticker_start(struct ticker *t, int64_t (*clock)(void))
{
	t->clock = clock;
	t->n = 0;
	atomic_store(&t->began, 0);
	atomic_store(&t->stop, 0);
	t->g = spawn(ticker_run, t);
	WAIT_FOR(atomic_load(&t->began)); /* the first gap begins before other Gs compute */
}

static inline void ticker_stop(struct ticker *t)
{
	atomic_store(&t->stop, 1);
	join(t->g);
	CHECK(t->n > 0);
	qsort(t->gap, (size_t)t->n, sizeof(t->gap[0]), cmp_i64);
}

/*
 * The gap that `percent` of the time was spent in gaps of at most: at 50, the median over time. It
 * is independent of the number of short gaps before and after the Gs that compute.
 */
static inline int64_t ticker_gap(const struct ticker *t, int percent)
{
	int64_t sum = 0, part = 0;
	int i = 0;

	for (int k = 0; k < t->n; k++)
		sum += t->gap[k];
	for (part = t->gap[0]; part < sum / 100 * percent && i < t->n - 1; part += t->gap[i])
		i++;
	return t->gap[i];
}

/* Prints the gaps. Returns true if the ticker ran often enough: without preemption it does not. */
static inline int ticker_ran(const struct ticker *t)
{
	int64_t median = ticker_gap(t, 50);

	fprintf(stderr, "%d ticks; gaps over time: p50 %lld us, p90 %lld us, max %lld us\n", t->n,
		(long long)(median / US), (long long)(ticker_gap(t, 90) / US),
		(long long)(t->gap[t->n - 1] / US));
	return median < (SLOW ? 100 : 30) * MS;
}

/* --- Gs that compute beside a ticker --- */

/* A stack for calls of libc. */
static inline gmp_g *spawn_large(gmp_fn fn, void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	a.stack_size = 1 << 20;
	a.name = "hog";
	CHECK_EQ(gmp_spawn(&g, fn, arg, &a), 0);
	return g;
}

/* Run fn(args + i * size) on n Gs and join them. */
static inline void run_gs(gmp_fn fn, void *args, size_t size, int n)
{
	gmp_g *g[8 * PROCS_MOST];

	CHECK(n <= 8 * PROCS_MOST);
	for (int i = 0; i < n; i++)
		g[i] = spawn_large(fn, (char *)args + (size_t)i * size);
	for (int i = 0; i < n; i++)
		join(g[i]);
}

enum { PARTS = 5 };

/*
 * body(procs, arg), in which a G on each P computes for COMPUTE_NS or more, beside the ticker.
 * Repeated only if this machine was too busy for the ticker.
 */
static inline void run_beside_ticker(int procs, int64_t (*clock)(void),
				     void (*body)(int procs, void *arg), void *arg)
{
	static struct ticker t;
	int ran = 0;

	need_preemption();
	for (int part = 0; part < PARTS && !ran; part++) {
		ticker_start(&t, clock);
		body(procs, arg);
		ticker_stop(&t);
		ran = ticker_ran(&t);
	}
	CHECK(ran && "the ticker ran often beside Gs that compute");
	WAIT_FOR(stats().preempted == 0);
}

struct hogs {
	gmp_fn fn;
	void *args;
	size_t size;
};

static inline void run_hogs_once(int procs, void *arg)
{
	struct hogs *h = arg;

	run_gs(h->fn, h->args, h->size, procs);
}

/* run_gs beside the ticker. */
static inline void run_hogs(int procs, gmp_fn fn, void *args, size_t size)
{
	struct hogs h = { fn, args, size };

	run_beside_ticker(procs, cpu_ns, run_hogs_once, &h);
}

/* --- Gs whose Ps have been taken --- */

/*
 * While these Gs yield, no P is idle and each has a queue, so each G that computes loses its P.
 * They set `all_taken` once that many Gs run without a P.
 */
static struct {
	gmp_g *g[PROCS_MOST + 1];
	int n;
	uint64_t computing;
	atomic_int all_taken, over;
} rivals;

UNUSED static void rival_run(UNUSED void *arg)
{
	while (!atomic_load(&rivals.over)) {
		if (stats().preempted >= rivals.computing)
			atomic_store(&rivals.all_taken, 1);
		gmp_yield();
	}
}

/* Before `computing` Gs call compute_until_taken. */
static inline void rivals_start(int procs, int computing)
{
	need_preemption();
	rivals.n = procs + 1;
	rivals.computing = (uint64_t)computing;
	atomic_store(&rivals.all_taken, 0);
	atomic_store(&rivals.over, 0);
	for (int i = 0; i < rivals.n; i++)
		rivals.g[i] = spawn(rival_run, NULL);
}

static inline void rivals_stop(void)
{
	atomic_store(&rivals.over, 1);
	for (int i = 0; i < rivals.n; i++)
		join(rivals.g[i]);
	WAIT_FOR(stats().preempted == 0);
}

/* Compute without calls of gmp until the condition holds; fails after a time without preemption. */
#define COMPUTE_UNTIL(cond)                                                                        \
	do {                                                                                       \
		int64_t compute_limit_ = clock_ns() + 40 * SEC;                                    \
		while (!(cond)) {                                                                  \
			crunch(1, 1000);                                                           \
			CHECK(clock_ns() < compute_limit_ && "the P of this G was not taken");     \
		}                                                                                  \
	} while (0)

/* Returns when the P of the caller, and of the other Gs that call this, has been taken. */
static inline void compute_until_taken(void)
{
	struct place here = place_mark((unsigned)clock_ns());

	COMPUTE_UNTIL(atomic_load(&rivals.all_taken));
	place_check(&here);
}

/* Compute for so long that the P of the caller is taken again, beside rivals. */
static inline void compute_past_slice(void)
{
	struct place here = place_mark((unsigned)clock_ns());

	compute_for(15 * MS);
	place_check(&here);
}

/* run_gs with rivals: fn must call compute_until_taken. */
static inline void run_taken(int procs, gmp_fn fn, void *args, size_t size)
{
	rivals_start(procs, procs);
	run_gs(fn, args, size, procs);
	rivals_stop();
	CHECK(stats().preemptions >= (uint64_t)procs);
}

#endif
