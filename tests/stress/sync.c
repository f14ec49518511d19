/* SPDX-License-Identifier: MIT */
/*
 * Random mix of all synchronization objects under contention and cancellation.
 *
 * Uses mutexes, rwmutexes, condition variables, semaphores, wait groups, onces, barriers, sleeps,
 * joins and timers, on green threads and external threads, some of which are cancelled at a random
 * moment, while the number of Ps changes.  Checks mutual exclusion and all counts.  An object that
 * lives for one round is freed at the earliest permitted moment, to detect a use-after-free.
 */
#include "stress.h"

enum { NMUTEX = 3, NRW = 2, NSEM = 2, NSTORE = 2, NGREEN = 40, NEXTERNAL = 3 };
enum { PERMITS = 3, ROOM = 4, CROWD = 3 };

static struct guarded {
	gmp_mutex mu;
	long a, b; /* equal while mu is free */
} guarded[NMUTEX];

static struct shared {
	gmp_rwmutex rw;
	long a, b;
	atomic_int readers, writers;
} shared[NRW];

static struct slots {
	gmp_sem sem;
	atomic_int taken;
} slots[NSEM];

static struct store { /* a buffer that is only counted */
	gmp_mutex mu;
	gmp_cond filled, emptied;
	int stock;
	long in, out;
} stores[NSTORE];

static gmp_barrier crowd = GMP_BARRIER_INIT(CROWD); /* of the victims (use_cancel) */
static atomic_long passed, falls;
static gmp_sem empty; /* never released */

static atomic_long ops, cancels;
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

/* Checks the error of a wait. */
static void check_refused(int err)
{
	CHECK(err == -EAGAIN || err == -ETIMEDOUT || (err == -ECANCELED && gmp_cancelled()));
}

static int64_t soon(struct rng *r)
{
	return gmp_deadline((int64_t)draw(r, 200) * US);
}

static void use_mutex(struct rng *r)
{
	struct guarded *o = &guarded[draw(r, NMUTEX)];
	int err;

	switch (draw(r, 4)) {
	case 0: err = gmp_mutex_try_lock(&o->mu); break;
	case 1: err = gmp_mutex_lock_until(&o->mu, draw(r, 2) ? soon(r) : GMP_FOREVER); break;
	default: err = gmp_mutex_lock(&o->mu); CHECK_EQ(err, 0);
	}
	if (err != 0) {
		check_refused(err);
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
	int64_t d = draw(r, 2) ? soon(r) : GMP_FOREVER;

	switch (draw(r, 4)) {
	case 0: err = write ? gmp_rwmutex_try_lock(&o->rw) : gmp_rwmutex_try_rlock(&o->rw); break;
	case 1:
		err = write ? gmp_rwmutex_lock_until(&o->rw, d)
			    : gmp_rwmutex_rlock_until(&o->rw, d);
		break;
	default:
		err = write ? gmp_rwmutex_lock(&o->rw) : gmp_rwmutex_rlock(&o->rw);
		CHECK_EQ(err, 0);
	}
	if (err != 0) {
		check_refused(err);
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

static void use_sem(struct rng *r)
{
	struct slots *o = &slots[draw(r, NSEM)];
	int err;

	switch (draw(r, 4)) {
	case 0: err = gmp_sem_try_acquire(&o->sem); break;
	case 1: err = gmp_sem_acquire_until(&o->sem, soon(r)); break;
	default: err = gmp_sem_acquire(&o->sem);
	}
	if (err != 0) {
		check_refused(err);
		return;
	}
	CHECK(atomic_fetch_add(&o->taken, 1) < PERMITS);
	dwell(r);
	CHECK(atomic_fetch_sub(&o->taken, 1) > 0);
	CHECK_EQ(gmp_sem_release(&o->sem, 1), 0);
}

static void wake(struct rng *r, gmp_cond *c)
{
	CHECK_EQ(draw(r, 4) ? gmp_cond_signal(c) : gmp_cond_broadcast(c), 0);
}

/* Puts or takes one item.  The deadline is short, since no other worker may do the opposite. */
static void use_store(struct rng *r)
{
	struct store *o = &stores[draw(r, NSTORE)];
	int put = (int)draw(r, 2), late = (int)draw(r, 2), err = 0;

	CHECK_EQ(gmp_mutex_lock(&o->mu), 0);
	while (err == 0 && o->stock == (put ? ROOM : 0))
		err = gmp_cond_wait_until(put ? &o->emptied : &o->filled, &o->mu, soon(r));
	if (err != 0) {
		/* the caller owns the mutex again and has consumed no signal */
		check_refused(err);
		CHECK_EQ(gmp_mutex_try_lock(&o->mu), -EAGAIN);
		CHECK_EQ(gmp_mutex_unlock(&o->mu), 0);
		return;
	}
	o->stock += put ? 1 : -1;
	*(put ? &o->in : &o->out) += 1;
	CHECK(o->stock >= 0 && o->stock <= ROOM);
	if (!late)
		wake(r, put ? &o->filled : &o->emptied);
	CHECK_EQ(gmp_mutex_unlock(&o->mu), 0);
	if (late)
		wake(r, put ? &o->filled : &o->emptied);
}

/* --- objects of one round, freed at its end --- */

static void check_go(gmp_fn fn, void *arg, int n)
{
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(fn, arg), 0);
}

/* The members pass a token around the ring: a lost wakeup stops it indefinitely. */
struct ring {
	gmp_mutex mu;
	gmp_cond turned;
	int members, joined, turn, left;
	gmp_wg *over;
};

static void go_round(void *arg)
{
	struct ring *o = arg;
	struct rng r = rng_for(atomic_fetch_add(&next_id, 1));
	gmp_wg *over = o->over;

	CHECK_EQ(gmp_mutex_lock(&o->mu), 0);
	int me = o->joined++;

	for (int i = 0; i < 10; i++) {
		while (o->turn % o->members != me)
			CHECK_EQ(gmp_cond_wait(&o->turned, &o->mu), 0);
		o->turn++;
		if (o->members == 2)
			CHECK_EQ(gmp_cond_signal(&o->turned), 0);
		else
			CHECK_EQ(gmp_cond_broadcast(&o->turned), 0);
		if (draw(&r, 4) == 0) {
			CHECK_EQ(gmp_mutex_unlock(&o->mu), 0);
			dwell(&r);
			CHECK_EQ(gmp_mutex_lock(&o->mu), 0);
		}
	}
	int last = --o->left == 0;

	CHECK_EQ(gmp_mutex_unlock(&o->mu), 0);
	if (!last)
		return;
	memset(o, 0xee, sizeof(*o));
	free(o);
	CHECK_EQ(gmp_wg_done(over), 0);
}

static void use_ring(struct rng *r)
{
	struct ring *o = calloc(1, sizeof(*o));
	gmp_wg over = GMP_WG_INIT;

	CHECK(o != NULL);
	o->members = o->left = 2 + (int)draw(r, 3);
	o->over = &over;
	CHECK_EQ(gmp_wg_add(&over, 1), 0);
	check_go(go_round, o, o->members);
	CHECK_EQ(gmp_wg_wait(&over), 0);
}

struct single {
	gmp_once once;
	int value; /* plain */
	atomic_int runs, refs;
	int leaves; /* by gmp_exit */
	gmp_wg *over;
};

static void put_back(struct single *o)
{
	gmp_wg *over = o->over;

	if (atomic_fetch_sub(&o->refs, 1) > 1)
		return;
	CHECK_EQ(atomic_load(&o->runs), 1);
	memset((void *)o, 0xee, sizeof(*o));
	free(o);
	CHECK_EQ(gmp_wg_done(over), 0);
}

static void put_back_joined(void *arg)
{
	struct single *o = arg;

	/* waits until the once is done: the function that left by gmp_exit cannot report it */
	CHECK_EQ(gmp_once_do(&o->once, put_back_joined, NULL), 0);
	put_back(o);
}

static void set_value(void *arg)
{
	struct single *o = arg;
	struct rng r = rng_for(atomic_fetch_add(&next_id, 1));

	atomic_fetch_add(&o->runs, 1);
	dwell(&r);
	o->value = 42;
	if (!o->leaves)
		return;
	CHECK_EQ(gmp_go(put_back_joined, o), 0);
	gmp_exit();
}

static void get_value(void *arg)
{
	struct single *o = arg;
	struct rng r = rng_for(atomic_fetch_add(&next_id, 1));

	dwell(&r);
	CHECK_EQ(gmp_once_do(&o->once, set_value, o), 0);
	CHECK_EQ(o->value, 42);
	put_back(o);
}

static void use_once(struct rng *r)
{
	struct single *o = calloc(1, sizeof(*o));
	gmp_wg over = GMP_WG_INIT;
	int n = 1 + (int)draw(r, 6);

	CHECK(o != NULL);
	o->refs = n;
	o->leaves = draw(r, 4) == 0;
	o->over = &over;
	CHECK_EQ(gmp_wg_add(&over, 1), 0);
	check_go(get_value, o, n);
	CHECK_EQ(gmp_wg_wait(&over), 0);
}

enum { ROUNDS = 5 };

struct march {
	gmp_barrier b;
	int n;
	atomic_int arrived[ROUNDS], chosen;
	gmp_wg *over;
};

/* The caller for which the last gmp_barrier_wait returns 1 frees the barrier at once. */
static void march(void *arg)
{
	struct march *o = arg;
	struct rng r = rng_for(atomic_fetch_add(&next_id, 1));
	gmp_wg *over = o->over;
	int n = o->n, last = 0;

	for (int i = 0; i < ROUNDS; i++) {
		dwell(&r);
		atomic_fetch_add(&o->arrived[i], 1);
		if (i == ROUNDS - 1)
			CHECK(atomic_load(&o->chosen) == ROUNDS - 1);
		last = gmp_barrier_wait(&o->b);
		CHECK(last == 0 || last == 1);
		if (i == ROUNDS - 1)
			break;
		CHECK_EQ(atomic_load(&o->arrived[i]), n);
		atomic_fetch_add(&o->chosen, last);
		CHECK(gmp_barrier_wait(&o->b) >= 0); /* all have updated `chosen` */
	}
	if (!last)
		return;
	memset((void *)o, 0xee, sizeof(*o));
	free(o);
	CHECK_EQ(gmp_wg_done(over), 0);
}

static void use_barrier(struct rng *r)
{
	struct march *o = calloc(1, sizeof(*o));
	gmp_wg over = GMP_WG_INIT;

	CHECK(o != NULL);
	o->n = 1 + (int)draw(r, 5);
	o->b = (gmp_barrier)GMP_BARRIER_INIT(o->n);
	o->over = &over;
	CHECK_EQ(gmp_wg_add(&over, 1), 0);
	check_go(march, o, o->n);
	CHECK_EQ(gmp_wg_wait(&over), 0);
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

/* Frees the wait group and the task as soon as the wait has returned. */
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
	/* Each set leads to one run, or a later call reports that the timer was still armed. */
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

/* --- cancellation --- */

static void join_the_crowd(void)
{
	int result = gmp_barrier_wait(&crowd);

	if (result < 0) {
		check_refused(result);
		return;
	}
	atomic_fetch_add(&passed, 1);
	atomic_fetch_add(&falls, result);
}

static void use_something(struct rng *r)
{
	switch (draw(r, 6)) {
	case 0: use_mutex(r); break;
	case 1: use_rwmutex(r); break;
	case 2: use_sem(r); break;
	case 3: use_store(r); break;
	default: join_the_crowd();
	}
}

static void victim(void *arg)
{
	struct rng r = rng_for(atomic_fetch_add(&next_id, 1));

	(void)arg;
	do {
		use_something(&r);
		if (draw(&r, 4) == 0) {
			CHECK_EQ(gmp_cancel_mask(1), 0);
			CHECK_EQ(gmp_sleep((int64_t)draw(&r, 30) * US), 0);
			CHECK_EQ(gmp_sem_acquire_until(&empty, soon(&r)), -ETIMEDOUT);
			CHECK_EQ(gmp_cancel_mask(0), 0);
		}
		if (draw(&r, 8) == 0)
			CHECK_EQ(gmp_sem_acquire(&empty), -ECANCELED);
	} while (!gmp_cancelled());
	for (int i = 0; i < 3; i++)
		use_something(&r);
	CHECK_EQ(gmp_sem_acquire_until(&empty, soon(&r)), -ECANCELED);
}

static void use_cancel(struct rng *r)
{
	gmp_g *g[6];
	int n = 1 + (int)draw(r, 6), k = (int)draw(r, 6);

	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_spawn(&g[i], victim, NULL, NULL), 0);
	dwell(r);
	if (draw(r, 2))
		gmp_sleep((int64_t)draw(r, 300) * US);
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_cancel(g[(i + k) % n]), 0);
	for (int i = 0; i < n; i++)
		join(g[i]);
	atomic_fetch_add(&cancels, n);
}

static void worker(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);

	while (!stress_over()) {
		switch (draw(&r, 24)) {
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
		case 10: use_ring(&r); break;
		case 11: use_once(&r); break;
		case 12: use_barrier(&r); break;
		case 13: use_cancel(&r); break;
		case 14:
		case 15: use_sem(&r); break;
		case 16:
		case 17: use_store(&r); break;
		default: use_mutex(&r);
		}
		atomic_fetch_add(&ops, 1);
	}
}

static void set_up(void)
{
	for (int i = 0; i < NSEM; i++)
		slots[i].sem = (gmp_sem)GMP_SEM_INIT(PERMITS);
}

/* Precondition: no worker is left.  Checks that all objects are unlocked and all counts agree. */
static void check_all_at_rest(void)
{
	for (int i = 0; i < NMUTEX; i++) {
		CHECK_EQ(gmp_mutex_try_lock(&guarded[i].mu), 0);
		CHECK_EQ(guarded[i].a, guarded[i].b);
	}
	for (int i = 0; i < NRW; i++) {
		CHECK_EQ(gmp_rwmutex_try_lock(&shared[i].rw), 0);
		CHECK_EQ(shared[i].a, shared[i].b);
	}
	for (int i = 0; i < NSEM; i++) {
		for (int k = 0; k < PERMITS; k++)
			CHECK_EQ(gmp_sem_try_acquire(&slots[i].sem), 0);
		CHECK_EQ(gmp_sem_try_acquire(&slots[i].sem), -EAGAIN);
	}
	for (int i = 0; i < NSTORE; i++) {
		CHECK_EQ(gmp_mutex_try_lock(&stores[i].mu), 0);
		CHECK_EQ(stores[i].in - stores[i].out, stores[i].stock);
	}
	CHECK_EQ(crowd.arrived, 0);
	CHECK_EQ(atomic_load(&passed), CROWD * atomic_load(&falls));
}

static void mix(int procs, int resize)
{
	struct ext_thread f[NEXTERNAL];
	struct rng r = rng_for(0);
	gmp_g *g[NGREEN];

	set_up();
	for (int i = 0; i < NEXTERNAL; i++)
		ext_thread_start(&f[i], worker, (void *)(intptr_t)(500 + i));
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
	for (int i = 0; i < NEXTERNAL; i++)
		ext_thread_join(&f[i]);
	check_all_at_rest();
	WAIT_FOR(stats().greens == 1);
	CHECK_EQ(stats().timers, 0);
	fprintf(stderr, "%ld operations, %ld cancelled, %ld barrier trips\n", atomic_load(&ops),
		atomic_load(&cancels), atomic_load(&falls));
}

RT(sync_objects_under_random_mix_keep_promises)
{
	stress_begin();
	mix(procs, 0);
}

RT(sync_objects_under_changing_procs_keep_promises)
{
	stress_begin();
	mix(procs, 1);
}

static void *external_worker(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);

	while (!stress_over()) {
		switch (draw(&r, 4)) {
		case 0: use_mutex(&r); break;
		case 1: use_rwmutex(&r); break;
		case 2: use_sem(&r); break;
		default: use_store(&r);
		}
	}
	return NULL;
}

TEST(sync_objects_of_external_threads_keep_promises)
{
	pthread_t t[8];

	stress_begin();
	set_up();
	for (int i = 0; i < 8; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, external_worker, (void *)(intptr_t)(i + 1)),
			 0);
	for (int i = 0; i < 8; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	check_all_at_rest();
}
