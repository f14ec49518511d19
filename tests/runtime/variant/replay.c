/* SPDX-License-Identifier: MIT */
/*
 * Tests that on one P in virtual time the seed repeats a run step by step.
 *
 * A program is 50 green threads that select, send, receive, lock, sleep, set timers, wait for
 * conditions and cancel each other, driven by random numbers of the program. Each step leaves a
 * record: green thread, operation, result, time. Two runs of a program with one seed must leave
 * equal records.
 */
#include <stdbool.h>
#include <time.h>

#include "util.h"

enum { GREENS = 50, STEPS = 16, CHANNELS = 6, MUTEXES = 4, TIMERS = 3, MOST = 8 * GREENS * STEPS };

struct record {
	uint16_t worker_id, what;
	int32_t result;
	int64_t when;
};

struct trace {
	struct record r[MOST];
	size_t n;
};

struct program {
	uint64_t number;
	struct trace *trace;
	gmp_chan *c[CHANNELS];
	gmp_mutex m[MUTEXES];
	gmp_cond turned;
	gmp_rwmutex rw;
	gmp_sem sem;
	gmp_timer *timer[TIMERS];
	gmp_wg done;
	gmp_g *g[GREENS];
	struct worker {
		struct program *p;
		uint64_t rng;
		int id;
	} w[GREENS];
};

static unsigned draw(struct worker *w, unsigned n)
{
	w->rng ^= w->rng << 13;
	w->rng ^= w->rng >> 7;
	w->rng ^= w->rng << 17;
	return (unsigned)((w->rng * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % n;
}

static void note(struct program *p, int worker_id, int what, int64_t result)
{
	struct trace *t = p->trace;

	CHECK(t->n < MOST);
	t->r[t->n++] =
		(struct record){ (uint16_t)worker_id, (uint16_t)what, (int32_t)result, gmp_now() };
}

/* Short deadlines, so that many expire at the same time. */
static int64_t soon(struct worker *w)
{
	return gmp_deadline(draw(w, 5) * MS);
}

static int do_select(struct worker *w)
{
	gmp_case cases[CHANNELS];
	int in[CHANNELS], out = w->id, n = 2 + (int)draw(w, CHANNELS - 1);

	for (int i = 0; i < n; i++) {
		gmp_chan *c = w->p->c[draw(w, CHANNELS)];

		in[i] = 0;
		if (draw(w, 2))
			cases[i] = (gmp_case)GMP_RECV_CASE(c, &in[i]);
		else
			cases[i] = (gmp_case)GMP_SEND_CASE(c, &out);
	}
	int i = gmp_select_until(cases, n, soon(w));

	return i < 0 ? i : i * 1000 + in[i];
}

static int do_mutex(struct worker *w)
{
	gmp_mutex *m = &w->p->m[draw(w, MUTEXES)];
	int err = gmp_mutex_lock_until(m, soon(w));

	if (err)
		return err;
	note(w->p, w->id, 100, 0);
	if (draw(w, 2))
		gmp_yield();
	else
		gmp_sleep(draw(w, 3) * MS);
	if (draw(w, 3) == 0)
		err = gmp_cond_wait_until(&w->p->turned, m, soon(w));
	gmp_mutex_unlock(m);
	gmp_cond_signal(&w->p->turned);
	return err;
}

static int do_rwmutex(struct worker *w)
{
	gmp_rwmutex *rw = &w->p->rw;
	bool write = draw(w, 3) == 0;
	int err =
		write ? gmp_rwmutex_lock_until(rw, soon(w)) : gmp_rwmutex_rlock_until(rw, soon(w));

	if (err)
		return err;
	gmp_yield();
	if (write)
		gmp_rwmutex_unlock(rw);
	else
		gmp_rwmutex_runlock(rw);
	return 0;
}

static int do_sem(struct worker *w)
{
	int err = gmp_sem_acquire_until(&w->p->sem, soon(w));

	if (err)
		return err;
	gmp_sleep(draw(w, 2) * MS);
	gmp_sem_release(&w->p->sem, 1);
	return 0;
}

static void child(void *arg)
{
	struct worker *w = arg;

	note(w->p, w->id, 101, gmp_sleep(MS));
}

static int do_spawn(struct worker *w)
{
	gmp_g *g = spawn(child, w);

	if (draw(w, 3) == 0)
		CHECK_EQ(gmp_cancel(g), 0);
	gmp_cancel_mask(1);
	join(g);
	gmp_cancel_mask(0);
	return 0;
}

static int step(struct worker *w, unsigned what)
{
	struct program *p = w->p;
	gmp_chan *c = p->c[draw(w, CHANNELS)];
	int v = w->id, err;

	switch (what) {
	case 0:
	case 1:
	case 2: return do_select(w);
	case 3: return gmp_chan_send_until(c, &v, soon(w));
	case 4: err = gmp_chan_recv_until(c, &v, soon(w)); return err ? err : v;
	case 5: return gmp_chan_try_send(c, &v);
	case 6: return do_mutex(w);
	case 7: return do_rwmutex(w);
	case 8: return do_sem(w);
	case 9: return gmp_sleep(draw(w, 4) * MS);
	case 10: return gmp_timer_set(p->timer[draw(w, TIMERS)], soon(w), draw(w, 2) * MS);
	case 11: return do_spawn(w);
	case 12:
		if (draw(w, 4) == 0)
			return gmp_cancel(p->g[w->id - w->id % 2]); /* its neighbour or itself */
								    /* fall through */
	default: gmp_yield(); return 0;
	}
}

static void work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < STEPS; i++) {
		unsigned what = draw(w, 14);

		note(w->p, w->id, (int)what, step(w, what));
	}
	gmp_wg_done(&w->p->done);
}

static void timer_runs(void *arg)
{
	struct program *p = arg;
	int v = 1000;

	if (p->trace->n < MOST / 2)
		note(p, 102, 102, gmp_chan_try_send(p->c[0], &v));
}

static void run_program(void *arg)
{
	struct program *p = arg;

	for (int i = 0; i < CHANNELS; i++)
		CHECK((p->c[i] = gmp_chan_new(sizeof(int), (size_t)i / 2)) != NULL);
	for (int i = 0; i < TIMERS; i++)
		CHECK((p->timer[i] = gmp_timer_new(timer_runs, p)) != NULL);
	CHECK_EQ(gmp_sem_release(&p->sem, 2), 0);
	gmp_wg_add(&p->done, GREENS);
	for (int i = 0; i < GREENS; i++) {
		p->w[i] = (struct worker){ p, (p->number * GREENS + (uint64_t)i + 1) << 20 | 1, i };
		p->g[i] = spawn(work, &p->w[i]);
	}
	CHECK_EQ(gmp_wg_wait(&p->done), 0); /* the workers may be cancelled until here */
	for (int i = 0; i < GREENS; i++)
		join(p->g[i]);
	for (int i = 0; i < TIMERS; i++)
		gmp_timer_free(p->timer[i]);
	for (int i = 0; i < CHANNELS; i++)
		gmp_chan_free(p->c[i]);
}

static void run(uint64_t number, uint64_t seed, struct trace *t)
{
	struct program p = { .number = number, .trace = t };
	gmp_config c = GMP_CONFIG_INIT;

	memset(t, 0, sizeof(*t));
	c.procs = 1;
	c.seed = seed;
	c.flags = GMP_VIRTUAL_TIME;
	CHECK_EQ(gmp_run(run_program, &p, &c), 0);
	CHECK(t->n >= GREENS * STEPS);
}

static bool same(const struct trace *a, const struct trace *b)
{
	return a->n == b->n && memcmp(a->r, b->r, a->n * sizeof(a->r[0])) == 0;
}

static void check_same(const struct trace *a, const struct trace *b, uint64_t number, uint64_t seed)
{
	size_t i = 0;

	if (same(a, b))
		return;
	while (memcmp(&a->r[i], &b->r[i], sizeof(a->r[i])) == 0)
		i++;
	check_failed("program %llu, seed %llu: step %zu of %zu and %zu: green thread %u, %u",
		     (unsigned long long)number, (unsigned long long)seed, i, a->n, b->n,
		     a->r[i].worker_id, b->r[i].worker_id);
}

static struct trace first, second, other;

#ifdef __SANITIZE_THREAD__
enum { PROGRAMS = 100 }; /* ThreadSanitizer needs about 150 us per green thread */
#else
enum { PROGRAMS = 1000 };
#endif

TEST(replay_same_seed_repeats_run_and_other_seed_differs)
{
	const char *from = getenv("REPLAY_FROM");
	uint64_t begin = from ? strtoull(from, NULL, 10) : 1;
	int programs = (int)check_scaled(PROGRAMS), differ = 0;

	for (uint64_t number = begin; number < begin + (uint64_t)programs; number++) {
		run(number, number, &first);
		run(number, number, &second);
		check_same(&first, &second, number, number);
		run(number, number + 1000000, &other);
		differ += !same(&first, &other);
	}
	fprintf(stderr, "%d of %d programs ran differently with another seed\n", differ, programs);
	CHECK(differ >= programs - programs / 100);
}

/* Computing takes real time, after which sysmon would preempt the G. */
static void compute(void *arg)
{
	struct worker *w = arg;
	struct timespec t0, t;

	note(w->p, w->id, 102, 0);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	do {
		gmp_checkpoint();
		clock_gettime(CLOCK_MONOTONIC, &t);
	} while ((t.tv_sec - t0.tv_sec) * SEC + t.tv_nsec - t0.tv_nsec < 30 * MS);
	note(w->p, w->id, 103, 0);
	gmp_yield();
	note(w->p, w->id, 104, 0);
}

static void computing(void *arg)
{
	struct program *p = arg;

	for (int i = 0; i < 4; i++) {
		p->w[i] = (struct worker){ .p = p, .id = i };
		p->g[i] = spawn(compute, &p->w[i]);
	}
	for (int i = 0; i < 4; i++)
		join(p->g[i]);
}

TEST(replay_is_independent_of_computing_time)
{
	struct trace *t[2] = { &first, &second };

	for (int i = 0; i < 2; i++) {
		struct program p = { .trace = t[i] };
		gmp_config c = GMP_CONFIG_INIT;

		c.procs = 1;
		c.seed = 7;
		c.flags = GMP_VIRTUAL_TIME;
		CHECK_EQ(gmp_run(computing, &p, &c), 0);
	}
	check_same(&first, &second, 0, 7);
	for (size_t i = 0; i < 8; i += 2) { /* no G was preempted */
		CHECK_EQ(first.r[i].what, 102);
		CHECK_EQ(first.r[i + 1].what, 103);
	}
}
