/* SPDX-License-Identifier: MIT */
/*
 * Random mixes of everything that waits: mutexes, rwmutexes, wait groups, sleeps, joins and timers,
 * on green and foreign threads, while the number of Ps changes; every exclusion and count holds.
 */
#include "stress.h"

enum { NMUTEX = 3, NRW = 2, NGREEN = 40, NFOREIGN = 3 };

static struct guarded {
	gmp_mutex mu;
	long a, b; /* equal whenever mu is free */
} guarded[NMUTEX];

static struct shared {
	gmp_rwmutex rw;
	long a, b;
	atomic_int readers, writers;
} shared[NRW];

static atomic_long ops;
static atomic_uint next_id = 1000;

static void dwell(struct rng *r)
{
	switch (draw(r, 16)) {
	case 0: gmp_yield(); break;
	case 1: gmp_sleep(draw(r, 50) * US); break;
	case 2: gmp_checkpoint(); break;
	default: break;
	}
}

static void use_mutex(struct rng *r)
{
	struct guarded *o = &guarded[draw(r, NMUTEX)];
	int err;

	switch (draw(r, 4)) {
	case 0: err = gmp_mutex_try_lock(&o->mu); break;
	case 1: err = gmp_mutex_lock_until(&o->mu, gmp_deadline(draw(r, 200) * US)); break;
	default: err = gmp_mutex_lock(&o->mu); CHECK_EQ(err, 0);
	}
	if (err != 0) {
		CHECK(err == -EAGAIN || err == -ETIMEDOUT);
		return;
	}
	CHECK_EQ(o->a, o->b);
	o->a++;
	dwell(r);
	o->b++;
	CHECK_EQ(gmp_mutex_unlock(&o->mu), 0);
}

static void use_rwmutex(struct rng *r)
{
	struct shared *o = &shared[draw(r, NRW)];
	int write = draw(r, 4) == 0, err;
	int64_t soon = gmp_deadline(draw(r, 200) * US);

	switch (draw(r, 4)) {
	case 0: err = write ? gmp_rwmutex_try_lock(&o->rw) : gmp_rwmutex_try_rlock(&o->rw); break;
	case 1:
		err = write ? gmp_rwmutex_lock_until(&o->rw, soon)
			    : gmp_rwmutex_rlock_until(&o->rw, soon);
		break;
	default:
		err = write ? gmp_rwmutex_lock(&o->rw) : gmp_rwmutex_rlock(&o->rw);
		CHECK_EQ(err, 0);
	}
	if (err != 0) {
		CHECK(err == -EAGAIN || err == -ETIMEDOUT);
		return;
	}
	CHECK_EQ(o->a, o->b);
	if (write) {
		CHECK_EQ(atomic_fetch_add(&o->writers, 1), 0);
		CHECK_EQ(atomic_load(&o->readers), 0);
		o->a++;
		dwell(r);
		o->b++;
		CHECK_EQ(atomic_load(&o->readers), 0);
		atomic_fetch_sub(&o->writers, 1);
		CHECK_EQ(gmp_rwmutex_unlock(&o->rw), 0);
	} else {
		atomic_fetch_add(&o->readers, 1);
		CHECK_EQ(atomic_load(&o->writers), 0);
		dwell(r);
		CHECK_EQ(atomic_load(&o->writers), 0);
		atomic_fetch_sub(&o->readers, 1);
		CHECK_EQ(gmp_rwmutex_runlock(&o->rw), 0);
	}
}

struct task {
	gmp_wg *wg;
	atomic_int *ran;
};

static void run_task(void *arg)
{
	struct task *t = arg;
	gmp_wg *wg = t->wg;
	struct rng r = rng_for(atomic_fetch_add(&next_id, 1));

	dwell(&r);
	atomic_fetch_add(t->ran, 1);
	if (wg != NULL)
		CHECK_EQ(gmp_wg_done(wg), 0);
}

/* Both the wait group and what it guards are freed as soon as the wait is over. */
static void use_wg(struct rng *r)
{
	struct {
		gmp_wg wg;
		atomic_int ran;
		struct task t;
	} *o = calloc(1, sizeof(*o));
	int n = 1 + (int)draw(r, 8), err;

	CHECK(o != NULL);
	o->t = (struct task){ &o->wg, &o->ran };
	CHECK_EQ(gmp_wg_add(&o->wg, n), 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(run_task, &o->t), 0);
	do {
		err = draw(r, 2) ? gmp_wg_wait(&o->wg)
				 : gmp_wg_wait_until(&o->wg, gmp_deadline(draw(r, 100) * US));
		CHECK(err == 0 || err == -ETIMEDOUT);
	} while (err != 0);
	CHECK_EQ(atomic_load(&o->ran), n);
	memset((void *)o, 0xee, sizeof(*o));
	free(o);
}

static void use_join(struct rng *r)
{
	atomic_int ran = 0;
	struct task t = { NULL, &ran };
	int n = 1 + (int)draw(r, 8);
	gmp_g *g[8];

	for (int i = 0; i < n; i++) {
		gmp_attr a = GMP_ATTR_INIT;

		a.stack_size = draw(r, 4) ? 0 : (size_t)(64 << 10) << draw(r, 4);
		a.name = draw(r, 2) ? "task" : NULL;
		CHECK_EQ(gmp_spawn(&g[i], run_task, &t, &a), 0);
	}
	for (int i = 0; i < n; i++) {
		int err;

		do {
			err = draw(r, 2) ? gmp_join(g[i])
					 : gmp_join_until(g[i], gmp_deadline(draw(r, 100) * US));
			CHECK(err == 0 || err == -ETIMEDOUT);
		} while (err != 0);
	}
	CHECK_EQ(atomic_load(&ran), n);
}

static void count_one(void *arg)
{
	gmp_yield();
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void use_timer(struct rng *r)
{
	atomic_int fired = 0;
	gmp_timer *t = gmp_timer_new(count_one, &fired);
	int sets = 1 + (int)draw(r, 3), pending = 0;

	CHECK(t != NULL);
	if (draw(r, 3) == 0) {
		int64_t first = gmp_deadline(draw(r, 100) * US);

		CHECK_EQ(gmp_timer_set(t, first, (1 + draw(r, 50)) * US), 0);
		dwell(r);
		if (draw(r, 2))
			CHECK_EQ(gmp_timer_stop(t), 1);
		gmp_timer_free(t);
		return;
	}
	/* Every set is matched by one run, or by a later call that says it was still armed. */
	for (int i = 0; i < sets; i++) {
		int armed = gmp_timer_set(t, gmp_deadline(draw(r, 100) * US), 0);

		CHECK(armed == 0 || armed == 1);
		pending += 1 - armed;
		dwell(r);
	}
	pending -= gmp_timer_stop(t);
	gmp_timer_free(t);
	CHECK_EQ(atomic_load(&fired), pending);
}

static void worker(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);

	while (!stress_over()) {
		switch (draw(&r, 16)) {
		case 0: use_wg(&r); break;
		case 1: use_join(&r); break;
		case 2: use_timer(&r); break;
		case 3: gmp_sleep((int64_t)draw(&r, 300) * US); break;
		case 4: gmp_yield(); break;
		case 5:
		case 6:
		case 7:
		case 8:
		case 9: use_rwmutex(&r); break;
		default: use_mutex(&r);
		}
		atomic_fetch_add(&ops, 1);
	}
}

static void mix(int procs, int resize)
{
	struct foreign f[NFOREIGN];
	struct rng r = rng_for(0);
	gmp_g *g[NGREEN];

	for (int i = 0; i < NFOREIGN; i++)
		foreign_start(&f[i], worker, (void *)(intptr_t)(500 + i));
	for (int i = 0; i < NGREEN; i++)
		g[i] = spawn(worker, (void *)(intptr_t)(1 + i));
	while (!stress_over()) {
		if (resize)
			CHECK(gmp_set_procs(1 + (int)draw(&r, 6)) > 0);
		gmp_sleep(MS);
	}
	CHECK(gmp_set_procs(procs) > 0);
	for (int i = 0; i < NGREEN; i++)
		join(g[i]);
	for (int i = 0; i < NFOREIGN; i++)
		foreign_join(&f[i]);
	for (int i = 0; i < NMUTEX; i++) {
		CHECK_EQ(gmp_mutex_try_lock(&guarded[i].mu), 0);
		CHECK_EQ(guarded[i].a, guarded[i].b);
	}
	for (int i = 0; i < NRW; i++) {
		CHECK_EQ(gmp_rwmutex_try_lock(&shared[i].rw), 0);
		CHECK_EQ(shared[i].a, shared[i].b);
	}
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(stats().timers, 0);
	fprintf(stderr, "%ld operations\n", atomic_load(&ops));
}

RT(everything_that_waits_keeps_its_word)
{
	stress_begin();
	mix(procs, 0);
}

RT(everything_that_waits_keeps_its_word_while_ps_come_and_go)
{
	stress_begin();
	mix(procs, 1);
}

static void *plain_worker(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);

	while (!stress_over()) {
		if (draw(&r, 2))
			use_mutex(&r);
		else
			use_rwmutex(&r);
	}
	return NULL;
}

TEST(locks_between_plain_threads_keep_their_word)
{
	pthread_t t[8];

	stress_begin();
	for (int i = 0; i < 8; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, plain_worker, (void *)(intptr_t)(i + 1)), 0);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	for (int i = 0; i < NMUTEX; i++)
		CHECK_EQ(gmp_mutex_try_lock(&guarded[i].mu), 0);
	for (int i = 0; i < NRW; i++)
		CHECK_EQ(gmp_rwmutex_try_lock(&shared[i].rw), 0);
}
