/* SPDX-License-Identifier: MIT */
/* Actors for timers, channels, locks, OS threads and green threads (actors.h). */
#ifndef TESTS_SOAK_ACTORS_INSIDE_H
#define TESTS_SOAK_ACTORS_INSIDE_H

/* ----------------------------------------------- Timers, channels and locks */

static void ring(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void timers(struct rng *r)
{
	enum { MOST = 50 };
	gmp_timer *t[MOST];
	gmp_chan *tick = gmp_tick_new(gmp_deadline(draw(r, 1000) * US), draw(r, 3) * 100 * US);
	int64_t at;
	atomic_int rung = 0;
	int n = (int)draw(r, MOST);

	CHECK(tick != NULL);
	for (int i = 0; i < n; i++) {
		t[i] = gmp_timer_new(ring, &rung);
		CHECK(t[i] != NULL);
		CHECK_EQ(gmp_timer_set(t[i], gmp_deadline(draw(r, 3000) * US),
				       draw(r, 4) ? 0 : 200 * US),
			 0);
	}
	CHECK_EQ(gmp_chan_recv(tick, &at), 0);
	nap(r, 4000);
	for (int i = 0; i < n; i++) {
		if (draw(r, 2))
			gmp_timer_set(t[i], gmp_deadline(SEC), 0);
		if (draw(r, 2))
			gmp_timer_stop(t[i]);
		gmp_timer_free(t[i]);
	}
	gmp_tick_free(tick);
}

struct channels {
	gmp_chan *c[3];
	atomic_long sent, received;
	unsigned salt;
};

static void sender(void *arg)
{
	struct channels *s = arg;
	struct rng r = rng_for(s->salt + atomic_fetch_add(&serial, 1));

	for (unsigned n = draw(&r, 300); n > 0; n--) {
		long v = 1 + draw(&r, 9), u = v;
		gmp_case cases[] = { GMP_SEND_CASE(s->c[0], &v), GMP_SEND_CASE(s->c[1], &u) };
		int k = draw(&r, 8) ? gmp_select(cases, 2)
				    : gmp_select_until(cases, 2, gmp_deadline(draw(&r, 200) * US));

		if (k >= 0)
			atomic_fetch_add(&s->sent, v);
		else
			CHECK_EQ(k, -ETIMEDOUT);
	}
}

static void receiver(void *arg)
{
	struct channels *s = arg;
	bool open[2] = { true, true };

	while (open[0] || open[1]) {
		long v[2] = { 0, 0 };
		gmp_case cases[] = { GMP_RECV_CASE(open[0] ? s->c[0] : NULL, &v[0]),
				     GMP_RECV_CASE(open[1] ? s->c[1] : NULL, &v[1]),
				     GMP_RECV_CASE(s->c[2], NULL) };
		int k = gmp_select(cases, 3);

		CHECK(k == 0 || k == 1);
		if (cases[k].status == 0)
			atomic_fetch_add(&s->received, v[k]);
		else
			open[k] = false;
	}
}

static void channels(struct rng *r)
{
	enum { MOST = 6 };
	struct channels s = { .salt = draw(r, 1 << 30) };
	gmp_g *sending[MOST], *receiving[MOST];
	int ns = 1 + (int)draw(r, MOST), nr = 1 + (int)draw(r, MOST);

	for (int i = 0; i < 3; i++)
		CHECK((s.c[i] = gmp_chan_new(sizeof(long), draw(r, 4) * 8)) != NULL);
	for (int i = 0; i < nr; i++)
		receiving[i] = spawn(receiver, &s);
	for (int i = 0; i < ns; i++)
		sending[i] = spawn(sender, &s);
	for (int i = 0; i < ns; i++)
		join(sending[i]);
	CHECK_EQ(gmp_chan_close(s.c[0]), 0);
	CHECK_EQ(gmp_chan_close(s.c[1]), 0);
	for (int i = 0; i < nr; i++)
		join(receiving[i]);
	CHECK_EQ(atomic_load(&s.sent), atomic_load(&s.received));
	for (int i = 0; i < 3; i++)
		gmp_chan_free(s.c[i]);
}

struct locks {
	gmp_mutex m;
	gmp_rwmutex rw;
	gmp_cond turned;
	gmp_sem slots;
	int turn, n, inside;
	long count;
};

struct locker {
	struct locks *l;
	int me;
};

static void use_locks(void *arg)
{
	struct locker *w = arg;
	struct locks *l = w->l;

	for (int i = 0; i < 20; i++) {
		CHECK_EQ(gmp_sem_acquire(&l->slots), 0);
		gmp_mutex_lock(&l->m);
		CHECK(++l->inside <= 2);
		gmp_mutex_unlock(&l->m);
		gmp_yield();
		gmp_mutex_lock(&l->m);
		l->inside--;
		gmp_mutex_unlock(&l->m);
		CHECK_EQ(gmp_sem_release(&l->slots, 1), 0);

		if (gmp_rwmutex_lock_until(&l->rw, gmp_deadline(100 * US)) == 0) {
			l->count++;
			gmp_rwmutex_unlock(&l->rw);
		}
		gmp_rwmutex_rlock(&l->rw);
		CHECK(l->count <= 20L * l->n);
		gmp_rwmutex_runlock(&l->rw);

		gmp_mutex_lock(&l->m);
		while (l->turn != w->me)
			CHECK_EQ(gmp_cond_wait(&l->turned, &l->m), 0);
		l->turn = (l->turn + 1) % l->n;
		gmp_cond_broadcast(&l->turned);
		gmp_mutex_unlock(&l->m);
	}
}

static void locks(struct rng *r)
{
	enum { MOST = 8 };
	struct locks l = { .slots = GMP_SEM_INIT(2), .n = 1 + (int)draw(r, MOST) };
	struct locker lockers[MOST];
	gmp_g *g[MOST];

	for (int i = 0; i < l.n; i++) {
		lockers[i] = (struct locker){ &l, i };
		g[i] = spawn(use_locks, &lockers[i]);
	}
	for (int i = 0; i < l.n; i++)
		join(g[i]);
	nap(r, 2000);
}

/* ------------------------------------------------------ Threads and their Ps */

static void blocking(struct rng *r)
{
	switch (draw(r, 8)) {
	case 0: kernel_sleep(draw(r, 15000)); break; /* outside of blocking code */
	case 1:
		if (gmp_lock_thread() == 0) {
			nap(r, 1000);
			gmp_block_enter();
			kernel_sleep(draw(r, 500));
			gmp_block_leave();
			CHECK_EQ(gmp_unlock_thread(), 0);
		}
		break;
	case 2:
		for (int i = 0; i < 1000; i++) {
			gmp_block_enter();
			gmp_block_leave();
		}
		break;
	default:
		gmp_block_enter();
		kernel_sleep(draw(r, 3000));
		gmp_block_leave();
		nap(r, 1000);
	}
}

static void computing(struct rng *r)
{
	int64_t until = gmp_deadline(draw(r, 20000) * US);

	while (gmp_now() < until)
		gmp_checkpoint();
	nap(r, 100000);
}

static void procs(struct rng *r)
{
	CHECK(gmp_set_procs(1 + (int)draw(r, 5)) > 0);
	nap(r, 20000);
	CHECK(stats().threads <= MOST_THREADS);
}

static void *ext_thread_main(void *arg)
{
	gmp_chan *c = arg;
	long v;

	for (long i = 1; i <= 20; i++)
		CHECK_EQ(gmp_chan_send(c, &i), 0);
	gmp_sleep(100 * US);
	CHECK_EQ(gmp_chan_recv(c, &v), 0); /* the answer */
	CHECK_EQ(v, 210);
	return NULL;
}

static void external_threads(struct rng *r)
{
	gmp_chan *c = gmp_chan_new(sizeof(long), 0);
	pthread_t t;
	long sum = 0, v;

	CHECK(c != NULL);
	if (pthread_create(&t, NULL, ext_thread_main, c) == 0) {
		for (int i = 0; i < 20; i++) {
			CHECK_EQ(gmp_chan_recv(c, &v), 0);
			sum += v;
		}
		CHECK_EQ(gmp_chan_send(c, &sum), 0);
		CHECK_EQ(gmp_blocking(pthread_join(t, NULL)), 0);
	}
	gmp_chan_free(c);
	nap(r, 10000);
}

/* ------------------------------------------------------------ Green threads */

static void nothing(void *arg)
{
	atomic_fetch_add((atomic_int *)arg, 1);
}

static void burst(struct rng *r)
{
	enum { MOST = 3000 };
	int n = (int)draw(r, MOST);
	gmp_g **g = malloc(MOST * sizeof(gmp_g *));
	atomic_int ran = 0;

	CHECK(g != NULL);
	for (int i = 0; i < n; i++)
		g[i] = spawn(nothing, &ran);
	for (int i = 0; i < n; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&ran), n);
	free(g);
	nap(r, 50000);
}

static __attribute__((noinline)) int deep(int n)
{
	volatile char room[1024];

	for (size_t i = 0; i < sizeof(room); i += 64)
		room[i] = (char)n;
	return n == 0 ? 0 : room[64] - (char)n + deep(n - 1);
}

static void deep_one(void *arg)
{
	CHECK_EQ(deep((int)(intptr_t)arg), 0);
	gmp_sleep(500 * US);
}

static void stacks(struct rng *r)
{
	enum { MOST = 40 };
	gmp_attr deep_enough = GMP_ATTR_INIT;
	int n = (int)draw(r, MOST);
	gmp_g *g[MOST];

	deep_enough.stack_size = 256 << 10;
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_spawn(&g[i], deep_one, (void *)(intptr_t)draw(r, 100), &deep_enough),
			 0);
	for (int i = 0; i < n; i++)
		join(g[i]);
	nap(r, 50000);
}

struct victim {
	unsigned kind;
	int fd;
	gmp_chan *c;
};

static void wait_for_the_end(void *arg)
{
	struct victim *v = arg;
	char b;
	long n;

	while (!gmp_cancelled()) {
		switch (v->kind) {
		case 0: CHECK_EQ(gmp_chan_recv(v->c, &n), -ECANCELED); break;
		case 1: CHECK_EQ(gmp_read(v->fd, &b, 1), -ECANCELED); break;
		case 2: (void)gmp_sleep(50 * US); break;
		case 3: CHECK_EQ(gmp_sleep(1000 * SEC), -ECANCELED); break;
		default: gmp_yield();
		}
	}
	gmp_cancel_mask(1);
	CHECK_EQ(gmp_sleep(10 * US), 0);
	gmp_cancel_mask(0);
}

static void cancelling(struct rng *r)
{
	enum { MOST = 10 };
	struct victim v[MOST];
	gmp_chan *c = gmp_chan_new(sizeof(long), 0);
	gmp_g *g[MOST];
	int a, b, n = (int)draw(r, MOST);

	CHECK(c != NULL);
	if (adopted_pair(&a, &b)) {
		for (int i = 0; i < n; i++) {
			v[i] = (struct victim){ draw(r, 5), a, c };
			g[i] = spawn(wait_for_the_end, &v[i]);
		}
		nap(r, 1000);
		for (int i = 0; i < n; i++)
			CHECK_EQ(gmp_cancel(g[i]), 0);
		for (int i = 0; i < n; i++)
			join(g[i]);
		CHECK_EQ(gmp_close(a), 0);
		CHECK_EQ(gmp_close(b), 0);
	}
	gmp_chan_free(c);
	nap(r, 1000);
}

static void dumps(struct rng *r)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		CHECK_EQ(gmp_dump(fd), 0);
		CHECK_EQ(close(fd), 0);
	}
	nap(r, 1000000);
}

/* Takes all free file descriptors for up to 30 ms. */
static void hog(struct rng *r)
{
	int taken[DESCRIPTORS], n = 0;

	while (n < DESCRIPTORS && (taken[n] = fcntl(2, F_DUPFD_CLOEXEC, 3)) >= 0)
		n++;
	nap(r, 30000);
	while (n > 0)
		CHECK_EQ(close(taken[--n]), 0);
	nap(r, 500000);
}

#endif
