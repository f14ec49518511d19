/* SPDX-License-Identifier: MIT */
/*
 * Gs lose their Ps at any instruction while they use everything that gmp offers.
 *
 * The time slice is short, and as many Gs compute as there are Ps and more. Checks that no element,
 * permit, child or lock is lost, that a mutex excludes, that a computing G keeps its OS thread and
 * its thread-locals, that a locked G keeps its thread, and that nothing is left at the end.
 */
#define _GNU_SOURCE 1
#include "stress.h"

#include <sys/syscall.h>

enum { NGREEN = 24, NCHAN = 3, NLOCK = 3, PERMITS = 2, MOST_THREADS = 64 };

static gmp_chan *chans[NCHAN];
static gmp_mutex mutexes[NLOCK];
static gmp_rwmutex rws[NLOCK];
static long guarded[NLOCK], rw_guarded[NLOCK]; /* not atomic: under the locks */
static atomic_long locked[NLOCK], rw_locked[NLOCK];
static gmp_sem sem;
static atomic_int permits;
static atomic_long sent, received, children, children_ended, cancelled_seen, ops;
static gmp_key key;

static __attribute__((noinline)) int thread_id(void)
{
	__asm__ volatile("" ::: "memory");
	return (int)syscall(SYS_gettid);
}

static _Thread_local unsigned mark;

static __attribute__((noinline)) unsigned *mark_here(void)
{
	__asm__ volatile("" ::: "memory");
	return &mark;
}

/* Compute for up to us, without calls of gmp. */
static void compute(struct rng *r, unsigned us)
{
	int64_t ns = (int64_t)draw(r, us) * US;
	unsigned value = draw(r, 1 << 30);
	int here = thread_id();
	struct timespec t;
	int64_t end, now;

	*mark_here() = value;
	clock_gettime(CLOCK_MONOTONIC, &t);
	end = t.tv_sec * SEC + t.tv_nsec + ns;
	do {
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = t.tv_sec * SEC + t.tv_nsec;
	} while (now < end);
	CHECK_EQ(*mark_here(), value);
	CHECK_EQ(thread_id(), here);
}

static unsigned draw_length(struct rng *r)
{
	return draw(r, 20) ? 300 : 5000;
}

static void pass_element(struct rng *r)
{
	gmp_chan *c = chans[draw(r, NCHAN)];
	int64_t until = gmp_deadline((int64_t)draw(r, 2000) * US);
	int v = 1;

	if (draw(r, 2)) {
		if (gmp_chan_send_until(c, &v, until) == 0)
			atomic_fetch_add(&sent, 1);
	} else if (gmp_chan_recv_until(c, &v, until) == 0) {
		CHECK_EQ(v, 1);
		atomic_fetch_add(&received, 1);
	}
}

static void pass_often(struct rng *r)
{
	gmp_chan *c = chans[draw(r, NCHAN)];
	int v = 1;

	for (int i = 0; i < 100; i++) {
		if (gmp_chan_try_send(c, &v) == 0)
			atomic_fetch_add(&sent, 1);
		if (gmp_chan_try_recv(c, &v) == 0)
			atomic_fetch_add(&received, 1);
	}
}

static void select_element(struct rng *r)
{
	int in = 0, out = 1, i;
	gmp_case cs[] = { GMP_RECV_CASE(chans[draw(r, NCHAN)], &in),
			  GMP_SEND_CASE(chans[draw(r, NCHAN)], &out) };

	i = gmp_select_until(cs, 2, gmp_deadline((int64_t)draw(r, 2000) * US));
	CHECK(i == 0 || i == 1 || i == -ETIMEDOUT);
	if (i == 0)
		atomic_fetch_add(&received, 1);
	else if (i == 1)
		atomic_fetch_add(&sent, 1);
}

static void lock_and_compute(struct rng *r)
{
	unsigned i = draw(r, NLOCK);

	CHECK_EQ(gmp_mutex_lock(&mutexes[i]), 0);
	guarded[i]++;
	compute(r, draw_length(r));
	CHECK_EQ(gmp_mutex_unlock(&mutexes[i]), 0);
	atomic_fetch_add(&locked[i], 1);
}

static void lock_rw(struct rng *r)
{
	unsigned i = draw(r, NLOCK);
	long seen;

	CHECK_EQ(gmp_rwmutex_rlock(&rws[i]), 0);
	seen = rw_guarded[i];
	compute(r, draw_length(r));
	CHECK_EQ(rw_guarded[i], seen);
	CHECK_EQ(gmp_rwmutex_runlock(&rws[i]), 0);
	CHECK_EQ(gmp_rwmutex_lock(&rws[i]), 0);
	rw_guarded[i]++;
	CHECK_EQ(gmp_rwmutex_unlock(&rws[i]), 0);
	atomic_fetch_add(&rw_locked[i], 1);
}

static void use_permit(struct rng *r)
{
	CHECK_EQ(gmp_sem_acquire(&sem), 0);
	CHECK(atomic_fetch_add(&permits, 1) < PERMITS);
	compute(r, draw_length(r));
	atomic_fetch_sub(&permits, 1);
	CHECK_EQ(gmp_sem_release(&sem, 1), 0);
}

static void child(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);

	compute(&r, draw_length(&r));
	if (draw(&r, 2))
		gmp_yield();
	atomic_fetch_add(&children_ended, 1);
	if (draw(&r, 4) == 0)
		gmp_exit();
}

static void spawn_children(struct rng *r)
{
	gmp_g *g[4];
	int n = 1 + (int)draw(r, 4);

	for (int i = 0; i < n; i++)
		g[i] = spawn(child, (void *)(uintptr_t)draw(r, 1 << 30));
	compute(r, draw_length(r));
	for (int i = 0; i < n; i++)
		join(g[i]);
	atomic_fetch_add(&children, n);
}

static void wait_cancelled(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);
	int err = 0;

	while (err == 0) {
		compute(&r, draw_length(&r));
		err = gmp_sleep((int64_t)draw(&r, 300) * US + 1);
	}
	CHECK_EQ(err, -ECANCELED);
	CHECK_EQ(gmp_cancelled(), 1);
	atomic_fetch_add(&cancelled_seen, 1);
}

static void cancel_child(struct rng *r)
{
	gmp_g *g = spawn(wait_cancelled, (void *)(uintptr_t)draw(r, 1 << 30));

	compute(r, draw_length(r));
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
}

static void be_bound(struct rng *r)
{
	int lock = gmp_lock_thread() == 0, here;

	if (!lock)
		CHECK_EQ(gmp_pin(), 0);
	here = thread_id();
	for (int i = 0; i < 3; i++) {
		compute(r, draw_length(r));
		CHECK_EQ(gmp_sleep((int64_t)draw(r, 200) * US), 0);
		CHECK_EQ(thread_id(), here);
	}
	CHECK_EQ(lock ? gmp_unlock_thread() : gmp_unpin(), 0);
}

static void set_local(struct rng *r)
{
	void *v = (void *)(uintptr_t)(1 + draw(r, 1 << 30));

	CHECK_EQ(gmp_key_set(key, v), 0);
	compute(r, draw_length(r));
	CHECK(gmp_key_get(key) == v);
	gmp_yield();
	CHECK(gmp_key_get(key) == v);
}

static void act(struct rng *r)
{
	switch (draw(r, 16)) {
	case 0: compute(r, 8000); break;
	case 1: kernel_sleep(draw(r, draw_length(r))); break;
	case 2: in_blocking_code(draw(r, 300)); break;
	case 3: gmp_sleep((int64_t)draw(r, 500) * US); break;
	case 4: gmp_yield(); break;
	case 5: lock_and_compute(r); break;
	case 6: lock_rw(r); break;
	case 7: use_permit(r); break;
	case 8: spawn_children(r); break;
	case 9: cancel_child(r); break;
	case 10: be_bound(r); break;
	case 11: set_local(r); break;
	case 12: select_element(r); break;
	case 13: pass_often(r); break;
	default: pass_element(r); compute(r, draw_length(r));
	}
}

static void worker(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);

	while (!stress_over()) {
		act(&r);
		atomic_fetch_add(&ops, 1);
	}
}

static void worker_outside(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);

	while (!stress_over())
		draw(&r, 2) ? lock_and_compute(&r) : pass_element(&r);
}

static void prepare(void)
{
	for (int i = 0; i < NCHAN; i++)
		chans[i] = gmp_chan_new(sizeof(int), (size_t)i * 2);
	CHECK_EQ(gmp_key_create(&key, NULL), 0);
	CHECK_EQ(gmp_sem_release(&sem, PERMITS), 0);
}

static void check_end(void)
{
	int v;

	for (int i = 0; i < NCHAN; i++) {
		while (gmp_chan_try_recv(chans[i], &v) == 0)
			atomic_fetch_add(&received, 1);
		gmp_chan_free(chans[i]);
	}
	CHECK_EQ(atomic_load(&sent), atomic_load(&received));
	CHECK_EQ(atomic_load(&children), atomic_load(&children_ended));
	for (int i = 0; i < NLOCK; i++) {
		CHECK_EQ(guarded[i], atomic_load(&locked[i]));
		CHECK_EQ(rw_guarded[i], atomic_load(&rw_locked[i]));
	}
	for (int i = 0; i < PERMITS; i++)
		CHECK_EQ(gmp_sem_try_acquire(&sem), 0);
	CHECK_EQ(gmp_sem_try_acquire(&sem), -EAGAIN);
	CHECK_EQ(gmp_key_delete(key), 0);
	WAIT_FOR(stats().greens_blocked == 0 && stats().greens == 1 && stats().preempted == 0);
}

static void app(void *arg)
{
	int procs = *(int *)arg;
	struct rng r = rng_for(0);
	struct ext_thread outside;
	gmp_g *g[NGREEN];

	prepare();
	for (int i = 0; i < NGREEN; i++)
		g[i] = spawn(worker, (void *)(intptr_t)(1 + i));
	ext_thread_start(&outside, worker_outside, (void *)1000);
	while (!stress_over()) {
		CHECK(gmp_set_procs(1 + (int)draw(&r, 5)) > 0);
		compute(&r, 1000);
		gmp_sleep((int64_t)draw(&r, 3000) * US);
		CHECK(stats().threads <= MOST_THREADS);
	}
	CHECK(gmp_set_procs(procs) > 0);
	for (int i = 0; i < NGREEN; i++)
		join(g[i]);
	ext_thread_join(&outside);
	check_end();
	fprintf(stderr, "%ld operations, %ld elements, %ld cancelled, %llu preemptions\n",
		atomic_load(&ops), atomic_load(&sent), atomic_load(&cancelled_seen),
		(unsigned long long)stats().preemptions);
}

TEST_PROCS(gs_preempted_at_any_instruction_lose_nothing)
{
	gmp_config c = GMP_CONFIG_INIT;

	stress_begin();
	c.procs = procs;
	c.max_threads = MOST_THREADS;
	c.preempt_ns = MS;
	CHECK_EQ(gmp_run(app, &procs, &c), 0);
}
