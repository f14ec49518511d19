/* SPDX-License-Identifier: MIT */
/* Actors for pools, groups, singleflights, locals, done objects and calls that never wait. */
#ifndef TESTS_SOAK_ACTORS_TOGETHER_H
#define TESTS_SOAK_ACTORS_TOGETHER_H

/* --------------------------------------------------------------------- Pools */

static void task(void *arg)
{
	static atomic_uint n;

	switch (atomic_fetch_add(&n, 1) % 8) {
	case 0: gmp_sleep(200 * US); break;
	case 1: gmp_yield(); break;
	default: break;
	}
	atomic_fetch_add((atomic_long *)arg, 1);
}

static void task_dropped(gmp_fn fn, void *arg)
{
	CHECK(fn == task);
	atomic_fetch_add((atomic_long *)arg, 1);
}

struct submitter {
	gmp_pool *p;
	atomic_long *ran;
	long accepted;
	uint64_t id;
};

static void submit(void *arg)
{
	struct submitter *s = arg;
	struct rng r = rng_for(s->id);

	for (unsigned n = draw(&r, 60); n > 0; n--) {
		int err;

		switch (draw(&r, 5)) {
		case 0: err = gmp_pool_try_submit(s->p, task, s->ran); break;
		case 1:
			err = gmp_pool_submit_until(s->p, task, s->ran,
						    gmp_deadline(draw(&r, 300) * US));
			break;
		case 2:
			err = gmp_pool_submit_at(s->p, gmp_deadline(draw(&r, 1000) * US), task,
						 s->ran);
			break;
		case 3: err = gmp_pool_invoke(s->p, s->ran); break;
		default: err = gmp_pool_submit(s->p, task, s->ran); break;
		}
		s->accepted += err == 0;
		CHECK(err == 0 || err == -EAGAIN || err == -ETIMEDOUT || err == -EPIPE);
	}
}

/* Checks that each accepted task runs once or is reported as dropped once. */
static void pools(struct rng *r)
{
	enum { MOST = 6 };
	gmp_pool_opts o = GMP_POOL_OPTS_INIT;
	struct submitter s[MOST];
	gmp_g *g[MOST];
	atomic_long ran = 0;
	long accepted = 0;
	int n = 1 + (int)draw(r, MOST), err;

	o.fn = task;
	o.dropped = task_dropped;
	o.nonblocking = draw(r, 4) == 0;
	o.max_waiting = (int)draw(r, 4);
	o.idle_ns = draw(r, 2) ? 0 : MS;
	gmp_pool *p = gmp_pool_new(1 + (int)draw(r, 8), &o);

	CHECK(p != NULL);
	for (int i = 0; i < n; i++) {
		s[i] = (struct submitter){ p, &ran, 0, draw(r, 1 << 30) };
		g[i] = spawn(submit, &s[i]);
	}
	nap(r, 2000);
	if (draw(r, 2))
		CHECK_EQ(gmp_pool_resize(p, 1 + (int)draw(r, 10)), 0);
	if (draw(r, 2)) {
		err = gmp_pool_release(p, gmp_deadline(draw(r, 1000) * US));
		CHECK(err == 0 || err == -ETIMEDOUT);
		CHECK_EQ(gmp_pool_reboot(p), 0);
	}
	for (int i = 0; i < n; i++) {
		join(g[i]);
		accepted += s[i].accepted;
	}
	gmp_pool_free(p);
	CHECK_EQ(atomic_load(&ran), accepted);
	nap(r, 5000);
}

/* -------------------------------------------------------------------- Groups */

struct family {
	gmp_group *g;
	atomic_long begun, ended;
	unsigned fails; /* index of the child that fails; 0: none fails */
};

static int family_child(void *arg)
{
	struct family *f = arg;
	long n = atomic_fetch_add(&f->begun, 1);
	int err = 0;

	if (n % 7 == 3 && n < 40)
		err = gmp_group_try_go(f->g, family_child, f);
	CHECK(err == 0 || err == -EAGAIN);
	err = gmp_sleep(n % 5 * 50 * US);
	CHECK(err == 0 || err == -ECANCELED);
	atomic_fetch_add(&f->ended, 1);
	if (f->fails && n == f->fails)
		return -EIO;
	if (n % 11 == 5)
		gmp_exit();
	return 0;
}

static void groups(struct rng *r)
{
	struct family f = { .fails = draw(r, 2) ? draw(r, 40) : 0 };
	bool hurried = draw(r, 4) == 0;
	int err;

	f.g = gmp_group_new((int)draw(r, 6), hurried ? gmp_deadline(300 * US) : GMP_FOREVER);
	CHECK(f.g != NULL);
	for (unsigned n = draw(r, 50); n > 0; n--)
		CHECK_EQ(gmp_group_go(f.g, family_child, &f), 0);
	if (draw(r, 5) == 0)
		gmp_group_cancel(f.g);
	err = gmp_group_wait(f.g);
	CHECK(err == 0 || (err == -EIO && f.fails) || (err == -ETIMEDOUT && hurried));
	CHECK_EQ(atomic_load(&f.begun), atomic_load(&f.ended));
	gmp_group_free(f.g);
	nap(r, 5000);
}

/* ------------------------------------------------------------------- Flights */

struct asked {
	gmp_singleflight *f;
	atomic_int *computed;
	long key;
};

static int compute_it(void *arg, void *value)
{
	struct asked *a = arg;

	atomic_fetch_add(a->computed, 1);
	gmp_sleep(100 * US);
	*(long *)value = a->key * 3 + 1;
	return 0;
}

static void ask_for_it(void *arg)
{
	struct asked *a = arg;
	long v = 0;
	int sharers = 0,
	    err = gmp_singleflight_do(a->f, &a->key, sizeof(a->key), compute_it, a, &v, &sharers);

	CHECK_EQ(err, 0);
	CHECK_EQ(v, a->key * 3 + 1);
	CHECK(sharers >= 1);
	err = gmp_singleflight_do_until(a->f, &a->key, sizeof(a->key), compute_it, a, &v, NULL,
					gmp_deadline(50 * US));
	CHECK(err == 0 || err == -ETIMEDOUT);
}

static void flights(struct rng *r)
{
	enum { MOST = 20 };
	gmp_singleflight *f = gmp_singleflight_new(sizeof(long));
	struct asked a[MOST];
	gmp_g *g[MOST];
	atomic_int computed = 0;
	int n = 1 + (int)draw(r, MOST), err;
	long key = draw(r, 3);

	CHECK(f != NULL);
	for (int i = 0; i < n; i++) {
		a[i] = (struct asked){ f, &computed, i % 3 };
		g[i] = spawn(ask_for_it, &a[i]);
	}
	err = gmp_singleflight_forget(f, &key, sizeof(key));
	CHECK(err == 0 || err == -ENOENT);
	for (int i = 0; i < n; i++)
		join(g[i]);
	CHECK(atomic_load(&computed) <= 2 * n);
	gmp_singleflight_free(f);
	nap(r, 5000);
}

/* -------------------------------------------------------------------- Locals */

static void local_gone(void *v)
{
	atomic_fetch_add((atomic_int *)v, 1);
	gmp_yield();
}

struct keyed {
	gmp_key key;
	atomic_int *gone;
};

static void have_local(void *arg)
{
	struct keyed *k = arg;

	CHECK(gmp_key_get(k->key) == NULL);
	CHECK_EQ(gmp_key_set(k->key, k->gone), 0);
	gmp_sleep(50 * US);
	CHECK(gmp_key_get(k->key) == k->gone);
}

static void locals(struct rng *r)
{
	enum { MOST = 20 };
	struct keyed k;
	gmp_g *g[MOST];
	atomic_int gone = 0;
	int n = (int)draw(r, MOST);

	k.gone = &gone;
	CHECK_EQ(gmp_key_create(&k.key, local_gone), 0);
	for (int i = 0; i < n; i++)
		g[i] = spawn(have_local, &k);
	for (int i = 0; i < n; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&gone), n);
	CHECK_EQ(gmp_key_delete(k.key), 0);
	nap(r, 5000);
}

/* ------------------------------------------------------------- Done, meetings */

struct watched {
	gmp_done *d;
	gmp_chan *never;
};

static void watch_it(void *arg)
{
	struct watched *w = arg;
	gmp_case cases[] = { GMP_RECV_CASE(w->never, NULL),
			     GMP_RECV_CASE(gmp_done_chan(w->d), NULL) };
	int err = gmp_done_wait_until(w->d, gmp_deadline(100 * US));

	CHECK(err == 0 || err == -ETIMEDOUT);
	CHECK_EQ(gmp_select(cases, 2), 1);
	CHECK_EQ(cases[1].status, -EPIPE);
	CHECK_EQ(gmp_done_wait(w->d), 0);
}

static void done_objects(struct rng *r)
{
	enum { MOST = 20 };
	struct watched w = { gmp_done_new(), gmp_chan_new(0, 0) };
	gmp_g *g[MOST];
	int n = (int)draw(r, MOST);

	CHECK(w.d != NULL && w.never != NULL);
	for (int i = 0; i < n; i++)
		g[i] = spawn(watch_it, &w);
	nap(r, 500);
	CHECK_EQ(gmp_done_set(w.d), 0);
	CHECK_EQ(gmp_done_set(w.d), -EALREADY);
	for (int i = 0; i < n; i++)
		join(g[i]);
	gmp_done_free(w.d);
	gmp_chan_free(w.never);
	nap(r, 5000);
}

struct meeting_place {
	gmp_barrier b;
	gmp_once once;
	gmp_wg done;
	atomic_int serial, inits, rounds;
};

static void init_place(void *arg)
{
	gmp_yield();
	atomic_fetch_add((atomic_int *)arg, 1);
}

enum { MEET_ROUNDS = 10 };

static void meet(void *arg)
{
	struct meeting_place *m = arg;

	for (int i = 0; i < MEET_ROUNDS; i++) {
		CHECK_EQ(gmp_once_do(&m->once, init_place, &m->inits), 0);
		CHECK_EQ(atomic_load(&m->inits), 1);
		int first = gmp_barrier_wait(&m->b);

		CHECK(first == 0 || first == 1);
		atomic_fetch_add(&m->rounds, first);
		CHECK(atomic_load(&m->rounds) <= i + 2);
	}
	CHECK_EQ(gmp_wg_done(&m->done), 0);
}

static void meetings(struct rng *r)
{
	int n = 1 + (int)draw(r, 8);
	struct meeting_place m = { .b = GMP_BARRIER_INIT(n) };

	CHECK_EQ(gmp_wg_add(&m.done, n), 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_go(meet, &m), 0);
	while (gmp_wg_wait_until(&m.done, gmp_deadline(200 * US)) != 0)
		gmp_checkpoint();
	CHECK_EQ(atomic_load(&m.rounds), MEET_ROUNDS);
	nap(r, 5000);
}

/* --------------------------------------------------------------------- Tries */

struct tried {
	gmp_mutex m;
	gmp_rwmutex rw;
	gmp_sem s;
	gmp_cond c;
	gmp_chan *chan;
	atomic_int holders, writers;
	atomic_long sent, received;
	uint64_t id;
};

static void try_everything(void *arg)
{
	struct tried *t = arg;
	struct rng r = rng_for(t->id + atomic_fetch_add(&serial, 1));

	for (int i = 0; i < 60; i++) {
		long v = i;
		gmp_case cases[] = { GMP_RECV_CASE(t->chan, &v), GMP_RECV_CASE(NULL, NULL) };

		switch (draw(&r, 7)) {
		case 0:
		case 1:
			if (draw(&r, 2) ? gmp_mutex_try_lock(&t->m)
					: gmp_mutex_lock_until(&t->m, gmp_deadline(50 * US)))
				break;
			CHECK_EQ(atomic_fetch_add(&t->holders, 1), 0);
			if (draw(&r, 4) == 0)
				gmp_yield();
			CHECK_EQ(atomic_fetch_sub(&t->holders, 1), 1);
			if (draw(&r, 4) == 0) {
				int err = gmp_cond_wait_until(&t->c, &t->m, gmp_deadline(100 * US));

				CHECK(err == 0 || err == -ETIMEDOUT);
				CHECK_EQ(atomic_load(&t->holders), 0);
			}
			CHECK_EQ(gmp_mutex_unlock(&t->m), 0);
			CHECK_EQ(gmp_cond_signal(&t->c), 0);
			break;
		case 2:
			if (gmp_rwmutex_try_lock(&t->rw))
				break;
			CHECK_EQ(atomic_fetch_add(&t->writers, 1), 0);
			CHECK_EQ(atomic_fetch_sub(&t->writers, 1), 1);
			CHECK_EQ(gmp_rwmutex_unlock(&t->rw), 0);
			break;
		case 3:
			if (draw(&r, 2) ? gmp_rwmutex_try_rlock(&t->rw)
					: gmp_rwmutex_rlock_until(&t->rw, gmp_deadline(50 * US)))
				break;
			CHECK_EQ(atomic_load(&t->writers), 0);
			CHECK_EQ(gmp_rwmutex_runlock(&t->rw), 0);
			break;
		case 4:
			if (draw(&r, 2) ? gmp_sem_try_acquire(&t->s)
					: gmp_sem_acquire_until(&t->s, gmp_deadline(50 * US)))
				break;
			CHECK_EQ(gmp_sem_release(&t->s, 1), 0);
			break;
		case 5: atomic_fetch_add(&t->sent, gmp_chan_try_send(t->chan, &v) == 0); break;
		default:
			if (draw(&r, 2))
				v = gmp_chan_try_recv(t->chan, &v);
			else
				v = gmp_select_try(cases, 2);
			CHECK(v == 0 || v == -EAGAIN);
			atomic_fetch_add(&t->received, v == 0);
		}
	}
}

static void tries(struct rng *r)
{
	enum { MOST = 10 };
	struct tried t = { .s = GMP_SEM_INIT(2), .id = draw(r, 1 << 30) };
	gmp_g *g[MOST];
	int n = 1 + (int)draw(r, MOST), err;

	t.chan = gmp_chan_new(sizeof(long), draw(r, 4));
	CHECK(t.chan != NULL);
	for (int i = 0; i < n; i++)
		g[i] = spawn(try_everything, &t);
	for (int i = 0; i < n; i++)
		while ((err = gmp_join_until(g[i], gmp_deadline(100 * US))) != 0)
			CHECK_EQ(err, -ETIMEDOUT);
	CHECK_EQ(atomic_load(&t.sent) - atomic_load(&t.received), gmp_chan_len(t.chan));
	gmp_chan_free(t.chan);
	g[0] = spawn(nothing, &t.holders);
	CHECK_EQ(gmp_detach(g[0]), 0);
	while (atomic_load(&t.holders) == 0)
		nap(r, 100);
	nap(r, 3000);
}

#endif
